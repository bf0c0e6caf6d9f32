//! One pass over everything that waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Index, RevisionId, Service, Slot, Task, TaskId, Unplaced};
use store::{ChangeSet, Tables};

use crate::field::Field;
use crate::filter::object;
use crate::need::Need;
use crate::need::default_strategy;
use crate::ports;
use crate::reason::{Tally, node_gone, room_is_made, say_spared};
use crate::room::{Rooms, Spared};
use crate::sets::{How, Sets};
use crate::spread::{candidates, rank_again};
use crate::turns::{Group, turns};

/// Bounds of one pass, so that it and what it asks of the log stay short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most tasks that one pass places; where it has to look at more nodes than that, as many as it looks at, because
    /// looking is what costs.
    pub placements: usize,
    /// Most tasks to which one pass gives a new reason; a budget of its own, so that impossible tasks keep nobody from
    /// being placed.
    pub reasons: usize,
    /// Most tasks in one change set.
    pub set: usize,
}

impl Default for Limits {
    /// 20,000 placements and as many reasons in a pass (tens of milliseconds), 1,000 in a set (about 100 kB).
    fn default() -> Self {
        Self { placements: 20_000, reasons: 20_000, set: 1_000 }
    }
}

/// What a pass decided.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Placements {
    /// The plans, in this order; each is applied or refused by itself.
    pub sets: Vec<ChangeSet>,
    /// How many tasks they place.
    pub placed: usize,
    /// How many settled tasks were asked for and found no node.
    pub unplaced: usize,
    /// True when a limit ended the pass early: run another over the view with these plans laid over.
    pub more: bool,
    /// True when tasks or nodes were left alone because changes of them are in flight, which may end without an event
    /// that is [`relevant`](crate::relevant): run another pass once the next plan is applied or refused.
    pub held: bool,
    /// How many tasks are told to end, to make room for others.
    pub preempted: usize,
    /// What the pass looked at.
    pub visited: Visited,
}

/// What a pass looked at: its cost, whatever the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Visited {
    /// Groups of equal tasks that waited.
    pub groups: usize,
    /// Tasks that were read.
    pub tasks: usize,
    /// Nodes that were looked at.
    pub nodes: usize,
    /// How often a node was asked for a group.
    pub asked: usize,
}

/// Finds nodes for the tasks of `view` that wait, or says why there are none.
///
/// Services take turns: the highest priority first, then the one with the oldest waiting task, then by id; within a
/// turn the revisions, the one with the oldest waiting task first; within a revision the oldest task first, then by slot.
/// One that cannot be placed delays none: it uses up nothing of what bounds a pass.
///
/// A node takes a task when no filter objects; among those that take it, the one with the fewest tasks of the service
/// comes first, then the one with the fewest tasks in all, then the smallest id. Reasons are found when all turns are
/// over, so that they are true of what the pass leaves behind, and a pass over the same state finds the same.
/// A task gets a reason only when it differs from the one it has.
///
/// What is in flight is left alone: tasks, because their version is not known; nodes likewise, though what they hold is
/// counted with everything in flight. A group that only such a node would take waits without a reason.
///
/// Cost: a group costs the nodes it looks at, in the order of their load, until there are as many without a task of its
/// service as it has tasks, otherwise all nodes; then O(log nodes) a placement. An impossible group costs all nodes
/// twice when it is new and later once (5 to 10 ns a node), and each of its tasks once. So a pass costs at most O(groups x nodes + placements x log nodes + tasks
/// left), and one that places a few tasks on free nodes O(groups + log nodes). Which events are worth a pass says
/// [`relevant`](crate::relevant).
pub fn schedule(view: &Tables, limits: &Limits) -> Placements {
    let mut pass = Pass::new(view, limits);
    let groups = turns(view);
    pass.out.visited.groups = groups.len();
    for turn in groups.chunk_by(|a, b| a.service.id == b.service.id) {
        if pass.budget() == 0 {
            pass.out.more = true;
            break;
        }
        pass.take_turn(turn);
    }
    pass.give_reasons();
    pass.out.visited.nodes = pass.field.seats().len();
    pass.out.visited.tasks += pass.rooms.read;
    pass.out.held |= pass.rooms.held;
    Placements { sets: pass.sets.finish(), ..pass.out }
}

