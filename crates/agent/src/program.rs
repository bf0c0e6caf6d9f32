//! One program of a task: what its driver says of it, and what that means for it. It emits nothing; the task decides and asks.

use std::sync::Arc;

use model::{Lifecycle, ProgramEvent, ProgramSpec, ProgramState, ProgramStatus, RestartPolicy, Span, Time};

use crate::effect::{DriverEvent, Exit};
use crate::exit::clip;
use crate::life::Progress;
use crate::limits::{PROGRAM_EVENTS, RETRY, START_TRIES};
use crate::record::{Ending, ProgramRecord, RestartCount};

/// What the driver holds of a program, as far as the agent knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// An earlier daemon may have started it; the driver is to be asked.
    Unknown,
    /// The driver was asked.
    Attaching,
    /// The driver has nothing of it: it may be started.
    Idle,
    /// Told to start.
    Starting,
    /// Runs.
    Running,
    /// Ended; the driver still has its traces, the proof of its end among them.
    Ended,
    /// The driver was told to remove the traces of an ended program.
    Removing,
    /// The driver was told to remove a program although it could not say what became of it.
    Discarding,
    /// Over, and without a trace.
    Gone,
}

/// A program as the agent holds it.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) kept: ProgramRecord,
    pub(crate) phase: Phase,
    /// Counts starts and attachments; answers to an older one are not heard.
    pub(crate) run: u64,
    /// Set once it was asked to end.
    pub(crate) stop: Option<Stop>,
    /// The driver failed; it is asked again at this time.
    pub(crate) retry_at: Option<Time>,
    /// How often the driver failed in a row.
    pub(crate) failures: u32,
    /// Nobody knows whether it runs, and it is given up: the driver removes whatever there is, and then it has ended so.
    pub(crate) doomed: Option<Ending>,
    /// What keeps it from running now, for the message of the task.
    pub(crate) trouble: Option<Arc<str>>,
}

/// A request to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    /// When its grace period is over: the driver kills it then.
    pub(crate) until: Time,
    /// When the agent has it killed, if it still runs.
    pub(crate) kill_at: Time,
}

/// What the task tells a program about itself when the driver speaks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a> {
    pub(crate) spec: &'a ProgramSpec,
    pub(crate) now: Time,
    /// The end of the program is wanted: however it ends, it was not its own doing.
    pub(crate) ends_on_request: bool,
    /// The manager knew the task as started when this node first saw it.
    pub(crate) must_have_run: bool,
}

/// What an event changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing: it came too late, or twice.
    None,
    /// What is reported.
    Report,
    /// What is reported, and the record.
    Record,
}

impl Program {
    /// A program that was never started.
    pub(crate) fn fresh(name: &Arc<str>, phase: Phase) -> Self {
        let status = ProgramStatus { name: name.clone(), ..ProgramStatus::default() };
        Self::restored(ProgramRecord { status, ..ProgramRecord::default() }, phase)
    }

    /// A program as it was kept on disk.
    pub(crate) fn restored(kept: ProgramRecord, phase: Phase) -> Self {
        Self { kept, phase, run: 0, stop: None, retry_at: None, failures: 0, doomed: None, trouble: None }
    }

    /// How far it has come.
    pub(crate) fn progress(&self) -> Progress {
        if let Some(ending) = self.kept.ending {
            return Progress::Over(ending);
        }
        match self.phase {
            Phase::Running => Progress::Running,
            Phase::Unknown | Phase::Attaching | Phase::Starting | Phase::Discarding => Progress::Starting,
            _ if self.kept.restart_at.is_some() => Progress::Restarting,
            _ => Progress::Waiting,
        }
    }

    /// True unless the driver has still to say what became of it.
    pub(crate) fn is_settled(&self) -> bool {
        !matches!(self.phase, Phase::Unknown | Phase::Attaching | Phase::Discarding)
    }

