//! The life of a task as a logical clock, and who moves it.
//!
//! A task's state never goes back. The control plane writes up to `Assigned`, `Orphaned`, and the end of
//! tasks that were never assigned; everything else is the agent's.

use std::fmt;

/// What a task has reached. Ordered: a later state is greater. Numbers as on SwarmKit's wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u16)]
pub enum TaskState {
    /// Made by an orchestrator; nothing is promised to it yet.
    #[default]
    New = 0,
    /// Has its cluster-wide resources and waits for a node.
    Pending = 64,
    /// Has a node.
    Assigned = 192,
    /// The agent has it on disk.
    Accepted = 256,
    /// The agent makes ready what it needs.
    Preparing = 320,
    /// Could start at once.
    Ready = 384,
    /// Its programs are being started.
    Starting = 448,
    /// Runs.
    Running = 512,
    /// Ended by itself, with success.
    Complete = 576,
    /// Ended because it was asked to.
    Shutdown = 640,
    /// Ended in failure.
    Failed = 704,
    /// Could not be started.
    Rejected = 768,
    /// Only ever desired: end it, then forget it.
    Remove = 800,
    /// Its node stayed away; what became of it is unknown.
    Orphaned = 832,
}

/// Who may make the transition into a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The control plane.
    Control,
    /// The agent of the task's node.
    Agent,
    /// The control plane for tasks without a node, the agent for those with one.
    Either,
}

impl TaskState {
    /// Every state, in order.
    pub const ALL: [Self; 14] = [
        Self::New,
        Self::Pending,
        Self::Assigned,
        Self::Accepted,
        Self::Preparing,
        Self::Ready,
        Self::Starting,
        Self::Running,
        Self::Complete,
        Self::Shutdown,
        Self::Failed,
        Self::Rejected,
        Self::Remove,
        Self::Orphaned,
    ];

    /// True once nothing of the task runs or will run.
    pub fn is_ended(self) -> bool {
        self > Self::Running
    }

    /// True while a node holds something for the task: assigned and not ended.
    pub fn holds_node(self) -> bool {
        (Self::Assigned..=Self::Running).contains(&self)
    }

    /// Who may move a task into this state.
    pub fn owner(self) -> Owner {
        match self {
            Self::New | Self::Pending | Self::Assigned | Self::Remove | Self::Orphaned => Owner::Control,
            Self::Shutdown | Self::Rejected => Owner::Either,
            _ => Owner::Agent,
        }
    }

    /// The word for it in output, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Pending => "pending",
            Self::Assigned => "assigned",
            Self::Accepted => "accepted",
            Self::Preparing => "preparing",
            Self::Ready => "ready",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Shutdown => "shutdown",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Remove => "remove",
            Self::Orphaned => "orphaned",
        }
    }

    /// The state with this number on the wire.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|s| *s as u16 == number)
    }

    /// The state with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == word)
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What the control plane wants of a task. It only rises: a task once told to end is never wanted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Desired {
    /// Be made ready, and wait: a replacement whose delay has not passed.
    Ready,
    /// Run.
    #[default]
    Running,
    /// Run once, to the end (batch).
    Complete,
    /// End.
    Shutdown,
    /// End, and be forgotten.
    Remove,
}

impl Desired {
    /// Every desired state, in order.
    pub const ALL: [Self; 5] = [Self::Ready, Self::Running, Self::Complete, Self::Shutdown, Self::Remove];

    /// True while the task is wanted: not told to end.
    pub fn is_wanted(self) -> bool {
        self <= Self::Complete
    }

    /// The task state it corresponds to in foreign dialects and in output.
    pub fn as_state(self) -> TaskState {
        match self {
            Self::Ready => TaskState::Ready,
            Self::Running => TaskState::Running,
            Self::Complete => TaskState::Complete,
            Self::Shutdown => TaskState::Shutdown,
            Self::Remove => TaskState::Remove,
        }
    }

    /// The desired state with this number (its place in [`Desired::ALL`]).
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Desired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_state(), f)
    }
}

/// What one program inside a task has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum ProgramState {
    /// Not started yet.
    #[default]
    Pending,
    /// Runs.
    Running,
    /// Ended, and will not be restarted in place.
    Dead,
}

impl ProgramState {
    /// The word for it in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Dead => "dead",
        }
    }

    /// The state with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Pending, Self::Running, Self::Dead].get(usize::from(number)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_words_lead_back() {
        for state in TaskState::ALL {
            assert_eq!(TaskState::from_number(state as u16), Some(state));
            assert_eq!(TaskState::from_word(state.as_str()), Some(state));
        }
        assert_eq!(TaskState::from_number(1), None);
        for desired in Desired::ALL {
            assert_eq!(Desired::from_number(desired as u8), Some(desired));
        }
    }

    #[test]
    fn states_are_in_order() {
        assert!(TaskState::ALL.windows(2).all(|w| w[0] < w[1]));
        assert!(!TaskState::Running.is_ended() && TaskState::Complete.is_ended());
        assert!(TaskState::Assigned.holds_node() && !TaskState::Pending.holds_node());
    }
}
