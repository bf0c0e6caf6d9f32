//! What would become of the cluster if something were changed, as plain values: what a plan, a simulation and a
//! rebalancing come to.

use std::fmt;
use std::sync::Arc;

use crate::{Index, JobId, NodeId, Resources, Service, ServiceId, Slot, TaskId, TaskSpec, Unplaced, Verdict};

/// What a change would come to once everything is quiet again. Compared with what the cluster comes to without it, so that
/// what is under way anyhow is no part of it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Forecast {
    /// The index of the state from which it was worked out.
    pub index: Index,
    /// False when everything is as asked already: nothing would be written.
    pub writes: bool,
    /// False when a limit ended it early: there would be more.
    pub complete: bool,
    /// Stacks that would be made, changed or removed, by name.
    pub stacks: Vec<StackForecast>,
    /// Services that would be changed, or whose tasks would, by name.
    pub services: Vec<ServiceForecast>,
    /// Slots that something would happen to, by the name of the service, then by slot; at most
    /// [`limits::FORECAST_TASKS`](crate::limits::FORECAST_TASKS), while the services count all.
    pub tasks: Vec<TaskForecast>,
    /// Tasks that would find no node, those of one service and one reason together, by name and first slot.
    pub unplaceable: Vec<UnplaceableForecast>,
    /// Tasks that wait for a node with and without the change.
    pub waiting: u64,
    /// Nodes whose load would change, and nodes that would be changed themselves, by host name; at most
    /// [`limits::FORECAST_NODES`](crate::limits::FORECAST_NODES).
    pub nodes: Vec<NodeForecast>,
}

impl Forecast {
    /// Nothing would happen.
    pub fn nothing(index: Index) -> Self {
        Self { index, complete: true, ..Self::default() }
    }
}

/// A stack that would be made, changed or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackForecast {
    /// Its id; of one that would be made, none that it will have.
    pub id: JobId,
    /// Its name.
    pub name: Arc<str>,
    /// True when it is there now.
    pub before: bool,
    /// True when it would be there.
    pub after: bool,
}

/// What would become of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceForecast {
    /// Its id; of one that would be made, none that it will have.
    pub id: ServiceId,
    /// Its name.
    pub name: Arc<str>,
    /// As it is; `None` when it would be made.
    pub before: Option<ServiceState>,
    /// As it would be; `None` when it would be removed.
    pub after: Option<ServiceState>,
    /// What would become of its tasks.
    pub tasks: TaskCounts,
}

/// A service with the spec of its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceState {
    /// The service.
    pub service: Arc<Service>,
    /// What each task runs.
    pub task: Arc<TaskSpec>,
}

/// How many slots of a service would come to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TaskCounts {
    /// [`Fate::Created`].
    pub created: u64,
    /// [`Fate::Replaced`].
    pub replaced: u64,
    /// [`Fate::Moved`].
    pub moved: u64,
    /// [`Fate::Removed`].
    pub removed: u64,
    /// [`Fate::Lost`].
    pub lost: u64,
    /// [`Fate::Placed`].
    pub placed: u64,
    /// [`Fate::Canary`].
    pub canaries: u64,
    /// Filled before and after by the same task.
    pub kept: u64,
    /// Of all these, those that would find no node.
    pub unplaceable: u64,
}

impl TaskCounts {
    /// The counter of a fate.
    pub fn of(&mut self, fate: Fate) -> &mut u64 {
        match fate {
            Fate::Created => &mut self.created,
            Fate::Replaced => &mut self.replaced,
            Fate::Moved => &mut self.moved,
            Fate::Removed => &mut self.removed,
            Fate::Lost => &mut self.lost,
            Fate::Placed => &mut self.placed,
            Fate::Canary => &mut self.canaries,
        }
    }
}

