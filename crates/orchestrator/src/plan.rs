//! What a reconciler is given besides the snapshot, what it returns, and how a plan grows under its limit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{
    Desired, Id, Leave, NodeId, RevisionId, Rule, Service, ServiceId, Slot, Task, TaskId, Time, UpdateState,
};
use store::{Change, ChangeSet, ObjectId, Tables};

/// So many objects one plan makes, changes or deletes; the slot at which it gets there is still finished.
/// The key of such a plan is reconciled again once the plan is applied. Large enough that a log entry costs
/// little a task, small enough that no other key waits long.
pub const PLAN_OBJECTS: usize = 500;

/// What a reconciler may use besides the snapshot: a clock that stands still, and fresh identities.
pub struct Cx<'a> {
    /// The time of this decision. One that is behind the log's clock counts as the log's clock.
    pub now: Time,
    /// Makes an id that nothing has yet.
    pub new_id: &'a mut dyn FnMut() -> Id,
}

/// A decision as data.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Plan {
    /// What to change; empty when everything is as it shall be.
    pub set: ChangeSet,
    /// When the same key must be looked at again although nothing has happened. Takes the place of what the
    /// key's last plan said.
    pub wake_at: Option<Time>,
    /// True when the limit ended the plan: the same key must be looked at again once it is applied.
    pub more: bool,
}

impl Plan {
    /// True when nothing is to be done now.
    pub fn is_quiet(&self) -> bool {
        self.set.changes.is_empty() && !self.more
    }
}

/// A plan that is being made.
///
/// Notes about the same thing become one sentence with a count. What a crash loop says again and again is
/// written each time: the store keeps the last of them with a count, so that the loop does not become the
/// only thing in the few decisions that are kept.
/// A plan of notes alone is never made, so that the plan for a settled cluster is empty.
pub(crate) struct Draft<'a, 'c> {
    pub(crate) view: &'a Tables,
    pub(crate) now: Time,
    new_id: &'c mut dyn FnMut() -> Id,
    set: ChangeSet,
    objects: usize,
    wake_at: Option<Time>,
    more: bool,
    notes: Vec<Note>,
    counts: BTreeMap<Counted, Count>,
    created: BTreeMap<ServiceId, usize>,
    /// Tasks that their node cannot hold any more, and why.
    pub(crate) evicted: BTreeMap<TaskId, Arc<str>>,
    /// The nodes of which that has been found out.
    pub(crate) judged: BTreeSet<NodeId>,
    touched: BTreeSet<(ServiceId, Slot)>,
    /// How many healthy tasks of each service this plan tells to end.
    lowered: BTreeMap<ServiceId, u32>,
    /// In how many slots of each service this plan makes a second task.
    beside: BTreeMap<ServiceId, u32>,
}

struct Note {
    service: ServiceId,
    rule: Rule,
    task: Option<TaskId>,
    text: Arc<str>,
}

/// What a counted note is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Counted {
    service: ServiceId,
    rule: Rule,
    /// What follows the number and its noun: `created: replicas 3, filled 0`.
    rest: String,
}

struct Count {
    number: usize,
    task: TaskId,
    /// Said once for each version of the service, however many plans it takes.
    once: bool,
}

impl<'a, 'c> Draft<'a, 'c> {
    pub(crate) fn new(view: &'a Tables, cx: &'c mut Cx<'_>) -> Self {
        Self {
            view,
            now: cx.now.max(view.time()),
            new_id: &mut *cx.new_id,
            set: ChangeSet::default(),
            objects: 0,
            wake_at: None,
            more: false,
            notes: Vec::new(),
            counts: BTreeMap::new(),
            created: BTreeMap::new(),
            evicted: BTreeMap::new(),
            judged: BTreeSet::new(),
            touched: BTreeSet::new(),
            lowered: BTreeMap::new(),
            beside: BTreeMap::new(),
        }
    }

    /// False once the limit is reached, which is then noted: something is left to do.
    pub(crate) fn has_room(&mut self) -> bool {
        self.more |= self.objects >= PLAN_OBJECTS;
        !self.more
    }

    /// How many objects more may be touched.
    pub(crate) fn room(&self) -> usize {
        PLAN_OBJECTS.saturating_sub(self.objects)
    }

