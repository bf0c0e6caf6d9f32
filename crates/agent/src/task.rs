//! One task: what is wanted of it, what its programs have come to, and so what is to be done.
//!
//! Inputs only change what is known (`hear`, `want`, `persisted`, ...). [`Task::drive`] then looks at the whole task, not at what happened, and asks
//! for everything that is due; starting, running and recovering are one path. Doing it twice asks for nothing twice.
//!
//! The order of things on disk:
//! - Nothing is started before the first record is confirmed.
//! - A restart in place and its count are confirmed before the traces of the run before are removed, so it is counted once.
//! - The end of a task is confirmed before it is reported, and before the traces of its programs are removed: an end that
//!   was reported is never forgotten by a crash, and an end that was not can be read again from the traces.
//! - The directory goes last, when no write is under way.
//! - A request to end does not wait for the disk: a full disk must not keep a program alive. Lost by a crash, the request comes again with
//!   the manager's next complete set.

use std::sync::Arc;

use model::sync::{Assignment, TaskRef, TaskReport};
use model::{Desired, Lifecycle, TaskState, Time};

use crate::effect::{DriverEvent, ProgramRef};
use crate::exit::clip;
use crate::life::Part;
use crate::limits::RETRY;
use crate::program::{Around, Change, Phase, Program};
use crate::record::{Outcome, Record};

mod drive;

/// A task as the agent holds it.
#[derive(Debug)]
pub(crate) struct Task {
    assignment: Arc<Assignment>,
    node: Arc<str>,
    desired: Desired,
    state: TaskState,
    at: Time,
    outcome: Option<Outcome>,
    /// Why, when it ends badly.
    why: Option<Arc<str>>,
    /// The end that it has come to, and when, while that is not yet on disk: `state` follows when it is.
    end: Option<(TaskState, Time)>,
    programs: Vec<Program>,
    disk: Disk,
    /// The manager has removed it: nothing is reported any more, and its directory is deleted at the end.
    removed: bool,
    /// Assigned anew although it was removed: taken in once the old one is forgotten.
    pub(crate) again: Option<Arc<Assignment>>,
    /// By then everything of it must have ended.
    deadline: Option<Time>,
    /// When the report about it was last changed, sent, acknowledged; counted, not timed.
    pub(crate) mark: Mark,
    /// The wake-up that is noted for it.
    pub(crate) wake: Option<Time>,
}

/// What is on disk of a task.
#[derive(Debug)]
struct Disk {
    stage: Stage,
    /// The record says less than what is known.
    stale: bool,
    /// A write is under way. There is never a second one.
    writing: bool,
    failures: u32,
    retry_at: Option<Time>,
    trouble: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The first record is not confirmed.
    New,
    /// There is a record.
    Kept,
    /// Its directory is being deleted.
    Dropping,
    /// There is nothing on disk, and nothing will be.
    Nothing,
}

/// Counts for reports: `changed` is the newest version, what is behind it must be sent or waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mark {
    pub(crate) changed: u64,
    pub(crate) sent: u64,
    pub(crate) acked: u64,
    pub(crate) queued: bool,
    /// What was sent last; `None` when it must be said again.
    pub(crate) said: Option<(TaskState, Option<Arc<str>>)>,
}

impl Disk {
    fn new(stage: Stage) -> Self {
        Self { stage, stale: stage == Stage::New, writing: false, failures: 0, retry_at: None, trouble: None }
    }

    fn is_saved(&self) -> bool {
        !self.stale && !self.writing
    }
}

impl Task {
    /// A task that the agent sees for the first time. The manager's state is used this once: what it knows as ended is never run here, and what it
    /// knows as started is looked for before anything is started.
    pub(crate) fn assigned(assignment: Arc<Assignment>, node: Arc<str>, now: Time) -> Self {
        let seen = assignment.state >= TaskState::Starting;
        let phase = if seen { Phase::Unknown } else { Phase::Idle };
        let programs = assignment.spec.programs.iter().map(|p| Program::fresh(&p.name, phase)).collect();
        let mut task = Self::with(assignment, node, programs, Stage::New);
        task.at = now;
        if task.assignment.state.is_ended() {
            task.state = task.assignment.state;
            task.disk = Disk::new(Stage::Nothing);
        }
        task
    }

    /// A task that cannot be taken in at all. Nothing is written of it.
    pub(crate) fn refused(assignment: Arc<Assignment>, node: Arc<str>, now: Time, why: &Arc<str>) -> Self {
        let mut task = Self::with(assignment, node, Vec::new(), Stage::Nothing);
        (task.state, task.outcome) = (TaskState::Rejected, Some(Outcome::Rejected));
        task.at = now;
        task.why = Some(clip(why));
        task.mark.changed = 1;
        task
    }

