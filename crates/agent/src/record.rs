//! What is kept on disk of each task: all that the agent needs to go on after a restart of the daemon.
//!
//! The edge encodes records and writes them; it adds checksum and version. A record is not written when a program starts: the driver
//! keeps the proof of that, and a restored task asks it ([`Effect::Attach`](crate::Effect::Attach)) before anything else.

use std::sync::Arc;

use model::sync::{Assignment, TaskRef};
use model::{Desired, ProgramStatus, TaskState, Time};

/// A task as it is kept on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The node's id when the task was accepted, for the environment of programs started while no manager answers.
    pub node: Arc<str>,
    /// What the manager assigned. Its `desired` and `state` are those of the first sight and not used again.
    pub assignment: Arc<Assignment>,
    /// What is wanted of it now; never below `assignment.desired`.
    pub desired: Desired,
    /// What it has reached. `Starting` and `Running` are not written for their own sake, so it may lag behind what was reported.
    pub state: TaskState,
    /// Since when.
    pub at: Time,
    /// More in a sentence.
    pub message: Option<Arc<str>>,
    /// How it is going to end, or has ended, once that is decided.
    pub outcome: Option<Outcome>,
    /// Its programs, in the order of the spec.
    pub programs: Vec<ProgramRecord>,
}

impl Record {
    /// The task.
    pub fn task(&self) -> &TaskRef {
        &self.assignment.task
    }
}

/// How a task ends. Decided once, before everything of it has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Its main programs ended with success.
    Complete,
    /// It was asked to end.
    Shutdown,
    /// One of its programs ended in failure and is not restarted.
    Failed,
    /// It could not be started.
    Rejected,
}

impl Outcome {
    /// The state that the task ends in.
    pub fn state(self) -> TaskState {
        match self {
            Self::Complete => TaskState::Complete,
            Self::Shutdown => TaskState::Shutdown,
            Self::Failed => TaskState::Failed,
            Self::Rejected => TaskState::Rejected,
        }
    }
}

/// A program as it is kept on disk.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ProgramRecord {
    /// As it is reported.
    pub status: ProgramStatus,
    /// How it ended for good; `None` while it runs, waits, or is going to be restarted.
    pub ending: Option<Ending>,
    /// How often it was restarted in place within the current window.
    pub restarts: RestartCount,
    /// When it is to be started again, while it waits for that.
    pub restart_at: Option<Time>,
}

/// How a program ended for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// By itself, with success.
    Succeeded,
    /// By itself, in failure, or could not be started; it is not restarted.
    Failed,
    /// Because it was asked to.
    Stopped,
    /// It was never started, and will not be.
    Unstarted,
}

/// Restarts in place, counted in a window that begins with the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RestartCount {
    /// When the window began.
    pub since: Time,
    /// How many since then.
    pub count: u32,
}
