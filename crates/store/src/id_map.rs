//! The handles of tasks by their ids: a persistent map in the order of ids, made for ids that are as good as random.
//!
//! A branch is indexed by the next four bits of an id, so that finding one touches one place on each level and then a short run of
//! neighbours; a general tree would search each level. Ids that are not random only make it deeper (32 levels at most). As
//! everything in the tables, a clone shares all and a change copies one path; a leaf holds plain numbers, so that copying it touches
//! nothing else.

use std::ops::RangeInclusive;
use std::sync::Arc;

use model::Id;

const BITS: u32 = 4;
const WIDTH: usize = 1 << BITS;
/// A leaf that grows beyond this becomes a branch.
const LEAF_MOST: usize = 32;
/// A branch whose leaves together have no more than this becomes a leaf.
const LEAF_AGAIN: usize = 12;

type Entry = (Id, u32);

/// Handles by id.
#[derive(Clone, Debug)]
pub(crate) struct IdMap {
    root: Node,
}

#[derive(Clone, Debug)]
enum Node {
    /// By id.
    Leaf(Arc<[Entry]>),
    /// By the next bits of an id.
    Branch(Arc<[Node; WIDTH]>),
}

/// The part of an id that a branch at this depth looks at.
fn digit(id: Id, depth: u32) -> usize {
    (id.as_u128() >> (128 - BITS * (depth + 1))) as usize % WIDTH
}

/// Where an id is in a leaf, or where it belongs. The bits that follow those of the way tell about where that is.
fn search(entries: &[Entry], id: Id, depth: u32) -> Result<usize, usize> {
    let ahead = (id.as_u128() << (BITS * depth).min(127) >> 112) as usize;
    let mut at = (ahead * entries.len()) >> 16;
    while at < entries.len() && entries[at].0 < id {
        at += 1;
    }
    while at > 0 && entries[at - 1].0 >= id {
        at -= 1;
    }
    if entries.get(at).is_some_and(|entry| entry.0 == id) { Ok(at) } else { Err(at) }
}

impl IdMap {
    pub(crate) fn new() -> Self {
        Self { root: Node::empty() }
    }

    pub(crate) fn get(&self, id: Id) -> Option<u32> {
        let (mut node, mut depth) = (&self.root, 0);
        loop {
            match node {
                Node::Branch(children) => {
                    node = &children[digit(id, depth)];
                    depth += 1;
                }
                Node::Leaf(entries) => {
                    return search(entries, id, depth).ok().map(|at| entries[at].1);
                }
            }
        }
    }

    /// Puts a handle under an id that has none, or in place of the one it has.
    pub(crate) fn insert(&mut self, id: Id, handle: u32) {
        self.root.insert(id, handle, 0);
    }

    pub(crate) fn remove(&mut self, id: Id) {
        self.root.remove(id, 0);
    }

    /// Every handle, in the order of ids.
    pub(crate) fn values(&self) -> Values<'_> {
        self.range(Id::from_u128(0)..=Id::from_u128(u128::MAX))
    }

    /// The handles of the ids in a range, in their order.
    pub(crate) fn range(&self, range: RangeInclusive<Id>) -> Values<'_> {
        let (first, last) = range.into_inner();
        let mut values = Values { last, leaf: [].iter(), branches: Vec::new() };
        let (mut node, mut depth) = (&self.root, 0);
        while let Node::Branch(children) = node {
            let at = digit(first, depth);
            values.branches.push(children[at + 1..].iter());
            node = &children[at];
            depth += 1;
        }
        if let Node::Leaf(entries) = node {
            values.leaf = entries[entries.partition_point(|entry| entry.0 < first)..].iter();
        }
        values
    }
}

impl Node {
    fn empty() -> Self {
        Self::Leaf(Arc::default())
    }

    fn insert(&mut self, id: Id, handle: u32, depth: u32) {
        match self {
            Self::Branch(children) => {
                Arc::make_mut(children)[digit(id, depth)].insert(id, handle, depth + 1);
            }
            Self::Leaf(entries) => {
                let (before, after) = match search(entries, id, depth) {
                    Ok(at) => (&entries[..at], &entries[at + 1..]),
                    Err(at) => entries.split_at(at),
                };
                let new = std::iter::once((id, handle));
                let grown: Arc<[Entry]> =
                    before.iter().copied().chain(new).chain(after.iter().copied()).collect();
                *self = if grown.len() > LEAF_MOST { Self::branch(&grown, depth) } else { Self::Leaf(grown) };
            }
        }
    }

