//! Replicated services: slots 0 to `replicas - 1` are filled, no others are.
//!
//! When nothing is to be done this costs a few counters, however many replicas there are. Otherwise: the
//! filled slots beyond, the empty ones below (slots whose task has ended for good are passed over), and
//! slots that are filled twice, which may have reached their next step.

use model::Slot;

use crate::plan::Draft;
use crate::wanted::Wanted;
use crate::{removal, slot};

/// Fills the slots that are wanted and empties the others.
pub(crate) fn fill(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, replicas: u32) {
    removal::surplus(draft, wanted, replicas);
    let used = wanted.used();
    let mut n = used.first_empty(0);
    while n < replicas && draft.has_room() {
        slot::reconcile_wanted(draft, wanted, Slot::Number(n));
        n = used.first_empty(n + 1);
    }
    if used.doubled() > 0 {
        look_at_doubles(draft, wanted, replicas);
    }
}

/// Slots that two tasks fill: by mistake, or because they are changed or moved.
fn look_at_doubles(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, replicas: u32) {
    for slot in wanted.used().doubled_slots() {
        if !matches!(slot, Slot::Number(n) if n < replicas) || !draft.has_room() {
            return;
        }
        if !draft.has_touched(wanted.id(), slot) {
            slot::reconcile_wanted(draft, wanted, slot);
        }
    }
}