    /// A task from its record, after a restart of the daemon.
    pub(crate) fn restored(record: Record) -> Self {
        let mut kept = record.programs;
        let restore = |name: &Arc<str>| match kept.iter().position(|p| p.status.name == *name) {
            Some(place) => {
                let kept = kept.swap_remove(place);
                let phase = if kept.ending.is_some() { Phase::Ended } else { Phase::Unknown };
                Program::restored(kept, phase)
            }
            None => Program::fresh(name, Phase::Unknown),
        };
        let specs = record.assignment.spec.clone();
        let programs = specs.programs.iter().map(|p| &p.name).map(restore).collect();
        let mut task = Self::with(record.assignment, record.node, programs, Stage::Kept);
        task.desired = task.desired.max(record.desired);
        // Its first record was written before it was accepted, and is read after.
        task.state = record.state.max(TaskState::Accepted);
        (task.at, task.why, task.outcome) = (record.at, record.message, record.outcome);
        task.mark.changed = 1;
        task
    }

    fn with(assignment: Arc<Assignment>, node: Arc<str>, programs: Vec<Program>, stage: Stage) -> Self {
        Self {
            desired: assignment.desired,
            assignment,
            node,
            state: TaskState::Assigned,
            at: Time::ZERO,
            outcome: None,
            why: None,
            end: None,
            programs,
            disk: Disk::new(stage),
            removed: false,
            again: None,
            deadline: None,
            mark: Mark::default(),
            wake: None,
        }
    }

    // --- What is known of it.

    pub(crate) fn id(&self) -> &TaskRef {
        &self.assignment.task
    }

    pub(crate) fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    pub(crate) fn desired(&self) -> Desired {
        self.desired
    }

    pub(crate) fn state(&self) -> TaskState {
        self.state
    }

    /// What is worth saying: why it ended badly; until it has ended, what stands in the way.
    pub(crate) fn message(&self) -> Option<&Arc<str>> {
        let disk = self.disk.trouble.as_ref().filter(|_| !self.state.is_ended());
        match self.outcome {
            Some(_) => disk.or(self.why.as_ref()),
            None => disk.or_else(|| self.programs.iter().find_map(|p| p.trouble.as_ref())),
        }
    }

    pub(crate) fn programs(&self) -> impl Iterator<Item = &Program> {
        self.programs.iter()
    }

    /// True once nothing is left of it, here or on disk, and nobody asks for it.
    pub(crate) fn is_gone(&self) -> bool {
        self.removed && self.disk.stage == Stage::Nothing
    }

    /// True once it has ended, that is on disk, and nothing of its programs is left.
    pub(crate) fn is_at_rest(&self) -> bool {
        let gone = self.programs.iter().all(|p| p.phase == Phase::Gone);
        match self.disk.stage {
            Stage::Nothing => true,
            Stage::Kept => self.state.is_ended() && self.disk.is_saved() && gone && !self.removed,
            Stage::New | Stage::Dropping => false,
        }
    }

    /// True when everything is known that would be reported. An end that is being written is waited for: it comes in a moment.
    pub(crate) fn is_reportable(&self) -> bool {
        let ending = self.end.is_some() && self.disk.trouble.is_none();
        !self.removed
            && !ending
            && match self.disk.stage {
                Stage::New => self.disk.trouble.is_some(),
                Stage::Kept => {
                    // After a restart of the daemon: not before it is known how far it has come.
                    self.state >= TaskState::Starting || self.programs.iter().all(Program::is_settled)
                }
                Stage::Dropping => false,
                Stage::Nothing => true,
            }
    }

    /// True when somebody waits for this report: it runs, has ended, waits as it should, or something else is in its way than before. What
    /// only passes by is not waited for, nor what happens to its programs while it runs.
    pub(crate) fn is_urgent(&self) -> bool {
        let waits = self.state == TaskState::Ready && self.desired == Desired::Ready;
        let stays = self.state >= TaskState::Running || waits;
        let message = self.message();
        match &self.mark.said {
            None => stays || message.is_some(),
            Some((state, said)) => {
                stays && *state != self.state || message.is_some() && said.as_ref() != message
            }
        }
    }

    /// It is sent as it is now.
    pub(crate) fn was_sent(&mut self) {
        self.mark.sent = self.mark.changed;
        self.mark.said = Some((self.state, self.message().cloned()));
    }

    /// What was sent and not acknowledged must be sent again.
    pub(crate) fn was_lost(&mut self, acked: u64) {
        (self.mark.sent, self.mark.acked, self.mark.said) = (acked, acked, None);
    }

    /// What is reported of it.
    pub(crate) fn report(&self) -> TaskReport {
        TaskReport {
            task: self.id().clone(),
            state: self.state,
            at: self.at,
            message: self.message().cloned(),
            programs: self.programs.iter().map(|p| p.kept.status.clone()).collect(),
        }
    }

