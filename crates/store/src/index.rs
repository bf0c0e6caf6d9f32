//! How the tables are written: one function an object, each of which keeps every index and derived table true.
//! They check nothing; that is `apply`'s. Each is its own inverse when given what was there before, in any order.

use std::sync::Arc;

use model::{
    Cluster, Decision, Desired, Index, Job, JobId, Namespace, NamespaceId, Node, NodeId, Revision,
    RevisionId, Service, ServiceId, Task, TaskId, Time,
};

use crate::tables::{NodeEntry, RevisionEntry, ServiceEntry, Tables, folded};

impl Tables {
    pub(crate) fn set_cluster(&mut self, new: Option<Arc<Cluster>>) {
        self.cluster = new;
    }

    pub(crate) fn set_namespace(&mut self, id: NamespaceId, new: Option<Arc<Namespace>>) {
        if let Some(old) = self.namespaces.get(&id) {
            let name = folded(&old.name);
            // Another may have taken the name since, when several changes are undone.
            if self.namespace_names.get(&name) == Some(&id) {
                self.namespace_names.remove(&name);
            }
        }
        match new {
            Some(new) => {
                self.namespace_names.insert(folded(&new.name), id);
                self.namespaces.insert(id, new);
            }
            None => {
                self.namespaces.remove(&id);
            }
        }
    }

    pub(crate) fn set_job(&mut self, id: JobId, new: Option<Arc<Job>>) {
        if let Some(old) = self.jobs.get(&id) {
            let name = (old.namespace, folded(&old.name));
            if self.job_names.get(&name) == Some(&id) {
                self.job_names.remove(&name);
            }
        }
        match new {
            Some(new) => {
                self.job_names.insert((new.namespace, folded(&new.name)), id);
                self.jobs.insert(id, new);
            }
            None => {
                self.jobs.remove(&id);
            }
        }
    }

    pub(crate) fn set_service(&mut self, id: ServiceId, new: Option<Arc<Service>>) {
        let old = self.service(id).cloned();
        for revision in old.iter().flat_map(|s| Some(s.revision).into_iter().chain(s.previous)) {
            self.release_revision(revision);
        }
        for revision in new.iter().flat_map(|s| Some(s.revision).into_iter().chain(s.previous)) {
            self.hold_revision(revision);
        }
        if let Some(old) = &old {
            let name = (old.namespace, folded(&old.name));
            if self.service_names.get(&name) == Some(&id) {
                self.service_names.remove(&name);
            }
            if let Some(job) = old.job {
                self.job_services.remove(&(job, id));
            }
        }
        if let Some(new) = &new {
            self.service_names.insert((new.namespace, folded(&new.name)), id);
            if let Some(job) = new.job {
                self.job_services.insert((job, id));
            }
        }
        self.services.entry(id).or_default().service = new;
    }

    /// Forgets what is known under a service's id once there is neither a service nor a task.
    pub(crate) fn forget_service(&mut self, id: ServiceId) {
        let unused = |entry: &ServiceEntry| entry.service.is_none() && entry.used.total() == 0;
        if self.services.get(&id).is_some_and(unused) {
            self.services.remove(&id);
        }
    }

    pub(crate) fn set_node(&mut self, id: NodeId, new: Option<Arc<Node>>) {
        let entry = self.nodes.entry(id).or_default();
        let load = (entry.used.active(), id);
        if new.is_some() {
            self.by_load.insert(load);
        } else {
            self.by_load.remove(&load);
        }
        entry.node = new;
    }

    /// Forgets what is known under a node's id once there is neither a node nor a task that names it.
    pub(crate) fn forget_node(&mut self, id: NodeId) {
        let unused = |entry: &NodeEntry| entry.node.is_none() && entry.tasks == 0;
        if self.nodes.get(&id).is_some_and(unused) {
            self.nodes.remove(&id);
        }
    }

