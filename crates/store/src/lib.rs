//! The replicated state of a cluster as MVCC tables, changed only by `apply`.
//!
//! [`Tables`] are persistent: a clone is a snapshot, costs well under a microsecond and never changes. What changes them is an
//! [`Entry`] of the log: change sets, each of which takes effect whole or not at all, the same way on every manager. `apply`
//! answers with [`Event`]s; whoever takes a snapshot and then reads the [`EventLog`] from the snapshot's index on misses nothing.
//! Beside the objects the tables keep indexes and derived tables ([`NodeUse`], [`ServiceUse`]), so that a decision costs what it
//! is about and not what there is. [`codec`] writes entries and snapshots as bytes.
//!
//! This crate knows no clock, no chance, no disk and no network, nor who replicates the log. It checks what keeps the tables true
//! (references, names, states, ports); whether a spec makes sense was checked before.
//!
//! Where things are: `tables` and `tasks` read, `index` and `index_task` write and keep what follows, `apply` decides what may
//! happen, one file an object.

#![forbid(unsafe_code)]

mod apply;
mod change;
pub mod codec;
mod derived;
mod event;
mod event_log;
mod id_map;
mod index;
mod index_task;
mod moving;
mod rollout;
mod slab;
mod slots;
mod tables;
mod tasks;

pub use apply::Applied;
pub use change::{Change, ChangeSet, Entry, FEATURE_LEVEL, Guard, ObjectId, Refused};
pub use derived::{NodeUse, ServiceUse};
pub use event::{Action, Event, EventId, EventIdError, Object};
pub use event_log::{About, AboutTask, EventLog, Fact, Gone, KeptEvent, Subject};
pub use rollout::{Moments, Rollout};
#[cfg(debug_assertions)]
pub use slab::objects_read;
pub use tables::{Table, Tables};
