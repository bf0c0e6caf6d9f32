//! Events: what an applied entry did, in order, with the objects before and after.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use model::{Cluster, Index, Job, Namespace, Node, Service, Task, Time};

/// Where an event stands: the index of its entry and its place within it. Shown as `index.ordinal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EventId {
    /// The entry.
    pub index: Index,
    /// The place within the entry, from 0.
    pub ordinal: u32,
}

impl EventId {
    /// The id after every event of entries up to `index`.
    pub fn end_of(index: Index) -> Self {
        Self { index, ordinal: u32::MAX }
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.ordinal)
    }
}

/// A text that is no event id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event id is written index.ordinal, such as 17.0")]
pub struct EventIdError;

impl FromStr for EventId {
    type Err = EventIdError;

    fn from_str(text: &str) -> Result<Self, EventIdError> {
        let (index, ordinal) = text.split_once('.').ok_or(EventIdError)?;
        let plain = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        if !plain(index) || !plain(ordinal) {
            return Err(EventIdError);
        }
        Ok(Self {
            index: index.parse().map_err(|_| EventIdError)?,
            ordinal: ordinal.parse().map_err(|_| EventIdError)?,
        })
    }
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It was made.
    Created,
    /// It was changed.
    Updated,
    /// It was removed.
    Deleted,
}

impl Action {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
        }
    }
}

/// The object an event is about: as it is after the event, or as it last was when it was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// The cluster itself.
    Cluster(Arc<Cluster>),
    /// A namespace.
    Namespace(Arc<Namespace>),
    /// A node.
    Node(Arc<Node>),
    /// A job.
    Job(Arc<Job>),
    /// A service.
    Service(Arc<Service>),
    /// A task.
    Task(Arc<Task>),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where it stands.
    pub id: EventId,
    /// When, by the log's clock.
    pub at: Time,
    /// What happened.
    pub action: Action,
    /// To what.
    pub object: Object,
    /// What it was before, when it was changed.
    pub before: Option<Object>,
}
