//! A service as a whole.

use model::{Mode, ServiceId};

use crate::plan::Draft;
use crate::wanted::{self, Found};
use crate::{batch, drain, global, removal, replicated, update};

/// Reconciles a service, or what is left of one that is gone.
pub(crate) fn reconcile(draft: &mut Draft<'_, '_>, id: ServiceId) {
    match wanted::find(draft.view, id) {
        Found::LeaveAlone => {}
        Found::Gone => removal::all(draft, id),
        Found::Here(wanted) => {
            match wanted.service.mode {
                Mode::Replicated { replicas } => replicated::fill(draft, &wanted, replicas),
                Mode::Batch { completions, .. } => batch::fill(draft, &wanted, completions),
                Mode::Global | Mode::GlobalBatch => global::fill(draft, &wanted),
            }
            update::roll(draft, &wanted);
            drain::advance(draft, &wanted);
        }
    }
}
