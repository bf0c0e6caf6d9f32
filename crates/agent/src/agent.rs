//! The agent itself: inputs are dispatched to the room that knows them.

use model::sync::TaskRef;
use model::{Desired, ProgramStatus, Span, TaskState, Time};

use crate::effect::{Effect, Input};
use crate::record::Record;

/// What an agent is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The least span between two reports; what changes meanwhile shares the next one.
    pub report_batch: Span,
    /// How long the manager may take to answer a registration or a heartbeat before the session is given up.
    pub patience: Span,
    /// Where the chance in back-off comes from.
    pub seed: u64,
}

impl Config {
    /// 20 ms between reports: far below what people notice, and a busy node still fills its messages.
    pub const REPORT_BATCH: Span = Span::from_millis(20);
    /// As SwarmKit's agent allows for each call.
    pub const PATIENCE: Span = Span::from_secs(5);

    /// The usual values with this seed.
    pub fn new(seed: u64) -> Self {
        Self { report_batch: Self::REPORT_BATCH, patience: Self::PATIENCE, seed }
    }
}

/// A task as the agent sees it.
#[derive(Clone, Debug)]
pub struct TaskView<'a> {
    /// The task.
    pub task: &'a TaskRef,
    /// Its name for people.
    pub name: &'a str,
    /// What is wanted of it.
    pub desired: Desired,
    /// What it has reached.
    pub state: TaskState,
    /// More in a sentence.
    pub message: Option<&'a str>,
    /// Its programs as they are reported, in the order of the spec.
    pub programs: Vec<&'a ProgramStatus>,
}

/// What one node does. See the crate's documentation.
#[derive(Debug)]
pub struct Agent {
    config: Config,
}

impl Agent {
    /// An agent that goes on with what `restored` holds (every record found on disk), and the first effects. `now` as in [`Agent::step`].
    pub fn new(config: Config, restored: Vec<Record>, now: Time) -> (Self, Vec<Effect>) {
        let _ = (restored, now);
        (Self { config }, Vec::new())
    }

    /// One step: `input` happened at `now`; what is to be done comes back. `now` is UTC taken from a steady clock: it never goes back.
    pub fn step(&mut self, now: Time, input: Input) -> Vec<Effect> {
        let _ = (now, input, self.config);
        Vec::new()
    }

    /// When [`Input::Tick`] is due, if nothing else happens before.
    pub fn next_wake(&self) -> Option<Time> {
        None
    }

    /// Every task the agent knows, in the order of ids.
    pub fn tasks(&self) -> impl Iterator<Item = TaskView<'_>> {
        std::iter::empty()
    }
}
