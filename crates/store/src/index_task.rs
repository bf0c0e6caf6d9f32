//! How tasks are written, with every index and derived table that follows from them. As in `index`, nothing is checked here, and
//! whatever was done can be undone by the opposite, in any order.

use std::sync::Arc;

use model::{Desired, Resources, ServiceId, Slot, Task, TaskId, TaskState, Time};

use crate::ServiceUse;
use crate::rollout::Stand;
use crate::slab::NONE;
use crate::tables::{Tables, TaskEntry};

impl Tables {
    /// Puts a task in place of whatever is under its id.
    pub(crate) fn set_task(&mut self, id: TaskId, new: Option<Arc<Task>>) {
        match (self.task_handle(id), new) {
            (None, None) => {}
            (None, Some(new)) => {
                self.insert_task(new);
            }
            (Some(handle), Some(new)) if self.is_same_task(handle, &new) => {
                self.replace_task(handle, new);
            }
            (Some(handle), Some(new)) => {
                self.remove_task(handle);
                self.insert_task(new);
            }
            (Some(handle), None) => {
                self.remove_task(handle);
            }
        }
    }

    /// True when a task is the one under a handle, changed perhaps, and not one that was made anew under the same id.
    fn is_same_task(&self, handle: u32, task: &Task) -> bool {
        let fixed = |t: &Task| (t.created, t.service, t.slot, t.revision);
        self.tasks.get(handle).is_some_and(|entry| fixed(&entry.task) == fixed(task))
    }

    /// A task under an id that nothing has; answers its handle.
    pub(crate) fn insert_task(&mut self, task: Arc<Task>) -> u32 {
        let handle = self.place_task(task);
        self.index_in_service(handle);
        self.index_on_node(handle);
        handle
    }

    /// The first part of [`insert_task`](Self::insert_task): the task itself. Whoever has many to insert does each part for all
    /// of them, in an order in which neighbours are close in memory.
    pub(crate) fn place_task(&mut self, task: Arc<Task>) -> u32 {
        let id = task.id;
        let service = self.service_handle(task.service);
        let node = task.node.map_or(NONE, |node| self.node_handle(node));
        self.hold_revision(task.revision);
        let handle = self.tasks.insert(TaskEntry { task, service, node });
        self.task_handles.insert(id.0, handle);
        handle
    }

    /// The second part: what is known by service, and what waits.
    pub(crate) fn index_in_service(&mut self, handle: u32) {
        let Some(TaskEntry { task, service, .. }) = self.tasks.get(handle).cloned() else { return };
        let stood = self.stand(service, task.slot);
        match task.slot {
            Slot::Number(n) => self.by_number.insert((service, n, handle)).is_some(),
            Slot::Node(node) => self.by_node_slot.insert((service, node, handle)).is_some(),
        };
        self.index_waits(None, Some(&task), handle);
        self.with_service_use(service, |used| used.count(&task));
        self.keep_stand(service, task.slot, stood);
        self.keep_rollout(service);
    }

    /// The third part: what is known by node.
    pub(crate) fn index_on_node(&mut self, handle: u32) {
        let Some(TaskEntry { task, node, .. }) = self.tasks.get(handle).cloned() else { return };
        self.name_node(node, &task, handle);
        self.index_failure(None, Some(&task), node, handle);
        if task.holds_reservation() {
            self.reserve(node, &task, true);
        }
    }

    /// The same task, changed; answers what it was. Its service, slot, revision and `created` never change.
    pub(crate) fn replace_task(&mut self, handle: u32, new: Arc<Task>) -> Option<Arc<Task>> {
        let stood = self.stand_of(handle);
        let entry = self.tasks.get_mut(handle)?;
        let (service, was_on) = (entry.service, entry.node);
        let old = std::mem::replace(&mut entry.task, Arc::clone(&new));
        let node = if new.node == old.node { was_on } else { self.move_task(handle, &new) };
        if was_on != node {
            self.unname_node(was_on, &old, handle);
            self.name_node(node, &new, handle);
        }
        self.index_waits(Some(&old), Some(&new), handle);
        self.index_failure(Some((&old, was_on)), Some(&new), node, handle);
        match (old.holds_reservation(), new.holds_reservation()) {
            (false, true) => self.reserve(node, &new, true),
            (true, false) => self.reserve(was_on, &old, false),
            (true, true) if old.desired.is_wanted() != new.desired.is_wanted() => {
                if let Some(entry) = self.nodes.get_mut(node) {
                    Arc::make_mut(&mut entry.used).want(new.service, new.desired.is_wanted());
                }
            }
            _ => {}
        }
        if old.fills_slot() == new.fills_slot() {
            self.with_service_use(service, |used| used.recount(&old, &new));
            self.keep_stand(service, new.slot, stood);
        } else {
            self.with_service_use(service, |used| {
                used.uncount(&old);
                used.count(&new);
            });
            self.keep_stand(service, new.slot, stood);
            self.keep_rollout(service);
        }
        Some(old)
    }

    /// Forgets a task; answers what it was. What is known of its service and node stays; see `forget_service` and
    /// `forget_node`.
    pub(crate) fn remove_task(&mut self, handle: u32) -> Option<Arc<Task>> {
        let stood = self.stand_of(handle);
        let TaskEntry { task, service, node } = self.tasks.remove(handle)?;
        self.task_handles.remove(task.id.0);
        match task.slot {
            Slot::Number(n) => self.by_number.remove(&(service, n, handle)).is_some(),
            Slot::Node(node) => self.by_node_slot.remove(&(service, node, handle)).is_some(),
        };
        self.release_revision(task.revision);
        self.unname_node(node, &task, handle);
        self.index_waits(Some(&task), None, handle);
        self.index_failure(Some((&task, node)), None, node, handle);
        if task.holds_reservation() {
            self.reserve(node, &task, false);
        }
        self.with_service_use(service, |used| used.uncount(&task));
        self.keep_stand(service, task.slot, stood);
        self.keep_rollout(service);
        Some(task)
    }

