//! The replicated state of a cluster as MVCC tables, changed only by `apply`.

#![forbid(unsafe_code)]

mod change;
mod event;

pub use change::{Change, ChangeSet, Entry, FEATURE_LEVEL, Guard, ObjectId, Refused};
pub use event::{Action, Event, EventId, EventIdError, EventLog, Gone, Object};
