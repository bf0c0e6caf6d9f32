//! The agent itself: inputs go to the room that knows them, and what they concern is driven on. A step costs the tasks that it concerns;
//! only a complete set of assignments looks at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::sync::{Assignment, AssignmentChange, Assignments, AssignmentsKind, TaskRef, ToAgent, ToManager};
use model::{Desired, ProgramStatus, Span, TaskState, Time};

use crate::check::check_id;
use crate::effect::{Effect, Input};
use crate::limits::TASKS;
use crate::record::Record;
use crate::reports::Reports;
use crate::session::{Link, Session};
use crate::task::Task;

/// What an agent is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The least span between two reports; what changes meanwhile shares the next one.
    pub report_batch: Span,
    /// How long the manager may take to answer a registration or a heartbeat before the session is given up.
    pub patience: Span,
    /// Where the chance in back-off comes from.
    pub seed: u64,
}

impl Config {
    /// 20 ms between reports: far below what people notice, and a busy node still fills its messages.
    pub const REPORT_BATCH: Span = Span::from_millis(20);
    /// As SwarmKit's agent allows for each call.
    pub const PATIENCE: Span = Span::from_secs(5);

    /// The usual values with this seed.
    pub fn new(seed: u64) -> Self {
        Self { report_batch: Self::REPORT_BATCH, patience: Self::PATIENCE, seed }
    }
}

/// A task as the agent sees it.
#[derive(Clone, Debug)]
pub struct TaskView<'a> {
    /// The task.
    pub task: &'a TaskRef,
    /// Its name for people.
    pub name: &'a str,
    /// What is wanted of it.
    pub desired: Desired,
    /// What it has reached.
    pub state: TaskState,
    /// More in a sentence.
    pub message: Option<&'a str>,
    /// Its programs as they are reported, in the order of the spec.
    pub programs: Vec<&'a ProgramStatus>,
}

/// What one node does. See the crate's documentation.
#[derive(Debug)]
pub struct Agent {
    tasks: BTreeMap<TaskRef, Task>,
    /// When which task needs attention by itself.
    wakes: BTreeSet<(Time, TaskRef)>,
    session: Session,
    reports: Reports,
    /// The latest moment seen: time does not go back here.
    now: Time,
    /// Everything ends by then, and nothing is taken any more.
    deadline: Option<Time>,
    /// How many tasks are not at rest.
    restless: usize,
    stopped: bool,
}

impl Agent {
    /// An agent that goes on with what `restored` holds (every record found on disk), and the first effects. `now` as in
    /// [`Agent::step`].
    pub fn new(config: Config, restored: Vec<Record>, now: Time) -> (Self, Vec<Effect>) {
        let mut out = Vec::new();
        let mut agent = Self {
            tasks: BTreeMap::new(),
            wakes: BTreeSet::new(),
            session: Session::new(config.patience, config.seed, &mut out),
            reports: Reports::new(config.report_batch),
            now,
            deadline: None,
            restless: 0,
            stopped: false,
        };
        for record in restored {
            agent.insert(Task::restored(record), &mut out);
        }
        (agent, out)
    }

    /// One step: `input` happened at `now`; what is to be done comes back. `now` is UTC, taken from a steady clock: a step backwards is not
    /// followed, and would hold up every delay and heartbeat until it is made up for.
    pub fn step(&mut self, now: Time, input: Input) -> Vec<Effect> {
        self.now = self.now.max(now);
        let mut out = Vec::new();
        self.take(input, &mut out);
        self.wake_up(&mut out);
        if let Some(session) = self.session.open() {
            let report = self.reports.next(session, &mut self.tasks, self.now);
            out.extend(report.map(|report| self.session.send(report)));
        }
        if self.deadline.is_some() && self.restless == 0 && !self.stopped {
            self.stopped = true;
            out.push(Effect::Stopped);
        }
        out
    }