    /// Where the slot of a task stands, if that is kept.
    fn stand_of(&self, handle: u32) -> Option<Stand> {
        if self.rollouts.is_empty() {
            return None;
        }
        let entry = self.tasks.get(handle)?;
        self.stand(entry.service, entry.task.slot)
    }

    /// Notes the handle of a task's node beside the task; answers it.
    fn move_task(&mut self, handle: u32, task: &Task) -> u32 {
        let node = task.node.map_or(NONE, |node| self.node_handle(node));
        if let Some(entry) = self.tasks.get_mut(handle) {
            entry.node = node;
        }
        node
    }

    fn with_service_use(&mut self, service: u32, change: impl FnOnce(&mut ServiceUse)) {
        if let Some(entry) = self.services.get_mut(service) {
            change(Arc::make_mut(&mut entry.used));
        }
    }

    /// A task begins to name a node.
    fn name_node(&mut self, node: u32, task: &Task, handle: u32) {
        if let Some(marks) = self.node_marks.get_mut(node) {
            marks.tasks += 1;
            self.by_node.insert((node, task.id, handle));
        }
    }

    /// A task names a node no longer.
    fn unname_node(&mut self, node: u32, task: &Task, handle: u32) {
        if let Some(marks) = self.node_marks.get_mut(node) {
            marks.tasks -= 1;
            self.by_node.remove(&(node, task.id, handle));
        }
    }

    /// Keeps the indexes of what waits for a node, for a moment or to leave its node.
    fn index_waits(&mut self, old: Option<&Task>, new: Option<&Task>, handle: u32) {
        let waits = |task: Option<&Task>| task.is_some_and(Task::waits_for_node);
        match (waits(old), waits(new)) {
            (false, true) => new.into_iter().for_each(|task| self.begin_to_wait(task, handle)),
            (true, false) => old.into_iter().for_each(|task| self.cease_to_wait(task, handle)),
            _ => {}
        }
        let (left, leaves) = (old.and_then(leaving), new.and_then(leaving));
        if left != leaves {
            if let Some(key) = left {
                self.leaving.remove(&key);
            }
            if let Some(key) = leaves {
                self.leaving.insert(key);
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

    /// Keeps the index of failures.
    fn index_failure(&mut self, old: Option<(&Task, u32)>, new: Option<&Task>, node: u32, handle: u32) {
        if let Some((old, node)) = old.filter(|(task, _)| failed(task)) {
            self.failed.remove(&(old.revision, node, old.status.applied_at, handle));
        }
        if let Some(new) = new.filter(|task| failed(task)) {
            self.failed.insert((new.revision, node, new.status.applied_at, handle));
        }
    }

    fn begin_to_wait(&mut self, task: &Task, handle: u32) {
        let group = self.waiting.entry((task.service, task.revision)).or_default();
        match task.slot {
            Slot::Number(n) => group.numbered.insert((task.created, n, handle)).is_some(),
            Slot::Node(node) => group.on_nodes.insert((task.created, node, handle)).is_some(),
        };
    }

    fn cease_to_wait(&mut self, task: &Task, handle: u32) {
        let key = (task.service, task.revision);
        let Some(group) = self.waiting.get_mut(&key) else { return };
        match task.slot {
            Slot::Number(n) => group.numbered.remove(&(task.created, n, handle)).is_some(),
            Slot::Node(node) => group.on_nodes.remove(&(task.created, node, handle)).is_some(),
        };
        if group.numbered.is_empty() && group.on_nodes.is_empty() {
            self.waiting.remove(&key);
        }
    }

    /// A task takes what it holds of its node, or gives it back. Node, ports and revision of a task that holds one never
    /// change, so that what it uses of volumes is what its revision says.
    fn reserve(&mut self, node: u32, task: &Task, takes: bool) {
        let needs = self.revisions.get(&task.revision);
        let none = Resources::default();
        let (reservation, mounts) = match needs {
            Some(needs) => (&*needs.reservation, needs.revision.task.mounts.as_slice()),
            None => (&none, &[][..]),
        };
        let Some(entry) = self.nodes.get_mut(node) else { return };
        let before = entry.used.active();
        let used = Arc::make_mut(&mut entry.used);
        if takes {
            used.take(task, reservation, mounts);
        } else {
            used.give_back(task, reservation, !mounts.is_empty());
        }
        if entry.node.is_some() {
            let (id, after) = (entry.id, used.active());
            self.by_load.remove(&(before, id));
            self.by_load.insert((after, id), node);
        }
    }
}

/// True for a task that failed where the scheduler had put it.
fn failed(task: &Task) -> bool {
    let failed = matches!(task.status.state, TaskState::Failed | TaskState::Rejected);
    failed && task.node.is_some() && matches!(task.slot, Slot::Number(_))
}

/// Where a task that shall leave its node is listed.
fn leaving(task: &Task) -> Option<(ServiceId, u32, TaskId)> {
    match task.slot {
        Slot::Number(n) if task.leave.is_some() && task.fills_slot() => Some((task.service, n, task.id)),
        _ => None,
    }
}

/// When a task that waits for a moment shall run.
fn delayed_until(task: Option<&Task>) -> Option<(Time, TaskId)> {
    let task = task.filter(|t| t.desired == Desired::Ready && !t.status.state.is_ended())?;
    Some((task.start_after?, task.id))
}
