//! Stacks.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Services that were deployed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its version: the index of the last deployment that changed it.
    pub version: u64,
    /// The index that last changed the stack, its services or their tasks.
    pub changed: u64,
    /// Counts up with each deployment that changed it, from 1.
    pub number: u64,
    /// When it was first deployed.
    pub created_at: String,
    /// When it was last changed.
    pub updated_at: String,
    /// What it holds, by name.
    pub services: Vec<StackService>,
    /// How many tasks shall run, over all services.
    pub wanted: u64,
    /// How many run.
    pub running: u64,
    /// The file as it was deployed; only when one stack is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A service of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackService {
    /// Its id.
    pub id: String,
    /// Its full name, `<stack>_<service>`.
    pub name: String,
    /// `replicated` or `global`.
    pub mode: String,
    /// How many tasks shall run.
    pub wanted: u64,
    /// How many run.
    pub running: u64,
    /// True when exactly the wanted tasks run, all of the current revision.
    pub converged: bool,
}

/// A stack file to be deployed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StackDeploy {
    /// The text of the file.
    pub source: String,
    /// What errors call the file.
    pub file_name: String,
    /// Values for `${NAME}` in the file.
    pub variables: BTreeMap<String, String>,
    /// Remove services of the stack that the file no longer has; they are kept when it is not given, as docker does.
    pub prune: bool,
}

impl Default for StackDeploy {
    fn default() -> Self {
        Self {
            source: String::new(),
            file_name: "stack.yaml".into(),
            variables: BTreeMap::new(),
            prune: false,
        }
    }
}

/// What a deployment did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackDeployed {
    /// The id of the stack.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The number of this deployment; of the last one that changed something when this one did not.
    pub number: u64,
    /// The index at which it took effect.
    pub index: u64,
    /// False when nothing had to be written.
    pub changed: bool,
    /// What happened to each service, by name.
    pub services: Vec<ServiceChange>,
    /// What the file says without effect, in sentences.
    pub warnings: Vec<String>,
    /// What is not done as asked, in sentences, such as a limit that a node does not enforce.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What a deployment did to a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceChange {
    /// Its id.
    pub id: String,
    /// Its full name.
    pub name: String,
    /// What happened.
    pub change: Change,
}

/// What happened to a service of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It was made.
    Created,
    /// It has a new revision: its tasks are replaced.
    Updated,
    /// It was changed without a new revision: its tasks stay.
    Adjusted,
    /// It was as the file says already; nothing was written.
    Unchanged,
    /// It was removed, because the file has it no more.
    Removed,
    /// It stays although the file has it no more, because pruning was turned off.
    Kept,
}
