//! Events and lines of logs.

use control::LogItem as Item;
use store::{Action, Object, Tables};

use super::changes::{Past, changes};
use super::{text_or_none, time};
use crate::types::{Event, LogItem};

/// An event. Names come from the newest state, or from what the stream told before: the event itself holds only its object.
pub(crate) fn event(tables: &Tables, past: &mut Past, event: &store::Event) -> Event {
    let mut shown = Event {
        id: event.id.to_string(),
        at: time(event.at),
        kind: kind(&event.object).into(),
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
    let (id, name) = match &event.object {
        Object::Cluster(cluster) => (cluster.id.to_string(), cluster.name.to_string()),
        Object::Namespace(namespace) => (namespace.id.to_string(), namespace.name.to_string()),
        Object::Job(job) => (job.id.to_string(), job.name.to_string()),
        Object::Service(service) => (service.id.to_string(), service.name.to_string()),
        Object::Node(node) => {
            shown.state = Some(node.status.state.as_str().into());
            shown.message = text_or_none(&node.status.message);
            (node.id.to_string(), node.description.hostname.to_string())
        }
        Object::Task(task) => {
            shown.service = Some(task.service.to_string());
            shown.node = task.node.map(|id| id.to_string());
            shown.state = Some(task.status.state.to_string());
            shown.desired = Some(task.desired.to_string());
            let unplaced = task.unplaced.as_ref().filter(|_| task.waits_for_node());
            shown.message =
                unplaced.map(ToString::to_string).or(task.status.message.as_ref().map(ToString::to_string));
            let service = past.service_name(tables, task.service);
            let service = service.map_or_else(|| task.service.to_string(), |name| name.to_string());
            (task.id.to_string(), format!("{service}.{}", task.slot))
        }
    };
    let before = past.replace(kind(&event.object), &id, &event.object);
    if let Some(before) = before.filter(|_| event.action == Action::Updated) {
        shown.changes = changes(tables, &before, &event.object);
    }
    Event { object: id, name, ..shown }
}

/// The word for what an event is about.
pub(crate) fn kind(object: &Object) -> &'static str {
    match object {
        Object::Cluster(_) => "cluster",
        Object::Namespace(_) => "namespace",
        Object::Node(_) => "node",
        Object::Job(_) => "job",
        Object::Service(_) => "service",
        Object::Task(_) => "task",
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
