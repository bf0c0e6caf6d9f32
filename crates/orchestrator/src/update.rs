//! The way of a new revision, or of the one before, through the slots: which slot is changed when, and what
//! becomes of the update.
//!
//! A slot in change has one owner at a time. Here it is decided that a slot is changed, and a new task is
//! made: in the place of the old one (stop-first), which is told to end, or beside it (start-first). From
//! then on the slot's own reconciler has it: it lets the new task run, replaces it when it ends, and ends an
//! old one beside it once the new one has run for `monitor`. One thing comes back here: a new task that
//! ended beside an old one that still runs. Whether it is tried again depends on what becomes of the update.
//!
//! At most `parallelism` slots are in change at once (zero: all). A slot is in change until its new task has
//! run for `delay` or has failed `delay` ago; until it has run for `monitor`, and the old task is gone, if
//! that was to run meanwhile. And until one task of a new revision has run for `monitor`, those that still
//! are watched keep their turn as well: a revision that cannot last takes down no more slots than
//! `parallelism`. (A revision that is put back has lasted before.) Slots whose old task does not run lose
//! nothing and come first; then the lower slots; those that have been tried already come last.
//!
//! Each look counts anew what the slots say ([`Verdict`]): nothing is remembered but the update's state,
//! which the store keeps. Its whole table is in `docs/design/updates-and-restarts.md`. An update ends when
//! every slot has told its verdict, and each does so in bounded time, see [`crate::course`]. A slot that
//! shows up outdated later (its node was away) is changed at the same pace, and concludes nothing.
//!
//! Costs the slots in change, those that have failed, and at most `parallelism` of the others: where each slot stands is kept by the store
//! ([`store::Rollout`]). A few counters when no update is under way.

use std::collections::BTreeSet;

use model::{
    Desired, FailureAction, Mode, Rule, Slot, Span, Task, TaskState, Time, UpdateOrder, UpdateState,
};
use store::{Moments, Rollout};

use crate::course::{Course, PLACE_WITHIN, Progress, START_WITHIN, Verdict};
use crate::plan::{Draft, number_of};
use crate::wanted::{self, Place, Wanted};
use crate::{canary, removal, replace, slot};

/// What the slots of a service say, and what they wait for.
#[derive(Default)]
struct Survey<'t> {
    /// Slots in change. More than may be at once need not all be counted.
    in_change: usize,
    /// Further slots whose new task is still watched.
    on_trial: usize,
    /// True when something runs that shows that the revision can.
    proven: bool,
    /// Slots that the update has changed or has to change.
    total: usize,
    /// True while a slot has no verdict.
    open: bool,
    failed: Vec<&'t Task>,
    /// New tasks beside old ones that no node took in time.
    stranded: Vec<&'t Task>,
    /// Outdated slots, each in order: those where nothing runs, those where the old task does, those that failed. Of the first two no more
    /// than a plan can change.
    idle: Vec<Slot>,
    running: Vec<Slot>,
    tried: Vec<Slot>,
    /// When a slot may say more although nothing happens.
    wake_at: Option<Time>,
}

/// Takes the update of a service as far as it may go now. Batch services have none.
pub(crate) fn roll(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>) {
    if wanted.service.mode.is_batch() {
        return;
    }
    if wanted.service.tries_canaries() {
        return canary::roll(draft, wanted);
    }
    if !(wanted.is_outdated() || wanted.is_updating()) || draft.room() == 0 {
        return;
    }
    let course = wanted.course();
    let survey = survey(draft, wanted);
    if let Some(at) = survey.wake_at {
        draft.wake(at);
    }
    for task in &survey.stranded {
        draft.reject(task, wanted.why_unplaced(task));
    }
    if !survey.stranded.is_empty() || course.state.is_some_and(UpdateState::is_paused) {
        return;
    }
    if wanted.is_updating() && conclude(draft, wanted, &course, &survey) {
        return;
    }
    change_some(draft, wanted, &course, survey);
}

