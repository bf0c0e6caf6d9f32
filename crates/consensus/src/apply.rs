//! The machine's thread, and the state machine that openraft sees, which only sends to it.
//!
//! One thread owns the machine from the first entry to the last: it applies, freezes and installs
//! in the order in which openraft asks, and nobody else writes.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use futures_util::{Stream, StreamExt};
use openraft::storage::{ApplyResponder, EntryResponder, RaftStateMachine};
use openraft::{OptionalSend, RaftSnapshotBuilder};
use tokio::sync::{Notify, oneshot};

use crate::failure::Failure;
use crate::machine::{Frozen, Machine};
use crate::options::Options;
use crate::snapshot::{self, SnapshotFile, Snapshots};
use crate::types::{Entry, EntryPayload, LogId, Reply, Snapshot, SnapshotMeta, StoredMembership, TypeConfig};

type Done = oneshot::Sender<io::Result<()>>;

enum Command {
    Apply {
        entries: Vec<EntryResponder<TypeConfig>>,
        done: Done,
    },
    Freeze {
        done: oneshot::Sender<io::Result<Frame>>,
    },
    /// A snapshot has been written.
    Written,
    Install {
        meta: SnapshotMeta,
        file: SnapshotFile,
        done: Done,
    },
    Close(oneshot::Sender<()>),
}

/// A frozen machine, and what it contains.
struct Frame {
    last: Option<LogId>,
    membership: StoredMembership,
    frozen: Box<dyn Frozen>,
}

/// What the machine contains by now. Owner: the machine's thread.
#[derive(Clone, Debug, Default)]
struct Applied {
    last: Option<LogId>,
    membership: StoredMembership,
}

/// openraft's state machine: a handle on the thread.
#[derive(Clone, Debug)]
pub(crate) struct StateMachine {
    queue: mpsc::Sender<Command>,
    applied: Arc<Mutex<Applied>>,
    snapshots: Arc<Snapshots>,
    failure: Failure,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Command")
    }
}

