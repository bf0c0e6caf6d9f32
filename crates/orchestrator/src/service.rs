//! A service as a whole. The update of a global one has a key of its own.

use model::{Mode, ServiceId};

use crate::plan::Draft;
use crate::wanted::{self, Found};
use crate::{batch, drain, global, removal, replicated, update};

/// Reconciles a service, or what is left of one that is gone.
pub(crate) fn reconcile(draft: &mut Draft<'_, '_>, id: ServiceId) {
    match wanted::find(draft.view, id) {
        Found::LeaveAlone => {}
        Found::Gone => removal::all(draft, id),
        Found::Here(wanted) => match wanted.service.mode {
            Mode::Replicated { replicas } => {
                replicated::fill(draft, &wanted, replicas);
                update::roll(draft, &wanted);
                drain::advance(draft, &wanted);
            }
            Mode::Batch { completions, .. } => batch::fill(draft, &wanted, completions),
            Mode::Global | Mode::GlobalBatch => global::fill(draft, &wanted),
        },
    }
}

/// Takes the update of a global service further.
pub(crate) fn reconcile_update(draft: &mut Draft<'_, '_>, id: ServiceId) {
    if let Found::Here(wanted) = wanted::find(draft.view, id)
        && wanted.service.mode == Mode::Global
    {
        update::roll(draft, &wanted);
    }
}