    fn record(&self) -> Record {
        let (state, at) = self.end.unwrap_or((self.state, self.at));
        Record {
            node: self.node.clone(),
            assignment: self.assignment.clone(),
            desired: self.desired,
            state,
            at,
            message: self.why.clone(),
            outcome: self.outcome,
            programs: self.programs.iter().map(|p| p.kept.clone()).collect(),
        }
    }

    /// True once it has ended, be it on disk or not.
    fn is_over(&self) -> bool {
        self.end.is_some() || self.state.is_ended()
    }

    fn asked(&self) -> bool {
        !self.desired.is_wanted()
    }

    /// True when the end may not wait for poststop programs.
    fn hurries(&self, now: Time) -> bool {
        self.removed || self.deadline.is_some_and(|at| at <= now)
    }

    fn parts(&self) -> Vec<Part> {
        let specs = self.assignment.spec.programs.iter();
        specs
            .zip(&self.programs)
            .map(|(s, p)| Part { lifecycle: s.lifecycle, progress: p.progress() })
            .collect()
    }

    // --- What happens to it.

    /// The manager says what it wants of it. Only a rise counts. A task that the manager knows as ended while it lives here was
    /// given up (its node was away too long) and must not run on beside its replacement.
    pub(crate) fn want(&mut self, desired: Desired, known: TaskState) {
        let desired = if known.is_ended() { desired.max(Desired::Shutdown) } else { desired };
        if desired > self.desired {
            self.desired = desired;
            self.disk.stale |= !self.is_over();
        }
    }

    /// The manager has removed it.
    pub(crate) fn remove(&mut self) {
        self.again = None;
        if !self.removed {
            self.removed = true;
            self.want(Desired::Remove, self.state);
        }
    }

    /// The manager assigns it again: true if it was removed and comes back, after the old one is forgotten.
    pub(crate) fn comes_again(&mut self, assignment: &Arc<Assignment>) -> bool {
        if self.removed {
            self.again = Some(assignment.clone());
        }
        self.removed
    }

    /// The agent ends everything.
    pub(crate) fn end_by(&mut self, deadline: Time) {
        self.want(Desired::Shutdown, self.state);
        self.deadline = Some(self.deadline.map_or(deadline, |at| at.min(deadline)));
    }

    /// The record is on disk.
    pub(crate) fn persisted(&mut self, now: Time) {
        if !self.disk.writing {
            return;
        }
        self.disk.writing = false;
        (self.disk.failures, self.disk.retry_at) = (0, None);
        if self.disk.trouble.take().is_some() {
            self.mark.changed += 1;
        }
        if self.disk.stage == Stage::New {
            self.disk.stage = Stage::Kept;
            self.rise(TaskState::Accepted, now);
        }
        if !self.disk.stale {
            self.has_ended();
        }
    }

    /// The record could not be written.
    pub(crate) fn persist_failed(&mut self, message: &str, now: Time) {
        if !self.disk.writing {
            return;
        }
        self.disk.writing = false;
        self.disk.stale = true;
        self.disk.failures = self.disk.failures.saturating_add(1);
        self.disk.retry_at = Some(now + RETRY);
        let trouble = Some(clip(&format!("its record cannot be written: {message}").into()));
        if self.disk.trouble != trouble {
            self.disk.trouble = trouble;
            self.mark.changed += 1;
        }
    }

    /// Its directory is deleted.
    pub(crate) fn forgotten(&mut self) {
        if self.disk.stage == Stage::Dropping {
            self.disk.stage = Stage::Nothing;
            self.has_ended();
        }
    }

    /// The end that it has come to is safe, and may be known.
    fn has_ended(&mut self) {
        if let Some((state, at)) = self.end.take() {
            self.rise(state, at);
        }
    }

    /// A driver speaks of one of its programs.
    pub(crate) fn hear(&mut self, program: &ProgramRef, event: &DriverEvent, now: Time) {
        let specs = &self.assignment.spec.programs;
        let Some(place) = specs.iter().position(|spec| spec.name == program.program) else {
            return;
        };
        let spec = &specs[place];
        let hurries = self.hurries(now);
        let must_have_run = self.assignment.state >= TaskState::Starting;
        let decided = match spec.lifecycle {
            Lifecycle::Poststop => hurries,
            _ => self.asked() || self.outcome.is_some(),
        };
        let known = &mut self.programs[place];
        if known.run != program.run {
            return;
        }
        let ends_on_request = decided || known.stop.is_some();
        let change = known.hear(event, Around { spec, now, ends_on_request, must_have_run });
        if change != Change::None {
            self.mark.changed += 1;
        }
        self.disk.stale |= change == Change::Record;
    }

    /// Moves the state forward, never back.
    fn rise(&mut self, state: TaskState, at: Time) {
        if state > self.state {
            (self.state, self.at) = (state, at);
            self.mark.changed += 1;
        }
    }
}
