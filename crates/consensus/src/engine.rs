//! The handle that the node holds: open, propose, read, watch, close.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, Fatal, LinearizableReadError, RaftError};
use openraft::{BasicNode, Config, Raft, ReadPolicy, ServerState, SnapshotPolicy};
use tokio::sync::{Notify, Semaphore, watch};

use crate::apply::{self, StateMachine};
use crate::error::{OpenError, ProposeError};
use crate::failure::Failure;
use crate::home::Home;
use crate::log::{self, Log};
use crate::machine::Machine;
use crate::network::NoNetwork;
use crate::options::Options;
use crate::snapshot::{SnapshotInfo, Snapshots};
use crate::types::{Payload, Reply, SnapshotMeta, TypeConfig};

/// Milliseconds between a leader's heartbeats to its followers.
const HEARTBEAT_MS: u64 = 250;
/// Milliseconds without a heartbeat, at least and at most, after which a follower wants to lead.
const ELECTION_MS: (u64, u64) = (1_500, 3_000);

type Engine = Raft<TypeConfig, StateMachine>;

/// A running member of the cluster. Clones share it.
pub struct Consensus<M: Machine> {
    inner: Arc<Inner>,
    machine: PhantomData<fn() -> M>,
}

impl<M: Machine> Clone for Consensus<M> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), machine: PhantomData }
    }
}

struct Inner {
    options: Options,
    raft: Engine,
    log: Log,
    machine: StateMachine,
    snapshots: Arc<Snapshots>,
    failure: Failure,
    leadership: watch::Receiver<Leadership>,
    in_flight: Semaphore,
    /// Dropped with the last handle; the keeper ends then.
    _alive: watch::Sender<()>,
}

/// A committed and applied entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed<R> {
    /// Where it stands in the log.
    pub index: u64,
    /// What the machine answered.
    pub reply: R,
}

/// Who leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The leader, as far as this node knows.
    pub leader: Option<u64>,
    /// The term; it rises with each election.
    pub term: u64,
    /// This node is the leader. It may still be applying entries of earlier terms: a
    /// [`Consensus::read_barrier`] waits for them.
    pub is_me: bool,
}

/// Where a node stands, for people and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// This node.
    pub node_id: u64,
    /// Who leads.
    pub leadership: Leadership,
    /// The last entry in the log, committed or not.
    pub last_index: Option<u64>,
    /// The last entry that the machine contains.
    pub applied_index: Option<u64>,
    /// The last entry that was removed from the log because a snapshot contains it.
    pub purged_index: Option<u64>,
    /// The newest snapshot.
    pub snapshot: Option<SnapshotInfo>,
    /// Size of the log file.
    pub log_bytes: u64,
    /// Why it has stopped, if it has.
    pub failed: Option<String>,
}

impl<M: Machine> Consensus<M> {
    /// Opens the directory, brings `machine` to the newest snapshot, and starts. With this node as
    /// the only voter (a new directory makes it that) it returns when the node leads and
    /// everything committed is applied; with more voters as soon as the node takes part.
    ///
    /// # Errors
    /// See [`OpenError`]: the directory is in use, foreign, too new, or damaged.
    pub async fn open(options: Options, machine: M) -> Result<Self, OpenError> {
        options.check()?;
        let failure = Failure::new();
        let loading = (options.clone(), failure.clone());
        let loaded = tokio::task::spawn_blocking(move || Loaded::read(&loading.0, machine, &loading.1));
        let loaded = loaded.await.map_err(|e| OpenError::Stopped(e.to_string()))??;
        let inner = Inner::start(options, loaded, failure).await?;
        Ok(Self { inner: Arc::new(inner), machine: PhantomData })
    }

