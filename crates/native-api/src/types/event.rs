//! Streams: events, and lines of logs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that happened. Sent as the `data` of a server-sent event whose `id` is the same as the one inside and whose
/// `event` is the kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Where it stands: `index.ordinal`. A stream resumed after it misses nothing and repeats nothing.
    pub id: String,
    /// When, by the log's clock.
    pub at: String,
    /// What it happened to.
    #[schemars(extend("enum" = ["cluster", "namespace", "node", "job", "service", "task"]))]
    pub kind: String,
    /// What happened.
    #[schemars(extend("enum" = ["created", "updated", "deleted"]))]
    pub action: String,
    /// The id of the object.
    pub object: String,
    /// The name of the object; of a task, its service's name (its id where that is not known any more) and its slot.
    pub name: String,
    /// The version of the object after it.
    pub version: u64,
    /// Of a task: the id of its service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Of a task: the id of its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Of a task or node: its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Of a task: what is wanted of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<String>,
    /// More in a sentence: why a task ended badly or waits, why a node is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it changed, in short texts such as `replicas 3 -> 5`; 16 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// One line of a log stream: newline-delimited JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LogItem {
    /// A line that a program wrote.
    Line {
        /// The id of the task.
        task: String,
        /// What people call the task, `web.1`.
        name: String,
        /// The host name of its node.
        #[serde(default)]
        hostname: String,
        /// Which of its programs.
        program: String,
        /// When it was read from the program.
        at: String,
        /// `stdout` or `stderr`.
        #[schemars(extend("enum" = ["stdout", "stderr"]))]
        stream: String,
        /// True when the line goes on in the next item.
        partial: bool,
        /// The text without its newline.
        text: String,
    },
    /// Some lines cannot be had; the rest goes on.
    Warning {
        /// Which, and why.
        message: String,
    },
}
