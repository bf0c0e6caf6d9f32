//! The cluster itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Duration, Strategy};

/// The cluster and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its version: the index that last changed a setting. Name it in an update to change only what you saw.
    pub version: u64,
    /// When it was made.
    pub created_at: String,
    /// When a setting was last changed.
    pub updated_at: String,
    /// How many ended tasks are kept for each slot, the newest.
    pub task_history_limit: u32,
    /// How many of the newest tasks of a slot that failed or were rejected are kept besides those.
    pub task_history_failed: u32,
    /// How long an ended task is kept at most, from its end on; zero means for any time.
    pub task_history_age: Duration,
    /// How often an agent must call.
    pub dispatcher_heartbeat: Duration,
    /// After how long away the tasks of a node are given up for good.
    pub orphan_after: Duration,
    /// Which of equally good nodes the tasks of a service get that says nothing about it itself.
    pub strategy: Strategy,
    /// From how many tasks more on one node than on another the cluster evens itself out; absent when it never does by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebalance: Option<u32>,
}

/// Which settings shall change; what is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterUpdate {
    /// How many ended tasks are kept for each slot, the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_history_limit: Option<u32>,
    /// How many of the newest tasks of a slot that failed or were rejected are kept besides those.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_history_failed: Option<u32>,
    /// How long an ended task is kept at most, from its end on; zero means for any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_history_age: Option<Duration>,
    /// How often an agent must call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatcher_heartbeat: Option<Duration>,
    /// After how long away the tasks of a node are given up for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orphan_after: Option<Duration>,
    /// Which of equally good nodes the tasks of a service get that says nothing about it itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// From how many tasks more (at least 2) on one node than on another the cluster evens itself out; 0: never by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebalance: Option<u32>,
    /// Only if the cluster still has this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}
