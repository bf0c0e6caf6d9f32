//! The log between the managers: a small ideal one that keeps the promises of the real one and none beyond.
//!
//! - What is committed stays, in its order, and every manager applies the same entry under the same index.
//! - Only the leader of the newest term commits. What the leader before had under way may be committed by its successor, a
//!   beginning of it in order, or is lost; its author never learns which.
//! - Entries below [`Log::served`] are kept for nobody but those who had them: a manager that is behind gets a snapshot.
//!
//! It knows no clock: when what is committed, and who hears of it when, is the world's business.

use std::collections::VecDeque;
use std::sync::Arc;

use manager::Ticket;
use model::Index;
use store::Entry;

/// Counts leaderships; each has one leader.
pub type Term = u64;

/// Who waits for what became of a change set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The control plane that led in this term.
    Plane(Term, Ticket),
    /// A person's request.
    Request(u64),
}

/// An entry with who waits for each of its change sets.
#[derive(Clone, Debug)]
pub struct Written {
    /// The entry.
    pub entry: Arc<Entry>,
    /// One for each of its change sets.
    pub origins: Vec<Origin>,
}

/// The log. Managers are named by their number.
#[derive(Debug, Default)]
pub struct Log {
    entries: VecDeque<Written>,
    /// How many entries before these were dropped.
    dropped: Index,
    served: Index,
    term: Term,
    leader: Option<usize>,
    /// What the leader has under way, in order.
    tail: VecDeque<Written>,
}

impl Log {
    /// The newest term.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Who leads in the newest term; it may be dead or cut off.
    pub fn leader(&self) -> Option<usize> {
        self.leader
    }

    /// The index of the last committed entry.
    pub fn last(&self) -> Index {
        self.dropped + self.entries.len() as Index
    }

    /// The first index that a manager can still be given without a snapshot.
    pub fn served(&self) -> Index {
        self.served.max(self.dropped + 1)
    }

    /// A committed entry that is still kept.
    pub fn entry(&self, index: Index) -> Option<&Written> {
        self.entries.get(usize::try_from(index.checked_sub(self.dropped + 1)?).ok()?)
    }

    /// A new leader. Of what the one before had under way, the first `adopted` entries are committed; what is lost comes back.
    pub fn lead(&mut self, manager: usize, adopted: usize) -> Vec<Origin> {
        let kept = adopted.min(self.tail.len());
        self.entries.extend(self.tail.drain(..kept));
        self.term += 1;
        self.leader = Some(manager);
        self.tail.drain(..).flat_map(|written| written.origins).collect()
    }

    /// How many entries the leader has under way.
    pub fn under_way(&self) -> usize {
        self.tail.len()
    }

    /// The leader of `term` writes an entry; false when it leads no longer.
    pub fn append(&mut self, term: Term, written: Written) -> bool {
        if term != self.term {
            return false;
        }
        self.tail.push_back(written);
        true
    }

    /// The oldest entry that is under way is committed, if `term` is still the newest.
    pub fn commit(&mut self, term: Term) -> Option<Index> {
        if term != self.term {
            return None;
        }
        let written = self.tail.pop_front()?;
        self.entries.push_back(written);
        Some(self.last())
    }

    /// From now on entries below `served` are had from a snapshot only; those up to `dropped` nobody needs any more.
    pub fn compact(&mut self, served: Index, dropped: Index) {
        self.served = self.served.max(served);
        while self.dropped < dropped && self.entries.pop_front().is_some() {
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(request: u64) -> Written {
        Written { entry: Arc::default(), origins: vec![Origin::Request(request)] }
    }

    #[test]
    fn a_deposed_leader_commits_nothing_and_its_tail_is_cut() {
        let mut log = Log::default();
        assert!(log.lead(0, 0).is_empty());
        for request in 1..=4 {
            assert!(log.append(1, written(request)));
        }
        assert_eq!(log.commit(1), Some(1));
        let lost = log.lead(1, 1);
        assert_eq!(lost, [Origin::Request(3), Origin::Request(4)]);
        assert_eq!((log.last(), log.commit(1), log.commit(2)), (2, None, None));
        assert!(!log.append(1, written(5)));
        assert!(log.append(2, written(6)));
        assert_eq!(log.commit(2), Some(3));
        let order: Vec<_> = (1..=3).map(|i| log.entry(i).map(|w| w.origins[0])).collect();
        assert_eq!(order, [1, 2, 6].map(|r| Some(Origin::Request(r))));
    }

    #[test]
    fn what_is_compacted_is_gone_and_indexes_stay() {
        let mut log = Log::default();
        log.lead(0, 0);
        for request in 1..=4 {
            log.append(1, written(request));
            log.commit(1);
        }
        log.compact(4, 2);
        assert_eq!((log.served(), log.last()), (4, 4));
        assert!(log.entry(2).is_none());
        assert_eq!(log.entry(3).map(|w| w.origins[0]), Some(Origin::Request(3)));
    }
}