fn lock(applied: &Mutex<Applied>) -> MutexGuard<'_, Applied> {
    // Each holder replaces whole fields; there is no half state to fear.
    applied.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StateMachine {
    /// Starts the thread around `machine`, which already contains `loaded`. `snapshot_due` is
    /// notified when enough was applied since the last snapshot.
    pub(crate) fn start<M: Machine>(
        machine: M,
        loaded: Option<SnapshotMeta>,
        snapshots: Arc<Snapshots>,
        failure: Failure,
        snapshot_due: Arc<Notify>,
        options: &Options,
    ) -> io::Result<Self> {
        let loaded = loaded.unwrap_or_default();
        let applied = Applied { last: loaded.last_log_id, membership: loaded.last_membership };
        let applied = Arc::new(Mutex::new(applied));
        let (queue, commands) = mpsc::channel();
        let room = Room {
            machine,
            applied: applied.clone(),
            failure: failure.clone(),
            meter: Meter {
                after_entries: options.snapshot_after_entries,
                after_bytes: options.snapshot_after_bytes,
                due: snapshot_due,
                entries: 0,
                bytes: 0,
                writing: false,
            },
        };
        std::thread::Builder::new().name("apply".into()).spawn(move || room.run(&commands))?;
        Ok(Self { queue, applied, snapshots, failure })
    }

    /// The last index that the machine contains.
    pub(crate) fn applied_index(&self) -> Option<u64> {
        lock(&self.applied).last.map(|id| id.index)
    }

    pub(crate) async fn close(&self) {
        let (done, wait) = oneshot::channel();
        if self.queue.send(Command::Close(done)).is_ok() {
            // An error says that the thread is gone, which is what was wanted.
            let _ = wait.await;
        }
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> io::Result<T> {
        self.failure.check()?;
        let gone = || io::Error::other("the machine's thread has ended");
        let (done, wait) = oneshot::channel();
        self.queue.send(command(done)).map_err(|_| gone())?;
        wait.await.map_err(|_| gone())
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let applied = lock(&self.applied).clone();
        Ok((applied.last, applied.membership))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        let mut batch = Vec::with_capacity(entries.size_hint().0);
        while let Some(entry) = entries.next().await {
            batch.push(entry?);
        }
        self.ask(|done| Command::Apply { entries: batch, done }).await?
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let frame = self.ask(|done| Command::Freeze { done }).await.and_then(|frame| frame);
        Builder {
            frame: Mutex::new(Some(frame)),
            queue: self.queue.clone(),
            snapshots: self.snapshots.clone(),
            failure: self.failure.clone(),
        }
    }

    /// The file first, then the machine: after a crash in between, the start loads the file.
    async fn install_snapshot(&mut self, meta: &SnapshotMeta, file: SnapshotFile) -> io::Result<()> {
        let (snapshots, meta, from) = (self.snapshots.clone(), meta.clone(), file);
        let adopted = tokio::task::spawn_blocking(move || snapshots.adopt(&meta, &from.0));
        let adopted = adopted.await.map_err(io::Error::other)?;
        let adopted = adopted.map_err(|e| {
            let reason = format!("cannot take over a snapshot: {e}");
            io::Error::other(self.failure.set(&reason).to_string())
        })?;
        let Snapshot { meta, snapshot: file } = adopted;
        self.ask(|done| Command::Install { meta, file, done }).await?
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        Ok(self.snapshots.current())
    }
}

/// Writes one frozen machine, on a thread that ends with it.
pub(crate) struct Builder {
    /// The mutex is for `Sync` only; one task uses it.
    frame: Mutex<Option<io::Result<Frame>>>,
    queue: mpsc::Sender<Command>,
    snapshots: Arc<Snapshots>,
    failure: Failure,
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let frame = self.frame.lock().unwrap_or_else(PoisonError::into_inner).take();
        let frame = frame.ok_or_else(|| io::Error::other("this snapshot was already written"))??;
        let (done, wait) = oneshot::channel();
        let snapshots = self.snapshots.clone();
        std::thread::Builder::new().name("snapshot".into()).spawn(move || {
            let Frame { last, membership, frozen } = frame;
            // The receiver is gone only when the engine has stopped.
            let _ = done.send(snapshots.write(last, &membership, frozen));
        })?;
        let written = wait.await.unwrap_or_else(|_| Err(io::Error::other("its writer panicked")));
        let snapshot = written.map_err(|e| {
            let reason = format!("cannot write a snapshot: {e}");
            io::Error::other(self.failure.set(&reason).to_string())
        })?;
        // The thread is gone only when the engine has stopped.
        let _ = self.queue.send(Command::Written);
        Ok(snapshot)
    }
}

/// The inside of the thread.
struct Room<M> {
    machine: M,
    applied: Arc<Mutex<Applied>>,
    failure: Failure,
    meter: Meter,
}

impl<M: Machine> Room<M> {
    fn run(mut self, commands: &mpsc::Receiver<Command>) {
        while let Ok(command) = commands.recv() {
            match command {
                Command::Apply { entries, done } => {
                    let result = self.guarded("apply an entry", |room| {
                        room.apply(entries);
                        Ok(())
                    });
                    let _ = done.send(result);
                }
                Command::Freeze { done } => {
                    let frame = self.guarded("freeze its state", |room| Ok(room.freeze()));
                    let _ = done.send(frame);
                }
                Command::Written => self.meter.written(),
                Command::Install { meta, file, done } => {
                    let result = self.guarded("load a snapshot", |room| room.install(meta, &file));
                    let _ = done.send(result);
                }
                Command::Close(done) => {
                    drop(self);
                    let _ = done.send(());
                    return;
                }
            }
        }
    }

