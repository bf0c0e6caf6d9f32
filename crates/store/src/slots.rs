//! The set of filled slot numbers as disjoint intervals: a service with a million tasks and no gap is one interval.

use imbl::OrdMap;

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
