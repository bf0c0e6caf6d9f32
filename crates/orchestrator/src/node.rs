//! A node: whether its tasks may stay (each by itself, and all of them together), the global services that want one there, and its end.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Node, NodeId, NodeState, Rule, Slot, Span};

use crate::plan::Draft;
use crate::wanted::{self, Found};
use crate::{drain, enforcer, slot, update};

/// Reconciles a node, or what is left of one that was removed. (Its tasks that had not ended were orphaned
/// by the store in the same step; each of them has marked its own slot.)
pub(crate) fn reconcile(draft: &mut Draft<'_, '_>, id: NodeId) {
    let view = draft.view;
    let node = view.node(id);
    if node.is_some_and(|n| !view.is_settled(n.meta.modified)) {
        return;
    }
    enforcer::judge(draft, id);
    look_at_tasks(draft, id);
    if let Some(node) = node {
        if let Some(until) = drain::deadline(node, draft.now)
            && view.tasks_of_node(id).any(|t| t.fills_slot())
        {
            draft.wake(until);
        }
        look_at_global_services(draft, node);
        if node.status.state == NodeState::Down {
            give_up_for_good(draft, node);
        }
    }
}

/// Every slot that a task here fills, or that has a new task which may wait for the end of the one here,
/// and the global slots of a node that is gone. An update that waits for the end of a task here may go on as well.
fn look_at_tasks(draft: &mut Draft<'_, '_>, id: NodeId) {
    let view = draft.view;
    let gone = view.node(id).is_none();
    let mut seen = BTreeSet::new();
    let mut ending = BTreeSet::new();
    for task in view.tasks_of_node(id) {
        let mine = task.slot == Slot::Node(id);
        let here = if mine { gone } else { task.fills_slot() || task.holds_reservation() };
        if task.holds_reservation() && !task.desired.is_wanted() {
            ending.insert(task.service);
        }
        if !here || !seen.insert((task.service, task.slot)) {
            continue;
        }
        if !draft.has_room() {
            return;
        }
        if view.service(task.service).is_some() {
            slot::reconcile(draft, task.service, task.slot);
        }
    }
    for service in ending {
        let Found::Here(wanted) = wanted::find(view, service) else { continue };
        if wanted.service.mode.is_global() || !draft.has_room() {
            continue;
        }
        update::roll(draft, &wanted);
    }
}

/// The slot that each global service has here. An update passes over nodes that take no tasks, so it may go
/// on as well.
fn look_at_global_services(draft: &mut Draft<'_, '_>, node: &Node) {
    for service in draft.view.global_services() {
        let Found::Here(wanted) = wanted::find(draft.view, service.id) else { continue };
        if !draft.has_room() {
            return;
        }
        slot::reconcile_wanted(draft, &wanted, Slot::Node(node.id));
        update::roll(draft, &wanted);
    }
}

/// Gives up what a node that stays away still holds. Unknown is then what became of it; places are free
/// again.
fn give_up_for_good(draft: &mut Draft<'_, '_>, node: &Node) {
    let view = draft.view;
    let patience = view.cluster().map_or(ORPHAN_AFTER, |c| c.orphan_after);
    let held = || view.tasks_of_node(node.id).filter(|t| t.holds_reservation());
    let at = node.status.since + patience;
    if draft.now < at {
        if held().next().is_some() {
            draft.wake(at);
        }
        return;
    }
    let why: Arc<str> = format!("node {} has been down for {patience}", wanted::name_of(node)).into();
    for task in held().filter(|t| view.is_settled(t.modified)) {
        if !draft.has_room() {
            return;
        }
        draft.guard_node(node.id);
        draft.orphan(task, Arc::clone(&why));
        draft.count(task.id, task.service, Rule::Orphaned, format!("orphaned: {why}"));
    }
}

/// After how long away tasks are given up for good while there is no cluster object: as in a new one, and
/// in SwarmKit.
const ORPHAN_AFTER: Span = Span::from_secs(24 * 3600);
