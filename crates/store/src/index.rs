//! How the tables are written: one function an object, each of which keeps every index and derived table true.
//! They check nothing; that is `apply`'s. Each is its own inverse when given what was there before, in any order.

use std::sync::Arc;

use model::{
    Cluster, Decision, Index, Job, JobId, Namespace, NamespaceId, Node, NodeId, NodeState, Revision,
    RevisionId, Service, ServiceId, Slot, Time,
};

use crate::tables::{NodeEntry, NodeMarks, RevisionEntry, ServiceEntry, Tables, folded};

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
        let handle = self.service_handle(id);
        let Some(entry) = self.services.get_mut(handle) else { return };
        let old = std::mem::replace(&mut entry.service, new.clone());
        let revisions = |service: &Service| Some(service.revision).into_iter().chain(service.previous);
        for revision in old.iter().flat_map(|service| revisions(service)) {
            self.release_revision(revision);
        }
        for revision in new.iter().flat_map(|service| revisions(service)) {
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
            if old.mode.is_global() {
                self.global_services.remove(&id);
            }
        }
        if let Some(new) = &new {
            self.service_names.insert((new.namespace, folded(&new.name)), id);
            if let Some(job) = new.job {
                self.job_services.insert((job, id));
            }
            if new.mode.is_global() {
                self.global_services.insert(id);
            }
        }
        self.keep_ends(id, handle, new.is_some_and(|service| service.mode.is_batch()));
        self.keep_rollout(handle);
    }

    /// What ended tasks say of their slots is kept for batch services alone. Their mode never changes, so that nearly always
    /// this costs a look.
    fn keep_ends(&mut self, id: ServiceId, handle: u32, keep: bool) {
        let Some(entry) = self.services.get(handle).filter(|entry| entry.used.keeps_ends() != keep) else {
            return;
        };
        let mut used = Arc::clone(&entry.used);
        let tasks = self.tasks_of_service(id).map(|task| &**task);
        Arc::make_mut(&mut used).keep_ends(keep, tasks);
        if let Some(entry) = self.services.get_mut(handle) {
            entry.used = used;
        }
    }

    /// The handle of a service's id; a new one when it is not known.
    pub(crate) fn service_handle(&mut self, id: ServiceId) -> u32 {
        if let Some(handle) = self.service_handles.get(&id) {
            return *handle;
        }
        let entry = ServiceEntry { service: None, index: 0, used: Arc::default() };
        let handle = self.services.insert(entry);
        self.service_handles.insert(id, handle);
        handle
    }

    /// Forgets what is known under a service's id once there is neither a service nor a task.
    pub(crate) fn forget_service(&mut self, id: ServiceId) {
        let Some(handle) = self.service_handles.get(&id).copied() else { return };
        if self.services.get(handle).is_some_and(ServiceEntry::is_unused) {
            self.services.remove(handle);
            self.service_handles.remove(&id);
            self.decisions.remove(&id);
        }
    }

    pub(crate) fn set_node(&mut self, id: NodeId, new: Option<Arc<Node>>) {
        let handle = self.node_handle(id);
        let stood = self.stands_on(id);
        let Some(entry) = self.nodes.get_mut(handle) else { return };
        let load = (entry.used.active(), id);
        if new.is_some() {
            self.by_load.insert(load, handle);
        } else {
            self.by_load.remove(&load);
        }
        match &new {
            Some(node) if node.status.state == NodeState::Down => self.down.insert(id).is_some(),
            _ => self.down.remove(&id).is_some(),
        };
        entry.node = new;
        for (service, stood) in stood {
            self.keep_stand(service, Slot::Node(id), stood);
        }
    }

    /// The handle of a node's id; a new one when it is not known.
    pub(crate) fn node_handle(&mut self, id: NodeId) -> u32 {
        if let Some(handle) = self.node_handles.get(&id) {
            return *handle;
        }
        let handle = self.nodes.insert(NodeEntry { id, node: None, used: Arc::default() });
        self.node_marks.put(handle, NodeMarks::default());
        self.node_handles.insert(id, handle);
        handle
    }

    /// Forgets what is known under a node's id once there is neither a node nor a task that names it.
    pub(crate) fn forget_node(&mut self, id: NodeId) {
        let Some(handle) = self.node_handles.get(&id).copied() else { return };
        if self.node_is_unused(handle) {
            self.nodes.remove(handle);
            self.node_handles.remove(&id);
        }
    }

    fn node_is_unused(&self, handle: u32) -> bool {
        self.nodes.get(handle).is_none_or(|entry| entry.node.is_none())
            && self.node_marks.get(handle).is_none_or(|marks| marks.tasks == 0)
    }

    pub(crate) fn add_revision(&mut self, revision: Arc<Revision>) {
        let reservation = Arc::new(revision.task.reservation());
        self.revisions.insert(revision.id, RevisionEntry { revision, refs: 0, reservation });
    }

    pub(crate) fn remove_revision(&mut self, id: RevisionId) {
        self.revisions.remove(&id);
    }

    pub(crate) fn hold_revision(&mut self, id: RevisionId) {
        if let Some(entry) = self.revisions.get_mut(&id) {
            entry.refs += 1;
        }
    }

    pub(crate) fn release_revision(&mut self, id: RevisionId) {
        if let Some(entry) = self.revisions.get_mut(&id) {
            entry.refs -= 1;
        }
    }
}

