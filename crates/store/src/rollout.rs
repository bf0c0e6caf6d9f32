//! Derived: how far the slots of a service are with its current revision, while one is on its way. Kept so that the next step of an update
//! costs the slots in change, and not every slot there is.
//!
//! Each slot stands in one place. What a place says is true whatever the time is, so that only a change of the slot's own tasks, or of the
//! node of a global slot, moves it: those that are watched are kept by the moment since when. Slots that have no place in the service, and
//! those of nodes that take no tasks of it, stand nowhere. Whatever is not plain stands apart, and is looked at task by task.
//!
//! | place | the one task that fills the slot |
//! | --- | --- |
//! | outdated, idle or running | is of another revision, and the update has tried nothing in the slot |
//! | waiting, starting or running | was made by the update, as the first in the slot, and has the slot to itself once it runs |
//! | found | is of the current revision, and was there before the update; the update has made none in the slot |
//! | apart | there is none, or several, or the slot has had more than one task of the update, or one is in flight |

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use imbl::OrdSet;
use model::{Desired, Index, Mode, NodeId, RevisionId, Service, ServiceId, Slot, Task, TaskState, Time};

use crate::apply::SPECULATED;
use crate::slots::Places;
use crate::tasks::{FIRST_NODE, LAST_NODE};
use crate::{ServiceUse, Tables};

/// How far the slots of a service are with its current revision. Clones share memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    terms: Terms,
    idle: Places,
    outdated: Places,
    waiting: Moments,
    starting: Moments,
    running: Moments,
    /// How many slots stand in `found` whose task runs.
    found: u32,
    apart: Places,
}

/// What decides where a slot stands, besides its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    revision: RevisionId,
    /// Tasks of that revision that were made later were made by the update.
    began: Index,
    /// Slots from here on are on their way out; `None` for a global service.
    replicas: Option<u32>,
}

/// Slots, each with a moment. Clones share memory.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Moments {
    numbers: OrdSet<(Time, u32)>,
    nodes: OrdSet<(Time, NodeId)>,
}

/// Where a slot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    Idle,
    Outdated,
    Waiting(Time),
    Starting(Time),
    Running(Time),
    Found { runs: bool },
    Apart,
}

impl Moments {
    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.numbers.len() + self.nodes.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The earliest moment of all.
    pub fn first(&self) -> Option<Time> {
        let (number, node) = (self.numbers.get_min(), self.nodes.get_min());
        number.map(|(at, _)| *at).into_iter().chain(node.map(|(at, _)| *at)).min()
    }

    /// The earliest moment after this one.
    pub fn first_after(&self, at: Time) -> Option<Time> {
        let number = self.numbers.range(later(at, u32::MAX)).next().map(|(at, _)| *at);
        let node = self.nodes.range(later(at, LAST_NODE)).next().map(|(at, _)| *at);
        number.into_iter().chain(node).min()
    }

    /// How many have a later moment than this one, counted up to `most`.
    pub fn count_after(&self, at: Time, most: usize) -> usize {
        let numbers = self.numbers.range(later(at, u32::MAX)).take(most).count();
        numbers + self.nodes.range(later(at, LAST_NODE)).take(most - numbers).count()
    }

    /// The slots with this moment or an earlier one; numbers by moment and number, then nodes by moment and id.
    pub fn up_to(&self, at: Time) -> impl Iterator<Item = Slot> + '_ {
        let numbers = self.numbers.range(..=(at, u32::MAX)).map(|(_, n)| Slot::Number(*n));
        numbers.chain(self.nodes.range(..=(at, LAST_NODE)).map(|(_, id)| Slot::Node(*id)))
    }

    fn put(&mut self, at: Time, slot: Slot, there: bool) {
        match (slot, there) {
            (Slot::Number(n), true) => self.numbers.insert((at, n)).is_some(),
            (Slot::Number(n), false) => self.numbers.remove(&(at, n)).is_some(),
            (Slot::Node(id), true) => self.nodes.insert((at, id)).is_some(),
            (Slot::Node(id), false) => self.nodes.remove(&(at, id)).is_some(),
        };
    }
}

/// Everything after this moment.
fn later<T: Ord>(at: Time, last: T) -> impl RangeBounds<(Time, T)> {
    (Bound::Excluded((at, last)), Bound::Unbounded)
}

impl Rollout {
    fn new(terms: Terms) -> Self {
        Self {
            terms,
            idle: Places::default(),
            outdated: Places::default(),
            waiting: Moments::default(),
            starting: Moments::default(),
            running: Moments::default(),
            found: 0,
            apart: Places::default(),
        }
    }