    /// True when neither a restart in place nor another try has to wait.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.retry_at.is_none_or(|at| at <= now) && self.kept.restart_at.is_none_or(|at| at <= now)
    }

    /// When it next needs attention by itself; moments that have passed need none.
    pub(crate) fn wake(&self, now: Time) -> Option<Time> {
        let restart = self.kept.restart_at.filter(|_| self.phase == Phase::Idle);
        let kill = self.stop.filter(|_| self.phase == Phase::Running).map(|stop| stop.kill_at);
        [self.retry_at, restart, kill].into_iter().flatten().filter(|at| *at > now).min()
    }

    /// It is told to start. That it was to be restarted is known until it runs.
    pub(crate) fn start(&mut self) {
        self.run += 1;
        self.phase = Phase::Starting;
        self.retry_at = None;
    }

    /// It shall end before the driver has anything of it, or between two runs.
    pub(crate) fn write_off(&mut self) {
        let between_runs = self.kept.restart_at.take().is_some();
        self.end_for_good(if between_runs { Ending::Stopped } else { Ending::Unstarted });
        if self.phase == Phase::Idle {
            self.phase = Phase::Gone;
        }
        self.retry_at = None;
        self.failures = 0;
    }

    /// Takes in what the driver says.
    pub(crate) fn hear(&mut self, event: &DriverEvent, around: Around<'_>) -> Change {
        match (event, self.phase) {
            (DriverEvent::Started { pid, at, notes }, Phase::Starting) => {
                self.runs(*pid, *at, notes, "started")
            }
            (DriverEvent::Attached { pid, at, notes }, Phase::Attaching) => {
                self.runs(*pid, *at, notes, "found running")
            }
            (DriverEvent::Started { at, .. }, _) => self.started_long_ago(*at),
            (DriverEvent::StartFailed { message, retryable }, Phase::Starting) => {
                self.start_failed(message, *retryable, around)
            }
            (DriverEvent::Exited(exit), Phase::Attaching) if self.is_counted(exit) => {
                self.phase = Phase::Ended;
                Change::Report
            }
            (DriverEvent::Exited(exit), Phase::Attaching | Phase::Starting | Phase::Running) => {
                self.ended(exit, around)
            }
            (DriverEvent::Lost { message, at }, Phase::Attaching | Phase::Starting | Phase::Running) => {
                self.ended(&Exit { message: message.clone(), at: *at, ..Exit::default() }, around)
            }
            (DriverEvent::Never, Phase::Attaching) => self.never(around),
            (DriverEvent::AttachFailed { message }, Phase::Attaching) => {
                self.phase = Phase::Unknown;
                self.failed(around.now, "it is not known what became of it", message)
            }
            (DriverEvent::Removed, Phase::Removing | Phase::Discarding) => self.removed(),
            (DriverEvent::RemoveFailed { message }, Phase::Removing) => {
                self.phase = Phase::Ended;
                self.failed(around.now, "its traces could not be removed", message)
            }
            (DriverEvent::RemoveFailed { message }, Phase::Discarding) => {
                self.phase = Phase::Unknown;
                self.failed(around.now, "it could not be removed", message)
            }
            _ => Change::None,
        }
    }

    /// A note among the events of the program; the oldest give way. A message that comes again and again is kept once.
    pub(crate) fn note(&mut self, at: Time, message: impl Into<Arc<str>>) {
        let message = clip(&message.into());
        let events = &mut self.kept.status.events;
        if events.last().is_some_and(|last| last.message == message) {
            return;
        }
        if events.len() >= PROGRAM_EVENTS {
            events.remove(0);
        }
        events.push(ProgramEvent { at, message });
    }

    fn runs(&mut self, pid: u32, at: Time, notes: &[Arc<str>], how: &str) -> Change {
        self.phase = Phase::Running;
        self.failures = 0;
        self.retry_at = None;
        self.trouble = None;
        self.kept.restart_at = None;
        let status = &mut self.kept.status;
        (status.state, status.pid, status.started_at) = (ProgramState::Running, pid, at);
        (status.exit_code, status.signal, status.oom) = (None, None, false);
        self.note(at, if pid == 0 { how.to_owned() } else { format!("{how} as process {pid}") });
        for note in notes {
            self.note(at, note.clone());
        }
        Change::Report
    }

    /// The news of a start that comes after the end of the same run.
    fn started_long_ago(&mut self, at: Time) -> Change {
        let ended = matches!(self.phase, Phase::Ended | Phase::Removing | Phase::Gone);
        if !ended || self.kept.status.started_at >= at {
            return Change::None;
        }
        self.kept.status.started_at = at;
        Change::Report
    }

    /// It was not started, for good: that ends the program, without restarts in place, for what cannot be started now cannot be started again. Or perhaps
    /// only for now, or nobody is sure: the driver is asked what became of it before it is started again. After many such tries it is given up.
    fn start_failed(&mut self, message: &Arc<str>, retryable: bool, around: Around<'_>) -> Change {
        if retryable {
            self.phase = Phase::Unknown;
            let change = self.failed(around.now, "it could not be started yet", message);
            if around.ends_on_request {
                self.retry_at = None;
            } else if self.failures >= START_TRIES {
                self.retry_at = None;
                self.doomed = Some(Ending::Failed);
                self.trouble = Some(clip(message));
            }
            return change;
        }
        self.phase = Phase::Ended;
        self.kept.status.ended_at = around.now;
        self.trouble = Some(clip(message));
        self.note(around.now, format!("could not be started: {message}"));
        self.end_for_good(if around.ends_on_request { Ending::Stopped } else { Ending::Failed });
        Change::Record
    }

    /// The driver failed, and is asked again a little later.
    fn failed(&mut self, now: Time, what: &str, message: &Arc<str>) -> Change {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now + RETRY);
        let sentence: Arc<str> = format!("{what}: {message}").into();
        self.trouble = Some(clip(&sentence));
        self.note(now, sentence);
        Change::Report
    }

    /// True for the end that the record tells already: the daemon died between writing it and removing the traces. An end that nobody
    /// saw has no time of its own and may be counted twice: that costs a restart at most.
    fn is_counted(&self, exit: &Exit) -> bool {
        self.kept.restart_at.is_some() && exit.at == self.kept.status.ended_at
    }

    fn never(&mut self, around: Around<'_>) -> Change {
        let known_to_run = self.kept.status.state == ProgramState::Running
            || (around.must_have_run && around.spec.lifecycle != Lifecycle::Poststop);
        if self.kept.restart_at.is_none() && known_to_run {
            let message = "what the node knew of it is lost".into();
            return self.ended(&Exit { message, at: around.now, ..Exit::default() }, around);
        }
        // The driver has answered, but that says nothing of the starts that failed before: their count and their reason stay.
        self.phase = Phase::Idle;
        self.retry_at = None;
        Change::Report
    }

    fn removed(&mut self) -> Change {
        self.retry_at = None;
        self.failures = 0;
        if self.phase == Phase::Discarding {
            self.phase = Phase::Gone;
            self.kept.restart_at = None;
            let ending = self.doomed.take().unwrap_or(Ending::Stopped);
            self.end_for_good(ending);
            return Change::Record;
        }
        let again = self.kept.restart_at.is_some() && self.kept.ending.is_none();
        self.phase = if again { Phase::Idle } else { Phase::Gone };
        Change::None
    }

    /// It ended: for good, or to be restarted in place.
    fn ended(&mut self, exit: &Exit, around: Around<'_>) -> Change {
        self.phase = Phase::Ended;
        self.stop = None;
        self.failures = 0;
        self.retry_at = None;
        self.kept.restart_at = None;
        let sentence = exit.sentence(around.spec.limits.memory);
        let status = &mut self.kept.status;
        (status.exit_code, status.signal, status.oom) = (exit.code, exit.signal, exit.oom);
        status.ended_at = exit.at;
        status.pid = 0;
        if exit.started_at != Time::ZERO {
            status.started_at = exit.started_at;
        }
        self.note(exit.at, sentence.clone());
        self.trouble = None;
        let (success, policy) = (exit.is_success(), around.spec.restart);
        let may_restart = !success || around.spec.lifecycle == Lifecycle::Sidecar;
        if around.ends_on_request {
            self.end_for_good(Ending::Stopped);
        } else if may_restart && self.kept.restarts.allow(policy, around.now) {
            self.restart(policy, &sentence, around.now);
        } else {
            self.trouble = (!success).then(|| match self.kept.status.restarts {
                0 => sentence,
                1 => format!("{sentence} after 1 restart").into(),
                n => format!("{sentence} after {n} restarts").into(),
            });
            self.end_for_good(if success { Ending::Succeeded } else { Ending::Failed });
        }
        Change::Record
    }

    fn restart(&mut self, policy: RestartPolicy, sentence: &str, now: Time) {
        self.kept.restart_at = Some(now + policy.delay);
        let status = &mut self.kept.status;
        status.restarts = status.restarts.saturating_add(1);
        status.state = ProgramState::Pending;
        let plan = format!(
            "restarting in {}, {} of {} in this window",
            policy.delay, self.kept.restarts.count, policy.attempts
        );
        self.trouble = Some(format!("{sentence}; {plan}").into());
        self.note(now, plan);
    }

    fn end_for_good(&mut self, ending: Ending) {
        self.kept.ending = Some(ending);
        self.kept.status.state = ProgramState::Dead;
        self.kept.status.failed = ending == Ending::Failed;
        self.kept.status.pid = 0;
    }
}

