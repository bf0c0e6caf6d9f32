//! The end of a change set: everything put back, or indexes moved and events made.

use std::sync::Arc;

use model::{Decision, NodeId, Rule, ServiceId, Task, TaskId, limits};

use super::journal::Before;
use super::{Tx, clip, wrong};
use crate::{Action, Event, EventId, Object, ObjectId, Refused, Table};

/// What became of an object, the object, and what it was before when it was changed.
type Happened = (Action, Object, Option<Object>);

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
    pub(super) fn undo(&mut self) {
        while let Some(before) = self.journal.touched.pop() {
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
                Before::Task(id, _, old) => {
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
        while let Some(id) = self.journal.made.pop() {
            self.tables.remove_revision(id);
        }
    }

    /// Makes it final: keeps decisions, drops what nothing refers to, moves indexes, and says what happened.
    pub(super) fn commit(&mut self, mut events: Option<&mut Vec<Event>>) {
        let mut touched = std::mem::take(&mut self.journal.touched);
        for before in touched.drain(..) {
            if let Some((action, object, before)) = self.settle(before)
                && let Some(events) = events.as_deref_mut()
            {
                let ordinal = u32::try_from(events.len()).unwrap_or(u32::MAX);
                let id = EventId { index: self.version, ordinal };
                events.push(Event { id, at: self.time, action, object, before });
            }
        }
        self.journal.touched = touched;
        for (service, decision) in std::mem::take(&mut self.journal.decisions) {
            self.keep_decision(service, decision);
        }
        while let Some(id) = self.journal.released.pop() {
            if self.tables.revisions.get(&id).is_some_and(|entry| entry.refs == 0) {
                self.tables.remove_revision(id);
            }
        }
    }

    fn settle(&mut self, before: Before) -> Option<Happened> {
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
            Before::Task(id, handle, old) => self.settle_task(id, handle, old),
        }
    }

    fn settle_task(&mut self, id: TaskId, handle: u32, old: Option<Arc<Task>>) -> Option<Happened> {
        let Some((new, service, node)) = self.task_now(id, handle) else {
            // It is gone: its service and node may be unknown from now on.
            let (service, node) = old.as_ref().map(|task| (task.service, task.node))?;
            let event = self.happened(Table::Tasks, old, None, Object::Task);
            self.move_service_index(service);
            self.tables.forget_service(service);
            if let Some(node) = node {
                self.move_node_index(node);
                self.tables.forget_node(node);
            }
            return event;
        };
        let directed = new.directed == self.version;
        let event = self.happened(Table::Tasks, old, Some(new), Object::Task)?;
        if let Some(entry) = self.tables.services.get_mut(service) {
            entry.index = self.version;
        }
        if directed && let Some(marks) = self.tables.node_marks.get_mut(node) {
            marks.tasks_index = self.version;
        }
        Some(event)
    }

    /// A touched task as it now is, with the handles of its service and node.
    fn task_now(&self, id: TaskId, handle: u32) -> Option<(Arc<Task>, u32, u32)> {
        // The handle is another's by now when the task was removed, and made again perhaps.
        let entry = match self.tables.tasks.get(handle).filter(|entry| entry.task.id == id) {
            Some(entry) => entry,
            None => self.tables.tasks.get(self.tables.task_handle(id)?)?,
        };
        Some((Arc::clone(&entry.task), entry.service, entry.node))
    }

    /// What became of one object, all changes of the set taken together; `None` when it is as it was.
    fn happened<T: PartialEq>(
        &mut self,
        table: Table,
        old: Option<Arc<T>>,
        new: Option<Arc<T>>,
        object: fn(Arc<T>) -> Object,
    ) -> Option<Happened> {
        let event = match (old, new) {
            (None, None) => return None,
            (None, Some(new)) => (Action::Created, object(new), None),
            (Some(old), None) => (Action::Deleted, object(old), None),
            (Some(old), Some(new)) if Arc::ptr_eq(&old, &new) => return None,
            (Some(old), Some(new)) => (Action::Updated, object(new), Some(object(old))),
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
        if let Some(marks) = handle.and_then(|handle| self.tables.node_marks.get_mut(handle)) {
            marks.tasks_index = self.version;
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
        if self.tables.service(id).is_none() {
            return;
        }
        let kept = Arc::make_mut(self.tables.decisions.entry(id).or_default());
        if kept.len() >= limits::DECISIONS_KEPT {
            kept.drain(..=kept.len() - limits::DECISIONS_KEPT);
        }
        kept.push(decision);
    }
}
