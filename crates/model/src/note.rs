//! Decisions that explain themselves.

use std::fmt;
use std::sync::Arc;

use crate::words::words;
use crate::{Index, NodeId, Slot, TaskId, Time};

/// One decision about a service, kept so that `quelea why` can tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The index at which it took effect. Written by `apply`.
    pub index: Index,
    /// When, by the log's clock. Written by `apply`.
    pub at: Time,
    /// The rule that made it.
    pub rule: Rule,
    /// The task it is about, if one.
    pub task: Option<TaskId>,
    /// The slot of that task. Written by `apply`; none when the task was not there.
    pub slot: Option<Slot>,
    /// How often it was made: more than once when it took the place of equal ones before it. Written by `apply`.
    pub times: u32,
    /// The sentence that says why.
    pub text: Arc<str>,
}

impl Decision {
    /// True when keeping this one is enough after an `earlier` one was kept: it is routine, and about the same slot; or
    /// about no slot, and says the same.
    pub fn repeats(&self, earlier: &Self) -> bool {
        let same = self.slot == earlier.slot && (self.slot.is_some() || self.text == earlier.text);
        self.rule.is_routine() && self.rule == earlier.rule && same
    }
}

impl Rule {
    /// True for what a task that fails again and again makes happen again and again.
    pub fn is_routine(self) -> bool {
        matches!(self, Self::Replace | Self::StartDelayed | Self::Placed | Self::Unplaced)
    }
}

words! {
    /// The rules by which the control plane decides; each is one place in the code.
    Rule {
        /// A slot below the wanted number was empty.
        ScaleUp = "scale-up",
        /// A slot was beyond the wanted number.
        ScaleDown = "scale-down",
        /// A task ended and its policy replaces it.
        Replace = "replace",
        /// A task ended and its policy does not replace it.
        NotReplaced = "not-replaced",
        /// A replacement's delay has passed.
        StartDelayed = "start-delayed",
        /// A node complies and had no task of a global service.
        GlobalAdd = "global-add",
        /// A node complies no longer with a global service.
        GlobalRemove = "global-remove",
        /// A node is down, drained or gone, and gave up a task.
        NodeLost = "node-lost",
        /// A task of an older revision gave way to the newer one.
        Update = "update",
        /// The revision before takes its place again.
        Rollback = "rollback",
        /// Canaries were promoted.
        Promoted = "promoted",
        /// More than one task filled a slot.
        Duplicate = "duplicate",
        /// A service was removed.
        Removed = "removed",
        /// A node was chosen for a task.
        Placed = "placed",
        /// No node takes a task.
        Unplaced = "unplaced",
        /// A node stayed away too long.
        Orphaned = "orphaned",
        /// A task gave way to one of far higher priority.
        Preempted = "preempted",
        /// A node became too small for what it holds, and gave up as few tasks as it could.
        Shrunk = "node-shrunk",
        /// A task was better off on another node.
        Rebalance = "rebalance",
        /// A task leaves a drained node within the budget of its service.
        Drain = "drain",
    }
}

words! {
    /// What can speak against a node; in the order in which it is asked. The first refusal counts.
    FilterKind {
        /// Not ready, paused or drained.
        Ready = "ready",
        /// Lacks the driver, or the driver is not healthy.
        Driver = "driver",
        /// Too little CPU, memory or a counted resource.
        Resources = "resources",
        /// A constraint does not hold.
        Constraint = "constraint",
        /// Its operating system or architecture is none that the programs are made for.
        Platform = "platform",
        /// A wanted host port is taken, or none is left.
        HostPort = "host-port",
        /// The node has as many tasks of the service as one may have.
        MaxReplicas = "max-replicas",
        /// A volume is not there, or may not be used by one more task.
        Volumes = "volumes",
    }
}

/// One filter's refusals over all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which filter.
    pub filter: FilterKind,
    /// How many nodes it refused.
    pub nodes: u32,
    /// The sentence for it, with the values that matter.
    pub text: Arc<str>,
}

/// Why no node takes a task: the refusals, most nodes first, equal ones in the order of [`FilterKind`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Unplaced {
    /// Each filter that refused a node.
    pub refusals: Vec<Refusal>,
}

impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.refusals.is_empty() {
            return f.pad("no suitable node (the cluster has no nodes)");
        }
        let reasons: Vec<&str> = self.refusals.iter().map(|r| &*r.text).collect();
        f.pad(&format!("no suitable node ({})", reasons.join("; ")))
    }
}

/// What one node says to one task, recomputed when asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The node.
    pub node: NodeId,
    /// Its host name.
    pub hostname: Arc<str>,
    /// The first filter that refuses and its sentence; `None` when the node would take the task.
    pub refusal: Option<(FilterKind, Arc<str>)>,
    /// Everything that would have to be otherwise for the node to take it; empty when it does.
    pub lacks: Vec<Lack>,
}

/// Something that would have to be otherwise for a node to take a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The filter that asks for it.
    pub filter: FilterKind,
    /// What the node would need, as it follows `with`: `0.5 CPU more`.
    pub text: Arc<str>,
    /// How hard it is to come by, to be compared and added up: a command of its operator costs a few, another machine
    /// [`Lack::ANOTHER_NODE`].
    pub cost: u32,
}

impl Lack {
    /// The cost of what no operator can give to this node.
    pub const ANOTHER_NODE: u32 = 1_000_000;
}
