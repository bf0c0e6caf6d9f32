//! A world that goes wrong: a disk, a driver and a manager around one agent, where everything happens in any order, fails now and then, and
//! the daemon may die at any instant. Whatever must never happen panics at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use agent::{Agent, Config, DriverEvent, Effect, Exit, Input, Launch, ProgramRef, Record};
use model::sync::{
    Assignment, AssignmentChange, Assignments, AssignmentsKind, TaskRef, TaskReport, ToAgent, ToManager,
};
use model::{
    Description, Desired, DriverKind, Lifecycle, ProgramSpec, RestartPolicy, SessionId, Span, TaskSpec,
    TaskState, Time,
};

/// A task's program.
type Name = (TaskRef, Arc<str>);

/// What the driver holds of a program: on "disk", so it outlives the daemon.
#[derive(Debug)]
struct Trace {
    started_at: Time,
    /// How it ended; `None` while it runs.
    end: Option<End>,
    /// Asked to end: it will, sooner or later.
    stopping: bool,
    /// Who is told of its end; nobody after a crash until it is attached.
    watcher: Option<ProgramRef>,
    lifecycle: Lifecycle,
}

#[derive(Clone, Debug)]
enum End {
    Seen(Exit),
    Lost,
}

impl End {
    fn event(&self, now: Time) -> DriverEvent {
        match self {
            Self::Seen(exit) => DriverEvent::Exited(exit.clone()),
            Self::Lost => DriverEvent::Lost { message: "the supervisor was lost".into(), at: now },
        }
    }
}

/// Something on its way: to be done, or to be told to the agent.
#[derive(Debug)]
enum Pending {
    Do(Effect),
    Tell(Input),
}

/// The manager's half of one connection.
#[derive(Debug, Default)]
struct Manager {
    wanted: BTreeMap<TaskRef, Arc<Assignment>>,
    known: BTreeMap<TaskRef, TaskState>,
    session: u128,
    number: u64,
    up: VecDeque<ToManager>,
    down: VecDeque<ToAgent>,
}

pub struct World {
    agent: Agent,
    now: Time,
    seed: u64,
    connection: u64,
    connected: bool,
    pending: Vec<Pending>,
    disk: BTreeMap<TaskRef, Record>,
    driver: BTreeMap<Name, Trace>,
    manager: Manager,
    tasks: u32,
    /// Programs whose fate the driver once could not tell this daemon: only these may be removed while they run.
    puzzling: BTreeSet<Name>,
    /// Tasks whose directory is being deleted.
    dropping: BTreeSet<TaskRef>,
    /// So many of the next things that are done fail.
    spoil: usize,
    pub stopped: bool,
    stopping: bool,
}

impl World {
    pub fn new() -> Self {
        let now = Time(1_700_000_000_000_000_000);
        let (agent, effects) = Agent::new(Config::new(0), Vec::new(), now);
        let mut world = Self {
            agent,
            now,
            seed: 0,
            connection: 0,
            connected: false,
            pending: Vec::new(),
            disk: BTreeMap::new(),
            driver: BTreeMap::new(),
            manager: Manager::default(),
            tasks: 0,
            puzzling: BTreeSet::new(),
            dropping: BTreeSet::new(),
            spoil: 0,
            stopped: false,
            stopping: false,
        };
        world.take(effects);
        world.pending.push(Pending::Tell(Input::Described(Arc::new(Description::default()))));
        world
    }

    /// One thing happens: which kind, and to which of those it could happen to.
    pub fn happen(&mut self, kind: u8, pick: u16) {
        let pick = usize::from(pick);
        match kind % 40 {
            0..=13 => self.next_pending(pick),
            14..=18 => self.deliver_up(),
            19..=23 => self.deliver_down(),
            24 | 25 => self.assign(pick),
            26 => self.raise(pick),
            27 if pick.is_multiple_of(2) => self.remove(pick),
            28 => self.exit_one(pick),
            29 if pick.is_multiple_of(2) => self.lose_one(pick),
            30 => self.spoil = 1 + pick % 4,
            31..=34 => self.advance(Span(Span::from_millis(1 << (pick % 14)).0 + 1)),
            35 if pick.is_multiple_of(2) => self.disconnect(),
            36 if pick.is_multiple_of(2) => self.crash(pick),
            37 => {
                self.end_what_should();
            }
            _ => self.advance(Span::from_millis(20)),
        }
    }