impl ServiceEntry {
    fn is_unused(&self) -> bool {
        self.service.is_none() && self.used.total() == 0
    }
}

/// For snapshots.
impl Tables {
    /// Every node id that is known, with [`node_tasks_index`](Self::node_tasks_index), by id: nodes, and what tasks name.
    pub(crate) fn known_nodes(&self) -> impl Iterator<Item = (NodeId, Index)> + '_ {
        self.node_handles.iter().map(|(id, _)| (*id, self.node_tasks_index(*id)))
    }

    /// Every service id that is known, with [`service_index`](Self::service_index), by id: services, and what tasks are of.
    pub(crate) fn known_services(&self) -> impl Iterator<Item = (ServiceId, Index)> + '_ {
        self.service_handles.iter().map(|(id, _)| (*id, self.service_index(*id)))
    }

    /// True for an id that [`known_nodes`](Self::known_nodes) has.
    pub(crate) fn knows_node(&self, id: NodeId) -> bool {
        self.node_handles.contains_key(&id)
    }

    /// True for an id that [`known_services`](Self::known_services) has.
    pub(crate) fn knows_service(&self, id: ServiceId) -> bool {
        self.service_handles.contains_key(&id)
    }

    /// Every revision, by id.
    pub(crate) fn all_revisions(&self) -> impl Iterator<Item = &Arc<Revision>> {
        self.revisions.values().map(|entry| &entry.revision)
    }

    /// Keeps what is known under a node's id beside the node.
    pub(crate) fn know_node(&mut self, id: NodeId, tasks_index: Index) {
        let handle = self.node_handle(id);
        if let Some(marks) = self.node_marks.get_mut(handle) {
            marks.tasks_index = tasks_index;
        }
    }

    /// Keeps what is known under a service's id beside the service.
    pub(crate) fn know_service(&mut self, id: ServiceId, index: Index, decisions: Vec<Decision>) {
        let handle = self.service_handle(id);
        if let Some(entry) = self.services.get_mut(handle) {
            entry.index = index;
        }
        if !decisions.is_empty() {
            self.decisions.insert(id, Arc::new(decisions));
        }
    }

    /// Something that is known although nothing refers to it, which `apply` never leaves behind.
    pub(crate) fn unused(&self) -> Option<String> {
        let revision =
            self.revisions.iter().find(|(_, e)| e.refs == 0).map(|(id, _)| format!("revision {id}"));
        let unused = |handle: &u32| self.services.get(*handle).is_none_or(ServiceEntry::is_unused);
        let service =
            self.service_handles.iter().find(|(_, h)| unused(h)).map(|(id, _)| format!("service {id}"));
        let node = self
            .node_handles
            .iter()
            .find(|(_, h)| self.node_is_unused(**h))
            .map(|(id, _)| format!("node {id}"));
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

#[cfg(all(test, debug_assertions))]
mod tests {
    use model::{JobId, Labels, Meta, Mode, NamespaceId, Steering, UpdatePolicy};

    use super::*;
    use crate::objects_read;

    fn service(n: u128, mode: Mode) -> Service {
        Service {
            id: ServiceId::from_u128(n),
            meta: Meta::default(),
            namespace: NamespaceId::DEFAULT,
            job: None::<JobId>,
            name: format!("service-{n}").into(),
            labels: Labels::new(),
            mode,
            update: UpdatePolicy::default(),
            rollback: UpdatePolicy::default(),
            revision: RevisionId::from_u128(n),
            previous: None,
            update_status: None,
            priority: 50,
            steering: Steering::default(),
            disruption: Default::default(),
        }
    }

    #[test]
    fn finding_global_services_costs_nothing_for_the_others() {
        let mut reads = Vec::new();
        for others in [0, 10, 10_000] {
            let mut tables = Tables::new();
            for n in 0..others {
                let other = service(n, Mode::Replicated { replicas: 1 });
                tables.set_service(other.id, Some(Arc::new(other)));
            }
            for (n, mode) in [(u128::MAX, Mode::GlobalBatch), (5_000_000, Mode::Global)] {
                let global = service(n, mode);
                tables.set_service(global.id, Some(Arc::new(global)));
            }
            let before = objects_read();
            assert_eq!(
                tables.global_services().map(|s| s.mode).collect::<Vec<_>>(),
                [Mode::Global, Mode::GlobalBatch]
            );
            reads.push(objects_read() - before);
        }
        assert_eq!(reads, [2, 2, 2], "one for each global service");
    }
}