/// The nodes as a pass leaves them to a service: without the room that it keeps, before this service has its turn, for tasks that may end
/// others; and that room. `None` when it keeps none and the service itself may end nobody, as nearly always.
pub(crate) fn field_before<'v>(view: &'v Tables, service: &Service) -> Option<(Field<'v>, Rooms<'v>)> {
    let groups = turns(view);
    let turns = groups.chunk_by(|a, b| a.service.id == b.service.id);
    let before = turns.take_while(|turn| turn.first().is_none_or(|group| group.service.id != service.id));
    let mut keeping = before.filter(|turn| turn.iter().any(|g| g.service.steering.preempt)).peekable();
    if keeping.peek().is_none() && !service.steering.preempt {
        return None;
    }
    let limits = Limits::default();
    let mut pass = Pass::new(view, &limits);
    keeping.for_each(|turn| pass.take_turn(turn));
    let Pass { mut field, rooms, .. } = pass;
    field.complete();
    Some((field, rooms))
}

/// For a group whose tasks need not be read.
fn found_unread<'v>(
    found: &Found,
    first: &'v Task,
    last: &'v Task,
) -> (Option<Found>, Option<(&'v Task, &'v Task)>) {
    (Some(found.clone()), Some((first, last)))
}

struct Pass<'v, 'l> {
    view: &'v Tables,
    limits: &'l Limits,
    field: Field<'v>,
    sets: Sets,
    left: Vec<Left<'v>>,
    /// Seats that took a task of the group at hand.
    touched: Vec<u32>,
    /// Room that is made by ending tasks.
    rooms: Rooms<'v>,
    /// Counts the turns, from 1.
    turn: u32,
    /// For how many tasks room is kept.
    kept: usize,
    out: Placements,
}

/// The place of a task among those of its group.
type Turn = (Index, Slot, TaskId);

fn turn(task: &Task) -> Turn {
    (task.created, task.slot, task.id)
}

/// What of a group has its reason already.
struct Told<'v> {
    first: &'v Task,
    last: &'v Task,
    /// How many they are.
    tasks: usize,
    /// Those that came after them, in their order.
    newer: Vec<&'v Arc<Task>>,
}

/// Tasks that found no node.
struct Left<'v> {
    service: &'v Arc<Service>,
    revision: RevisionId,
    need: Need<'v>,
    tasks: Vec<&'v Arc<Task>>,
    /// The first of the group that is in flight. None after it is told a reason before it is: see [`Pass::told`].
    in_flight: Option<Turn>,
    /// The first and the last of those of the group that were not read, because nothing is probably new for them.
    unread: Option<(&'v Task, &'v Task)>,
    /// The first of those without a node wait for room that is kept for them on these seats.
    kept: Vec<u32>,
    /// Where budgets alone keep room from being made for the others.
    spared: Option<Spared>,
    /// Where the turn placed tasks of the service, and how many; only kept when the spec limits them.
    taken: Vec<(u32, u32)>,
    /// Why, if that was found out before any was placed.
    found: Option<Found>,
}

/// A reason that was found in the middle of a pass. It holds at the end if nothing was placed since, and no room kept.
#[derive(Clone)]
struct Found {
    why: Unplaced,
    /// How many tasks the pass had placed, or kept room for.
    placed: usize,
}

impl<'v, 'l> Pass<'v, 'l> {
    fn new(view: &'v Tables, limits: &'l Limits) -> Self {
        Self {
            view,
            limits,
            field: Field::new(view),
            sets: Sets::new(limits.set, default_strategy(view)),
            left: Vec::new(),
            touched: Vec::new(),
            rooms: Rooms::default(),
            turn: 0,
            kept: 0,
            out: Placements::default(),
        }
    }

    /// How many more tasks may be placed.
    fn budget(&self) -> usize {
        let most = self.limits.placements.max(self.field.seats().len()).max(1);
        most - self.out.placed
    }

