//! How entries and snapshots are written as bytes.
//!
//! Messages are protobuf (by derive, without a schema file); each struct documents its field numbers, and a number that was
//! once used is never used again. An entry is one message. A snapshot is a stream of checksummed frames (see `snapshot`).
//! Nothing in either depends on handles, memory layout or map order: equal tables give equal bytes.
//!
//! Reading trusts nothing: versions are looked at first, every length and every count has a limit that is checked before
//! memory is taken for it, and an unknown number of an enum is an error, never a default.

mod change;
mod disruption;
mod entry;
mod fields;
mod frame;
mod group;
mod node;
mod piece;
mod shape;
mod snapshot;
mod spec;
mod steering;
mod task;
mod volume;

pub use entry::{ENTRY_BYTES, ENTRY_FORMAT, check_entry, decode_entry, encode_entry};
pub use piece::{decode_program_status, decode_task_spec, encode_program_status, encode_task_spec};
pub use snapshot::{SNAPSHOT_FORMAT, digest, read_snapshot, write_snapshot};

/// Why bytes could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// They were written by a newer program.
    #[error("{what} {found} is newer than {known}, the newest that this program reads")]
    Newer {
        /// Which of the two versions that everything carries.
        what: &'static str,
        /// What was found.
        found: u32,
        /// The newest that is known.
        known: u32,
    },
    /// They are something else.
    #[error("this is not a {0}")]
    Other(&'static str),
    /// They end too early.
    #[error("{0} ends too early")]
    Truncated(&'static str),
    /// A checksum does not hold.
    #[error("frame {frame} of the snapshot is damaged: its checksum does not hold")]
    Damaged {
        /// Which frame, from 0.
        frame: u64,
    },
    /// A length or a count is beyond its limit.
    #[error("{what}: {found} is more than {limit}")]
    TooLong {
        /// Of what.
        what: &'static str,
        /// The length or count.
        found: u64,
        /// What is allowed.
        limit: u64,
    },
    /// A message is no protobuf.
    #[error("{what} cannot be read: {problem}")]
    Malformed {
        /// Which message.
        what: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// A field is not there.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A number that nothing has.
    #[error("{number} is no {what}")]
    Unknown {
        /// Of what.
        what: &'static str,
        /// The number.
        number: u32,
    },
    /// The parts of a snapshot do not fit together.
    #[error("the snapshot does not fit together: {0}")]
    Unfit(String),
    /// The reader failed.
    #[error("a snapshot could not be read: {0}")]
    Io(#[from] std::io::Error),
}
