//! How tasks go: told to end and be forgotten while their agent has them, forgotten at once when nothing
//! holds them.

use std::sync::Arc;

use model::{Desired, Rule, ServiceId, Slot, Task, TaskState};

use crate::plan::Draft;
use crate::wanted::Wanted;

/// Takes one more step towards a task's being forgotten. True when there was one to take.
pub(crate) fn remove(draft: &mut Draft<'_, '_>, task: &Task) -> bool {
    if !draft.view.is_settled(task.modified) {
        return false;
    }
    if holds_nothing(task) {
        draft.delete(task);
    } else if task.desired < Desired::Remove {
        draft.direct(task, Desired::Remove);
    } else {
        // Its agent has not ended it yet, or its node is away: the end, or the orphaning, marks the slot.
        return false;
    }
    true
}

/// Tells a task to end; one that was never assigned leaves nothing worth keeping.
pub(crate) fn stop(draft: &mut Draft<'_, '_>, task: &Task) {
    if holds_nothing(task) {
        draft.delete(task);
    } else {
        draft.direct(task, Desired::Shutdown);
    }
}

/// As [`stop`], for a reason that is shown with the task.
pub(crate) fn dismiss(draft: &mut Draft<'_, '_>, task: &Task, reason: Arc<str>) {
    if holds_nothing(task) {
        draft.delete(task);
    } else {
        draft.dismiss(task, reason);
    }
}

/// True when no agent has, or will ever get, the task: it has ended or was never assigned.
pub(crate) fn holds_nothing(task: &Task) -> bool {
    task.status.state.is_ended() || task.status.state < TaskState::Assigned
}

/// Removes what is left of a service that is gone.
pub(crate) fn all(draft: &mut Draft<'_, '_>, service: ServiceId) {
    draft.guard_service(service);
    from_slot(draft, service, 0, &mut |_, _| {});
}

/// Removes the slots beyond the wanted number (`what` it is a number of), the highest first.
///
/// SwarmKit chooses any slots: those of nodes that have most, and not running ones first. Here a slot's
/// number is its right to be there: whether it is wanted can be told from it alone, numbers stay without
/// gaps, and what was scaled away comes back under the same numbers. A low slot that waits for a node is
/// kept, and gets the room that the high ones leave.
pub(crate) fn surplus(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, what: &str, replicas: u32) {
    let (service, used) = (wanted.id(), wanted.used());
    let rest = format!("removed: {what} {replicas}, filled {}", used.filled());
    let before = draft.room();
    from_slot(draft, service, replicas, &mut |draft, task| {
        if task.fills_slot() {
            draft.count_once(task.id, service, Rule::ScaleDown, rest.clone());
        }
    });
    if draft.room() < before {
        draft.guard_service(service);
    }
}

/// Removes every task from a numbered slot on, and all global ones.
///
/// The filled slots come first, downwards from the highest: with each plan fewer of them are left, so that
/// a plan never walks over what earlier ones have told to end already. Then what is ended or was never
/// assigned above them.
fn from_slot(
    draft: &mut Draft<'_, '_>,
    service: ServiceId,
    from: u32,
    told: &mut dyn FnMut(&mut Draft<'_, '_>, &Task),
) {
    let view = draft.view;
    let highest = view.service_use(service).highest_filled().filter(|n| *n >= from);
    if let Some(highest) = highest {
        for n in (from..=highest).rev() {
            for task in view.tasks_of_slot(service, Slot::Number(n)) {
                if !draft.has_room() {
                    return;
                }
                if remove(draft, task) {
                    told(draft, task);
                }
            }
        }
    }
    let above = highest.map_or(from, |n| n.saturating_add(1));
    for task in view.tasks_from_slot(service, Slot::Number(above)) {
        if !draft.has_room() {
            return;
        }
        if remove(draft, task) {
            told(draft, task);
        }
    }
}
