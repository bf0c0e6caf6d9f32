//! Which tasks are meant.

use std::sync::Arc;

use model::{Desired, Id, NamespaceId, NodeId, Service, ServiceId, Slot, Task, TaskId, TaskState};
use store::Tables;

use crate::{Kind, RequestError, find, nodes, services};

/// Which tasks are wanted; everything given must hold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TaskFilter {
    /// Of this service, also one that was removed.
    pub service: Option<ServiceId>,
    /// On this node.
    pub node: Option<NodeId>,
    /// One of these is wanted of it; any when empty.
    pub desired: Vec<Desired>,
    /// It has reached one of these; any when empty.
    pub state: Vec<TaskState>,
}

/// The tasks that a filter lets through: those of a service by slot and age, others by id.
pub fn list(tables: &Tables, filter: &TaskFilter) -> Vec<Arc<Task>> {
    let fits = |task: &&Arc<Task>| {
        filter.service.is_none_or(|service| task.service == service)
            && filter.node.is_none_or(|node| task.node == Some(node))
            && (filter.desired.is_empty() || filter.desired.contains(&task.desired))
            && (filter.state.is_empty() || filter.state.contains(&task.status.state))
    };
    match (filter.service, filter.node) {
        (Some(service), _) => tables.tasks_of_service(service).filter(fits).cloned().collect(),
        (None, Some(node)) => tables.tasks_of_node(node).filter(fits).cloned().collect(),
        (None, None) => tables.tasks().filter(fits).cloned().collect(),
    }
}

/// What people call a task: the name of its service (its id once the service is gone) and its slot.
pub fn name(tables: &Tables, task: &Task) -> String {
    name_of_slot(tables, task.service, task.slot)
}

/// What people call whatever task fills a slot, as [`name`].
pub fn name_of_slot(tables: &Tables, service: ServiceId, slot: Slot) -> String {
    match tables.service(service) {
        Some(service) => format!("{}.{slot}", service.name),
        None => format!("{service}.{slot}"),
    }
}

/// The task that a reference means: its id, `service.slot` (with the slot from 1, or for a global service the node's id
/// or host name), or the beginning of its id. Of several tasks in a slot it is the one that fills it, else the newest.
///
/// # Errors
/// Nothing fits, or more than one does.
pub fn find<'t>(tables: &'t Tables, reference: &str, me: NodeId) -> Result<&'t Arc<Task>, RequestError> {
    find::one(
        Kind::Task,
        reference,
        |id: Option<Id>| {
            let by_id = id.and_then(|id| tables.task(TaskId(id)));
            by_id.or_else(|| by_name(tables, reference, me))
        },
        |range| tables.tasks_in_prefix(range),
        |task| format!("task {} ({})", name(tables, task), task.id),
    )
}

fn by_name<'t>(tables: &'t Tables, reference: &str, me: NodeId) -> Option<&'t Arc<Task>> {
    let (service, slot) = reference.split_once('.')?;
    let service = tables
        .service_by_name(NamespaceId::DEFAULT, service)
        .or_else(|| services::find(tables, service).ok())?;
    // As docker writes it, `service.slot.task`, the last part alone decides.
    if let Some((_, id)) = slot.rsplit_once('.')
        && let Ok(id) = id.parse()
    {
        return tables.task(id).filter(|task| task.service == service.id);
    }
    let slot = slot_of(tables, service, slot, me)?;
    let in_slot = || tables.tasks_of_slot(service.id, slot);
    in_slot().filter(|task| task.fills_slot()).last().or_else(|| in_slot().last())
}

fn slot_of(tables: &Tables, service: &Service, text: &str, me: NodeId) -> Option<Slot> {
    if service.mode.is_global() {
        return nodes::find(tables, text, me).ok().map(|node| Slot::Node(node.id));
    }
    let shown: u32 = text.parse().ok()?;
    shown.checked_sub(1).map(Slot::Number)
}
