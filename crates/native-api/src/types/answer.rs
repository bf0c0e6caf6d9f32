//! What many answers share: lists, writes, refusals, and what a daemon says of itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Objects, and the state of the cluster that was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ListOf{T}")]
pub struct List<T> {
    /// The index of the state that was read; the same as in the header `X-Quelea-Index`.
    pub index: u64,
    /// The index that last changed what this list can show; a blocking read waits until it is above the one it names.
    pub changed: u64,
    /// The objects.
    pub items: Vec<T>,
}

/// The answer to a request that changed something, or found that nothing had to be changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Written {
    /// The id of the object.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its version now; of a removed object, the version it had.
    pub version: u64,
    /// The index at which the request took effect. A read with a later state sees it.
    pub index: u64,
    /// False when everything was already as asked: nothing was written.
    pub changed: bool,
    /// What is not done as asked, in sentences, such as a limit that a node does not enforce.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Why a request was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// One sentence that says what is wrong and what to do.
    pub error: String,
    /// The field or parameter that is wrong, by path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Everything that is wrong with a stack file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
    /// The oldest event id from which a stream can be resumed, when the asked one is no longer kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<String>,
}

/// Something wrong in a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The line, from 1; 0 when it is not known.
    pub line: u64,
    /// The column, from 1; 0 when it is not known.
    pub column: u64,
    /// The field, by path.
    pub field: String,
    /// What is wrong, in a sentence.
    pub message: String,
}

/// What a daemon is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Info {
    /// The program's version.
    pub version: String,
    /// The cluster's id; absent before there is one.
    pub cluster: Option<String>,
    /// The node this daemon is.
    pub node: String,
    /// The machine's host name.
    pub hostname: String,
    /// True while it leads the cluster.
    pub leads: bool,
    /// Where its data is kept.
    pub data_dir: String,
    /// True when the data is thrown away at the end.
    pub ephemeral: bool,
    /// When it started.
    pub started_at: String,
    /// What cannot be done on this machine, in sentences.
    pub notes: Vec<String>,
    /// The index of the state that was read.
    pub index: u64,
    /// How many nodes there are.
    pub nodes: u64,
    /// How many services there are.
    pub services: u64,
    /// How many tasks there are, ended ones included.
    pub tasks: u64,
}

/// Whether a daemon serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// True while it leads the cluster.
    pub leads: bool,
    /// The index of its state.
    pub index: u64,
}
