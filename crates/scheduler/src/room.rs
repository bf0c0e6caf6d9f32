//! Room for tasks that fit nowhere: tasks of far lower priority end, if the service asks for that.
//!
//! Nothing is remembered between passes. While what must end has not ended, each pass finds the same room again from the tasks that are
//! on their way out, and keeps it for the task that waits: what others would take of it meanwhile could never be enough
//! for that one. It is placed only when a node really has the room, so that no node is ever promised twice.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use model::{BoundPort, Resources, Service, Task, TaskId};
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

/// A task that may be asked to end.
#[derive(Clone)]
pub(crate) struct Other<'v> {
    /// The task.
    pub task: &'v Task,
    /// Its service.
    pub service: &'v Arc<Service>,
    holds: Resources,
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
            let Some(Reverse((_, seat))) = ways.pop() else { break };
            let Some((_, end)) = self.way(view, field, need, priority, seat) else { break };
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
        let seat = field.seat_mut(number);
        let may_end = stay.others.partition_point(|other| {
            u16::from(other.service.priority) + u16::from(PRIORITY_APART) <= u16::from(priority)
        });
        let end = choose(seat, need, stay, &stay.others[..may_end])?;
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
                stay.others.push(Other { task, service, holds });
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
