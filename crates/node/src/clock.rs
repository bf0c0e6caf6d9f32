//! Time and chance: the only place of this crate that asks the machine for either.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use manager::LogClock;
use model::{Id, Time};

/// What the machine's clock says now. People and programs may set it.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// The time of the log, as this daemon tells it to everything that writes there.
#[derive(Clone, Debug)]
pub struct ClusterClock {
    since: Instant,
    shown: Arc<Mutex<LogClock>>,
}

impl ClusterClock {
    /// A clock that agrees with the machine's now.
    pub fn new() -> Self {
        Self { since: Instant::now(), shown: Arc::default() }
    }

    /// The time now.
    pub fn now(&self) -> Time {
        // The two are read inside, so that of two readers the later one is shown the later time.
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.now(now(), self.steady())
    }

    /// The time since this clock was made, whatever happens to the machine's.
    pub fn steady(&self) -> Time {
        Time(i64::try_from(self.since.elapsed().as_nanos()).unwrap_or(i64::MAX))
    }

    /// The log has an entry of this time.
    pub fn seen(&self, written: Time) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).seen(written);
    }
}

/// A fresh random id.
pub fn new_id() -> Id {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the kernel gives random bytes once it has booted");
    Id::from_u128(u128::from_le_bytes(bytes))
}

/// A fresh random number.
pub fn new_number() -> u64 {
    new_id().as_u128() as u64
}