impl RestartCount {
    /// Takes one restart out of what the policy allows; false when nothing is left. The window begins with the first restart in it;
    /// a window of zero never ends.
    fn allow(&mut self, policy: RestartPolicy, now: Time) -> bool {
        let over = policy.window > Span::ZERO && now.since(self.since) >= policy.window;
        if self.count == 0 || over {
            *self = Self { since: now, count: 0 };
        }
        if self.count >= policy.attempts {
            return false;
        }
        self.count += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_counted_in_a_window() {
        let policy = |attempts, window| RestartPolicy {
            attempts,
            window: Span::from_secs(window),
            delay: Span::from_secs(1),
        };
        let run = |policy: RestartPolicy, times: &[i64]| -> String {
            let mut count = RestartCount::default();
            let allow = |s: &i64| count.allow(policy, Time::ZERO + Span::from_secs(*s));
            times.iter().map(allow).map(|yes| if yes { '+' } else { '-' }).collect()
        };
        for (attempts, window, at, wanted) in [
            (0, 10, &[1, 100][..], "--"),
            (2, 10, &[1, 2, 3, 10, 11, 12, 13][..], "++--++-"),
            (2, 0, &[1, 1000, 1_000_000][..], "++-"),
            (1, 10, &[1, 11, 21, 30][..], "+++-"),
        ] {
            assert_eq!(run(policy(attempts, window), at), wanted, "{attempts} in {window} s");
        }
    }

    #[test]
    fn events_are_bounded_and_not_repeated() {
        let mut program = Program::fresh(&"main".into(), Phase::Idle);
        for n in 0..40 {
            program.note(Time(n), format!("event {}", n / 2));
        }
        let events = &program.kept.status.events;
        assert_eq!((events.len(), &*events[0].message), (PROGRAM_EVENTS, "event 10"));
        assert_eq!(&*events[9].message, "event 19");
    }
}
