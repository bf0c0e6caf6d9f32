//! Canaries: the new revision tried in the lowest slots, each beside the slot's own task, which goes on untouched.
//!
//! All are made at once. When each of them has said its verdict, too many that failed pause the update or take it back, as in any
//! update; otherwise they are promoted by themselves (`auto_promote`), or wait for somebody to promote or abort them, for `promote_within` at
//! most. Until then no other slot is changed, and whatever ends in any slot's own line is replaced by the revision before ([`crate::slot`]).
//!
//! A canary that ended is replaced as its policy says; one that was lost with its node, at once. While the update is paused, those that
//! failed are left.
//!
//! Costs the slots of the canaries.

use model::{FailureAction, Slot, Task, TaskState, UpdateState};

use crate::course::{Course, Progress, Verdict};
use crate::plan::{Draft, number_of};
use crate::wanted::Wanted;
use crate::{slot, update};

/// What the canaries say.
#[derive(Default)]
struct Survey<'t> {
    total: usize,
    /// True while one has no verdict.
    open: bool,
    failed: Vec<&'t Task>,
    /// How many run, and have done so for as long as they are watched.
    steady: usize,
    /// Those that no node took in time.
    stranded: Vec<&'t Task>,
    /// Slots without a canary, with those that they have had, and whether one of them failed.
    missing: Vec<(Slot, Vec<&'t Task>, bool)>,
}

/// Takes the trial as far as it may go now.
pub(crate) fn roll(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>) {
    if draft.room() == 0 {
        return;
    }
    let course = wanted.course();
    let paused = course.state == Some(UpdateState::Paused);
    let survey = survey(draft, wanted);
    for task in &survey.stranded {
        draft.reject(task, wanted.why_unplaced(task));
    }
    if !survey.stranded.is_empty() || (!paused && conclude(draft, wanted, &course, &survey)) {
        return;
    }
    for (slot, canaries, failed) in survey.missing {
        if !draft.has_room() {
            return;
        }
        if !(paused && failed) {
            slot::start_canary(draft, wanted, slot, &canaries);
        }
    }
}

fn survey<'a>(draft: &mut Draft<'_, '_>, wanted: &Wanted<'a>) -> Survey<'a> {
    let mut survey = Survey::default();
    for n in 0..wanted.service.canaries() {
        survey.add(draft, wanted, Slot::Number(n));
    }
    survey
}

impl<'t> Survey<'t> {
    fn add(&mut self, draft: &mut Draft<'_, '_>, wanted: &Wanted<'t>, slot: Slot) {
        self.total += 1;
        let tasks = || wanted.view.tasks_of_slot(wanted.id(), slot).map(|t| &**t);
        if tasks().any(|t| !draft.view.is_settled(t.modified)) {
            // Something else happens to the slot already.
            self.open = true;
            return;
        }
        let canaries: Vec<&Task> = tasks().filter(|t| t.revision == wanted.service.revision).collect();
        let verdict = wanted.verdict(draft.now, &canaries);
        match verdict {
            Verdict::Untried | Verdict::Open => self.open = true,
            Verdict::Good(_) => {}
            Verdict::Failed(task) => self.failed.push(task),
        }
        let Some(canary) = canaries.iter().copied().find(|t| t.fills_slot()) else {
            let failed = matches!(verdict, Verdict::Failed(_));
            return self.missing.push((slot, canaries, failed));
        };
        match wanted.progress(draft.now, canary, &canaries) {
            Progress::OnItsWay(until) | Progress::Watched(until) => draft.wake(until),
            Progress::Late if canary.status.state < TaskState::Assigned => self.stranded.push(canary),
            Progress::Late => {}
            Progress::Proven => self.steady += 1,
        }
    }
}

/// Whether the trial ends here; nothing more is then done by this plan.
fn conclude(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, course: &Course, survey: &Survey<'_>) -> bool {
    let (id, failed, total) = (wanted.id(), survey.failed.len(), survey.total);
    if let Some(last) = survey.failed.last()
        && course.policy.max_failure_ratio.is_exceeded_by(failed, total)
        && course.policy.failure_action != FailureAction::Continue
    {
        let why = update::why_too_many(wanted, course, failed, total, "canaries", last);
        match (course.policy.failure_action, wanted.service.previous) {
            (FailureAction::Rollback, Some(previous)) => {
                let number = number_of(wanted.view, previous);
                draft.roll_back(id, format!("update rolled back to revision {number}: {why}"));
            }
            _ => draft.move_update(id, UpdateState::Paused, format!("update paused: {why}")),
        }
        return true;
    }
    let waits = course.state == Some(UpdateState::Canary);
    if !survey.open && course.policy.auto_promote && failed == 0 && survey.steady == total {
        draft.promote(id, format!("canaries promoted by themselves: {}", they_have_run(course, total)));
        return true;
    }
    if waits {
        return is_overdue(draft, wanted, course);
    }
    if survey.open {
        return false;
    }
    let but = match survey.failed.last() {
        Some(last) => format!(", although {failed} of {total} failed: {}", wanted.failure(last)),
        None => String::new(),
    };
    let next = if total == 0 { "scale it up, promote or abort" } else { "promote or abort them" };
    let text = format!("{}{but}; {next}", they_have_run(course, total));
    draft.move_update(id, UpdateState::Canary, text);
    true
}

fn they_have_run(course: &Course, total: usize) -> String {
    match total {
        0 => "no canary was tried, since the service has no replicas".into(),
        1 => format!("1 canary has been watched for {}", course.policy.monitor),
        n => format!("{n} canaries have been watched for {}", course.policy.monitor),
    }
}

/// Whether nobody has said what becomes of the canaries for too long: the update is paused, and they stay.
fn is_overdue(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, course: &Course) -> bool {
    let within = course.policy.promote_within;
    let Some(status) = &wanted.service.update_status else { return false };
    let until = status.since + within;
    if draft.now < until {
        draft.wake(until);
        return false;
    }
    let text =
        format!("update paused: its canaries were not promoted within {within}; promote or abort them");
    draft.move_update(wanted.id(), UpdateState::Paused, text);
    true
}