    pub(crate) fn wake(&mut self, at: Time) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }

    pub(crate) fn guard_service(&mut self, service: ServiceId) {
        let version = self.view.service(service).map_or(0, |s| s.meta.modified);
        self.set.guard(ObjectId::Service(service), version);
    }

    pub(crate) fn guard_node(&mut self, node: NodeId) {
        let version = self.view.node(node).map_or(0, |n| n.meta.modified);
        self.set.guard(ObjectId::Node(node), version);
    }

    /// Makes a task of a service's revision. With `start_after` it is only made ready until then. That of a numbered slot may
    /// be made for one node.
    pub(crate) fn create(
        &mut self,
        service: &Service,
        revision: RevisionId,
        slot: Slot,
        start_after: Option<Time>,
        made_for: Option<NodeId>,
    ) -> TaskId {
        let id = TaskId((self.new_id)());
        let node = match slot {
            Slot::Node(node) => Some(node),
            Slot::Number(_) => made_for,
        };
        self.guard_service(service.id);
        *self.created.entry(service.id).or_default() += 1;
        self.touched.insert((service.id, slot));
        self.push(Change::CreateTask {
            id,
            service: service.id,
            slot,
            revision,
            node,
            desired: if start_after.is_some() { Desired::Ready } else { Desired::Running },
            start_after,
        });
        id
    }

    pub(crate) fn direct(&mut self, task: &Task, desired: Desired) {
        self.touch(task);
        if !desired.is_wanted() {
            self.count_lowered(task);
        }
        self.push(Change::DirectTask { task: task.id, desired });
    }

    /// Tells a task that is moved to end. The store refuses it when too few of its service would still run.
    pub(crate) fn retire(&mut self, task: &Task) {
        self.touch(task);
        self.count_lowered(task);
        self.push(Change::RetireTask { task: task.id });
    }

    fn count_lowered(&mut self, task: &Task) {
        if self.view.is_healthy(task) {
            *self.lowered.entry(task.service).or_default() += 1;
        }
    }

    /// How many more tasks of a service may be told to end before as few run as have to.
    pub(crate) fn spare(&self, service: &Service) -> u32 {
        let lowered = self.lowered.get(&service.id).copied().unwrap_or(0);
        self.view.healthy(service.id).saturating_sub(lowered).saturating_sub(service.floor())
    }

    /// Keeps with a task that it leaves its node, or stays.
    pub(crate) fn leave(&mut self, task: &Task, leave: Option<Leave>) {
        self.touch(task);
        self.push(Change::LeaveTask { task: task.id, leave });
    }

    /// Counts a slot of the service in which this plan makes a second task.
    pub(crate) fn begin_beside(&mut self, service: ServiceId) {
        *self.beside.entry(service).or_default() += 1;
    }

    /// In how many slots of a service this plan makes a second task so far.
    pub(crate) fn begun_beside(&self, service: ServiceId) -> u32 {
        self.beside.get(&service).copied().unwrap_or(0)
    }

    pub(crate) fn guard_task(&mut self, task: &Task) {
        self.set.guard(ObjectId::Task(task.id), task.modified);
    }

    /// Ends a task that waits for a node, without counting it as a failure. It must not have been given one meanwhile.
    pub(crate) fn abandon(&mut self, task: &Task, message: String) {
        self.guard_task(task);
        self.touch(task);
        self.push(Change::EndTask {
            task: task.id,
            state: model::TaskState::Shutdown,
            message: message.into(),
        });
    }

    /// Tells a task to end for a reason that is shown with it.
    pub(crate) fn dismiss(&mut self, task: &Task, reason: Arc<str>) {
        self.touch(task);
        self.push(Change::DismissTask { task: task.id, reason });
    }

    pub(crate) fn orphan(&mut self, task: &Task, message: Arc<str>) {
        self.touch(task);
        self.push(Change::EndTask { task: task.id, state: model::TaskState::Orphaned, message });
    }

    /// Gives up a task that no node takes. It must not have been given one meanwhile.
    pub(crate) fn reject(&mut self, task: &Task, message: String) {
        self.set.guard(ObjectId::Task(task.id), task.modified);
        self.touch(task);
        self.push(Change::EndTask {
            task: task.id,
            state: model::TaskState::Rejected,
            message: message.into(),
        });
    }

    /// Moves the service's update on, and says why.
    pub(crate) fn move_update(&mut self, service: ServiceId, state: UpdateState, message: String) {
        self.guard_service(service);
        let text: Arc<str> = message.into();
        self.notes.push(Note { service, rule: Rule::Update, task: None, text: Arc::clone(&text) });
        self.push(Change::MoveUpdate { service, state, message: text });
    }

    /// Promotes the canaries of the service's update, and says why.
    pub(crate) fn promote(&mut self, service: ServiceId, message: String) {
        self.guard_service(service);
        let text: Arc<str> = message.into();
        self.notes.push(Note { service, rule: Rule::Promoted, task: None, text: Arc::clone(&text) });
        self.push(Change::Promote { service, message: text });
    }

    /// Takes a failed update back, and says why.
    pub(crate) fn roll_back(&mut self, service: ServiceId, message: String) {
        self.guard_service(service);
        let text: Arc<str> = message.into();
        self.notes.push(Note { service, rule: Rule::Rollback, task: None, text: Arc::clone(&text) });
        self.push(Change::RollBack { service, automatic: true, message: text });
    }

    /// Forgets a task that holds nothing. One that waits for a node may be given one meanwhile: it must not
    /// have moved.
    pub(crate) fn delete(&mut self, task: &Task) {
        if !task.status.state.is_ended() {
            self.set.guard(ObjectId::Task(task.id), task.modified);
        }
        self.touch(task);
        self.push(Change::DeleteTask(task.id));
    }

    /// True when this plan already does something to the slot.
    pub(crate) fn has_touched(&self, service: ServiceId, slot: Slot) -> bool {
        self.touched.contains(&(service, slot))
    }

    /// The slots of a service to which this plan already does something, in order.
    pub(crate) fn touched(&self, service: ServiceId) -> impl Iterator<Item = Slot> + '_ {
        self.touched
            .range((service, Slot::Number(0))..)
            .take_while(move |(id, _)| *id == service)
            .map(|t| t.1)
    }

    fn touch(&mut self, task: &Task) {
        self.touched.insert((task.service, task.slot));
    }

    fn push(&mut self, change: Change) {
        self.objects += 1;
        self.set.changes.push(change);
    }

    /// How many tasks of a service this plan makes so far.
    pub(crate) fn created_for(&self, service: ServiceId) -> usize {
        self.created.get(&service).copied().unwrap_or(0)
    }

    /// Keeps a decision about one task.
    pub(crate) fn note(&mut self, task: &Task, rule: Rule, text: String) {
        self.notes.push(Note { service: task.service, rule, task: Some(task.id), text: text.into() });
    }

    /// Counts a decision that may be taken for many tasks. The sentence: the number, `task` or `tasks`, and
    /// `rest`.
    pub(crate) fn count(&mut self, task: TaskId, service: ServiceId, rule: Rule, rest: String) {
        self.counted(task, service, rule, rest, false);
    }

    /// As [`count`](Self::count), for what takes several plans: said with the first one only.
    pub(crate) fn count_once(&mut self, task: TaskId, service: ServiceId, rule: Rule, rest: String) {
        self.counted(task, service, rule, rest, true);
    }

    fn counted(&mut self, task: TaskId, service: ServiceId, rule: Rule, rest: String, once: bool) {
        let key = Counted { service, rule, rest };
        self.counts.entry(key).or_insert(Count { number: 0, task, once }).number += 1;
    }

    pub(crate) fn finish(mut self) -> Plan {
        if self.set.changes.is_empty() {
            self.set.guards.clear();
        } else {
            self.write_notes();
        }
        Plan { set: self.set, wake_at: self.wake_at, more: self.more }
    }

    fn write_notes(&mut self) {
        for (key, count) in std::mem::take(&mut self.counts) {
            if count.once && self.said_since_change(key.service, key.rule) {
                continue;
            }
            let noun = if count.number == 1 { "task" } else { "tasks" };
            let text = format!("{} {noun} {}", count.number, key.rest).into();
            let task = (count.number == 1).then_some(count.task);
            self.notes.push(Note { service: key.service, rule: key.rule, task, text });
        }
        for note in std::mem::take(&mut self.notes) {
            let Note { service, rule, task, text } = note;
            // Nobody keeps a decision about a service that is gone.
            if self.view.service(service).is_some() {
                self.set.changes.push(Change::Decide { service, rule, task, text });
            }
        }
    }

    fn said_since_change(&self, service: ServiceId, rule: Rule) -> bool {
        let changed = self.view.service(service).map_or(0, |s| s.meta.modified);
        self.view.decisions(service).any(|d| d.rule == rule && d.index > changed)
    }
}

/// The number of a revision, for a sentence; 0 when it is gone.
pub(crate) fn number_of(view: &Tables, revision: RevisionId) -> u64 {
    view.revision(revision).map_or(0, |r| r.number)
}