    /// A branch with what a leaf at this depth had.
    fn branch(entries: &[Entry], depth: u32) -> Self {
        let mut rest = entries;
        Self::Branch(Arc::new(std::array::from_fn(|at| {
            let (here, after) = rest.split_at(rest.partition_point(|entry| digit(entry.0, depth) <= at));
            rest = after;
            // When the ids are alike, all of them may be here again.
            if here.len() > LEAF_MOST { Self::branch(here, depth + 1) } else { Self::Leaf(here.into()) }
        })))
    }

    fn remove(&mut self, id: Id, depth: u32) {
        match self {
            Self::Branch(children) => {
                let children = Arc::make_mut(children);
                children[digit(id, depth)].remove(id, depth + 1);
                let small = children.iter().try_fold(0, |sum, child| match child {
                    Self::Leaf(entries) => Some(sum + entries.len()).filter(|sum| *sum <= LEAF_AGAIN),
                    Self::Branch(_) => None,
                });
                if small.is_some() {
                    let all = children.iter().filter_map(|child| match child {
                        Self::Leaf(entries) => Some(entries.iter().copied()),
                        Self::Branch(_) => None,
                    });
                    *self = Self::Leaf(all.flatten().collect());
                }
            }
            Self::Leaf(entries) => {
                if let Ok(at) = search(entries, id, depth) {
                    *entries = entries[..at].iter().chain(&entries[at + 1..]).copied().collect();
                }
            }
        }
    }
}

/// Handles in the order of their ids.
pub(crate) struct Values<'a> {
    last: Id,
    leaf: std::slice::Iter<'a, Entry>,
    /// What is left of each branch on the way, the root first.
    branches: Vec<std::slice::Iter<'a, Node>>,
}

impl Iterator for Values<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            if let Some((id, handle)) = self.leaf.next() {
                return (*id <= self.last).then_some(*handle);
            }
            match self.branches.last_mut()?.next() {
                None => {
                    self.branches.pop();
                }
                Some(Node::Leaf(entries)) => self.leaf = entries.iter(),
                Some(Node::Branch(children)) => self.branches.push(children.iter()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Ids of each kind: as good as random, counted, counted at the upper end, alike but for the middle.
    fn id(kind: u32, n: u32) -> Id {
        let n = u128::from(n);
        Id::from_u128(match kind {
            0 => (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).rotate_left(64),
            1 => n,
            2 => u128::MAX - n,
            _ => n << 50,
        })
    }

    #[test]
    fn it_is_a_map_in_the_order_of_ids() {
        for kind in 0..4 {
            let mut map = IdMap::new();
            let mut model = BTreeMap::new();
            let mut snapshots = Vec::new();
            // Grows to some thousand, then shrinks to nothing, with some of the other in between.
            for n in 0..12_000u32 {
                let grows = (n < 6000) == (n % 5 > 0);
                let id = id(kind, n * 7919 % 5003);
                if grows {
                    map.insert(id, n);
                    model.insert(id, n);
                } else {
                    map.remove(id);
                    model.remove(&id);
                }
                assert_eq!(map.get(id), model.get(&id).copied());
                if n % 1000 == 999 {
                    snapshots.push((map.clone(), model.clone()));
                }
            }
            for n in 0..5003 {
                map.remove(id(kind, n));
            }
            assert_eq!(map.values().count(), 0);
            assert!(matches!(map.root, Node::Leaf(_)), "nothing is left of the branches");
            for (map, model) in snapshots {
                assert!(map.values().eq(model.values().copied()));
                for n in 0..5003 {
                    assert_eq!(map.get(id(kind, n)), model.get(&id(kind, n)).copied());
                    let range = id(kind, n)..=id(kind, n + 300).max(id(kind, n));
                    assert!(map.range(range.clone()).eq(model.range(range).map(|(_, handle)| *handle)));
                }
            }
        }
    }
}
