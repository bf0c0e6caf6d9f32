//! The log as openraft sees it: appends go to the writer thread and come back as flush callbacks,
//! reads come from the tail in memory or from redb.
//!
//! Order: everything that changes the file (entries, vote, truncation, purge) passes through one
//! queue, so the file never holds a later change without the earlier ones.

mod open;
mod tail;
mod writer;

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, mpsc};

use openraft::OptionalSend;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use redb::{Database, ReadableDatabase};
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::format::decode_record;
use crate::types::{Entry, LogId, TypeConfig, Vote};

pub(crate) use open::{Opened, open};
use tail::Tail;
use writer::Command;

/// Entries by index. The value is a record of `format`.
const LOG: redb::TableDefinition<'_, u64, &[u8]> = redb::TableDefinition::new("log");
/// The engine's hard state by name: sealed messages of `format`.
const META: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("meta");
const META_OWNER: &str = "owner";
const META_VOTE: &str = "vote";
const META_COMMITTED: &str = "committed";
const META_PURGED: &str = "purged";

/// A handle on the log; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Command>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    failure: Failure,
    /// Taken out when the log is closed, so that the file is free even while handles live on.
    db: RwLock<Option<Database>>,
    state: Mutex<State>,
}

/// The log as it will be once the queue is written. Owner: the caller of the storage trait; the
/// writer only moves `tail`'s flushed mark.
#[derive(Debug)]
struct State {
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
    last: Option<LogId>,
    tail: Tail,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while it was held would leave memory ahead of the file; nobody panics there.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closed(&self) -> io::Error {
        io::Error::other(format!("{} is closed", self.path.display()))
    }

    fn read_file(&self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        let failed = |e: &dyn std::fmt::Display| {
            let reason = format!("cannot read {}: {e}", self.path.display());
            io::Error::other(self.failure.set(&reason).to_string())
        };
        let db = self.db.read().unwrap_or_else(PoisonError::into_inner);
        let db = db.as_ref().ok_or_else(|| self.closed())?;
        let transaction = db.begin_read().map_err(|e| failed(&e))?;
        let table = transaction.open_table(LOG).map_err(|e| failed(&e))?;
        let mut entries = Vec::new();
        for record in table.range(start..end).map_err(|e| failed(&e))? {
            let (index, bytes) = record.map_err(|e| failed(&e))?;
            entries.push(decode_record(index.value(), bytes.value()).map_err(|e| failed(&e))?);
        }
        Ok(entries)
    }
}

impl Log {
    fn send(&self, command: Command) -> io::Result<()> {
        self.shared.failure.check()?;
        self.queue.send(command).map_err(|_| self.shared.closed())
    }

    async fn send_and_wait(
        &self,
        command: impl FnOnce(oneshot::Sender<io::Result<()>>) -> Command,
    ) -> io::Result<()> {
        let (done, wait) = oneshot::channel();
        self.send(command(done))?;
        wait.await.map_err(|_| self.shared.closed())?
    }

    /// Writes what is queued, closes the file and waits for the writer thread's last act.
    pub(crate) async fn close(&self) {
        let (done, wait) = oneshot::channel();
        if self.queue.send(Command::Close(done)).is_ok() {
            // An error says that the thread is gone, which is what was wanted.
            let _ = wait.await;
        }
    }

    /// [`close`](Log::close) for a thread that may block.
    pub(crate) fn close_blocking(&self) {
        let (done, wait) = oneshot::channel();
        if self.queue.send(Command::Close(done)).is_ok() {
            let _ = wait.blocking_recv();
        }
    }

    /// The indexes behind and at the end of the log, and the file's size on disk.
    pub(crate) fn extent(&self) -> (Option<u64>, Option<u64>, u64) {
        let state = self.shared.state();
        let bytes = std::fs::metadata(&self.shared.path).map_or(0, |m| m.len());
        (state.purged.map(|id| id.index), state.last.map(|id| id.index), bytes)
    }
}

impl RaftLogReader<TypeConfig> for Log {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        let start = match range.start_bound() {
            Bound::Included(i) => *i,
            Bound::Excluded(i) => i.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(i) => i.saturating_add(1),
            Bound::Excluded(i) => *i,
            Bound::Unbounded => u64::MAX,
        };
        // The tail is copied first: what it gives up afterwards is in the file by then.
        let (from_file, tail) = {
            let state = self.shared.state();
            let purged = state.purged.map_or(0, |id| id.index + 1);
            let tail = state.tail.range(start, end);
            let tail_first = tail.first().map_or(state.tail.first(), |e| e.log_id.index);
            (start.max(purged)..end.min(tail_first), tail)
        };
        if from_file.is_empty() {
            return Ok(tail);
        }
        let mut entries = self.shared.read_file(from_file.start, from_file.end)?;
        entries.extend(tail);
        Ok(entries)
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.shared.state().vote)
    }
}

impl RaftLogStorage<TypeConfig> for Log {
    type LogReader = Log;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let state = self.shared.state();
        Ok(LogState { last_purged_log_id: state.purged, last_log_id: state.last })
    }

    async fn get_log_reader(&mut self) -> Log {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let vote = *vote;
        self.send_and_wait(|done| Command::Vote { vote, done }).await?;
        self.shared.state().vote = Some(vote);
        Ok(())
    }

    /// Not worth a write of its own: it travels with the next one. An older mark only means that
    /// more entries wait for the leader's word after a restart.
    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        self.shared.state().committed = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.shared.state().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        {
            let mut state = self.shared.state();
            for entry in &entries {
                state.last = Some(entry.log_id);
                state.tail.push(entry.clone());
            }
        }
        self.send(Command::Append { entries, callback })
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> io::Result<()> {
        {
            let mut state = self.shared.state();
            let end = last_log_id.or(state.purged);
            // Nothing happens when the log ends before.
            if state.last.map(|id| id.index) > end.map(|id| id.index) {
                state.last = end;
            }
            state.tail.truncate(last_log_id.map_or(0, |id| id.index + 1));
        }
        let after = last_log_id.map(|id| id.index);
        self.send_and_wait(|done| Command::Truncate { after, done }).await
    }

    /// Takes effect in memory at once and in the file in slices, between other writes: a purge
    /// that a crash undoes leaves entries that are known to be in a snapshot.
    async fn purge(&mut self, log_id: LogId) -> io::Result<()> {
        {
            let mut state = self.shared.state();
            state.purged = state.purged.max(Some(log_id));
            state.last = state.last.max(Some(log_id));
            state.tail.purge(log_id.index);
        }
        self.send(Command::Purge { upto: log_id })
    }
}