    pub(crate) fn add_revision(&mut self, revision: Arc<Revision>) {
        let reservation = Arc::new(revision.task.reservation());
        self.revisions.insert(revision.id, RevisionEntry { revision, refs: 0, reservation });
    }

    pub(crate) fn remove_revision(&mut self, id: RevisionId) {
        self.revisions.remove(&id);
    }

    fn hold_revision(&mut self, id: RevisionId) {
        if let Some(entry) = self.revisions.get_mut(&id) {
            entry.refs += 1;
        }
    }

    fn release_revision(&mut self, id: RevisionId) {
        if let Some(entry) = self.revisions.get_mut(&id) {
            entry.refs -= 1;
        }
    }

    pub(crate) fn set_task(&mut self, id: TaskId, new: Option<Arc<Task>>) {
        let old = self.tasks.get(&id).cloned();
        self.index_task(old.as_deref(), new.as_deref());
        self.reserve_task(old.as_deref(), new.as_deref());
        // The slot's other tasks are counted by what the table holds, so it changes between the two halves.
        match (old.as_deref(), new.as_deref()) {
            (Some(old), Some(new)) if old.fills_slot() == new.fills_slot() => {
                self.with_service_use(old.service, |used| used.recount(old, new));
            }
            (old, new) => {
                if let Some(task) = old {
                    let others = self.others_in_slot(task);
                    self.with_service_use(task.service, |used| used.uncount(task, others));
                }
                if let Some(task) = new {
                    let others = self.others_in_slot(task);
                    self.with_service_use(task.service, |used| used.count(task, others));
                }
            }
        }
        match new {
            Some(new) => {
                self.tasks.insert(id, new);
            }
            None => {
                self.tasks.remove(&id);
            }
        }
    }

    fn with_service_use(&mut self, id: ServiceId, change: impl FnOnce(&mut crate::ServiceUse)) {
        change(Arc::make_mut(&mut self.services.entry(id).or_default().used));
    }

    /// How many other tasks fill the slot of `task`.
    fn others_in_slot(&self, task: &Task) -> u32 {
        let others =
            self.tasks_of_slot(task.service, task.slot).filter(|t| t.id != task.id && t.fills_slot());
        u32::try_from(others.count()).unwrap_or(u32::MAX)
    }

    fn index_task(&mut self, old: Option<&Task>, new: Option<&Task>) {
        if old.is_none()
            && let Some(task) = new
        {
            self.by_slot.insert((task.service, task.slot, task.created, task.id));
            self.hold_revision(task.revision);
        }
        if new.is_none()
            && let Some(task) = old
        {
            self.by_slot.remove(&(task.service, task.slot, task.created, task.id));
            self.release_revision(task.revision);
        }
        let node = |task: Option<&Task>| task.and_then(|t| Some((t.node?, t.id)));
        let (was, is) = (node(old), node(new));
        if was != is {
            if let Some(key) = was {
                self.by_node.remove(&key);
                self.nodes.entry(key.0).or_default().tasks -= 1;
            }
            if let Some(key) = is {
                self.by_node.insert(key);
                self.nodes.entry(key.0).or_default().tasks += 1;
            }
        }
        let waits = |task: Option<&Task>| {
            task.filter(|t| t.waits_for_node()).map(|t| (t.service, t.revision, t.created, t.slot, t.id))
        };
        let (was, is) = (waits(old), waits(new));
        if was != is {
            if let Some(key) = was {
                self.waiting.remove(&key);
            }
            if let Some(key) = is {
                self.waiting.insert(key);
            }
        }
        let (was, is) = (delayed_until(old), delayed_until(new));
        if was != is {
            if let Some(key) = was {
                self.delayed.remove(&key);
            }
            if let Some(key) = is {
                self.delayed.insert(key);
            }
        }
    }

