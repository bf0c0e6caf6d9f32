//! Services.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ServiceSpec, Strategy};

/// A service and how it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its version: the index that last changed the service itself. Name it in an update to change only what you saw.
    pub version: u64,
    /// The index that last changed the service or any of its tasks: what a blocking read of this service waits on.
    pub changed: u64,
    /// The stack it belongs to, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// When it was made.
    pub created_at: String,
    /// When the service itself was last changed.
    pub updated_at: String,
    /// The current revision of its task spec.
    pub revision: RevisionInfo,
    /// The revision that a rollback puts back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<RevisionInfo>,
    /// The update or rollback that brought the service to its current revision; not there when it has had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_status: Option<UpdateStatus>,
    /// What it shall be.
    pub spec: ServiceSpec,
    /// Which of equally good nodes its tasks get: what its spec says, else what the cluster says.
    #[serde(default)]
    pub strategy: Strategy,
    /// How it is.
    pub status: ServiceStatus,
}

/// How far an update or rollback has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpdateStatus {
    /// The state.
    pub state: UpdateState,
    /// The index at which its revision became the current one.
    pub index: u64,
    /// When it began.
    pub started_at: String,
    /// When it was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// When it came to this state.
    #[serde(default)]
    pub since: String,
    /// True for a rollback that followed a failed update by itself.
    #[serde(default)]
    pub automatic: bool,
    /// How many canaries try the revision until they are promoted or aborted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canaries: Option<u32>,
    /// Where it stands, or why it does not go on.
    pub message: String,
}

/// The states of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpdateState {
    /// Slots are being changed, or canaries watched.
    Updating,
    /// The canaries have been watched, and wait to be promoted or aborted.
    Canary,
    /// Too many slots failed; nothing more is changed until the service is updated again or rolled back.
    Paused,
    /// Every slot has been changed and watched.
    Completed,
    /// Slots are being changed back.
    RollbackStarted,
    /// Too many slots failed while they were changed back.
    RollbackPaused,
    /// Every slot has been changed back and watched.
    RollbackCompleted,
}

impl UpdateState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Updating => "updating",
            Self::Canary => "canary",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::RollbackStarted => "rollback_started",
            Self::RollbackPaused => "rollback_paused",
            Self::RollbackCompleted => "rollback_completed",
        }
    }
}

/// A revision of a service's task spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RevisionInfo {
    /// Its id.
    pub id: String,
    /// Counts up within the service, from 1.
    pub number: u64,
    /// When it was made.
    pub created_at: String,
}

/// How a service is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceStatus {
    /// How many tasks shall run: the replicas, the nodes that comply with a global service, or of a batch service as many
    /// as may be at once of what is left to do.
    pub wanted: u64,
    /// How many wanted tasks run.
    pub running: u64,
    /// How many wanted tasks have the current revision.
    pub updated: u64,
    /// How many wanted tasks wait for a node.
    pub waiting: u64,
    /// Why the first of those that wait has no node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// True when exactly the wanted tasks run, all of the current revision, and nothing else is still to end. A batch service:
    /// when every run is complete.
    pub converged: bool,
    /// When a task of it last ended by itself, or took the place of one that had. A service of which this is only seconds ago
    /// is not steady, even if everything runs at the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// All tasks that are known, ended ones included, by state.
    pub tasks: BTreeMap<String, u64>,
    /// Of a batch service: how far it has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobStatus>,
}

/// How far the current iteration of a batch service has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobStatus {
    /// Its number: each new revision is an iteration, in which everything runs again.
    pub iteration: u64,
    /// When it began.
    pub last_execution: String,
    /// The state.
    pub state: JobState,
    /// How many runs there are in all: the completions, or the nodes that comply or have had their run.
    pub total: u64,
    /// How many of them are complete.
    pub completed: u64,
    /// How many are in progress.
    pub active: u64,
    /// How many are in progress at once, at most.
    pub at_once: u64,
    /// How many are given up, as the restart policy says.
    pub given_up: u64,
    /// Of one that has failed: why. Otherwise the last end of a task that was no success, and what followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The states of an iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Runs are left to do, or in progress.
    #[default]
    Running,
    /// Every run is complete.
    Complete,
    /// Nothing more runs, and some are given up: it cannot complete any more.
    Failed,
}

impl JobState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Failed => "failed",
        }
    }
}

/// A service as it shall be from now on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceUpdate {
    /// The whole spec; what is not given takes its default. The name cannot be changed.
    pub spec: ServiceSpec,
    /// Only if the service still has this version; whatever its version when it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// How many tasks a replicated service shall have, or how many completions a batch service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// How many.
    pub replicas: u32,
    /// Only if the service still has this version; whatever its version when it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}
