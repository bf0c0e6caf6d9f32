//! Room for tasks that fit nowhere: tasks of far lower priority end, if the service asks for that.
//!
//! Nothing is remembered between passes. While what must end has not ended, each pass finds the same room again from the tasks that are
//! on their way out, and keeps it for the task that waits: what others would take of it meanwhile could never be enough
//! for that one. A service with a budget of disruption is left as many running tasks as it says: of those that run on a
//! node as many may end, the first in the order, as the service has beyond that, and the others are passed over. It is placed only when a node really has the room, so that no node is ever promised twice.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use model::{BoundPort, FilterKind, Resources, Service, ServiceId, Task, TaskId};
use store::Tables;

use crate::field::{Field, Seat};
use crate::filter::object;
use crate::need::Need;
use crate::ports;
use crate::spread::Rank;

/// How much lower the priority of a task must be to end for another. Nomad's constant.
const PRIORITY_APART: u8 = 10;

/// What one node could give, beside what is free.
#[derive(Default)]
struct Stay<'v> {
    /// Tasks that are on their way out, or were chosen by this pass, with what they hold together.
    leaving: Vec<TaskId>,
    room: Resources,
    /// Those that may be asked to end, the lowest priority first, then the youngest, then by id.
    others: Vec<Other<'v>>,
}

impl<'v> Stay<'v> {
    /// Those whose priority is low enough to end for a task of this one.
    fn lower(&self, priority: u8) -> &[Other<'v>] {
        let may_end = self.others.partition_point(|other| {
            u16::from(other.service.priority) + u16::from(PRIORITY_APART) <= u16::from(priority)
        });
        &self.others[..may_end]
    }
}

/// A task that may be asked to end.
#[derive(Clone)]
pub(crate) struct Other<'v> {
    /// The task.
    pub task: &'v Task,
    /// Its service.
    pub service: &'v Arc<Service>,
    holds: Resources,
    /// It runs and its service has a budget: one less runs when it ends.
    counts: bool,
}

/// Nodes on which room could be made if no service had a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spared {
    /// How many.
    pub nodes: u32,
    /// What the first of them says against the task.
    pub filter: FilterKind,
    /// Whose budgets speak against it.
    pub services: BTreeSet<ServiceId>,
}

/// A way to make room on a node; the smallest is the best: nothing has to end, then the lowest priority that has to, then
/// the fewest tasks, then by the rank of the node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    priority: u8,
    tasks: usize,
    rank: Rank,
}

/// Room that is kept for a task.
pub(crate) struct Kept<'v> {
    /// Where.
    pub seat: u32,
    /// Who must be told to end for it; the others are on their way out already.
    pub end: Vec<Other<'v>>,
}

/// The room of a pass, by node; a node is looked at once.
#[derive(Default)]
pub(crate) struct Rooms<'v> {
    stays: BTreeMap<u32, Stay<'v>>,
    /// How many more running tasks of a service with a budget may end.
    spare: BTreeMap<ServiceId, u32>,
    /// Tasks that were looked at.
    pub read: usize,
    /// True when a task could not be considered because a change of it is in flight.
    pub held: bool,
}

