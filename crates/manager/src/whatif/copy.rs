//! A copy of the cluster that comes to rest by itself: reconcilers, scheduler, and agents that do at once what they are
//! told.
//!
//! One round is: everything due is reconciled, then what waits is placed, then agents report. So a task that takes another's
//! place is placed while the other still holds its node, as in life. When nothing is left to do, time jumps to the
//! next moment for which a key waits.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Amount, Desired, Disruption, Id, JobId, NodeId, NodeState, RevisionId, Service, ServiceId, Slot, Span,
    Task, TaskId, TaskState, Time, UpdatePolicy, UpdateState,
};
use orchestrator::{Cx, Key, keys_of, reconcile};
use store::{Action, Change, ChangeSet, Entry, Event, FEATURE_LEVEL, Object, Refused, Tables};

use super::KeepOn;
use crate::work::Work;

/// Keys that one copy reconciles at most: a million tasks that all change are within it.
const KEYS: usize = 8_000_000;

/// Passes of the scheduler over one copy at most.
const PASSES: usize = 20_000;

/// Keys reconciled between two looks at whether to go on.
const KEYS_A_LOOK: usize = 1_024;

/// Reports of agents in one change set.
const REPORTS: usize = 1_000;

/// An update of a service goes through its slots in so many rounds at most, each of which looks at all its tasks.
const ROUNDS: u32 = 16;

/// From so many outdated tasks on, the copy does not leave it to the update to tell them to end a plan at a time, for each of
/// which it would look at all tasks: it tells them at once. Where they come to is nearly the same.
const MANY: u32 = 2_000;

/// Tasks told to end in one change set.
const TOLD: usize = 1_000;

/// So many jumps in time in a row after which no agent had anything to do, and the copy is at rest: what still waits for a moment
/// is tried again and again without success, as the move of a task that no node takes.
const FRUITLESS: usize = 64;

/// Ids of a copy begin here, at the end of the range: chance meets it once in 2^64 times, and what the copy has is asked.
const FIRST_ID: u128 = (u64::MAX as u128) << 64;

/// What became touched since it was last forgotten.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    pub(super) jobs: BTreeSet<JobId>,
    pub(super) services: BTreeSet<ServiceId>,
    pub(super) slots: BTreeSet<(ServiceId, Slot)>,
}

/// A copy of the cluster.
pub(super) struct Copy {
    tables: Tables,
    now: Time,
    next_id: u128,
    work: Work,
    placing: bool,
    /// Tasks whose agents have something to do.
    told: BTreeSet<TaskId>,
    touched: Touched,
    /// Services whose updates and moves are hastened, with the paces that they have.
    hastened: BTreeMap<ServiceId, Pace>,
    /// Those of them with [`MANY`] outdated tasks, which the copy tells to end itself.
    large: Vec<ServiceId>,
    keys: usize,
    passes: usize,
}

impl Copy {
    /// A copy of these tables, with everything due that may be under way.
    pub(super) fn of(tables: &Tables, now: Time) -> Self {
        let mut copy = Self {
            tables: tables.clone(),
            now: now.max(tables.time()),
            next_id: FIRST_ID,
            work: Work::default(),
            placing: true,
            told: BTreeSet::new(),
            touched: Touched::default(),
            hastened: BTreeMap::new(),
            large: Vec::new(),
            keys: 0,
            passes: 0,
        };
        copy.mark_unrest(tables);
        copy
    }

    /// Marks what may not be at rest. A slot whose only task runs and shall run is.
    fn mark_unrest(&mut self, tables: &Tables) {
        let work = &mut self.work;
        let all = tables.services().map(|s| s.id).chain(tables.services_with_tasks());
        all.for_each(|id| work.mark(Key::Service(id)));
        tables.nodes().filter(|n| n.loses_tasks()).for_each(|n| work.mark(Key::Node(n.id)));
        for task in tables.tasks() {
            let state = task.status.state;
            let quiet = match task.desired {
                Desired::Running => state == TaskState::Running,
                Desired::Complete | Desired::Shutdown => state.is_ended(),
                Desired::Ready | Desired::Remove => false,
            };
            if !quiet {
                work.mark(Key::of_slot(task.service, task.slot));
                self.told.insert(task.id);
            }
        }
    }

    /// A copy of this copy at rest, with limits of its own.
    pub(super) fn again(&self) -> Self {
        Self {
            tables: self.tables.clone(),
            work: Work::default(),
            told: BTreeSet::new(),
            touched: Touched::default(),
            hastened: BTreeMap::new(),
            large: Vec::new(),
            keys: 0,
            passes: 0,
            ..*self
        }
    }

    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    pub(super) fn touched(&self) -> &Touched {
        &self.touched
    }

    /// What is touched from here on counts.
    pub(super) fn forget_touched(&mut self) {
        self.touched = Touched::default();
    }

    /// Asks for a change of what the copy has now.
    pub(super) fn ask<T>(&mut self, change: &mut dyn FnMut(&Tables, &mut dyn FnMut() -> Id) -> T) -> T {
        let Self { tables, next_id, .. } = self;
        change(tables, &mut || fresh(tables, next_id))
    }