    pub fn stop(&mut self) {
        self.stopping = true;
        self.step(Input::Stop { within: Span::from_secs(3) });
    }

    /// Nothing goes wrong any more, nobody wants anything new, and ten minutes pass.
    pub fn quiet(&mut self) {
        self.spoil = 0;
        let end = self.now + Span::from_secs(600);
        while self.now < end {
            let mut moved = true;
            while moved {
                moved =
                    !self.pending.is_empty() || !self.manager.up.is_empty() || !self.manager.down.is_empty();
                self.deliver_up();
                self.deliver_down();
                self.next_pending(0);
                moved |= self.end_what_should();
            }
            let wake = self.agent.next_wake().unwrap_or(end).min(end);
            assert!(wake > self.now, "a wake-up that is not in the future would spin");
            self.now = wake;
            self.step(Input::Tick);
        }
    }

    /// What must hold once all is quiet.
    pub fn check(&self) {
        for (task, assignment) in &self.manager.wanted {
            let known = self.manager.known.get(task).copied().unwrap_or_default();
            let traces: Vec<_> = self.traces(task).collect();
            if known.is_ended() {
                assert!(traces.is_empty(), "{task} has ended ({known}) and left {traces:?}");
                continue;
            }
            if self.stopping {
                // Assigned while the agent took nothing any more.
                assert!(traces.is_empty() && !self.disk.contains_key(task), "{task} {known}");
                continue;
            }
            match assignment.desired {
                Desired::Ready => {
                    assert_eq!(known, TaskState::Ready, "{task}");
                    assert!(traces.is_empty(), "{task} waits, with {traces:?}");
                }
                Desired::Running | Desired::Complete => {
                    assert_eq!(known, TaskState::Running, "{task}");
                    let mains = assignment.spec.programs.iter().filter(|p| p.lifecycle == Lifecycle::Main);
                    let traces = mains.map(|p| &self.driver[&(task.clone(), p.name.clone())]);
                    let (running, ended): (Vec<_>, Vec<_>) = traces.partition(|trace| trace.end.is_none());
                    assert!(!running.is_empty(), "{task} shall run: {ended:?}");
                    // One of several main programs may be done while the others run.
                    let done = |trace: &&Trace| matches!(&trace.end, Some(End::Seen(e)) if e.code == Some(0));
                    assert!(ended.iter().all(done), "{task} shall run: {ended:?}");
                }
                Desired::Shutdown | Desired::Remove => panic!("{task} shall have ended and is {known}"),
            }
        }
        let strays = self.driver.keys().filter(|(task, _)| !self.manager.wanted.contains_key(task));
        assert_eq!(strays.count(), 0, "programs of removed tasks: {:?}", self.driver);
        let files = self.disk.keys().filter(|task| !self.manager.wanted.contains_key(*task));
        assert_eq!(files.count(), 0, "files of removed tasks");
        assert!(!self.stopping || self.stopped, "the agent never said that all has ended");
    }

    fn traces(&self, task: &TaskRef) -> impl Iterator<Item = (&Name, &Trace)> {
        let task = task.clone();
        self.driver.iter().filter(move |((of, _), _)| *of == task)
    }

    /// Everything that is under way, as text.
    pub fn on_its_way(&self) -> String {
        format!("{:?} {:?} {:?}", self.pending, self.manager.up, self.agent.next_wake())
    }

    // --- The agent.

