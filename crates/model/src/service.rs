//! Services, their revisions, and what groups them.

use std::sync::Arc;

use crate::{
    ClusterId, Disruption, Index, JobId, Labels, NamespaceId, RevisionId, ServiceId, Steering, Strategy,
    TaskSpec, Time, UpdatePolicy, UpdateStatus,
};

/// When an object was made and last changed. `modified` is its version: guards compare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Meta {
    /// The index that made it. Written by `apply` alone.
    pub created: Index,
    /// The index that last changed it. Written by `apply` alone.
    pub modified: Index,
    /// When it was made, by the log's clock.
    pub created_at: Time,
    /// When it was last changed, by the log's clock.
    pub modified_at: Time,
}

/// The version of an object: the index that last changed it.
pub type Version = Index;

/// Names are unique inside one, without regard to case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its identity.
    pub id: NamespaceId,
    /// Versions and times.
    pub meta: Meta,
    /// Its name.
    pub name: Arc<str>,
    /// What it is for, in words.
    pub description: Arc<str>,
}

/// A submitted text with versions that groups services: a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its identity.
    pub id: JobId,
    /// Versions and times.
    pub meta: Meta,
    /// Where its name is unique.
    pub namespace: NamespaceId,
    /// Its name.
    pub name: Arc<str>,
    /// Labels.
    pub labels: Labels,
    /// Counts up with each submission that changed it, from 1.
    pub number: u64,
    /// What was submitted, as it was written.
    pub source: Arc<str>,
    /// Default priority of its services; 1 to 100.
    pub priority: u8,
}

/// What shall run, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its identity.
    pub id: ServiceId,
    /// Versions and times.
    pub meta: Meta,
    /// Where its name is unique.
    pub namespace: NamespaceId,
    /// The job it belongs to, if any.
    pub job: Option<JobId>,
    /// Its name.
    pub name: Arc<str>,
    /// Labels of the service itself; changing them replaces nothing.
    pub labels: Labels,
    /// How many tasks, and where.
    pub mode: Mode,
    /// How a new revision replaces the old one.
    pub update: UpdatePolicy,
    /// How the revision before takes its place again.
    pub rollback: UpdatePolicy,
    /// The spec its tasks shall have.
    pub revision: RevisionId,
    /// The spec that a rollback puts back.
    pub previous: Option<RevisionId>,
    /// The update or rollback to the current revision; `None` for a service that has had none. Written by
    /// `apply` alone.
    pub update_status: Option<UpdateStatus>,
    /// 1 to 100; higher is placed first.
    pub priority: u8,
    /// Which of the nodes that could take a task shall get it; changing it replaces nothing.
    pub steering: Steering,
    /// How far it may be disturbed while tasks are moved on purpose; changing it replaces nothing.
    pub disruption: Disruption,
}

impl Service {
    /// How many of its tasks must go on running while tasks are moved on purpose; zero when it has no slots that could move.
    pub fn floor(&self) -> u32 {
        match self.mode {
            Mode::Replicated { replicas } => self.disruption.floor(replicas),
            Mode::Global | Mode::Batch { .. } | Mode::GlobalBatch => 0,
        }
    }

    /// True when its tasks are moved within a budget when their node is drained.
    pub fn has_budget(&self) -> bool {
        matches!(self.mode, Mode::Replicated { .. }) && !self.disruption.is_none()
    }

    /// Takes another revision. The one that a rollback puts back is the last that all slots came to: where the current
    /// one never came through, that is the one before. A batch service has none: another revision is another
    /// iteration.
    pub fn revise(&mut self, revision: RevisionId) {
        if self.mode.is_batch() {
            (self.revision, self.previous) = (revision, None);
            return;
        }
        let unproven = self.update_status.as_ref().and_then(|status| status.unproven);
        let unproven = unproven == Some(self.revision);
        if !unproven || self.previous.is_none() || self.previous == Some(revision) {
            self.previous = Some(self.revision);
        }
        self.revision = revision;
    }

