//! When an ended task is replaced: the one algorithm, for replicated and global services.
//!
//! 1. A task whose node was taken from it (down, drained, removed, no longer fit) never comes here: it did not end by itself.
//!    Its slot is filled again at once and nothing is counted, whatever the policy.
//! 2. The condition is asked of the newest end in the slot. `none`: never replaced. `on-failure`: replaced unless
//!    it is complete. `any`: replaced.
//! 3. `max_attempts` is how many times a task of one revision is replaced in one slot. The ends that count are the
//!    slot's kept tasks of the service's revision that completed, failed or were rejected, back to the first task of another
//!    revision; nothing else remembers them. The n-th end is replaced when n is at most `max_attempts`, so the last attempt
//!    is the `max_attempts + 1`st task. Zero: no limit.
//! 4. With a `window`, an end counts only while the tasks after it have not run for longer than the window, all together.
//!    Only time in which they ran is added up, never time in which they waited for their delay, a node or
//!    their preparation. So a task that keeps failing at once uses up its attempts however long the delay is, while
//!    one that has run well for longer than the window starts afresh. (Counting by the clock, as SwarmKit does, never
//!    reaches `max_attempts` when the delay is as long as the window.)
//! 5. The replacement may run `delay` after the end, by the log's clock. Of a task that ended while it still waited for its own
//!    time, `delay` after that time.

use model::{Condition, ReplacePolicy, RevisionId, Span, Task, TaskState, Time};

/// What the policy says of the newest end in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is replaced by a task that may run from then on.
    From(Time),
    /// It is not, for this reason.
    Never(Reason),
}

/// Why an ended task is not replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The policy is `none`.
    Condition,
    /// It succeeded and the policy is `on-failure`.
    Success,
    /// Every attempt is used up.
    Attempts,
}

/// Decides about `newest`. `ends` are the ends that count ([`counted`]), the newest first.
pub(crate) fn decide<'t>(
    policy: &ReplacePolicy,
    newest: &Task,
    ends: impl Iterator<Item = &'t Task>,
) -> Verdict {
    match policy.condition {
        Condition::None => return Verdict::Never(Reason::Condition),
        Condition::OnFailure if newest.status.state == TaskState::Complete => {
            return Verdict::Never(Reason::Success);
        }
        Condition::OnFailure | Condition::Any => {}
    }
    if policy.max_attempts > 0 && used(policy, ends) > policy.max_attempts as usize {
        return Verdict::Never(Reason::Attempts);
    }
    let turn = newest.start_after.unwrap_or(Time::ZERO);
    Verdict::From(newest.status.applied_at.max(turn) + policy.delay)
}

/// How many ends count against `max_attempts`. Looks at no more than it takes to know that they are used up.
fn used<'t>(policy: &ReplacePolicy, ends: impl Iterator<Item = &'t Task>) -> usize {
    let mut ran = Span::ZERO;
    let mut count = 0;
    for task in ends.take(to_keep(policy)) {
        if policy.window > Span::ZERO && ran > policy.window {
            break;
        }
        count += 1;
        ran = Span(ran.0.saturating_add(time_run(policy, task).0));
    }
    count
}

/// How many counted ends must be kept in the store so that attempts can be counted.
pub(crate) fn to_keep(policy: &ReplacePolicy) -> usize {
    if policy.max_attempts == 0 { 0 } else { policy.max_attempts as usize + 1 }
}

/// The ends that count, newest first, of a slot's tasks, oldest first.
pub(crate) fn counted<'t>(tasks: &[&'t Task], revision: RevisionId) -> impl Iterator<Item = &'t Task> {
    let here = tasks.iter().rev().filter(|t| t.desired != model::Desired::Remove);
    here.take_while(move |t| t.revision == revision).filter(|t| ended_by_itself(t)).copied()
}

fn ended_by_itself(task: &Task) -> bool {
    matches!(task.status.state, TaskState::Complete | TaskState::Failed | TaskState::Rejected)
}

/// How long a task ran.
///
/// What its programs report is a difference of two readings of one clock. It is held against the log's clock, since that one
/// clock may have jumped. Agents that do not report programs are given the time from creation to end, less the delay
/// in which the task cannot have run.
fn time_run(policy: &ReplacePolicy, task: &Task) -> Span {
    let lived = task.status.applied_at.since(task.created_at).max(Span::ZERO);
    if task.programs.is_empty() {
        return Span(lived.0.saturating_sub(policy.delay.0).max(0));
    }
    let started = task.programs.iter().map(|p| p.started_at).filter(|at| *at > Time::ZERO).min();
    let ended = task.programs.iter().map(|p| p.ended_at).max();
    match (started, ended) {
        (Some(started), Some(ended)) => ended.since(started).max(Span::ZERO).min(lived),
        _ => Span::ZERO,
    }
}

/// How a task ended, with its exit code: `failed with exit code 1`.
pub(crate) fn ending(task: &Task) -> String {
    let what = match task.status.state {
        TaskState::Complete => "completed",
        TaskState::Rejected => "was rejected",
        TaskState::Shutdown => "was shut down",
        _ => "failed",
    };
    let signal = task.programs.iter().find_map(|p| p.signal.filter(|_| p.failed));
    match (task.exit_code(), signal) {
        (_, Some(signal)) => format!("{what} by signal {signal}"),
        (Some(code), None) => format!("{what} with exit code {code}"),
        (None, None) => what.into(),
    }
}

/// Why it is not replaced, for a sentence.
pub(crate) fn why_not(policy: &ReplacePolicy, reason: Reason) -> String {
    match reason {
        Reason::Condition => "its policy never replaces".into(),
        Reason::Success => "its policy replaces on failure only".into(),
        Reason::Attempts if policy.window > Span::ZERO => {
            format!("all {} attempts within {} are used up", policy.max_attempts, policy.window)
        }
        Reason::Attempts => format!("all {} attempts are used up", policy.max_attempts),
    }
}
