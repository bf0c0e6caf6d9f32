//! What a manager and an agent say to each other.
//!
//! The agent inside `quelea dev` uses these messages over channels; a remote one uses the same over a connection.
//! At the agent an id is an opaque text of at most [`limits::WIRE_ID_LEN`](crate::limits::WIRE_ID_LEN) bytes: real Swarm ids do not fit 128 bits, and the
//! agent also serves foreign managers.
//!
//! The order of things: the agent registers and gets a session; it then gets one `Complete` set of assignments, which
//! replaces everything it has, then `Incremental` ones, each of which applies to the one before. A newer registration of the same node
//! displaces the session: whatever still arrives for the old one is refused.

use std::sync::Arc;

use crate::{
    BoundPort, Description, Desired, NamedResource, ProgramStatus, SessionId, Span, TaskSpec, TaskState, Time,
};

/// A task's id as the agent knows it.
pub type TaskRef = Arc<str>;

/// From agent to manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToManager {
    /// Opens a session, or (with a live one) says that the description has changed.
    Register {
        /// The live session, when only the description is new.
        session: Option<SessionId>,
        /// The machine.
        description: Arc<Description>,
    },
    /// Still there.
    Heartbeat {
        /// The session.
        session: SessionId,
    },
    /// What became of tasks. The newest report of a task wins; the manager answers with the same number once it is
    /// on disk, and the agent then forgets it.
    Report {
        /// The session.
        session: SessionId,
        /// Counts the reports of this session, from 1.
        number: u64,
        /// One for each task that changed.
        tasks: Vec<TaskReport>,
    },
    /// Assignments up to this number are applied: the manager may send more.
    Applied {
        /// The session.
        session: SessionId,
        /// The `results_in` of the message.
        number: u64,
    },
}

/// From manager to agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToAgent {
    /// The session is open.
    Registered {
        /// Its identity.
        session: SessionId,
        /// The node's id, as text.
        node: Arc<str>,
        /// How long until the next heartbeat is due.
        heartbeat: Span,
    },
    /// The answer to a heartbeat.
    Heartbeat {
        /// How long until the next one is due.
        period: Span,
    },
    /// What this node shall run.
    Assignments(Assignments),
    /// A report is on disk.
    Reported {
        /// Its number.
        number: u64,
    },
    /// The session is over; register again.
    SessionEnded {
        /// Why.
        reason: Arc<str>,
    },
}

/// A set of assignments, or the difference to the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignments {
    /// The session it belongs to.
    pub session: SessionId,
    /// Everything, or the difference.
    pub kind: AssignmentsKind,
    /// The number of the message it applies to; 0 for `Complete`.
    pub applies_to: u64,
    /// Its own number.
    pub results_in: u64,
    /// In the order of task ids; removals after updates.
    pub changes: Vec<AssignmentChange>,
}

/// Everything, or the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssignmentsKind {
    /// Replaces everything the agent has.
    Complete,
    /// Changes what the message before left.
    Incremental,
}

/// One change to what a node runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssignmentChange {
    /// Run this, or change what is wanted of it.
    Update(Arc<Assignment>),
    /// Stop it if it runs, and forget it.
    Remove(TaskRef),
}

/// A task as its agent needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The task.
    pub task: TaskRef,
    /// Its name for people: `<service>.<slot>`.
    pub name: Arc<str>,
    /// The service's id.
    pub service: Arc<str>,
    /// The service's name.
    pub service_name: Arc<str>,
    /// The slot as people see it.
    pub slot: Arc<str>,
    /// What is wanted of it.
    pub desired: Desired,
    /// What it runs.
    pub spec: Arc<TaskSpec>,
    /// The host ports it was given.
    pub ports: Box<[BoundPort]>,
    /// The named resources it was given, by kind and value.
    pub named: Box<[NamedResource]>,
    /// The state that the manager knows; used only the first time the agent sees the task.
    pub state: TaskState,
}

/// What became of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskReport {
    /// The task.
    pub task: TaskRef,
    /// Its state.
    pub state: TaskState,
    /// Since when, by the node's clock.
    pub at: Time,
    /// More in a sentence.
    pub message: Option<Arc<str>>,
    /// Its programs.
    pub programs: Vec<ProgramStatus>,
}
