//! Nodes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Availability, Cpus, Duration, Size};

/// A machine that has joined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Its id.
    pub id: String,
    /// The machine's host name; not unique.
    pub hostname: String,
    /// Its version: the index that last changed the node itself.
    pub version: u64,
    /// `worker` or `manager`.
    #[schemars(extend("enum" = ["worker", "manager"]))]
    pub role: String,
    /// Whether it takes tasks.
    pub availability: Availability,
    /// Whether it is there.
    #[schemars(extend("enum" = ["unknown", "ready", "down", "disconnected"]))]
    pub state: String,
    /// Why, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Since when it is in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Where its agent calls from; absent for the one inside this daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Labels that operators gave it, matched by `node.labels.<name>`.
    pub labels: BTreeMap<String, String>,
    /// Labels set on the machine itself, matched by `engine.labels.<name>`.
    pub engine_labels: BTreeMap<String, String>,
    /// Operating system and architecture.
    pub platform: Platform,
    /// The version of its agent.
    pub agent: String,
    /// What it can hold.
    pub resources: ResourceAmounts,
    /// The names of those counted resources that have any, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub named_resources: BTreeMap<String, Vec<String>>,
    /// The directories that it offers to tasks, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub volumes: BTreeMap<String, Volume>,
    /// What its tasks have set aside.
    pub reserved: ResourceAmounts,
    /// How many tasks hold a place on it.
    pub tasks: u64,
    /// What can run programs there.
    pub drivers: Vec<DriverInfo>,
    /// While it is drained: what is still there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining: Option<Draining>,
    /// When it joined.
    pub created_at: String,
}

/// What is still on a drained node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Draining {
    /// How many tasks hold a place there, those that are ending included.
    pub left: u64,
    /// When whatever is left goes at once; absent when there is no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The services that have tasks there, by name.
    pub services: Vec<LeavingService>,
}

/// The tasks of one service on a drained node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeavingService {
    /// The id of the service.
    pub service: String,
    /// Its name; its id when it was removed.
    pub name: String,
    /// How many tasks hold a place on the node.
    pub left: u64,
    /// What the next of them waits for.
    pub waits_for: String,
}

/// Operating system and architecture, in Go's words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Platform {
    /// For example `linux`.
    pub os: String,
    /// For example `amd64`.
    pub arch: String,
}

/// An amount of each kind of resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceAmounts {
    /// Processors.
    pub cpus: Cpus,
    /// Memory in bytes.
    pub memory: Size,
    /// Counted resources by name.
    pub generic_resources: BTreeMap<String, i64>,
}

/// A directory that a node offers to tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Volume {
    /// Where it is on the node.
    pub path: String,
    /// True when only tasks that read take it.
    pub read_only: bool,
    /// Who may use it at the same time: one task, any number that read, one that writes beside any number that read, all.
    #[schemars(extend("enum" = ["none", "readonly", "onewriter", "all"]))]
    pub sharing: String,
    /// The tasks that use it.
    pub users: Vec<VolumeUser>,
}

/// A task that uses a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeUser {
    /// The task.
    pub task: String,
    /// Its name.
    pub name: String,
    /// True when it only reads.
    pub read_only: bool,
}

/// One driver of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriverInfo {
    /// `exec`, `mock`, ...
    pub name: String,
    /// False when it cannot run anything now.
    pub healthy: bool,
    /// What it cannot do there, in sentences.
    pub notes: Vec<String>,
}

/// What shall change on a node; what is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NodeUpdate {
    /// Whether it takes tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability: Option<Availability>,
    /// With `drain`: after so long whatever is left goes at once, whatever the budgets of its services say. Without it the one
    /// from before is kept, if there is one; a node that is made active has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// All its labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Labels to add or change.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub add_labels: BTreeMap<String, String>,
    /// Keys of labels to remove; each must be there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove_labels: Vec<String>,
    /// Only if the node still has this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}
