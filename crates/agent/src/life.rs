//! The rules of a task's life: its state, its outcome and what its programs shall do are functions of its programs' progress.
//!
//! Nothing here remembers anything, knows a driver, or the time.

use model::{Lifecycle, TaskState};

use crate::record::{Ending, Outcome};

/// How far one program has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Was never started.
    Waiting,
    /// Told to start; or an earlier daemon started it and the driver has not said yet what became of it.
    Starting,
    /// Runs.
    Running,
    /// Ended, and is going to be started again in place.
    Restarting,
    /// Ended for good.
    Over(Ending),
}

impl Progress {
    /// Nothing of it runs, and nothing will if it is not started.
    fn is_quiet(self) -> bool {
        !matches!(self, Self::Starting | Self::Running)
    }

    /// It runs, or has done what it should.
    fn is_up(self) -> bool {
        matches!(self, Self::Running | Self::Over(Ending::Succeeded))
    }
}

/// One program of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) progress: Progress,
}

/// What a program shall do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Be started, if it is not.
    Run,
    /// Stay as it is: not be started, not be ended.
    Wait,
    /// End, if it runs; and not be started any more.
    End,
}

/// How the task will end, if that is decided by now. Whoever asks keeps the first answer: it is never taken back.
///
/// A failure counts before a request, a request before completion. A poststop program decides nothing: it runs after the decision.
pub(crate) fn outcome(parts: &[Part], asked: bool) -> Option<Outcome> {
    let failed = |part: &Part| part.progress == Progress::Over(Ending::Failed);
    if before_poststop(parts).any(failed) {
        return Some(Outcome::Failed);
    }
    if asked {
        return Some(Outcome::Shutdown);
    }
    let done = |part: &Part| part.progress == Progress::Over(Ending::Succeeded);
    of(parts, Lifecycle::Main).all(done).then_some(Outcome::Complete)
}

/// What a program of this lifecycle shall do.
///
/// Prestart and sidecar programs start together; the main ones when each prestart has ended with success and each sidecar has started;
/// poststart ones when the main ones run. Once the outcome is decided the main ones end (with prestart and poststart), then the sidecars, and then the poststop
/// programs run, if anything ran before and `hurry` is false.
pub(crate) fn want(parts: &[Part], lifecycle: Lifecycle, outcome: Option<Outcome>, hurry: bool) -> Want {
    let when = |ready: bool, then: Want| if ready { then } else { Want::Wait };
    match (lifecycle, outcome) {
        (Lifecycle::Prestart | Lifecycle::Sidecar, None) => Want::Run,
        (Lifecycle::Main, None) => when(is_prepared(parts), Want::Run),
        (Lifecycle::Poststart, None) => when(is_running(parts), Want::Run),
        (Lifecycle::Poststop, None) => Want::Wait,
        (Lifecycle::Prestart | Lifecycle::Main | Lifecycle::Poststart, Some(_)) => Want::End,
        (Lifecycle::Sidecar, Some(_)) => {
            let others = before_poststop(parts).filter(|part| part.lifecycle != Lifecycle::Sidecar);
            when(all_quiet(others), Want::End)
        }
        (Lifecycle::Poststop, Some(_)) if hurry || !has_run(parts) => Want::End,
        (Lifecycle::Poststop, Some(_)) => when(all_quiet(before_poststop(parts)), Want::Run),
    }
}

/// The state of a task that was told to start: `Starting`, `Running`, or its end. While it ends it keeps what it had: whoever asks takes the
/// larger of this and the state before.
pub(crate) fn reached(parts: &[Part], outcome: Option<Outcome>) -> TaskState {
    let Some(outcome) = outcome else {
        return if is_running(parts) { TaskState::Running } else { TaskState::Starting };
    };
    let mut after = of(parts, Lifecycle::Poststop);
    let over = |part: &Part| matches!(part.progress, Progress::Over(_));
    if !all_quiet(before_poststop(parts)) || !after.clone().all(over) {
        return TaskState::Starting;
    }
    let failed = after.any(|part| part.progress == Progress::Over(Ending::Failed));
    if failed && outcome == Outcome::Complete { TaskState::Failed } else { outcome.state() }
}

fn of(parts: &[Part], lifecycle: Lifecycle) -> impl Iterator<Item = &Part> + Clone {
    parts.iter().filter(move |part| part.lifecycle == lifecycle)
}

fn before_poststop(parts: &[Part]) -> impl Iterator<Item = &Part> {
    parts.iter().filter(|part| part.lifecycle != Lifecycle::Poststop)
}

fn all_quiet<'a>(mut parts: impl Iterator<Item = &'a Part>) -> bool {
    parts.all(|part| part.progress.is_quiet())
}

fn has_run(parts: &[Part]) -> bool {
    let idle = |part: &Part| matches!(part.progress, Progress::Waiting | Progress::Over(Ending::Unstarted));
    !before_poststop(parts).all(idle)
}

fn is_prepared(parts: &[Part]) -> bool {
    let done = |part: &Part| part.progress == Progress::Over(Ending::Succeeded);
    let begun = |part: &Part| !matches!(part.progress, Progress::Waiting | Progress::Starting);
    of(parts, Lifecycle::Prestart).all(done) && of(parts, Lifecycle::Sidecar).all(begun)
}

