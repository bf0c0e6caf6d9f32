//! Which of the nodes that take a task get it: the spread.
//!
//! The rank of a node is the only place that says what is better; what comes later (nodes that failed the service
//! lately, preferences, bin packing) extends [`Rank`] in front.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::ControlFlow;

use model::NodeId;

use crate::field::{Field, Seat};
use crate::filter::{object, object_again};
use crate::need::Need;

/// How good a node is for one more task of the service; the smallest is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// First the node with the fewest tasks of the service,
    pub of_service: u32,
    /// then the one with the fewest tasks in all,
    pub load: u32,
    /// then by id.
    pub node: NodeId,
    /// Its seat; says nothing more.
    pub seat: u32,
}

impl Rank {
    fn of(number: u32, seat: &Seat, need: &Need) -> Self {
        Self { of_service: seat.tasks_of(need), load: seat.load, node: seat.node.id, seat: number }
    }
}

/// The nodes for a group of equal tasks, best first.
pub(crate) enum Candidates {
    /// As many nodes without a task of the service as there are tasks: each takes one, in this order. Nothing else
    /// can be better, so the other nodes were not asked.
    Each(std::vec::IntoIter<Rank>),
    /// Every node that takes at least one.
    Heap(BinaryHeap<Reverse<Rank>>),
}

/// The candidates for so many equal tasks.
pub(crate) fn candidates(field: &mut Field, need: &Need, wanted: usize) -> Candidates {
    // With so many tasks of the service, too few nodes can be without one, and all will have to be asked.
    if need.active as usize + wanted > field.node_count() {
        all(field, need)
    } else {
        first(field, need, wanted)
    }
}

/// Asks every node, in no order.
fn all(field: &mut Field, need: &Need) -> Candidates {
    field.complete();
    let seats = field.seats().iter().enumerate();
    let takers = seats.filter(|(_, seat)| seat.is_usable() && object(seat, need).is_none());
    let ranks: Vec<_> = takers.map(|(number, seat)| Reverse(Rank::of(number as u32, seat, need))).collect();
    Candidates::Heap(BinaryHeap::from(ranks))
}

/// Asks the nodes, the least loaded first, until there are enough of the best or all were asked.
fn first(field: &mut Field, need: &Need, wanted: usize) -> Candidates {
    let mut best = Vec::new();
    let mut others = Vec::new();
    field.walk(|number, seat| {
        if object(seat, need).is_some() {
            return ControlFlow::Continue(());
        }
        let rank = Rank::of(number, seat, need);
        if rank.of_service > 0 {
            others.push(Reverse(rank));
            return ControlFlow::Continue(());
        }
        best.push(rank);
        if best.len() == wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if best.len() == wanted {
        return Candidates::Each(best.into_iter());
    }
    others.extend(best.into_iter().map(Reverse));
    Candidates::Heap(BinaryHeap::from(others))
}

impl Candidates {
    /// Lets the best node take one task. `take` says how the node ranks for the next one, `None` when it takes no
    /// more. False when no node is left.
    pub fn take_best(&mut self, take: impl FnOnce(Rank) -> Option<Rank>) -> bool {
        match self {
            Self::Each(ranks) => match ranks.next() {
                Some(rank) => {
                    take(rank);
                    true
                }
                None => false,
            },
            Self::Heap(heap) => match heap.peek_mut() {
                Some(mut top) => {
                    match take(top.0) {
                        Some(rank) => *top = Reverse(rank),
                        None => drop(PeekMut::pop(top)),
                    }
                    true
                }
                None => false,
            },
        }
    }
}

/// How a node ranks for the next task of the group after it took one; `None` when it takes no more.
pub(crate) fn rank_again(number: u32, seat: &Seat, need: &Need) -> Option<Rank> {
    object_again(seat, need).is_none().then(|| Rank::of(number, seat, need))
}
