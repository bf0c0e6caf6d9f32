//! One simulated machine: the real agent, a disk that keeps what was synced, and programs that run nothing.
//!
//! What a program does stands in its command: `run` runs until it is asked to end, `exit CODE SPAN` ends by itself, `stubborn` ends only when
//! it is killed, `unstartable` cannot be started.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::{Agent, Config, DriverEvent, Effect, Exit, Input, Launch, ProgramRef, Record};
use model::sync::{TaskRef, ToManager};
use model::{Description, NodeId, Resources, Span, TaskId, Time, Volume};

use crate::random::Random;
use crate::script::{Offered, Size};
use crate::trace::Trace;

/// A program's name: its task and its name there.
pub type Name = (TaskRef, Arc<str>);

/// What the machine remembers of a program, as a supervisor would.
#[derive(Clone, Debug)]
struct Process {
    pid: u32,
    started_at: Time,
    ended: Option<Exit>,
    /// Nobody saw how it ended: the machine lost its power meanwhile.
    lost: bool,
    stubborn: bool,
    /// The run that waits for its end, if the agent that started it still lives.
    watched: Option<ProgramRef>,
}

/// What a machine wants of the world around it.
pub enum Wish {
    /// Call [`Host::work`] with this number after a while.
    Work(Span, u64),
    /// End a program after a while, if it still runs then.
    End(Span, Name, Option<i32>),
    /// The agent speaks.
    Say(u64, ToManager),
    /// The agent wants a connection.
    Dial(u64, Span),
}

/// What a disk or a driver does.
#[derive(Clone, Debug)]
enum Work {
    Persist(Box<Record>),
    Forget(TaskRef),
    Start(Box<Launch>),
    Attach(ProgramRef),
    Remove(ProgramRef),
}

/// A machine.
pub struct Host {
    /// Its node.
    pub node: NodeId,
    /// Counts its daemon's lives; what an earlier life asked for answers nobody.
    pub life: u64,
    /// True while the machine has power.
    pub on: bool,
    /// The newest connection of its agent.
    pub connection: u64,
    /// When the world is going to wake the agent.
    pub wake: Option<Time>,
    /// What the machine is.
    pub description: Arc<Description>,
    agent: Option<Agent>,
    /// How far its clock is from the world's.
    clock: Span,
    /// How far it was when the daemon started: the daemon's own time is steady.
    steady: Span,
    disk_fails: bool,
    drivers_fail: bool,
    disk: BTreeMap<TaskRef, Record>,
    processes: BTreeMap<Name, Process>,
    started: BTreeMap<Name, u32>,
    work: BTreeMap<u64, Work>,
    next_work: u64,
    next_pid: u32,
    /// Broken promises of this machine, in sentences; taken away by the world.
    pub broken: Vec<String>,
}

impl Host {
    /// A machine that is off.
    pub fn new(node: NodeId, name: &str, size: Size) -> Self {
        Self {
            node,
            life: 0,
            on: false,
            connection: 0,
            wake: None,
            description: Arc::new(description(name, size)),
            agent: None,
            clock: Span::ZERO,
            steady: Span::ZERO,
            disk_fails: false,
            drivers_fail: false,
            disk: BTreeMap::new(),
            processes: BTreeMap::new(),
            started: BTreeMap::new(),
            work: BTreeMap::new(),
            next_work: 1,
            next_pid: 1,
            broken: Vec::new(),
        }
    }

    /// True while its daemon runs.
    pub fn runs_daemon(&self) -> bool {
        self.agent.is_some()
    }

    /// The daemon starts: it knows what is on disk. Programs that run are found.
    pub fn start_daemon(&mut self, now: Time, random: &mut Random, trace: &mut Trace) -> Vec<Wish> {
        self.on = true;
        self.life += 1;
        self.steady = self.clock;
        let records = self.disk.values().cloned().collect();
        let (agent, first) = Agent::new(Config::new(random.bits()), records, now + self.steady);
        self.agent = Some(agent);
        let mut wishes = self.wishes(now, first, random, trace);
        let described = Input::Described(Arc::clone(&self.description));
        wishes.extend(self.input(now, described, random, trace));
        wishes
    }

    /// The daemon is killed; its programs run on. What it had asked for is done or not.
    pub fn kill_daemon(&mut self, now: Time, random: &mut Random) -> Vec<Wish> {
        let mut wishes = Vec::new();
        for (_, work) in std::mem::take(&mut self.work) {
            if random.once_in(2) {
                self.carry_out(work, now, false, &mut wishes);
            }
        }
        self.agent = None;
        self.wake = None;
        self.life += 1;
        for process in self.processes.values_mut() {
            process.watched = None;
        }
        wishes
    }

    /// The machine loses its power, and everything that runs on it ends unseen.
    pub fn power_off(&mut self, now: Time, random: &mut Random) {
        // A record is written beside the old one and renamed: after a crash the disk has either, never a torn one.
        self.work.retain(|_, work| matches!(work, Work::Persist(_) | Work::Forget(_)));
        let _ = self.kill_daemon(now, random);
        self.on = false;
        for process in self.processes.values_mut() {
            process.lost |= process.ended.is_none();
        }
    }