    /// When [`Input::Tick`] is due, if nothing else happens before.
    pub fn next_wake(&self) -> Option<Time> {
        let task = self.wakes.first().map(|(at, _)| *at);
        let reports = self.session.open().and_then(|_| self.reports.due());
        let answer = self.session.open().and_then(|_| self.reports.give_up_at());
        [task, reports, answer, self.session.next_wake()].into_iter().flatten().min()
    }

    /// Every task the agent knows, in the order of ids.
    pub fn tasks(&self) -> impl Iterator<Item = TaskView<'_>> {
        self.tasks.values().map(|task| TaskView {
            task: task.id(),
            name: &task.assignment().name,
            desired: task.desired(),
            state: task.state(),
            message: task.message().map(|message| &**message),
            programs: task.programs().map(|program| &program.kept.status).collect(),
        })
    }

    /// How it stands with the manager.
    pub fn link(&self) -> Link {
        self.session.link()
    }

    fn take(&mut self, input: Input, out: &mut Vec<Effect>) {
        let now = self.now;
        match input {
            Input::Described(description) => self.session.describe(description, now, out),
            Input::Connected { connection } if self.session.is_current(connection) => {
                self.session.connected(now, out);
            }
            Input::Disconnected { connection, reason } if self.session.is_current(connection) => {
                self.lose(reason, out);
            }
            Input::Message { connection, message } if self.session.is_current(connection) => {
                self.listen(message, out);
            }
            Input::Connected { .. } | Input::Disconnected { .. } | Input::Message { .. } => {}
            Input::Driver { program, event } => {
                self.touch(&program.task, out, |task| task.hear(&program, &event, now));
            }
            Input::Persisted { task } => self.touch(&task, out, |task| task.persisted(now)),
            Input::PersistFailed { task, message } => {
                self.touch(&task, out, |task| task.persist_failed(&message, now));
            }
            Input::Forgotten { task } => self.touch(&task, out, |task| task.forgotten()),
            Input::Tick => {}
            Input::Stop { within } => self.stop(within, out),
        }
    }

    fn listen(&mut self, message: ToAgent, out: &mut Vec<Effect>) {
        match message {
            ToAgent::Registered { session, node, heartbeat } => {
                if self.session.registered(session, node, heartbeat, self.now, out) {
                    self.reports.restart(&mut self.tasks, self.now);
                }
            }
            ToAgent::SessionEnded { reason } if !self.session.is_down() => self.lose(reason, out),
            ToAgent::Heartbeat { period } => self.session.beaten(period, self.now),
            ToAgent::Reported { number } if self.session.open().is_some() => {
                self.reports.answered(number, &mut self.tasks);
            }
            ToAgent::Assignments(set) if self.session.open() == Some(set.session) => self.assign(set, out),
            ToAgent::SessionEnded { .. } | ToAgent::Reported { .. } | ToAgent::Assignments(_) => {}
        }
    }

    /// The session is over; what was reported and not answered is reported in the next one.
    fn lose(&mut self, reason: Arc<str>, out: &mut Vec<Effect>) {
        self.session.lose(reason, out);
        self.reports.restart(&mut self.tasks, self.now);
    }

    /// Takes in a set of assignments. One that does not follow the one before means that something was lost: a new session brings a complete
    /// set. It is not applied (SwarmKit's agent does): out of order it could bring back what was removed.
    fn assign(&mut self, set: Assignments, out: &mut Vec<Effect>) {
        let complete = set.kind == AssignmentsKind::Complete;
        if !self.session.follows((!complete).then_some(set.applies_to), set.results_in) {
            let (from, to) = (set.applies_to, set.results_in);
            self.lose(format!("assignments {to} follow {from}, which was never seen").into(), out);
            return;
        }
        if complete {
            self.keep_only(&set, out);
        }
        for change in &set.changes {
            match change {
                AssignmentChange::Update(assignment) => self.update(assignment, complete, out),
                AssignmentChange::Remove(task) => self.touch(task, out, Task::remove),
            }
        }
        out.push(self.session.send(ToManager::Applied { session: set.session, number: set.results_in }));
    }

    /// Removes what a complete set does not list.
    fn keep_only(&mut self, set: &Assignments, out: &mut Vec<Effect>) {
        let mut listed = BTreeSet::new();
        for change in &set.changes {
            if let AssignmentChange::Update(assignment) = change {
                listed.insert(&assignment.task);
            }
        }
        let unlisted: Vec<TaskRef> = self.tasks.keys().filter(|id| !listed.contains(id)).cloned().collect();
        for task in unlisted {
            self.touch(&task, out, Task::remove);
        }
    }

    fn update(&mut self, assignment: &Arc<Assignment>, complete: bool, out: &mut Vec<Effect>) {
        let Some(task) = self.tasks.get_mut(&assignment.task) else {
            self.admit(assignment.clone(), out);
            return;
        };
        if task.comes_again(assignment) {
            return;
        }
        if complete && assignment.state != task.state() {
            self.reports.contradicted(task, self.now);
        }
        let (desired, known) = (assignment.desired, assignment.state);
        self.touch(&assignment.task, out, |task| task.want(desired, known));
    }

    /// Takes in a task for the first time.
    fn admit(&mut self, assignment: Arc<Assignment>, out: &mut Vec<Effect>) {
        if self.deadline.is_some() {
            return;
        }
        let node = self.session.node.clone().unwrap_or_else(|| "".into());
        let full = self.tasks.len() >= TASKS;
        let refusal = check_id(&assignment.task).and(if full {
            Err(format!("this node has {TASKS} tasks and takes no more").into())
        } else {
            Ok(())
        });
        let task = match refusal {
            Ok(()) => Task::assigned(assignment, node, self.now),
            Err(why) => Task::refused(assignment, node, self.now, &why),
        };
        self.insert(task, out);
    }

    fn insert(&mut self, task: Task, out: &mut Vec<Effect>) {
        let id = task.id().clone();
        self.restless += usize::from(!task.is_at_rest());
        self.tasks.insert(id.clone(), task);
        self.touch(&id, out, |_| {});
    }

    fn stop(&mut self, within: Span, out: &mut Vec<Effect>) {
        let deadline = self.now + Span(within.0.max(0));
        self.deadline = Some(self.deadline.map_or(deadline, |at| at.min(deadline)));
        let all: Vec<TaskRef> = self.tasks.keys().cloned().collect();
        for task in all {
            self.touch(&task, out, |task| task.end_by(deadline));
        }
    }

    /// What is due by itself: tasks, heartbeats, answers that did not come.
    fn wake_up(&mut self, out: &mut Vec<Effect>) {
        while let Some((at, id)) = self.wakes.first().cloned() {
            if at > self.now {
                break;
            }
            self.wakes.pop_first();
            if let Some(task) = self.tasks.get_mut(&id) {
                task.wake = None;
            }
            self.touch(&id, out, |_| {});
        }
        let mut overdue = self.session.pulse(self.now, out);
        if self.session.open().is_some() && self.reports.give_up_at().is_some_and(|at| at <= self.now) {
            overdue = Some("the manager does not answer a report");
        }
        if let Some(reason) = overdue {
            self.lose(reason.into(), out);
        }
    }

    /// Changes a task, drives it on, and keeps the books about it. A task that is not known is none: its effects were the last.
    fn touch(&mut self, id: &TaskRef, out: &mut Vec<Effect>, change: impl FnOnce(&mut Task)) {
        let Some(task) = self.tasks.get_mut(id) else {
            return;
        };
        let rested = task.is_at_rest();
        change(task);
        task.drive(self.now, out);
        self.restless = self.restless + usize::from(rested) - usize::from(task.is_at_rest());
        let wake = task.next_wake(self.now);
        if wake != task.wake {
            if let Some(at) = task.wake {
                self.wakes.remove(&(at, id.clone()));
            }
            if let Some(at) = wake {
                self.wakes.insert((at, id.clone()));
            }
            task.wake = wake;
        }
        self.reports.note(task, self.now);
        if task.is_gone() {
            let again = task.again.take();
            self.tasks.remove(id);
            if let Some(assignment) = again {
                self.admit(assignment, out);
            }
        }
    }
}
