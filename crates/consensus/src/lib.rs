//! The replicated log of the control plane: entries go in, each is made durable by a majority of
//! the voters, and each is handed to one [`Machine`] in the same order on every node.
//!
//! The engine is openraft. Its log and its hard state live in one redb file, its snapshots in
//! checksummed files beside it. Entries and snapshots are opaque bytes here: this crate knows
//! neither the object model nor the store.
//!
//! What it isn't: it has no transport yet. A cluster of one voter is complete; with a second voter
//! in the membership the network answers "unreachable" until a transport is given to it.
//!
//! Directory layout, all files 0600, directories 0700:
//!
//! ```text
//! lock                          held (flock) by the process that uses the directory
//! log.redb                      entries, vote, commit mark, purge mark, format version, node id
//! snapshots/<index>-<term>.snap the machine as of that entry; the newest two are kept
//! ```

#![forbid(unsafe_code)]

mod apply;
#[cfg(test)]
mod conformance;
mod disk;
mod engine;
mod error;
mod failure;
mod format;
mod home;
mod log;
mod machine;
mod network;
mod options;
mod snapshot;
mod types;

pub use disk::DiskHook;
pub use engine::{Committed, Consensus, Leadership, Status};
pub use error::{OpenError, ProposeError};
pub use format::FORMAT_VERSION;
pub use machine::{Frozen, Machine};
pub use options::Options;
pub use snapshot::SnapshotInfo;
