//! Batch services: tasks that run to their end, once. In numbered slots so many times in all and so many at once (`batch`),
//! or once on each node that complies (`global-batch`).
//!
//! Each revision of the spec is an *iteration*: every slot is to be done again, and what still runs of an older one is
//! told to end. What a slot of the current iteration says:
//!
//! | the slot | is | because |
//! | --- | --- | --- |
//! | done | left alone for ever | a task of it is complete, whoever told it what meanwhile |
//! | given up | left alone for ever | its newest end is not replaced (the task is desired `Complete`) |
//! | in progress | tended as any other | a task fills it, or has ended and nobody has decided what follows |
//! | fresh | begun when its turn comes | nothing of it has begun, or what had was taken away again |
//!
//! Three rooms: [`fill`] begins fresh slots, the lowest first, while fewer are in progress than may be at once;
//! [`reconcile`] looks at one slot and never begins a numbered one; `apply` refuses a task in a slot that is done, and one
//! that would put too many slots in progress: both may happen when a change in flight is lost.
//!
//! A task that is lost with its node keeps its slot's place among those in progress, and counts as no attempt. When fewer may be
//! at once than are in progress (the number was lowered), none is ended; but a slot whose task ends badly has to wait for its turn.
//!
//! Costs: a slot, its own tasks; the service, what is begun and what is in progress. The slots that are done, fresh or given up
//! are passed over by intervals.

use model::{Mode, Rule, Slot, Task, TaskState};

use crate::plan::{Draft, number_of};
use crate::wanted::{Place, Wanted};
use crate::{reaper, removal, slot};

/// Begins slots 0 to `completions - 1` as far as they may be in progress, and empties the others.
pub(crate) fn fill(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, completions: u32) {
    removal::surplus(draft, wanted, "completions", completions);
    let (used, current) = (wanted.used(), wanted.service.revision);
    if used.by_other_revisions(current) > 0 {
        // The slots are free once they were told; their events lead back here.
        return end_older(draft, wanted);
    }
    for slot in used.doubled_slots().filter(|slot| *slot < Slot::Number(completions)) {
        if !draft.has_room() {
            return;
        }
        slot::reconcile_wanted(draft, wanted, slot);
    }
    decide_open(draft, wanted, completions);
    let at_once = wanted.service.mode.at_once();
    let mut in_progress = used.filled() + used.undecided(current);
    let mut n = used.first_fresh(current, 0);
    while n < completions && in_progress < at_once && draft.has_room() {
        in_progress += u32::from(begin(draft, wanted, Slot::Number(n)));
        n = used.first_fresh(current, n + 1);
    }
}

/// Tells the tasks of older iterations to end.
fn end_older(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>) {
    for n in wanted.used().filled_numbers() {
        if !draft.has_room() {
            return;
        }
        slot::reconcile_wanted(draft, wanted, Slot::Number(n));
    }
}

/// Slots whose task has ended, the lowest first, as far as there is room. Mostly the slot's own key was there before; but one that
/// had to wait for its turn is not looked at by itself.
fn decide_open(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, completions: u32) {
    let (used, id) = (wanted.used(), wanted.id());
    let room = wanted.service.mode.at_once().saturating_sub(used.filled()) as usize;
    for n in used.undecided_numbers(wanted.service.revision).take_while(|n| *n < completions) {
        if draft.created_for(id) >= room || !draft.has_room() {
            return;
        }
        slot::reconcile_wanted(draft, wanted, Slot::Number(n));
    }
}

/// The first task of a slot in this iteration, or the next one after the last was taken away. False when something of the slot is in
/// flight.
fn begin(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, slot: Slot) -> bool {
    let tasks: Vec<&Task> = wanted.view.tasks_of_slot(wanted.id(), slot).map(|t| &**t).collect();
    if tasks.iter().any(|t| !wanted.view.is_settled(t.modified)) {
        return false;
    }
    let id = slot::start(draft, wanted, slot, &tasks, None);
    let (rule, rest) = match wanted.service.mode {
        Mode::Batch { completions, .. } => {
            let at_once = wanted.service.mode.at_once();
            (Rule::ScaleUp, format!("created: completions {completions}, at once {at_once}"))
        }
        _ => (Rule::GlobalAdd, "created: one for each node that complies".into()),
    };
    draft.count_once(id, wanted.id(), rule, rest);
    true
}

/// Looks at one slot. `tasks` are all of it, the oldest first, none of them in flight.
pub(crate) fn reconcile(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, slot: Slot, tasks: &[&Task]) {
    let place = wanted.place(slot);
    match &place {
        Place::LeaveAlone => return,
        Place::Unwanted(why) => return empty_out(draft, wanted, slot, tasks, why),
        Place::Wanted | Place::Kept | Place::Away(_) => {}
    }
    if end_superfluous(draft, wanted, slot, tasks) {
        // What becomes of the slot is seen once they are on their way out.
        return;
    }
    if is_done(wanted, tasks) {
        settle_ends(draft, wanted, tasks);
    } else {
        match place {
            Place::Away(why) => slot::give_up_all(draft, tasks, &why),
            Place::Kept => slot::keep(draft, wanted, tasks),
            _ => tend(draft, wanted, slot, tasks),
        }
    }
    reaper::trim(draft, wanted, tasks);
}

