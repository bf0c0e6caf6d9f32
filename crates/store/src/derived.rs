//! Derived tables: what each node holds and what each service has, kept up to date by every change of a task.
//! They are functions of the tasks and revisions, are in no log and no snapshot, and are never written from outside.

use std::sync::{Arc, LazyLock};

use imbl::{OrdMap, OrdSet};
use model::{
    BoundPort, NamedResource, NodeId, Protocol, Resources, RevisionId, ServiceId, Slot, Task, TaskId,
    TaskState,
};

use crate::slots::SlotSet;

/// What the tasks on one node hold of it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NodeUse {
    reserved: Resources,
    /// Sorted by protocol and port.
    ports: Vec<(Protocol, u16, TaskId)>,
    /// The named resources that are held, and by whom; sorted.
    named: Vec<(NamedResource, TaskId)>,
    by_service: OrdMap<ServiceId, u32>,
    active: u32,
}

static NO_NODE_USE: LazyLock<NodeUse> = LazyLock::new(NodeUse::default);
static NO_SERVICE_USE: LazyLock<ServiceUse> = LazyLock::new(ServiceUse::default);

impl NodeUse {
    /// The use of a node that holds nothing.
    pub(crate) fn none() -> &'static Self {
        &NO_NODE_USE
    }

    /// The sum of what the tasks that hold this node reserve.
    pub fn reserved(&self) -> &Resources {
        &self.reserved
    }

    /// The task that holds a host port here.
    pub fn port_holder(&self, protocol: Protocol, port: u16) -> Option<TaskId> {
        let at = self.port_place(protocol, port).ok()?;
        Some(self.ports[at].2)
    }

    /// The host ports that are held here, by protocol and number.
    pub fn ports(&self) -> impl Iterator<Item = (Protocol, u16, TaskId)> + '_ {
        self.ports.iter().copied()
    }

    /// The task that holds a named resource here.
    pub fn holder_of(&self, one: &NamedResource) -> Option<TaskId> {
        let at = self.named.binary_search_by(|(held, _)| held.cmp(one)).ok()?;
        Some(self.named[at].1)
    }

    /// The named resources that are held here, by kind and value.
    pub fn named(&self) -> impl Iterator<Item = (&NamedResource, TaskId)> + '_ {
        self.named.iter().map(|(one, task)| (one, *task))
    }

    /// How many tasks of the service hold a reservation here and are wanted: those that are on their way out don't
    /// count, because what replaces them is spread as if they were gone.
    pub fn tasks_of(&self, service: ServiceId) -> u32 {
        self.by_service.get(&service).copied().unwrap_or(0)
    }

    /// How many tasks hold a reservation here.
    pub fn active(&self) -> u32 {
        self.active
    }

    fn port_place(&self, protocol: Protocol, port: u16) -> Result<usize, usize> {
        self.ports.binary_search_by_key(&(protocol, port), |(protocol, port, _)| (*protocol, *port))
    }

    /// A task that holds a reservation begins to be wanted, or ceases to.
    pub(crate) fn want(&mut self, service: ServiceId, wanted: bool) {
        if wanted {
            *self.by_service.entry(service).or_insert(0) += 1;
            return;
        }
        match self.by_service.get_mut(&service) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.by_service.remove(&service);
            }
        }
    }

    /// A task takes its reservation.
    pub(crate) fn take(&mut self, task: &Task, reservation: &Resources) {
        self.reserved.add(reservation);
        self.active += 1;
        if task.desired.is_wanted() {
            self.want(task.service, true);
        }
        for BoundPort { protocol, port, .. } in &task.ports {
            match self.port_place(*protocol, *port) {
                Ok(at) => self.ports[at].2 = task.id,
                Err(at) => self.ports.insert(at, (*protocol, *port, task.id)),
            }
        }
        for one in &task.named {
            match self.named.binary_search_by(|(held, _)| held.cmp(one)) {
                Ok(at) => self.named[at].1 = task.id,
                Err(at) => self.named.insert(at, (one.clone(), task.id)),
            }
        }
    }

    /// A task gives its reservation back.
    pub(crate) fn give_back(&mut self, task: &Task, reservation: &Resources) {
        self.reserved.subtract(reservation);
        self.active -= 1;
        if task.desired.is_wanted() {
            self.want(task.service, false);
        }
        for BoundPort { protocol, port, .. } in &task.ports {
            if let Ok(at) = self.port_place(*protocol, *port)
                && self.ports[at].2 == task.id
            {
                self.ports.remove(at);
            }
        }
        if !task.named.is_empty() {
            self.named.retain(|(_, holder)| *holder != task.id);
        }
    }
}

