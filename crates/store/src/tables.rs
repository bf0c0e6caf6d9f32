//! The tables and how they are read. They are persistent structures: a clone is a snapshot, costs no more than a few
//! counters, and never changes. What changes them is `apply` alone.

use std::ops::RangeInclusive;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use model::{
    Cluster, Decision, Id, Index, Job, JobId, Meta, Namespace, NamespaceId, Node, NodeId, Resources,
    Revision, RevisionId, Service, ServiceId, Task, TaskId, Time, Version,
};

use crate::derived::{NodeUse, ServiceUse};
use crate::id_map::IdMap;
use crate::rollout::Rollout;
use crate::slab::Slab;

/// A table, for [`Tables::table_index`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// The cluster itself.
    Cluster,
    /// Namespaces.
    Namespaces,
    /// Nodes.
    Nodes,
    /// Jobs.
    Jobs,
    /// Services.
    Services,
    /// Tasks.
    Tasks,
}

impl Table {
    /// Every table, in order.
    pub const ALL: [Self; 6] =
        [Self::Cluster, Self::Namespaces, Self::Nodes, Self::Jobs, Self::Services, Self::Tasks];
}

/// The replicated state of a cluster. A clone is a snapshot.
///
/// Nodes, services and tasks have a handle, a small number by which the indexes name them. An index that is read in the
/// order of ids holds ids as well: what is read never depends on handles.
#[derive(Clone, Debug)]
pub struct Tables {
    /// The last applied entry.
    pub(crate) index: Index,
    /// Its time.
    pub(crate) time: Time,
    /// How many change sets are laid over; see [`Tables::speculate`].
    pub(crate) speculated: u64,
    pub(crate) table_index: [Index; Table::ALL.len()],

    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) namespaces: OrdMap<NamespaceId, Arc<Namespace>>,
    pub(crate) namespace_names: OrdMap<Arc<str>, NamespaceId>,
    pub(crate) jobs: OrdMap<JobId, Arc<Job>>,
    pub(crate) job_names: OrdMap<(NamespaceId, Arc<str>), JobId>,
    pub(crate) service_names: OrdMap<(NamespaceId, Arc<str>), ServiceId>,
    pub(crate) job_services: OrdSet<(JobId, ServiceId)>,
    /// The services whose slots are nodes.
    pub(crate) global_services: OrdSet<ServiceId>,
    pub(crate) revisions: OrdMap<RevisionId, RevisionEntry>,

    pub(crate) node_handles: OrdMap<NodeId, u32>,
    pub(crate) nodes: Slab<NodeEntry>,
    /// Under the same handles; apart because they change much more often.
    pub(crate) node_marks: Slab<NodeMarks>,
    /// The handles of the nodes that exist, by their active tasks and id.
    pub(crate) by_load: OrdMap<(u32, NodeId), u32>,
    /// The nodes that are down.
    pub(crate) down: OrdSet<NodeId>,

    pub(crate) service_handles: OrdMap<ServiceId, u32>,
    pub(crate) services: Slab<ServiceEntry>,
    /// How far services are with a revision that is on its way, by their handles.
    pub(crate) rollouts: OrdMap<u32, Arc<Rollout>>,
    /// The last decisions about each service, oldest first.
    pub(crate) decisions: OrdMap<ServiceId, Arc<Vec<Decision>>>,

    pub(crate) task_handles: IdMap,
    pub(crate) tasks: Slab<TaskEntry>,
    /// Tasks in numbered slots: service, slot, task.
    pub(crate) by_number: OrdSet<(u32, u32, u32)>,
    /// Tasks in the slots of nodes: service, slot, task.
    pub(crate) by_node_slot: OrdSet<(u32, NodeId, u32)>,
    /// Tasks that name a node: node, the task's id, task.
    pub(crate) by_node: OrdSet<(u32, TaskId, u32)>,
    pub(crate) waiting: OrdMap<(ServiceId, RevisionId), Waiting>,
    pub(crate) delayed: OrdSet<(Time, TaskId)>,
    /// Tasks that fill their numbered slot and shall leave their node.
    pub(crate) leaving: OrdSet<(ServiceId, u32, TaskId)>,
    /// Failed tasks of numbered slots that are still known: revision, node, when that was applied, task.
    pub(crate) failed: OrdSet<(RevisionId, u32, Time, u32)>,
}

