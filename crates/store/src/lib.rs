//! The replicated state of a cluster as MVCC tables, changed only by `apply`.

#![forbid(unsafe_code)]

mod apply;
mod change;
pub mod codec;
mod derived;
mod event;
mod index;
mod index_task;
mod slab;
mod slots;
mod tables;
mod tasks;

pub use apply::Applied;
pub use change::{Change, ChangeSet, Entry, FEATURE_LEVEL, Guard, ObjectId, Refused};
pub use derived::{NodeUse, ServiceUse};
pub use event::{Action, Event, EventId, EventIdError, EventLog, Gone, Object};
pub use tables::{Table, Tables};
