//! Derived: how far the numbered slots of a service are with its current revision, while one is on its way. Kept so that the next step of an
//! update costs the slots in change, and not every slot there is.
//!
//! Each slot stands in one place. What a place says is true whatever the time is, so that only a change of the slot's own tasks moves it:
//! those that are watched are kept by the moment since when. Whatever is not plain stands apart, and is looked at task by task.
//!
//! | place | the one task that fills the slot |
//! | --- | --- |
//! | outdated, idle or running | is of another revision, and the update has tried nothing in the slot |
//! | waiting, starting or running | was made by the update, as the first in the slot, and has the slot to itself once it runs |
//! | found | is of the current revision, and was there before the update; the update has made none in the slot |
//! | apart | there is none, or several, or the slot has had more than one task of the update, or one is in flight |

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdSet;
use model::{Desired, Index, Mode, RevisionId, Service, ServiceId, Slot, Task, TaskState, Time};

use crate::apply::SPECULATED;
use crate::slots::SlotSet;
use crate::{ServiceUse, Tables};

/// How far the numbered slots of a service are with its current revision. Clones share memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    terms: Terms,
    idle: SlotSet,
    outdated: SlotSet,
    waiting: Moments,
    starting: Moments,
    running: Moments,
    /// How many slots stand in `found` whose task runs.
    found: u32,
    apart: SlotSet,
}

/// What decides where a slot stands, besides its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    revision: RevisionId,
    /// Tasks of that revision that were made later were made by the update.
    began: Index,
    /// Slots from here on are on their way out, and stand nowhere.
    replicas: u32,
}

/// Slots, each with a moment. Clones share memory.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Moments(OrdSet<(Time, u32)>);

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
        self.0.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The earliest moment of all.
    pub fn first(&self) -> Option<Time> {
        self.0.get_min().map(|(at, _)| *at)
    }

    /// The earliest moment after this one.
    pub fn first_after(&self, at: Time) -> Option<Time> {
        self.after(at).next().map(|(at, _)| *at)
    }

    /// How many have a later moment than this one, counted up to `most`.
    pub fn count_after(&self, at: Time, most: usize) -> usize {
        self.after(at).take(most).count()
    }

    /// The slots with this moment or an earlier one, by moment, then by number.
    pub fn up_to(&self, at: Time) -> impl Iterator<Item = u32> + '_ {
        self.0.range(..=(at, u32::MAX)).map(|(_, n)| *n)
    }

    fn after(&self, at: Time) -> impl Iterator<Item = &(Time, u32)> + '_ {
        self.0.range((Bound::Excluded((at, u32::MAX)), Bound::Unbounded))
    }

    fn put(&mut self, at: Time, n: u32, there: bool) {
        if there {
            self.0.insert((at, n));
        } else {
            self.0.remove(&(at, n));
        }
    }
}

impl Rollout {
    fn new(terms: Terms) -> Self {
        Self {
            terms,
            idle: SlotSet::default(),
            outdated: SlotSet::default(),
            waiting: Moments::default(),
            starting: Moments::default(),
            running: Moments::default(),
            found: 0,
            apart: SlotSet::default(),
        }
    }

    /// Outdated slots whose task does not run, or shall not yet; in order.
    pub fn idle(&self) -> impl Iterator<Item = u32> + '_ {
        self.idle.iter()
    }

    /// Outdated slots whose task runs, in order.
    pub fn outdated(&self) -> impl Iterator<Item = u32> + '_ {
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
    pub fn apart(&self) -> impl Iterator<Item = u32> + '_ {
        self.apart.iter()
    }

    fn put(&mut self, n: u32, stand: Stand, there: bool) {
        let set = match stand {
            Stand::Idle => &mut self.idle,
            Stand::Outdated => &mut self.outdated,
            Stand::Apart => &mut self.apart,
            Stand::Waiting(at) => return self.waiting.put(at, n, there),
            Stand::Starting(at) => return self.starting.put(at, n, there),
            Stand::Running(at) => return self.running.put(at, n, there),
            Stand::Found { runs: false } => return,
            Stand::Found { runs: true } => {
                self.found = if there { self.found + 1 } else { self.found - 1 };
                return;
            }
        };
        if there {
            set.insert(n);
        } else {
            set.remove(n);
        }
    }
}

impl Terms {
    /// Those of a service, if its slots are to be kept: it is replicated, and a revision is on its way through all of them.
    fn of(service: &Service, used: &ServiceUse) -> Option<Self> {
        let Mode::Replicated { replicas } = service.mode else { return None };
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

    /// Where a slot with these tasks stands; nowhere without any.
    fn stand<'t>(&self, n: u32, tasks: impl Iterator<Item = &'t Task>) -> Option<Stand> {
        if n >= self.replicas {
            return None;
        }
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
    /// How far the slots of a replicated service are with its current revision; `None` while none is on its way, or it is
    /// tried by canaries.
    pub fn rollout(&self, service: ServiceId) -> Option<&Rollout> {
        self.rollouts.get(self.service_handles.get(&service)?).map(|rollout| &**rollout)
    }

    /// As [`rollout`](Self::rollout), with some slots put apart, whatever their tasks say. Costs those slots.
    pub fn rollout_with_apart(
        &self,
        service: ServiceId,
        slots: impl Iterator<Item = u32>,
    ) -> Option<Rollout> {
        let handle = *self.service_handles.get(&service)?;
        let mut rollout = Rollout::clone(self.rollouts.get(&handle)?);
        for n in slots {
            if let Some(stand) = self.stand(handle, Slot::Number(n)) {
                rollout.put(n, stand, false);
                rollout.put(n, Stand::Apart, true);
            }
        }
        Some(rollout)
    }

    /// Where a slot stands, if that is kept.
    pub(crate) fn stand(&self, service: u32, slot: Slot) -> Option<Stand> {
        let Slot::Number(n) = slot else { return None };
        let terms = self.rollouts.get(&service)?.terms;
        terms.stand(n, self.numbered(service, n..=n).map(|task| &**task))
    }

    /// Keeps where a slot stands after a change of its tasks; `before` is where it stood.
    pub(crate) fn keep_stand(&mut self, service: u32, slot: Slot, before: Option<Stand>) {
        let after = self.stand(service, slot);
        let Slot::Number(n) = slot else { return };
        if before == after {
            return;
        }
        if let Some(rollout) = self.rollouts.get_mut(&service) {
            let rollout = Arc::make_mut(rollout);
            before.into_iter().for_each(|stand| rollout.put(n, stand, false));
            after.into_iter().for_each(|stand| rollout.put(n, stand, true));
        }
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
        let mut slot: Vec<&Task> = Vec::new();
        let mut put = |slot: &[&Task]| {
            if let Some(Slot::Number(n)) = slot.first().map(|task| task.slot)
                && let Some(stand) = terms.stand(n, slot.iter().copied())
            {
                rollout.put(n, stand, true);
            }
        };
        for task in self.numbered(service, 0..=u32::MAX) {
            if slot.first().is_some_and(|first| first.slot != task.slot) {
                put(&slot);
                slot.clear();
            }
            slot.push(task);
        }
        put(&slot);
        rollout
    }
}
