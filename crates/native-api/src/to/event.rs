//! Events and lines of logs.

use control::{LogItem as Item, tasks};
use store::{About, KeptEvent, Subject, Tables};

use super::{text_or_none, time};
use crate::types::{Event, LogItem};

/// An event. Names of tasks come from the newest state: the event itself knows the service by its id.
pub(crate) fn event(tables: &Tables, event: &KeptEvent) -> Event {
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
    };
    let (id, name) = match &event.subject {
        Subject::Cluster(cluster) => named(cluster),
        Subject::Namespace(namespace) => named(namespace),
        Subject::Job(job) => named(job),
        Subject::Service(service) => named(service),
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
            (task.id.to_string(), tasks::name_of_slot(tables, task.service, task.slot))
        }
    };
    Event { object: id, name, ..shown }
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
pub(crate) fn log_item(tables: &Tables, item: Item) -> LogItem {
    match item {
        Item::Warning(message) => LogItem::Warning { message },
        Item::Line(line) => LogItem::Line {
            task: line.task.to_string(),
            name: tables.task(line.task).map_or_else(|| line.task.to_string(), |t| tasks::name(tables, t)),
            program: line.program.to_string(),
            at: time(line.at),
            stream: if line.stderr { "stderr" } else { "stdout" }.into(),
            partial: line.partial,
            text: line.text,
        },
    }
}
