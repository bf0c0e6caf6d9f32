//! One slot: the room in which tasks are replaced. Costs the tasks of that slot and nothing else.
//!
//! How a slot is read. A task *fills* it while it is wanted and has not ended. What an ended task's desired
//! state says:
//!
//! | desired | meaning |
//! | --- | --- |
//! | `Ready`, `Running` | it ended and nobody has decided about it yet; or (beside a newer task) never will |
//! | `Complete` | it ended, and its policy does not replace it: the slot stays empty for this revision (of a batch service: it is done or given up) |
//! | `Shutdown` | another took its place, or it was taken off its node: it has no say any more |
//! | `Remove` | it is to be forgotten, and nothing is concluded from it |
//!
//! Two tasks of a slot never run at once by intent: while an old one may still run, the new one is made
//! `Ready` and waits, for one minute at most. A node that is down is not waited for. The one exception is a
//! start-first update, which makes a task of the new revision beside the old one. Both then fill the slot,
//! until the new one has run for `monitor` and the old one is told to end, or until the new one has ended
//! and [`crate::update`] decides about it. Likewise a task that leaves its node and the one that takes its
//! place elsewhere: see [`crate::drain`].
//!
//! While an update tries canaries, a slot of theirs has two lines of tasks: its own, which goes on as if there were no
//! update, here; and the canary's, which [`crate::canary`] begins and replaces. Neither ever ends the other.

use model::{
    Desired, Leave, NodeId, RevisionId, Rule, Service, Slot, Span, Task, TaskState, Time, UpdateOrder,
    UpdateState,
};

use crate::batch;
use crate::course::Progress;
use crate::plan::{Draft, number_of};
use crate::reaper;
use crate::removal;
use crate::replace::{self, Verdict};
use crate::wanted::{self, Found, Place, Wanted};
use crate::{drain, enforcer};

/// How long a new task waits for the old one of its slot to end. SwarmKit's constant.
pub(crate) const OLD_TASK_PATIENCE: Span = Span::from_secs(60);

/// Reconciles a slot of whatever is found under the service's id.
pub(crate) fn reconcile(draft: &mut Draft<'_, '_>, service: model::ServiceId, slot: Slot) {
    match wanted::find(draft.view, service) {
        Found::LeaveAlone => {}
        Found::Here(wanted) => reconcile_wanted(draft, &wanted, slot),
        Found::Gone => {
            for task in draft.view.tasks_of_slot(service, slot) {
                if !draft.has_room() {
                    return;
                }
                if removal::remove(draft, task) {
                    draft.guard_service(service);
                }
            }
        }
    }
}

/// Reconciles a slot of a service that is there.
pub(crate) fn reconcile_wanted(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, slot: Slot) {
    let view = draft.view;
    let mut tasks: Vec<&Task> = view.tasks_of_slot(wanted.id(), slot).map(|t| &**t).collect();
    if tasks.iter().any(|t| !view.is_settled(t.modified)) {
        return;
    }
    tasks.retain(|t| reaper::sweep(draft, t));
    for node in tasks.iter().filter(|t| t.fills_slot()).filter_map(|t| t.node) {
        enforcer::judge(draft, node);
    }
    if wanted.service.mode.is_batch() {
        return batch::reconcile(draft, wanted, slot, &tasks);
    }
    match wanted.place(slot) {
        Place::LeaveAlone => return,
        Place::Unwanted(why) => return empty_out(draft, wanted, &tasks, &why),
        Place::Away(why) => give_up_all(draft, &tasks, &why),
        Place::Kept => keep(draft, wanted, &tasks),
        Place::Wanted => tend(draft, wanted, slot, &tasks),
    }
    reaper::trim(draft, wanted, &tasks);
}

/// A slot that has no place: everything in it goes.
pub(crate) fn empty_out(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, tasks: &[&Task], why: &str) {
    for task in tasks {
        if !draft.has_room() {
            return;
        }
        if !removal::remove(draft, task) {
            continue;
        }
        draft.guard_service(wanted.id());
        if let Slot::Node(node) = task.slot {
            draft.guard_node(node);
        }
        if task.fills_slot() {
            let global = wanted.service.mode.is_global();
            let rule = if global { Rule::GlobalRemove } else { Rule::ScaleDown };
            draft.count(task.id, task.service, rule, format!("removed: {why}"));
        }
    }
}

