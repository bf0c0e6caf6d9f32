//! Derived tables: what each node holds and what each service has, kept up to date by every change of a task.
//! They are functions of the tasks and revisions, are in no log and no snapshot, and are never written from outside.

use std::sync::{Arc, LazyLock};

use imbl::OrdMap;
use model::{
    BoundPort, Desired, Mount, NamedResource, Protocol, Resources, RevisionId, ServiceId, Slot, Task, TaskId,
    TaskState, Users,
};

use crate::slots::Places;

/// What the tasks on one node hold of it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NodeUse {
    reserved: Resources,
    /// Sorted by protocol and port.
    ports: Vec<(Protocol, u16, TaskId)>,
    /// The named resources that are held, and by whom; sorted.
    named: Vec<(NamedResource, TaskId)>,
    /// The volumes that are used, by whom, and whether that one only reads; sorted.
    volumes: Vec<(Arc<str>, TaskId, bool)>,
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

    /// The tasks that use a volume here, and whether they only read, by id.
    pub fn users_of<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = (TaskId, bool)> + 'a {
        let from = self.volumes.partition_point(|(name, ..)| **name < *volume);
        let users = self.volumes[from..].iter().take_while(move |(name, ..)| **name == *volume);
        users.map(|(_, task, read_only)| (*task, *read_only))
    }

    /// How many tasks use a volume here.
    pub fn users(&self, volume: &str) -> Users {
        self.users_of(volume).fold(Users::default(), |users, (_, read_only)| users.with(read_only))
    }

    /// The volumes that are used here, each once.
    pub fn used_volumes(&self) -> impl Iterator<Item = &Arc<str>> + '_ {
        self.volumes.chunk_by(|a, b| a.0 == b.0).map(|same| &same[0].0)
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
    pub(crate) fn take(&mut self, task: &Task, reservation: &Resources, mounts: &[Mount]) {
        self.reserved.add(reservation);
        for Mount { volume, read_only } in mounts {
            let place = self.volumes.binary_search_by(|(name, id, _)| (name, id).cmp(&(volume, &task.id)));
            if let Err(at) = place {
                self.volumes.insert(at, (Arc::clone(volume), task.id, *read_only));
            }
        }
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
    pub(crate) fn give_back(&mut self, task: &Task, reservation: &Resources, uses_volumes: bool) {
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
        if uses_volumes {
            self.volumes.retain(|(_, user, _)| *user != task.id);
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
    /// The slots that are filled.
    slots: Places,
    /// The slots in which a task of a revision ended for good, by revision; sorted, without empty ones.
    over: Arc<Vec<(RevisionId, Places)>>,
    /// What ended tasks say of their slots, by revision; sorted, without empty ones. Kept for batch services alone.
    ends: Option<Arc<Vec<(RevisionId, Ends)>>>,
}

/// What the ended tasks of one revision say of the slots of a batch service.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Ends {
    /// A task ran to its end with success.
    done: Places,
    /// Done, or given up: nothing more is to run there.
    closed: Places,
    /// A task ended in another way, and nobody has decided yet what follows.
    open: Places,
}

static NO_ENDS: LazyLock<Ends> = LazyLock::new(Ends::default);

impl Ends {
    /// Counts an ended task, or takes that back.
    fn count(&mut self, task: &Task, there: bool) {
        let change = |places: &mut Places| if there { places.add(task.slot) } else { places.take(task.slot) };
        if task.desired == Desired::Remove {
            // Nothing is concluded from it.
            return;
        }
        let complete = task.status.state == TaskState::Complete;
        if complete {
            change(&mut self.done);
        }
        if complete || task.desired == Desired::Complete {
            change(&mut self.closed);
        } else if task.desired < Desired::Complete {
            change(&mut self.open);
        }
    }

    fn is_empty(&self) -> bool {
        self.closed.len() + self.open.len() == 0
    }
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
        self.slots.len()
    }

    /// True when a task fills the slot.
    pub fn is_filled(&self, slot: Slot) -> bool {
        self.slots.contains(slot)
    }

    /// The numbered slots that something fills, in order.
    pub fn filled_numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots.numbers().iter()
    }

    /// How many slots are filled by more than one task.
    pub fn doubled(&self) -> u32 {
        self.slots.doubled().len() as u32
    }

    /// The slots that are filled by more than one task, in order.
    pub fn doubled_slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots.doubled()
    }

    /// True for a slot that is filled by more than one task.
    pub fn is_doubled(&self, slot: Slot) -> bool {
        self.slots.is_doubled(slot)
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
        self.slots.numbers().first_missing(from)
    }

    /// The lowest numbered slot from `from` on that nothing fills, and in which no task of the revision ended for good. Those are passed
    /// over by intervals.
    pub fn first_vacant(&self, revision: RevisionId, from: u32) -> u32 {
        let over = self.over.binary_search_by_key(&revision, |(id, _)| *id).map(|at| &self.over[at].1);
        let mut n = from;
        loop {
            let filled = self.slots.numbers().first_missing(n);
            let vacant = over.as_ref().map_or(filled, |over| over.numbers().first_missing(filled));
            if vacant == filled {
                return vacant;
            }
            n = vacant;
        }
    }

    /// The highest numbered slot that something fills.
    pub fn highest_filled(&self) -> Option<u32> {
        self.slots.numbers().highest()
    }

    /// Counts a task as it now is.
    pub(crate) fn count(&mut self, task: &Task) {
        self.total += 1;
        self.by_state[place(task.status.state)] += 1;
        self.running += u32::from(runs(task));
        self.count_over(task, true);
        self.count_end(task, true);
        if !task.fills_slot() {
            return;
        }
        let by_revision = Arc::make_mut(&mut self.by_revision);
        match by_revision.binary_search_by_key(&task.revision, |(id, _)| *id) {
            Ok(at) => by_revision[at].1 += 1,
            Err(at) => by_revision.insert(at, (task.revision, 1)),
        }
        self.slots.add(task.slot);
    }

    /// Takes back what [`count`](Self::count) did for a task.
    pub(crate) fn uncount(&mut self, task: &Task) {
        self.total -= 1;
        self.by_state[place(task.status.state)] -= 1;
        self.running -= u32::from(runs(task));
        self.count_over(task, false);
        self.count_end(task, false);
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
        self.slots.take(task.slot);
    }

    /// Moves a task that fills its slot before and after, or neither, from one state to another.
    pub(crate) fn recount(&mut self, old: &Task, new: &Task) {
        self.by_state[place(old.status.state)] -= 1;
        self.by_state[place(new.status.state)] += 1;
        self.running -= u32::from(runs(old));
        self.running += u32::from(runs(new));
        self.count_over(old, false);
        self.count_over(new, true);
        self.count_end(old, false);
        self.count_end(new, true);
    }

    fn count_over(&mut self, task: &Task, there: bool) {
        if task.desired != Desired::Complete || !task.status.state.is_ended() {
            return;
        }
        let all = Arc::make_mut(&mut self.over);
        match (all.binary_search_by_key(&task.revision, |(id, _)| *id), there) {
            (Ok(at), true) => all[at].1.add(task.slot),
            (Err(at), true) => {
                let mut places = Places::default();
                places.add(task.slot);
                all.insert(at, (task.revision, places));
            }
            (Ok(at), false) => {
                all[at].1.take(task.slot);
                if all[at].1.len() == 0 {
                    all.remove(at);
                }
            }
            (Err(_), false) => {}
        }
    }

    fn count_end(&mut self, task: &Task, there: bool) {
        let Some(all) = self.ends.as_mut().filter(|_| task.status.state.is_ended()) else { return };
        let all = Arc::make_mut(all);
        let at = match all.binary_search_by_key(&task.revision, |(id, _)| *id) {
            Ok(at) => at,
            Err(at) => {
                all.insert(at, (task.revision, Ends::default()));
                at
            }
        };
        all[at].1.count(task, there);
        if all[at].1.is_empty() {
            all.remove(at);
        }
    }

    /// Begins to keep what ended tasks say of their slots, or ceases to. `tasks` are all of the service.
    pub(crate) fn keep_ends<'t>(&mut self, keep: bool, tasks: impl Iterator<Item = &'t Task>) {
        self.ends = keep.then(Arc::default);
        if keep {
            tasks.for_each(|task| self.count_end(task, true));
        }
    }

    /// True when it keeps what ended tasks say of their slots.
    pub(crate) fn keeps_ends(&self) -> bool {
        self.ends.is_some()
    }

    fn ends(&self, revision: RevisionId) -> &Ends {
        let all = self.ends.as_ref().map_or(&[][..], |all| all.as_slice());
        match all.binary_search_by_key(&revision, |(id, _)| *id) {
            Ok(at) => &all[at].1,
            Err(_) => &NO_ENDS,
        }
    }

    /// How many slots of a batch service are done: a task of this revision ran there to its end with success.
    pub fn done(&self, revision: RevisionId) -> u32 {
        self.ends(revision).done.len()
    }

    /// True when a slot of a batch service is done with this revision.
    pub fn is_done(&self, revision: RevisionId, slot: Slot) -> bool {
        self.ends(revision).done.contains(slot)
    }

    /// How many slots of a batch service are given up with this revision: nothing more is to run there, and they are not
    /// done.
    pub fn given_up(&self, revision: RevisionId) -> u32 {
        let ends = self.ends(revision);
        ends.closed.len() - ends.done.len()
    }

    /// True when a slot of a batch service is done or given up with this revision.
    pub fn is_closed(&self, revision: RevisionId, slot: Slot) -> bool {
        self.ends(revision).closed.contains(slot)
    }

    /// How many slots of a batch service have a task of this revision that ended, not with success, and of which nobody has
    /// decided yet what follows.
    pub fn undecided(&self, revision: RevisionId) -> u32 {
        self.ends(revision).open.len()
    }

    /// True when a slot has such a task.
    pub fn is_undecided(&self, revision: RevisionId, slot: Slot) -> bool {
        self.ends(revision).open.contains(slot)
    }

    /// The numbered slots that have such a task, in order.
    pub fn undecided_numbers(&self, revision: RevisionId) -> impl Iterator<Item = u32> + '_ {
        self.ends(revision).open.numbers().iter()
    }

    /// The lowest numbered slot of a batch service from `from` on in which nothing of this revision has begun, or only
    /// what was told to end. Costs the slots in progress at most: those that are closed are passed over by intervals.
    pub fn first_fresh(&self, revision: RevisionId, from: u32) -> u32 {
        self.look_for_fresh(revision, from).0
    }

    /// The slot, and how many times the sets were asked.
    fn look_for_fresh(&self, revision: RevisionId, from: u32) -> (u32, u32) {
        let ends = self.ends(revision);
        let (mut n, mut looks) = (from, 0);
        loop {
            looks += 1;
            let closed = ends.closed.numbers().first_missing(n);
            let open = ends.open.numbers().first_missing(closed);
            let filled = self.slots.numbers().first_missing(open);
            if filled == n {
                return (n, looks);
            }
            n = filled;
        }
    }
}