/// What is known under a node's id. Outlives the node while tasks name it.
#[derive(Clone, Debug)]
pub(crate) struct NodeEntry {
    pub(crate) id: NodeId,
    pub(crate) node: Option<Arc<Node>>,
    pub(crate) used: Arc<NodeUse>,
}

/// What tasks leave behind at a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeMarks {
    /// The last index at which the control plane changed or deleted a task of it.
    pub(crate) tasks_index: Index,
    /// Tasks that name this node.
    pub(crate) tasks: u32,
}

/// What is known under a service's id. Outlives the service while it has tasks.
#[derive(Clone, Debug)]
pub(crate) struct ServiceEntry {
    pub(crate) service: Option<Arc<Service>>,
    /// The last index that changed it or one of its tasks.
    pub(crate) index: Index,
    pub(crate) used: Arc<ServiceUse>,
}

/// A task, and the handles of what it names.
#[derive(Clone, Debug)]
pub(crate) struct TaskEntry {
    pub(crate) task: Arc<Task>,
    pub(crate) service: u32,
    /// Its node, or [`NONE`](crate::slab::NONE).
    pub(crate) node: u32,
}

/// The tasks of one service and revision that wait for a node. Never empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    /// In numbered slots: the index that made a task, its slot, its handle.
    pub(crate) numbered: OrdSet<(Index, u32, u32)>,
    /// In the slots of nodes: the index that made a task, its slot, its handle.
    pub(crate) on_nodes: OrdSet<(Index, NodeId, u32)>,
}

/// A revision and who refers to it: services (current and previous) and tasks, counted.
#[derive(Clone, Debug)]
pub(crate) struct RevisionEntry {
    pub(crate) revision: Arc<Revision>,
    pub(crate) refs: u32,
    /// What a task of it reserves.
    pub(crate) reservation: Arc<Resources>,
}

/// A name as it is compared: without regard to case.
pub(crate) fn folded(name: &str) -> Arc<str> {
    name.to_ascii_lowercase().into()
}

impl Default for Tables {
    fn default() -> Self {
        Self::new()
    }
}

impl Tables {
    /// The tables of a new cluster: nothing but the namespace `default`.
    pub fn new() -> Self {
        let default = Namespace {
            id: NamespaceId::DEFAULT,
            meta: Meta::default(),
            name: "default".into(),
            description: "".into(),
        };
        Self {
            index: 0,
            time: Time::ZERO,
            speculated: 0,
            table_index: [0; Table::ALL.len()],
            cluster: None,
            namespace_names: OrdMap::unit(Arc::clone(&default.name), default.id),
            namespaces: OrdMap::unit(default.id, Arc::new(default)),
            jobs: OrdMap::new(),
            job_names: OrdMap::new(),
            service_names: OrdMap::new(),
            job_services: OrdSet::new(),
            global_services: OrdSet::new(),
            revisions: OrdMap::new(),
            node_handles: OrdMap::new(),
            nodes: Slab::new(),
            node_marks: Slab::new(),
            by_load: OrdMap::new(),
            down: OrdSet::new(),
            service_handles: OrdMap::new(),
            services: Slab::new(),
            rollouts: OrdMap::new(),
            decisions: OrdMap::new(),
            task_handles: IdMap::new(),
            tasks: Slab::new(),
            by_number: OrdSet::new(),
            by_node_slot: OrdSet::new(),
            by_node: OrdSet::new(),
            waiting: OrdMap::new(),
            delayed: OrdSet::new(),
            leaving: OrdSet::new(),
            failed: OrdSet::new(),
        }
    }

    /// The last applied entry.
    pub fn index(&self) -> Index {
        self.index
    }

    /// The time of the last applied entry.
    pub fn time(&self) -> Time {
        self.time
    }

    /// The index up to which these tables are committed. An object whose version is above it is in flight.
    pub fn settled(&self) -> Index {
        self.index
    }

    /// True when what has this version is committed, and not only laid over by [`Tables::speculate`].
    pub fn is_settled(&self, version: Version) -> bool {
        version <= self.settled()
    }

