//! Events and lines of logs.

use std::collections::BTreeMap;
use std::sync::Arc;

use control::LogItem as Item;
use model::ServiceId;
use store::{About, Fact, KeptEvent, Subject, Tables};

use super::{text_or_none, time};
use crate::types::{Event, LogItem};

/// Names of services that a stream remembers.
const NAMES: usize = 4_096;

/// The names of services that a stream has told of, for what is told of their tasks once they are gone.
#[derive(Default)]
pub(crate) struct Names(BTreeMap<ServiceId, Arc<str>>);

impl Names {
    fn keep(&mut self, id: ServiceId, name: &Arc<str>) {
        if self.0.len() >= NAMES {
            self.0.pop_first();
        }
        self.0.insert(id, Arc::clone(name));
    }

    fn of(&mut self, tables: &Tables, id: ServiceId) -> Option<Arc<str>> {
        if let Some(service) = tables.service(id) {
            self.keep(id, &service.name);
        }
        self.0.get(&id).cloned()
    }
}

/// An event. Names of tasks come from the newest state, or from what the stream told before: the event itself knows the service
/// by its id.
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
        changes: event.changes().iter().map(words).collect(),
    };
    let (id, name) = match &event.subject {
        Subject::Cluster(cluster) => named(cluster),
        Subject::Namespace(namespace) => named(namespace),
        Subject::Job(job) => named(job),
        Subject::Service(service) => {
            names.keep(service.id, &service.name);
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
            let service = names.of(tables, task.service);
            let service = service.map_or_else(|| task.service.to_string(), |name| name.to_string());
            (task.id.to_string(), format!("{service}.{}", task.slot))
        }
    };
    Event { object: id, name, ..shown }
}

/// One thing that changed: `replicas 3 -> 5`; what is not put in words is named.
fn words(fact: &Fact) -> String {
    let Fact { what, from, to } = fact;
    match (from, to) {
        (Some(from), Some(to)) => format!("{what} {from} -> {to}"),
        (None, Some(to)) => format!("{what} -> {to}"),
        (Some(from), None) => format!("{what} {from} -> none"),
        (None, None) => what.to_string(),
    }
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
