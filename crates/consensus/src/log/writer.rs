//! The one thread that writes the log file.
//!
//! It takes all that is queued, writes it in one transaction, and only then answers: while a
//! transaction is being synced the next one gathers, so a commit costs its sync once for as many
//! proposals as came in meanwhile.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, mpsc};

use openraft::storage::IOFlushed;
use redb::{Database, Durability, ReadableTable, Table};
use tokio::sync::oneshot;

use super::{LOG, META, META_COMMITTED, META_PURGED, META_VOTE, Shared};
use crate::format::{LogIdRecord, Record, VoteRecord, check_record, seal};
use crate::home::Home;
use crate::types::{Entry, LogId, TypeConfig, Vote};

/// Bytes of entries after which a transaction takes no more.
const TRANSACTION_BYTES: usize = 16 << 20;
/// Entries that one transaction purges at most, so that a purge delays no append by more than a
/// few milliseconds.
const PURGE_SLICE: u64 = 2_000;

type Done = oneshot::Sender<io::Result<()>>;

/// One change of the file.
pub(super) enum Command {
    Append { entries: Vec<Entry>, callback: IOFlushed<TypeConfig> },
    Vote { vote: Vote, done: Done },
    Truncate { after: Option<u64>, done: Done },
    Purge { upto: LogId },
    Close(oneshot::Sender<()>),
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Command")
    }
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Command>,
    /// How far the log is to be purged, while the file isn't there yet.
    purge: Option<LogId>,
    committed_written: Option<LogId>,
    /// Keeps the directory locked as long as this thread may write.
    _home: Arc<Home>,
}

