//! What is still on a node that is drained, and what it waits for.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Availability, LeaveReason, Mode, Node, NodeState, Service, ServiceId, Task, TaskState};
use store::Tables;

/// What is still on a drained node.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Draining {
    /// How many tasks hold a place there, those that are ending included.
    pub left: u32,
    /// The services that have tasks there, by name.
    pub services: Vec<LeavingService>,
}

/// The tasks of one service there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeavingService {
    /// The service.
    pub service: ServiceId,
    /// Its name; its id when it was removed.
    pub name: Arc<str>,
    /// How many tasks hold a place there.
    pub left: u32,
    /// What the next of them waits for, as it follows the service's name: `waits for ...`.
    pub waits_for: String,
}

/// What is still on a node; `None` unless it is drained. Costs the tasks on it and those of their slots.
pub fn draining(tables: &Tables, node: &Node) -> Option<Draining> {
    if node.availability != Availability::Drain {
        return None;
    }
    let mut of: BTreeMap<ServiceId, Vec<&Task>> = BTreeMap::new();
    for task in tables.tasks_of_node(node.id).filter(|t| t.holds_reservation()) {
        of.entry(task.service).or_default().push(task);
    }
    let mut services: Vec<LeavingService> = of
        .into_iter()
        .map(|(id, tasks)| {
            let service = tables.service(id);
            LeavingService {
                service: id,
                name: service.map_or_else(|| id.to_string().into(), |s| Arc::clone(&s.name)),
                left: tasks.len() as u32,
                waits_for: match service {
                    _ if node.status.state == NodeState::Down => "cannot be told: the node is down".into(),
                    Some(service) => waits_for(tables, service, &tasks),
                    None => "is ending".into(),
                },
            }
        })
        .collect();
    services.sort_by(|a, b| (&a.name, a.service).cmp(&(&b.name, b.service)));
    Some(Draining { left: services.iter().map(|s| s.left).sum(), services })
}

/// What the tasks of a service on a drained node wait for: the first that says something, those that are being moved before others.
fn waits_for(tables: &Tables, service: &Service, tasks: &[&Task]) -> String {
    let leaving = || tasks.iter().copied().filter(|t| t.fills_slot() && t.leave.is_some());
    if let Some(text) = leaving().find_map(|task| step(tables, task)) {
        return text;
    }
    let Some(task) = leaving().next() else { return "is ending".into() };
    if task.revision != service.revision
        && !service.update_status.as_ref().is_some_and(|u| u.state.is_paused())
    {
        return "waits for its update, which has its slots".into();
    }
    let Mode::Replicated { replicas } = service.mode else { return "is ending".into() };
    let (healthy, floor) = (tables.healthy(service.id), service.floor());
    let drained = task.leave.as_deref().is_some_and(|l| l.why == LeaveReason::Drain);
    let surge = service.disruption.surge(replicas);
    let doubled = tables.service_use(service.id).doubled();
    match surge {
        0 if drained && healthy <= floor => {
            format!("waits for its budget: {healthy} run, and {floor} have to")
        }
        surge if surge > 0 && doubled >= surge => {
            format!("waits for its turn: {doubled} of at most {surge} at a time are moved")
        }
        _ => match tried(tables, task) {
            Some(message) => format!("is tried again: the last one {message}"),
            None => "is about to be moved".into(),
        },
    }
}

/// How far the move of a task has come, when the next one of its slot is there.
fn step(tables: &Tables, task: &Task) -> Option<String> {
    let mut others = tables.tasks_of_slot(task.service, task.slot).filter(|t| t.created > task.created);
    let next = others.find(|t| t.fills_slot())?;
    Some(match (&next.unplaced, next.status.state) {
        (Some(why), state) if state < TaskState::Assigned => format!("waits for a node: {why}"),
        (None, state) if state < TaskState::Assigned => "waits for a node".into(),
        (_, TaskState::Running) => "waits: the next one runs and is watched".into(),
        (_, state) => format!("waits for the next one, which is {state}"),
    })
}

/// Why the last attempt to move a task came to nothing.
fn tried(tables: &Tables, task: &Task) -> Option<Arc<str>> {
    let since = task.leave.as_deref()?.since;
    let tasks = tables.tasks_of_slot(task.service, task.slot);
    let ended = tasks.filter(|t| t.created > task.created && t.created_at >= since && !t.fills_slot());
    let last = ended.last()?;
    Some(last.status.message.clone().unwrap_or_else(|| format!("is {}", last.status.state).into()))
}