/// Takes every task of a slot off a node that cannot keep it.
pub(crate) fn give_up_all(draft: &mut Draft<'_, '_>, tasks: &[&Task], why: &str) {
    for task in tasks.iter().filter(|t| t.fills_slot()) {
        give_up(draft, task, Rule::NodeLost, why);
    }
}

/// Takes a task off a node that cannot keep it.
fn give_up(draft: &mut Draft<'_, '_>, task: &Task, rule: Rule, why: &str) {
    if let Some(node) = task.node {
        draft.guard_node(node);
    }
    draft.count(task.id, task.service, rule, format!("given up: {why}"));
    removal::dismiss(draft, task, why.into());
}

/// A slot that shall be filled by one task, or also by a canary.
fn tend(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, slot: Slot, tasks: &[&Task]) {
    if !wanted.service.tries_canaries() {
        return tend_one(draft, wanted, slot, tasks);
    }
    let (revision, previous) = (wanted.service.revision, wanted.service.previous);
    let (canaries, mut own): (Vec<&Task>, Vec<&Task>) = tasks.iter().partition(|t| t.revision == revision);
    let of_previous = |t: &&Task| Some(t.revision) == previous;
    if own.iter().any(|t| of_previous(t) && t.desired < Desired::Shutdown) {
        // Canaries of an update that was taken over stand beside the same task.
        for task in own.iter().filter(|t| !of_previous(t) && t.fills_slot()) {
            let (old, new) = (number_of(draft.view, task.revision), number_of(draft.view, revision));
            let text =
                format!("{}: what tried revision {old} gives way to revision {new}", name(draft, task));
            draft.note(task, Rule::Update, text);
            draft.guard_service(wanted.id());
            removal::stop(draft, task);
        }
        own.retain(of_previous);
    }
    tend_one(draft, wanted, slot, &own);
    tend_canary(draft, wanted, slot, &canaries);
}

/// A canary that is there: it leaves a node that cannot keep it, and runs when its time has come. `canaries` are all that the slot has.
fn tend_canary(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, slot: Slot, canaries: &[&Task]) {
    let filling = || canaries.iter().copied().filter(|t| t.fills_slot());
    let best = filling().max_by(|a, b| standing(wanted, (a, false)).cmp(&standing(wanted, (b, false))));
    for task in filling() {
        let is_best = best.is_some_and(|best| best.id == task.id);
        match loss(draft, wanted, task) {
            Some((rule, why)) if node_is_settled(wanted, task) => give_up(draft, task, rule, &why),
            Some(_) => {}
            None if is_best && wanted.has_canary(slot) => {
                let others: Vec<&Task> = canaries.iter().copied().filter(|t| !t.fills_slot()).collect();
                release(draft, task, &others);
            }
            None => {
                draft.guard_service(wanted.id());
                removal::stop(draft, task);
            }
        }
    }
}

/// By which rule a task may not stay on its node, and why; `None` when it may.
fn loss(draft: &Draft<'_, '_>, wanted: &Wanted<'_>, task: &Task) -> Option<(Rule, String)> {
    // Whether a node may have a slot of a global service is asked of the slot as a whole.
    let loss = if matches!(task.slot, Slot::Number(_)) { wanted.loss(draft.now, task) } else { None };
    let evicted = || draft.evicted.get(&task.id).map(ToString::to_string);
    loss.map(|why| (Rule::NodeLost, why)).or_else(|| Some((Rule::Shrunk, evicted()?)))
}

/// False while what becomes of a task's node is in flight; its own event looks at all its tasks.
fn node_is_settled(wanted: &Wanted<'_>, task: &Task) -> bool {
    let version = task.node.and_then(|id| wanted.view.node(id)).map_or(0, |n| n.meta.modified);
    wanted.view.is_settled(version)
}

/// A slot that shall be filled by one task.
fn tend_one(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, slot: Slot, tasks: &[&Task]) {
    let Some((lost, rest)) = give_up_lost(draft, wanted, tasks) else { return };
    if rest.iter().any(|t| t.fills_slot()) {
        keep(draft, wanted, &rest);
        forget_tries(draft, wanted, &rest);
    } else if lost.is_empty() {
        refill(draft, wanted, slot, tasks);
    } else {
        // A delay that the lost task was waiting for still holds for the next one.
        let same = |t: &&&Task| t.revision == wanted.service.revision;
        let start_after = lost.iter().filter(same).filter_map(|task| task.start_after).max();
        start(draft, wanted, slot, tasks, start_after);
    }
}

