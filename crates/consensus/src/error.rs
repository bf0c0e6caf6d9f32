//! What can go wrong, for whoever opens the log and for whoever proposes to it.

use std::io;
use std::path::{Path, PathBuf};

/// Why a directory can't be opened. Each sentence names the file and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An option has an impossible value.
    #[error("consensus options: {0}")]
    Options(String),
    /// The operating system refused a file operation.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// Another process has the directory open.
    #[error("{} is in use by another process (its lock file is held); stop that one first", dir.display())]
    Locked {
        /// The consensus directory.
        dir: PathBuf,
    },
    /// The directory was made by another node.
    #[error("{} belongs to node {found}, but this is node {wanted}; use this node's own directory", path.display())]
    ForeignNode {
        /// The log file.
        path: PathBuf,
        /// The node id in the file.
        found: u64,
        /// The node id in the options.
        wanted: u64,
    },
    /// The file was written by a newer version of this program.
    #[error("{} has format {found}, this program reads up to format {supported}; use the newer program", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: u32,
        /// The newest version this program reads.
        supported: u32,
    },
    /// The file's content fails its checks.
    #[error("{} is damaged: {detail}; restore the directory from a backup, or remove it on a node whose peers hold the data", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What fails.
        detail: String,
    },
    /// Entries are missing between what the snapshots hold and what the log holds.
    #[error(
        "{} begins at entry {first}, but the newest usable snapshot ends at {}; the entries between are missing: restore the directory from a backup{}",
        path.display(),
        snapshot.map_or("nothing (there is none)".to_string(), |i| format!("entry {i}")),
        damaged.as_ref().map_or(String::new(), |d| format!(" ({d})")),
    )]
    Gap {
        /// The log file.
        path: PathBuf,
        /// The first entry that the log holds.
        first: u64,
        /// The last entry of the newest usable snapshot.
        snapshot: Option<u64>,
        /// What is wrong with a newer snapshot, if there is one.
        damaged: Option<String>,
    },
    /// The machine refused a snapshot.
    #[error("{} cannot be loaded: {reason}", path.display())]
    Refused {
        /// The snapshot file.
        path: PathBuf,
        /// The machine's sentence.
        reason: String,
    },
    /// The engine stopped before it was ready.
    #[error("consensus stopped while opening: {0}")]
    Stopped(String),
}

impl OpenError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn damaged(path: &Path, detail: impl ToString) -> Self {
        Self::Damaged { path: path.to_owned(), detail: detail.to_string() }
    }
}

/// Why a proposal, a read barrier or a snapshot didn't happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Another node leads; nothing was written. Ask that one.
    #[error("this node does not lead; {}", leader.map_or("no leader is known".to_string(), |l| format!("node {l} does")))]
    NotLeader {
        /// Who leads, if known.
        leader: Option<u64>,
    },
    /// Leadership was lost with the entry in the log: it may still be committed by the next
    /// leader, or not. Look at the state before trying again.
    #[error("leadership was lost while the entry was under way; it may or may not take effect")]
    Unknown {
        /// Who leads now, if known.
        leader: Option<u64>,
    },
    /// The entry is larger than [`Options::max_entry_bytes`](crate::Options::max_entry_bytes).
    #[error("entry of {bytes} bytes is over the limit of {limit} bytes")]
    TooLarge {
        /// Size of the entry.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Not enough voters answer to confirm leadership.
    #[error("no majority of the voters answers: {0}")]
    NoQuorum(String),
    /// The engine has stopped, for this reason. Whether an entry that was under way is on disk
    /// shows after reopening.
    #[error("consensus has stopped: {0}")]
    Stopped(String),
}