/// Whether the update ends here, or stops; nothing more is then changed by this plan.
fn conclude(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, course: &Course, survey: &Survey<'_>) -> bool {
    let rollback = course.state == Some(UpdateState::RollbackStarted);
    let id = wanted.id();
    if let Some(last) = survey.failed.last()
        && course.policy.max_failure_ratio.is_exceeded_by(survey.failed.len(), survey.total)
    {
        let why = why_failed(wanted, course, survey, last);
        match (course.policy.failure_action, wanted.service.previous) {
            (FailureAction::Continue, _) => {}
            (FailureAction::Rollback, Some(previous)) if !rollback => {
                let number = number_of(wanted.view, previous);
                draft.roll_back(id, format!("update rolled back to revision {number}: {why}"));
                return true;
            }
            _ => {
                let (what, state) = if rollback {
                    ("rollback", UpdateState::RollbackPaused)
                } else {
                    ("update", UpdateState::Paused)
                };
                draft.move_update(id, state, format!("{what} paused: {why}"));
                return true;
            }
        }
    }
    if survey.open {
        return false;
    }
    let failed = match survey.failed.last() {
        Some(last) => format!(
            ", although {} of {} slots failed: {}",
            survey.failed.len(),
            survey.total,
            wanted.failure(last)
        ),
        None => String::new(),
    };
    if rollback {
        // Why it was rolled back stays to be read.
        let status = wanted.service.update_status.as_ref();
        let why = status.map_or("", |s| &*s.message);
        let text = format!("rollback completed{failed} ({why})");
        draft.move_update(id, UpdateState::RollbackCompleted, text);
    } else {
        let untried = if wanted.service.mode == (Mode::Replicated { replicas: 0 }) {
            "; nothing was tried, since the service has no replicas"
        } else {
            ""
        };
        draft.move_update(id, UpdateState::Completed, format!("update completed{failed}{untried}"));
    }
    true
}

fn why_failed(wanted: &Wanted<'_>, course: &Course, survey: &Survey<'_>, last: &Task) -> String {
    why_too_many(wanted, course, survey.failed.len(), survey.total, "slots", last)
}

/// Why an update does not go on: the last one that failed, and how many did.
pub(crate) fn why_too_many(
    wanted: &Wanted<'_>,
    course: &Course,
    failed: usize,
    total: usize,
    noun: &str,
    last: &Task,
) -> String {
    let allowed = course.policy.max_failure_ratio;
    let allowed =
        if allowed == model::Ratio::NONE { "none may".into() } else { format!("a share of {allowed} may") };
    format!("{}; {failed} of {total} {noun} failed, {allowed}", wanted.failure(last))
}

fn change_some(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, course: &Course, survey: Survey<'_>) {
    let trial = course.state == Some(UpdateState::Updating) && !survey.proven;
    let on_trial = if trial { survey.on_trial } else { 0 };
    let in_change = survey.in_change + on_trial + draft.created_for(wanted.id());
    let may_change = match at_once(wanted) {
        0 => usize::MAX,
        parallelism => parallelism.saturating_sub(in_change),
    };
    let fresh = survey.idle.into_iter().chain(survey.running).map(|slot| (slot, false));
    let tried = survey.tried.into_iter().map(|slot| (slot, true));
    for (slot, tried) in fresh.chain(tried).take(may_change) {
        if !draft.has_room() {
            return;
        }
        if tried { slot::try_again(draft, wanted, slot) } else { change(draft, wanted, course, slot) }
    }
}

/// What the slots say. Where they are few, and assertions are checked, every one of them is asked as well.
fn survey<'a>(draft: &Draft<'_, '_>, wanted: &Wanted<'a>) -> Survey<'a> {
    let touched = draft.touched(wanted.id());
    let Some(rollout) = wanted.view.rollout_with_apart(wanted.id(), touched) else {
        return ask_all(draft, wanted);
    };
    let told = ask_some(draft, wanted, &rollout);
    if cfg!(debug_assertions) && wanted.used().total() <= FEW {
        let all = ask_all(draft, wanted);
        let (most, room) = (at_once(wanted), draft.room());
        assert_eq!(told.essence(most, room), all.essence(most, room), "{rollout:?}");
        assert!(all.wake_at.is_none_or(|at| told.wake_at.is_some_and(|earlier| earlier <= at)));
    }
    told
}