    /// Makes a change.
    pub(super) fn make(&mut self, set: ChangeSet) -> Result<(), Refused> {
        let entry = Entry { feature_level: FEATURE_LEVEL, time: self.now, sets: vec![set] };
        let applied = self.tables.apply(self.tables.index() + 1, &entry);
        for event in &applied.events {
            self.see(event);
        }
        applied.results.into_iter().find(Result::is_err).unwrap_or(Ok(()))
    }

    fn see(&mut self, event: &Event) {
        let work = &mut self.work;
        keys_of(event, &self.tables, &mut |key| work.mark(key));
        self.placing |= scheduler::relevant(event, &self.tables);
        match &event.object {
            Object::Task(task) => {
                self.touched.slots.insert((task.service, task.slot));
                if event.action != Action::Deleted {
                    self.told.insert(task.id);
                }
            }
            Object::Service(service) => {
                self.touched.services.insert(service.id);
            }
            Object::Job(job) => {
                self.touched.jobs.insert(job.id);
            }
            Object::Cluster(_) | Object::Namespace(_) | Object::Node(_) => {}
        }
    }

    /// Lets the copy come to rest. False when a limit, or whoever waits, ended that early.
    pub(super) fn settle(&mut self, keep_on: KeepOn<'_>) -> bool {
        for service in std::mem::take(&mut self.large) {
            for part in self.outdated(service).chunks(TOLD) {
                let made = self.make(ChangeSet::of(part.to_vec()));
                debug_assert_eq!(made, Ok(()), "a task that is there can be told to end");
            }
        }
        self.come_to_rest(keep_on)
    }

    /// What tells the outdated tasks of a service to end, by slot; one that no agent has is forgotten.
    fn outdated(&self, id: ServiceId) -> Vec<Change> {
        let Some(service) = self.tables.service(id) else { return Vec::new() };
        let tasks = self.tables.tasks_of_service(id);
        let outdated = tasks.filter(|t| t.fills_slot() && t.revision != service.revision);
        let told = |task: &std::sync::Arc<Task>| match task.holds_reservation() {
            true => Change::DirectTask { task: task.id, desired: Desired::Shutdown },
            false => Change::DeleteTask(task.id),
        };
        outdated.map(told).collect()
    }

    fn come_to_rest(&mut self, keep_on: KeepOn<'_>) -> bool {
        let mut fruitless = 0;
        loop {
            self.work.wake_until(self.now);
            let Some(reconciled) = self.reconcile(keep_on) else { return false };
            let placed = self.place();
            let reported = self.report();
            fruitless = if reported { 0 } else { fruitless };
            if reconciled || placed || reported {
                if self.keys > KEYS || self.passes > PASSES || !keep_on() {
                    return false;
                }
                continue;
            }
            let Some(at) = self.work.next_wake() else { return true };
            fruitless += 1;
            // A moment at which what is tried is there to be seen.
            let seen = !self.tables.is_anything_leaving() || self.tables.tasks_waiting().next().is_some();
            if fruitless > FRUITLESS && (seen || fruitless > 2 * FRUITLESS) {
                return true;
            }
            self.now = self.now.max(at);
        }
    }

    /// Reconciles everything that is due; `None` when it is not to go on. Keys that are marked meanwhile wait until all others had
    /// their turn: a service is not looked at again for each of its slots.
    fn reconcile(&mut self, keep_on: KeepOn<'_>) -> Option<bool> {
        let mut any = false;
        while self.work.is_due() {
            any = true;
            let due: Vec<Key> = std::iter::from_fn(|| self.work.take()).collect();
            for key in due {
                self.keys += 1;
                if self.keys > KEYS || (self.keys.is_multiple_of(KEYS_A_LOOK) && !keep_on()) {
                    return None;
                }
                self.reconcile_one(key);
            }
        }
        Some(any)
    }

    fn reconcile_one(&mut self, key: Key) {
        let Self { tables, next_id, now, .. } = self;
        let plan = reconcile(tables, key, &mut Cx { now: *now, new_id: &mut || fresh(tables, next_id) });
        let wake_at = plan.wake_at.filter(|_| !self.awaits_people(key));
        self.work.wake(key, wake_at);
        if plan.set.changes.is_empty() {
            return;
        }
        let made = self.make(plan.set);
        debug_assert_eq!(made, Ok(()), "nothing moves between a plan and its change");
        if plan.more && made.is_ok() {
            self.work.mark(key);
        }
    }

    /// Canaries that wait to be promoted have a deadline, days away perhaps. On a copy nobody says anything: that time does not pass.
    fn awaits_people(&self, key: Key) -> bool {
        let Key::Service(id) = key else { return false };
        let status = self.tables.service(id).and_then(|service| service.update_status.as_ref());
        status.is_some_and(|status| status.state == UpdateState::Canary)
    }