    /// True while the current revision is tried by canaries: they stand beside the tasks that their slots had, and every other
    /// slot keeps to the revision before.
    pub fn tries_canaries(&self) -> bool {
        self.update_status.as_ref().is_some_and(UpdateStatus::tries_canaries)
    }

    /// In how many of the lowest slots a canary shall stand now.
    pub fn canaries(&self) -> u32 {
        match (&self.update_status, self.mode) {
            (Some(status), Mode::Replicated { replicas }) if status.tries_canaries() => {
                status.canary.min(replicas)
            }
            _ => 0,
        }
    }

    /// True when canaries were aborted: what is put back still stands in their slots, and ended canaries have no say in them.
    pub fn is_aborted(&self) -> bool {
        self.update_status.as_ref().is_some_and(UpdateStatus::is_aborted)
    }
}

/// How many tasks a service has, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// So many slots, anywhere.
    Replicated {
        /// How many.
        replicas: u32,
    },
    /// One slot on each node that complies.
    Global,
    /// So many runs to completion.
    Batch {
        /// How many runs in all.
        completions: u32,
        /// How many at a time; zero means all.
        concurrency: u32,
    },
    /// One run to completion on each node that complies.
    GlobalBatch,
}

impl Mode {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replicated { .. } => "replicated",
            Self::Global => "global",
            Self::Batch { .. } => "batch",
            Self::GlobalBatch => "global-batch",
        }
    }

    /// True when tasks run to completion, once.
    pub fn is_batch(self) -> bool {
        matches!(self, Self::Batch { .. } | Self::GlobalBatch)
    }

    /// How many slots of a batch service are in progress at once, at most.
    pub fn at_once(self) -> u32 {
        match self {
            Self::Batch { completions, concurrency: 0 } => completions,
            Self::Batch { completions, concurrency } => concurrency.min(completions),
            _ => u32::MAX,
        }
    }

    /// True when slots are nodes.
    pub fn is_global(self) -> bool {
        matches!(self, Self::Global | Self::GlobalBatch)
    }
}

/// An immutable spec of a service. Tasks point at it; it is dropped with its last reference
/// (the service's current and previous, and each task).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Its identity.
    pub id: RevisionId,
    /// The service it is of.
    pub service: ServiceId,
    /// Counts up within the service, from 1.
    pub number: u64,
    /// When it was made, by the log's clock.
    pub created_at: Time,
    /// The index that made it.
    pub created: Index,
    /// What each task runs.
    pub task: Arc<TaskSpec>,
}

/// The cluster itself; there is exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its identity.
    pub id: ClusterId,
    /// Versions and times.
    pub meta: Meta,
    /// Its name.
    pub name: Arc<str>,
    /// How often an agent must call.
    pub heartbeat: crate::Span,
    /// After how long away a node's tasks are given up as orphaned.
    pub orphan_after: crate::Span,
    /// Ended tasks kept for each slot, the newest.
    pub history: u32,
    /// From how many tasks more on one node than on another the cluster evens itself out; `None`: never by itself.
    pub rebalance: Option<u32>,
    /// Besides those: so many of the newest tasks of a slot that failed or were rejected.
    pub history_failed: u32,
    /// How long an ended task is kept at most, from its end on by the log's clock; zero means for any time.
    pub history_age: crate::Span,
    /// Which of equally good nodes a service's tasks get that says nothing about it itself.
    pub strategy: Strategy,
}

impl Cluster {
    /// A cluster with SwarmKit's constants: heartbeat 5 s, orphans after 24 h, history of 5, tasks are spread.
    pub fn new(id: ClusterId, name: &str) -> Self {
        Self {
            id,
            meta: Meta::default(),
            name: name.into(),
            heartbeat: crate::Span::from_secs(5),
            orphan_after: crate::Span::from_secs(24 * 3600),
            history: crate::limits::HISTORY_KEPT as u32,
            rebalance: None,
            history_failed: 0,
            history_age: crate::Span::ZERO,
            strategy: Strategy::Spread,
        }
    }
}
