//! Why things are as they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Node, Service, Stack, Task};

/// Everything that explains one task, service, node or stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// What was found under the asked name.
    pub subject: Subject,
    /// The index of the state that was read.
    pub index: u64,
    /// The answer in sentences, the most important first; never empty.
    pub facts: Vec<String>,
    /// Tasks that have no node, and what each filter says; equal reasons once.
    pub waiting: Vec<Waiting>,
    /// What each node says to the task (of a service or stack: to the first of its tasks that wait); empty when nothing waits.
    pub verdicts: Vec<Verdict>,
    /// The last decisions about it, oldest first.
    pub decisions: Vec<Decision>,
    /// Of a task: the other tasks of its slot, newest first; of a service or stack: its failed tasks, newest first,
    /// at most ten; of a node: the tasks that hold a place on it, by service and slot, at most a hundred.
    pub tasks: Vec<Task>,
}

/// What an explanation is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "object", rename_all = "kebab-case")]
pub enum Subject {
    /// A task.
    Task(Box<Task>),
    /// A service.
    Service(Box<Service>),
    /// A node.
    Node(Box<Node>),
    /// A stack.
    Stack(Box<Stack>),
}

/// Tasks that wait for a node for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    /// How many tasks.
    pub count: u64,
    /// The first of them.
    pub first: String,
    /// Why no node takes them; absent when the scheduler has not looked at them yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplaced: Option<Unplaced>,
}

/// Why no node takes a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unplaced {
    /// The whole in one sentence.
    pub text: String,
    /// Each filter that refused a node, most nodes first.
    pub refusals: Vec<Refusal>,
}

/// One filter's refusals over all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// Which filter.
    #[schemars(extend("enum" = ["ready", "driver", "resources", "constraint", "host-port", "max-replicas"]))]
    pub filter: String,
    /// How many nodes it refused.
    pub nodes: u32,
    /// Its sentence, with the values that matter.
    pub text: String,
}

/// What one node says to a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The id of the node.
    pub node: String,
    /// Its host name.
    pub hostname: String,
    /// True when it would take the task.
    pub fits: bool,
    /// The first filter that refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Its sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Everything that the node would need to take it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

/// One decision of the control plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// The index at which it took effect.
    pub index: u64,
    /// When.
    pub at: String,
    /// The rule that made it.
    pub rule: String,
    /// The task it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// How often it was made: more than once when it stands for equal ones before it about the same slot, as in a crash
    /// loop.
    pub times: u32,
    /// The sentence that says why.
    pub text: String,
}