/// Services of at most so many tasks are asked twice where assertions are checked.
const FEW: u32 = 100;

/// How many slots may be in change at once; 0: all.
fn at_once(wanted: &Wanted<'_>) -> usize {
    wanted.course().policy.parallelism as usize
}

/// Asks every slot.
fn ask_all<'a>(draft: &Draft<'_, '_>, wanted: &Wanted<'a>) -> Survey<'a> {
    let mut survey = Survey::default();
    let mut slot_tasks: Vec<&'a Task> = Vec::new();
    for task in wanted.view.tasks_of_service(wanted.id()) {
        if slot_tasks.first().is_some_and(|first| first.slot != task.slot) {
            survey.add(draft, wanted, &slot_tasks);
            slot_tasks.clear();
        }
        slot_tasks.push(task);
    }
    survey.add(draft, wanted, &slot_tasks);
    survey
}

/// Asks the slots that stand apart, and those that may be late. What the others say follows from where they stand.
fn ask_some<'a>(draft: &Draft<'_, '_>, wanted: &Wanted<'a>, rollout: &Rollout) -> Survey<'a> {
    let mut survey = Survey::default();
    let (now, most) = (draft.now, at_once(wanted));
    let mut asked: BTreeSet<Slot> = rollout.apart().collect();
    for (moments, within) in [(rollout.waiting(), PLACE_WITHIN), (rollout.starting(), START_WITHIN)] {
        asked.extend(moments.up_to(now - within));
        survey.add_on_their_way(moments, now - within, within, most);
    }
    survey.add_running(rollout.running(), wanted, now, most);
    survey.total += rollout.outdated_count() as usize;
    survey.open |= rollout.outdated_count() > 0;
    survey.proven |= rollout.found() > 0;
    survey.idle.extend(rollout.idle().take(draft.room()));
    survey.running.extend(rollout.outdated().take(draft.room()));
    for slot in asked {
        let tasks: Vec<&Task> = wanted.view.tasks_of_slot(wanted.id(), slot).map(|t| &**t).collect();
        survey.add(draft, wanted, &tasks);
    }
    survey.idle.sort();
    survey.running.sort();
    survey
}

impl<'t> Survey<'t> {
    /// Slots whose new task does not run yet. None is late that came to its state after `early`, nor before `within` has passed since then.
    fn add_on_their_way(&mut self, moments: &Moments, early: Time, within: Span, most: usize) {
        self.in_change += moments.count_after(early, most);
        self.total += moments.len() - moments.up_to(early).count();
        if let Some(at) = moments.first_after(early) {
            self.open = true;
            self.wake(at + within);
        }
    }

    /// Slots whose new task runs.
    fn add_running(&mut self, moments: &Moments, wanted: &Wanted<'_>, now: Time, most: usize) {
        let policy = wanted.course().policy;
        self.total += moments.len();
        let (watched, delayed) = (now - policy.monitor, now - policy.delay);
        self.proven |= moments.first().is_some_and(|at| at <= watched);
        if let Some(at) = moments.first_after(watched) {
            self.open = true;
            self.wake(at + policy.monitor);
        }
        if let Some(at) = moments.first_after(delayed) {
            self.wake(at + policy.delay);
        }
        let in_change = moments.count_after(delayed, most);
        self.in_change += in_change;
        self.on_trial += moments.count_after(watched, most).saturating_sub(in_change);
    }

