//! What each node says to one task, recomputed when somebody asks.

use std::sync::Arc;

use model::{Node, Slot, Steering, Task, Verdict};
use store::{NodeUse, Tables};

use crate::field::Seat;
use crate::lack::lacks;
use crate::need::Need;
use crate::pass::field_before;
use crate::reason::{spared_text, verdict};

/// What each node would say now if it had to take the task, by node id: the first filter that refuses, or that it would
/// take it. Where the task runs already, its own place counts as empty: the answer is whether it would be placed there
/// again. A task of a global service was made for one node, and only that node is asked.
///
/// Room that is kept for a task that may end others is not free for those after it. Where one that may end others would have room but
/// for the budget of a service, the answer names it.
///
/// Costs the filters of each node, with a sentence for each that refuses; and the turns of those that room is kept for.
pub fn explain(view: &Tables, task: &Task) -> Vec<Verdict> {
    // What a service wishes makes no node unfit.
    let none = Steering::default();
    let used = view.service_use(task.service);
    let Some(need) = Need::of(view, task.service, &none, used, task.revision, TURN) else {
        return Vec::new();
    };
    let service = view.service(task.service).filter(|_| task.waits_for_node());
    let mut kept = service.and_then(|service| field_before(view, service));
    let ask = |(node, used): (&Arc<Node>, &NodeUse)| {
        if let (Some((field, rooms)), Some(service)) = (&mut kept, service)
            && let Some(number) = field.find(node.id)
        {
            let mut verdict = answer(view, field.seat(number), &need);
            if let (Some((_, text)), None, true) = (&mut verdict.refusal, task.node, service.steering.preempt)
            {
                let spared = rooms.spared_on(view, field, &need, service.priority, number);
                if !spared.is_empty() {
                    *text = format!("{text}; {}", spared_text(view, &spared)).into();
                }
            }
            return verdict;
        }
        let seat = Seat::new(view, node, used);
        let runs_here = task.holds_reservation() && task.node == Some(node.id);
        let seat = if runs_here { seat.without(task, &need.reserve) } else { seat };
        answer(view, &seat, &need)
    };
    match task.slot {
        Slot::Node(id) => view.node_with_use(id).map(ask).into_iter().collect(),
        Slot::Number(_) => view.nodes_with_use().map(ask).collect(),
    }
}

/// A turn that no pass has: nothing that one placed counts for the task that is asked about.
const TURN: u32 = u32::MAX;

fn answer(view: &Tables, seat: &Seat, need: &Need) -> Verdict {
    let (refusal, lacks) = (verdict(view, seat, need), lacks(view, seat, need));
    let (node, hostname) = (seat.node.id, Arc::clone(&seat.node.description.hostname));
    Verdict { node, hostname, refusal, lacks }
}
