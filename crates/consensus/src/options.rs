//! What a user of the crate may choose, with the reasons for the defaults.

use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::DiskHook;
use crate::error::OpenError;

/// How [`Consensus::open`](crate::Consensus::open) should run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory of the log and the snapshots. Made, with mode 0700, when it isn't there.
    pub dir: PathBuf,
    /// Who we are among the voters. Written into the directory when it is made; a directory of
    /// another node is refused.
    pub node_id: u64,
    /// Where the other voters will reach us, as it is written into the first membership. Not used
    /// to listen.
    pub address: String,
    /// A snapshot is taken after this many entries. Default 50,000: well under a second of replay.
    pub snapshot_after_entries: u64,
    /// A snapshot is taken after entries of this many bytes. Default 64 MiB: bounds the log file,
    /// the time an opening after a crash takes to check it, and the replay of large entries.
    pub snapshot_after_bytes: u64,
    /// Entries that stay in the log behind a snapshot, so that a voter that was away for a moment
    /// needs no whole snapshot. Default 5,000.
    pub keep_entries_after_snapshot: u64,
    /// The largest entry that is accepted, bytes. Default 8 MiB.
    pub max_entry_bytes: usize,
    /// Proposals wait, before they enter the log, while proposals of this many bytes are under
    /// way. Bounds memory. Default 64 MiB.
    pub max_in_flight_bytes: usize,
    /// Sees each write to the log file before it is done, and may refuse it: for tests of failing
    /// disks. Default none.
    pub disk_hook: Option<Arc<dyn DiskHook>>,
}

impl Options {
    /// Options with all defaults.
    pub fn new(dir: impl Into<PathBuf>, node_id: u64) -> Self {
        Self {
            dir: dir.into(),
            node_id,
            address: String::new(),
            snapshot_after_entries: 50_000,
            snapshot_after_bytes: 64 << 20,
            keep_entries_after_snapshot: 5_000,
            max_entry_bytes: 8 << 20,
            max_in_flight_bytes: 64 << 20,
            disk_hook: None,
        }
    }

    /// Refuses values that can't work, naming the field.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let positive = [
            ("snapshot_after_entries", self.snapshot_after_entries),
            ("snapshot_after_bytes", self.snapshot_after_bytes),
            ("max_entry_bytes", self.max_entry_bytes as u64),
        ];
        for (field, value) in positive {
            if value == 0 {
                return Err(OpenError::Options(format!("{field} must not be 0")));
            }
        }
        if self.max_in_flight_bytes < self.max_entry_bytes {
            return Err(OpenError::Options(format!(
                "max_in_flight_bytes ({}) must not be less than max_entry_bytes ({})",
                self.max_in_flight_bytes, self.max_entry_bytes
            )));
        }
        // Both are counted by a 32-bit semaphore and stored with 32-bit lengths.
        if self.max_in_flight_bytes > u32::MAX as usize {
            return Err(OpenError::Options(format!(
                "max_in_flight_bytes ({}) must be under 4 GiB",
                self.max_in_flight_bytes
            )));
        }
        Ok(())
    }
}
