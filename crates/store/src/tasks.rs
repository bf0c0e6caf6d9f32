//! How tasks are read: one by one, and in the orders that the control plane works in.

use std::iter::Peekable;
use std::ops::RangeInclusive;
use std::sync::Arc;

use model::{Id, Index, NodeId, RevisionId, ServiceId, Slot, Task, TaskId, Time};

use crate::Tables;
use crate::slab::NONE;
use crate::tables::Waiting;

impl Tables {
    /// A task.
    pub fn task(&self, id: TaskId) -> Option<&Arc<Task>> {
        self.task_at(self.task_handle(id)?)
    }

    pub(crate) fn task_handle(&self, id: TaskId) -> Option<u32> {
        self.task_handles.get(id.0)
    }

    /// A task with its handle.
    pub(crate) fn find_task(&self, id: TaskId) -> Option<(u32, &Task)> {
        let handle = self.task_handle(id)?;
        Some((handle, self.task_at(handle)?))
    }

    pub(crate) fn task_at(&self, handle: u32) -> Option<&Arc<Task>> {
        self.tasks.get(handle).map(|entry| &entry.task)
    }

    /// Every task, by id.
    pub fn tasks(&self) -> impl Iterator<Item = &Arc<Task>> {
        self.task_handles.values().filter_map(|handle| self.task_at(handle))
    }

    /// The tasks whose id is in a range, by id.
    pub fn tasks_in_prefix(&self, range: RangeInclusive<Id>) -> impl Iterator<Item = &Arc<Task>> {
        self.task_handles.range(range).filter_map(|handle| self.task_at(handle))
    }

    /// The tasks of a service, by slot, then the oldest first (by the index that made them, then by id).
    pub fn tasks_of_service(&self, service: ServiceId) -> impl Iterator<Item = &Arc<Task>> {
        let of = self.service_handles.get(&service).copied().unwrap_or(NONE);
        self.numbered(of, 0..=u32::MAX).chain(self.on_nodes(of, FIRST_NODE..=LAST_NODE))
    }

    /// The tasks of a slot, the oldest first (by the index that made them, then by id).
    pub fn tasks_of_slot(&self, service: ServiceId, slot: Slot) -> impl Iterator<Item = &Arc<Task>> {
        let of = self.service_handles.get(&service).copied().unwrap_or(NONE);
        let numbered = match slot {
            Slot::Number(n) => Some(self.numbered(of, n..=n)),
            Slot::Node(_) => None,
        };
        let on_node = match slot {
            Slot::Node(node) => Some(self.on_nodes(of, node..=node)),
            Slot::Number(_) => None,
        };
        numbered.into_iter().flatten().chain(on_node.into_iter().flatten())
    }

    /// The tasks of this slot and of every one after it in the order of slots (numbers first, then nodes), each slot's oldest
    /// first.
    pub fn tasks_from_slot(&self, service: ServiceId, slot: Slot) -> impl Iterator<Item = &Arc<Task>> {
        let of = self.service_handles.get(&service).copied().unwrap_or(NONE);
        let (numbered, first) = match slot {
            Slot::Number(n) => (Some(self.numbered(of, n..=u32::MAX)), FIRST_NODE),
            Slot::Node(node) => (None, node),
        };
        numbered.into_iter().flatten().chain(self.on_nodes(of, first..=LAST_NODE))
    }

    pub(crate) fn numbered(
        &self,
        service: u32,
        slots: RangeInclusive<u32>,
    ) -> impl Iterator<Item = &Arc<Task>> {
        let range = (service, *slots.start(), 0)..=(service, *slots.end(), u32::MAX);
        InSlots::new(self, self.by_number.range(range).map(|(_, slot, task)| (*slot, *task)))
    }

    pub(crate) fn on_nodes(
        &self,
        service: u32,
        slots: RangeInclusive<NodeId>,
    ) -> impl Iterator<Item = &Arc<Task>> {
        let range = (service, *slots.start(), 0)..=(service, *slots.end(), u32::MAX);
        InSlots::new(self, self.by_node_slot.range(range).map(|(_, slot, task)| (*slot, *task)))
    }

    /// The tasks that name a node, by id: those that hold it, those that have ended there, and those that were made
    /// for it and wait.
    pub fn tasks_of_node(&self, node: NodeId) -> impl Iterator<Item = &Arc<Task>> {
        let of = self.node_handles.get(&node).copied().unwrap_or(NONE);
        let range = (of, FIRST_TASK, 0)..=(of, LAST_TASK, u32::MAX);
        self.by_node.range(range).filter_map(|(_, _, handle)| self.task_at(*handle))
    }

    /// The tasks that wait for a node ([`Task::waits_for_node`]), by service and revision, then the oldest first (by the
    /// index that made them), then by slot and id.
    pub fn tasks_waiting(&self) -> impl Iterator<Item = &Arc<Task>> {
        self.waiting.values().flat_map(|waiting| self.in_waiting(waiting))
    }

