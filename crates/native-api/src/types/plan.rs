//! What would happen if: plans, simulations and rebalancing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ResourceAmounts, Unplaced};

/// What a request would come to once everything is quiet again, compared with what the cluster comes to without it. Nothing
/// was changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The index of the state from which it was worked out.
    pub index: u64,
    /// False when everything is as asked already: nothing would be written.
    pub changes: bool,
    /// False when a limit ended the computation early: there would be more.
    pub complete: bool,
    /// Stacks that would be made, changed or removed.
    pub stacks: Vec<StackPlan>,
    /// Services that would be changed, or whose tasks would, by name.
    pub services: Vec<ServicePlan>,
    /// Slots that something would happen to, by service and slot; at most 10,000, while the services count all.
    pub tasks: Vec<TaskPlan>,
    /// Tasks that would find no node, those of one service and reason together.
    pub unplaceable: Vec<UnplaceablePlan>,
    /// Tasks that wait for a node with and without the change.
    pub waiting: u64,
    /// Nodes that would be changed, or whose load would, by host name.
    pub nodes: Vec<NodePlan>,
    /// Services of the stack that its file has no more, and that would stay because nothing is pruned.
    pub kept: Vec<String>,
    /// What the file says without effect, in sentences.
    pub warnings: Vec<String>,
}

/// A stack that would be made, changed or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackPlan {
    /// Its name.
    pub name: String,
    /// What would happen to it.
    pub action: PlanAction,
}

/// What would happen to a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlanAction {
    /// It would be made.
    Created,
    /// It would be changed.
    Changed,
    /// It would be removed.
    Removed,
    /// It would stay as it is, but not its tasks.
    Unchanged,
}

/// What would become of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServicePlan {
    /// Its id; absent when it would be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its name.
    pub name: String,
    /// What would happen to it.
    pub action: PlanAction,
    /// True when its tasks would get another spec, and so be replaced; a change without that is made in place.
    pub revised: bool,
    /// Each field that would change, by its path in the spec; of a new service, those that are not as by default.
    pub fields: Vec<FieldChange>,
    /// What would become of its tasks.
    pub tasks: TaskCounts,
}

/// A field that would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldChange {
    /// Its path in the spec, such as `env.COLOR` or `resources.limits.memory`.
    pub field: String,
    /// Its value now; absent when it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// Its value then; absent when it would have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// How many slots of a service would come to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskCounts {
    /// Empty now, and filled then.
    pub created: u64,
    /// Filled by a task of another spec.
    pub replaced: u64,
    /// Filled by a task of the same spec on another node.
    pub moved: u64,
    /// Emptied.
    pub removed: u64,
    /// Its task ends, and the next one finds no node.
    pub lost: u64,
    /// Its task waits for a node now, and would find one.
    pub placed: u64,
    /// A canary comes beside the task that is there, or goes; that task stays.
    #[serde(default, skip_serializing_if = "is_none")]
    pub canaries: u64,
    /// The task that is there stays.
    pub kept: u64,
    /// Of all these, those that would find no node.
    pub unplaceable: u64,
}

/// For what is left out when it is 0.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none(number: &u64) -> bool {
    *number == 0
}

/// What would become of one slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskPlan {
    /// Its name, such as `web.2`; of a global service `agent@node`.
    pub name: String,
    /// The service.
    pub service: String,
    /// What would happen.
    #[schemars(extend("enum" = ["created", "replaced", "moved", "removed", "lost", "placed", "canary"]))]
    pub fate: String,
    /// The task that is there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The host name of its node now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The host name of its node then; absent when the slot would be empty, or find no node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Why, where it is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Tasks of a service that would find no node, for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnplaceablePlan {
    /// The first of them.
    pub first: String,
    /// How many.
    pub count: u64,
    /// Why; absent when a limit ended the computation before they were looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplaced: Option<Unplaced>,
    /// The smallest change that would place the first of them, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// What would become of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodePlan {
    /// Its id; absent when it would be added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its host name.
    pub hostname: String,
    /// What would be done to it: `added`, `removed`, `down`, `drained`; absent when only its load changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// What it can hold.
    pub resources: ResourceAmounts,
    /// What is held of it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Load>,
    /// What would be held of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Load>,
}

/// What is held of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Load {
    /// How many tasks hold a place on it.
    pub tasks: u64,
    /// What they have set aside.
    pub reserved: ResourceAmounts,
}

/// What happens to machines in a simulation, all at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Simulation {
    /// Nodes that fail: host names, ids or beginnings of ids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<String>,
    /// Nodes that are drained.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drain: Vec<String>,
    /// Nodes that leave the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// Nodes that are added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add: Option<AddNodes>,
}

/// Nodes that are added in a simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddNodes {
    /// How many, at most 1,000.
    pub count: u32,
    /// The node that they are like: its size, drivers and labels.
    pub like: String,
}

/// The few moves that would even out the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rebalance {
    /// The index of the state from which they were worked out.
    pub index: u64,
    /// A task is only moved from a node that has at least so many tasks more (of the service, or in all) than the other.
    pub threshold: u32,
    /// False when a limit ended the search: there would be more.
    pub complete: bool,
    /// The moves, in the order in which they are to be made.
    pub moves: Vec<Move>,
    /// How uneven the cluster is.
    pub before: Evenness,
    /// How uneven it would be after all moves.
    pub after: Evenness,
    /// Nodes whose load would change, by host name.
    pub nodes: Vec<NodePlan>,
}

/// The most and the fewest tasks that a node which takes tasks has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evenness {
    /// The most.
    pub most: u32,
    /// The fewest.
    pub fewest: u32,
}

/// A task that would be better elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Move {
    /// Its name, such as `web.2`.
    pub name: String,
    /// The id of the service.
    pub service: String,
    /// The task that ends; another one takes its place.
    pub task: String,
    /// The host name of its node.
    pub from: String,
    /// The host name of the node where the next one comes.
    pub to: String,
    /// Why, with the numbers.
    pub reason: String,
}

/// Asks for moves to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RebalanceRequest {
    /// As in the plan; 2 when it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<u32>,
}

/// What a round of a rebalancing did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rebalanced {
    /// The index at which it took effect; of the state that was read when no move was made.
    pub index: u64,
    /// The moves that were begun: the first of the plan, of each service at most as many as an update changes at once.
    pub made: Vec<Move>,
    /// Moves of the plan that are left for the next rounds.
    pub left: u64,
}