fn is_running(parts: &[Part]) -> bool {
    is_prepared(parts) && of(parts, Lifecycle::Main).all(|part| part.progress.is_up())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ending::{Failed, Stopped, Succeeded, Unstarted};
    use Progress::{Over, Restarting, Running, Starting, Waiting};

    /// Programs from letters: the lifecycle (`p`restart, `s`idecar, `m`ain, `a`fter start, `z` poststop) and the progress
    /// (`.` waiting, `>` starting, `r` running, `~` restarting, `+` succeeded, `!` failed, `x` stopped, `0` never started).
    fn parts(text: &str) -> Vec<Part> {
        let part = |word: &str| {
            let (life, progress) = word.split_at(1);
            let lifecycle = match life {
                "p" => Lifecycle::Prestart,
                "s" => Lifecycle::Sidecar,
                "m" => Lifecycle::Main,
                "a" => Lifecycle::Poststart,
                "z" => Lifecycle::Poststop,
                other => panic!("no lifecycle {other}"),
            };
            let progress = match progress {
                "." => Waiting,
                ">" => Starting,
                "r" => Running,
                "~" => Restarting,
                "+" => Over(Succeeded),
                "!" => Over(Failed),
                "x" => Over(Stopped),
                "0" => Over(Unstarted),
                other => panic!("no progress {other}"),
            };
            Part { lifecycle, progress }
        };
        text.split(' ').map(part).collect()
    }

    #[test]
    fn outcomes() {
        let complete = Some(Outcome::Complete);
        for (text, asked, wanted) in [
            ("m.", false, None),
            ("mr", false, None),
            ("m~", false, None),
            ("m+", false, complete),
            ("m+", true, Some(Outcome::Shutdown)),
            ("m!", false, Some(Outcome::Failed)),
            ("m!", true, Some(Outcome::Failed)),
            ("mr", true, Some(Outcome::Shutdown)),
            ("m+ mr", false, None),
            ("m+ m+", false, complete),
            ("m+ m!", false, Some(Outcome::Failed)),
            ("mr m!", false, Some(Outcome::Failed)),
            ("p! m.", false, Some(Outcome::Failed)),
            ("p+ mr", false, None),
            ("s! mr", false, Some(Outcome::Failed)),
            ("s+ mr", false, None),
            ("sr m+", false, complete),
            ("mr a!", false, Some(Outcome::Failed)),
            ("mr a+", false, None),
            ("mr z!", false, None),
        ] {
            assert_eq!(outcome(&parts(text), asked), wanted, "{text} asked: {asked}");
        }
    }

    #[test]
    fn states() {
        use TaskState as S;
        let (complete, shutdown, failed) =
            (Some(Outcome::Complete), Some(Outcome::Shutdown), Some(Outcome::Failed));
        for (text, outcome, wanted) in [
            ("m.", None, S::Starting),
            ("m>", None, S::Starting),
            ("mr", None, S::Running),
            ("m~", None, S::Starting),
            ("mr m>", None, S::Starting),
            ("mr m+", None, S::Running),
            ("pr m.", None, S::Starting),
            ("p+ sr mr", None, S::Running),
            ("p+ s> mr", None, S::Starting),
            ("mr a.", None, S::Running),
            ("m+", complete, S::Complete),
            ("m+ sr", complete, S::Starting),
            ("m+ sx", complete, S::Complete),
            ("m+ sx z.", complete, S::Starting),
            ("m+ sx zr", complete, S::Starting),
            ("m+ sx z~", complete, S::Starting),
            ("m+ sx z+", complete, S::Complete),
            ("m+ sx z!", complete, S::Failed),
            ("m! z!", failed, S::Failed),
            ("m! mr", failed, S::Starting),
            ("m! mx", failed, S::Failed),
            ("m! m0", failed, S::Failed),
            ("mx", shutdown, S::Shutdown),
            ("mx z!", shutdown, S::Shutdown),
            ("m0", shutdown, S::Shutdown),
            ("m0", Some(Outcome::Rejected), S::Rejected),
        ] {
            assert_eq!(reached(&parts(text), outcome), wanted, "{text} {outcome:?}");
        }
    }

    #[test]
    fn what_programs_shall_do() {
        use Lifecycle::{Main, Poststart, Poststop, Prestart, Sidecar};
        use Want::{End, Run, Wait};
        let asked = Some(Outcome::Shutdown);
        for (text, lifecycle, outcome, hurry, wanted) in [
            ("p. s. m. a. z.", Prestart, None, false, Run),
            ("p. s. m. a. z.", Sidecar, None, false, Run),
            ("p. s. m. a. z.", Main, None, false, Wait),
            ("pr sr m. a. z.", Main, None, false, Wait),
            ("p+ s> m. a. z.", Main, None, false, Wait),
            ("p+ sr m. a. z.", Main, None, false, Run),
            ("p+ s~ m. a. z.", Main, None, false, Run),
            ("m.", Main, None, false, Run),
            ("p+ sr m> a. z.", Poststart, None, false, Wait),
            ("p+ sr mr a. z.", Poststart, None, false, Run),
            ("p+ sr mr ar z.", Poststop, None, false, Wait),
            ("p+ sr mr ar z.", Main, asked, false, End),
            ("p+ sr mr ar z.", Poststart, asked, false, End),
            ("p+ sr mr ar z.", Sidecar, asked, false, Wait),
            ("p+ sr mx ar z.", Sidecar, asked, false, Wait),
            ("p+ sr mx ax z.", Sidecar, asked, false, End),
            ("p+ sr mx ax z.", Poststop, asked, false, Wait),
            ("p+ sx mx ax z.", Poststop, asked, false, Run),
            ("p+ sx mx ax z.", Poststop, asked, true, End),
            ("p+ sx mx ax zr", Poststop, asked, true, End),
            ("p0 s0 m0 a0 z.", Poststop, asked, false, End),
            ("p. s. m. a. z.", Poststop, asked, false, End),
            ("p! sx m0 a0 z.", Poststop, Some(Outcome::Failed), false, Run),
        ] {
            let got = want(&parts(text), lifecycle, outcome, hurry);
            assert_eq!(got, wanted, "{text} {lifecycle:?} {outcome:?} hurry: {hurry}");
        }
    }
}