/// True for a task of another revision that ended, and of which nobody has decided what follows.
pub(crate) fn is_open_try(service: &Service, task: &Task) -> bool {
    task.revision != service.revision && task.status.state.is_ended() && task.desired.is_wanted()
}

/// What was tried in a slot that a task of the service's revision fills, and was taken back, has no say any more.
fn forget_tries(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, tasks: &[&Task]) {
    let fills = |t: &&Task| t.fills_slot() && t.revision == wanted.service.revision;
    if wanted.service.tries_canaries() || !tasks.iter().any(fills) {
        return;
    }
    for task in tasks.iter().filter(|t| is_open_try(wanted.service, t) && t.leave.is_none()) {
        draft.guard_service(wanted.id());
        draft.direct(task, Desired::Shutdown);
    }
}

/// Gives up the tasks of a slot that may not stay on their node. Answers those, and the others of the slot; `None` when what
/// becomes of a node is in flight: its own event looks at all its tasks.
pub(crate) fn give_up_lost<'t>(
    draft: &mut Draft<'_, '_>,
    wanted: &Wanted<'_>,
    tasks: &[&'t Task],
) -> Option<(Vec<&'t Task>, Vec<&'t Task>)> {
    let mut lost = Vec::new();
    for task in tasks.iter().copied().filter(|t| t.fills_slot()) {
        let loss = loss(draft, wanted, task);
        let drained = || wanted.service.has_budget() && wanted.leaving(draft.now, task).is_some();
        let goes = loss.is_some() || task.leave.is_some() || drained();
        if goes && !node_is_settled(wanted, task) {
            return None;
        }
        lost.extend(loss.map(|(rule, why)| (task, rule, why)));
    }
    for (task, rule, why) in &lost {
        give_up(draft, task, *rule, why);
    }
    let rest = tasks.iter().copied().filter(|t| !lost.iter().any(|(l, ..)| l.id == t.id)).collect();
    Some((lost.into_iter().map(|(task, ..)| task).collect(), rest))
}

/// A filled slot: of each revision's tasks one stays, and runs when its time has come; while it is moved, two.
pub(crate) fn keep(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, tasks: &[&Task]) {
    let filling: Vec<&Task> = tasks.iter().copied().filter(|t| t.fills_slot()).collect();
    let now = draft.now;
    let leaves: Vec<Option<Leave>> = filling.iter().map(|t| wanted.leaving(now, t)).collect();
    for (task, leave) in filling.iter().zip(&leaves).filter(|(t, _)| matches!(t.slot, Slot::Number(_))) {
        drain::remember(draft, wanted, task, *leave, tasks);
    }
    let both = || filling.iter().copied().zip(leaves.iter().map(Option::is_some));
    let best = |current: bool, leaves: Option<bool>| {
        let ours = both().filter(|(t, _)| (t.revision == wanted.service.revision) == current);
        let ours = ours.filter(|(_, leave)| leaves.is_none_or(|l| *leave == l));
        ours.max_by(|a, b| standing(wanted, *a).cmp(&standing(wanted, *b))).map(|(task, _)| task)
    };
    let (new, old) = (best(true, None), best(false, None));
    let moved = match (new, old) {
        (Some(_), Some(_)) | (None, None) => None,
        (new, _) => best(new.is_some(), Some(true)).zip(best(new.is_some(), Some(false))),
    };
    let moved = moved.filter(|(task, next)| wanted.moves(task) && next.created > task.created);
    let stays = match moved {
        Some((task, next)) => [Some(task), Some(next)],
        None => [new, old],
    };
    let kept = |task: &Task| stays.iter().flatten().any(|k| k.id == task.id);
    for (double, leaves) in both().filter(|(t, _)| !kept(t)) {
        if !draft.has_room() {
            return;
        }
        let leaves = leaves && wanted.moves(double);
        if leaves && !drain::may_retire(draft, wanted, double) {
            continue;
        }
        let text = format!("{} was filled twice; the task that came furthest stays", name(draft, double));
        draft.note(double, Rule::Duplicate, text);
        if leaves {
            draft.guard_service(wanted.id());
            draft.retire(double);
        } else {
            removal::remove(draft, double);
        }
    }
    match (moved, new, old) {
        (Some((task, next)), ..) => drain::carry_on(draft, wanted, task, next, tasks),
        (None, Some(new), Some(old)) => share(draft, wanted, new, old, tasks),
        (None, Some(one), None) | (None, None, Some(one)) => {
            if filling.len() == 1 && leaves[0].is_some() {
                drain::begin(draft, wanted, one, tasks);
            } else {
                release(draft, one, tasks);
            }
        }
        (None, None, None) => {}
    }
}

