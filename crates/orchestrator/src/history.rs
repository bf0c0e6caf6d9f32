//! What is kept of tasks that have ended.
//!
//! In each slot the newest `Cluster.history` ended tasks are kept, and besides them whatever the replace
//! policy still counts: as many ends of the newest task's revision as decide that its attempts are used up.
//! In a slot that nothing fills the newest task is always kept: it is the only memory of why the slot is
//! empty. While an update is under way, the task that told each slot's verdict is kept; where the old task
//! still fills its slot, so is the newest new one, which says what has been tried. Of a batch service the task is
//! kept that makes its slot done, or given up. A task that has not ended is never deleted here.

use std::collections::BTreeSet;

use model::{Desired, Task, TaskId, Time, limits};
use store::Tables;

use crate::batch;
use crate::course::Verdict;
use crate::plan::Draft;
use crate::removal::holds_nothing;
use crate::replace;
use crate::wanted::Wanted;

/// How many ended tasks of a slot are kept.
pub(crate) fn kept(view: &Tables) -> usize {
    view.cluster().map_or(limits::HISTORY_KEPT, |c| c.history as usize)
}

/// Deletes what is beyond that. `tasks` are those of one slot, oldest first.
///
/// What is kept is read from the slot's tasks, the cluster and the service's update, so that nothing but
/// their events can make more of it superfluous.
pub(crate) fn trim(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, tasks: &[&Task]) {
    let kept = kept(draft.view);
    let ended: Vec<&Task> =
        tasks.iter().copied().filter(|t| t.status.state.is_ended() && t.desired != Desired::Remove).collect();
    let surplus = ended.len().saturating_sub(kept);
    if surplus == 0 {
        return;
    }
    let needed = still_needed(draft.now, wanted, tasks);
    for task in ended[..surplus].iter().filter(|t| !needed.contains(&t.id)) {
        if !draft.has_room() {
            return;
        }
        draft.delete(task);
    }
}

fn still_needed(now: Time, wanted: &Wanted<'_>, tasks: &[&Task]) -> BTreeSet<TaskId> {
    let view = wanted.view;
    let Some(newest) = tasks.iter().rev().find(|t| t.desired != Desired::Remove) else {
        return BTreeSet::new();
    };
    let count = view.revision(newest.revision).map_or(0, |r| replace::to_keep(&r.task.replace));
    let mut needed: BTreeSet<TaskId> =
        replace::counted(tasks, newest.revision).take(count).map(|t| t.id).collect();
    let closing: Vec<TaskId> = match wanted.service.mode.is_batch() {
        true => tasks.iter().filter(|t| batch::closes(wanted, t)).map(|t| t.id).collect(),
        false => Vec::new(),
    };
    if closing.is_empty() && !tasks.iter().any(|t| t.fills_slot()) {
        needed.insert(newest.id);
    }
    if wanted.is_updating()
        && let Verdict::Failed(task) | Verdict::Good(task) = wanted.verdict(now, tasks)
    {
        needed.insert(task.id);
    }
    if tasks.iter().any(|t| t.fills_slot() && t.revision != wanted.service.revision) {
        needed.extend(tasks.iter().rev().find(|t| wanted.is_new(t)).map(|t| t.id));
    }
    needed.extend(closing);
    needed
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
