//! Global services: one task (with `global-batch`: one run, see [`crate::batch`]) on each node that is neither down nor drained and meets the service's
//! constraints. What else could speak against a node is the scheduler's question. Costs the nodes of the
//! cluster.

use model::Slot;

use crate::plan::Draft;
use crate::slot;
use crate::wanted::Wanted;

/// Looks at the slot of every node, and at slots whose node is gone.
pub(crate) fn fill(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>) {
    let view = draft.view;
    for node in view.nodes() {
        if !draft.has_room() {
            return;
        }
        slot::reconcile_wanted(draft, wanted, Slot::Node(node.id));
    }
    let mut last = None;
    for task in view.tasks_of_service(wanted.id()) {
        let has_node = matches!(task.slot, Slot::Node(id) if view.node(id).is_some());
        if has_node || last == Some(task.slot) {
            continue;
        }
        if !draft.has_room() {
            return;
        }
        last = Some(task.slot);
        slot::reconcile_wanted(draft, wanted, task.slot);
    }
}
