//! When an ended task is replaced: the one algorithm, for replicated and global services.
//!
//! 1. A task whose node was taken from it (down, drained, removed, no longer fit) never comes here: it did
//!    not end by itself. Its slot is filled again at once and nothing is counted, whatever the policy.
//! 2. The condition is asked of the newest end in the slot. `none`: never replaced. `on-failure`: replaced
//!    unless it is complete. `any`: replaced.
//! 3. `max_attempts` is how many times a task of one revision is replaced in one slot. The ends that count
//!    are the slot's kept tasks of the service's revision that completed, failed or were rejected, back to
//!    the first task of another revision; nothing else remembers them. The revision beside it
//!    ([`Wanted::beside`](crate::wanted::Wanted::beside)) interrupts nothing: what a canary's line and the slot's
//!    own do side by side is two rows, also once one of them has the slot. The n-th end is replaced when n is
//!    at most `max_attempts`, so the last attempt is the `max_attempts + 1`st task. Zero: no limit.
//! 4. With a `window`, an end counts only while the tasks after it have not run for longer than the window,
//!    all together. Only time in which they ran is added up, never time in which they waited for their
//!    delay, a node or their preparation. So a task that keeps failing at once uses up its attempts however
//!    long the delay is, while one that has run well for longer than the window starts afresh. (Counting by
//!    the clock, as SwarmKit does, never reaches `max_attempts` when the delay is as long as the window.)
//! 5. The replacement may run `delay` after the end, by the log's clock. Of a task that ended while it
//!    still waited for its own time, `delay` after that time.

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

/// The task whose end decides about a slot that nothing fills: the newest one of the revision that nobody has decided about, or
/// that was not replaced; else the newest of all. (Beside a task of this revision there may have been newer ones of another, while canaries
/// were tried or a start-first update was taken back; they have no say in what it left.)
pub(crate) fn deciding<'t>(tasks: &[&'t Task], revision: RevisionId) -> Option<&'t Task> {
    let here = || tasks.iter().rev().copied().filter(|t| t.desired != model::Desired::Remove);
    let ours = here().find(|t| t.revision == revision && t.desired < model::Desired::Shutdown);
    ours.or_else(|| here().next())
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
        ran = Span(ran.0.saturating_add(time_run(policy, task).unwrap_or(Span::ZERO).0));
    }
    count
}

/// How many counted ends must be kept in the store so that attempts can be counted.
pub(crate) fn to_keep(policy: &ReplacePolicy) -> usize {
    if policy.max_attempts == 0 { 0 } else { policy.max_attempts as usize + 1 }
}

/// The ends that count, newest first, of a slot's tasks, oldest first; tasks of the revision `beside` are passed over.
pub(crate) fn counted<'t>(
    tasks: &[&'t Task],
    revision: RevisionId,
    beside: Option<RevisionId>,
) -> impl Iterator<Item = &'t Task> {
    let here = tasks.iter().rev().filter(move |t| {
        t.desired != model::Desired::Remove && (t.revision == revision || Some(t.revision) != beside)
    });
    here.take_while(move |t| t.revision == revision).filter(|t| ended_by_itself(t)).copied()
}

fn ended_by_itself(task: &Task) -> bool {
    matches!(task.status.state, TaskState::Complete | TaskState::Failed | TaskState::Rejected)
}

/// How long a task ran; `None` when it never did.
///
/// What its programs report is a difference of two readings of one clock. It is held against the log's
/// clock, since that one clock may have jumped. Agents that do not report programs are given the time from
/// creation to end, less the delay in which the task cannot have run.
pub(crate) fn time_run(policy: &ReplacePolicy, task: &Task) -> Option<Span> {
    let lived = task.status.applied_at.since(task.created_at).max(Span::ZERO);
    if task.programs.is_empty() {
        return Some(Span(lived.0.saturating_sub(policy.delay.0).max(0)));
    }
    let started = task.programs.iter().map(|p| p.started_at).filter(|at| *at > Time::ZERO).min();
    let ended = task.programs.iter().map(|p| p.ended_at).max();
    let (started, ended) = (started?, ended?);
    Some(ended.since(started).max(Span::ZERO).min(lived))
}