    /// A machine that panicked or refused is in an unknown state: nothing more is asked of it.
    fn guarded<T>(&mut self, what: &str, act: impl FnOnce(&mut Self) -> Result<T, String>) -> io::Result<T> {
        self.failure.check()?;
        let result = catch_unwind(AssertUnwindSafe(|| act(self)));
        let detail = match result {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(reason)) => reason,
            Err(panic) => format!("it panicked: {}", panic_text(panic.as_ref())),
        };
        let reason = format!("the state machine could not {what}: {detail}");
        Err(io::Error::other(self.failure.set(&reason).to_string()))
    }

    /// Proposers get their answers after `batch_end`, when what they wrote can be read.
    fn apply(&mut self, entries: Vec<EntryResponder<TypeConfig>>) {
        let mut replies: Vec<(ApplyResponder<TypeConfig>, Reply)> = Vec::new();
        let mut last = None;
        let mut membership = None;
        for (Entry { log_id, payload }, responder) in entries {
            let reply = match payload {
                EntryPayload::Normal(payload) => {
                    self.meter.bytes += payload.0.len() as u64;
                    let reply = self.machine.apply(log_id.index, &payload.0);
                    responder.is_some().then(|| Reply::new(reply))
                }
                EntryPayload::Membership(m) => {
                    membership = Some(StoredMembership::new(Some(log_id), m));
                    None
                }
                EntryPayload::Blank => None,
            };
            self.meter.entries += 1;
            last = Some(log_id);
            if let Some(responder) = responder {
                replies.push((responder, reply.unwrap_or_else(Reply::none)));
            }
        }
        let Some(last) = last else { return };
        self.machine.batch_end(last.index);
        {
            let mut applied = lock(&self.applied);
            applied.last = Some(last);
            if let Some(membership) = membership {
                applied.membership = membership;
            }
        }
        self.meter.check();
        for (responder, reply) in replies {
            responder.send(reply);
        }
    }

    fn freeze(&mut self) -> Frame {
        let Applied { last, membership } = lock(&self.applied).clone();
        let frame = Frame { last, membership, frozen: self.machine.freeze() };
        self.meter.frozen();
        frame
    }

    fn install(&mut self, meta: SnapshotMeta, file: &SnapshotFile) -> Result<(), String> {
        load(&mut self.machine, &meta, file)?;
        self.machine.batch_end(meta.last_log_id.map_or(0, |id| id.index));
        *lock(&self.applied) = Applied { last: meta.last_log_id, membership: meta.last_membership };
        self.meter.loaded();
        Ok(())
    }
}

/// Gives the machine the bytes of a snapshot, and makes sure that it took all of them.
pub(crate) fn load<M: Machine>(
    machine: &mut M,
    meta: &SnapshotMeta,
    file: &SnapshotFile,
) -> Result<(), String> {
    let mut reader = snapshot::reader(&file.0).map_err(|e| e.to_string())?;
    machine.install(meta.last_log_id.map_or(0, |id| id.index), &mut reader)?;
    match io::copy(&mut reader, &mut io::sink()) {
        Ok(0) => Ok(()),
        Ok(left) => Err(format!("{left} bytes of it were not understood")),
        Err(e) => Err(e.to_string()),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Counts what was applied since the last snapshot and says when the next one is due.
struct Meter {
    after_entries: u64,
    after_bytes: u64,
    due: Arc<Notify>,
    entries: u64,
    bytes: u64,
    /// A snapshot is being written; the next one waits for it.
    writing: bool,
}

impl Meter {
    fn check(&self) {
        let due = self.entries >= self.after_entries || self.bytes >= self.after_bytes;
        if due && !self.writing {
            self.due.notify_one();
        }
    }

    fn frozen(&mut self) {
        (self.entries, self.bytes, self.writing) = (0, 0, true);
    }

    fn written(&mut self) {
        self.writing = false;
        self.check();
    }

    fn loaded(&mut self) {
        (self.entries, self.bytes) = (0, 0);
    }
}
