//! Which keys want reconciling, now and later.
//!
//! A key is in one of three places: due now, held back because a plan of it is in flight, or asleep until a moment. A
//! held key that is marked again runs once more when its plan has been applied or refused.

use std::collections::{BTreeMap, BTreeSet};

use model::{Span, Time};
use orchestrator::Key;

/// How long a key rests after its plans were refused several times in a row, so that a decision that can never be
/// applied does not spin.
const REFUSED_REST: Span = Span::from_millis(100);

/// How many refusals in a row are taken as bad luck, and tried again at once.
const REFUSALS_AT_ONCE: u32 = 3;

/// The keys that want reconciling.
#[derive(Debug, Default)]
pub struct Work {
    due: BTreeSet<Key>,
    /// Keys with a plan in flight; true when they were marked since.
    held: BTreeMap<Key, bool>,
    wakes: BTreeSet<(Time, Key)>,
    wake_of: BTreeMap<Key, Time>,
    refusals: BTreeMap<Key, u32>,
}

impl Work {
    /// Something about this key may have changed.
    pub fn mark(&mut self, key: Key) {
        if let Some(again) = self.held.get_mut(&key) {
            *again = true;
        } else {
            self.due.insert(key);
        }
    }

    /// The next key that is due, in key order.
    pub fn take(&mut self) -> Option<Key> {
        self.due.pop_first()
    }

    /// True when a key is due now.
    pub fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// A plan of this key is on its way.
    pub fn hold(&mut self, key: Key) {
        self.held.insert(key, false);
    }

    /// The plan of this key was applied.
    pub fn applied(&mut self, key: Key, more: bool) {
        self.refusals.remove(&key);
        if self.held.remove(&key) == Some(true) || more {
            self.mark(key);
        }
    }

    /// The plan of this key was refused: the world has moved, so it is decided anew.
    pub fn refused(&mut self, key: Key, now: Time) {
        self.held.remove(&key);
        let refusals = self.refusals.entry(key).or_default();
        *refusals += 1;
        if *refusals > REFUSALS_AT_ONCE {
            self.wake(key, Some(now + REFUSED_REST));
        } else {
            self.mark(key);
        }
    }

    /// This key wants to be reconciled at `at` (or, with `None`, at no particular moment). Replaces an earlier wish.
    pub fn wake(&mut self, key: Key, at: Option<Time>) {
        if let Some(old) = self.wake_of.remove(&key) {
            self.wakes.remove(&(old, key));
        }
        if let Some(at) = at {
            self.wake_of.insert(key, at);
            self.wakes.insert((at, key));
        }
    }

    /// Marks every key whose moment has come.
    pub fn wake_until(&mut self, now: Time) {
        while let Some((at, key)) = self.wakes.first().copied() {
            if at > now {
                break;
            }
            self.wakes.remove(&(at, key));
            self.wake_of.remove(&key);
            self.mark(key);
        }
    }

    /// The next moment at which a key wants to be woken.
    pub fn next_wake(&self) -> Option<Time> {
        self.wakes.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ServiceId;

    fn key(n: u128) -> Key {
        Key::Service(ServiceId::from_u128(n))
    }

    #[test]
    fn a_held_key_runs_once_more_when_it_was_marked() {
        let mut work = Work::default();
        work.mark(key(1));
        assert_eq!(work.take(), Some(key(1)));
        work.hold(key(1));
        work.mark(key(1));
        assert_eq!(work.take(), None);
        work.applied(key(1), false);
        assert_eq!(work.take(), Some(key(1)));
        work.hold(key(1));
        work.applied(key(1), false);
        assert_eq!(work.take(), None);
    }

    #[test]
    fn a_wake_replaces_the_one_before() {
        let mut work = Work::default();
        work.wake(key(1), Some(Time(5)));
        work.wake(key(1), Some(Time(9)));
        work.wake_until(Time(8));
        assert!(!work.is_due());
        assert_eq!(work.next_wake(), Some(Time(9)));
        work.wake_until(Time(9));
        assert_eq!(work.take(), Some(key(1)));
        work.wake(key(1), Some(Time(12)));
        work.wake(key(1), None);
        assert_eq!(work.next_wake(), None);
    }

    #[test]
    fn a_key_that_is_refused_again_and_again_rests() {
        let mut work = Work::default();
        for _ in 0..REFUSALS_AT_ONCE {
            work.hold(key(1));
            work.refused(key(1), Time(0));
            assert_eq!(work.take(), Some(key(1)));
        }
        work.hold(key(1));
        work.refused(key(1), Time(0));
        assert_eq!(work.take(), None);
        work.wake_until(Time(0) + REFUSED_REST);
        assert_eq!(work.take(), Some(key(1)));
    }
}