    /// The last index that changed a table, deletions included.
    pub fn table_index(&self, table: Table) -> Index {
        self.table_index[table as usize]
    }

    /// The last index at which the control plane changed or deleted a task of this node; 0 when the node is not
    /// known. Reports of the node's agent do not move it.
    pub fn node_tasks_index(&self, node: NodeId) -> Index {
        let marks = self.node_handles.get(&node).and_then(|handle| self.node_marks.get(*handle));
        marks.map_or(0, |marks| marks.tasks_index)
    }

    /// The last index that changed the service or any of its tasks, deletions included. It outlives the service while
    /// tasks remain; 0 when neither is known.
    pub fn service_index(&self, service: ServiceId) -> Index {
        self.service_entry(service).map_or(0, |entry| entry.index)
    }

    /// The cluster object, once it is made.
    pub fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster.as_ref()
    }

    /// A namespace.
    pub fn namespace(&self, id: NamespaceId) -> Option<&Arc<Namespace>> {
        self.namespaces.get(&id)
    }

    /// Every namespace, by id.
    pub fn namespaces(&self) -> impl Iterator<Item = &Arc<Namespace>> {
        self.namespaces.values()
    }

    /// The namespace with this name, without regard to case.
    pub fn namespace_by_name(&self, name: &str) -> Option<&Arc<Namespace>> {
        self.namespace(*self.namespace_names.get(&folded(name))?)
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.node_entry(id)?.node.as_ref()
    }

    fn node_entry(&self, id: NodeId) -> Option<&NodeEntry> {
        self.nodes.get(*self.node_handles.get(&id)?)
    }

    /// Every node, by id.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.node_handles.values().filter_map(|handle| self.nodes.get(*handle)?.node.as_ref())
    }

    /// The nodes whose id is in a range, by id.
    pub fn nodes_in_prefix(&self, range: RangeInclusive<Id>) -> impl Iterator<Item = &Arc<Node>> {
        let range = NodeId(*range.start())..=NodeId(*range.end());
        self.node_handles.range(range).filter_map(|(_, handle)| self.nodes.get(*handle)?.node.as_ref())
    }

    /// The nodes that exist, by the number of tasks that hold a reservation there, then by id.
    pub fn nodes_by_load(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.by_load.keys().map(|(_, id)| *id)
    }

    /// The nodes with what is held of them, in the order of [`nodes_by_load`](Self::nodes_by_load).
    pub fn nodes_with_use_by_load(&self) -> impl Iterator<Item = (&Arc<Node>, &NodeUse)> {
        self.by_load.values().filter_map(|handle| {
            let entry = self.nodes.get(*handle)?;
            Some((entry.node.as_ref()?, &*entry.used))
        })
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.by_load.len()
    }

    /// A node with what is held of it; one search for both.
    pub fn node_with_use(&self, id: NodeId) -> Option<(&Arc<Node>, &NodeUse)> {
        let entry = self.node_entry(id)?;
        Some((entry.node.as_ref()?, &entry.used))
    }

    /// Every node with what is held of it, by id; much faster than a search for each.
    pub fn nodes_with_use(&self) -> impl Iterator<Item = (&Arc<Node>, &NodeUse)> {
        self.node_handles.values().filter_map(|handle| {
            let entry = self.nodes.get(*handle)?;
            Some((entry.node.as_ref()?, &*entry.used))
        })
    }

    /// What is held of a node; nothing when it is unknown.
    pub fn node_use(&self, node: NodeId) -> &NodeUse {
        match self.node_entry(node) {
            Some(entry) => &entry.used,
            None => NodeUse::none(),
        }
    }

    /// How many tasks of a revision failed on a node since a moment, by the log's clock; at most `most`, and only those
    /// that are still known. Tasks that were made for the node don't count.
    pub fn failures_on(&self, revision: RevisionId, node: NodeId, since: Time, most: u32) -> u32 {
        let Some(handle) = self.node_handles.get(&node) else { return 0 };
        let range = (revision, *handle, since, 0)..=(revision, *handle, Time(i64::MAX), u32::MAX);
        u32::try_from(self.failed.range(range).take(most as usize).count()).unwrap_or(most)
    }

    /// A job.
    pub fn job(&self, id: JobId) -> Option<&Arc<Job>> {
        self.jobs.get(&id)
    }

    /// Every job, by id.
    pub fn jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.jobs.values()
    }

    /// The job with this name, without regard to case.
    pub fn job_by_name(&self, namespace: NamespaceId, name: &str) -> Option<&Arc<Job>> {
        self.job(*self.job_names.get(&(namespace, folded(name)))?)
    }

    /// The jobs whose id is in a range, by id.
    pub fn jobs_in_prefix(&self, range: RangeInclusive<Id>) -> impl Iterator<Item = &Arc<Job>> {
        self.jobs.range(JobId(*range.start())..=JobId(*range.end())).map(|(_, job)| job)
    }

    /// A service.
    pub fn service(&self, id: ServiceId) -> Option<&Arc<Service>> {
        self.service_entry(id)?.service.as_ref()
    }

    fn service_entry(&self, id: ServiceId) -> Option<&ServiceEntry> {
        self.services.get(*self.service_handles.get(&id)?)
    }

    /// Every service, by id.
    pub fn services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.service_handles.values().filter_map(|handle| self.services.get(*handle)?.service.as_ref())
    }

    /// The service with this name, without regard to case.
    pub fn service_by_name(&self, namespace: NamespaceId, name: &str) -> Option<&Arc<Service>> {
        self.service(*self.service_names.get(&(namespace, folded(name)))?)
    }

    /// The services of a job, by id.
    pub fn services_of_job(&self, job: JobId) -> impl Iterator<Item = &Arc<Service>> {
        let range = (job, ServiceId(Id::from_u128(0)))..=(job, ServiceId(Id::from_u128(u128::MAX)));
        self.job_services.range(range).filter_map(|(_, id)| self.service(*id))
    }

    /// The services whose slots are nodes, by id: what a node that comes or goes may concern.
    pub fn global_services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.global_services.iter().filter_map(|id| self.service(*id))
    }

    /// The services whose id is in a range, by id.
    pub fn services_in_prefix(&self, range: RangeInclusive<Id>) -> impl Iterator<Item = &Arc<Service>> {
        let range = ServiceId(*range.start())..=ServiceId(*range.end());
        self.service_handles
            .range(range)
            .filter_map(|(_, handle)| self.services.get(*handle)?.service.as_ref())
    }

    /// The ids of every service that has tasks, removed ones included, by id.
    pub fn services_with_tasks(&self) -> impl Iterator<Item = ServiceId> + '_ {
        self.service_handles
            .iter()
            .filter(|(_, handle)| self.services.get(**handle).is_some_and(|e| e.used.total() > 0))
            .map(|(id, _)| *id)
    }

    /// A service with what it has; one search for both.
    pub fn service_with_use(&self, id: ServiceId) -> Option<(&Arc<Service>, &ServiceUse)> {
        let entry = self.service_entry(id)?;
        Some((entry.service.as_ref()?, &entry.used))
    }

    /// What a service has; nothing when it is unknown.
    pub fn service_use(&self, service: ServiceId) -> &ServiceUse {
        match self.service_entry(service) {
            Some(entry) => &entry.used,
            None => ServiceUse::none(),
        }
    }

    /// How many tasks of a service run, shall run, and are on a node that is not down; those that are on their way to a node
    /// that is down are taken for lost as well. Costs the nodes that are down.
    pub fn healthy(&self, service: ServiceId) -> u32 {
        let lost: u32 = self.down.iter().map(|node| self.node_use(*node).tasks_of(service)).sum();
        self.service_use(service).running().saturating_sub(lost)
    }

    /// True for a task that [`healthy`](Self::healthy) counts.
    pub fn is_healthy(&self, task: &Task) -> bool {
        task.is_running() && task.node.is_some_and(|node| !self.down.contains(&node))
    }

    /// The last decisions about a service, oldest first, at most
    /// [`limits::DECISIONS_KEPT`](model::limits::DECISIONS_KEPT).
    pub fn decisions(&self, service: ServiceId) -> impl Iterator<Item = &Decision> {
        self.decisions.get(&service).into_iter().flat_map(|kept| kept.iter())
    }

    /// A revision.
    pub fn revision(&self, id: RevisionId) -> Option<&Arc<Revision>> {
        self.revisions.get(&id).map(|entry| &entry.revision)
    }
}