/// A slot that a task of the current revision fills beside one of another. One of them goes when:
///
/// - the current one was there before the update began, and runs: a rollback came while it was still the
///   healthy original, and the other one goes at once; or it was a canary, and was promoted;
/// - the other one is a canary that was aborted;
/// - the current one has run for as long as it is watched;
/// - the old one is to go first, by the order that holds now, and does not leave its node on purpose.
fn share(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, new: &Task, old: &Task, tasks: &[&Task]) {
    let progress = wanted.progress(draft.now, new, tasks);
    let found = !wanted.is_new(new) && new.status.state == TaskState::Running;
    // Of a revision that is put back it is the original. One that never came to all slots has to show that it lasts.
    let rollback = wanted.course().state.is_some_and(UpdateState::is_rollback);
    let unproven = wanted.service.update_status.as_ref().and_then(|status| status.unproven);
    let original = found && (rollback || unproven != Some(new.revision));
    let aborted = wanted.service.is_aborted();
    let leaves = wanted.leaving(draft.now, old).is_some() && wanted.moves(old);
    let stop_first = wanted.order(new.slot) == UpdateOrder::StopFirst && !leaves;
    if original || aborted || stop_first || progress == Progress::Proven {
        draft.guard_service(wanted.id());
        if original && rollback {
            let text = format!("{}: its original task still runs and stays", name(draft, new));
            draft.note(new, Rule::Rollback, text);
        }
        return removal::stop(draft, old);
    }
    if let Progress::Watched(until) = progress {
        draft.wake(until);
    }
    let others: Vec<&Task> = tasks.iter().copied().filter(|t| !t.fills_slot()).collect();
    release(draft, new, &others);
}

/// Of two tasks that fill a slot the greater one stays: the one that came furthest; then one that does not
/// leave its node; then one of the service's revision; then the one that has been there longest; then the
/// older one by index; then the lower id.
fn standing(wanted: &Wanted<'_>, (task, leaves): (&Task, bool)) -> impl Ord + use<> {
    use std::cmp::Reverse;
    let current = task.revision == wanted.service.revision;
    let since = Reverse(task.status.applied_at);
    (task.status.state, task.desired, !leaves, current, since, Reverse(task.created), Reverse(task.id))
}

/// Lets a task run that waits for its delay or for the end of the one before it.
pub(crate) fn release(draft: &mut Draft<'_, '_>, task: &Task, tasks: &[&Task]) {
    if task.desired != Desired::Ready {
        return;
    }
    let due = task.start_after.unwrap_or(task.created_at);
    if draft.now < due {
        return draft.wake(due);
    }
    let patience = task.created_at + OLD_TASK_PATIENCE;
    let view = draft.view;
    let old_runs = tasks.iter().any(|t| t.id != task.id && wanted::may_run(view, t));
    if old_runs && draft.now < patience {
        return draft.wake(patience);
    }
    if due > task.created_at {
        let delay = view.revision(task.revision).map_or(Span::ZERO, |r| r.task.replace.delay);
        let text = format!("{}: the delay of {delay} has passed", name(draft, task));
        draft.note(task, Rule::StartDelayed, text);
    }
    draft.direct(task, Desired::Running);
}

/// The revision that the next task of a slot gets: the service's. But while an update is paused, a slot that
/// it has not changed keeps the revision that it had; and while canaries are tried, every slot keeps to the revision
/// before.
fn next_revision(wanted: &Wanted<'_>, tasks: &[&Task]) -> RevisionId {
    let current = wanted.service.revision;
    if wanted.service.tries_canaries() {
        return wanted.service.previous.unwrap_or(current);
    }
    let paused = wanted.course().state == Some(UpdateState::Paused);
    match tasks.iter().rev().find(|t| t.desired != Desired::Remove) {
        Some(newest) if paused && !tasks.iter().any(|t| wanted.is_new(t)) => newest.revision,
        _ => current,
    }
}