    /// Proposes an entry and waits until it is on the disks of a majority and applied here.
    ///
    /// Dropping the future doesn't withdraw the entry.
    ///
    /// # Errors
    /// See [`ProposeError`]. Only `NotLeader` and `TooLarge` say that nothing was written.
    pub async fn propose(&self, entry: Vec<u8>) -> Result<Committed<M::Reply>, ProposeError> {
        let inner = &*self.inner;
        let limit = inner.options.max_entry_bytes;
        if entry.len() > limit {
            return Err(ProposeError::TooLarge { bytes: entry.len(), limit });
        }
        inner.check()?;
        let size = u32::try_from(entry.len()).expect("the limit is under 4 GiB").max(1);
        let permit = inner.in_flight.acquire_many(size).await;
        let _permit = permit.map_err(|_| inner.stopped(&"it was shut down"))?;
        let written = inner.raft.client_write(Payload(Arc::new(entry))).await;
        let written = written.map_err(|e| inner.write_error(e))?;
        let reply = Reply::take(written.data).ok_or_else(|| inner.stopped(&"a reply was lost"))?;
        Ok(Committed { index: written.log_id.index, reply })
    }

    /// Waits until the machine contains everything that was acknowledged, by any leader, before
    /// this call, and returns an index up to which it does.
    ///
    /// # Errors
    /// See [`ProposeError`]; only the leader can answer.
    pub async fn read_barrier(&self) -> Result<u64, ProposeError> {
        self.inner.read_barrier().await
    }

    /// Who leads, now and from now on.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.inner.leadership.clone()
    }

    /// Resolves, with the reason, when this node may not go on: a write or sync failed, the
    /// machine panicked, a file turned out damaged. The process should end then.
    pub fn fatal(&self) -> impl Future<Output = String> + Send + 'static {
        let failure = self.inner.failure.clone();
        async move { failure.wait().await.to_string() }
    }

    /// Takes a snapshot of everything applied by now, unless there is one.
    ///
    /// # Errors
    /// See [`ProposeError`]; only `Stopped` occurs.
    pub async fn snapshot_now(&self) -> Result<SnapshotInfo, ProposeError> {
        let inner = &*self.inner;
        let Some(wanted) = inner.machine.applied_index() else {
            return Err(inner.stopped(&"nothing was applied yet"));
        };
        // The engine ignores the trigger while it takes a snapshot, so what counts is when the
        // engine, not the file, is done with one.
        let mut metrics = inner.raft.data_metrics();
        loop {
            inner.check()?;
            let before = metrics.borrow_and_update().snapshot;
            let newest = inner.snapshots.newest();
            if let Some(info) = newest.borrow().as_ref().filter(|info| info.index >= wanted) {
                return Ok(info.clone());
            }
            inner.raft.trigger().snapshot().await.map_err(|e| inner.stopped(&e))?;
            while metrics.borrow_and_update().snapshot == before {
                tokio::select! {
                    changed = metrics.changed() => changed.map_err(|e| inner.stopped(&e))?,
                    reason = inner.failure.wait() => {
                        return Err(ProposeError::Stopped(reason.to_string()));
                    }
                }
            }
        }
    }

    /// Where this node stands.
    pub fn status(&self) -> Status {
        let inner = &*self.inner;
        let (purged_index, last_index, log_bytes) = inner.log.extent();
        Status {
            node_id: inner.options.node_id,
            leadership: *inner.leadership.borrow(),
            last_index,
            applied_index: inner.machine.applied_index(),
            purged_index,
            snapshot: inner.snapshots.newest().borrow().clone(),
            log_bytes,
            failed: inner.failure.get().map(|reason| reason.to_string()),
        }
    }

    /// Stops all clones of this handle: writes what is under way, closes the files and releases
    /// the directory.
    pub async fn shutdown(self) {
        self.inner.close().await;
    }
}

/// What reading the directory gives.
struct Loaded<M> {
    log: Log,
    snapshots: Arc<Snapshots>,
    machine: M,
    meta: Option<SnapshotMeta>,
}

impl<M: Machine> Loaded<M> {
    /// Blocks on the disk for as long as the log and the snapshot take to read. The directory is
    /// closed again when it can't be used.
    fn read(options: &Options, mut machine: M, failure: &Failure) -> Result<Self, OpenError> {
        let home = Arc::new(Home::open(&options.dir)?);
        let log::Opened { log, first } = log::open(&home, options, failure)?;
        let snapshots = Arc::new(Snapshots::new(Arc::clone(&home)));
        match load_newest(&snapshots, first, &mut machine) {
            Ok(meta) => Ok(Self { log, snapshots, machine, meta }),
            Err(error) => {
                log.close_blocking();
                // A thread that is about to end may still hold its share.
                home.release();
                Err(error)
            }
        }
    }
}

