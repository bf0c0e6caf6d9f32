//! A desk at which a test plays the manager, the disk and the drivers by hand: each call is one input, and what the agent then asks for comes
//! back as short lines.

#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;

use agent::{Agent, Config, DriverEvent, Effect, Exit, Input, ProgramRef, Record};
use model::sync::{Assignment, AssignmentChange, Assignments, AssignmentsKind, ToAgent, ToManager};
use model::{
    Description, Desired, DriverKind, Lifecycle, ProgramSpec, RestartPolicy, SessionId, Span, TaskSpec,
    TaskState, Time,
};

/// Where every desk begins.
pub const DAWN: Time = Time(1_700_000_000_000_000_000);

/// A program of a test task.
pub fn program(name: &str, lifecycle: Lifecycle) -> ProgramSpec {
    let mut program = ProgramSpec::new(DriverKind::Mock, vec![name.into()]);
    program.name = name.into();
    program.lifecycle = lifecycle;
    program
}

/// A main program that is restarted in place.
pub fn restarting(name: &str, attempts: u32, window: i64, delay: i64) -> ProgramSpec {
    let mut program = program(name, Lifecycle::Main);
    let (window, delay) = (Span::from_secs(window), Span::from_secs(delay));
    program.restart = RestartPolicy { attempts, window, delay };
    program
}

/// A task with these programs that is wanted to run.
pub fn task(id: &str, programs: Vec<ProgramSpec>) -> Assignment {
    Assignment {
        task: id.into(),
        name: format!("web.{id}").into(),
        service: "s1".into(),
        service_name: "web".into(),
        slot: "1".into(),
        desired: Desired::Running,
        spec: Arc::new(TaskSpec { programs, ..TaskSpec::default() }),
        ports: Box::default(),
        named: Box::default(),
        state: TaskState::Assigned,
    }
}

/// A task with one main program, `main`.
pub fn plain(id: &str) -> Assignment {
    task(id, vec![program("main", Lifecycle::Main)])
}

pub fn update(assignment: Assignment) -> AssignmentChange {
    AssignmentChange::Update(Arc::new(assignment))
}

pub fn wanted(mut assignment: Assignment, desired: Desired) -> AssignmentChange {
    assignment.desired = desired;
    update(assignment)
}

pub fn remove(id: &str) -> AssignmentChange {
    AssignmentChange::Remove(id.into())
}

/// An exit with this status.
pub fn code(code: i32) -> Exit {
    Exit { code: Some(code), ..Exit::default() }
}

/// An end by this signal.
pub fn signal(signal: i32) -> Exit {
    Exit { signal: Some(signal), ..Exit::default() }
}

pub struct Desk {
    pub agent: Agent,
    pub now: Time,
    pub connection: u64,
    pub session: u128,
    /// The number of the last assignments.
    pub number: u64,
    /// Whether reports are answered at once.
    pub answers: bool,
    /// Every effect, in order.
    pub effects: Vec<Effect>,
    /// The lines of the effects of `new`.
    pub first: Vec<String>,
    /// The newest record of each task that was to be written.
    pub records: Vec<Record>,
}

impl Desk {
    /// An agent that has just been made.
    pub fn new(restored: Vec<Record>) -> Self {
        Self::at(restored, DAWN)
    }

    pub fn at(restored: Vec<Record>, now: Time) -> Self {
        let records = restored.clone();
        let (agent, effects) = Agent::new(Config::new(7), restored, now);
        let mut desk = Self {
            agent,
            now,
            connection: 1,
            session: 0,
            number: 0,
            answers: true,
            effects: Vec::new(),
            first: Vec::new(),
            records,
        };
        desk.first = desk.note(effects);
        desk
    }

    /// An agent with an open session and an empty set of assignments.
    pub fn open() -> Self {
        let mut desk = Self::new(Vec::new());
        desk.register();
        desk.complete(vec![]);
        desk
    }

    /// Connects and opens the next session; the first heartbeat is answered.
    pub fn register(&mut self) -> Vec<String> {
        let description = Description { hostname: "n1".into(), ..Description::default() };
        let mut lines = self.input(Input::Described(Arc::new(description)));
        lines.extend(self.input(Input::Connected { connection: self.connection }));
        self.session += 1;
        let session = SessionId::from_u128(self.session);
        let (node, heartbeat) = ("n1".into(), Span::ZERO);
        lines.extend(self.say(ToAgent::Registered { session, node, heartbeat }));
        lines.extend(self.say(ToAgent::Heartbeat { period: Span::from_secs(5) }));
        lines
    }

