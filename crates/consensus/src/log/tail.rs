//! The newest entries in memory: all that aren't in the file yet, and as many behind them as fit
//! the budget, because they are about to be applied or sent.

use std::collections::VecDeque;

use crate::types::{Entry, EntryPayload};

/// Flushed entries are kept up to this many bytes. Bounds the memory of an idle node.
const BUDGET_BYTES: usize = 4 << 20;
/// What an entry costs beside its payload, roughly.
const ENTRY_BYTES: usize = 96;

/// A contiguous run of entries that ends at the end of the log.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// One past the last entry that is in the file.
    flushed: u64,
}

fn cost(entry: &Entry) -> usize {
    match &entry.payload {
        EntryPayload::Normal(payload) => ENTRY_BYTES + payload.0.len(),
        _ => ENTRY_BYTES,
    }
}

impl Tail {
    /// The first index held; `u64::MAX` when none is.
    pub(crate) fn first(&self) -> u64 {
        self.entries.front().map_or(u64::MAX, |e| e.log_id.index)
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        self.bytes += cost(&entry);
        self.entries.push_back(entry);
    }

    /// The entries from `start` up to before `end` that are held.
    pub(crate) fn range(&self, start: u64, end: u64) -> Vec<Entry> {
        let first = self.first();
        let len = self.entries.len() as u64;
        let from = start.saturating_sub(first).min(len);
        let to = end.saturating_sub(first).min(len).max(from);
        self.entries.range(from as usize..to as usize).cloned().collect()
    }

    /// Everything before `end` is in the file now.
    pub(crate) fn flushed(&mut self, end: u64) {
        self.flushed = end;
        while self.bytes > BUDGET_BYTES && self.first() < self.flushed {
            self.pop_front();
        }
    }

    /// Removes the entries from `from` on.
    pub(crate) fn truncate(&mut self, from: u64) {
        while self.entries.back().is_some_and(|e| e.log_id.index >= from) {
            let entry = self.entries.pop_back().expect("there is a last one");
            self.bytes -= cost(&entry);
        }
        self.flushed = self.flushed.min(from);
    }

    /// Removes the entries up to and including `upto`.
    pub(crate) fn purge(&mut self, upto: u64) {
        while self.first() <= upto && !self.entries.is_empty() {
            self.pop_front();
        }
    }

    fn pop_front(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= cost(&entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Payload, log_id};

    fn entry(index: u64, bytes: usize) -> Entry {
        let payload = EntryPayload::Normal(Payload(vec![0; bytes].into()));
        Entry { log_id: log_id(1, index), payload }
    }

    fn indexes(entries: &[Entry]) -> Vec<u64> {
        entries.iter().map(|e| e.log_id.index).collect()
    }

    #[test]
    fn ranges_are_cut_to_what_is_held() {
        let mut tail = Tail::default();
        assert!(tail.range(0, u64::MAX).is_empty());
        (5..10).for_each(|i| tail.push(entry(i, 1)));
        for (start, end, held) in [
            (0, 3, vec![]),
            (0, 5, vec![]),
            (0, 6, vec![5]),
            (5, 10, vec![5, 6, 7, 8, 9]),
            (7, 9, vec![7, 8]),
            (9, 20, vec![9]),
            (10, 20, vec![]),
            (8, 8, vec![]),
            (9, 6, vec![]),
        ] {
            assert_eq!(indexes(&tail.range(start, end)), held, "{start}..{end}");
        }
    }

    #[test]
    fn what_is_not_in_the_file_is_never_given_up() {
        let mut tail = Tail::default();
        (0..16).for_each(|i| tail.push(entry(i, BUDGET_BYTES / 4)));
        assert_eq!(tail.first(), 0);
        tail.flushed(6);
        assert_eq!(tail.first(), 6);
        tail.flushed(16);
        assert_eq!(indexes(&tail.range(0, 99)), [13, 14, 15]);
        tail.truncate(14);
        assert_eq!(indexes(&tail.range(0, 99)), [13]);
        tail.purge(13);
        assert_eq!(tail.first(), u64::MAX);
        assert_eq!(tail.bytes, 0);
    }
}