type Failed = Box<dyn std::error::Error>;

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, queue: mpsc::Receiver<Command>, home: Arc<Home>) -> Self {
        Self { shared, queue, purge: None, committed_written: None, _home: home }
    }

    pub(super) fn run(mut self) {
        let mut closing = None;
        while closing.is_none() {
            let Some(mut batch) = self.gather() else { break };
            if matches!(batch.back(), Some(Command::Close(_))) {
                closing = batch.pop_back();
            }
            let result = self.write(&batch);
            self.answer(batch, result);
        }
        drop(self.shared.db.write().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(Command::Close(done)) = closing {
            let _ = done.send(());
        }
    }

    /// Waits for something to do and takes all there is, up to the limit. A close ends the batch.
    /// `None` when all handles are gone.
    fn gather(&mut self) -> Option<VecDeque<Command>> {
        let mut batch = VecDeque::new();
        let mut bytes = 0;
        if self.purge.is_none() || self.shared.failure.get().is_some() {
            batch.push_back(self.queue.recv().ok()?);
        }
        loop {
            match batch.back() {
                Some(Command::Close(_)) => break,
                Some(Command::Append { entries, .. }) => {
                    bytes += entries.iter().map(|e| Record::of(e).len()).sum::<usize>();
                }
                _ => {}
            }
            if bytes >= TRANSACTION_BYTES {
                break;
            }
            match self.queue.try_recv() {
                Ok(command) => batch.push_back(command),
                Err(_) => break,
            }
        }
        Some(batch)
    }

    /// Writes the batch, durable when this returns `Ok`. The first failure is final.
    fn write(&mut self, batch: &VecDeque<Command>) -> Result<(), Arc<str>> {
        if let Some(reason) = self.shared.failure.get() {
            return Err(reason);
        }
        if batch.is_empty() && self.purge.is_none() {
            return Ok(());
        }
        let shared = self.shared.clone();
        let db = shared.db.read().unwrap_or_else(PoisonError::into_inner);
        let db = db.as_ref().expect("only this thread takes the database out, at its end");
        // redb asserts what it relies on; a page that changed under it may panic instead of
        // returning an error. Nothing of the broken transaction is used afterwards.
        let result = catch_unwind(AssertUnwindSafe(|| self.transact(db, batch)));
        let detail = match result {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the storage engine panicked".to_string(),
        };
        let reason = format!(
            "cannot write {}: {detail}; what was not acknowledged may be lost, restart once the disk is well",
            shared.path.display()
        );
        Err(shared.failure.set(&reason))
    }

    fn transact(&mut self, db: &Database, batch: &VecDeque<Command>) -> Result<(), Failed> {
        let mut transaction = db.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        {
            let mut log = transaction.open_table(LOG)?;
            let mut meta = transaction.open_table(META)?;
            for command in batch {
                self.put(&mut log, &mut meta, command)?;
            }
            self.put_committed(&mut meta)?;
            self.purge_slice(&mut log, &mut meta)?;
        }
        transaction.commit()?;
        Ok(())
    }

    fn put(
        &mut self,
        log: &mut Table<'_, u64, &'static [u8]>,
        meta: &mut Table<'_, &'static str, &'static [u8]>,
        command: &Command,
    ) -> Result<(), Failed> {
        match command {
            Command::Append { entries, .. } => {
                for entry in entries {
                    let record = Record::of(entry);
                    let index = entry.log_id.index;
                    record.put(index, log.insert_reserve(index, record.len())?.as_mut());
                }
            }
            Command::Vote { vote, .. } => {
                meta.insert(META_VOTE, seal(&VoteRecord::of(vote)).as_slice())?;
            }
            Command::Truncate { after, .. } => {
                log.retain_in(after.map_or(0, |i| i + 1).., |_, _| false)?;
            }
            Command::Purge { upto } => self.purge = self.purge.max(Some(*upto)),
            Command::Close(_) => {}
        }
        Ok(())
    }

    /// The commit mark rides along with whatever is written.
    fn put_committed(&mut self, meta: &mut Table<'_, &'static str, &'static [u8]>) -> Result<(), Failed> {
        let committed = self.shared.state().committed;
        if committed != self.committed_written {
            if let Some(id) = &committed {
                meta.insert(META_COMMITTED, seal(&LogIdRecord::of(id)).as_slice())?;
            }
            self.committed_written = committed;
        }
        Ok(())
    }

    /// Removes the next slice of what is to be purged, and moves the purge mark with it, so that
    /// mark and entries agree at any crash.
    fn purge_slice(
        &mut self,
        log: &mut Table<'_, u64, &'static [u8]>,
        meta: &mut Table<'_, &'static str, &'static [u8]>,
    ) -> Result<(), Failed> {
        let Some(upto) = self.purge else { return Ok(()) };
        let first = log.first()?.map_or(u64::MAX, |(index, _)| index.value());
        let end = upto.index.min(first.saturating_add(PURGE_SLICE - 1));
        // The log may end before `upto`, when a snapshot that was received runs ahead of it.
        let mark = match log.get(end)? {
            Some(record) if end < upto.index => check_record(end, record.value())?,
            _ => upto,
        };
        log.retain_in(..=mark.index, |_, _| false)?;
        meta.insert(META_PURGED, seal(&LogIdRecord::of(&mark)).as_slice())?;
        if mark == upto {
            self.purge = None;
        }
        Ok(())
    }

    fn answer(&self, batch: VecDeque<Command>, result: Result<(), Arc<str>>) {
        let result = || result.as_ref().map_or_else(|r| Err(io::Error::other(r.to_string())), |()| Ok(()));
        // Entries count as flushed only now, or a reader might look for them in the file too soon.
        let mut flushed = None;
        for command in &batch {
            match command {
                Command::Append { entries, .. } => {
                    flushed = entries.last().map(|e| e.log_id.index + 1).or(flushed);
                }
                Command::Truncate { after, .. } => flushed = flushed.min(Some(after.map_or(0, |i| i + 1))),
                _ => {}
            }
        }
        if let (Some(end), Ok(())) = (flushed, result()) {
            self.shared.state().tail.flushed(end);
        }
        for command in batch {
            match command {
                Command::Append { callback, .. } => callback.io_completed(result()),
                Command::Vote { done, .. } | Command::Truncate { done, .. } => {
                    // Whoever asked may have given up waiting.
                    let _ = done.send(result());
                }
                Command::Purge { .. } | Command::Close(_) => {}
            }
        }
    }
}
