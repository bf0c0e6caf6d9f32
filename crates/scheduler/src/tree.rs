//! Placement preferences: nodes in branches by the values they have, one preference inside the other.
//!
//! One task after the other goes to the node that is best by, in this order: how full its branch of the first preference
//! is, how full its branch of the second is inside that, and so on; then by its [`Rank`]. Two branches that are equally
//! full are told apart by what is inside them: that is where the remainder of an uneven division goes.
//!
//! A branch counts the wanted tasks of the service on all of its nodes, whether they take more or not. Tasks on nodes that are
//! down or drained don't count, because they are about to be replaced. Without targets the branch with the fewest
//! tasks is the least full. With targets it is the one with the smallest `(2 * tasks + 1) / percent` (Webster's rule: whole
//! tasks come as close to the shares as they can); all values that have no target are one branch, for the percent that is left.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use model::{Node, Preference};

use crate::field::Field;
use crate::filter::object;
use crate::need::Need;
use crate::spread::{Rank, take_from};

/// The branches of a group of equal tasks.
pub(crate) struct Tree<'v> {
    preferences: &'v [Preference],
    /// The root is the first.
    branches: Vec<Branch>,
}

/// The nodes with one value, inside those of the branch above.
#[derive(Default)]
struct Branch {
    /// Its share, where the preference has targets.
    percent: Option<u8>,
    /// The branch it is in.
    above: usize,
    /// Wanted tasks of the service on its nodes.
    tasks: u32,
    /// The branches inside, by value.
    inside: BTreeMap<Box<str>, usize>,
    /// Those of them that have a node which takes a task, the best first.
    order: BTreeSet<(Best, usize)>,
    /// Its own nodes that take a task, when nothing is inside.
    nodes: BinaryHeap<Reverse<Rank>>,
}

/// How good the best node of a branch is: how full the branches are on the way to it, from this one inwards, then its
/// own rank. The smallest is the best.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Best {
    fill: Vec<u64>,
    rank: Rank,
}

impl<'v> Tree<'v> {
    /// Puts every node that was looked at in its branch. All must have been.
    pub fn of(field: &Field, need: &Need<'v>) -> Self {
        let mut tree = Self { preferences: &need.steering.preferences, branches: vec![Branch::default()] };
        for (number, seat) in field.seats().iter().enumerate() {
            let path = tree.path_of(seat.node);
            let leaf = path[path.len() - 1];
            if !seat.node.loses_tasks() {
                let tasks = seat.tasks_of(need);
                path.iter().for_each(|branch| tree.branches[*branch].tasks += tasks);
            }
            if seat.is_usable() && object(seat, need).is_none() {
                tree.branches[leaf].nodes.push(Reverse(Rank::of(number as u32, seat, need)));
            }
        }
        // A branch is always made after the one it is in.
        for branch in (1..tree.branches.len()).rev() {
            if let Some(best) = tree.best_of(branch) {
                let above = tree.branches[branch].above;
                tree.branches[above].order.insert((best, branch));
            }
        }
        tree
    }

    /// The branches of a node from the root inwards; made when they are new.
    fn path_of(&mut self, node: &Node) -> Vec<usize> {
        let mut path = vec![0];
        let mut at = 0;
        for preference in self.preferences {
            let (value, percent) = branch_of(preference, node);
            at = match self.branches[at].inside.get(&*value) {
                Some(inside) => *inside,
                None => {
                    let made = self.branches.len();
                    self.branches.push(Branch { percent, above: at, ..Branch::default() });
                    self.branches[at].inside.insert(value.into(), made);
                    made
                }
            };
            path.push(at);
        }
        path
    }

    /// How good the best node of a branch is; `None` when none of its nodes takes a task.
    fn best_of(&self, branch: usize) -> Option<Best> {
        let branch = &self.branches[branch];
        let (mut fill, rank) = match branch.order.first() {
            Some((best, _)) => (best.fill.clone(), best.rank),
            None => (Vec::new(), branch.nodes.peek()?.0),
        };
        fill.insert(0, branch.fill());
        Some(Best { fill, rank })
    }

    /// Lets the best node take one task, as [`take_from`] does.
    pub fn take_best(&mut self, take: impl FnOnce(Rank) -> Option<Rank>) -> bool {
        // The way to the best node; each branch is taken out of its order, to be put back with what it is then.
        let mut way = vec![0];
        let mut at = 0;
        while let Some((_, inside)) = self.branches[at].order.pop_first() {
            way.push(inside);
            at = inside;
        }
        let took = take_from(&mut self.branches[at].nodes, take);
        for (depth, branch) in way.iter().enumerate().rev() {
            self.branches[*branch].tasks += u32::from(took);
            if depth > 0
                && let Some(best) = self.best_of(*branch)
            {
                self.branches[way[depth - 1]].order.insert((best, *branch));
            }
        }
        took
    }
}

impl Branch {
    /// How full it is, to be compared with its neighbours.
    fn fill(&self) -> u64 {
        const SCALE: u64 = 1_000_000;
        match self.percent {
            None => u64::from(self.tasks),
            // What shall have nothing comes last.
            Some(0) => u64::MAX / 2 + u64::from(self.tasks),
            Some(percent) => (2 * u64::from(self.tasks) + 1) * SCALE / u64::from(percent),
        }
    }
}

/// The branch that a node is in, and the share of it where there are targets. The name of the branch of all that have no target is
/// empty, which no target is.
fn branch_of<'n>(preference: &Preference, node: &'n Node) -> (Cow<'n, str>, Option<u8>) {
    let mut value = preference.over.value_on(node);
    if value.chars().any(|c| c.is_ascii_uppercase()) {
        value = Cow::Owned(value.to_ascii_lowercase());
    }
    if preference.targets.is_empty() {
        return (value, None);
    }
    match preference.targets.iter().find(|target| target.value.eq_ignore_ascii_case(&value)) {
        Some(target) => (value, Some(target.percent)),
        None => {
            let named: u8 = preference.targets.iter().map(|target| target.percent).sum();
            (Cow::Borrowed(""), Some(100u8.saturating_sub(named)))
        }
    }
}