    /// What follows from it when so many slots may be in change at once, and be changed by this plan.
    fn essence(&self, most: usize, room: usize) -> impl PartialEq + std::fmt::Debug + use<'t> {
        let first = |slots: &[Slot]| slots[..slots.len().min(room)].to_vec();
        let ids = |tasks: &[&Task]| tasks.iter().map(|t| t.id).collect::<Vec<_>>();
        (
            [self.in_change.min(most), (self.in_change + self.on_trial).min(most), self.total],
            (self.proven, self.open, ids(&self.failed), ids(&self.stranded)),
            [first(&self.idle), first(&self.running), self.tried.clone()],
        )
    }

    fn wake(&mut self, at: Time) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Takes in what one slot says.
    fn add(&mut self, draft: &Draft<'_, '_>, wanted: &Wanted<'_>, tasks: &[&'t Task]) {
        let Some(slot) = tasks.first().map(|t| t.slot) else { return };
        if !takes_part(wanted, slot) {
            return;
        }
        let in_flight = tasks.iter().any(|t| !draft.view.is_settled(t.modified));
        let is_old = |t: &&&Task| t.fills_slot() && t.revision != wanted.service.revision;
        // Two old ones are left by an update in the middle of an update; the slot's own key ends one of them.
        let doubled = tasks.iter().filter(is_old).count() > 1;
        if in_flight || doubled || draft.has_touched(wanted.id(), slot) {
            // Something else happens to it already.
            self.open = true;
            return self.wait(None);
        }
        let verdict = wanted.verdict(draft.now, tasks);
        self.count(verdict);
        let best = |current: bool| {
            let mut filling = tasks.iter().copied().filter(|t| t.fills_slot());
            filling.find(|t| (t.revision == wanted.service.revision) == current)
        };
        match (best(true), best(false)) {
            (Some(new), old) => self.add_new(draft, wanted, tasks, new, old, verdict),
            (None, Some(old)) => self.add_outdated(wanted, old, verdict),
            (None, None) => self.add_empty(wanted, tasks, verdict),
        }
        self.wait_after_failure(draft, wanted, verdict);
    }

    fn count(&mut self, verdict: Verdict<'t>) {
        self.total += usize::from(verdict != Verdict::Untried);
        match verdict {
            Verdict::Untried => {}
            Verdict::Open => self.open = true,
            Verdict::Good(_) => self.proven = true,
            Verdict::Failed(task) => self.failed.push(task),
        }
    }

    /// A slot with a task of the current revision, perhaps beside an old one.
    fn add_new(
        &mut self,
        draft: &Draft<'_, '_>,
        wanted: &Wanted<'_>,
        tasks: &[&'t Task],
        new: &'t Task,
        old: Option<&Task>,
        verdict: Verdict<'_>,
    ) {
        let policy = wanted.course().policy;
        if !wanted.is_new(new) {
            // The update found it there. What stands beside it goes at the next look at the slot.
            self.proven |= new.status.state == TaskState::Running;
            if old.is_some() {
                self.wait(None);
            }
            return;
        }
        if old.is_none() && has_had_its_turn(verdict, Some(new)) {
            return;
        }
        match wanted.progress(draft.now, new, tasks) {
            Progress::OnItsWay(until) => self.wait(Some(until)),
            Progress::Late if old.is_some() && new.status.state < TaskState::Assigned => {
                self.stranded.push(new);
            }
            Progress::Late => {}
            Progress::Watched(until) => {
                self.wake(until);
                let delay = new.status.applied_at + policy.delay;
                if old.is_some() {
                    self.wait(Some(until));
                } else if draft.now < delay {
                    self.wait(Some(delay));
                } else {
                    self.on_trial += 1;
                }
            }
            Progress::Proven => {
                let delay = new.status.applied_at + policy.delay;
                if draft.now < delay {
                    self.wait(Some(delay));
                } else if old.is_some() || self.is_still_ending(draft, wanted, new, tasks) {
                    self.wait(None);
                }
            }
        }
    }

    /// After start-first the old task is a second one in the slot until it has ended. Not for ever: it may
    /// be unable to.
    fn is_still_ending(
        &mut self,
        draft: &Draft<'_, '_>,
        wanted: &Wanted<'_>,
        new: &Task,
        tasks: &[&Task],
    ) -> bool {
        let until = new.status.applied_at + wanted.course().policy.monitor + slot::OLD_TASK_PATIENCE;
        let ending = wanted.order(new.slot) == UpdateOrder::StartFirst
            && tasks.iter().any(|t| t.id != new.id && wanted::may_run(wanted.view, t))
            && draft.now < until;
        if ending {
            self.wake(until);
        }
        ending
    }

    /// A slot that only tasks of other revisions fill.
    fn add_outdated(&mut self, wanted: &Wanted<'_>, old: &Task, verdict: Verdict<'_>) {
        if verdict == Verdict::Untried {
            self.total += 1;
            self.open = true;
            let runs = old.status.state == TaskState::Running && old.desired == Desired::Running;
            if runs { self.running.push(old.slot) } else { self.idle.push(old.slot) }
        } else if !slot::is_given_up(wanted, old.slot) {
            self.tried.push(old.slot);
        }
    }

    /// Nothing fills the slot: it is being filled, or it is over.
    fn add_empty(&mut self, wanted: &Wanted<'_>, tasks: &[&'t Task], verdict: Verdict<'_>) {
        let Some(newest) = replace::deciding(tasks, wanted.service.revision) else { return };
        let over = newest.revision == wanted.service.revision && newest.desired == Desired::Complete;
        if over || has_had_its_turn(verdict, None) {
            return;
        }
        self.open |= verdict == Verdict::Untried;
        self.total += usize::from(verdict == Verdict::Untried);
        self.wait(None);
    }

    /// `delay` counts after a failure as well.
    fn wait_after_failure(&mut self, draft: &Draft<'_, '_>, wanted: &Wanted<'_>, verdict: Verdict<'_>) {
        let Verdict::Failed(task) = verdict else { return };
        let until = task.status.applied_at + wanted.course().policy.delay;
        if task.status.state.is_ended() && draft.now < until {
            self.wait(Some(until));
        }
    }

    fn wait(&mut self, at: Option<Time>) {
        self.in_change += 1;
        if let Some(at) = at {
            self.wake(at);
        }
    }
}