impl<'v> Rooms<'v> {
    /// Keeps room for as many of the tasks as there is room for, the first of them. All nodes must have been looked at, and no
    /// node takes one of them as it is.
    pub fn keep(
        &mut self,
        view: &'v Tables,
        field: &mut Field<'v>,
        need: &Need<'v>,
        priority: u8,
        tasks: &[&Arc<Task>],
    ) -> Vec<Kept<'v>> {
        let mut ways = BinaryHeap::new();
        for seat in 0..field.seats().len() as u32 {
            ways.extend(self.way(view, field, need, priority, seat).map(|(way, _)| Reverse((way, seat))));
        }
        let mut kept = Vec::new();
        for task in tasks {
            let Some((seat, end)) = self.best(view, field, need, priority, &mut ways) else { break };
            self.leave(seat, &end);
            let stay = &self.stays[&seat];
            let place = field.seat_mut(seat);
            place.lift(stay.leaving.clone(), &stay.room);
            let ports: Box<[BoundPort]> = ports::choose(place, &need.spec.ports, task.id).unwrap_or_default();
            place.put_down(&stay.room);
            place.hold(need, task.id, &ports);
            place.recall(need.turn, place.taken_in(need.turn) + 1);
            ways.extend(self.way(view, field, need, priority, seat).map(|(way, _)| Reverse((way, seat))));
            kept.push(Kept { seat, end });
        }
        kept
    }

    /// The best of the ways and who must end for it. One that cost a service what it can spare is found dearer, or none, when its
    /// turn comes: what can be spared only gets less, so that each is looked at anew until it stays what it was.
    fn best(
        &mut self,
        view: &'v Tables,
        field: &mut Field<'v>,
        need: &Need<'v>,
        priority: u8,
        ways: &mut BinaryHeap<Reverse<(Way, u32)>>,
    ) -> Option<(u32, Vec<Other<'v>>)> {
        while let Some(Reverse((way, seat))) = ways.pop() {
            match self.way(view, field, need, priority, seat) {
                Some((now, end)) if now == way => return Some((seat, end)),
                Some((now, _)) => ways.push(Reverse((now, seat))),
                None => {}
            }
        }
        None
    }

    /// The services whose budgets alone speak against making room on a node; none when there is a way, or none anyway.
    pub fn spared_on(
        &mut self,
        view: &'v Tables,
        field: &mut Field<'v>,
        need: &Need<'v>,
        priority: u8,
        number: u32,
    ) -> BTreeSet<ServiceId> {
        let mut services = BTreeSet::new();
        if self.way(view, field, need, priority, number).is_none()
            && let Some(stay) = self.stays.get(&number)
        {
            let lower = stay.lower(priority);
            let allowed = self.allowed(lower);
            if allowed.len() < lower.len() && choose(field.seat_mut(number), need, stay, lower).is_some() {
                let passed = |other: &&Other| allowed.iter().all(|one| one.task.id != other.task.id);
                services.extend(lower.iter().filter(passed).map(|other| other.service.id));
            }
        }
        services
    }

    /// Where budgets alone keep room from being made.
    pub fn spared(
        &mut self,
        view: &'v Tables,
        field: &mut Field<'v>,
        need: &Need<'v>,
        priority: u8,
    ) -> Option<Spared> {
        let mut all: Option<Spared> = None;
        for seat in 0..field.seats().len() as u32 {
            let services = self.spared_on(view, field, need, priority, seat);
            let Some(objection) = object(field.seat(seat), need).filter(|_| !services.is_empty()) else {
                continue;
            };
            let filter = objection.filter();
            let all = all.get_or_insert_with(|| Spared { nodes: 0, filter, services: BTreeSet::new() });
            all.nodes += 1;
            all.services.extend(services);
        }
        all
    }

    /// Those of them whose services can spare them: of each service with a budget the first ones.
    fn allowed<'a>(&self, others: &'a [Other<'v>]) -> Cow<'a, [Other<'v>]> {
        if !others.iter().any(|other| other.counts) {
            return Cow::Borrowed(others);
        }
        let mut taken: BTreeMap<ServiceId, u32> = BTreeMap::new();
        let mut may = |other: &&Other| {
            let taken = taken.entry(other.service.id).or_default();
            *taken += u32::from(other.counts);
            !other.counts || *taken <= self.spare.get(&other.service.id).copied().unwrap_or(0)
        };
        Cow::Owned(others.iter().filter(|other| may(other)).cloned().collect())
    }

    /// The best way to make room for one task on a node, and who must end for it; `None` when there is none.
    fn way(
        &mut self,
        view: &'v Tables,
        field: &mut Field<'v>,
        need: &Need<'v>,
        priority: u8,
        number: u32,
    ) -> Option<(Way, Vec<Other<'v>>)> {
        if !field.seat(number).is_usable() {
            return None;
        }
        if !self.stays.contains_key(&number) {
            let stay = self.look(view, field.seat(number));
            self.stays.insert(number, stay);
        }
        let stay = &self.stays[&number];
        let allowed = self.allowed(stay.lower(priority));
        let seat = field.seat_mut(number);
        let end = choose(seat, need, stay, &allowed)?;
        let highest = end.iter().map(|other| other.service.priority).max().unwrap_or(0);
        Some((Way { priority: highest, tasks: end.len(), rank: Rank::of(number, seat, need) }, end))
    }

    /// What a node could give.
    fn look(&mut self, view: &'v Tables, seat: &Seat<'v>) -> Stay<'v> {
        let mut stay = Stay::default();
        for task in view.tasks_of_node(seat.node.id) {
            self.read += 1;
            if !task.holds_reservation() {
                continue;
            }
            let Some(revision) = view.revision(task.revision) else { continue };
            let holds = revision.task.reservation();
            if !task.desired.is_wanted() {
                stay.leaving.push(task.id);
                stay.room.add(&holds);
            } else if !view.is_settled(task.modified) {
                self.held = true;
            } else if let Some(service) = view.service(task.service) {
                let counts = service.floor() > 0 && view.is_healthy(task);
                if counts {
                    let spare = || view.healthy(service.id).saturating_sub(service.floor());
                    self.spare.entry(service.id).or_insert_with(spare);
                }
                stay.others.push(Other { task, service, holds, counts });
            }
        }
        let order = |other: &Other| (other.service.priority, Reverse(other.task.created), other.task.id);
        stay.others.sort_by_key(order);
        stay
    }

    /// Counts tasks among those that are on their way out.
    fn leave(&mut self, seat: u32, end: &[Other<'v>]) {
        let Some(stay) = self.stays.get_mut(&seat) else { return };
        for other in end {
            stay.leaving.push(other.task.id);
            stay.room.add(&other.holds);
            if let (true, Some(spare)) = (other.counts, self.spare.get_mut(&other.service.id)) {
                *spare = spare.saturating_sub(1);
            }
        }
        stay.others.retain(|other| end.iter().all(|gone| gone.task.id != other.task.id));
    }
}

/// Who must end so that a node takes one more task, beside those that are on their way out: as many as it takes from the
/// first on, without those that turn out not to be needed.
fn choose<'v>(seat: &mut Seat, need: &Need, stay: &Stay<'v>, others: &[Other<'v>]) -> Option<Vec<Other<'v>>> {
    let mut fits = |end: &[Other]| {
        let mut room = stay.room.clone();
        end.iter().for_each(|other| room.add(&other.holds));
        let ids = stay.leaving.iter().copied().chain(end.iter().map(|other| other.task.id));
        seat.lift(ids.collect(), &room);
        let objection = object(seat, need);
        seat.put_down(&room);
        objection.is_none()
    };
    if fits(&[]) {
        return Some(Vec::new());
    }
    if others.is_empty() || !fits(others) {
        return None;
    }
    // How many of the first are enough: the least number is found by halves, as more of them never fit worse.
    let (mut few, mut enough) = (0, others.len());
    while few + 1 < enough {
        let middle = few.midpoint(enough);
        if fits(&others[..middle]) { enough = middle } else { few = middle }
    }
    let mut end = others[..enough].to_vec();
    // The last one is needed; of the others those of the highest priority are spared first.
    for at in (0..end.len().saturating_sub(1)).rev() {
        let spared = end.remove(at);
        if !fits(&end) {
            end.insert(at, spared);
        }
    }
    Some(end)
}
