//! Tasks that are moved on purpose: off a drained node, or to where they are better off. A move is a second
//! task in the slot, made elsewhere, and the end of the first; this file says when either may happen.
//!
//! A task *leaves* while it runs, is wanted, and either its node is drained and its service has a budget, or
//! somebody said that it is better off elsewhere ([`model::Leave`]). That it leaves is kept with the task, so
//! that a service finds its leaving tasks without looking at the others. Drained tasks that do not run are no
//! loss: they go at once, and so do those of services without a budget, those whose node is down, and
//! everything that is left on a node when its deadline has passed ([`Wanted::loss`]).
//!
//! One owner for each slot: an outdated task that leaves belongs to the update, which gives its slot another
//! one elsewhere anyway. Only while the update is paused is it moved, with the revision that its slot has.
//!
//! | state of a move | it ends | at the latest | then |
//! | --- | --- | --- | --- |
//! | waits for its turn | when fewer slots than `max_surge` have two tasks (start-first), or more tasks run than `min_healthy` (stop-first) | the node's deadline | goes with all that is left |
//! | the new task waits for a node | when it is placed | the longer of `monitor` and 1 minute | it is ended; tried again after [`RETRY_AFTER`] |
//! | the new task is on its way | when it runs | 10 minutes in one state | likewise |
//! | both run | when the new one has run for `monitor` and more tasks run than `min_healthy` | the node's deadline | |
//! | the old task ends | when it has ended | its grace period | |
//!
//! A move for its own good is not tried again, and given up as well when the budget does not let the old task
//! go within 10 minutes. Whoever is given up, the old task runs on.
//!
//! The store has the last word: [`store::Change::RetireTask`] is refused where it would break the budget, so
//! that no task that fails meanwhile can make a move take too much.

use model::{Leave, LeaveReason, Rule, Span, Task, TaskState, Time};

use crate::course::{Progress, START_WITHIN};
use crate::plan::Draft;
use crate::wanted::{self, Wanted};
use crate::{removal, slot};

/// How long a slot whose move has failed is left alone, so that others have their turn.
pub(crate) const RETRY_AFTER: Span = Span::from_secs(60);

/// Begins as many moves of a service as its budget allows now, the lowest slot first. Costs the leaving tasks
/// of the service while there is room for another move, otherwise a few counters.
pub(crate) fn advance(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>) {
    for task in draft.view.tasks_leaving(wanted.id()) {
        let any = LeaveReason::ALL.iter().any(|why| has_turn(draft, wanted, *why));
        if !any || !draft.has_room() {
            return;
        }
        if !draft.has_touched(wanted.id(), task.slot) && !wanted.is_doubled(task.slot) {
            slot::reconcile_wanted(draft, wanted, task.slot);
        }
    }
}

/// How many slots of the service may have two tasks while they are moved for this reason; zero: the old task
/// goes first.
fn surge(wanted: &Wanted<'_>, why: LeaveReason) -> u32 {
    let surge = wanted.service.disruption.surge(wanted.replicas());
    match why {
        LeaveReason::Drain => surge,
        // Nobody has to go: whoever is moved for its own good is never missing meanwhile.
        LeaveReason::Rebalance => surge.max(1),
    }
}

/// Whether another move of the service may begin. Beside what is in flight none does: a second task that is about to end there may
/// turn out to stay.
fn has_turn(draft: &Draft<'_, '_>, wanted: &Wanted<'_>, why: LeaveReason) -> bool {
    match surge(wanted, why) {
        0 => draft.spare(wanted.service) > 0,
        surge => {
            let (view, id) = (draft.view, wanted.id());
            let settled = view.is_settled(view.service_index(id));
            settled && wanted.doubled() + draft.begun_beside(id) < surge
        }
    }
}

/// Whether a task may be told to end: it does not run, or enough others do.
pub(crate) fn may_retire(draft: &Draft<'_, '_>, wanted: &Wanted<'_>, task: &Task) -> bool {
    !draft.view.is_healthy(task) || draft.spare(wanted.service) > 0
}

/// Keeps with a task that fills its slot whether it leaves. What was tried for a task that stays is
/// forgotten: nothing is concluded from it.
pub(crate) fn remember(
    draft: &mut Draft<'_, '_>,
    wanted: &Wanted<'_>,
    task: &Task,
    leave: Option<Leave>,
    tasks: &[&Task],
) {
    let same = match (leave, task.leave.as_deref()) {
        (None, None) => true,
        (Some(is), Some(was)) => (is.why, is.to) == (was.why, was.to),
        _ => false,
    };
    if same {
        return;
    }
    if let Some(node) = task.node {
        draft.guard_node(node);
    }
    draft.guard_service(wanted.id());
    draft.leave(task, leave);
    if leave.is_none() {
        forget_tried(draft, task, tasks);
    }
}

fn forget_tried(draft: &mut Draft<'_, '_>, task: &Task, tasks: &[&Task]) {
    for tried in tasks.iter().filter(|t| is_attempt(task, t) && t.status.state.is_ended()) {
        removal::remove(draft, tried);
    }
}

/// True for a task that was made in the place of one that still fills the slot, and does not fill it any more.
fn is_attempt(task: &Task, other: &Task) -> bool {
    other.created > task.created && !other.fills_slot() && other.desired < model::Desired::Remove
}

