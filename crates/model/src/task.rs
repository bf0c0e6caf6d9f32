//! One placement of a slot on a node.

use std::fmt;
use std::sync::Arc;

use crate::{
    Desired, Index, Leave, NodeId, ProgramState, Protocol, RevisionId, ServiceId, TaskId, TaskState, Time,
    Unplaced,
};

/// One placement of a slot on a node. Never moved, never reset: replaced.
///
/// Who writes what: `desired`, `start_after`, `node`, `ports`, `named`, `dismissed` and `unplaced` are the control plane's; `status` and
/// `programs` are the agent's once the task is assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its identity.
    pub id: TaskId,
    /// The service it is of.
    pub service: ServiceId,
    /// The place it fills.
    pub slot: Slot,
    /// The spec it runs.
    pub revision: RevisionId,
    /// Where it runs, once assigned; for a global service from the start.
    pub node: Option<NodeId>,
    /// What is wanted of it.
    pub desired: Desired,
    /// While `desired` is `Ready`: the earliest moment at which it shall run.
    pub start_after: Option<Time>,
    /// That it shall leave its node on purpose, once that is within the budget of its service.
    pub leave: Option<Box<Leave>>,
    /// What it has reached.
    pub status: TaskStatus,
    /// Its programs as the agent last reported them; empty until then.
    pub programs: Box<[ProgramStatus]>,
    /// The host ports it was given at placement.
    pub ports: Box<[BoundPort]>,
    /// The named resources it was given at placement: as many of each kind as it reserves of it.
    pub named: Box<[NamedResource]>,
    /// Why the control plane told it to end, where that is not what its service asked for: its node became too small, or
    /// it had to make room.
    pub dismissed: Option<Arc<str>>,
    /// While it waits: why no node takes it.
    pub unplaced: Option<Arc<Unplaced>>,
    /// The index that made it.
    pub created: Index,
    /// The index that last changed it.
    pub modified: Index,
    /// The index at which the control plane last changed it; reports of agents don't move it.
    pub directed: Index,
    /// When it was made, by the log's clock.
    pub created_at: Time,
}

/// What a task has reached, and since when.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TaskStatus {
    /// The state; never goes back.
    pub state: TaskState,
    /// When it was reached, by the clock of who reported it.
    pub at: Time,
    /// When it was applied, by the log's clock. Delays and windows count from here.
    pub applied_at: Time,
    /// More in a sentence; why, when it ended badly.
    pub message: Option<Arc<str>>,
}

/// A program of a task, as its agent reports it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ProgramStatus {
    /// Its name in the spec.
    pub name: Arc<str>,
    /// What it has reached.
    pub state: ProgramState,
    /// True when it ended in failure.
    pub failed: bool,
    /// The process, while it runs and where there is one; zero otherwise.
    pub pid: u32,
    /// How it exited, once it has.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// True when the kernel killed it for want of memory.
    pub oom: bool,
    /// How often it was restarted in place.
    pub restarts: u32,
    /// When it last started.
    pub started_at: Time,
    /// When it last ended.
    pub ended_at: Time,
    /// What happened to it, oldest first; the last ten.
    pub events: Vec<ProgramEvent>,
}

/// Something that happened to a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramEvent {
    /// When.
    pub at: Time,
    /// What, in a sentence.
    pub message: Arc<str>,
}

/// A host port that a task was given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BoundPort {
    /// The port's name in the spec; may be empty.
    pub name: Arc<str>,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The port on the host.
    pub port: u16,
}

/// One resource of a kind that has names, such as one of a machine's graphics cards.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedResource {
    /// The kind: `gpu`.
    pub kind: Arc<str>,
    /// Which one of them.
    pub value: Arc<str>,
}

/// The place that one running task fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// One of many, counted from 0; people see it from 1.
    Number(u32),
    /// The one on this node.
    Node(NodeId),
}

impl fmt::Display for Slot {
    /// As people see it: replicated slots from 1, global ones by node id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => fmt::Display::fmt(&(u64::from(*n) + 1), f),
            Self::Node(id) => fmt::Display::fmt(id, f),
        }
    }
}

impl Task {
    /// True while it is wanted and has not ended: it fills its slot.
    pub fn fills_slot(&self) -> bool {
        self.desired.is_wanted() && !self.status.state.is_ended()
    }

    /// True while its node must hold resources, ports and a place for it: from assignment until the agent reports
    /// the end or the node is given up.
    pub fn holds_reservation(&self) -> bool {
        self.node.is_some() && self.status.state.holds_node()
    }

    /// True while it counts as healthy where its node is there: it runs, and shall.
    pub fn is_running(&self) -> bool {
        self.status.state == TaskState::Running && self.desired.is_wanted()
    }

    /// True when the scheduler must find a node for it, or confirm the one it was made for.
    pub fn waits_for_node(&self) -> bool {
        self.status.state < TaskState::Assigned && self.desired.is_wanted()
    }

    /// The exit code of the program that ended worst: a failed one first, then the first in order.
    pub fn exit_code(&self) -> Option<i32> {
        let failed = self.programs.iter().find(|p| p.failed && p.exit_code.is_some());
        failed.or_else(|| self.programs.iter().find(|p| p.exit_code.is_some()))?.exit_code
    }
}