/// How a task ended, with its exit code: `failed with exit code 1`.
pub(crate) fn ending(task: &Task) -> String {
    let what = match task.status.state {
        TaskState::Complete => "completed",
        TaskState::Rejected => "was rejected",
        TaskState::Shutdown => "was shut down",
        _ => "failed",
    };
    if task.programs.iter().any(|p| p.oom && p.failed) {
        return format!("{what}: out of memory");
    }
    let signal = task.programs.iter().find_map(|p| p.signal.filter(|_| p.failed));
    match (task.exit_code(), signal) {
        (_, Some(signal)) => match model::signal_name(signal) {
            Some(name) => format!("{what} by signal {signal} (SIG{name})"),
            None => format!("{what} by signal {signal}"),
        },
        (Some(code), None) => format!("{what} with exit code {code}"),
        (None, None) => what.into(),
    }
}

/// Longest part of a task's message that is repeated in a decision, in characters.
const QUOTED: usize = 200;

/// What the agent said, where there is something to add.
pub(crate) fn quoted(task: &Task) -> String {
    match &task.status.message {
        Some(message) if !message.is_empty() => {
            format!(" ({})", message.chars().take(QUOTED).collect::<String>())
        }
        _ => String::new(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Desired, ProgramStatus, ServiceId, Slot, TaskId, TaskStatus};

    const S: i64 = 1_000_000_000;
    const NEW: RevisionId = RevisionId::from_u128(2);

    /// A task of the newer revision that was made and ended at these seconds, and whose program says that
    /// it ran so long.
    fn ended(state: TaskState, created: i64, ended: i64, ran: Option<i64>) -> Task {
        let program = |ran: i64| ProgramStatus {
            // Another clock than the log's.
            started_at: Time(777 * S),
            ended_at: Time((777 + ran) * S),
            ..ProgramStatus::default()
        };
        Task {
            id: TaskId::from_u128(created as u128),
            service: ServiceId::from_u128(1),
            slot: Slot::Number(0),
            revision: NEW,
            node: None,
            desired: Desired::Running,
            start_after: None,
            leave: None,
            status: TaskStatus { state, at: Time(0), applied_at: Time(ended * S), message: None },
            programs: ran.map(program).into_iter().collect(),
            ports: Box::default(),
            named: Box::default(),
            dismissed: None,
            unplaced: None,
            created: created as u64,
            modified: ended as u64,
            directed: created as u64,
            created_at: Time(created * S),
        }
    }

    fn failed(created: i64, at: i64, ran: Option<i64>) -> Task {
        ended(TaskState::Failed, created, at, ran)
    }

    fn verdict(policy: ReplacePolicy, tasks: &[Task]) -> Verdict {
        let tasks: Vec<&Task> = tasks.iter().collect();
        decide(&policy, tasks.last().expect("an end"), counted(&tasks, NEW, None))
    }

    fn policy(max_attempts: u32, delay: i64, window: i64) -> ReplacePolicy {
        let (delay, window) = (Span(delay * S), Span(window * S));
        ReplacePolicy { condition: Condition::Any, delay, max_attempts, window }
    }

    #[test]
    fn the_condition_is_asked_of_the_newest_end() {
        use Condition::{Any, None as Never, OnFailure};
        use TaskState::{Complete, Failed, Rejected, Shutdown};
        let from = Verdict::From(Time(25 * S));
        for (condition, state, expected) in [
            (Never, Complete, Verdict::Never(Reason::Condition)),
            (Never, Failed, Verdict::Never(Reason::Condition)),
            (Never, Shutdown, Verdict::Never(Reason::Condition)),
            (OnFailure, Complete, Verdict::Never(Reason::Success)),
            (OnFailure, Failed, from),
            (OnFailure, Rejected, from),
            (OnFailure, Shutdown, from),
            (Any, Complete, from),
            (Any, Failed, from),
            (Any, Rejected, from),
            (Any, Shutdown, from),
        ] {
            let policy = ReplacePolicy { condition, ..policy(0, 5, 0) };
            assert_eq!(verdict(policy, &[ended(state, 10, 20, None)]), expected, "{condition:?} {state}");
        }
    }

    #[test]
    fn the_delay_of_a_task_that_never_had_its_turn_counts_from_its_turn() {
        let task = Task { start_after: Some(Time(30 * S)), desired: Desired::Ready, ..failed(10, 20, None) };
        assert_eq!(verdict(policy(0, 5, 0), &[task]), Verdict::From(Time(35 * S)));
    }

    /// Three ends, each a row of (created, ended, ran); three attempts would be too many for `max_attempts`
    /// 2.
    #[test]
    fn which_ends_count() {
        type Row = (i64, i64, Option<i64>);
        let cases: [(&str, i64, i64, [Row; 3], bool); 9] = [
            (
                "no window: for ever",
                0,
                0,
                [(0, 1, Some(1)), (500, 501, Some(1)), (9000, 9001, Some(1))],
                true,
            ),
            ("all at once", 0, 10, [(0, 0, Some(0)), (0, 0, Some(0)), (0, 0, Some(0))], true),
            ("waiting does not count", 10, 10, [(0, 0, Some(0)), (0, 10, Some(0)), (10, 20, Some(0))], true),
            ("nor without programs", 10, 10, [(0, 0, None), (0, 10, None), (10, 20, None)], true),
            ("nor waiting for a node", 0, 10, [(0, 9, Some(0)), (9, 99, Some(0)), (99, 999, Some(0))], true),
            (
                "two runs exactly fill the window",
                0,
                10,
                [(0, 5, Some(5)), (5, 10, Some(5)), (10, 15, Some(5))],
                true,
            ),
            (
                "two runs exceed the window",
                0,
                9,
                [(0, 5, Some(5)), (5, 10, Some(5)), (10, 15, Some(5))],
                false,
            ),
            ("the last one ran well", 0, 9, [(0, 0, Some(0)), (0, 0, Some(0)), (0, 10, Some(10))], false),
            ("a clock that jumped", 0, 9, [(0, 0, Some(0)), (0, 1, Some(5000)), (1, 2, Some(5000))], true),
        ];
        for (name, delay, window, rows, used_up) in cases {
            let tasks = rows.map(|(created, ended, ran)| failed(created, ended, ran));
            let never = verdict(policy(2, delay, window), &tasks) == Verdict::Never(Reason::Attempts);
            assert_eq!(never, used_up, "{name}");
            assert!(matches!(verdict(policy(3, delay, window), &tasks), Verdict::From(_)), "{name}");
        }
    }

    #[test]
    fn only_ends_by_itself_of_this_revision_in_a_row_count() {
        let one = || failed(0, 1, None);
        let other = Task { revision: RevisionId::from_u128(1), ..one() };
        let removed = Task { desired: Desired::Remove, ..one() };
        let told = ended(TaskState::Shutdown, 0, 1, None);
        let orphaned = ended(TaskState::Orphaned, 0, 1, None);
        let third = Task { revision: RevisionId::from_u128(3), ..one() };
        for (name, tasks, count) in [
            ("all", vec![one(), one(), one()], 3),
            ("past the one beside it", vec![one(), other.clone(), one(), other], 2),
            ("back to another revision", vec![one(), third, one()], 1),
            ("not those to be forgotten", vec![one(), removed, one()], 2),
            ("not those told to end", vec![one(), told, one()], 2),
            ("not those lost with their node", vec![one(), orphaned, one()], 2),
        ] {
            let tasks: Vec<&Task> = tasks.iter().collect();
            assert_eq!(counted(&tasks, NEW, Some(RevisionId::from_u128(1))).count(), count, "{name}");
        }
    }
}