/// What would become of the slot of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It is empty, and would be filled.
    Created,
    /// Its task would give way to one of another spec, or to one on the same node.
    Replaced,
    /// Its task would give way to one of the same spec on another node.
    Moved,
    /// Its task would go, and none would come.
    Removed,
    /// Its task would go, and the next one would find no node.
    Lost,
    /// Its task waits for a node, and would find one.
    Placed,
    /// Its task would stay, and a canary would come beside it, or go.
    Canary,
}

impl Fate {
    /// Every one, in order.
    pub const ALL: [Self; 7] =
        [Self::Created, Self::Replaced, Self::Moved, Self::Removed, Self::Lost, Self::Placed, Self::Canary];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Replaced => "replaced",
            Self::Moved => "moved",
            Self::Removed => "removed",
            Self::Lost => "lost",
            Self::Placed => "placed",
            Self::Canary => "canary",
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What would become of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskForecast {
    /// The service.
    pub service: ServiceId,
    /// The slot.
    pub slot: Slot,
    /// As people name it: `web.2`; for a global service with the node's name, `agent@n1`.
    pub name: Arc<str>,
    /// What happens.
    pub fate: Fate,
    /// The task that is there now.
    pub task: Option<TaskId>,
    /// Where it is.
    pub from: Option<Place>,
    /// Where the slot would be; `None` when it would be empty or wait.
    pub to: Option<Place>,
    /// Why, in a sentence; empty where it is plain.
    pub reason: Arc<str>,
}

/// A node as people know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node.
    pub node: NodeId,
    /// Its host name.
    pub hostname: Arc<str>,
}

/// Tasks of a service that would find no node, for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnplaceableForecast {
    /// The service.
    pub service: ServiceId,
    /// The first of them, as people name it.
    pub first: Arc<str>,
    /// How many.
    pub count: u64,
    /// Why; `None` when a limit ended the forecast before they were looked at.
    pub unplaced: Option<Arc<Unplaced>>,
    /// What each node would say to the first of them; of the first [`UnplaceableForecast::EXPLAINED`] groups.
    pub verdicts: Vec<Verdict>,
}

impl UnplaceableForecast {
    /// So many groups are explained node by node.
    pub const EXPLAINED: usize = 8;
}

/// What would become of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeForecast {
    /// Its id; of one that would be added, none that it will have.
    pub id: NodeId,
    /// Its host name.
    pub hostname: Arc<str>,
    /// What would be done to it: `added`, `removed`, `down`, `drained`; empty when only its load changes.
    pub change: &'static str,
    /// What it can hold.
    pub total: Resources,
    /// What is held of it now; `None` when it would be added.
    pub before: Option<Load>,
    /// What would be held of it; `None` when it would be removed.
    pub after: Option<Load>,
}

/// What is held of a node.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Load {
    /// Tasks.
    pub tasks: u32,
    /// The sum of what they reserve.
    pub reserved: Resources,
}

/// The few moves that would even out the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Rebalance {
    /// The index of the state from which they were worked out.
    pub index: Index,
    /// A move is only made from a node that has at least so many tasks more than the other.
    pub threshold: u32,
    /// False when a limit ended the search: there would be more.
    pub complete: bool,
    /// The moves, in the order in which they are to be made.
    pub moves: Vec<Move>,
    /// How uneven the cluster is: the most and the fewest tasks that a node which takes tasks has.
    pub before: (u32, u32),
    /// The same after all moves.
    pub after: (u32, u32),
    /// Nodes whose load changes, by host name.
    pub nodes: Vec<NodeForecast>,
}

/// A task that would be better elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The service.
    pub service: ServiceId,
    /// Its slot, as people name it.
    pub name: Arc<str>,
    /// The slot.
    pub slot: Slot,
    /// The task that ends.
    pub task: TaskId,
    /// Where it is.
    pub from: Place,
    /// Where the scheduler places the one after it.
    pub to: Place,
    /// Why, in a sentence with the numbers.
    pub reason: Arc<str>,
}
