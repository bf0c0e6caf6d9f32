//! Sets of slots. Numbers are kept as disjoint intervals: a service with a million tasks and no gap is one interval.

use imbl::{OrdMap, OrdSet};
use model::{NodeId, Slot};

/// The slots that something is in, counted: the same slot may be in it several times. Clones share memory.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Places {
    numbers: SlotSet,
    nodes: OrdSet<NodeId>,
    /// The slots that are in it more than once, and how many times more.
    more: OrdMap<Slot, u32>,
}

impl Places {
    /// How many different slots are in it.
    pub(crate) fn len(&self) -> u32 {
        self.numbers.len() + self.nodes.len() as u32
    }

    /// True when a slot is in it.
    pub(crate) fn contains(&self, slot: Slot) -> bool {
        match slot {
            Slot::Number(n) => self.numbers.contains(n),
            Slot::Node(node) => self.nodes.contains(&node),
        }
    }

    /// The numbered slots.
    pub(crate) fn numbers(&self) -> &SlotSet {
        &self.numbers
    }

    /// Each slot once, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.numbers.iter().map(Slot::Number).chain(self.nodes.iter().copied().map(Slot::Node))
    }

    /// The slots that are in it more than once, in order.
    pub(crate) fn doubled(&self) -> impl ExactSizeIterator<Item = Slot> + '_ {
        self.more.keys().copied()
    }

    /// True for a slot that is in it more than once.
    pub(crate) fn is_doubled(&self, slot: Slot) -> bool {
        self.more.contains_key(&slot)
    }

    /// Adds a slot once more.
    pub(crate) fn add(&mut self, slot: Slot) {
        let first = match slot {
            Slot::Number(n) => self.numbers.insert(n),
            Slot::Node(node) => self.nodes.insert(node).is_none(),
        };
        if !first {
            *self.more.entry(slot).or_insert(0) += 1;
        }
    }

    /// Takes back what [`add`](Self::add) did.
    pub(crate) fn take(&mut self, slot: Slot) {
        match self.more.get_mut(&slot) {
            Some(1) => {
                self.more.remove(&slot);
            }
            Some(more) => *more -= 1,
            None => match slot {
                Slot::Number(n) => self.numbers.remove(n),
                Slot::Node(node) => {
                    self.nodes.remove(&node);
                }
            },
        }
    }
}

/// A set of numbers, kept as maximal intervals (first to last, both included). Clones share memory.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct SlotSet {
    /// First number of each interval to its last. Intervals neither touch nor overlap.
    runs: OrdMap<u32, u32>,
    /// How many numbers are in it.
    len: u32,
}

impl SlotSet {
    /// How many numbers are in it.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// True when `n` is in it.
    pub(crate) fn contains(&self, n: u32) -> bool {
        self.runs.get_prev(&n).is_some_and(|(_, last)| *last >= n)
    }

    /// Its numbers, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// Adds `n`; false when it was there.
    pub(crate) fn insert(&mut self, n: u32) -> bool {
        let before = self.runs.get_prev(&n).map(|(first, last)| (*first, *last));
        if before.is_some_and(|(_, last)| last >= n) {
            return false;
        }
        self.len += 1;
        let first = match before {
            Some((first, last)) if last + 1 == n => first,
            _ => n,
        };
        let last = match n.checked_add(1).and_then(|next| self.runs.remove(&next)) {
            Some(last) => last,
            None => n,
        };
        self.runs.insert(first, last);
        true
    }

    /// Takes `n` out; nothing happens when it is not there.
    pub(crate) fn remove(&mut self, n: u32) {
        let Some((first, last)) = self.runs.get_prev(&n).map(|(first, last)| (*first, *last)) else {
            return;
        };
        if last < n {
            return;
        }
        self.len -= 1;
        if first == n {
            self.runs.remove(&first);
        } else {
            self.runs.insert(first, n - 1);
        }
        if n < last {
            self.runs.insert(n + 1, last);
        }
    }

    /// The lowest number from `from` on that is not in the set. Slot numbers end below
    /// [`limits::REPLICAS`](model::limits::REPLICAS), so there always is one.
    pub(crate) fn first_missing(&self, from: u32) -> u32 {
        match self.runs.get_prev(&from) {
            Some((_, last)) if *last >= from => last.saturating_add(1),
            _ => from,
        }
    }

    /// The highest number in the set.
    pub(crate) fn highest(&self) -> Option<u32> {
        self.runs.get_max().map(|(_, last)| *last)
    }

    #[cfg(test)]
    fn intervals(&self) -> Vec<(u32, u32)> {
        self.runs.iter().map(|(a, b)| (*a, *b)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::SlotSet;

    #[test]
    fn intervals_join_and_split() {
        let mut set = SlotSet::default();
        for n in [5, 3, 4, 9, 0] {
            assert!(set.insert(n), "{n} is new");
        }
        assert!(!set.insert(4));
        assert_eq!(set.intervals(), [(0, 0), (3, 5), (9, 9)]);
        set.remove(4);
        assert_eq!(set.intervals(), [(0, 0), (3, 3), (5, 5), (9, 9)]);
        for n in [0, 5, 9, 7] {
            set.remove(n);
        }
        assert_eq!(set.intervals(), [(3, 3)]);
        assert_eq!((set.highest(), set.len()), (Some(3), 1));
    }

    #[test]
    fn the_first_gap_is_found() {
        let mut set = SlotSet::default();
        for n in [0, 1, 2, 4, 5] {
            set.insert(n);
        }
        for (from, gap) in [(0, 3), (2, 3), (3, 3), (4, 6), (6, 6), (100, 100)] {
            assert_eq!(set.first_missing(from), gap, "from {from}");
        }
    }
}
