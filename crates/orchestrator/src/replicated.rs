//! Replicated services: slots 0 to `replicas - 1` are filled, no others are.
//!
//! When nothing is to be done this costs a few counters, however many replicas there are. Otherwise: the
//! filled slots beyond, the empty ones below (slots whose task has ended for good are passed over), and
//! slots that are filled twice.

use model::Slot;

use crate::plan::Draft;
use crate::wanted::Wanted;
use crate::{removal, slot};

/// Fills the slots that are wanted and empties the others.
pub(crate) fn fill(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, replicas: u32) {
    removal::surplus(draft, wanted, "replicas", replicas);
    let used = wanted.used();
    let mut n = used.first_empty(0);
    while n < replicas && draft.has_room() {
        slot::reconcile_wanted(draft, wanted, Slot::Number(n));
        n = used.first_empty(n + 1);
    }
    if used.doubled() > 0 {
        heal_doubles(draft, wanted, replicas);
    }
}

fn heal_doubles(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, replicas: u32) {
    // The tasks of a slot follow each other; the second one that fills it stands for it.
    let mut seen = (None, 0);
    for task in draft.view.tasks_of_service(wanted.id()).filter(|t| t.fills_slot()) {
        let Slot::Number(n) = task.slot else { return };
        if n >= replicas || !draft.has_room() {
            return;
        }
        seen = if seen.0 == Some(n) { (seen.0, seen.1 + 1) } else { (Some(n), 1) };
        if seen.1 == 2 {
            slot::reconcile_wanted(draft, wanted, task.slot);
        }
    }
}
