//! Replicated services: slots 0 to `replicas - 1` are filled, no others are.
//!
//! When nothing is to be done this costs a few counters, however many replicas there are. Otherwise: the
//! filled slots beyond, the empty ones below (slots whose task has ended for good are passed over by intervals: where another task is made,
//! the one before loses its say),
//! slots that are filled twice, which may have reached their next step, and those in which canaries stand.

use model::Slot;

use crate::plan::Draft;
use crate::wanted::Wanted;
use crate::{removal, slot};

/// Fills the slots that are wanted and empties the others.
pub(crate) fn fill(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, replicas: u32) {
    removal::surplus(draft, wanted, "replicas", replicas);
    let used = wanted.used();
    // Where canaries are tried, what ended for good is not of the revision that the slot goes on with.
    let tried = wanted.service.tries_canaries();
    let next = |n| if tried { used.first_empty(n) } else { used.first_vacant(wanted.service.revision, n) };
    let mut n = next(0);
    while n < replicas && draft.has_room() {
        slot::reconcile_wanted(draft, wanted, Slot::Number(n));
        n = next(n + 1);
    }
    // A slot that a canary fills may lack its own task.
    let canaries = wanted.service.canaries();
    let mut n = 0;
    while n < canaries && draft.has_room() {
        if used.first_empty(n) != n {
            slot::reconcile_wanted(draft, wanted, Slot::Number(n));
        }
        n += 1;
    }
    // Slots that two tasks fill: by mistake, or because they are changed or moved.
    for slot in used.doubled_slots() {
        let Slot::Number(n) = slot else { return };
        if n >= replicas || !draft.has_room() {
            return;
        }
        if n >= canaries && !draft.has_touched(wanted.id(), slot) {
            slot::reconcile_wanted(draft, wanted, slot);
        }
    }
}
