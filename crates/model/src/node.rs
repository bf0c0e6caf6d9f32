//! Machines that have joined the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{Labels, Meta, NamedResource, NodeId, Resources, Time, Volume};

/// A machine that has joined: what an operator wants of it, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its identity.
    pub id: NodeId,
    /// Versions and times.
    pub meta: Meta,
    /// Whether it takes part in the consensus. Written by operators.
    pub role: Role,
    /// Whether it takes tasks. Written by operators.
    pub availability: Availability,
    /// While it is drained: when the tasks that are still here go, whatever the budgets of their services say. `None`: never.
    pub drain_until: Option<Time>,
    /// Labels that operators gave it, matched by `node.labels.*`.
    pub labels: Labels,
    /// What its agent says of the machine. Written at registration.
    pub description: Arc<Description>,
    /// Whether it is there. Written by the dispatcher.
    pub status: NodeStatus,
}

/// Whether a node takes part in the consensus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Role {
    /// Only runs tasks.
    #[default]
    Worker,
    /// Also keeps the cluster's state.
    Manager,
}

impl Role {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Manager => "manager",
        }
    }
}

/// Whether a node takes tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Availability {
    /// Takes new tasks.
    #[default]
    Active,
    /// Keeps what it has, takes nothing new.
    Pause,
    /// Gives up what it has.
    Drain,
}

impl Availability {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Pause => "pause",
            Self::Drain => "drain",
        }
    }

    /// The availability with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Active, Self::Pause, Self::Drain].into_iter().find(|a| a.as_str() == word)
    }
}

/// What an agent says of its machine.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Description {
    /// The machine's host name; not unique.
    pub hostname: Arc<str>,
    /// Operating system and architecture.
    pub platform: Platform,
    /// What it can hold.
    pub resources: Resources,
    /// The values of those counted resources that have names, by kind; their number is what `resources` counts.
    pub named: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// The directories that tasks may ask for, by name.
    pub volumes: BTreeMap<Arc<str>, Volume>,
    /// What can run programs there.
    pub drivers: Vec<DriverInfo>,
    /// Labels set on the machine itself, matched by `engine.labels.*`.
    pub engine_labels: Labels,
    /// The version of the agent's program.
    pub version: Arc<str>,
}

impl Description {
    /// Every named resource, by kind and value.
    pub fn each_named(&self) -> impl Iterator<Item = NamedResource> + '_ {
        self.named.iter().flat_map(|(kind, values)| {
            values.iter().map(|value| NamedResource { kind: Arc::clone(kind), value: Arc::clone(value) })
        })
    }

    /// True when this named resource is there.
    pub fn offers(&self, one: &NamedResource) -> bool {
        self.named.get(&one.kind).is_some_and(|values| values.contains(&one.value))
    }
}

/// Operating system and architecture, in Go's words (`linux`, `amd64`), as docker uses them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Platform {
    /// For example `linux`.
    pub os: Arc<str>,
    /// For example `amd64`; `x86_64` and `aarch64` are read as `amd64` and `arm64`.
    pub arch: Arc<str>,
}

impl Platform {
    /// True when a program made for this platform runs on `node`; an empty word stands for any.
    pub fn runs_on(&self, node: &Self) -> bool {
        (self.os.is_empty() || self.os.eq_ignore_ascii_case(&node.os))
            && (self.arch.is_empty() || same_arch(&self.arch, &node.arch))
    }
}

/// True when two words name one architecture: without regard to case, `x86_64` is `amd64` and `aarch64` is `arm64`.
pub fn same_arch(a: &str, b: &str) -> bool {
    fn plain(word: &str) -> &str {
        match word {
            _ if word.eq_ignore_ascii_case("x86_64") => "amd64",
            _ if word.eq_ignore_ascii_case("aarch64") => "arm64",
            _ => word,
        }
    }
    plain(a).eq_ignore_ascii_case(plain(b))
}

/// One driver of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverInfo {
    /// `exec`, `mock`, ...
    pub name: Arc<str>,
    /// False when it cannot run anything now.
    pub healthy: bool,
    /// What it cannot do here, in sentences.
    pub notes: Vec<Arc<str>>,
}

/// Whether a node is there.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NodeStatus {
    /// What is known.
    pub state: NodeState,
    /// Why, in a few words.
    pub message: Arc<str>,
    /// Where its agent calls from; empty for the agent inside the same process.
    pub address: Arc<str>,
    /// Since when it is in this state.
    pub since: Time,
}

/// What is known of a node's presence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum NodeState {
    /// Not heard of since this leader took over.
    #[default]
    Unknown,
    /// Its agent has a live session.
    Ready,
    /// Its heartbeats stopped.
    Down,
    /// Told to find another manager.
    Disconnected,
}

impl NodeState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Ready => "ready",
            Self::Down => "down",
            Self::Disconnected => "disconnected",
        }
    }
}

impl Node {
    /// True when new tasks may be placed here.
    pub fn takes_tasks(&self) -> bool {
        self.status.state == NodeState::Ready && self.availability == Availability::Active
    }

    /// True when its tasks must go elsewhere: drained, or its heartbeats stopped.
    pub fn loses_tasks(&self) -> bool {
        self.status.state == NodeState::Down || self.availability == Availability::Drain
    }

    /// True while tasks of services with a budget are moved off it one after the other: it is drained, there, and has time.
    pub fn is_emptied_slowly(&self, now: Time) -> bool {
        self.availability == Availability::Drain
            && self.status.state != NodeState::Down
            && self.drain_until.is_none_or(|until| now < until)
    }
}