    /// Outdated slots whose task does not run, or shall not yet; in order.
    pub fn idle(&self) -> impl Iterator<Item = Slot> + '_ {
        self.idle.iter()
    }

    /// Outdated slots whose task runs, in order.
    pub fn outdated(&self) -> impl Iterator<Item = Slot> + '_ {
        self.outdated.iter()
    }

    /// How many slots are outdated, idle or running.
    pub fn outdated_count(&self) -> u32 {
        self.idle.len() + self.outdated.len()
    }

    /// Slots whose new task has no node yet, by the moment at which it was made.
    pub fn waiting(&self) -> &Moments {
        &self.waiting
    }

    /// Slots whose new task has a node and does not run yet, by the moment at which it came to its state.
    pub fn starting(&self) -> &Moments {
        &self.starting
    }

    /// Slots whose new task runs, by the moment since when.
    pub fn running(&self) -> &Moments {
        &self.running
    }

    /// How many slots have a running task of the current revision that the update found there.
    pub fn found(&self) -> u32 {
        self.found
    }

    /// The slots of which the tasks have to be asked, in order.
    pub fn apart(&self) -> impl Iterator<Item = Slot> + '_ {
        self.apart.iter()
    }

    fn put(&mut self, slot: Slot, stand: Stand, there: bool) {
        let set = match stand {
            Stand::Idle => &mut self.idle,
            Stand::Outdated => &mut self.outdated,
            Stand::Apart => &mut self.apart,
            Stand::Waiting(at) => return self.waiting.put(at, slot, there),
            Stand::Starting(at) => return self.starting.put(at, slot, there),
            Stand::Running(at) => return self.running.put(at, slot, there),
            Stand::Found { runs: false } => return,
            Stand::Found { runs: true } => {
                self.found = if there { self.found + 1 } else { self.found - 1 };
                return;
            }
        };
        if there {
            set.add(slot);
        } else {
            set.take(slot);
        }
    }
}

impl Terms {
    /// Those of a service, if it is kept how far it is: it is no job, and a revision is on its way through all of its slots.
    fn of(service: &Service, used: &ServiceUse) -> Option<Self> {
        let replicas = match service.mode {
            Mode::Replicated { replicas } => Some(replicas),
            Mode::Global => None,
            Mode::Batch { .. } | Mode::GlobalBatch => return None,
        };
        let status = service.update_status.as_ref();
        let active = status.is_some_and(|status| status.state.is_active());
        let outdated = used.by_other_revisions(service.revision) > 0;
        let began = status.map_or(0, |status| status.began);
        let kept = (active || outdated) && !service.tries_canaries();
        kept.then_some(Self { revision: service.revision, began, replicas })
    }

    fn is_new(&self, task: &Task) -> bool {
        task.revision == self.revision && task.created > self.began
    }

    /// Where a slot with these tasks stands that has its place; nowhere without any.
    fn stand<'t>(&self, tasks: impl Iterator<Item = &'t Task>) -> Option<Stand> {
        let (mut any, mut plain, mut held, mut new) = (false, true, 0, 0);
        let mut filling: Option<&Task> = None;
        for task in tasks {
            any = true;
            plain &= task.modified < SPECULATED && !(task.fills_slot() && filling.is_some());
            held += u32::from(task.holds_reservation());
            new += u32::from(self.is_new(task));
            filling = if task.fills_slot() { Some(task) } else { filling };
        }
        let Some(task) = filling.filter(|_| plain) else { return any.then_some(Stand::Apart) };
        let state = task.status.state;
        let runs = state == TaskState::Running;
        let stand = match (self.is_new(task), new) {
            (true, 1) if state < TaskState::Assigned => Stand::Waiting(task.created_at),
            (true, 1) if !runs => Stand::Starting(task.status.applied_at),
            (true, 1) if held <= 1 => Stand::Running(task.status.applied_at),
            (false, 0) if task.revision == self.revision => Stand::Found { runs },
            (false, 0) if runs && task.desired == Desired::Running => Stand::Outdated,
            (false, 0) => Stand::Idle,
            _ => Stand::Apart,
        };
        Some(stand)
    }
}

impl Tables {
    /// How far the slots of a service are with its current revision; `None` for a job, while none is on its way, and while it is
    /// tried by canaries.
    pub fn rollout(&self, service: ServiceId) -> Option<&Rollout> {
        self.rollouts.get(self.service_handles.get(&service)?).map(|rollout| &**rollout)
    }