/// Brings the machine to the newest snapshot that the log, which begins at `log_first`, continues.
fn load_newest<M: Machine>(
    snapshots: &Snapshots,
    log_first: u64,
    machine: &mut M,
) -> Result<Option<SnapshotMeta>, OpenError> {
    let Some(snapshot) = snapshots.choose(log_first)? else { return Ok(None) };
    let refused = |reason| OpenError::Refused { path: snapshot.snapshot.0.clone(), reason };
    apply::load(machine, &snapshot.meta, &snapshot.snapshot).map_err(refused)?;
    machine.batch_end(snapshot.meta.last_log_id.map_or(0, |id| id.index));
    Ok(Some(snapshot.meta))
}

impl Inner {
    async fn start<M: Machine>(
        options: Options,
        loaded: Loaded<M>,
        failure: Failure,
    ) -> Result<Self, OpenError> {
        let Loaded { log, snapshots, machine, meta } = loaded;
        let due = Arc::new(Notify::new());
        let machine =
            StateMachine::start(machine, meta, snapshots.clone(), failure.clone(), due.clone(), &options)
                .map_err(|e| OpenError::Stopped(e.to_string()))?;
        let stopped = |e: &dyn std::fmt::Display| {
            OpenError::Stopped(failure.get().map_or_else(|| e.to_string(), |r| r.to_string()))
        };
        let config = Arc::new(config(&options)?);
        let raft = Engine::new(options.node_id, config, NoNetwork, log.clone(), machine.clone()).await;
        let raft = match raft {
            Ok(raft) => raft,
            Err(error) => {
                machine.close().await;
                log.close().await;
                snapshots.release_home();
                return Err(stopped(&error));
            }
        };
        let (leadership, watcher) = watch::channel(Leadership::default());
        let (alive, ended) = watch::channel(());
        let keeper = Keeper { raft: raft.clone(), failure: failure.clone(), due, leadership, ended };
        tokio::spawn(keeper.run());
        let inner = Self {
            in_flight: Semaphore::new(options.max_in_flight_bytes),
            options,
            raft,
            log,
            machine,
            snapshots,
            failure: failure.clone(),
            leadership: watcher,
            _alive: alive,
        };
        if let Err(error) = inner.begin().await {
            inner.close().await;
            return Err(stopped(&error));
        }
        Ok(inner)
    }

    /// Ends all threads, last the one that writes the log, and unlocks the directory.
    async fn close(&self) {
        self.in_flight.close();
        if let Err(error) = self.raft.shutdown().await {
            tracing::warn!(%error, "the engine did not end cleanly");
        }
        let snapshots = self.snapshots.clone();
        // A panic of the writer was reported where it happened.
        let _ = tokio::task::spawn_blocking(move || snapshots.close()).await;
        self.machine.close().await;
        self.log.close().await;
        self.snapshots.release_home();
    }

    /// A new directory makes this node the only voter. An only voter has nobody to wait for: it
    /// stands for election at once.
    async fn begin(&self) -> Result<(), ProposeError> {
        let id = self.options.node_id;
        // Asked of the engine itself: the metrics may be behind it.
        let members = self.raft.with_raft_state(|state| {
            let effective = state.membership_state.effective();
            effective.membership().nodes().map(|(id, _)| *id).collect::<Vec<u64>>()
        });
        let members = members.await.map_err(|e| self.stopped(&e))?;
        if members.is_empty() {
            let me = BasicNode { addr: self.options.address.clone() };
            let initialized = self.raft.initialize(BTreeMap::from([(id, me)])).await;
            initialized.map_err(|e| self.stopped(&e))?;
        } else if members == [id] {
            self.raft.trigger().elect(false).await.map_err(|e| self.stopped(&e))?;
        } else {
            return Ok(());
        }
        let mut leadership = self.leadership.clone();
        tokio::select! {
            _ = leadership.wait_for(|l| l.is_me) => {}
            reason = self.failure.wait() => return Err(ProposeError::Stopped(reason.to_string())),
        }
        self.read_barrier().await.map(drop)
    }

