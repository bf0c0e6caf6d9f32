//! What an event changed, in short texts: `replicas 3 -> 5`, `state running -> failed (exit status 1)`.
//!
//! An event carries the object as it is after it. What it was before comes from the state as of which a stream has told everything, and
//! from the events that it told since; see [`Past`]. Where that is not known nothing is said.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Labels, Mode, Node, Service, ServiceId, Task, TaskSpec};
use store::{Object, Tables};

/// Most changes that are told of one event.
const MOST: usize = 16;

/// Most characters of a text that people wrote.
const LONG: usize = 64;

/// Objects that are remembered between two looks at the whole state. Beyond that what was before is not told for a while.
const REMEMBERED: usize = 4_096;

/// Names of services that are remembered, for what is told of their tasks once they are gone.
const NAMES: usize = 4_096;

/// What a stream knows of the time before an event.
#[derive(Default)]
pub(crate) struct Past {
    /// The state as of which every event was told.
    base: Option<Arc<Tables>>,
    /// What events told since.
    since: BTreeMap<(&'static str, String), Object>,
    names: BTreeMap<ServiceId, Arc<str>>,
}

impl Past {
    /// Every event up to the index of this state has been told.
    pub(crate) fn settle(&mut self, tables: Arc<Tables>) {
        self.base = Some(tables);
        self.since.clear();
    }

    /// What this object was before, as far as that is known. From now on it is what it is here.
    pub(crate) fn replace(&mut self, kind: &'static str, id: &str, object: &Object) -> Option<Object> {
        if let Object::Service(service) = object {
            self.name(service);
        }
        if self.since.len() >= REMEMBERED {
            self.base = None;
            self.since.clear();
        }
        let before = self.since.insert((kind, id.to_owned()), object.clone());
        before.or_else(|| self.base.as_deref().and_then(|tables| find(tables, object)))
    }

    fn name(&mut self, service: &Service) {
        if self.names.len() >= NAMES {
            self.names.pop_first();
        }
        self.names.insert(service.id, Arc::clone(&service.name));
    }

