//! Tasks.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Unplaced;

/// One placement of a slot on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// What people call it: the service's name and the slot from 1 (`web.1`), or the node's id for a global service.
    pub name: String,
    /// The id of its service.
    pub service: String,
    /// The name of its service; absent once the service was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// Its slot, from 1; absent for a global service, whose slot is its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u64>,
    /// The id of its node, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The host name of its node, while the node is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// What is wanted of it.
    #[schemars(extend("enum" = ["ready", "running", "complete", "shutdown", "remove"]))]
    pub desired: String,
    /// What it has reached.
    #[schemars(extend("enum" = ["new", "pending", "assigned", "accepted", "preparing", "ready", "starting", "running",
        "complete", "shutdown", "failed", "rejected", "remove", "orphaned"]))]
    pub state: String,
    /// Since when, by the clock of its node.
    pub since: String,
    /// More in a sentence; why, when it ended badly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Why it was told to end, where that is not what its service asked for: its node cannot keep it, or it makes room for
    /// another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dismissed: Option<String>,
    /// While it waits: why no node takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplaced: Option<Unplaced>,
    /// How it exited, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The earliest moment at which it shall run, while that is to come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_after: Option<String>,
    /// The id of the revision it runs.
    pub revision: String,
    /// The number of that revision within the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision_number: Option<u64>,
    /// True when that is the service's current revision.
    pub current: bool,
    /// True for a canary: it tries the current revision beside the slot's own task, and was not promoted yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub canary: bool,
    /// The host ports it was given.
    pub ports: Vec<BoundPort>,
    /// The named resources it was given, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub named_resources: BTreeMap<String, Vec<String>>,
    /// Its programs, once its agent has reported them.
    pub programs: Vec<ProgramStatus>,
    /// When it was made.
    pub created_at: String,
    /// Its version: the index that last changed it.
    pub version: u64,
    /// The index at which the control plane last changed it.
    pub directed: u64,
}

/// A host port that a task was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BoundPort {
    /// The port's name in the spec; may be empty.
    pub name: String,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The port on the host.
    pub port: u16,
}

/// A program of a task, as its agent last reported it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramStatus {
    /// Its name.
    pub name: String,
    /// What it has reached.
    #[schemars(extend("enum" = ["pending", "running", "dead"]))]
    pub state: String,
    /// True when it ended in failure.
    pub failed: bool,
    /// The process, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How it exited, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// True when the kernel killed it for want of memory.
    pub oom: bool,
    /// How often it was restarted in place.
    pub restarts: u32,
    /// When it last started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it last ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// What happened to it, oldest first.
    pub events: Vec<ProgramEvent>,
}

/// Something that happened to a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramEvent {
    /// When.
    pub at: String,
    /// What, in a sentence.
    pub message: String,
}