    /// Its clock jumps. The daemon's own time is steady and does not.
    pub fn jump(&mut self, by: Span) {
        self.clock = Span(self.clock.0 + by.0);
    }

    /// From now on its disk takes records, or does not.
    pub fn set_disk_fails(&mut self, fails: bool) {
        self.disk_fails = fails;
    }

    /// From now on its drivers work, or fail whatever is asked of them.
    pub fn set_drivers_fail(&mut self, fails: bool) {
        self.drivers_fail = fails;
    }

    /// It has other resources from now on; its agent still has to be told.
    pub fn set_size(&mut self, size: Size) {
        let volumes = self.description.volumes.clone();
        self.description = Arc::new(Description { volumes, ..description(&self.description.hostname, size) });
    }

    /// It offers these volumes from now on; its agent still has to be told.
    pub fn set_volumes(&mut self, offered: &[Offered]) {
        let volume = |one: &Offered| {
            let path = format!("/volumes/{}", one.name).into();
            (one.name.as_str().into(), Volume { path, read_only: one.read_only, sharing: one.sharing })
        };
        let volumes = offered.iter().map(volume).collect();
        self.description = Arc::new(Description { volumes, ..Description::clone(&self.description) });
    }

    /// Something happened to the agent.
    pub fn input(&mut self, now: Time, input: Input, random: &mut Random, trace: &mut Trace) -> Vec<Wish> {
        let at = now + self.steady;
        let Some(agent) = &mut self.agent else { return Vec::new() };
        let effects = agent.step(at, input);
        self.wishes(now, effects, random, trace)
    }

    /// When the agent wants to be woken, by the world's clock.
    pub fn next_wake(&self) -> Option<Time> {
        Some(self.agent.as_ref()?.next_wake()? - self.steady)
    }

    /// The programs that run.
    pub fn running(&self) -> impl Iterator<Item = &Name> {
        self.processes.iter().filter(|(_, p)| self.on && p.ended.is_none() && !p.lost).map(|(name, _)| name)
    }

    /// True when a program of this task runs.
    pub fn runs(&self, task: TaskId) -> bool {
        let name = task.to_string();
        self.running().any(|(t, _)| **t == *name)
    }

    /// True when nothing is left: no record, no program.
    pub fn is_empty(&self) -> bool {
        self.disk.is_empty() && self.processes.is_empty()
    }

    fn wishes(
        &mut self,
        now: Time,
        effects: Vec<Effect>,
        random: &mut Random,
        trace: &mut Trace,
    ) -> Vec<Wish> {
        let mut wishes = Vec::with_capacity(effects.len());
        for effect in effects {
            trace.note(now.0, self.node.0.as_u128() as u64, &effect);
            let ms = Span::from_millis;
            let (span, work) = match effect {
                Effect::Connect { connection, after } => {
                    self.connection = connection;
                    wishes.push(Wish::Dial(connection, after));
                    continue;
                }
                Effect::Send { connection, message } => {
                    wishes.push(Wish::Say(connection, message));
                    continue;
                }
                Effect::Stop { program, grace } => {
                    let stubborn = self.processes.get(&name(&program)).is_some_and(|p| p.stubborn);
                    let soon = random.span(ms(2), ms(500)).min(grace);
                    let code = if stubborn { None } else { Some(0) };
                    wishes.push(Wish::End(if stubborn { grace } else { soon }, name(&program), code));
                    continue;
                }
                Effect::Kill(program) => {
                    wishes.push(Wish::End(ms(4), name(&program), None));
                    continue;
                }
                Effect::Stopped => continue,
                Effect::Persist(record) => (random.span(ms(1), ms(4)), Work::Persist(record)),
                Effect::Forget { task } => (ms(1), Work::Forget(task)),
                Effect::Start(launch) => (random.span(ms(2), ms(30)), Work::Start(launch)),
                Effect::Attach(program) => (ms(3), Work::Attach(program)),
                Effect::Remove(program) => (ms(3), Work::Remove(program)),
            };
            let number = self.next_work;
            self.next_work += 1;
            self.work.insert(number, work);
            wishes.push(Wish::Work(span, number));
        }
        wishes
    }

    /// Does the piece of work with this number, unless the daemon that asked for it has died. Answers what the agent is told.
    pub fn work(&mut self, number: u64, now: Time, wishes: &mut Vec<Wish>) -> Option<Input> {
        let work = self.work.remove(&number)?;
        self.carry_out(work, now, true, wishes)
    }

