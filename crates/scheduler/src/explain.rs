//! What each node says to one task, recomputed when somebody asks.

use std::sync::Arc;

use model::{Node, Slot, Steering, Task, Verdict};
use store::{NodeUse, Tables};

use crate::field::Seat;
use crate::lack::lacks;
use crate::need::Need;
use crate::reason::verdict;

/// What each node would say now if it had to take the task, by node id: the first filter that refuses, or that it would
/// take it. Where the task runs already, its own place counts as empty: the answer is whether it would be placed there
/// again. A task of a global service was made for one node, and only that node is asked.
///
/// Costs the filters of each node, with a sentence for each that refuses.
pub fn explain(view: &Tables, task: &Task) -> Vec<Verdict> {
    // What a service wishes makes no node unfit.
    let none = Steering::default();
    let used = view.service_use(task.service);
    let Some(need) = Need::of(view, task.service, &none, used, task.revision, 1) else {
        return Vec::new();
    };
    let ask = |(node, used): (&Arc<Node>, &NodeUse)| {
        let seat = Seat::new(view, node, used);
        let runs_here = task.holds_reservation() && task.node == Some(node.id);
        let seat = if runs_here { seat.without(task, &need.reserve) } else { seat };
        let refusal = verdict(view, &seat, &need);
        let lacks = lacks(view, &seat, &need);
        Verdict { node: node.id, hostname: Arc::clone(&node.description.hostname), refusal, lacks }
    };
    match task.slot {
        Slot::Node(id) => view.node_with_use(id).map(ask).into_iter().collect(),
        Slot::Number(_) => view.nodes_with_use().map(ask).collect(),
    }
}
