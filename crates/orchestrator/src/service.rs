//! A service as a whole.

use model::{Mode, ServiceId};

use crate::plan::Draft;
use crate::wanted::{self, Found};
use crate::{drain, global, removal, replicated, update};

/// Reconciles a service, or what is left of one that is gone.
pub(crate) fn reconcile(draft: &mut Draft<'_, '_>, id: ServiceId) {
    match wanted::find(draft.view, id) {
        Found::LeaveAlone => {}
        Found::Gone => removal::all(draft, id),
        Found::Here(wanted) => {
            match wanted.service.mode {
                Mode::Replicated { replicas } => replicated::fill(draft, &wanted, replicas),
                // `find` leaves the batch modes alone.
                Mode::Global | Mode::Batch { .. } | Mode::GlobalBatch => global::fill(draft, &wanted),
            }
            update::roll(draft, &wanted);
            drain::advance(draft, &wanted);
        }
    }
}