    /// The groups of equal tasks that wait for a node, by service and revision, each with the index that made its oldest
    /// task. Costs O(log tasks) a group, however many tasks it has.
    pub fn waiting_groups(&self) -> impl Iterator<Item = (ServiceId, RevisionId, Index)> + '_ {
        self.waiting.iter().filter_map(|((service, revision), waiting)| {
            let oldest = [
                waiting.numbered.get_min().map(|(made, ..)| *made),
                waiting.on_nodes.get_min().map(|(made, ..)| *made),
            ];
            Some((*service, *revision, oldest.into_iter().flatten().min()?))
        })
    }

    /// The tasks of a service and a revision that wait for a node, the oldest first, then by slot and id.
    pub fn tasks_waiting_of(
        &self,
        service: ServiceId,
        revision: RevisionId,
    ) -> impl Iterator<Item = &Arc<Task>> {
        self.waiting.get(&(service, revision)).into_iter().flat_map(|waiting| self.in_waiting(waiting))
    }

    /// The tasks of a service and a revision that wait for a node and are in numbered slots, the newest first, then from the
    /// highest slot down. Costs what is taken of it.
    pub fn newest_waiting_of(
        &self,
        service: ServiceId,
        revision: RevisionId,
    ) -> impl Iterator<Item = &Arc<Task>> {
        let waiting = self.waiting.get(&(service, revision)).into_iter();
        let newest_first = waiting.flat_map(|waiting| waiting.numbered.iter().rev());
        newest_first.filter_map(|(_, _, handle)| self.task_at(*handle))
    }

    /// How many tasks of a service and a revision wait for a node, with the first and the last of them in the order of
    /// [`tasks_waiting_of`](Self::tasks_waiting_of), up to the order of those that share a slot; `None` when one of them
    /// is in the slot of a node. Costs O(log tasks).
    pub fn waiting_ends(
        &self,
        service: ServiceId,
        revision: RevisionId,
    ) -> Option<(usize, &Arc<Task>, &Arc<Task>)> {
        let waiting = self.waiting.get(&(service, revision)).filter(|waiting| waiting.on_nodes.is_empty())?;
        let (_, _, first) = waiting.numbered.get_min()?;
        let (_, _, last) = waiting.numbered.get_max()?;
        Some((waiting.numbered.len(), self.task_at(*first)?, self.task_at(*last)?))
    }

    fn in_waiting<'a>(&'a self, waiting: &'a Waiting) -> impl Iterator<Item = &'a Arc<Task>> + use<'a> {
        let numbered = waiting.numbered.iter().map(|(made, slot, task)| ((*made, *slot), *task));
        let on_nodes = waiting.on_nodes.iter().map(|(made, slot, task)| ((*made, *slot), *task));
        let mut numbered = InSlots::new(self, numbered).peekable();
        let mut on_nodes = InSlots::new(self, on_nodes).peekable();
        // Of the same age, numbers come before nodes, as in the order of slots.
        std::iter::from_fn(move || match (numbered.peek(), on_nodes.peek()) {
            (Some(a), Some(b)) if b.created < a.created => on_nodes.next(),
            (Some(_), _) => numbered.next(),
            (None, _) => on_nodes.next(),
        })
    }

    /// The tasks of a service that fill a slot and shall leave their node, by slot, then by id.
    pub fn tasks_leaving(&self, service: ServiceId) -> impl Iterator<Item = &Arc<Task>> {
        let range = (service, 0, FIRST_TASK)..=(service, u32::MAX, LAST_TASK);
        self.leaving.range(range).filter_map(|(_, _, id)| self.task(*id))
    }

    /// The tasks of the cluster that fill a slot and shall leave their node, by service, then by slot, then by id.
    pub fn all_tasks_leaving(&self) -> impl Iterator<Item = &Arc<Task>> {
        self.leaving.iter().filter_map(|(_, _, id)| self.task(*id))
    }

    /// True while any task of the cluster shall leave its node.
    pub fn is_anything_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// The tasks that are desired `Ready` until a moment and have not ended, the earliest moment first, then by id.
    pub fn tasks_delayed(&self) -> impl Iterator<Item = (Time, TaskId)> + '_ {
        self.delayed.iter().copied()
    }
}

pub(crate) const FIRST_NODE: NodeId = NodeId::from_u128(0);
pub(crate) const LAST_NODE: NodeId = NodeId::from_u128(u128::MAX);
const FIRST_TASK: TaskId = TaskId::from_u128(0);
const LAST_TASK: TaskId = TaskId::from_u128(u128::MAX);

/// Tasks by slot, and within a slot the oldest first, then by id. An index has them by slot and handle, which says nothing of
/// either: the few that share a slot are sorted when they are read.
struct InSlots<'a, S, I: Iterator<Item = (S, u32)>> {
    tables: &'a Tables,
    index: Peekable<I>,
    /// The rest of the slot that is being read, the next one last.
    slot: Vec<&'a Arc<Task>>,
}

impl<'a, S, I: Iterator<Item = (S, u32)>> InSlots<'a, S, I> {
    fn new(tables: &'a Tables, index: I) -> Self {
        Self { tables, index: index.peekable(), slot: Vec::new() }
    }
}

impl<'a, S: PartialEq, I: Iterator<Item = (S, u32)>> Iterator for InSlots<'a, S, I> {
    type Item = &'a Arc<Task>;

    fn next(&mut self) -> Option<&'a Arc<Task>> {
        if let Some(task) = self.slot.pop() {
            return Some(task);
        }
        let (slot, first) = self.index.next()?;
        let first = self.tables.task_at(first)?;
        if self.index.peek().is_none_or(|(other, _)| *other != slot) {
            return Some(first);
        }
        self.slot.push(first);
        while let Some((_, handle)) = self.index.next_if(|(other, _)| *other == slot) {
            self.slot.extend(self.tables.task_at(handle));
        }
        self.slot.sort_by_key(|task| std::cmp::Reverse((task.created, task.id)));
        self.slot.pop()
    }
}