/// A task that leaves and has its slot to itself: begins its move, if it has its turn.
pub(crate) fn begin(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, task: &Task, tasks: &[&Task]) {
    let Some(leave) = wanted.leaving(draft.now, task) else { return };
    if !wanted.moves(task) {
        return;
    }
    let since = task.leave.as_deref().map_or(draft.now, |l| l.since);
    let attempt = tasks.iter().rev().copied().find(|t| is_attempt(task, t) && t.created_at >= since);
    if let Some(attempt) = attempt {
        if leave.why == LeaveReason::Rebalance {
            return call_off(draft, wanted, task, tasks, &failure(draft, wanted, attempt));
        }
        if wanted::may_run(draft.view, attempt) {
            return;
        }
        let again = attempt.status.applied_at + RETRY_AFTER;
        if draft.now < again {
            return draft.wake(again);
        }
    }
    if !has_turn(draft, wanted, leave.why) {
        return;
    }
    if leave.to.is_some_and(|to| !wanted.may_go_to(task, to)) {
        return call_off(draft, wanted, task, tasks, "the node it was to go to does not take it any more");
    }
    let from = node_of(draft, task);
    let rule = rule_of(leave.why);
    task.node.into_iter().for_each(|node| draft.guard_node(node));
    if surge(wanted, leave.why) > 0 {
        let id = slot::start_for(draft, wanted, task.slot, tasks, leave.to);
        draft.begin_beside(wanted.id());
        draft.count(id, wanted.id(), rule, format!("made beside tasks that leave {from}"));
    } else {
        draft.retire(task);
        let id = slot::start(draft, wanted, task.slot, tasks, None);
        draft.count(id, wanted.id(), rule, format!("made for tasks that leave {from}, which end first"));
    }
}

/// A task that leaves beside the one that takes its place.
pub(crate) fn carry_on(
    draft: &mut Draft<'_, '_>,
    wanted: &Wanted<'_>,
    task: &Task,
    next: &Task,
    tasks: &[&Task],
) {
    let rebalance = wanted.leaving(draft.now, task).is_some_and(|l| l.why == LeaveReason::Rebalance);
    match wanted.progress(draft.now, next, tasks) {
        Progress::OnItsWay(until) => {
            draft.wake(until);
            let others: Vec<&Task> = tasks.iter().copied().filter(|t| !t.fills_slot()).collect();
            slot::release(draft, next, &others);
        }
        Progress::Watched(until) => draft.wake(until),
        Progress::Proven if may_retire(draft, wanted, task) => {
            let (from, to) = (node_of(draft, task), node_of(draft, next));
            let why = if rebalance { Rule::Rebalance } else { Rule::Drain };
            draft.guard_service(wanted.id());
            task.node.into_iter().for_each(|node| draft.guard_node(node));
            // If it fails meanwhile, the old one must stay.
            draft.guard_task(next);
            draft.count(task.id, wanted.id(), why, format!("left {from}: the next one runs on {to}"));
            draft.retire(task);
        }
        Progress::Proven => {
            let until = next.status.applied_at + START_WITHIN;
            if rebalance && draft.now >= until {
                let why = format!("its budget did not let it go within {START_WITHIN}");
                removal::remove(draft, next);
                call_off(draft, wanted, task, tasks, &why);
            } else if rebalance {
                draft.wake(until);
            }
        }
        Progress::Late if rebalance => {
            let why = failure(draft, wanted, next);
            removal::remove(draft, next);
            call_off(draft, wanted, task, tasks, &why);
        }
        Progress::Late => {
            let text = format!("{} stays for now: {}", name(draft, task), failure(draft, wanted, next));
            draft.note(task, Rule::Drain, text);
            if next.status.state < TaskState::Assigned {
                draft.abandon(next, wanted.why_unplaced(next));
            } else {
                removal::stop(draft, next);
            }
        }
    }
}

/// The task stays where it is, and the reason is kept.
fn call_off(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, task: &Task, tasks: &[&Task], why: &str) {
    draft.guard_service(wanted.id());
    let text = format!("{} stays on {}: {why}", name(draft, task), node_of(draft, task));
    draft.note(task, Rule::Rebalance, text);
    draft.leave(task, None);
    forget_tried(draft, task, tasks);
}

/// What became of a task that was to take the place of one that leaves.
fn failure(draft: &Draft<'_, '_>, wanted: &Wanted<'_>, next: &Task) -> String {
    match next.status.state {
        TaskState::Shutdown => match &next.status.message {
            Some(message) => format!("the next one {message}"),
            None => "the next one was told to end".into(),
        },
        TaskState::Orphaned => format!("the next one was lost with {}", node_of(draft, next)),
        _ => format!("of the next one: {}", wanted.failure(next)),
    }
}

fn rule_of(why: LeaveReason) -> Rule {
    match why {
        LeaveReason::Drain => Rule::Drain,
        LeaveReason::Rebalance => Rule::Rebalance,
    }
}

fn name(draft: &Draft<'_, '_>, task: &Task) -> String {
    wanted::slot_name(draft.view, task.slot)
}

fn node_of(draft: &Draft<'_, '_>, task: &Task) -> String {
    let node = task.node.and_then(|id| draft.view.node(id));
    node.map_or_else(|| "no node".into(), |node| format!("node {}", wanted::name_of(node)))
}

/// When the tasks on a node that is drained go whatever their budgets say, unless that has passed.
pub(crate) fn deadline(node: &model::Node, now: Time) -> Option<Time> {
    node.drain_until.filter(|until| now < *until && node.is_emptied_slowly(now))
}