    fn carry_out(&mut self, work: Work, now: Time, watch: bool, wishes: &mut Vec<Wish>) -> Option<Input> {
        let failed = || Arc::<str>::from("the driver fails");
        Some(match work {
            Work::Persist(record) if self.disk_fails => Input::PersistFailed {
                task: Arc::clone(record.task()),
                message: "no space left on device".into(),
            },
            Work::Persist(record) => {
                let task = Arc::clone(record.task());
                self.disk.insert(Arc::clone(&task), *record);
                Input::Persisted { task }
            }
            Work::Forget(task) => {
                if self.running().any(|(t, _)| *t == task) {
                    self.broken.push(format!("task {task} was forgotten while a program of it runs"));
                }
                self.disk.remove(&task);
                self.processes.retain(|(t, _), _| *t != task);
                Input::Forgotten { task }
            }
            Work::Start(launch) if self.drivers_fail => {
                let event = DriverEvent::StartFailed { message: failed(), retryable: true };
                Input::Driver { program: launch.program, event }
            }
            Work::Attach(program) if self.drivers_fail => {
                Input::Driver { program, event: DriverEvent::AttachFailed { message: failed() } }
            }
            Work::Remove(program) if self.drivers_fail => {
                Input::Driver { program, event: DriverEvent::RemoveFailed { message: failed() } }
            }
            Work::Start(launch) => self.start(&launch, watch, now, wishes),
            Work::Attach(program) => self.attach(program, watch, now),
            Work::Remove(program) => {
                self.processes.remove(&name(&program));
                Input::Driver { program, event: DriverEvent::Removed }
            }
        })
    }

    fn start(&mut self, launch: &Launch, watch: bool, now: Time, wishes: &mut Vec<Wish>) -> Input {
        let program = launch.program.clone();
        let key = name(&program);
        let words: Vec<&str> = launch.spec().command.iter().map(|w| &**w).collect();
        if words.first() == Some(&"unstartable") {
            let message = "no such file or directory".into();
            let event = DriverEvent::StartFailed { message, retryable: false };
            return Input::Driver { program, event };
        }
        self.judge_start(&key, launch.spec().restart.attempts);
        let pid = self.next_pid;
        self.next_pid += 1;
        if let ["exit", code, after] = words[..] {
            let after = Span::parse(after).unwrap_or(Span::ZERO);
            wishes.push(Wish::End(after, key.clone(), Some(code.parse().unwrap_or(1))));
        }
        let stubborn = words.first() == Some(&"stubborn");
        let watched = watch.then(|| program.clone());
        let started_at = now + self.clock;
        self.processes.insert(key, Process { pid, started_at, ended: None, lost: false, stubborn, watched });
        Input::Driver { program, event: DriverEvent::Started { pid, at: started_at, notes: Vec::new() } }
    }

    /// The agent's promise: a record is on disk before the first start, and nothing is started twice.
    fn judge_start(&mut self, key: &Name, restarts: u32) {
        let (task, program) = key;
        if self.processes.get(key).is_some_and(|there| there.ended.is_none() && !there.lost) {
            self.broken.push(format!("{task}/{program} was started while it ran"));
        }
        let starts = self.started.entry(key.clone()).or_insert(0);
        *starts += 1;
        if *starts > restarts + 1 {
            self.broken.push(format!("{task}/{program} was started {starts} times"));
        }
        if !self.disk.contains_key(task) {
            self.broken.push(format!("{task}/{program} was started before its record was on disk"));
        }
    }

    fn attach(&mut self, program: ProgramRef, watch: bool, now: Time) -> Input {
        let at = now + self.clock;
        let event = match self.processes.get_mut(&name(&program)) {
            None => DriverEvent::Never,
            Some(process) if process.lost => {
                DriverEvent::Lost { message: "the machine was restarted".into(), at }
            }
            Some(process) => match &process.ended {
                Some(exit) => DriverEvent::Exited(exit.clone()),
                None => {
                    process.watched = watch.then(|| program.clone());
                    DriverEvent::Attached { pid: process.pid, at: process.started_at, notes: Vec::new() }
                }
            },
        };
        Input::Driver { program, event }
    }

    /// A program ends, with this code or by a signal. Answers what the agent is told, if it watches.
    pub fn end(&mut self, name: &Name, code: Option<i32>, now: Time) -> Option<Input> {
        if !self.on {
            return None;
        }
        let at = now + self.clock;
        let process = self.processes.get_mut(name).filter(|p| p.ended.is_none() && !p.lost)?;
        let signal = if code.is_none() { Some(9) } else { None };
        let exit = Exit { code, signal, at, started_at: process.started_at, ..Exit::default() };
        process.ended = Some(exit.clone());
        let program = process.watched.take()?;
        Some(Input::Driver { program, event: DriverEvent::Exited(exit) })
    }
}

fn name(program: &ProgramRef) -> Name {
    (Arc::clone(&program.task), Arc::clone(&program.program))
}

/// What a simulated machine of this name and size says of itself.
pub fn description(hostname: &str, size: Size) -> Description {
    let mut resources = Resources { nano_cpus: size.cpus, memory: size.memory, ..Resources::default() };
    let mut named = BTreeMap::new();
    if size.gpus > 0 {
        resources.generic.insert("gpu".into(), size.gpus.into());
        named.insert("gpu".into(), (1..=size.gpus).map(|n| format!("gpu-{n}").into()).collect());
    }
    let driver = |name: &str| model::DriverInfo { name: name.into(), healthy: true, notes: Vec::new() };
    Description {
        hostname: hostname.into(),
        platform: model::Platform { os: "linux".into(), arch: "amd64".into() },
        resources,
        named,
        drivers: vec![driver("exec"), driver("mock")],
        ..Description::default()
    }
}
