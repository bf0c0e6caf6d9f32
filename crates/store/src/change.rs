//! Change sets: what a decision asks the store to do, as data.
//!
//! A change set is applied whole or refused whole. It names the objects it read with their versions
//! (its guards); if one has moved since, the decision was made about a world that is no more.

use std::sync::Arc;

use model::{
    Availability, BoundPort, Cluster, Description, Desired, Index, Job, JobId, Labels, Leave, NamedResource,
    Namespace, NamespaceId, Node, NodeId, NodeStatus, ProgramStatus, Revision, RevisionId, Role, Rule,
    Service, ServiceId, Slot, TaskId, TaskState, Time, Unplaced, UpdateState, Version,
};

/// An object of the store, by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectId {
    /// The cluster itself.
    Cluster,
    /// A namespace.
    Namespace(NamespaceId),
    /// A node.
    Node(NodeId),
    /// A job.
    Job(JobId),
    /// A service.
    Service(ServiceId),
    /// A revision.
    Revision(RevisionId),
    /// A task.
    Task(TaskId),
}

/// An object that a decision read, and the version it saw. Version 0: it saw that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The object.
    pub object: ObjectId,
    /// Its version when it was read.
    pub version: Version,
}

/// Changes that happen together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ChangeSet {
    /// What must not have moved.
    pub guards: Vec<Guard>,
    /// What to do, in this order; later changes see earlier ones.
    pub changes: Vec<Change>,
}

/// One change. `meta`, `created`, `modified`, `directed` and `*_at` inside the objects are filled by `apply`, whatever
/// they hold here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Makes or replaces the cluster object.
    PutCluster(Cluster),
    /// Makes or replaces a namespace.
    PutNamespace(Namespace),
    /// Removes a namespace; refused while something is inside, and for the default one.
    DeleteNamespace(NamespaceId),
    /// Makes a node.
    CreateNode(Node),
    /// What operators want of a node.
    SetNode {
        /// The node.
        node: NodeId,
        /// Its role.
        role: Role,
        /// Whether it takes tasks.
        availability: Availability,
        /// While it is drained: when what is still there goes whatever the budgets say. Nothing for another availability.
        drain_until: Option<Time>,
        /// Its labels.
        labels: Labels,
    },
    /// What an agent says of its machine.
    DescribeNode {
        /// The node.
        node: NodeId,
        /// The machine.
        description: Arc<Description>,
    },
    /// Whether a node is there. `status.since` is filled by `apply` when the state changes.
    SetNodeStatus {
        /// The node.
        node: NodeId,
        /// What is known.
        status: NodeStatus,
    },
    /// Removes a node; its tasks that have not ended become orphaned in the same step.
    DeleteNode(NodeId),
    /// Makes or replaces a job.
    PutJob(Job),
    /// Removes a job; refused while a service belongs to it.
    DeleteJob(JobId),
    /// Makes a revision; it must be referenced by the end of the change set.
    CreateRevision(Revision),
    /// Makes a service. (Behind a pointer, as it is several times as large as any other change: placements are made by the million.)
    CreateService(Box<Service>),
    /// Replaces a service; id, namespace and name stay. Another revision begins an update; whatever `update_status` says
    /// here, it is the store's own.
    UpdateService(Box<Service>),
    /// Makes a service's previous revision its current one, and the other way about: begins a rollback. Refused when
    /// there is none.
    RollBack {
        /// The service.
        service: ServiceId,
        /// True when nobody asked for it: the update's failure action.
        automatic: bool,
        /// Why.
        message: Arc<str>,
    },
    /// Moves an update or rollback on to its next state. Refused when that state cannot follow.
    MoveUpdate {
        /// The service.
        service: ServiceId,
        /// The state.
        state: UpdateState,
        /// Why, or how it ended.
        message: Arc<str>,
    },
    /// Promotes the canaries of a service's update: they have their slots from then on, and the other slots are changed as its
    /// policy says. Refused when it has none that wait for that.
    Promote {
        /// The service.
        service: ServiceId,
        /// Why.
        message: Arc<str>,
    },
    /// Removes a service. Its tasks stay until the orchestrator has ended them.
    DeleteService(ServiceId),
    /// Makes a task, in the state `Pending`.
    CreateTask {
        /// Its id.
        id: TaskId,
        /// Its service.
        service: ServiceId,
        /// Its slot.
        slot: Slot,
        /// Its spec.
        revision: RevisionId,
        /// Its node, when it was made for one; it still has to be assigned.
        node: Option<NodeId>,
        /// `Running`, or `Ready` when it must wait until `start_after`.
        desired: Desired,
        /// The earliest moment at which it shall run.
        start_after: Option<Time>,
    },
    /// Gives a pending task its node and host ports: it becomes `Assigned`. Refused when the node is gone, when a
    /// port or a named resource is held by another task there, when a volume is not there or not shared by one more, or when
    /// less is left there than the task reserves.
    AssignTask {
        /// The task.
        task: TaskId,
        /// Its node.
        node: NodeId,
        /// Its host ports.
        ports: Box<[BoundPort]>,
        /// The named resources it gets: of each kind that has names there as many as it reserves, none of which another
        /// task there has.
        named: Box<[NamedResource]>,
    },
    /// Says what is wanted of a task. A lower wish than before changes nothing.
    DirectTask {
        /// The task.
        task: TaskId,
        /// What is wanted.
        desired: Desired,
    },
    /// Says that a task shall leave its node once that is within the budget of its service, or that it stays. Refused for a
    /// task that has no node, has ended or is not wanted. `since` is filled by `apply` when the reason is another.
    LeaveTask {
        /// The task.
        task: TaskId,
        /// Why and where to; `None`: it stays.
        leave: Option<Leave>,
    },
    /// Tells a task that is moved on purpose to shut down. Refused when it runs and its service would be left with fewer
    /// running tasks than its budget says.
    RetireTask {
        /// The task.
        task: TaskId,
    },
    /// Tells a task to shut down for a reason that is not its service's doing; one that is told to end already keeps what it
    /// was told.
    DismissTask {
        /// The task.
        task: TaskId,
        /// Why.
        reason: Arc<str>,
    },
    /// Tells a task to shut down so that another, of far higher priority, gets its room. Refused when it runs and its service
    /// would be left with fewer running tasks than its budget says.
    PreemptTask {
        /// The task.
        task: TaskId,
        /// Why.
        reason: Arc<str>,
    },
    /// What an agent reports. Changes nothing (and is no error) when the task is gone, is not on this node, or has
    /// already come further.
    ReportTask {
        /// The task.
        task: TaskId,
        /// The node that reports.
        node: NodeId,
        /// What the task has reached.
        state: TaskState,
        /// Since when, by the node's clock.
        at: Time,
        /// More in a sentence.
        message: Option<Arc<str>>,
        /// Its programs.
        programs: Box<[ProgramStatus]>,
    },
    /// The control plane's own end of a task: `Shutdown` for one that was never assigned, `Rejected` for one that was never
    /// assigned although it was waited for long enough, `Orphaned` for one whose node stayed away.
    EndTask {
        /// The task.
        task: TaskId,
        /// `Shutdown`, `Rejected` or `Orphaned`.
        state: TaskState,
        /// Why.
        message: Arc<str>,
    },
    /// Forgets a task. Refused while it holds a reservation.
    DeleteTask(TaskId),
    /// Says why tasks wait, or (`None`) that nothing is known against them any more. Tasks that are gone or assigned are passed over.
    ExplainTasks {
        /// The tasks.
        tasks: Vec<TaskId>,
        /// Why no node takes them.
        unplaced: Option<Arc<Unplaced>>,
    },
    /// Keeps a decision about a service; passed over when the service is gone.
    Decide {
        /// The service.
        service: ServiceId,
        /// The rule that made it.
        rule: Rule,
        /// The task it is about.
        task: Option<TaskId>,
        /// The sentence that says why.
        text: Arc<str>,
    },
}

