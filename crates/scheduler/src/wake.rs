//! Which events are worth a pass.

use model::Task;
use store::{Action, Event, Object};

/// True when an event can change what the scheduler would answer: then a pass is due.
///
/// - A node: always; it may have come, gone, changed its labels, drivers or size.
/// - A task: when it is made and waits; when it has a node and has ended, for then it gave back what it held; when it has a
///   node and ceases to be wanted, for then it counts no more among its service's tasks there.
///
/// - A service: when it is removed, for reasons name it while it holds a port; when its priority or its wishes change, for then
///   other tasks may have to give way to its own.
///
/// A task that was assigned or moves on takes room and never makes any, so it cannot help one that waits. A task that is
/// deleted held nothing any more. That a waiting task was explained, or is wanted sooner or later, changes no answer;
/// a pass that had to leave such a task alone because the change was in flight says so
/// ([`Placements::held`](crate::Placements::held)). What else changes a service brings events of its tasks.
pub fn relevant(event: &Event) -> bool {
    match &event.object {
        Object::Node(_) => true,
        Object::Task(task) => match event.action {
            Action::Created => task.waits_for_node(),
            Action::Updated => {
                task.node.is_some() && (task.status.state.is_ended() || gave_up_its_place(event, task))
            }
            Action::Deleted => false,
        },
        Object::Service(service) => match (event.action, &event.before) {
            (Action::Created, _) => false,
            (Action::Updated, Some(Object::Service(old))) => {
                (old.priority, &old.steering) != (service.priority, &service.steering)
            }
            _ => true,
        },
        Object::Cluster(_) | Object::Namespace(_) | Object::Job(_) => false,
    }
}

fn gave_up_its_place(event: &Event, task: &Task) -> bool {
    let was_wanted = |before: &Object| !matches!(before, Object::Task(old) if !old.desired.is_wanted());
    !task.desired.is_wanted() && event.before.as_ref().is_none_or(was_wanted)
}