/// True when another task than `new` told the slot's verdict, or `new` told it by failing. What happens in it
/// from then on is its restart policy's affair, and takes nobody's turn.
fn has_had_its_turn(verdict: Verdict<'_>, new: Option<&Task>) -> bool {
    match verdict {
        Verdict::Untried | Verdict::Open => false,
        Verdict::Failed(_) => true,
        Verdict::Good(task) => new.is_none_or(|new| new.id != task.id),
    }
}

/// Slots without a place are on their way out. Global slots on nodes that take no tasks keep what they
/// have: they can neither prove the revision nor hold it up, and are looked at when their node is back.
fn takes_part(wanted: &Wanted<'_>, slot: Slot) -> bool {
    let ready = match slot {
        Slot::Number(_) => true,
        Slot::Node(id) => wanted.view.node(id).is_some_and(|node| node.takes_tasks()),
    };
    ready && matches!(wanted.place(slot), Place::Wanted)
}

/// Makes a task of the current revision in an outdated slot: beside what runs there, or in its place, to
/// wait for its end.
fn change(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, course: &Course, slot: Slot) {
    let tasks: Vec<&Task> = wanted.view.tasks_of_slot(wanted.id(), slot).map(|t| &**t).collect();
    let deciding = replace::deciding(&tasks, wanted.service.revision);
    if wanted.service.is_aborted() && deciding.is_some_and(|t| t.revision == wanted.service.revision) {
        draft.guard_service(wanted.id());
        // What the canary stood beside has ended, and its own policy says what comes next.
        for task in tasks.iter().filter(|t| t.fills_slot()) {
            removal::stop(draft, task);
        }
        return;
    }
    let runs = tasks.iter().any(|t| t.fills_slot() && t.status.state == TaskState::Running);
    let beside = runs && wanted.order(slot) == UpdateOrder::StartFirst;
    if !beside {
        for task in tasks.iter().filter(|t| t.fills_slot()) {
            removal::stop(draft, task);
        }
    }
    let id = if beside {
        slot::start_beside(draft, wanted, slot, &tasks, None)
    } else {
        slot::start(draft, wanted, slot, &tasks, None)
    };
    let number = number_of(draft.view, wanted.service.revision);
    let pace = match course.policy.parallelism {
        0 => "all slots at once".into(),
        n => format!("slots at once: {n}"),
    };
    let order = if beside { ", start-first" } else { "" };
    draft.count_once(
        id,
        wanted.id(),
        if course.state.is_some_and(UpdateState::is_rollback) { Rule::Rollback } else { Rule::Update },
        format!("of another revision replaced by revision {number}, {pace}{order}"),
    );
}
