//! The reaper: what is kept of tasks that have ended, and what is forgotten.
//!
//! By three settings of the cluster. Of each slot the newest `history` ended tasks are kept, and of the older ones the
//! newest `history_failed` that failed or were rejected. With a `history_age` nothing of that is kept for longer than so
//! long after its end, by the log's clock.
//!
//! Whatever they say, kept is what decides something: as many ends of the newest task's revision as its replace
//! policy still counts; in a slot that nothing fills the newest task, which is the only memory of why the slot is
//! empty; while an update is under way the task that told each slot's verdict; and where the old task still fills its slot,
//! the newest new one, which says what has been tried; and of a batch service the task that makes its slot done, or given up. A
//! task that has not ended is never deleted here.
//!
//! The tasks of a slot stand in the store in the order in which they were made, so choosing the newest costs one walk:
//! nothing is sorted. A plan deletes at most [`PLAN_OBJECTS`](crate::PLAN_OBJECTS) tasks of one slot, the oldest first; a
//! lower limit is a key for each slot that has too many, not one plan. What is left of removed services, of slots that are
//! not wanted any more, and of nodes that are gone is [`removal`](crate::removal)'s.

use std::collections::BTreeSet;

use model::{Desired, Span, Task, TaskId, TaskState, Time, limits};
use store::Tables;

use crate::batch;
use crate::course::Verdict;
use crate::plan::Draft;
use crate::removal::holds_nothing;
use crate::replace;
use crate::wanted::Wanted;

/// What the cluster says of ended tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct History {
    /// So many of the newest are kept.
    count: usize,
    /// Of the others, so many of the newest that failed or were rejected.
    failed: usize,
    /// For so long at most; zero means for any time.
    age: Span,
}

impl History {
    pub(crate) fn of(view: &Tables) -> Self {
        view.cluster().map_or(Self { count: limits::HISTORY_KEPT, failed: 0, age: Span::ZERO }, |c| Self {
            count: c.history as usize,
            failed: c.history_failed as usize,
            age: c.history_age,
        })
    }

    /// True for the ended task of a slot, counted from 1, at which it is found out that the slot has to be looked at: because it
    /// has more than are kept, or has to be awaited.
    pub(crate) fn is_reached_by(&self, ended: usize) -> bool {
        ended == if self.age > Span::ZERO { 1 } else { self.count + 1 }
    }

    /// Until when a task may be kept; `None` for any time.
    fn until(&self, task: &Task) -> Option<Time> {
        (self.age > Span::ZERO).then(|| task.status.applied_at + self.age)
    }

    /// The ended tasks of a slot that need not be kept, oldest first like those given; and when the next one of the others
    /// has to go.
    fn surplus<'t>(&self, now: Time, ended: &[&'t Task]) -> (Vec<&'t Task>, Option<Time>) {
        let mut failed = 0;
        let mut surplus = Vec::new();
        let mut next: Option<Time> = None;
        for (newer, task) in ended.iter().rev().enumerate() {
            let kept = newer < self.count || {
                let bad = matches!(task.status.state, TaskState::Failed | TaskState::Rejected);
                failed += usize::from(bad);
                bad && failed <= self.failed
            };
            match self.until(task) {
                Some(at) if kept && at > now => next = Some(next.map_or(at, |other| other.min(at))),
                None if kept => {}
                _ => surplus.push(*task),
            }
        }
        surplus.reverse();
        (surplus, next)
    }
}

/// Deletes what need not be kept. `tasks` are those of one slot, oldest first.
///
/// What is kept is read from the slot's tasks, the cluster, the service's update and the clock, so that nothing but
/// their events, or the moment that is awaited, can make more of it superfluous.
pub(crate) fn trim(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, tasks: &[&Task]) {
    let history = History::of(draft.view);
    let ended: Vec<&Task> =
        tasks.iter().copied().filter(|t| t.status.state.is_ended() && t.desired != Desired::Remove).collect();
    let (surplus, next) = history.surplus(draft.now, &ended);
    if let Some(next) = next {
        draft.wake(next);
    }
    if surplus.is_empty() {
        return;
    }
    let needed = still_needed(draft.now, wanted, tasks);
    for task in surplus.into_iter().filter(|t| !needed.contains(&t.id)) {
        if !draft.has_room() {
            return;
        }
        draft.delete(task);
    }
}

fn still_needed(now: Time, wanted: &Wanted<'_>, tasks: &[&Task]) -> BTreeSet<TaskId> {
    let Some(newest) = replace::deciding(tasks, wanted.service.revision) else {
        return BTreeSet::new();
    };
    let mut needed = counting(wanted, tasks, newest);
    if wanted.service.tries_canaries() || wanted.service.is_aborted() {
        // Each of the two lines of tasks has a memory of its own.
        let of = |current: bool| {
            let here = tasks.iter().copied().filter(|t| (t.revision == wanted.service.revision) == current);
            here.collect::<Vec<&Task>>()
        };
        for line in [of(true), of(false)] {
            if let Some(newest) = line.iter().rev().find(|t| t.desired < Desired::Shutdown) {
                needed.extend(counting(wanted, &line, newest));
                needed.insert(newest.id);
            }
        }
    }
    let closing: Vec<TaskId> = match wanted.service.mode.is_batch() {
        true => tasks.iter().filter(|t| batch::closes(wanted, t)).map(|t| t.id).collect(),
        false => Vec::new(),
    };
    if closing.is_empty() && !tasks.iter().any(|t| t.fills_slot()) {
        needed.insert(newest.id);
    }
    if (wanted.is_updating() || wanted.service.tries_canaries())
        && let Verdict::Failed(task) | Verdict::Good(task) = wanted.verdict(now, tasks)
    {
        needed.insert(task.id);
    }
    if let Some(leaving) = tasks.iter().find(|t| t.fills_slot() && t.leave.is_some()) {
        // What has been tried for a task that leaves says when it is tried again.
        let tried = tasks.iter().rev().find(|t| t.created > leaving.created && t.status.state.is_ended());
        needed.extend(tried.map(|t| t.id));
    }
    if tasks.iter().any(|t| t.fills_slot() && t.revision != wanted.service.revision) {
        needed.extend(tasks.iter().rev().find(|t| wanted.is_new(t)).map(|t| t.id));
    }
    needed.extend(closing);
    needed
}

/// The ends that the replace policy still counts, in one line of tasks.
fn counting(wanted: &Wanted<'_>, tasks: &[&Task], newest: &Task) -> BTreeSet<TaskId> {
    let count = wanted.view.revision(newest.revision).map_or(0, |r| replace::to_keep(&r.task.replace));
    replace::counted(tasks, newest.revision, wanted.beside()).take(count).map(|t| t.id).collect()
}

/// Takes the last step of tasks that were told to go and hold nothing any more: those to be forgotten, and
/// those that were told to end before any agent had them. True for each task that is still there.
pub(crate) fn sweep(draft: &mut Draft<'_, '_>, task: &Task) -> bool {
    let over = is_over(task);
    if over && draft.has_room() {
        draft.delete(task);
    }
    !over
}

/// True when a task was told to go, holds nothing any more, and nobody needs to know of it.
pub(crate) fn is_over(task: &Task) -> bool {
    match task.desired {
        Desired::Remove => holds_nothing(task),
        Desired::Shutdown => holds_nothing(task) && !task.status.state.is_ended(),
        Desired::Ready | Desired::Running | Desired::Complete => false,
    }
}