    /// The name of a service, though it may be gone.
    pub(crate) fn service_name(&mut self, tables: &Tables, id: ServiceId) -> Option<Arc<str>> {
        let service = tables.service(id).or_else(|| self.base.as_deref()?.service(id)).cloned();
        if let Some(service) = service {
            self.name(&service);
        }
        self.names.get(&id).cloned()
    }
}

/// The same object in this state.
fn find(tables: &Tables, object: &Object) -> Option<Object> {
    Some(match object {
        Object::Cluster(_) => Object::Cluster(Arc::clone(tables.cluster()?)),
        Object::Namespace(it) => Object::Namespace(Arc::clone(tables.namespace(it.id)?)),
        Object::Node(it) => Object::Node(Arc::clone(tables.node(it.id)?)),
        Object::Job(it) => Object::Job(Arc::clone(tables.job(it.id)?)),
        Object::Service(it) => Object::Service(Arc::clone(tables.service(it.id)?)),
        Object::Task(it) => Object::Task(Arc::clone(tables.task(it.id)?)),
    })
}

/// What is different, in order of weight; nothing when that is nothing that is told.
pub(crate) fn changes(tables: &Tables, before: &Object, after: &Object) -> Vec<String> {
    let mut texts = match (before, after) {
        (Object::Task(old), Object::Task(new)) => of_task(tables, old, new),
        (Object::Service(old), Object::Service(new)) => of_service(tables, old, new),
        (Object::Node(old), Object::Node(new)) => of_node(old, new),
        (Object::Job(old), Object::Job(new)) => {
            let mut texts = Vec::new();
            moved(&mut texts, "submission", old.number, new.number);
            moved(&mut texts, "priority", old.priority, new.priority);
            labels(&mut texts, &old.labels, &new.labels);
            texts
        }
        (Object::Cluster(old), Object::Cluster(new)) if old != new => vec!["settings".into()],
        _ => Vec::new(),
    };
    texts.truncate(MOST);
    texts
}

fn moved<T: PartialEq + ToString>(texts: &mut Vec<String>, what: &str, old: T, new: T) {
    if old != new {
        texts.push(format!("{what} {} -> {}", clip(&old.to_string()), clip(&new.to_string())));
    }
}

fn differs<T: PartialEq>(texts: &mut Vec<String>, what: &str, old: &T, new: &T) {
    if old != new {
        texts.push(what.into());
    }
}

fn clip(text: &str) -> String {
    if text.chars().count() <= LONG {
        text.into()
    } else {
        text.chars().take(LONG - 1).chain(['…']).collect()
    }
}

fn labels(texts: &mut Vec<String>, old: &Labels, new: &Labels) {
    for (name, value) in new {
        match old.get(name) {
            None => texts.push(format!("label {}={} added", clip(name), clip(value))),
            Some(was) => moved(texts, &format!("label {}", clip(name)), &**was, &**value),
        }
    }
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    texts.extend(gone.map(|name| format!("label {} removed", clip(name))));
}

fn of_task(tables: &Tables, old: &Task, new: &Task) -> Vec<String> {
    let mut texts = Vec::new();
    moved(&mut texts, "state", old.status.state, new.status.state);
    // How it ended belongs to that it did.
    if let (Some(text), Some(message)) = (texts.last_mut(), &new.status.message)
        && old.status.message != new.status.message
    {
        text.push_str(&format!(" ({message})"));
    }
    moved(&mut texts, "desired", old.desired, new.desired);
    if let Some(node) = new.node.filter(|_| old.node != new.node) {
        let name = tables.node(node).map(|n| n.description.hostname.to_string());
        texts.push(format!("placed on {}", name.unwrap_or_else(|| node.to_string())));
    }
    for now in &new.programs {
        let restarts = old.programs.iter().find(|p| p.name == now.name).map_or(0, |p| p.restarts);
        if now.restarts > restarts {
            texts.push(format!("{} restarted in place ({} times)", now.name, now.restarts));
        }
    }
    texts
}

fn of_service(tables: &Tables, old: &Service, new: &Service) -> Vec<String> {
    let mut texts = Vec::new();
    match (old.mode, new.mode) {
        (Mode::Replicated { replicas: old }, Mode::Replicated { replicas: new }) => {
            moved(&mut texts, "replicas", old, new);
        }
        (
            Mode::Batch { completions: old_all, concurrency: old_most },
            Mode::Batch { completions, concurrency },
        ) => {
            moved(&mut texts, "completions", old_all, completions);
            moved(&mut texts, "concurrency", old_most, concurrency);
        }
        (old, new) => moved(&mut texts, "mode", old.as_str(), new.as_str()),
    }
    if old.revision != new.revision {
        let number = |id| tables.revision(id).map_or_else(|| "?".to_owned(), |r| r.number.to_string());
        let what = match (tables.revision(old.revision), tables.revision(new.revision)) {
            (Some(old), Some(new)) => of_spec(&old.task, &new.task),
            _ => Vec::new(),
        };
        let what = if what.is_empty() { String::new() } else { format!(" ({})", what.join(", ")) };
        texts.push(format!("revision {} -> {}{what}", number(old.revision), number(new.revision)));
    }
    moved(&mut texts, "priority", old.priority, new.priority);
    differs(&mut texts, "update policy", &old.update, &new.update);
    labels(&mut texts, &old.labels, &new.labels);
    texts
}

/// The fields that differ.
fn of_spec(old: &TaskSpec, new: &TaskSpec) -> Vec<String> {
    let mut texts = Vec::new();
    differs(&mut texts, "restart policy", &old.replace, &new.replace);
    differs(&mut texts, "placement", &old.placement, &new.placement);
    differs(&mut texts, "ports", &old.ports, &new.ports);
    differs(&mut texts, "forced", &old.force, &new.force);
    let names = |spec: &TaskSpec| spec.programs.iter().map(|p| Arc::clone(&p.name)).collect::<Vec<_>>();
    differs(&mut texts, "programs", &names(old), &names(new));
    for now in &new.programs {
        let Some(was) = old.programs.iter().find(|p| p.name == now.name) else { continue };
        let several = if new.programs.len() > 1 { format!("{}: ", clip(&now.name)) } else { String::new() };
        let fields = [
            ("command", was.command != now.command),
            ("environment", was.env != now.env),
            ("directory", was.dir != now.dir),
            ("user", was.user != now.user),
            ("limits", was.limits != now.limits),
            ("reservations", was.reserve != now.reserve),
            ("driver", was.driver != now.driver),
            ("stopping", (&was.stop_signal, was.stop_grace) != (&now.stop_signal, now.stop_grace)),
            ("restart in place", was.restart != now.restart),
            ("logging", was.log != now.log),
        ];
        texts.extend(
            fields.iter().filter(|(_, differs)| *differs).map(|(what, _)| format!("{several}{what}")),
        );
    }
    texts.truncate(MOST);
    texts
}

fn of_node(old: &Node, new: &Node) -> Vec<String> {
    let mut texts = Vec::new();
    moved(&mut texts, "state:", old.status.state.as_str(), new.status.state.as_str());
    moved(&mut texts, "availability:", old.availability.as_str(), new.availability.as_str());
    moved(&mut texts, "role:", old.role.as_str(), new.role.as_str());
    labels(&mut texts, &old.labels, &new.labels);
    let (was, now) = (&old.description, &new.description);
    moved(&mut texts, "hostname:", &*was.hostname, &*now.hostname);
    moved(&mut texts, "agent:", &*was.version, &*now.version);
    differs(&mut texts, "resources", &was.resources, &now.resources);
    differs(&mut texts, "drivers", &was.drivers, &now.drivers);
    differs(&mut texts, "engine labels", &was.engine_labels, &now.engine_labels);
    texts
}
