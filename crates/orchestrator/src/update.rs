//! The way of a new revision through the slots, stop-first.
//!
//! At most `parallelism` slots are in change at once (zero: all). A slot is in change from the moment its
//! old task is told to end until its new one has run for `delay`. When a task of the new revision has ended
//! instead, the slot counts as broken until its next one has run for five seconds at least: while there is
//! one, no running task of an older revision is touched, so a revision that cannot run takes down no more
//! slots than it has already got. Slots whose old task does not run lose nothing and come first; among
//! equal ones the lower slot comes first.
//!
//! Nothing is remembered between two looks: what is in change is read from the tasks. Only a difference of
//! revisions makes a slot outdated, so changed labels or another number of replicas replace nothing.
//! Costs the tasks of the service, and a few counters when no update is under way.

use model::{Desired, Rule, Slot, Span, Task, TaskState, Time};

use crate::plan::{Draft, number_of};
use crate::wanted::{Place, Wanted};
use crate::{removal, replace, slot};

/// How long a task must run before its slot is trusted again after a failure of the same revision.
/// SwarmKit's default time of watching an updated task.
const TRUST_AFTER: Span = Span::from_secs(5);

/// How far a slot is on the way.
enum Standing {
    /// It has nothing to do with the update: it is idle, or its node takes no tasks.
    Aside,
    /// It runs the new revision.
    Done,
    /// It is on its way, and will be looked at again by itself or at that time.
    InChange(Option<Time>),
    /// A task of the new revision ended, and none has proved itself since.
    Broken(Option<Time>),
    /// Only tasks of older revisions fill it.
    Outdated { runs: bool },
}

/// What the slots of a service are waiting for.
#[derive(Default)]
struct Survey {
    in_change: usize,
    broken: bool,
    /// Outdated slots that don't run, then those that do.
    idle: Vec<Slot>,
    running: Vec<Slot>,
}

/// Takes the update of a service as far as it may go now.
pub(crate) fn roll(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>) {
    if !wanted.is_outdated() || draft.room() == 0 {
        return;
    }
    let survey = survey(draft, wanted);
    let parallelism = wanted.service.update.parallelism as usize;
    let in_change = survey.in_change + draft.created_for(wanted.id());
    let may_change = if parallelism == 0 { usize::MAX } else { parallelism.saturating_sub(in_change) };
    let running = if survey.broken { Vec::new() } else { survey.running };
    for slot in survey.idle.into_iter().chain(running).take(may_change) {
        if !draft.has_room() {
            return;
        }
        change(draft, wanted, slot);
    }
}

fn survey(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>) -> Survey {
    let mut survey = Survey::default();
    let mut slot_tasks: Vec<&Task> = Vec::new();
    for task in draft.view.tasks_of_service(wanted.id()) {
        if slot_tasks.first().is_some_and(|first| first.slot != task.slot) {
            survey.add(draft, wanted, &slot_tasks);
            slot_tasks.clear();
        }
        slot_tasks.push(task);
    }
    survey.add(draft, wanted, &slot_tasks);
    survey
}

impl Survey {
    fn add(&mut self, draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, tasks: &[&Task]) {
        let Some(slot) = tasks.first().map(|t| t.slot) else { return };
        if draft.has_touched(wanted.id(), slot) {
            // Something else happens to it in this plan already.
            return self.wait(draft, None);
        }
        match standing(draft, wanted, slot, tasks) {
            Standing::Aside | Standing::Done => {}
            Standing::Outdated { runs: true } => self.running.push(slot),
            Standing::Outdated { runs: false } => self.idle.push(slot),
            Standing::InChange(at) => self.wait(draft, at),
            Standing::Broken(at) => {
                self.broken = true;
                self.wait(draft, at);
            }
        }
    }

    fn wait(&mut self, draft: &mut Draft<'_, '_>, at: Option<Time>) {
        self.in_change += 1;
        if let Some(at) = at {
            draft.wake(at);
        }
    }
}

fn standing(draft: &Draft<'_, '_>, wanted: &Wanted<'_>, slot: Slot, tasks: &[&Task]) -> Standing {
    if !takes_part(wanted, slot) {
        return Standing::Aside;
    }
    if tasks.iter().any(|t| !draft.view.is_settled(t.modified)) {
        return Standing::InChange(None);
    }
    let current = wanted.service.revision;
    let failed = replace::counted(tasks, current).next().is_some();
    let mut filling = tasks.iter().copied().filter(|t| t.fills_slot()).peekable();
    if filling.peek().is_none() {
        return standing_of_empty(wanted, tasks, failed);
    }
    let runs = |t: &Task| t.status.state == TaskState::Running && t.desired == Desired::Running;
    let Some(new) = filling.clone().find(|t| t.revision == current) else {
        return Standing::Outdated { runs: filling.any(runs) };
    };
    let in_change = |at| if failed { Standing::Broken(at) } else { Standing::InChange(at) };
    if !runs(new) {
        return in_change(None);
    }
    let trust = if failed { TRUST_AFTER } else { Span::ZERO };
    let at = new.status.applied_at + wanted.service.update.delay.max(trust);
    if draft.now < at { in_change(Some(at)) } else { Standing::Done }
}

/// Nothing fills the slot: it is being filled, or it is over.
fn standing_of_empty(wanted: &Wanted<'_>, tasks: &[&Task], failed: bool) -> Standing {
    match tasks.iter().rev().find(|t| t.desired != Desired::Remove) {
        None => Standing::Aside,
        Some(t) if t.revision == wanted.service.revision && t.desired == Desired::Complete => {
            if t.status.state == TaskState::Complete { Standing::Done } else { Standing::Broken(None) }
        }
        Some(_) if failed => Standing::Broken(None),
        Some(_) => Standing::InChange(None),
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

/// Stops what fills an outdated slot, and makes a task of the new revision that waits for its end.
fn change(draft: &mut Draft<'_, '_>, wanted: &Wanted<'_>, slot: Slot) {
    let tasks: Vec<&Task> = wanted.view.tasks_of_slot(wanted.id(), slot).map(|t| &**t).collect();
    for task in tasks.iter().filter(|t| t.fills_slot()) {
        removal::stop(draft, task);
    }
    let id = slot::start(draft, wanted, slot, &tasks, None);
    let number = number_of(draft.view, wanted.service.revision);
    let pace = match wanted.service.update.parallelism {
        0 => "all slots at once".into(),
        n => format!("slots at once: {n}"),
    };
    draft.count_once(
        id,
        wanted.id(),
        Rule::Update,
        format!("of an older revision replaced by revision {number}, {pace}"),
    );
}
