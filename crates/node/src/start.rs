//! Starting a node and ending it: what runs, and in which order.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, mpsc as thread_mpsc};
use std::time::Duration;

use agent::{Agent, Config, Input};
use consensus::Consensus;
use control::{Cluster as _, Info};
use drivers::{Driver, ExecDriver, ExecOptions, MockDriver};
use model::{
    Availability, Cluster, Description, DriverKind, Labels, Meta, Node as NodeObject, NodeState, NodeStatus,
    Role, Span, Volume,
};
use store::{Change, ChangeSet, Guard, ObjectId};
use tokio::sync::{mpsc, watch};

use crate::clock::{self, ClusterClock};
use crate::describe::{describe, hostname};
use crate::handle::{Handle, whatif_turns};
use crate::home::{Home, HomeError, Identity, private_dir};
use crate::leading::{self, Heard};
use crate::logs::{Held, TaskLogs};
use crate::plane::{self, Connections};
use crate::proposer::{ENTRY_BYTES, Proposer};
use crate::records;
use crate::replica::{Published, Replica, Tags};
use crate::room::{Room, SteadyClock};

/// Proposals that wait for the log; more make their callers wait.
const PROPOSALS: usize = 4_096;

/// How a node is to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// Where sockets lie.
    pub run_dir: PathBuf,
    /// True when the data directory is thrown away at the end.
    pub ephemeral: bool,
    /// Labels that this node gets beside those it has, matched by `node.labels.*`.
    pub labels: Labels,
    /// Counted resources that this node offers, such as `gpu`.
    pub generic: BTreeMap<Arc<str>, i64>,
    /// Resources with names that it offers, by kind; a kind is in one of the two only.
    pub named: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// The directories that it offers to tasks, by name.
    pub volumes: BTreeMap<Arc<str>, Volume>,
    /// The program that supervises processes, and the arguments before its own.
    pub supervisor: (PathBuf, Vec<OsString>),
    /// How many files programs may have open unless they ask for more; what the daemon has when `None`.
    pub soft_files: Option<u64>,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] consensus::OpenError),
    /// The node could not be made a member of its own cluster.
    #[error("the cluster could not be set up: {0}")]
    Setup(String),
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(std::io::Error),
}

/// A node that runs. Dropping it stops the daemon's part and leaves programs running.
pub struct Node {
    handle: Arc<Handle>,
    consensus: Consensus<Replica>,
    agent: mpsc::UnboundedSender<Input>,
    stopped: watch::Receiver<bool>,
    drivers: Vec<Arc<dyn Driver>>,
}

/// Starts a node: opens the log, lets the control plane lead, then brings the agent back to what it ran.
///
/// # Errors
/// When the data directory or the log cannot be used; nothing is left running then.
pub async fn start(options: Options) -> Result<Node, StartError> {
    let home = Home::open(&options.data_dir)?;
    private_dir(&options.run_dir)?;
    let identity = home.identity()?;
    home.check_log(&identity)?;

    let (plane_inputs, plane_receiver) = thread_mpsc::channel();
    let (proposals, proposal_receiver) = mpsc::channel(PROPOSALS);
    let published = Arc::new(Published::new());
    let tags = Arc::new(Tags::default());
    let boot = clock::new_number();
    let replica = Replica::new(Arc::clone(&published), plane_inputs.clone(), boot, Arc::clone(&tags));
    let mut log = consensus::Options::new(home.raft(), identity.voter);
    log.max_entry_bytes = ENTRY_BYTES;
    let consensus = Consensus::open(log, replica).await?;
    let clock = ClusterClock::new();
    let proposer = Proposer {
        consensus: consensus.clone(),
        plane: plane_inputs.clone(),
        boot,
        tags,
        sequence: 0,
        clock: clock.clone(),
    };
    tokio::spawn(proposer.run(proposal_receiver));

    let drivers = drivers(&options, &identity);
    let all: Vec<Arc<dyn Driver>> = drivers.values().cloned().collect();
    let description = Arc::new(describe(&all, &options.generic, &options.named, &options.volumes));
    let handle = Arc::new(Handle {
        published: Arc::clone(&published),
        proposals: proposals.clone(),
        logs: TaskLogs { node: identity.node, tasks: home.tasks(), held: Held::default() },
        info: info(&options, &identity, &description),
        whatifs: whatif_turns(),
        clock: clock.clone(),
    });
    set_up(&handle, &identity, &description).await?;
    home.mark_member(&identity)?;
    label(&handle, &identity, &options.labels).await?;

    let connections = Connections::default();
    let plane_connections = connections.clone();
    std::thread::Builder::new()
        .name("control-plane".into())
        .spawn(move || plane::run(&plane_receiver, &proposals, &plane_connections, &clock))
        .map_err(StartError::Thread)?;
    tokio::spawn(leading::follow(consensus.clone(), Arc::clone(&published), plane_inputs.clone()));

    let (agent, stopped) =
        start_agent(&options, &handle.logs, drivers, plane_inputs, connections, description)?;
    Ok(Node { handle, consensus, agent, stopped, drivers: all })
}

fn drivers(options: &Options, identity: &Identity) -> BTreeMap<DriverKind, Arc<dyn Driver>> {
    let (supervisor, supervisor_args) = options.supervisor.clone();
    let cgroup = Some(cgroup_name(identity));
    let soft_files = options.soft_files;
    let exec = ExecDriver::new(ExecOptions { supervisor, supervisor_args, cgroup, soft_files });
    let mut drivers: BTreeMap<DriverKind, Arc<dyn Driver>> = BTreeMap::new();
    drivers.insert(DriverKind::Exec, Arc::new(exec));
    drivers.insert(DriverKind::Mock, Arc::new(MockDriver::default()));
    drivers
}

