//! Which of the nodes that take a task get it.
//!
//! The rank of a node is the only place that says what is better, but for preferences, which are asked before it; see
//! [`tree`](crate::tree).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::ControlFlow;

use model::{NodeId, Strategy};

use crate::field::{Field, Seat};
use crate::filter::{object, object_again};
use crate::need::Need;
use crate::tree::Tree;

/// How good a node is for one more task of the service; the smallest is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// First the node on which the fewest tasks of the revision failed lately (none, below five), then the one with the
    /// highest sum of affinities; 0 for any node when there are neither.
    penalty: u32,
    /// Then, spread: the one with the fewest tasks of the service; packed: the fullest.
    first: u32,
    /// Then, spread: the one with the fewest tasks in all; packed: the one with the most.
    second: u32,
    /// Then by id.
    pub node: NodeId,
    /// Its seat; says nothing more.
    pub seat: u32,
}

/// More than the largest sum of affinities, and less than the bits below the failures hold.
const MIDDLE: i32 = 1 << 20;

impl Rank {
    /// How a node ranks now.
    pub fn of(number: u32, seat: &Seat, need: &Need) -> Self {
        if need.plain {
            let (first, second) = (seat.tasks_of(need), seat.load);
            return Self { penalty: 0, first, second, node: seat.node.id, seat: number };
        }
        let (first, second) = match need.strategy {
            Strategy::Spread => (seat.tasks_of(need), seat.load),
            Strategy::Binpack => (u32::MAX - seat.fullness(), u32::MAX - seat.load),
        };
        Self { penalty: penalty(seat, need), first, second, node: seat.node.id, seat: number }
    }

    /// How many tasks of the service the node has, where they are spread.
    pub fn of_service(&self) -> u32 {
        self.first
    }

    /// True when no node can be better, but for its load.
    fn is_best(&self, need: &Need) -> bool {
        self.penalty == 0 && self.first == 0 && need.wishes_nothing()
    }
}

fn penalty(seat: &Seat, need: &Need) -> u32 {
    let failures = u32::from(need.failures_on(seat.node.id)) << 24;
    let affinities = &need.steering.affinities;
    if affinities.is_empty() {
        return failures;
    }
    let held = affinities.iter().filter(|affinity| affinity.to.holds(seat.node));
    let sum: i32 = held.map(|affinity| i32::from(affinity.weight)).sum();
    failures | (MIDDLE - sum).unsigned_abs()
}

/// The nodes for a group of equal tasks, best first.
pub(crate) enum Candidates<'v> {
    /// As many nodes without a task of the service as there are tasks: each takes one, in this order. Nothing else
    /// can be better, so the other nodes were not asked.
    Each(std::vec::IntoIter<Rank>),
    /// Every node that takes at least one.
    Heap(BinaryHeap<Reverse<Rank>>),
    /// Every node that takes at least one, in the branches of the preferences.
    Tree(Tree<'v>),
}

/// The candidates for so many equal tasks.
pub(crate) fn candidates<'v>(field: &mut Field, need: &Need<'v>, wanted: usize) -> Candidates<'v> {
    // With so many tasks of the service, too few nodes can be without one, and all will have to be asked.
    let many = need.active as usize + wanted > field.node_count();
    if !need.steering.preferences.is_empty() {
        field.complete();
        Candidates::Tree(Tree::of(field, need))
    } else if many || !need.wishes_nothing() {
        all(field, need)
    } else {
        first(field, need, wanted)
    }
}

/// Asks every node, in no order.
fn all<'v>(field: &mut Field, need: &Need<'v>) -> Candidates<'v> {
    field.complete();
    let seats = field.seats().iter().enumerate();
    let takers = seats.filter(|(_, seat)| seat.is_usable() && object(seat, need).is_none());
    let ranks: Vec<_> = takers.map(|(number, seat)| Reverse(Rank::of(number as u32, seat, need))).collect();
    Candidates::Heap(BinaryHeap::from(ranks))
}

/// Asks the nodes, the least loaded first, until there are enough of the best or all were asked.
fn first<'v>(field: &mut Field, need: &Need<'v>, wanted: usize) -> Candidates<'v> {
    let mut best = Vec::new();
    let mut others = Vec::new();
    field.walk(|number, seat| {
        if object(seat, need).is_some() {
            return ControlFlow::Continue(());
        }
        let rank = Rank::of(number, seat, need);
        if !rank.is_best(need) {
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

/// Lets the best node of a heap take one task. `take` says how it ranks for the next one, `None` when it takes no more.
/// False when no node is left.
pub(crate) fn take_from(
    heap: &mut BinaryHeap<Reverse<Rank>>,
    take: impl FnOnce(Rank) -> Option<Rank>,
) -> bool {
    let Some(mut top) = heap.peek_mut() else { return false };
    match take(top.0) {
        Some(rank) => *top = Reverse(rank),
        None => drop(PeekMut::pop(top)),
    }
    true
}

impl Candidates<'_> {
    /// Lets the best node take one task, as [`take_from`] does.
    pub fn take_best(&mut self, take: impl FnOnce(Rank) -> Option<Rank>) -> bool {
        match self {
            Self::Each(ranks) => match ranks.next() {
                Some(rank) => {
                    take(rank);
                    true
                }
                None => false,
            },
            Self::Heap(heap) => take_from(heap, take),
            Self::Tree(tree) => tree.take_best(take),
        }
    }
}

/// How a node ranks for the next task of the group after it took one; `None` when it takes no more.
pub(crate) fn rank_again(number: u32, seat: &Seat, need: &Need) -> Option<Rank> {
    object_again(seat, need).is_none().then(|| Rank::of(number, seat, need))
}
