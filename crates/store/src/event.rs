//! Events: what an applied entry did, in order, and the log that lets a reader resume exactly.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use model::{Cluster, Index, Job, Namespace, Node, Service, Task, Time, limits};

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
}

/// The newest events, for exact resume.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    events: VecDeque<Event>,
    /// Everything up to this id has been dropped or was never kept.
    floor: EventId,
}

/// The events after the asked id are not all kept any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("events after this id are no longer kept; the oldest that can be resumed from is {oldest}")]
pub struct Gone {
    /// The oldest id from which a reader can resume.
    pub oldest: EventId,
}

impl EventLog {
    /// An empty log for a store that is at `index`: what came before cannot be resumed.
    pub fn starting_at(index: Index) -> Self {
        Self { events: VecDeque::new(), floor: EventId::end_of(index) }
    }

    /// Adds the events of one entry, in order; the oldest beyond the limit are dropped.
    pub fn push(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.events.push_back(event);
            if self.events.len() > limits::EVENTS_KEPT
                && let Some(dropped) = self.events.pop_front()
            {
                self.floor = dropped.id;
            }
        }
    }

    /// The id from which a reader can resume at the earliest.
    pub fn oldest(&self) -> EventId {
        self.floor
    }

    /// At most `limit` events after `id`, oldest first.
    ///
    /// # Errors
    /// [`Gone`] when some of them are no longer kept.
    pub fn after(&self, id: EventId, limit: usize) -> Result<Vec<Event>, Gone> {
        if id < self.floor {
            return Err(Gone { oldest: self.floor });
        }
        let start = self.events.partition_point(|e| e.id <= id);
        Ok(self.events.iter().skip(start).take(limit).cloned().collect())
    }
}
