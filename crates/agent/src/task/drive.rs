//! What is to be done about a task: everything that is due is asked for, from the whole of what is known.

use std::sync::Arc;

use model::{Desired, Span, TaskState, Time};

use super::{Stage, Task};
use crate::check::{check, stop_signal};
use crate::effect::{Effect, Launch, ProgramRef};
use crate::environment::environment;
use crate::exit::clip;
use crate::life::{self, Want};
use crate::limits::{KILL_AFTER, PERSIST_TRIES};
use crate::program::{Phase, Program, Stop};
use crate::record::{Ending, Outcome};

impl Task {
    /// Asks for everything that is due now.
    pub(crate) fn drive(&mut self, now: Time, out: &mut Vec<Effect>) {
        if self.disk.stage == Stage::New {
            self.accept(now, out);
        }
        if self.disk.stage != Stage::Kept {
            return;
        }
        if !self.is_over() {
            self.attach(now, out);
            self.decide(now);
            self.act(now, out);
            self.advance(now);
        }
        self.save(now, out);
        self.clean(now, out);
    }

    /// When it next needs attention by itself.
    pub(crate) fn next_wake(&self, now: Time) -> Option<Time> {
        let later = |at: &Time| *at > now;
        let deadline = self.deadline.filter(|_| !self.is_over());
        let own = [self.disk.retry_at, deadline].into_iter().flatten().filter(later).min();
        self.programs.iter().filter_map(|p| p.wake(now)).chain(own).min()
    }

    /// Has the first record written. When that fails again and again the task is rejected, so that it finds another node; what may be on disk of it
    /// is deleted first, so that no later daemon takes it for accepted.
    fn accept(&mut self, now: Time, out: &mut Vec<Effect>) {
        if self.disk.writing {
            return;
        }
        let failed = self.disk.failures > 0;
        if self.removed || failed && (self.asked() || self.disk.failures >= PERSIST_TRIES) {
            let outcome = if self.asked() { Outcome::Shutdown } else { Outcome::Rejected };
            self.outcome = Some(outcome);
            self.programs.iter_mut().for_each(|p| p.kept.ending = Some(Ending::Unstarted));
            self.programs.iter_mut().for_each(|p| p.phase = Phase::Gone);
            self.why = self.disk.trouble.take().filter(|_| outcome == Outcome::Rejected);
            self.end = Some((outcome.state(), now));
            self.forget(out);
            return;
        }
        self.save(now, out);
    }

    /// Asks the drivers what became of programs that an earlier daemon may have started, or to remove those that are given up.
    fn attach(&mut self, now: Time, out: &mut Vec<Effect>) {
        for place in 0..self.programs.len() {
            let program = &mut self.programs[place];
            if program.phase != Phase::Unknown || program.retry_at.is_some_and(|at| at > now) {
                continue;
            }
            if program.doomed.is_some() {
                self.discard(place, out);
                continue;
            }
            program.run += 1;
            program.phase = Phase::Attaching;
            program.retry_at = None;
            out.push(Effect::Attach(self.program_ref(place)));
        }
    }

    /// Has a program removed of which nobody knows whether it runs: the driver kills what there is. The reason is on disk first, so that
    /// no later daemon starts what is no longer wanted.
    fn discard(&mut self, place: usize, out: &mut Vec<Effect>) {
        if self.disk.is_saved() {
            let program = &mut self.programs[place];
            program.phase = Phase::Discarding;
            program.retry_at = None;
            out.push(Effect::Remove(self.program_ref(place)));
        }
    }

    /// Decides whether it starts, and how it ends.
    fn decide(&mut self, now: Time) {
        if self.outcome.is_some() {
            return;
        }
        let parts = self.parts();
        let begun = parts.iter().any(|part| part.progress != life::Progress::Waiting);
        if self.state < TaskState::Starting && !begun && !self.asked() {
            if let Err(why) = check(&self.assignment) {
                self.decided(Outcome::Rejected, Some(why));
                return;
            }
            let ready = self.desired == Desired::Ready;
            self.rise(if ready { TaskState::Ready } else { TaskState::Starting }, now);
        }
        let unsettled = !self.programs.iter().all(Program::is_settled);
        if self.state < TaskState::Starting && unsettled && !self.asked() {
            return;
        }
        if self.state < TaskState::Starting && begun {
            self.rise(TaskState::Starting, now);
        }
        if let Some(outcome) = life::outcome(&parts, self.asked()) {
            let why = self.first_failure().filter(|_| outcome == Outcome::Failed);
            self.decided(outcome, why);
        }
    }

    fn decided(&mut self, outcome: Outcome, why: Option<Arc<str>>) {
        self.outcome = Some(outcome);
        self.why = why;
        self.disk.stale = true;
        self.mark.changed += 1;
    }

    /// Of the program that failed first; of several at one time, the first in the spec.
    fn first_failure(&self) -> Option<Arc<str>> {
        let failed = self.programs.iter().filter(|p| p.kept.ending == Some(Ending::Failed));
        let first = failed.min_by_key(|p| p.kept.status.ended_at)?;
        let what =
            first.trouble.clone().or_else(|| first.kept.status.events.last().map(|e| e.message.clone()))?;
        if self.programs.len() == 1 {
            return Some(what);
        }
        Some(clip(&format!("{}: {what}", first.kept.status.name).into()))
    }

    /// Has each program do what it shall, until nothing follows from what was done.
    fn act(&mut self, now: Time, out: &mut Vec<Effect>) {
        let mut place = 0;
        while place < self.programs.len() {
            let lifecycle = self.assignment.spec.programs[place].lifecycle;
            let want = life::want(&self.parts(), lifecycle, self.outcome, self.hurries(now));
            let moved = match want {
                Want::Run => self.start(place, now, out),
                Want::End => self.end(place, now, out),
                Want::Wait => false,
            };
            // What one does may be what another waits for.
            place = if moved { 0 } else { place + 1 };
        }
    }

