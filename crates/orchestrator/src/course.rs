//! How an update is read from the store: which tasks it made, how far one of them is, and what each slot has
//! to say about the new revision. Nothing here changes anything, and nothing is remembered: the service says
//! when its update began, and the tasks that were made since then say the rest.
//!
//! A task has a moment by which it must have taken its next step, so that every slot comes to a verdict:
//!
//! | the new task | has failed when | and is |
//! | --- | --- | --- |
//! | waits for a node | no node took it for the longer of `monitor` and [`PLACE_WITHIN`] | waited for all the same (stop-first), ended as rejected (start-first) |
//! | is on its way to running | it has stayed in one state for [`START_WITHIN`] | waited for all the same |
//! | runs | it ends within `monitor` (with success: only if its policy replaces it then) | replaced, as its policy says |
//! | was lost with its node, or told to end | never: another takes its place, and is asked instead | |
//!
//! No moment counts from before the update came to the state that it is in: what stood still and goes on has its whole time again.
//! The time that an old task has to stop (its grace period) is added to the first. A task that was counted as
//! failed because it was late, and runs after all, has not failed; one that ended has, once and for all.

use model::{
    Condition, Index, NodeId, Slot, Span, Task, TaskState, Time, UpdateOrder, UpdatePolicy, UpdateState,
    Users,
};

use crate::replace;
use crate::wanted::{self, Wanted};

/// How long a new task may wait for a node before its slot counts as failed, unless `monitor` is longer.
pub(crate) const PLACE_WITHIN: Span = Span::from_secs(60);

/// How long a new task may stay in one state between having a node and running. Long, since making ready
/// may mean to fetch much.
pub(crate) const START_WITHIN: Span = Span::from_secs(600);

/// The update of a service that is under way, or was the last one.
#[derive(Clone, Copy)]
pub(crate) struct Course {
    /// Tasks of the current revision that were made after this index are its own.
    pub(crate) began: Index,
    /// What it goes by.
    pub(crate) policy: UpdatePolicy,
    /// How far it has come; `None` when there has been none.
    pub(crate) state: Option<UpdateState>,
}

/// How far a task that fills its slot has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It does not run yet, and has until then.
    OnItsWay(Time),
    /// It does not run, and should by now.
    Late,
    /// It runs, and is watched until then.
    Watched(Time),
    /// It has run for as long as it is watched.
    Proven,
}