    fn step(&mut self, input: Input) {
        if let Input::Forgotten { task } = &input {
            self.dropping.remove(task);
        }
        let effects = self.agent.step(self.now, input);
        self.take(effects);
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.judge(&effect);
            match effect {
                Effect::Connect { connection, .. } => {
                    (self.connection, self.connected) = (connection, false);
                    self.hang_up();
                    self.pending.push(Pending::Do(effect));
                }
                Effect::Send { connection, message } => {
                    if self.connected && connection == self.connection {
                        self.manager.up.push_back(message);
                    }
                }
                Effect::Stopped => self.stopped = true,
                other => self.pending.push(Pending::Do(other)),
            }
        }
    }

    /// What the agent may never ask for.
    fn judge(&mut self, effect: &Effect) {
        let task = match effect {
            Effect::Start(launch) => {
                let task = &launch.program.task;
                assert!(self.disk.contains_key(task), "{task} is started without a record on disk");
                task
            }
            Effect::Persist(record) => {
                let same = |p: &&Pending| match p {
                    Pending::Do(Effect::Persist(other)) => other.task() == record.task(),
                    Pending::Tell(Input::Persisted { task } | Input::PersistFailed { task, .. }) => {
                        task == record.task()
                    }
                    _ => false,
                };
                let under_way = self.pending.iter().find(same);
                assert!(under_way.is_none(), "a second write for {}", record.task());
                record.task()
            }
            Effect::Forget { task } => {
                let traces: Vec<_> = self.traces(task).collect();
                assert!(traces.is_empty(), "{task} is forgotten with {traces:?}");
                assert!(self.dropping.insert(task.clone()), "{task} is forgotten twice");
                return;
            }
            Effect::Send { message: ToManager::Report { tasks, .. }, .. } => {
                for report in tasks.iter().filter(|report| report.state.is_ended()) {
                    let runs: Vec<_> =
                        self.traces(&report.task).filter(|(_, trace)| trace.end.is_none()).collect();
                    assert!(runs.is_empty(), "{} is reported {} with {runs:?}", report.task, report.state);
                }
                return;
            }
            Effect::Attach(p) | Effect::Kill(p) | Effect::Remove(p) | Effect::Stop { program: p, .. } => {
                &p.task
            }
            Effect::Connect { .. } | Effect::Send { .. } | Effect::Stopped => return,
        };
        assert!(!self.dropping.contains(task), "{effect:?} of a forgotten task");
    }

    /// The daemon dies: what was on its way happens or not, and nobody hears of it. A new one begins with what is on disk.
    fn crash(&mut self, luck: usize) {
        for (place, pending) in std::mem::take(&mut self.pending).into_iter().enumerate() {
            if let Pending::Do(effect) = pending
                && (luck >> (place % 8)) & 1 == 0
            {
                self.carry_out(effect);
            }
        }
        self.pending.clear();
        self.driver.values_mut().for_each(|trace| trace.watcher = None);
        self.puzzling.clear();
        self.dropping.clear();
        self.hang_up();
        self.connected = false;
        self.now = self.now + Span::from_millis(50);
        self.seed += 1;
        let records = self.disk.values().cloned().collect();
        let (agent, effects) = Agent::new(Config::new(self.seed), records, self.now);
        self.agent = agent;
        self.take(effects);
        self.pending.push(Pending::Tell(Input::Described(Arc::new(Description::default()))));
    }

    fn advance(&mut self, span: Span) {
        let end = self.now + span;
        while let Some(wake) = self.agent.next_wake().filter(|wake| *wake <= end) {
            self.now = self.now.max(wake);
            self.step(Input::Tick);
        }
        self.now = end;
    }

    // --- Disk and driver.

    fn next_pending(&mut self, pick: usize) {
        if self.pending.is_empty() {
            return;
        }
        match self.pending.remove(pick % self.pending.len()) {
            Pending::Do(effect) => self.carry_out(effect),
            Pending::Tell(input) => self.step(input),
        }
    }

    fn tell(&mut self, input: Input) {
        self.pending.push(Pending::Tell(input));
    }

    fn carry_out(&mut self, effect: Effect) {
        let spoilt = self.spoil > 0;
        self.spoil = self.spoil.saturating_sub(1);
        match effect {
            Effect::Persist(record) => {
                let task = record.task().clone();
                if spoilt {
                    self.tell(Input::PersistFailed { task, message: "no space left on device".into() });
                } else {
                    self.disk.insert(task.clone(), *record);
                    self.tell(Input::Persisted { task });
                }
            }
            Effect::Forget { task } => {
                self.disk.remove(&task);
                self.tell(Input::Forgotten { task });
            }
            Effect::Connect { connection, .. } => {
                self.connected = !spoilt;
                self.tell(match spoilt {
                    true => Input::Disconnected { connection, reason: "refused".into() },
                    false => Input::Connected { connection },
                });
            }
            Effect::Start(launch) => self.start(*launch, spoilt),
            Effect::Attach(program) => self.attach(program, spoilt),
            Effect::Stop { program, .. } => {
                if let Some(trace) = self.driver.get_mut(&name_of(&program)) {
                    trace.stopping = true;
                }
            }
            Effect::Kill(program) => {
                self.end(&name_of(&program), Exit { signal: Some(9), ..Exit::default() })
            }
            Effect::Remove(program) => self.remove_traces(program, spoilt),
            Effect::Send { .. } | Effect::Stopped => {}
        }
    }

    fn speak(&mut self, program: ProgramRef, event: DriverEvent) {
        self.tell(Input::Driver { program, event });
    }

    fn start(&mut self, launch: Launch, spoilt: bool) {
        let name = name_of(&launch.program);
        let trace = self.driver.get(&name);
        assert!(trace.is_none(), "{name:?} is started a second time: {trace:?}");
        let (retryable, starts) = (self.now.0 % 3 != 0, self.now.0 % 2 != 0);
        if spoilt && !(retryable && starts) {
            self.speak(launch.program, DriverEvent::StartFailed { message: "busy".into(), retryable });
            return;
        }
        let trace = Trace {
            started_at: self.now,
            end: None,
            stopping: false,
            watcher: (!spoilt).then(|| launch.program.clone()),
            lifecycle: launch.spec().lifecycle,
        };
        self.driver.insert(name.clone(), trace);
        if spoilt {
            self.puzzling.insert(name);
            self.speak(launch.program, DriverEvent::StartFailed { message: "no answer".into(), retryable });
            return;
        }
        let at = self.now;
        self.speak(launch.program, DriverEvent::Started { pid: 1, at, notes: vec![] });
    }

    fn attach(&mut self, program: ProgramRef, spoilt: bool) {
        let name = name_of(&program);
        if spoilt {
            self.puzzling.insert(name);
            self.speak(program, DriverEvent::AttachFailed { message: "no answer".into() });
            return;
        }
        let at = self.now;
        let event = match self.driver.get_mut(&name) {
            None => DriverEvent::Never,
            Some(trace) => match &trace.end {
                None => {
                    trace.watcher = Some(program.clone());
                    DriverEvent::Attached { pid: 1, at: trace.started_at, notes: vec![] }
                }
                Some(end) => end.event(at),
            },
        };
        self.speak(program, event);
    }

    fn remove_traces(&mut self, program: ProgramRef, spoilt: bool) {
        let name = name_of(&program);
        if spoilt {
            self.speak(program, DriverEvent::RemoveFailed { message: "busy".into() });
            return;
        }
        let runs = self.driver.get(&name).is_some_and(|trace| trace.end.is_none());
        assert!(!runs || self.puzzling.contains(&name), "{name:?} is removed while it runs");
        self.end(&name, Exit { signal: Some(9), ..Exit::default() });
        self.driver.remove(&name);
        self.speak(program, DriverEvent::Removed);
    }

    fn end(&mut self, name: &Name, exit: Exit) {
        let at = self.now;
        let Some(trace) = self.driver.get_mut(name).filter(|trace| trace.end.is_none()) else {
            return;
        };
        let exit = Exit { at, started_at: trace.started_at, ..exit };
        trace.end = Some(End::Seen(exit.clone()));
        if let Some(watcher) = trace.watcher.clone() {
            self.speak(watcher, DriverEvent::Exited(exit));
        }
    }

    fn running(&self) -> Vec<Name> {
        self.driver.iter().filter(|(_, trace)| trace.end.is_none()).map(|(name, _)| name.clone()).collect()
    }

    fn exit_one(&mut self, pick: usize) {
        let running = self.running();
        if let Some(name) = running.get(pick % running.len().max(1)) {
            let code = i32::from(!pick.is_multiple_of(3));
            self.end(name, Exit { code: Some(code), ..Exit::default() });
        }
    }

    fn lose_one(&mut self, pick: usize) {
        let (running, at) = (self.running(), self.now);
        let Some(name) = running.get(pick % running.len().max(1)) else {
            return;
        };
        let trace = self.driver.get_mut(name).expect("it runs");
        trace.end = Some(End::Lost);
        if let Some(watcher) = trace.watcher.clone() {
            self.speak(watcher, DriverEvent::Lost { message: "the supervisor was lost".into(), at });
        }
    }

    /// Programs that were asked to end do, and those that only prepare or clean up are done; true if any was.
    fn end_what_should(&mut self) -> bool {
        let should = |trace: &Trace| {
            trace.stopping || matches!(trace.lifecycle, Lifecycle::Prestart | Lifecycle::Poststop)
        };
        let due: Vec<Name> = self.running().into_iter().filter(|name| should(&self.driver[name])).collect();
        for name in &due {
            let asked = self.driver[name].stopping;
            let exit = if asked { Exit { signal: Some(15), ..Exit::default() } } else { success() };
            self.end(name, exit);
        }
        !due.is_empty()
    }

    // --- The manager.

    fn hang_up(&mut self) {
        self.manager.up.clear();
        self.manager.down.clear();
        self.manager.number = 0;
    }

    fn disconnect(&mut self) {
        if self.connected {
            self.connected = false;
            self.hang_up();
            let connection = self.connection;
            self.tell(Input::Disconnected { connection, reason: "reset".into() });
        }
    }

    fn deliver_down(&mut self) {
        if let Some(message) = self.manager.down.pop_front() {
            let connection = self.connection;
            self.step(Input::Message { connection, message });
        }
    }

    fn deliver_up(&mut self) {
        let Some(message) = self.manager.up.pop_front() else {
            return;
        };
        let answer = match message {
            ToManager::Register { .. } => {
                self.manager.session += 1;
                let session = SessionId::from_u128(self.manager.session);
                let heartbeat = Span::from_secs(5);
                self.manager.down.push_back(ToAgent::Registered { session, node: "n1".into(), heartbeat });
                self.manager.number = 0;
                self.send_complete()
            }
            ToManager::Heartbeat { .. } => ToAgent::Heartbeat { period: Span::from_secs(5) },
            ToManager::Report { number, tasks, .. } => {
                tasks.into_iter().for_each(|report| self.learn(report));
                ToAgent::Reported { number }
            }
            ToManager::Applied { .. } => return,
        };
        self.manager.down.push_back(answer);
    }

    /// The manager takes in a report: states never go back there, and an end is never taken back by the agent.
    fn learn(&mut self, report: TaskReport) {
        if !self.manager.wanted.contains_key(&report.task) {
            return;
        }
        let known = self.manager.known.entry(report.task.clone()).or_default();
        if known.is_ended() {
            assert_eq!(*known, report.state, "the end of {} was taken back", report.task);
        }
        *known = report.state.max(*known);
    }

    fn as_known(&self, assignment: &Assignment) -> Arc<Assignment> {
        let known = self.manager.known.get(&assignment.task).copied().unwrap_or_default();
        Arc::new(Assignment { state: known.max(TaskState::Assigned), ..assignment.clone() })
    }

    fn send_complete(&mut self) -> ToAgent {
        self.manager.number = 1;
        let updates = self.manager.wanted.values().map(|a| AssignmentChange::Update(self.as_known(a)));
        ToAgent::Assignments(Assignments {
            session: SessionId::from_u128(self.manager.session),
            kind: AssignmentsKind::Complete,
            applies_to: 0,
            results_in: 1,
            changes: updates.collect(),
        })
    }

    fn send_change(&mut self, change: AssignmentChange) {
        if self.manager.number == 0 {
            return;
        }
        self.manager.number += 1;
        self.manager.down.push_back(ToAgent::Assignments(Assignments {
            session: SessionId::from_u128(self.manager.session),
            kind: AssignmentsKind::Incremental,
            applies_to: self.manager.number - 1,
            results_in: self.manager.number,
            changes: vec![change],
        }));
    }

    fn assign(&mut self, pick: usize) {
        self.tasks += 1;
        let task: TaskRef = format!("t{:03}", self.tasks).into();
        let desired = if pick % 5 == 4 { Desired::Ready } else { Desired::Running };
        let assignment = Arc::new(Assignment {
            task: task.clone(),
            name: "web.1".into(),
            service: "s1".into(),
            service_name: "web".into(),
            slot: "1".into(),
            desired,
            spec: Arc::new(TaskSpec { programs: programs(pick), ..TaskSpec::default() }),
            ports: Box::default(),
            named: Box::default(),
            state: TaskState::Assigned,
        });
        self.manager.wanted.insert(task, assignment.clone());
        self.send_change(AssignmentChange::Update(assignment));
    }

    fn pick_wanted(&self, pick: usize) -> Option<TaskRef> {
        let count = self.manager.wanted.len().max(1);
        self.manager.wanted.keys().nth(pick % count).cloned()
    }

    fn raise(&mut self, pick: usize) {
        let Some(task) = self.pick_wanted(pick) else {
            return;
        };
        let old = &self.manager.wanted[&task];
        let desired = old.desired.max([Desired::Running, Desired::Shutdown, Desired::Remove][pick % 3]);
        let new = Arc::new(Assignment { desired, ..Assignment::clone(old) });
        self.manager.wanted.insert(task, new.clone());
        self.send_change(AssignmentChange::Update(self.as_known(&new)));
    }

    fn remove(&mut self, pick: usize) {
        if let Some(task) = self.pick_wanted(pick) {
            self.manager.wanted.remove(&task);
            self.manager.known.remove(&task);
            self.send_change(AssignmentChange::Remove(task));
        }
    }
}

fn success() -> Exit {
    Exit { code: Some(0), ..Exit::default() }
}

fn name_of(program: &ProgramRef) -> Name {
    (program.task.clone(), program.program.clone())
}

/// One of a few shapes of tasks.
fn programs(pick: usize) -> Vec<ProgramSpec> {
    let program = |name: &str, lifecycle, attempts| {
        let mut program = ProgramSpec::new(DriverKind::Mock, vec![name.into()]);
        (program.name, program.lifecycle) = (name.into(), lifecycle);
        let (window, delay) = (Span::from_secs(10), Span::from_secs(1));
        program.restart = RestartPolicy { attempts, window, delay };
        program
    };
    match pick % 4 {
        0 | 1 => vec![program("main", Lifecycle::Main, 0)],
        2 => vec![program("main", Lifecycle::Main, 2)],
        _ => vec![
            program("pre", Lifecycle::Prestart, 1),
            program("side", Lifecycle::Sidecar, 1),
            program("one", Lifecycle::Main, 1),
            program("two", Lifecycle::Main, 0),
            program("after", Lifecycle::Poststart, 0),
            program("post", Lifecycle::Poststop, 1),
        ],
    }
}
