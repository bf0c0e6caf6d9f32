//! Time and chance: the only place of this crate that asks the machine for either.

use std::time::{SystemTime, UNIX_EPOCH};

use model::{Id, Time};

/// The time now.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
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