/// What a slot says about the new revision: its first task since the update began that could tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict<'t> {
    /// It has had no such task.
    Untried,
    /// It cannot be told yet.
    Open,
    /// The task ran for as long as it was watched.
    Good(&'t Task),
    /// The task failed.
    Failed(&'t Task),
}

impl<'a> Wanted<'a> {
    /// The service's update.
    pub(crate) fn course(&self) -> Course {
        let status = self.service.update_status.as_ref();
        let rollback = status.is_some_and(|s| s.state.is_rollback());
        Course {
            began: status.map_or(0, |s| s.began),
            policy: if rollback { self.service.rollback } else { self.service.update },
            state: status.map(|s| s.state),
        }
    }

    /// Which task of a slot comes first in a change. On the node of a global slot there must be room for
    /// two: where the new task needs the old one's host port or a volume that two such tasks cannot use at a time, or one
    /// task is all a node may have, the old one ends first, whatever was asked.
    pub(crate) fn order(&self, slot: Slot) -> UpdateOrder {
        let narrow =
            self.spec.placement.per_node() == Some(1) || self.spec.ports.iter().any(|p| p.published != 0);
        match slot {
            Slot::Node(id) if narrow || self.uses_alone(id) => UpdateOrder::StopFirst,
            _ => self.course().policy.order,
        }
    }

    /// True when a volume of the node has no room for a second task that uses it so.
    fn uses_alone(&self, node: NodeId) -> bool {
        let Some(node) = self.view.node(node) else { return false };
        self.spec.mounts.iter().any(|mount| {
            let users = Users::default().with(mount.read_only);
            let volume = node.description.volumes.get(&mount.volume);
            volume.is_some_and(|volume| volume.lack(users, mount.read_only).is_some())
        })
    }

    /// True for a task that the update made.
    pub(crate) fn is_new(&self, task: &Task) -> bool {
        task.revision == self.service.revision && task.created > self.course().began
    }

    /// How far a task that fills its slot has come. `tasks` are all of the slot.
    pub(crate) fn progress(&self, now: Time, task: &Task, tasks: &[&Task]) -> Progress {
        let monitor = self.course().policy.monitor;
        let by = match task.status.state {
            TaskState::Running => {
                let at = task.status.applied_at + monitor;
                return if now < at { Progress::Watched(at) } else { Progress::Proven };
            }
            state if state < TaskState::Assigned => {
                turn(task, task.created_at.max(self.since()))
                    + monitor.max(PLACE_WITHIN)
                    + self.stop_time(tasks)
            }
            _ => turn(task, task.status.applied_at.max(self.since())) + START_WITHIN,
        };
        if now < by { Progress::OnItsWay(by) } else { Progress::Late }
    }

    /// No deadline began before the update came to the state that it is in: one that stood still and goes on
    /// gives every task its whole time again.
    fn since(&self) -> Time {
        self.service.update_status.as_ref().map_or(Time::ZERO, |status| status.since)
    }

    /// How long the tasks of a slot that were told to end may take for it.
    fn stop_time(&self, tasks: &[&Task]) -> Span {
        let stopping = tasks.iter().filter(|t| !t.desired.is_wanted() && wanted::may_run(self.view, t));
        let programs = stopping.filter_map(|t| self.view.revision(t.revision)).map(|r| &r.task.programs);
        programs.flatten().map(|p| p.stop_grace).max().unwrap_or(Span::ZERO)
    }

    /// What a slot says about the new revision. `tasks` are all of it, the oldest first.
    pub(crate) fn verdict<'t>(&self, now: Time, tasks: &[&'t Task]) -> Verdict<'t> {
        for task in tasks.iter().copied().filter(|t| self.is_new(t)) {
            if task.status.state.is_ended() {
                match self.verdict_of_end(task) {
                    Verdict::Untried => continue,
                    told => return told,
                }
            }
            if !task.desired.is_wanted() {
                continue;
            }
            return match self.progress(now, task, tasks) {
                Progress::OnItsWay(_) | Progress::Watched(_) => Verdict::Open,
                Progress::Proven => Verdict::Good(task),
                Progress::Late => Verdict::Failed(task),
            };
        }
        Verdict::Untried
    }

    fn verdict_of_end<'t>(&self, task: &'t Task) -> Verdict<'t> {
        let policy = &self.spec.replace;
        match task.status.state {
            TaskState::Rejected => Verdict::Failed(task),
            TaskState::Complete if policy.condition != Condition::Any => Verdict::Good(task),
            TaskState::Complete | TaskState::Failed => match replace::time_run(policy, task) {
                Some(ran) if ran >= self.course().policy.monitor => Verdict::Good(task),
                _ => Verdict::Failed(task),
            },
            // Told to end, or lost with its node: it says nothing.
            _ => Verdict::Untried,
        }
    }

    /// Why a slot has failed, as `slot 2 failed with exit code 1 (...)`.
    pub(crate) fn failure(&self, task: &Task) -> String {
        let slot = wanted::slot_name(self.view, task.slot);
        let state = task.status.state;
        if state.is_ended() {
            return format!("{slot} {}{}", replace::ending(task), replace::quoted(task));
        }
        if state >= TaskState::Assigned {
            return format!("{slot} is {state} and does not run after {START_WITHIN}");
        }
        format!("{slot} {}", self.why_unplaced(task))
    }

    /// Why a task that waits for a node is given up, or counted as failed.
    pub(crate) fn why_unplaced(&self, task: &Task) -> String {
        let within = self.course().policy.monitor.max(PLACE_WITHIN);
        let why = task.unplaced.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        format!("found no node within {within}{why}")
    }
}