/// What a service has: its tasks counted, and which slots they fill.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ServiceUse {
    /// By place in [`TaskState::ALL`].
    by_state: [u32; TaskState::ALL.len()],
    /// Tasks that fill a slot, by revision; sorted, without zeros.
    by_revision: Arc<Vec<(RevisionId, u32)>>,
    total: u32,
    running: u32,
    /// The numbered slots that are filled.
    slots: SlotSet,
    /// The slots of nodes that are filled.
    node_slots: OrdSet<NodeId>,
    /// The slots that more than one task fills, and how many more.
    more: OrdMap<Slot, u32>,
}

/// The place of a state in [`TaskState::ALL`].
fn place(state: TaskState) -> usize {
    TaskState::ALL.partition_point(|s| *s < state)
}

impl ServiceUse {
    /// The use of a service without tasks.
    pub(crate) fn none() -> &'static Self {
        &NO_SERVICE_USE
    }

    /// How many of its tasks are in this state.
    pub fn by_state(&self, state: TaskState) -> u32 {
        self.by_state[place(state)]
    }

    /// How many tasks of this revision fill a slot.
    pub fn by_revision(&self, revision: RevisionId) -> u32 {
        match self.by_revision.binary_search_by_key(&revision, |(id, _)| *id) {
            Ok(at) => self.by_revision[at].1,
            Err(_) => 0,
        }
    }

    /// How many tasks of other revisions fill a slot.
    pub fn by_other_revisions(&self, revision: RevisionId) -> u32 {
        self.by_revision.iter().filter(|(id, _)| *id != revision).map(|(_, count)| count).sum()
    }

    /// The revisions of the tasks that fill a slot, by id.
    pub fn revisions(&self) -> impl Iterator<Item = RevisionId> + '_ {
        self.by_revision.iter().map(|(id, _)| *id)
    }

    /// How many slots are filled by at least one task.
    pub fn filled(&self) -> u32 {
        self.slots.len() + self.node_slots.len() as u32
    }

    /// How many slots are filled by more than one task.
    pub fn doubled(&self) -> u32 {
        self.more.len() as u32
    }

    /// The slots that are filled by more than one task, in order.
    pub fn doubled_slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.more.keys().copied()
    }

    /// How many tasks it has in all, ended ones included.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// How many tasks run and are wanted.
    pub fn running(&self) -> u32 {
        self.running
    }

    /// The lowest numbered slot from `from` on that nothing fills.
    pub fn first_empty(&self, from: u32) -> u32 {
        self.slots.first_missing(from)
    }

    /// The highest numbered slot that something fills.
    pub fn highest_filled(&self) -> Option<u32> {
        self.slots.highest()
    }

    /// Counts a task as it now is.
    pub(crate) fn count(&mut self, task: &Task) {
        self.total += 1;
        self.by_state[place(task.status.state)] += 1;
        self.running += u32::from(runs(task));
        if !task.fills_slot() {
            return;
        }
        let by_revision = Arc::make_mut(&mut self.by_revision);
        match by_revision.binary_search_by_key(&task.revision, |(id, _)| *id) {
            Ok(at) => by_revision[at].1 += 1,
            Err(at) => by_revision.insert(at, (task.revision, 1)),
        }
        let first = match task.slot {
            Slot::Number(n) => self.slots.insert(n),
            Slot::Node(node) => self.node_slots.insert(node).is_none(),
        };
        if !first {
            *self.more.entry(task.slot).or_insert(0) += 1;
        }
    }

    /// Takes back what [`count`](Self::count) did for a task.
    pub(crate) fn uncount(&mut self, task: &Task) {
        self.total -= 1;
        self.by_state[place(task.status.state)] -= 1;
        self.running -= u32::from(runs(task));
        if !task.fills_slot() {
            return;
        }
        let by_revision = Arc::make_mut(&mut self.by_revision);
        if let Ok(at) = by_revision.binary_search_by_key(&task.revision, |(id, _)| *id) {
            by_revision[at].1 -= 1;
            if by_revision[at].1 == 0 {
                by_revision.remove(at);
            }
        }
        match self.more.get_mut(&task.slot) {
            Some(1) => {
                self.more.remove(&task.slot);
            }
            Some(more) => *more -= 1,
            None => match task.slot {
                Slot::Number(n) => self.slots.remove(n),
                Slot::Node(node) => {
                    self.node_slots.remove(&node);
                }
            },
        }
    }

    /// Moves a task that fills its slot before and after, or neither, from one state to another.
    pub(crate) fn recount(&mut self, old: &Task, new: &Task) {
        self.by_state[place(old.status.state)] -= 1;
        self.by_state[place(new.status.state)] += 1;
        self.running -= u32::from(runs(old));
        self.running += u32::from(runs(new));
    }
}

/// True when a task runs and is wanted.
fn runs(task: &Task) -> bool {
    task.status.state == TaskState::Running && task.desired.is_wanted()
}
