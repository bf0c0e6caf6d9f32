//! How a service is, in numbers.

use std::sync::Arc;

use model::{Availability, Mode, Node, Rule, Service, TaskState, Time, Unplaced};
use store::Tables;

/// How a service is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ServiceStatus {
    /// How many tasks shall run: the replicas, or the nodes that comply with a global service.
    pub wanted: u32,
    /// How many wanted tasks run.
    pub running: u32,
    /// How many tasks of the current revision fill a slot.
    pub updated: u32,
    /// How many tasks have not been given a node.
    pub waiting: u32,
    /// Exactly the wanted tasks run, all of the current revision, and no other is still to end.
    pub converged: bool,
    /// When a task of it last ended by itself, or took the place of one that had, as far as decisions about it are kept: a
    /// service that has just lost a task is not steady, even if everything runs at the moment.
    pub ended_at: Option<Time>,
}

/// How a service is. Costs no look at its tasks, but one at each node for a global service.
pub fn service_status(tables: &Tables, service: &Service) -> ServiceStatus {
    let used = tables.service_use(service.id);
    let wanted = match service.mode {
        Mode::Replicated { replicas } => replicas,
        Mode::Batch { completions, .. } => completions,
        Mode::Global | Mode::GlobalBatch => complying_nodes(tables, service),
    };
    let count = |state: &TaskState| used.by_state(*state);
    let alive: u32 = TaskState::ALL.iter().filter(|s| !s.is_ended()).map(count).sum();
    let updated = used.by_revision(service.revision);
    let running = used.running();
    let is_updating = service.update_status.as_ref().is_some_and(|update| update.state.is_active());
    ServiceStatus {
        wanted,
        running,
        updated,
        waiting: used.by_state(TaskState::New) + used.by_state(TaskState::Pending),
        ended_at: ended_at(tables, service),
        converged: running == wanted
            && alive == running
            && updated == running
            && used.filled() == wanted
            && tables.tasks_leaving(service.id).next().is_none()
            && !is_updating,
    }
}

/// The newest decision that follows the end of a task. There are few decisions, whatever the number of tasks.
fn ended_at(tables: &Tables, service: &Service) -> Option<Time> {
    let follows = |rule| matches!(rule, Rule::Replace | Rule::NotReplaced | Rule::StartDelayed);
    tables.decisions(service.id).filter(|d| follows(d.rule)).map(|d| d.at).max()
}

/// How many nodes shall have a task of a global service: those that are neither down nor drained and meet its constraints;
/// a paused one keeps what it has and is given nothing.
fn complying_nodes(tables: &Tables, service: &Service) -> u32 {
    let Some(revision) = tables.revision(service.revision) else { return 0 };
    let constraints = &revision.task.placement.constraints;
    let complies = |node: &&Arc<Node>| match node.availability {
        _ if node.loses_tasks() => false,
        Availability::Pause => tables.node_use(node.id).tasks_of(service.id) > 0,
        _ => constraints.iter().all(|c| c.holds(node)),
    };
    u32::try_from(tables.nodes().filter(complies).count()).unwrap_or(u32::MAX)
}

/// Why the first of a service's waiting tasks has no node, as far as the scheduler has looked at it.
pub fn waiting_reason(tables: &Tables, service: &Service) -> Option<Arc<Unplaced>> {
    let used = tables.service_use(service.id);
    if used.by_state(TaskState::New) + used.by_state(TaskState::Pending) == 0 {
        return None;
    }
    let waiting = tables.tasks_of_service(service.id).filter(|t| t.waits_for_node());
    waiting.filter_map(|task| task.unplaced.clone()).next()
}
