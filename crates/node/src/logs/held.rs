//! Directories of forgotten tasks that are held back from deletion while somebody follows logs.
//!
//! A task that ends quickly may be forgotten before a follower came to read its last lines. So as long as anybody follows anything,
//! a directory goes a little later, and one that a reader has taken up goes once it has been read. Their number is limited: past
//! that the oldest goes first, and its reader says that lines are missing.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a directory stays while somebody follows, so that a follower hears of its task.
const STAY: Duration = Duration::from_secs(5);

/// The most directories that are held back.
const MOST: usize = 512;

/// What is followed, and what waits to be deleted.
#[derive(Clone, Default)]
pub struct Held(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    followers: usize,
    /// How many readers each directory has.
    readers: BTreeMap<PathBuf, usize>,
    /// Directories to be deleted, oldest first, and since when.
    waiting: VecDeque<(PathBuf, Instant)>,
}

/// Somebody follows, until this is dropped.
pub struct Following(Held);

/// Somebody reads a directory, until this is dropped.
pub struct Reading(Held, PathBuf);

impl Held {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a follower.
    pub fn follow(&self) -> Following {
        self.lock().followers += 1;
        Following(self.clone())
    }

    /// Notes a reader of this directory.
    pub fn read(&self, dir: PathBuf) -> Reading {
        *self.lock().readers.entry(dir.clone()).or_default() += 1;
        Reading(self.clone(), dir)
    }

    /// Takes over a directory that is to be deleted; false when nobody follows, and it can go at once.
    pub fn keep(&self, dir: PathBuf, now: Instant) -> bool {
        let mut inner = self.lock();
        let wanted = inner.followers > 0;
        if wanted {
            inner.waiting.push_back((dir, now));
        }
        wanted
    }

    /// The directories that can be deleted now.
    pub fn due(&self, now: Instant) -> Vec<PathBuf> {
        let mut inner = self.lock();
        let Inner { followers, readers, waiting } = &mut *inner;
        let mut due: Vec<PathBuf> =
            waiting.drain(..waiting.len().saturating_sub(MOST)).map(|(dir, _)| dir).collect();
        waiting.retain(|(dir, since)| {
            let stays =
                *followers > 0 && (readers.contains_key(dir) || now.saturating_duration_since(*since) < STAY);
            if !stays {
                due.push(dir.clone());
            }
            stays
        });
        due
    }

    /// True when something waits to be deleted.
    pub fn is_waiting(&self) -> bool {
        !self.lock().waiting.is_empty()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.0.lock().followers -= 1;
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        if let Some(count) = inner.readers.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                inner.readers.remove(&self.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_stays_for_followers_and_readers() {
        let held = Held::default();
        let start = Instant::now();
        let later = start + STAY;
        assert!(!held.keep("/a".into(), start), "nobody follows");
        let following = held.follow();
        assert!(held.keep("/a".into(), start) && held.keep("/b".into(), start));
        let reading = held.read("/b".into());
        assert_eq!(held.due(start), Vec::<PathBuf>::new());
        assert_eq!(held.due(later), [PathBuf::from("/a")]);
        drop(reading);
        assert_eq!(held.due(later), [PathBuf::from("/b")]);
        assert!(!held.is_waiting());
        let _reading = held.read("/c".into());
        assert!(held.keep("/c".into(), start));
        drop(following);
        assert_eq!(held.due(start), [PathBuf::from("/c")], "with the last follower everything goes");
    }

    #[test]
    fn their_number_is_limited() {
        let held = Held::default();
        let now = Instant::now();
        let _following = held.follow();
        let _readers: Vec<Reading> = (0..MOST + 3).map(|n| held.read(format!("/{n}").into())).collect();
        assert!((0..MOST + 3).all(|n| held.keep(format!("/{n}").into(), now)));
        assert_eq!(held.due(now), ["/0", "/1", "/2"].map(PathBuf::from));
    }
}