/// An entry of the log: change sets that were on their way at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Entry {
    /// What every manager must know to apply it; see [`FEATURE_LEVEL`].
    pub feature_level: u32,
    /// The leader's clock. `apply` takes the larger of this and the time of the entry before.
    pub time: Time,
    /// Each applied or refused by itself, in this order.
    pub sets: Vec<ChangeSet>,
}

/// The features that this program knows. Raised with each change that older managers could not apply.
pub const FEATURE_LEVEL: u32 = 2;

/// Why a change set was refused. Nothing of it happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A guard does not hold: the object has changed since it was read.
    #[error("{object:?} has changed since it was read: version {found}, expected {expected}")]
    Moved {
        /// The object.
        object: ObjectId,
        /// The version that was read.
        expected: Version,
        /// The version now; 0 when there is none.
        found: Version,
    },
    /// A name is taken.
    #[error("the name {name:?} is already in use by {holder:?}")]
    NameTaken {
        /// The name.
        name: Arc<str>,
        /// Who has it.
        holder: ObjectId,
    },
    /// An object to be changed is not there.
    #[error("{0:?} does not exist")]
    Missing(ObjectId),
    /// An object to be made is there already.
    #[error("{0:?} exists already")]
    Exists(ObjectId),
    /// An object is still needed.
    #[error("{object:?} is still used by {by:?}")]
    InUse {
        /// The object.
        object: ObjectId,
        /// What needs it.
        by: ObjectId,
    },
    /// The change is not allowed in the state that the object is in.
    #[error("{object:?}: {problem}")]
    Wrong {
        /// The object.
        object: ObjectId,
        /// What is wrong.
        problem: String,
    },
}

impl ChangeSet {
    /// A change set without guards.
    pub fn of(changes: Vec<Change>) -> Self {
        Self { guards: Vec::new(), changes }
    }

    /// Adds a guard: `object` must still have `version`.
    pub fn guard(&mut self, object: ObjectId, version: Index) {
        let guard = Guard { object, version };
        if !self.guards.contains(&guard) {
            self.guards.push(guard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan of the scheduler is a row of these: what they take is memory to be cleared and filled for each placement.
    #[test]
    fn a_change_is_small() {
        assert!(size_of::<Change>() <= 160, "{} bytes", size_of::<Change>());
    }
}