    /// Places what waits; true when there was something to look at.
    fn place(&mut self) -> bool {
        if !std::mem::take(&mut self.placing) {
            return false;
        }
        self.passes += 1;
        let placements = scheduler::schedule(&self.tables, &scheduler::Limits::default());
        let any = !placements.sets.is_empty();
        for set in placements.sets {
            let made = self.make(set);
            debug_assert_eq!(made, Ok(()), "nothing moves between a placement and its change");
        }
        self.placing |= placements.more && any;
        any
    }

    /// Agents do what they are told, and say so; true when one did.
    fn report(&mut self) -> bool {
        let told = std::mem::take(&mut self.told);
        let reports: Vec<Change> = told.into_iter().filter_map(|id| self.answer(id)).collect();
        for part in reports.chunks(REPORTS) {
            let made = self.make(ChangeSet::of(part.to_vec()));
            debug_assert_eq!(made, Ok(()), "an agent is always listened to");
        }
        !reports.is_empty()
    }

    /// What the agent of a task has to report. One whose node is down says nothing.
    fn answer(&self, id: TaskId) -> Option<Change> {
        let task = self.tables.task(id)?;
        let node = self.tables.node(task.node?)?;
        let state = reached(task);
        if !task.holds_reservation() || node.status.state == NodeState::Down || state == task.status.state {
            return None;
        }
        let programs = task.programs.clone();
        Some(Change::ReportTask { task: id, node: node.id, state, at: self.now, message: None, programs })
    }

    /// Lets updates that are under way go through their slots in a few rounds and without waiting between them, and tasks that are
    /// moved within a budget all have a second one at once: where they come to is the same, and looking at all tasks for each of a
    /// hundred thousand slots would take for ever.
    pub(super) fn hasten(&mut self) {
        let mut hastened = Vec::new();
        for service in self.tables.services() {
            let used = self.tables.service_use(service.id);
            let outdated = used.filled().saturating_sub(used.by_revision(service.revision));
            let own = Pace::of(service);
            let disruption = match service.has_budget() {
                true => Disruption { min_healthy: Amount::Percent(100), max_surge: u32::MAX },
                false => service.disruption,
            };
            // Of batch services all end at once anyway.
            if outdated == 0 || service.mode.is_batch() {
                if disruption != own.disruption {
                    hastened.push((Service::clone(service), Pace { disruption, ..own }));
                }
                continue;
            }
            // While canaries are tried, all else stays as it is.
            let large = outdated >= MANY && !service.mode.is_global() && !service.tries_canaries();
            let pace = |policy: UpdatePolicy| {
                let parallelism = match policy.parallelism {
                    _ if large => 1,
                    0 => 0,
                    n => n.max(used.filled().div_ceil(ROUNDS)),
                };
                UpdatePolicy { parallelism, delay: Span::ZERO, ..policy }
            };
            if large {
                self.large.push(service.id);
            }
            let hasty = Pace { update: pace(service.update), rollback: pace(service.rollback), disruption };
            if hasty != own {
                hastened.push((Service::clone(service), hasty));
            }
        }
        for (service, pace) in hastened {
            self.hastened.insert(service.id, Pace::of(&service));
            self.set_pace(service, pace);
        }
    }

    /// Gives the updates that were hastened their own pace again.
    pub(super) fn slow_down(&mut self) {
        for (id, pace) in std::mem::take(&mut self.hastened) {
            if let Some(service) = self.tables.service(id) {
                self.set_pace(Service::clone(service), pace);
            }
        }
    }

    fn set_pace(&mut self, service: Service, Pace { update, rollback, disruption }: Pace) {
        let changed = Service { update, rollback, disruption, ..service };
        let made = self.make(ChangeSet::of(vec![Change::UpdateService(Box::new(changed))]));
        debug_assert_eq!(made, Ok(()), "a service may have any pace");
    }
}

/// The state that a task comes to as it is told. No program ends by itself on the copy, neither badly nor, in a batch service, well:
/// what is in progress stays so.
fn reached(task: &Task) -> TaskState {
    match task.desired {
        Desired::Ready => task.status.state.max(TaskState::Ready),
        Desired::Running | Desired::Complete => task.status.state.max(TaskState::Running),
        Desired::Shutdown | Desired::Remove => TaskState::Shutdown,
    }
}

/// An id that nothing in the copy has.
fn fresh(tables: &Tables, next: &mut u128) -> Id {
    loop {
        let id = Id::from_u128(*next);
        *next = next.wrapping_add(1);
        let taken = tables.task(TaskId(id)).is_some()
            || tables.service(ServiceId(id)).is_some()
            || tables.revision(RevisionId(id)).is_some()
            || tables.node(NodeId(id)).is_some()
            || tables.job(JobId(id)).is_some();
        if !taken {
            return id;
        }
    }
}

/// How fast a service changes.
#[derive(Clone, Copy, PartialEq)]
struct Pace {
    update: UpdatePolicy,
    rollback: UpdatePolicy,
    disruption: Disruption,
}

impl Pace {
    fn of(service: &Service) -> Self {
        Self { update: service.update, rollback: service.rollback, disruption: service.disruption }
    }
}