/// The cgroup directory of this node's programs: as long as people read an id, so that two nodes of one machine differ.
pub fn cgroup_name(identity: &Identity) -> String {
    let mut name = format!("quelea-{}", identity.node);
    name.truncate("quelea-".len() + 12);
    name
}

fn info(options: &Options, identity: &Identity, description: &Description) -> Info {
    Info {
        version: env!("CARGO_PKG_VERSION").into(),
        node: identity.node,
        hostname: hostname(),
        leads: true,
        data_dir: options.data_dir.display().to_string(),
        ephemeral: options.ephemeral,
        started_at: clock::now(),
        notes: description.drivers.iter().flat_map(|d| &d.notes).map(ToString::to_string).collect(),
    }
}

/// The first time: the cluster, and this node as its only member. Guards make it happen once.
async fn set_up(
    handle: &Handle,
    identity: &Identity,
    description: &Arc<Description>,
) -> Result<(), StartError> {
    let tables = handle.snapshot();
    if tables.cluster().is_some() {
        return Ok(());
    }
    let node = NodeObject {
        id: identity.node,
        meta: Meta::default(),
        role: Role::Manager,
        availability: Availability::Active,
        drain_until: None,
        labels: Labels::new(),
        description: Arc::clone(description),
        status: NodeStatus { state: NodeState::Unknown, ..NodeStatus::default() },
    };
    let set = ChangeSet {
        guards: vec![Guard { object: ObjectId::Cluster, version: 0 }],
        changes: vec![
            Change::PutCluster(Cluster::new(identity.cluster, "default")),
            Change::CreateNode(node),
        ],
    };
    handle.propose(set).await.map(drop).map_err(|e| StartError::Setup(e.to_string()))
}

/// Gives this node the labels that it was started with.
async fn label(handle: &Handle, identity: &Identity, wanted: &Labels) -> Result<(), StartError> {
    let tables = handle.snapshot();
    let Some(node) = tables.node(identity.node) else { return Ok(()) };
    let mut labels = node.labels.clone();
    labels.extend(wanted.clone());
    if labels == node.labels {
        return Ok(());
    }
    let change = Change::SetNode {
        node: identity.node,
        role: node.role,
        availability: node.availability,
        drain_until: node.drain_until,
        labels,
    };
    handle.propose(ChangeSet::of(vec![change])).await.map(drop).map_err(|e| StartError::Setup(e.to_string()))
}

fn start_agent(
    options: &Options,
    logs: &TaskLogs,
    drivers: BTreeMap<DriverKind, Arc<dyn Driver>>,
    plane: thread_mpsc::Sender<Heard>,
    connections: Connections,
    description: Arc<Description>,
) -> Result<(mpsc::UnboundedSender<Input>, watch::Receiver<bool>), StartError> {
    let records = records::load(&logs.tasks)?;
    let (inputs, receiver) = mpsc::unbounded_channel();
    let (disk, jobs) = thread_mpsc::channel();
    let (tasks, answers, held) = (logs.tasks.clone(), inputs.clone(), logs.held.clone());
    std::thread::Builder::new()
        .name("agent-disk".into())
        .spawn(move || records::run(&tasks, &jobs, &answers, &held))
        .map_err(StartError::Thread)?;
    let stopped = watch::Sender::new(false);
    let stopped_receiver = stopped.subscribe();
    let clock = SteadyClock::new();
    let (agent, first) = Agent::new(Config::new(clock::new_number()), records, clock.now());
    let room = Room {
        node: logs.node,
        drivers,
        tasks: logs.tasks.clone(),
        run: options.run_dir.clone(),
        description: Arc::clone(&description),
        disk,
        plane,
        connections,
        inputs: inputs.clone(),
        stopped,
    };
    let _ = inputs.send(Input::Described(description));
    tokio::spawn(room.run(clock, agent, first, receiver));
    Ok((inputs, stopped_receiver))
}

impl Node {
    /// Starts a node; see [`start`].
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(options: Options) -> Result<Self, StartError> {
        start(options).await
    }

    /// The running cluster, for front-ends.
    pub fn cluster(&self) -> Arc<dyn control::Cluster> {
        Arc::clone(&self.handle) as Arc<dyn control::Cluster>
    }

    /// Resolves with the reason when the log has failed: nothing is acknowledged any more, and the daemon must end.
    pub async fn failed(&self) -> String {
        self.consensus.fatal().await
    }

    /// Ends every task in an orderly way, each within `within` at most; resolves when all have ended. The control plane still
    /// runs, so that what happened is known.
    pub async fn stop_tasks(&self, within: Duration) {
        let within = Span(i64::try_from(within.as_nanos()).unwrap_or(i64::MAX));
        let mut stopped = self.stopped.clone();
        if self.agent.send(Input::Stop { within }).is_ok() {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        }
    }

    /// Stops the daemon's part in good order. Programs that still run live on.
    pub async fn shut_down(self) {
        for driver in &self.drivers {
            if let Err(error) = driver.shut_down().await {
                tracing::warn!(driver = driver.name(), %error, "a driver did not shut down cleanly");
            }
        }
        self.consensus.shutdown().await;
    }
}