    /// Gives the groups of one service their turn.
    fn take_turn(&mut self, groups: &[Group<'v>]) {
        self.turn += 1;
        let first_left = self.left.len();
        let mut seats = Vec::new();
        for group in groups {
            let need = Need::of(
                self.view,
                group.service.id,
                &group.service.steering,
                group.used,
                group.revision,
                self.turn,
            );
            if let Some(need) = need {
                self.place_group(group, need, &mut seats);
            }
        }
        self.remember_taken(first_left, seats);
    }

    /// Places the tasks of a group, those that were made for a node before the others of as many as may still be placed.
    /// `seats` collects where.
    fn place_group(&mut self, group: &Group<'v>, need: Need<'v>, seats: &mut Vec<u32>) {
        let mut tasks = group.tasks(self.view).peekable();
        let waited = tasks.peek().is_some_and(|first| first.unplaced.is_some());
        let mut found = if waited { self.found_before(group, &need) } else { None };
        if let (Some(found), false) = (&found, need.steering.preempt)
            && let Some(Told { first, last, tasks, newer }) = self.told(group, &found.why)
        {
            let mut in_flight = None;
            let (_, newer) = self.settled(newer.into_iter(), &mut in_flight);
            self.out.unplaced += tasks + newer.len();
            self.leave(group, need, newer, found_unread(found, first, last));
            return self.left.last_mut().into_iter().for_each(|left| left.in_flight = in_flight);
        }
        let mut left = Vec::new();
        let mut in_flight = None;
        let mut stuck = found.is_some();
        while tasks.peek().is_some() {
            if self.budget() == 0 {
                self.out.more = true;
                break;
            }
            let batch = tasks.by_ref().take(self.budget());
            let (made_for_node, free) = self.settled(batch, &mut in_flight);
            left.extend(self.confirm(group.service, &need, &made_for_node));
            self.end_part(group.service, seats);
            // They are equal: where one finds no node, neither do those after it.
            let placed = if stuck { 0 } else { self.spread(group.service, &need, &free, &mut found) };
            self.end_part(group.service, seats);
            stuck |= placed < free.len();
            left.extend(&free[placed..]);
        }
        if !left.is_empty() {
            self.out.unplaced += left.len();
            self.leave(group, need, left, (found, None));
            self.left.last_mut().into_iter().for_each(|left| left.in_flight = in_flight);
        } else {
            self.count_asked(&need);
        }
    }

    /// Tasks that found no node stay, with room kept for as many of them as there is, if their service asks for that.
    fn leave(
        &mut self,
        group: &Group<'v>,
        need: Need<'v>,
        tasks: Vec<&'v Arc<Task>>,
        (found, unread): (Option<Found>, Option<(&'v Task, &'v Task)>),
    ) {
        let (kept, spared) = match need.steering.preempt {
            true => self.keep_room(group.service, &need, &tasks),
            false => (Vec::new(), None),
        };
        self.count_asked(&need);
        let (service, revision, taken) = (group.service, group.revision, Vec::new());
        let in_flight = None;
        self.left.push(Left {
            service,
            revision,
            need,
            tasks,
            in_flight,
            unread,
            kept,
            spared,
            taken,
            found,
        });
    }

    /// Makes room for tasks without a node; returns where, for the first of them, and what keeps the others from it.
    fn keep_room(
        &mut self,
        service: &Service,
        need: &Need<'v>,
        tasks: &[&'v Arc<Task>],
    ) -> (Vec<u32>, Option<Spared>) {
        let free: Vec<&Arc<Task>> = tasks.iter().copied().filter(|task| task.node.is_none()).collect();
        if free.is_empty() {
            return (Vec::new(), None);
        }
        self.field.complete();
        if self.reason(need).is_none() {
            // A node whose change is in flight would take them: nobody has to end.
            self.out.held = true;
            return (Vec::new(), None);
        }
        let kept = self.rooms.keep(self.view, &mut self.field, need, service.priority, &free);
        self.kept += kept.len();
        for (task, kept) in free.iter().zip(&kept) {
            if !kept.end.is_empty() {
                self.out.preempted += kept.end.len();
                self.sets.make_room(self.view, service, task, self.field.seat_mut(kept.seat), &kept.end);
            }
        }
        let spared = (kept.len() < free.len())
            .then(|| self.rooms.spared(self.view, &mut self.field, need, service.priority))
            .flatten();
        (kept.iter().map(|kept| kept.seat).collect(), spared)
    }

    /// The tasks of a group that have this reason already, and those that came after them; `None` when not even the first has it.
    ///
    /// Looking at the first and at what is newer than the last with the reason is enough in practice: reasons are given from the first
    /// on, and to none after one that is in flight, so that what has a reason stands before what has none. Only where a pass was cut short
    /// while a reason changed, and changed back before the next, some in the middle keep the other text until it changes again.
    fn told(&self, group: &Group<'v>, why: &Unplaced) -> Option<Told<'v>> {
        let (count, first, _) = self.view.waiting_ends(group.service.id, group.revision)?;
        let told = |task: &Task| {
            self.view.is_settled(task.modified) && task.unplaced.as_deref().is_some_and(|is| is == why)
        };
        told(first).then_some(())?;
        let mut newer = Vec::new();
        let mut last = first;
        for task in self.view.newest_waiting_of(group.service.id, group.revision) {
            if told(task) {
                last = task;
                break;
            }
            newer.push(task);
        }
        newer.sort_unstable_by_key(|task| turn(task));
        Some(Told { first, last, tasks: count - newer.len(), newer })
    }

    /// Why the group finds no node, when it found none before: what found none will hardly find one now, so the reason is looked
    /// for at once, before its tasks are read.
    fn found_before(&mut self, group: &Group<'v>, need: &Need<'v>) -> Option<Found> {
        let (_, first, _) = self.view.waiting_ends(group.service.id, group.revision)?;
        self.view.is_settled(first.modified).then_some(())?;
        self.field.complete();
        let why = self.reason(need)?;
        Some(Found { why, placed: self.out.placed + self.kept })
    }

    fn count_asked(&mut self, need: &Need) {
        self.out.visited.asked += need.asked.take();
    }

    /// The tasks that are not in flight, those made for a node apart. The version of one in flight is not known yet, so
    /// that no guard could name it. `in_flight` becomes the first of those, unless it is known.
    fn settled(
        &mut self,
        tasks: impl Iterator<Item = &'v Arc<Task>>,
        in_flight: &mut Option<Turn>,
    ) -> (Vec<&'v Arc<Task>>, Vec<&'v Arc<Task>>) {
        let view = self.view;
        let held = &mut self.out.held;
        let read = &mut self.out.visited.tasks;
        let settled = tasks.filter(|task| {
            *read += 1;
            let settled = view.is_settled(task.modified);
            // The event of a task that is made wakes the scheduler; that of one that is explained does not.
            *held |= !settled && view.is_settled(task.created);
            if !settled && in_flight.is_none() {
                *in_flight = Some(turn(task));
            }
            settled
        });
        settled.partition(|task| task.node.is_some())
    }

    /// Ends a part of a group that was placed in one way.
    fn end_part(&mut self, service: &Service, seats: &mut Vec<u32>) {
        self.sets.end_note(service);
        self.field.relist(&self.touched);
        seats.append(&mut self.touched);
    }

    /// Confirms tasks on the nodes they were made for; returns those that cannot run there.
    fn confirm(&mut self, service: &Service, need: &Need<'v>, tasks: &[&'v Arc<Task>]) -> Vec<&'v Arc<Task>> {
        let mut left = Vec::new();
        for task in tasks {
            let seat = task.node.and_then(|node| self.field.find(node));
            match seat.filter(|seat| object(self.field.seat(*seat), need).is_none()) {
                Some(seat) if !self.field.seat(seat).settled => self.out.held = true,
                Some(seat) => self.assign(service, need, task, seat, How::Confirmed),
                None => left.push(*task),
            }
        }
        left
    }

    /// Spreads equal tasks over the nodes that take them; returns how many found one, the first of them.
    fn spread(
        &mut self,
        service: &Service,
        need: &Need<'v>,
        tasks: &[&'v Arc<Task>],
        found: &mut Option<Found>,
    ) -> usize {
        let Some(first) = tasks.first() else {
            return 0;
        };
        // What found no node before will hardly find one now; so the reason is looked for at once.
        if first.unplaced.is_some() && found.is_none() {
            self.field.complete();
            if let Some(why) = self.reason(need) {
                *found = Some(Found { why, placed: self.out.placed + self.kept });
                return 0;
            }
        }
        let mut candidates = candidates(&mut self.field, need, tasks.len());
        for (placed, task) in tasks.iter().enumerate() {
            let took = candidates.take_best(|rank| {
                let how = How::Spread { of_service: rank.of_service() };
                self.assign(service, need, task, rank.seat, how);
                rank_again(rank.seat, self.field.seat(rank.seat), need)
            });
            if !took {
                return placed;
            }
        }
        tasks.len()
    }

    /// Places a task on a seat that takes it.
    fn assign(&mut self, service: &Service, need: &Need<'v>, task: &Task, number: u32, how: How) {
        let seat = self.field.seat_mut(number);
        let ports = ports::choose(seat, &need.spec.ports, task.id)
            .expect("the filter for host ports has just found enough of them");
        if !seat.is_moved() {
            self.touched.push(number);
        }
        let named = seat.choose_named(&need.reserve);
        seat.take(need, task.id, &ports);
        self.sets.assign(service, task, seat, how, (ports, named));
        self.out.placed += 1;
    }

    /// Keeps for the tasks left by a turn how many tasks of the service it placed on which node.
    fn remember_taken(&mut self, first_left: usize, mut seats: Vec<u32>) {
        let turn = self.turn;
        seats.sort_unstable();
        seats.dedup();
        for left in &mut self.left[first_left..] {
            if left.need.per_node.is_some() {
                let taken = seats.iter().map(|seat| (*seat, self.field.seat(*seat).taken_in(turn)));
                left.taken = taken.collect();
            }
        }
    }

    /// Says of each task that found no node why, if that is news.
    fn give_reasons(&mut self) {
        self.sets.begin_reasons();
        let mut budget = self.limits.reasons.max(1);
        let free = |left: &Left| left.unread.is_some() || left.tasks.iter().any(|task| task.node.is_none());
        if self.left.iter().any(free) {
            self.field.complete();
        }
        for mut left in std::mem::take(&mut self.left) {
            for (seat, taken) in &left.taken {
                self.field.seat_mut(*seat).recall(left.need.turn, *taken);
            }
            let found = left.found.take().filter(|found| found.placed == self.out.placed + self.kept);
            let mut found = found.map(|found| found.why);
            if let Some((first, last)) = left.unread {
                found = found.or_else(|| self.reason(&left.need));
                let told = |task: &Task| found.is_some() && task.unplaced.as_deref() == found.as_ref();
                if !told(first) || !told(last) {
                    let tasks = self.view.tasks_waiting_of(left.service.id, left.revision);
                    let (_, free) = self.settled(tasks, &mut left.in_flight);
                    left.tasks = free;
                }
            }
            let (alone, free): (Vec<_>, Vec<_>) =
                left.tasks.iter().copied().partition(|task| task.node.is_some());
            for (task, seat) in free.iter().zip(&left.kept) {
                let why = room_is_made(self.field.seat(*seat));
                self.explain(left.service, &[*task], why, &mut budget);
            }
            let free = &free[left.kept.len().min(free.len())..];
            if !free.is_empty() {
                let before = |task: &&Arc<Task>| left.in_flight.is_none_or(|first| turn(task) < first);
                let told = free.partition_point(before);
                match found.or_else(|| self.reason(&left.need)) {
                    Some(mut why) => {
                        left.spared.iter().for_each(|spared| say_spared(self.view, &mut why, spared));
                        self.explain(left.service, &free[..told], why, &mut budget);
                    }
                    // A pass frees nothing, so only nodes in flight can be the ones that would take them.
                    None => self.out.held = true,
                }
            }
            for (why, tasks) in self.reasons_of_preassigned(&left.need, &alone) {
                self.explain(left.service, &tasks, why, &mut budget);
            }
            self.count_asked(&left.need);
        }
    }

    /// Why no node takes a task; `None` when one does. All nodes must have been looked at.
    fn reason(&self, need: &Need<'v>) -> Option<Unplaced> {
        let mut tally = Tally::new(need);
        self.field.seats().iter().for_each(|seat| tally.ask(seat));
        (tally.takers() == 0).then(|| tally.unplaced(self.view))
    }

    /// The reasons of tasks that were made for nodes, with the tasks of each; by the text.
    fn reasons_of_preassigned(
        &mut self,
        need: &Need<'v>,
        tasks: &[&'v Arc<Task>],
    ) -> Vec<(Unplaced, Vec<&'v Arc<Task>>)> {
        let mut reasons: BTreeMap<String, (Unplaced, Vec<&'v Arc<Task>>)> = BTreeMap::new();
        for task in tasks {
            let why = match task.node.and_then(|node| self.field.find(node)) {
                Some(seat) => {
                    let mut tally = Tally::new(need);
                    tally.ask(self.field.seat(seat));
                    tally.unplaced(self.view)
                }
                None => node_gone(),
            };
            reasons.entry(why.to_string()).or_insert_with(|| (why, Vec::new())).1.push(*task);
        }
        reasons.into_values().collect()
    }

    /// Adds the reason for those of the tasks that have another one or none, within the budget.
    fn explain(&mut self, service: &Service, tasks: &[&Arc<Task>], why: Unplaced, budget: &mut usize) {
        let why = Arc::new(why);
        let news = tasks.iter().filter(|task| task.unplaced.as_ref() != Some(&why));
        let news: Vec<&Arc<Task>> = news.copied().collect();
        let allowed = news.len().min(*budget);
        self.out.more |= allowed < news.len();
        *budget -= allowed;
        for part in news[..allowed].chunks(self.limits.set.max(1)) {
            let first_time = part.iter().filter(|task| task.unplaced.is_none()).count();
            let ids: Vec<TaskId> = part.iter().map(|task| task.id).collect();
            self.sets.explain(service, ids, first_time, &why);
        }
    }
}