/// A slot that nothing fills: what stands in it decides.
fn refill(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, slot: Slot, tasks: &[&Task]) {
    let revision = next_revision(wanted, tasks);
    let newest = replace::deciding(tasks, revision);
    // One that was to leave and ended after what was tried in its place is the one that decides.
    let later = |t: &&&Task| {
        t.leave.is_some()
            && t.desired < Desired::Shutdown
            && newest.is_some_and(|n| n.status.applied_at <= t.status.applied_at)
    };
    let newest = tasks.iter().find(later).copied().or(newest);
    let Some(newest) = newest.filter(|t| t.desired < Desired::Shutdown) else {
        return begin(draft, wanted, slot, tasks);
    };
    if newest.status.state == TaskState::Orphaned {
        // It did not end by itself: neither condition nor delay, and nothing is counted.
        let id = start(draft, wanted, slot, tasks, None);
        return draft.count(id, wanted.id(), Rule::NodeLost, "created for tasks whose node is gone".into());
    }
    if newest.revision != revision {
        // Whatever its own policy said: this is another spec, which has had no attempt yet.
        let id = start(draft, wanted, slot, tasks, None);
        let number = number_of(draft.view, revision);
        let rest = format!("created: revision {number} takes the place of what ended under another one");
        return draft.count_once(id, wanted.id(), Rule::Update, rest);
    }
    if newest.desired == Desired::Complete {
        return;
    }
    if let Some(at) = decide(draft, wanted, newest, tasks) {
        start(draft, wanted, slot, tasks, Some(at));
    }
}

/// What the replace policy says of a slot's newest end: from when on another task may run; or nothing, and
/// then the end is marked as final, unless its turn has not come yet.
pub(crate) fn decide(
    draft: &mut Draft<'_, '_>,
    wanted: &Wanted<'_>,
    newest: &Task,
    tasks: &[&Task],
) -> Option<Time> {
    let policy = wanted.view.revision(newest.revision).map_or(wanted.spec.replace, |r| r.task.replace);
    match replace::decide(&policy, newest, replace::counted(tasks, newest.revision, wanted.beside())) {
        Verdict::From(_) if newest.start_after.is_some_and(|at| draft.now < at) => {
            // It could not even be made ready. Another one would be tried at once and fail as well: its
            // turn comes first.
            newest.start_after.into_iter().for_each(|at| draft.wake(at));
            None
        }
        Verdict::From(at) => {
            let text =
                format!("{}: {}; replaced{}", name(draft, newest), replace::ending(newest), after(&policy));
            draft.note(newest, Rule::Replace, text);
            Some(at)
        }
        Verdict::Never(reason) => {
            let how = replace::ending(newest) + &replace::quoted(newest);
            let why = replace::why_not(&policy, reason);
            let text = format!("{}: {how}; not replaced: {why}", name(draft, newest));
            draft.note(newest, Rule::NotReplaced, text);
            draft.direct(newest, Desired::Complete);
            None
        }
    }
}

/// Makes the canary of a slot, or the next one when the replace policy allows one. `canaries` are all that the slot has had, and none of
/// them fills it.
pub(crate) fn start_canary(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, slot: Slot, canaries: &[&Task]) {
    let from = match newest_tried(wanted, canaries) {
        Some(t) if t.desired == Desired::Complete => return,
        Some(t) if t.desired < Desired::Shutdown && t.status.state != TaskState::Orphaned => {
            let Some(at) = decide(draft, wanted, t, canaries) else { return };
            Some(at)
        }
        _ => None,
    };
    let id = start_as(draft, wanted, slot, canaries, from, wanted.service.revision, None);
    let number = number_of(draft.view, wanted.service.revision);
    draft.count_once(id, wanted.id(), Rule::Update, format!("of revision {number} made as canaries"));
}

