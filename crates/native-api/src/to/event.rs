//! Events and lines of logs.

use std::collections::BTreeMap;
use std::sync::Arc;

use control::LogItem as Item;
use model::ServiceId;
use store::{About, Fact, KeptEvent, Subject, Tables};

use super::{text_or_none, time};
use crate::types::{Event, LogItem};

/// Names of services that are remembered.
const NAMES: usize = 4_096;

/// The names of services that a stream has met, for what is told of their tasks once they are gone.
#[derive(Default)]
pub(crate) struct Names(BTreeMap<ServiceId, Arc<str>>);

impl Names {
    fn put(&mut self, id: ServiceId, name: &Arc<str>) {
        if self.0.get(&id) == Some(name) {
            return;
        }
        if self.0.len() >= NAMES {
            self.0.pop_first();
        }
        self.0.insert(id, Arc::clone(name));
    }

    fn of(&mut self, tables: &Tables, id: ServiceId) -> String {
        if let Some(service) = tables.service(id) {
            self.put(id, &service.name);
        }
        self.0.get(&id).map_or_else(|| id.to_string(), |name| name.to_string())
    }
}

/// An event. Names of tasks come from the newest state, or from what the stream told before: the event itself knows the service by
/// its id.
pub(crate) fn event(tables: &Tables, names: &mut Names, event: &KeptEvent) -> Event {
    let mut shown = Event {
        id: event.id.to_string(),
        at: time(event.at),
        kind: kind(&event.subject).into(),
        action: event.action.as_str().into(),
        object: String::new(),
        name: String::new(),
        version: event.id.index,
        service: None,
        node: None,
        state: None,
        desired: None,
        message: None,
        changes: Vec::new(),
    };
    let (id, name) = match &event.subject {
        Subject::Cluster(cluster) => named(cluster),
        Subject::Namespace(namespace) => named(namespace),
        Subject::Job(job) => named(job),
        Subject::Service(service) => {
            names.put(service.id, &service.name);
            named(service)
        }
        Subject::Node { about, state, message } => {
            shown.state = Some(state.as_str().into());
            shown.message = text_or_none(message);
            named(about)
        }
        Subject::Task(task) => {
            shown.service = Some(task.service.to_string());
            shown.node = task.node.map(|id| id.to_string());
            shown.state = Some(task.state.to_string());
            shown.desired = Some(task.desired.to_string());
            shown.message = task.message.as_ref().map(ToString::to_string);
            (task.id.to_string(), format!("{}.{}", names.of(tables, task.service), task.slot))
        }
    };
    shown.changes = event.changes().iter().map(|fact| change(tables, &event.subject, fact)).collect();
    Event { object: id, name, ..shown }
}

/// A change in words: `replicas 3 -> 5`, `state running -> failed (exit status 1)`.
fn change(tables: &Tables, subject: &Subject, fact: &Fact) -> String {
    let what = match (subject, &*fact.what) {
        (Subject::Job(_), "number") => "submission",
        (_, what) => what,
    };
    // What a node says of itself are words, not numbers.
    let colon = if matches!(subject, Subject::Node { .. }) { ":" } else { "" };
    let text = match (&fact.from, &fact.to) {
        (Some(from), Some(to)) => format!("{what}{colon} {} -> {}", or_none(from), or_none(to)),
        (None, Some(to)) if what == "node" => {
            let node = to.parse().ok().and_then(|id| tables.node(model::NodeId(id)));
            format!("placed on {}", node.map_or(to, |node| &node.description.hostname))
        }
        (None, Some(to)) => format!("{what}={to} added"),
        (Some(_), None) => format!("{what} removed"),
        (None, None) => format!("{what} changed"),
    };
    match subject {
        // How it ended belongs to that it did.
        Subject::Task(task) if what == "state" => match task.message.as_deref().filter(|m| !m.is_empty()) {
            Some(message) => format!("{text} ({message})"),
            None => text,
        },
        _ => text,
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

fn named<I: ToString>(about: &About<I>) -> (String, String) {
    (about.id.to_string(), about.name.to_string())
}

/// The word for what an event is about.
pub(crate) fn kind(subject: &Subject) -> &'static str {
    match subject {
        Subject::Cluster(_) => "cluster",
        Subject::Namespace(_) => "namespace",
        Subject::Node { .. } => "node",
        Subject::Job(_) => "job",
        Subject::Service(_) => "service",
        Subject::Task(_) => "task",
    }
}

/// An item of a log stream.
pub(crate) fn log_item(item: Item) -> LogItem {
    match item {
        Item::Warning(message) => LogItem::Warning { message },
        Item::Line(line) => LogItem::Line {
            task: line.task.to_string(),
            name: line.name.to_string(),
            hostname: line.hostname.to_string(),
            program: line.program.to_string(),
            at: time(line.at),
            stream: if line.stderr { "stderr" } else { "stdout" }.into(),
            partial: line.partial,
            text: line.text,
        },
    }
}