    pub fn input(&mut self, input: Input) -> Vec<String> {
        let effects = self.agent.step(self.now, input);
        let wake = self.agent.next_wake();
        assert!(wake.is_none_or(|at| at > self.now), "a wake-up that is not in the future would spin");
        let mut lines = self.note(effects);
        let number =
            lines.last().and_then(|line| line.strip_prefix("report ")?.split_once(':')?.0.parse().ok());
        if let Some(number) = number.filter(|_| self.answers) {
            lines.extend(self.say(ToAgent::Reported { number }));
        }
        lines
    }

    fn note(&mut self, effects: Vec<Effect>) -> Vec<String> {
        for effect in &effects {
            match effect {
                Effect::Connect { connection, .. } => self.connection = *connection,
                Effect::Persist(record) => {
                    self.records.retain(|r| r.task() != record.task());
                    self.records.push(Record::clone(record));
                }
                Effect::Forget { task } => self.records.retain(|r| r.task() != task),
                _ => {}
            }
        }
        let lines = effects.iter().map(line).collect();
        self.effects.extend(effects);
        lines
    }

    /// Lets time pass, with a tick at each moment the agent asked for and at the end.
    pub fn pass(&mut self, span: Span) -> Vec<String> {
        let end = self.now + span;
        let mut lines = Vec::new();
        while let Some(wake) = self.agent.next_wake().filter(|at| *at <= end) {
            self.now = self.now.max(wake);
            lines.extend(self.input(Input::Tick));
            // The manager is in good health.
            if lines.last().is_some_and(|line| line == "heartbeat") {
                lines.pop();
                lines.extend(self.say(ToAgent::Heartbeat { period: Span::from_secs(5) }));
            }
        }
        self.now = end;
        lines
    }

    pub fn say(&mut self, message: ToAgent) -> Vec<String> {
        self.input(Input::Message { connection: self.connection, message })
    }

    pub fn complete(&mut self, changes: Vec<AssignmentChange>) -> Vec<String> {
        self.number = 1;
        self.assignments(AssignmentsKind::Complete, 0, changes)
    }

    pub fn assign(&mut self, changes: Vec<AssignmentChange>) -> Vec<String> {
        self.number += 1;
        self.assignments(AssignmentsKind::Incremental, self.number - 1, changes)
    }

    /// Sends assignments. The line that they were applied is checked and left out.
    pub fn assignments(
        &mut self,
        kind: AssignmentsKind,
        applies_to: u64,
        changes: Vec<AssignmentChange>,
    ) -> Vec<String> {
        let session = SessionId::from_u128(self.session);
        let results_in = self.number;
        let mut lines =
            self.say(ToAgent::Assignments(Assignments { session, kind, applies_to, results_in, changes }));
        let applied = format!("applied {results_in}");
        let place = lines.iter().position(|line| *line == applied).expect("assignments are applied");
        lines.remove(place);
        lines
    }

    pub fn reported(&mut self, number: u64) -> Vec<String> {
        self.say(ToAgent::Reported { number })
    }

    pub fn persisted(&mut self, task: &str) -> Vec<String> {
        self.input(Input::Persisted { task: task.into() })
    }

    pub fn persist_failed(&mut self, task: &str) -> Vec<String> {
        self.input(Input::PersistFailed { task: task.into(), message: "no space left on device".into() })
    }

    pub fn forgotten(&mut self, task: &str) -> Vec<String> {
        self.input(Input::Forgotten { task: task.into() })
    }

    /// The driver speaks of the newest run of `task/program` that the agent has named.
    pub fn driver(&mut self, program: &str, event: DriverEvent) -> Vec<String> {
        let program = self.newest(program);
        self.input(Input::Driver { program, event })
    }

    pub fn newest(&self, name: &str) -> ProgramRef {
        let mut named = self.effects.iter().rev().filter_map(program_of);
        let of = |p: &&ProgramRef| format!("{}/{}", p.task, p.program) == name;
        named.find(of).cloned().unwrap_or_else(|| panic!("{name} was never named"))
    }