    async fn read_barrier(&self) -> Result<u64, ProposeError> {
        self.check()?;
        let read = tokio::select! {
            read = self.raft.ensure_linearizable(ReadPolicy::ReadIndex) => read,
            // The engine may end without answering who waits for entries to be applied.
            reason = self.failure.wait() => return Err(ProposeError::Stopped(reason.to_string())),
        };
        match read {
            Ok(read) => Ok(read.index()),
            Err(RaftError::Fatal(e)) => Err(self.stopped(&e)),
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(to))) => {
                Err(ProposeError::NotLeader { leader: to.leader_id })
            }
            Err(RaftError::APIError(e)) => Err(ProposeError::NoQuorum(e.to_string())),
        }
    }

    fn check(&self) -> Result<(), ProposeError> {
        self.failure.get().map_or(Ok(()), |r| Err(ProposeError::Stopped(r.to_string())))
    }

    /// The recorded failure says more than what the engine makes of it.
    fn stopped(&self, otherwise: &dyn std::fmt::Display) -> ProposeError {
        let reason = self.failure.get().map(|r| r.to_string());
        ProposeError::Stopped(reason.unwrap_or_else(|| otherwise.to_string()))
    }

    fn write_error(&self, e: RaftError<TypeConfig, ClientWriteError<TypeConfig>>) -> ProposeError {
        match e {
            RaftError::Fatal(e) => self.stopped(&e),
            RaftError::APIError(ClientWriteError::ForwardToLeader(to)) => {
                ProposeError::NotLeader { leader: to.leader_id }
            }
            RaftError::APIError(ClientWriteError::LogEntryDiscarded(to)) => {
                ProposeError::Unknown { leader: to.leader_id }
            }
            RaftError::APIError(e) => self.stopped(&e),
        }
    }
}

fn config(options: &Options) -> Result<Config, OpenError> {
    let config = Config {
        cluster_name: "quelea".into(),
        heartbeat_interval: HEARTBEAT_MS,
        election_timeout_min: ELECTION_MS.0,
        election_timeout_max: ELECTION_MS.1,
        // The keeper decides when; the machine's thread counts.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: options.keep_entries_after_snapshot,
        // The keeper turns it on when there is somebody to tick for.
        enable_tick: false,
        enable_pre_vote: Some(true),
        // A restarted leader stands for election again, in a new term: its first entry of that
        // term commits whatever the commit mark on disk doesn't cover.
        enable_leader_restore: Some(false),
        ..Config::default()
    };
    config.validate().map_err(|e| OpenError::Options(e.to_string()))
}

/// The background task: takes snapshots when they are due, reports who leads, and keeps the clock
/// of elections and heartbeats still while there is nobody to hear it.
struct Keeper {
    raft: Engine,
    failure: Failure,
    due: Arc<Notify>,
    leadership: watch::Sender<Leadership>,
    ended: watch::Receiver<()>,
}

impl Keeper {
    async fn run(mut self) {
        let mut metrics = self.raft.server_metrics();
        loop {
            let (leadership, others) = {
                let now = metrics.borrow_and_update();
                let leadership = Leadership {
                    leader: now.current_leader,
                    term: now.vote.leader_id.term,
                    is_me: now.state == ServerState::Leader,
                };
                let mut members = now.membership_config.membership().nodes();
                (leadership, members.any(|(id, _)| *id != now.id))
            };
            self.leadership.send_if_modified(|was| std::mem::replace(was, leadership) != leadership);
            self.raft.runtime_config().tick(others);
            tokio::select! {
                changed = metrics.changed() => if changed.is_err() { break },
                () = self.due.notified() => {
                    // An error says that the engine has ended; the metrics say it as well.
                    let _ = self.raft.trigger().snapshot().await;
                }
                _ = self.ended.changed() => break,
            }
        }
        self.leadership.send_modify(|l| (l.leader, l.is_me) = (None, false));
        let state = self.raft.metrics().borrow_watched().running_state.clone();
        if let Err(fatal) = state
            && !matches!(fatal, Fatal::Stopped)
        {
            self.failure.set(&format!("the engine has stopped: {fatal}"));
        }
        // With the last handle gone nobody else would end the engine.
        let _ = self.raft.shutdown().await;
    }
}