/// When a task's turn is: it may have to wait for a delay first.
fn turn(task: &Task, since: Time) -> Time {
    since.max(task.start_after.unwrap_or(Time::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{
        Desired, Meta, Mode, NamespaceId, NodeId, ProgramStatus, RevisionId, Service, ServiceId, TaskId,
        TaskSpec, TaskStatus, UpdateStatus,
    };
    use store::Tables;

    const S: i64 = 1_000_000_000;
    const NOW: i64 = 1000;

    /// A service whose update began at index 10, with a watch of 5 s.
    fn service() -> Service {
        Service {
            id: ServiceId::from_u128(1),
            meta: Meta::default(),
            namespace: NamespaceId::DEFAULT,
            job: None,
            name: "web".into(),
            labels: model::Labels::new(),
            mode: Mode::Replicated { replicas: 1 },
            update: UpdatePolicy::default(),
            rollback: UpdatePolicy::default(),
            revision: RevisionId::from_u128(2),
            previous: Some(RevisionId::from_u128(1)),
            update_status: Some(UpdateStatus {
                state: UpdateState::Updating,
                began: 10,
                started_at: Time(0),
                completed_at: Time(0),
                automatic: false,
                since: Time(0),
                canary: 0,
                unproven: Some(RevisionId::from_u128(2)),
                newest: 2,
                message: "".into(),
            }),
            priority: 50,
            steering: Default::default(),
            disruption: Default::default(),
        }
    }

    /// A task of the new revision that has been in this state for so many seconds, and ran for so many.
    fn task(id: u128, state: TaskState, since: i64, ran: Option<i64>) -> Task {
        let program = |ran: i64| ProgramStatus {
            started_at: Time(S),
            ended_at: Time(S + ran * S),
            ..ProgramStatus::default()
        };
        let at = Time((NOW - since) * S);
        Task {
            id: TaskId::from_u128(id),
            service: ServiceId::from_u128(1),
            slot: Slot::Number(0),
            revision: RevisionId::from_u128(2),
            node: (state >= TaskState::Assigned).then_some(NodeId::from_u128(1)),
            desired: Desired::Running,
            start_after: None,
            leave: None,
            status: TaskStatus { state, at, applied_at: at, message: None },
            programs: Box::new([program(ran.unwrap_or(0))]),
            ports: Box::default(),
            named: Box::default(),
            dismissed: None,
            unplaced: None,
            created: 11,
            modified: 12,
            directed: 11,
            created_at: if state.is_ended() { Time(0) } else { at },
        }
    }

    #[test]
    fn what_a_slot_says() {
        use TaskState::{Complete, Failed, Orphaned, Pending, Preparing, Rejected, Running, Shutdown};
        let one = |state, since| task(1, state, since, Some(1));
        let ran = |state, ran| task(1, state, 0, Some(ran));
        let with = |task: Task, change: fn(&mut Task)| {
            let mut task = task;
            change(&mut task);
            task
        };
        let good = |condition: Condition| TaskSpec {
            replace: model::ReplacePolicy { condition, ..model::ReplacePolicy::default() },
            ..TaskSpec::default()
        };
        let any = good(Condition::Any);
        let once = good(Condition::OnFailure);
        for (name, spec, tasks, expected) in [
            ("nothing", &any, vec![], "untried"),
            (
                "only old ones",
                &any,
                vec![with(one(Running, 9), |t| t.revision = RevisionId::from_u128(1))],
                "untried",
            ),
            ("one from before the update", &any, vec![with(one(Running, 9), |t| t.created = 10)], "untried"),
            ("it waits for a node", &any, vec![one(Pending, 59)], "open"),
            ("for too long", &any, vec![one(Pending, 60)], "failed 1"),
            ("it is made ready", &any, vec![one(Preparing, 599)], "open"),
            ("for too long", &any, vec![one(Preparing, 600)], "failed 1"),
            (
                "it waits for its turn",
                &any,
                vec![with(one(Preparing, 700), |t| t.start_after = Some(Time(NOW * S)))],
                "open",
            ),
            ("it runs", &any, vec![one(Running, 4)], "open"),
            ("for long enough", &any, vec![one(Running, 5)], "good"),
            ("it failed at once", &any, vec![ran(Failed, 0)], "failed 1"),
            ("within the watch", &any, vec![ran(Failed, 4)], "failed 1"),
            ("after it", &any, vec![ran(Failed, 5)], "good"),
            ("it was rejected", &any, vec![one(Rejected, 9)], "failed 1"),
            ("it completed, and shall run", &any, vec![ran(Complete, 4)], "failed 1"),
            ("it completed, as it shall", &once, vec![ran(Complete, 0)], "good"),
            ("it was told to end", &any, vec![one(Shutdown, 9)], "untried"),
            (
                "it is told to end",
                &any,
                vec![with(one(Running, 9), |t| t.desired = Desired::Shutdown)],
                "untried",
            ),
            (
                "it was lost, the next one runs",
                &any,
                vec![one(Orphaned, 9), task(2, Running, 6, None)],
                "good",
            ),
            ("the first one counts", &any, vec![one(Rejected, 9), task(2, Running, 60, None)], "failed 1"),
            ("also when it was good", &any, vec![ran(Failed, 6), task(2, Rejected, 0, None)], "good"),
        ] {
            let (view, service) = (Tables::new(), service());
            let wanted = Wanted { view: &view, service: &service, spec };
            let tasks: Vec<&Task> = tasks.iter().collect();
            let told = match wanted.verdict(Time(NOW * S), &tasks) {
                Verdict::Untried => "untried".into(),
                Verdict::Open => "open".into(),
                Verdict::Good(_) => "good".into(),
                Verdict::Failed(task) => format!("failed {}", task.id.0.as_u128()),
            };
            assert_eq!(told, expected, "{name}");
        }
    }
}