    /// Moves a task's reservation. Node, ports and revision of a task that holds one never change.
    fn reserve_task(&mut self, old: Option<&Task>, new: Option<&Task>) {
        let holds = |task: Option<&Task>| task.is_some_and(Task::holds_reservation);
        let (was, is) = (holds(old), holds(new));
        if was == is {
            return;
        }
        let Some(task) = (if is { new } else { old }) else { return };
        let Some(id) = task.node else { return };
        let reservation = self.revisions.get(&task.revision).map(|entry| Arc::clone(&entry.reservation));
        let reservation = reservation.unwrap_or_default();
        let entry = self.nodes.entry(id).or_default();
        let before = entry.used.active();
        let used = Arc::make_mut(&mut entry.used);
        if is {
            used.take(task, &reservation);
        } else {
            used.give_back(task, &reservation);
        }
        if entry.node.is_some() {
            self.by_load.remove(&(before, id));
            self.by_load.insert((used.active(), id));
        }
    }
}

/// When a task that waits for a moment shall run.
fn delayed_until(task: Option<&Task>) -> Option<(Time, TaskId)> {
    let task = task.filter(|t| t.desired == Desired::Ready && !t.status.state.is_ended())?;
    Some((task.start_after?, task.id))
}

/// For snapshots.
impl Tables {
    /// Every node id that is known, with [`node_tasks_index`](Self::node_tasks_index), by id: nodes, and what tasks name.
    pub(crate) fn known_nodes(&self) -> impl Iterator<Item = (NodeId, Index)> + '_ {
        self.nodes.iter().map(|(id, entry)| (*id, entry.tasks_index))
    }

    /// Every service id that is known, with [`service_index`](Self::service_index), by id: services, and what tasks are of.
    pub(crate) fn known_services(&self) -> impl Iterator<Item = (ServiceId, Index)> + '_ {
        self.services.iter().map(|(id, entry)| (*id, entry.index))
    }

    /// True for an id that [`known_nodes`](Self::known_nodes) has.
    pub(crate) fn knows_node(&self, id: NodeId) -> bool {
        self.nodes.contains_key(&id)
    }

    /// True for an id that [`known_services`](Self::known_services) has.
    pub(crate) fn knows_service(&self, id: ServiceId) -> bool {
        self.services.contains_key(&id)
    }

    /// Every revision, by id.
    pub(crate) fn all_revisions(&self) -> impl Iterator<Item = &Arc<Revision>> {
        self.revisions.values().map(|entry| &entry.revision)
    }

    /// Keeps what is known under a node's id beside the node.
    pub(crate) fn know_node(&mut self, id: NodeId, tasks_index: Index) {
        self.nodes.entry(id).or_default().tasks_index = tasks_index;
    }

    /// Keeps what is known under a service's id beside the service.
    pub(crate) fn know_service(&mut self, id: ServiceId, index: Index, decisions: Vec<Decision>) {
        let entry = self.services.entry(id).or_default();
        entry.index = index;
        entry.decisions = Arc::new(decisions);
    }

    /// Something that is known although nothing refers to it, which `apply` never leaves behind.
    pub(crate) fn unused(&self) -> Option<String> {
        let revision =
            self.revisions.iter().find(|(_, e)| e.refs == 0).map(|(id, _)| format!("revision {id}"));
        let service = |e: &ServiceEntry| e.service.is_none() && e.used.total() == 0;
        let service = self.services.iter().find(|(_, e)| service(e)).map(|(id, _)| format!("service {id}"));
        let node = |e: &NodeEntry| e.node.is_none() && e.tasks == 0;
        let node = self.nodes.iter().find(|(_, e)| node(e)).map(|(id, _)| format!("node {id}"));
        revision.or(service).or(node)
    }

    /// Sets the indexes of tables that were read.
    pub(crate) fn restore_indexes(&mut self, index: Index, time: Time, tables: &[Index]) {
        self.index = index;
        self.time = time;
        for (here, there) in self.table_index.iter_mut().zip(tables) {
            *here = *there;
        }
    }
}
