//! The end of a change set: everything put back, or indexes moved and events made.

use std::sync::Arc;

use model::{Decision, NodeId, Rule, ServiceId, Task, TaskId, limits};

use super::journal::Before;
use super::{Tx, clip, wrong};
use crate::{Action, Event, EventId, Object, ObjectId, Refused, Table};

impl Tx<'_> {
    /// A revision made here must be referred to by now.
    pub(super) fn check_revisions(&self) -> Result<(), Refused> {
        let unused = |id: &&_| self.tables.revisions.get(*id).is_none_or(|entry| entry.refs == 0);
        match self.journal.made.iter().find(unused) {
            Some(id) => Err(wrong(ObjectId::Revision(*id), "no service or task refers to it")),
            None => Ok(()),
        }
    }

    /// Puts everything back.
    pub(super) fn undo(self) {
        for before in self.journal.touched.into_iter().rev() {
            match before {
                Before::Cluster(old) => self.tables.set_cluster(old),
                Before::Namespace(id, old) => self.tables.set_namespace(id, old),
                Before::Node(id, old) => {
                    self.tables.set_node(id, old);
                    self.tables.forget_node(id);
                }
                Before::Job(id, old) => self.tables.set_job(id, old),
                Before::Service(id, old) => {
                    self.tables.set_service(id, old);
                    self.tables.forget_service(id);
                }
                Before::Task(id, old) => {
                    let now = self.tables.task(id).cloned();
                    self.tables.set_task(id, old);
                    if let Some(task) = now {
                        self.tables.forget_service(task.service);
                        if let Some(node) = task.node {
                            self.tables.forget_node(node);
                        }
                    }
                }
            }
        }
        for id in self.journal.made {
            self.tables.remove_revision(id);
        }
    }

    /// Makes it final: keeps decisions, drops what nothing refers to, moves indexes, and says what happened.
    pub(super) fn commit(mut self, mut events: Option<&mut Vec<Event>>) {
        for before in std::mem::take(&mut self.journal.touched) {
            if let Some((action, object)) = self.settle(before)
                && let Some(events) = events.as_deref_mut()
            {
                let ordinal = u32::try_from(events.len()).unwrap_or(u32::MAX);
                let id = EventId { index: self.version, ordinal };
                events.push(Event { id, at: self.time, action, object });
            }
        }
        for (service, decision) in std::mem::take(&mut self.journal.decisions) {
            self.keep_decision(service, decision);
        }
        for id in std::mem::take(&mut self.journal.released) {
            if self.tables.revisions.get(&id).is_some_and(|entry| entry.refs == 0) {
                self.tables.remove_revision(id);
            }
        }
    }

    fn settle(&mut self, before: Before) -> Option<(Action, Object)> {
        match before {
            Before::Cluster(old) => {
                let new = self.tables.cluster().cloned();
                self.happened(Table::Cluster, old, new, Object::Cluster)
            }
            Before::Namespace(id, old) => {
                let new = self.tables.namespace(id).cloned();
                self.happened(Table::Namespaces, old, new, Object::Namespace)
            }
            Before::Node(id, old) => {
                let new = self.tables.node(id).cloned();
                let event = self.happened(Table::Nodes, old, new, Object::Node);
                self.tables.forget_node(id);
                event
            }
            Before::Job(id, old) => {
                let new = self.tables.job(id).cloned();
                self.happened(Table::Jobs, old, new, Object::Job)
            }
            Before::Service(id, old) => {
                let new = self.tables.service(id).cloned();
                let event = self.happened(Table::Services, old, new, Object::Service);
                if event.is_some() {
                    self.move_service_index(id);
                }
                self.tables.forget_service(id);
                event
            }
            Before::Task(id, old) => self.settle_task(id, old),
        }
    }

    fn settle_task(&mut self, id: TaskId, old: Option<Arc<Task>>) -> Option<(Action, Object)> {
        let new = self.tables.task(id).cloned();
        let directed = new.as_ref().is_none_or(|task| task.directed == self.version);
        let nodes = [old.as_ref().and_then(|t| t.node), new.as_ref().and_then(|t| t.node)];
        let service = old.as_ref().or(new.as_ref()).map(|t| t.service);
        let event = self.happened(Table::Tasks, old, new, Object::Task);
        if event.is_some() {
            if let Some(service) = service {
                self.move_service_index(service);
            }
            for node in nodes.into_iter().flatten() {
                if directed {
                    self.move_node_index(node);
                }
            }
        }
        if let Some(service) = service {
            self.tables.forget_service(service);
        }
        for node in nodes.into_iter().flatten() {
            self.tables.forget_node(node);
        }
        event
    }

    /// What became of one object, all changes of the set taken together; `None` when it is as it was.
    fn happened<T: PartialEq>(
        &mut self,
        table: Table,
        old: Option<Arc<T>>,
        new: Option<Arc<T>>,
        object: fn(Arc<T>) -> Object,
    ) -> Option<(Action, Object)> {
        let event = match (old, new) {
            (None, None) => return None,
            (None, Some(new)) => (Action::Created, object(new)),
            (Some(old), None) => (Action::Deleted, object(old)),
            (Some(old), Some(new)) if Arc::ptr_eq(&old, &new) => return None,
            (Some(_), Some(new)) => (Action::Updated, object(new)),
        };
        self.tables.table_index[table as usize] = self.version;
        Some(event)
    }

    fn move_service_index(&mut self, id: ServiceId) {
        let handle = self.tables.service_handles.get(&id).copied();
        if let Some(entry) = handle.and_then(|handle| self.tables.services.get_mut(handle)) {
            entry.index = self.version;
        }
    }

    fn move_node_index(&mut self, id: NodeId) {
        let handle = self.tables.node_handles.get(&id).copied();
        if let Some(entry) = handle.and_then(|handle| self.tables.nodes.get_mut(handle)) {
            entry.tasks_index = self.version;
        }
    }

    /// Takes down a decision; passed over when its service is gone.
    pub(super) fn decide(&mut self, service: ServiceId, rule: Rule, task: Option<TaskId>, text: &Arc<str>) {
        if self.tables.service(service).is_some() {
            let decision = Decision { index: self.version, at: self.time, rule, task, text: clip(text) };
            self.journal.decisions.push((service, decision));
        }
    }

    fn keep_decision(&mut self, id: ServiceId, decision: Decision) {
        let handle = self.tables.service_handles.get(&id).copied();
        let Some(entry) = handle.and_then(|handle| self.tables.services.get_mut(handle)) else { return };
        if entry.service.is_none() {
            return;
        }
        let kept = Arc::make_mut(&mut entry.decisions);
        if kept.len() >= limits::DECISIONS_KEPT {
            kept.drain(..=kept.len() - limits::DECISIONS_KEPT);
        }
        kept.push(decision);
    }
}