/// True when a task runs and is wanted.
fn runs(task: &Task) -> bool {
    task.status.state == TaskState::Running && task.desired.is_wanted()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{TaskStatus, Time};

    const NOW: RevisionId = RevisionId::from_u128(2);

    fn task(n: u32, state: TaskState, desired: Desired) -> Task {
        Task {
            id: TaskId::from_u128(u128::from(n) + 1),
            service: ServiceId::from_u128(1),
            slot: Slot::Number(n),
            revision: NOW,
            node: None,
            desired,
            start_after: None,
            status: TaskStatus { state, ..TaskStatus::default() },
            programs: Box::default(),
            named: Box::default(),
            leave: None,
            dismissed: None,
            ports: Box::default(),
            unplaced: None,
            created: 1,
            modified: 1,
            directed: 1,
            created_at: Time(0),
        }
    }

    fn batch() -> ServiceUse {
        ServiceUse { ends: Some(Arc::default()), ..ServiceUse::default() }
    }

    #[test]
    fn what_ends_say_of_a_slot() {
        use Desired::{Complete as Final, Remove, Running as Run, Shutdown as Stop};
        use TaskState::{Complete, Failed, Orphaned, Running, Shutdown};
        for (tasks, done, given_up, undecided) in [
            (vec![(Running, Run)], 0, 0, 0),
            (vec![(Complete, Run)], 1, 0, 0),
            (vec![(Complete, Final)], 1, 0, 0),
            (vec![(Complete, Stop)], 1, 0, 0),
            (vec![(Complete, Remove)], 0, 0, 0),
            (vec![(Failed, Run)], 0, 0, 1),
            (vec![(Failed, Final)], 0, 1, 0),
            (vec![(Failed, Stop)], 0, 0, 0),
            (vec![(Orphaned, Run), (Shutdown, Stop)], 0, 0, 1),
            (vec![(Failed, Final), (Complete, Stop)], 1, 0, 0),
            (vec![(Complete, Stop), (Complete, Final)], 1, 0, 0),
        ] {
            let mut used = batch();
            let tasks: Vec<Task> = tasks.iter().map(|(state, desired)| task(7, *state, *desired)).collect();
            tasks.iter().for_each(|task| used.count(task));
            let found = (used.done(NOW), used.given_up(NOW), used.undecided(NOW));
            assert_eq!(found, (done, given_up, undecided), "{tasks:?}");
            assert_eq!(used.is_closed(NOW, Slot::Number(7)), done + given_up > 0);
            assert_eq!(used.done(RevisionId::from_u128(1)), 0);
            tasks.iter().for_each(|task| used.uncount(task));
            assert_eq!(used, batch());
        }
    }

    /// 100,000 slots closed in any order, ten in progress: the next one is found by intervals.
    #[test]
    fn the_next_slot_is_found_without_a_look_at_each() {
        let mut used = batch();
        let mut n = 1;
        for step in 0..100_000_u64 {
            // A cycle through the numbers from 0 to 100,002, in no order.
            n = n * 5 % 100_003;
            let (state, desired) = match step % 3 {
                0 => (TaskState::Failed, Desired::Complete),
                _ => (TaskState::Complete, Desired::Running),
            };
            let n = u32::try_from(n).expect("small");
            let in_progress = n % 10_000 == 5;
            used.count(&if in_progress {
                task(n, TaskState::Running, Desired::Running)
            } else {
                task(n, state, desired)
            });
        }
        let (next, looks) = used.look_for_fresh(NOW, 0);
        let free = |n: &u32| !used.is_filled(Slot::Number(*n)) && !used.is_closed(NOW, Slot::Number(*n));
        assert_eq!(Some(next), (0..).find(free));
        assert!(looks <= used.filled() + 2, "{looks} looks for {} in progress", used.filled());
    }
}
