//! What is kept of tasks that have ended.

use model::limits;
use store::Tables;

/// How many ended tasks of a slot are kept.
pub(crate) fn kept(view: &Tables) -> usize {
    view.cluster().map_or(limits::HISTORY_KEPT, |c| c.history as usize)
}