    pub fn started(&mut self, program: &str, pid: u32) -> Vec<String> {
        let at = self.now;
        self.driver(program, DriverEvent::Started { pid, at, notes: vec![] })
    }

    pub fn start_failed(&mut self, program: &str, message: &str, retryable: bool) -> Vec<String> {
        self.driver(program, DriverEvent::StartFailed { message: message.into(), retryable })
    }

    pub fn attached(&mut self, program: &str, pid: u32) -> Vec<String> {
        let at = self.now;
        self.driver(program, DriverEvent::Attached { pid, at, notes: vec![] })
    }

    pub fn exited(&mut self, program: &str, exit: Exit) -> Vec<String> {
        let exit = Exit { at: self.now, ..exit };
        self.driver(program, DriverEvent::Exited(exit))
    }

    pub fn removed(&mut self, program: &str) -> Vec<String> {
        self.driver(program, DriverEvent::Removed)
    }

    /// Brings one plain task to where it runs, and has that acknowledged.
    pub fn running(&mut self, assignment: Assignment) {
        let id = assignment.task.clone();
        self.assign(vec![update(assignment)]);
        self.persisted(&id);
        self.started(&format!("{id}/main"), 42);
        self.pass(Span::from_millis(20));
    }

    /// The number and the text of the last report.
    pub fn last_report(&self) -> (u64, String) {
        let report = self.effects.iter().rev().find_map(|effect| match effect {
            Effect::Send { message: ToManager::Report { number, .. }, .. } => Some((*number, line(effect))),
            _ => None,
        });
        report.expect("something was reported")
    }

    pub fn state(&self, task: &str) -> Option<TaskState> {
        self.agent.tasks().find(|view| &**view.task == task).map(|view| view.state)
    }

    pub fn message(&self, task: &str) -> String {
        let view = self.agent.tasks().find(|view| &**view.task == task).expect("a known task");
        view.message.unwrap_or_default().to_owned()
    }

    pub fn events(&self, task: &str) -> Vec<String> {
        let view = self.agent.tasks().find(|view| &**view.task == task).expect("a known task");
        view.programs[0].events.iter().map(|event| event.message.to_string()).collect()
    }
}

pub fn program_of(effect: &Effect) -> Option<&ProgramRef> {
    match effect {
        Effect::Start(launch) => Some(&launch.program),
        Effect::Attach(p) | Effect::Kill(p) | Effect::Remove(p) | Effect::Stop { program: p, .. } => Some(p),
        _ => None,
    }
}

/// An effect in a few words.
pub fn line(effect: &Effect) -> String {
    let name = |p: &ProgramRef| format!("{}/{}", p.task, p.program);
    match effect {
        Effect::Connect { connection, .. } => format!("connect {connection}"),
        Effect::Send { message, .. } => said(message),
        Effect::Persist(record) => format!("persist {} {}/{}", record.task(), record.state, record.desired),
        Effect::Forget { task } => format!("forget {task}"),
        Effect::Start(launch) => format!("start {}", name(&launch.program)),
        Effect::Attach(program) => format!("attach {}", name(program)),
        Effect::Stop { program, grace } => format!("stop {} {grace}", name(program)),
        Effect::Kill(program) => format!("kill {}", name(program)),
        Effect::Remove(program) => format!("remove {}", name(program)),
        Effect::Stopped => "stopped".into(),
    }
}

fn said(message: &ToManager) -> String {
    match message {
        ToManager::Register { session: None, .. } => "register".into(),
        ToManager::Register { session: Some(session), .. } => format!("describe {}", session.0.as_u128()),
        ToManager::Heartbeat { .. } => "heartbeat".into(),
        ToManager::Applied { number, .. } => format!("applied {number}"),
        ToManager::Report { number, tasks, .. } => {
            let task = |t: &model::sync::TaskReport| match &t.message {
                Some(message) => format!("{} {} ({message})", t.task, t.state),
                None => format!("{} {}", t.task, t.state),
            };
            format!("report {number}: {}", tasks.iter().map(task).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Nothing is to be done.
pub const NOTHING: [&str; 0] = [];