    /// As [`rollout`](Self::rollout), with some slots put apart, whatever their tasks say. Costs those slots.
    pub fn rollout_with_apart(
        &self,
        service: ServiceId,
        slots: impl Iterator<Item = Slot>,
    ) -> Option<Rollout> {
        let handle = *self.service_handles.get(&service)?;
        let mut rollout = Rollout::clone(self.rollouts.get(&handle)?);
        for slot in slots {
            if let Some(stand) = self.stand(handle, slot) {
                rollout.put(slot, stand, false);
                rollout.put(slot, Stand::Apart, true);
            }
        }
        Some(rollout)
    }

    /// Where a slot stands, if that is kept.
    pub(crate) fn stand(&self, service: u32, slot: Slot) -> Option<Stand> {
        let terms = self.rollouts.get(&service)?.terms;
        let number = |n: u32| self.numbered(service, n..=n).map(|task| &**task);
        let node = |id: NodeId| self.on_nodes(service, id..=id).map(|task| &**task);
        if !self.takes_part(&terms, slot) {
            return None;
        }
        match slot {
            Slot::Number(n) => terms.stand(number(n)),
            Slot::Node(id) => terms.stand(node(id)),
        }
    }

    /// True for a slot that has its place; that of a node, while the node takes tasks of the service.
    fn takes_part(&self, terms: &Terms, slot: Slot) -> bool {
        match (slot, terms.replicas) {
            (Slot::Number(n), Some(replicas)) => n < replicas,
            (Slot::Node(id), None) => self.node(id).is_some_and(|node| {
                let placement = self.revision(terms.revision).map(|r| &r.task.placement);
                let fits = placement.is_some_and(|p| p.misfit(node).is_none());
                node.takes_tasks() && node.meta.modified < SPECULATED && fits
            }),
            _ => false,
        }
    }

    /// Keeps where a slot stands after a change of its tasks or its node; `before` is where it stood.
    pub(crate) fn keep_stand(&mut self, service: u32, slot: Slot, before: Option<Stand>) {
        let after = self.stand(service, slot);
        if before == after {
            return;
        }
        if let Some(rollout) = self.rollouts.get_mut(&service) {
            let rollout = Arc::make_mut(rollout);
            before.into_iter().for_each(|stand| rollout.put(slot, stand, false));
            after.into_iter().for_each(|stand| rollout.put(slot, stand, true));
        }
    }

    /// Where the slots of a node stand, for each service for which that is kept. To be kept after a change of the node.
    pub(crate) fn stands_on(&self, node: NodeId) -> Vec<(u32, Option<Stand>)> {
        let global = self.rollouts.iter().filter(|(_, rollout)| rollout.terms.replicas.is_none());
        global.map(|(service, _)| (*service, self.stand(*service, Slot::Node(node)))).collect()
    }

    /// Begins or ceases to keep where the slots of a service stand, after a change of the service or of what fills its slots. Costs its
    /// tasks when another revision sets out, or the number of replicas changes on its way; else a look.
    pub(crate) fn keep_rollout(&mut self, service: u32) {
        let Some(entry) = self.services.get(service) else { return };
        let terms = entry.service.as_ref().and_then(|s| Terms::of(s, &entry.used));
        if self.rollouts.get(&service).map(|rollout| rollout.terms) == terms {
            return;
        }
        match terms {
            None => self.rollouts.remove(&service),
            Some(terms) => {
                let rollout = self.survey(service, terms);
                self.rollouts.insert(service, Arc::new(rollout))
            }
        };
    }

    fn survey(&self, service: u32, terms: Terms) -> Rollout {
        let mut rollout = Rollout::new(terms);
        let mut tasks: Vec<&Task> = Vec::new();
        let mut put = |tasks: &[&Task]| {
            if let Some(slot) = tasks.first().map(|task| task.slot)
                && self.takes_part(&terms, slot)
                && let Some(stand) = terms.stand(tasks.iter().copied())
            {
                rollout.put(slot, stand, true);
            }
        };
        let numbered = self.numbered(service, 0..=u32::MAX);
        for task in numbered.chain(self.on_nodes(service, FIRST_NODE..=LAST_NODE)) {
            if tasks.first().is_some_and(|first| first.slot != task.slot) {
                put(&tasks);
                tasks.clear();
            }
            tasks.push(task);
        }
        put(&tasks);
        rollout
    }
}
