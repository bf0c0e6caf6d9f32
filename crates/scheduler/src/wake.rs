//! Which events are worth a pass.

use model::{Service, ServiceId, Task};
use store::{Action, Event, Object, Tables};

/// True when an event can change what the scheduler would answer: then a pass is due.
///
/// - A node: always; it may have come, gone, changed its labels, drivers or size.
/// - A task: when it is made and waits; when it has a node and has ended, for then it gave back what it held; when it has a
///   node and ceases to be wanted, for then it counts no more among its service's tasks there.
///
/// - A service: when it is removed, for reasons name it while it holds a port; when its priority or its wishes change, for then
///   other tasks may have to give way to its own; likewise what its budget leaves to preemption.
/// - A task that others may end for, when it ceases to wait without a node: the next gets the room that was kept for it.
/// - A task that begins to run, of a service with a budget, while one that may end others waits: one more may end.
///
/// Otherwise a task that was assigned or moves on takes room and never makes any, so it cannot help one that waits. A task that is
/// deleted held nothing any more. That a waiting task was explained, or is wanted sooner or later, changes no answer;
/// a pass that had to leave such a task alone because the change was in flight says so
/// ([`Placements::held`](crate::Placements::held)). What else changes a service brings events of its tasks.
pub fn relevant(event: &Event, view: &Tables) -> bool {
    match &event.object {
        Object::Node(_) => true,
        Object::Task(task) => match event.action {
            Action::Created => task.waits_for_node(),
            Action::Updated => {
                let gave = || task.status.state.is_ended() || gave_up_its_place(event, task);
                let now = task.node.is_some() && (gave() || may_end_now(event, task, view));
                now || waits_no_more(event, task, view)
            }
            Action::Deleted => task.waits_for_node() && preempts(view, task.service),
        },
        Object::Service(service) => match (event.action, &event.before) {
            (Action::Created, _) => false,
            (Action::Updated, Some(Object::Service(old))) => {
                let of = |s: &Service| (s.priority, s.floor());
                of(old) != of(service) || old.steering != service.steering
            }
            _ => true,
        },
        Object::Cluster(_) | Object::Namespace(_) | Object::Job(_) => false,
    }
}

fn preempts(view: &Tables, service: ServiceId) -> bool {
    view.service(service).is_some_and(|service| service.steering.preempt)
}

/// True when a task that others may end for has ceased to wait without a node: room that was kept for it is there for the next.
fn waits_no_more(event: &Event, task: &Task, view: &Tables) -> bool {
    let waited = |before: &Object| matches!(before, Object::Task(old) if old.waits_for_node());
    let ceased = task.node.is_none() && !task.waits_for_node();
    ceased && event.before.as_ref().is_some_and(waited) && preempts(view, task.service)
}

fn gave_up_its_place(event: &Event, task: &Task) -> bool {
    let was_wanted = |before: &Object| !matches!(before, Object::Task(old) if !old.desired.is_wanted());
    !task.desired.is_wanted() && event.before.as_ref().is_none_or(was_wanted)
}

/// True when a task has come to run, so that its service can spare one, and somebody waits for whom one may end.
fn may_end_now(event: &Event, task: &Task, view: &Tables) -> bool {
    let ran = |before: &Object| matches!(before, Object::Task(old) if old.is_running());
    let begins = task.is_running() && !event.before.as_ref().is_some_and(ran);
    begins && view.service(task.service).is_some_and(|service| service.floor() > 0) && {
        view.waiting_groups().any(|(service, ..)| preempts(view, service))
    }
}