/// The newest task of the update in a slot that an old one fills, once it has ended.
fn newest_tried<'t>(wanted: &Wanted<'_>, tasks: &[&'t Task]) -> Option<&'t Task> {
    tasks.iter().rev().copied().find(|t| t.desired != Desired::Remove && wanted.is_new(t))
}

/// True when no further task of the update is to be tried in a slot that an old one fills.
pub(crate) fn is_given_up(wanted: &Wanted<'_>, slot: Slot) -> bool {
    let tasks: Vec<&Task> = wanted.view.tasks_of_slot(wanted.id(), slot).map(|t| &**t).collect();
    newest_tried(wanted, &tasks).is_some_and(|t| t.desired == Desired::Complete)
}

/// Tries the current revision again in a slot that an old task fills: another new task beside it, when the
/// replace policy allows one.
pub(crate) fn try_again(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, slot: Slot) {
    let tasks: Vec<&Task> = wanted.view.tasks_of_slot(wanted.id(), slot).map(|t| &**t).collect();
    let from = match newest_tried(wanted, &tasks) {
        Some(t) if t.desired < Desired::Shutdown && t.status.state != TaskState::Orphaned => {
            let Some(at) = decide(draft, wanted, t, &tasks) else { return };
            Some(at)
        }
        _ => None,
    };
    start_beside(draft, wanted, slot, &tasks, from);
}

/// The first task of a slot, or the first since its node came back.
fn begin(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, slot: Slot, tasks: &[&Task]) {
    let id = start(draft, wanted, slot, tasks, None);
    let (rule, rest) = match wanted.service.mode {
        model::Mode::Replicated { replicas } => {
            (Rule::ScaleUp, format!("created: replicas {replicas}, filled {}", wanted.used().filled()))
        }
        _ => (Rule::GlobalAdd, "created: one for each node that complies".into()),
    };
    draft.count_once(id, wanted.id(), rule, rest);
}

/// Makes the next task of a slot, to run from `from` on and once nothing of the slot runs any more. Ended
/// tasks in whose place it comes have no say any more.
pub(crate) fn start(
    draft: &mut Draft<'_, '_>,
    wanted: &Wanted<'_>,
    slot: Slot,
    tasks: &[&Task],
    from: Option<Time>,
) -> model::TaskId {
    start_as(draft, wanted, slot, tasks, from, next_revision(wanted, tasks), None)
}

/// As [`start`], of this revision, and for one node, if that is said.
fn start_as(
    draft: &mut Draft<'_, '_>,
    wanted: &Wanted<'_>,
    slot: Slot,
    tasks: &[&Task],
    from: Option<Time>,
    revision: RevisionId,
    node: Option<NodeId>,
) -> model::TaskId {
    let delayed = from.filter(|at| *at > draft.now);
    let old_runs = tasks.iter().any(|t| wanted::may_run(draft.view, t));
    let start_after = delayed.or(old_runs.then_some(draft.now));
    // Made before the others lose their say: a slot that is in progress never ceases to be.
    let id = draft.create(wanted.service, revision, slot, start_after, node);
    for task in tasks.iter().filter(|t| t.status.state.is_ended() && t.desired < Desired::Shutdown) {
        draft.direct(task, Desired::Shutdown);
    }
    id
}

/// As [`start_beside`], for a slot that is moved: for one node, if that is said.
pub(crate) fn start_for(
    draft: &mut Draft<'_, '_>,
    wanted: &Wanted<'_>,
    slot: Slot,
    tasks: &[&Task],
    node: Option<NodeId>,
) -> model::TaskId {
    let revision = next_revision(wanted, tasks);
    let others: Vec<&Task> = tasks.iter().copied().filter(|t| !t.fills_slot()).collect();
    start_as(draft, wanted, slot, &others, None, revision, node)
}

/// As [`start`], beside the task that fills the slot, without waiting for its end.
pub(crate) fn start_beside(
    draft: &mut Draft<'_, '_>,
    wanted: &Wanted<'_>,
    slot: Slot,
    tasks: &[&Task],
    from: Option<Time>,
) -> model::TaskId {
    let others: Vec<&Task> = tasks.iter().copied().filter(|t| !t.fills_slot()).collect();
    start(draft, wanted, slot, &others, from)
}

fn name(draft: &Draft<'_, '_>, task: &Task) -> String {
    wanted::slot_name(draft.view, task.slot)
}

fn after(policy: &model::ReplacePolicy) -> String {
    if policy.delay > Span::ZERO { format!(" after {}", policy.delay) } else { String::new() }
}