    /// Starts a program that may and does not run yet; true if it did.
    fn start(&mut self, place: usize, now: Time, out: &mut Vec<Effect>) -> bool {
        let settled = self.programs.iter().all(Program::is_settled);
        let program = &mut self.programs[place];
        let may = self.state >= TaskState::Starting && settled && program.is_due(now);
        if program.phase != Phase::Idle || program.kept.ending.is_some() || !may {
            return false;
        }
        program.start();
        let spec = &self.assignment.spec.programs[place];
        let launch = Launch {
            program: self.program_ref(place),
            assignment: self.assignment.clone(),
            index: place,
            env: environment(&self.assignment, spec, &self.node),
            stop_signal: stop_signal(spec),
        };
        out.push(Effect::Start(Box::new(launch)));
        self.mark.changed += 1;
        true
    }

    /// Ends a program; true if others may now go on.
    fn end(&mut self, place: usize, now: Time, out: &mut Vec<Effect>) -> bool {
        let program = &mut self.programs[place];
        match program.phase {
            _ if program.kept.ending.is_some() => false,
            Phase::Idle | Phase::Ended | Phase::Removing | Phase::Gone => {
                program.write_off();
                self.disk.stale = true;
                self.mark.changed += 1;
                true
            }
            Phase::Unknown if program.failures > 0 && program.doomed.is_none() => {
                program.doomed = Some(Ending::Stopped);
                program.retry_at = None;
                self.discard(place, out);
                false
            }
            Phase::Running => {
                self.stop(place, now, out);
                false
            }
            Phase::Unknown | Phase::Attaching | Phase::Starting | Phase::Discarding => false,
        }
    }

    /// Asks a running program to end; asks again when there is less time than before; has it killed when it is overdue.
    fn stop(&mut self, place: usize, now: Time, out: &mut Vec<Effect>) {
        let own = Span(self.assignment.spec.programs[place].stop_grace.0.max(0));
        let named = self.program_ref(place);
        let deadline = self.deadline;
        let program = &mut self.programs[place];
        let wanted = program.stop.map_or(now + own, |stop| stop.until);
        let until = deadline.map_or(wanted, |at| wanted.min(at.max(now)));
        if program.stop.is_none_or(|stop| until < stop.until) {
            let grace = until.since(now);
            program.stop = Some(Stop { until, kill_at: until + KILL_AFTER });
            program.note(now, format!("asked to end within {grace}"));
            self.mark.changed += 1;
            out.push(Effect::Stop { program: named, grace });
        } else if program.stop.is_some_and(|stop| stop.kill_at <= now) {
            program.stop = Some(Stop { until, kill_at: now + KILL_AFTER });
            program.note(now, "did not end in time: killed");
            self.mark.changed += 1;
            out.push(Effect::Kill(named));
        }
    }

    /// Moves the state to what its programs have come to.
    fn advance(&mut self, now: Time) {
        if self.state < TaskState::Starting && self.outcome.is_none() {
            return;
        }
        let reached = life::reached(&self.parts(), self.outcome);
        let statuses = self.programs.iter().map(|p| &p.kept.status);
        let at = if reached.is_ended() {
            statuses.map(|s| s.ended_at).max()
        } else {
            statuses.map(|s| s.started_at).max()
        };
        let at = at.filter(|at| *at != Time::ZERO && reached >= TaskState::Running).unwrap_or(now);
        if reached.is_ended() {
            if reached == TaskState::Failed && self.why.is_none() {
                self.why = self.first_failure();
            }
            self.end = Some((reached, at));
            self.disk.stale = true;
        } else {
            self.rise(reached, at);
        }
    }

    /// Has the record written if it says less than what is known and no write is under way.
    fn save(&mut self, now: Time, out: &mut Vec<Effect>) {
        let pointless = self.removed && self.is_over();
        let due = self.disk.retry_at.is_none_or(|at| at <= now);
        if self.disk.stale && !self.disk.writing && due && !pointless {
            self.disk.stale = false;
            self.disk.writing = true;
            self.disk.retry_at = None;
            out.push(Effect::Persist(Box::new(self.record())));
        }
    }

    /// Has traces removed that nobody needs any more: those of a run whose successor waits, and at the end all.
    fn clean(&mut self, now: Time, out: &mut Vec<Effect>) {
        let ended = self.is_over();
        let saved = self.disk.is_saved() || self.removed && ended;
        for place in 0..self.programs.len() {
            let program = &mut self.programs[place];
            let between_runs = program.kept.restart_at.is_some() && program.kept.ending.is_none();
            let due = program.retry_at.is_none_or(|at| at <= now);
            if saved && due && program.phase == Phase::Ended && (ended || between_runs) {
                program.phase = Phase::Removing;
                program.retry_at = None;
                out.push(Effect::Remove(self.program_ref(place)));
            }
        }
        let gone = self.programs.iter().all(|p| p.phase == Phase::Gone);
        if self.removed && ended && gone && !self.disk.writing {
            self.forget(out);
        }
    }

    fn forget(&mut self, out: &mut Vec<Effect>) {
        self.disk.stage = Stage::Dropping;
        out.push(Effect::Forget { task: self.id().clone() });
    }

    fn program_ref(&self, place: usize) -> ProgramRef {
        let spec = &self.assignment.spec.programs[place];
        ProgramRef {
            task: self.id().clone(),
            program: spec.name.clone(),
            driver: spec.driver,
            run: self.programs[place].run,
        }
    }
}