/// A slot without a place. On a node that is still there and only does not comply, what tells that the slot is done or given up
/// stays: labels that change twice make nothing run again.
fn empty_out(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, slot: Slot, tasks: &[&Task], why: &str) {
    let there = matches!(slot, Slot::Node(id) if wanted.view.node(id).is_some());
    let goes = |task: &&&Task| !(there && closes(wanted, task));
    let tasks: Vec<&Task> = tasks.iter().filter(goes).copied().collect();
    slot::empty_out(draft, wanted, &tasks, why);
}

/// Tells tasks to end that nobody waits for any more: those of older iterations, and those in a slot that is done. True when there
/// was one.
fn end_superfluous(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, slot: Slot, tasks: &[&Task]) -> bool {
    let current = wanted.service.revision;
    let done = is_done(wanted, tasks);
    let mut any = false;
    for task in tasks.iter().filter(|t| t.fills_slot() && (done || t.revision != current)) {
        if !draft.has_room() {
            return true;
        }
        if task.revision != current {
            let number = number_of(wanted.view, current);
            let rest = format!("of an older iteration told to end: iteration {number} has begun");
            draft.count_once(task.id, wanted.id(), Rule::Update, rest);
        } else {
            let text = format!(
                "{} is done: its next task is not needed",
                crate::wanted::slot_name(wanted.view, slot)
            );
            draft.note(task, Rule::Duplicate, text);
        }
        removal::stop(draft, task);
        any = true;
    }
    any
}

/// True when a task is complete in the current iteration.
fn completes(wanted: &Wanted<'_>, task: &Task) -> bool {
    task.revision == wanted.service.revision
        && task.status.state == TaskState::Complete
        && task.desired != model::Desired::Remove
}

fn is_done(wanted: &Wanted<'_>, tasks: &[&Task]) -> bool {
    tasks.iter().any(|task| completes(wanted, task))
}

/// True for the task that tells why nothing more runs in its slot in this iteration: that it is done, or given up. It is
/// kept whatever the history: without it the slot would be run again.
pub(crate) fn closes(wanted: &Wanted<'_>, task: &Task) -> bool {
    let given_up = task.status.state.is_ended() && task.desired == model::Desired::Complete;
    completes(wanted, task) || (given_up && task.revision == wanted.service.revision)
}

/// In a slot that is done nothing is left to decide.
fn settle_ends(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, tasks: &[&Task]) {
    let ours = tasks.iter().filter(|t| t.revision == wanted.service.revision);
    for task in ours.filter(|t| t.status.state.is_ended() && t.desired < model::Desired::Complete) {
        let complete = completes(wanted, task);
        draft.direct(task, if complete { model::Desired::Complete } else { model::Desired::Shutdown });
    }
}

/// A slot that shall be done.
fn tend(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, slot: Slot, tasks: &[&Task]) {
    let Some((lost, rest)) = slot::give_up_lost(draft, wanted, tasks) else { return };
    let used = wanted.used();
    if rest.iter().any(|t| t.fills_slot()) {
        slot::keep(draft, wanted, &rest);
    } else if lost.is_empty() {
        go_on(draft, wanted, slot, tasks);
    } else if used.filled() + used.undecided(wanted.service.revision) <= wanted.service.mode.at_once() {
        let start_after = lost.iter().filter_map(|task| task.start_after).max();
        slot::start(draft, wanted, slot, tasks, start_after);
    }
}

/// A slot that nothing fills and that is not done.
fn go_on(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, slot: Slot, tasks: &[&Task]) {
    let (used, current) = (wanted.used(), wanted.service.revision);
    if tasks.iter().any(|task| closes(wanted, task)) {
        return;
    }
    let open = |t: &&&Task| t.revision == current && t.desired < model::Desired::Complete;
    let Some(newest) = tasks.iter().rev().find(open).copied() else {
        if matches!(slot, Slot::Node(_)) {
            begin(draft, wanted, slot);
        }
        return;
    };
    if used.filled() >= wanted.service.mode.at_once() {
        return;
    }
    if newest.status.state == TaskState::Orphaned {
        let id = slot::start(draft, wanted, slot, tasks, None);
        draft.count(id, wanted.id(), Rule::NodeLost, "created for tasks whose node is gone".into());
    } else if let Some(at) = slot::decide(draft, wanted, newest, tasks) {
        slot::start(draft, wanted, slot, tasks, Some(at));
    }
}
