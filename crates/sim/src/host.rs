//! One simulated machine: the real agent, a disk that keeps what was synced, and programs that run nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::{Agent, Config, DriverEvent, Effect, Exit, Input, ProgramRef, Record};
use model::sync::TaskRef;
use model::{Description, NodeId, Span, Time};

/// A program's name: its task and its name there.
type Name = (TaskRef, Arc<str>);

/// What the machine remembers of a program, as a supervisor would.
#[derive(Clone, Debug)]
struct Process {
    pid: u32,
    started_at: Time,
    ended: Option<Exit>,
    /// The run that waits for its end, if the agent that started it still lives.
    watched: Option<ProgramRef>,
}

/// What a machine wants of the world around it.
pub enum Wish {
    /// Feed this back to the agent after a while.
    Soon(Span, Input),
    /// Carry out what an effect asked for, after a while; it may take longer than the daemon lives.
    Work(Span, Work),
    /// The agent speaks.
    Say(u64, model::sync::ToManager),
    /// The agent wants a connection.
    Dial(u64, Span),
}

/// What a disk or a driver does.
#[derive(Clone, Debug)]
pub enum Work {
    /// Sync a record.
    Persist(Box<Record>),
    /// Delete a task.
    Forget(TaskRef),
    /// Start a program.
    Start(ProgramRef),
    /// Find a program.
    Attach(ProgramRef),
    /// A program ends, with this code or by a signal.
    End(Name, Option<i32>),
    /// Clear a program away.
    Remove(ProgramRef),
}

/// A machine.
pub struct Host {
    /// Its node.
    pub node: NodeId,
    /// Counts its daemon's lives; what an earlier life asked for answers nobody.
    pub life: u64,
    /// The newest connection of its agent.
    pub connection: u64,
    agent: Agent,
    disk: BTreeMap<TaskRef, Record>,
    processes: BTreeMap<Name, Process>,
    next_pid: u32,
    /// Starts of a program while it ran: must stay empty.
    pub doubled: Vec<String>,
}

impl Host {
    /// A machine whose daemon starts now.
    pub fn new(node: NodeId, seed: u64, now: Time) -> (Self, Vec<Wish>) {
        let (agent, first) = Agent::new(Config::new(seed), Vec::new(), now);
        let mut host = Self {
            node,
            life: 1,
            connection: 0,
            agent,
            disk: BTreeMap::new(),
            processes: BTreeMap::new(),
            next_pid: 1,
            doubled: Vec::new(),
        };
        let wishes = host.wishes(first);
        (host, wishes)
    }

    /// The daemon dies and starts again: it knows what is on disk. Programs run on.
    pub fn restart(&mut self, seed: u64, now: Time) -> Vec<Wish> {
        self.life += 1;
        for process in self.processes.values_mut() {
            process.watched = None;
        }
        let records = self.disk.values().cloned().collect();
        let (agent, first) = Agent::new(Config::new(seed), records, now);
        self.agent = agent;
        self.wishes(first)
    }

    /// Something happened to the agent.
    pub fn input(&mut self, now: Time, input: Input) -> Vec<Wish> {
        let effects = self.agent.step(now, input);
        self.wishes(effects)
    }

    /// When the agent wants to be woken.
    pub fn next_wake(&self) -> Option<Time> {
        self.agent.next_wake()
    }

    /// The programs that run.
    pub fn running(&self) -> impl Iterator<Item = &Name> {
        self.processes.iter().filter(|(_, p)| p.ended.is_none()).map(|(name, _)| name)
    }

    /// True when nothing is left: no record, no program.
    pub fn is_empty(&self) -> bool {
        self.disk.is_empty() && self.processes.is_empty()
    }

    fn wishes(&mut self, effects: Vec<Effect>) -> Vec<Wish> {
        let disk = Span::from_millis(1);
        let driver = Span::from_millis(4);
        let mut wishes = Vec::new();
        for effect in effects {
            wishes.push(match effect {
                Effect::Connect { connection, after } => {
                    self.connection = connection;
                    Wish::Dial(connection, after)
                }
                Effect::Send { connection, message } => Wish::Say(connection, message),
                Effect::Persist(record) => Wish::Work(disk, Work::Persist(record)),
                Effect::Forget { task } => Wish::Work(disk, Work::Forget(task)),
                Effect::Start(launch) => Wish::Work(driver, Work::Start(launch.program)),
                Effect::Attach(program) => Wish::Work(driver, Work::Attach(program)),
                Effect::Stop { program, .. } => {
                    Wish::Work(driver, Work::End((program.task, program.program), Some(0)))
                }
                Effect::Kill(program) => Wish::Work(driver, Work::End((program.task, program.program), None)),
                Effect::Remove(program) => Wish::Work(driver, Work::Remove(program)),
                Effect::Stopped => continue,
            });
        }
        wishes
    }

    /// Does a piece of work. `life` is the one that asked: answers to an earlier one are lost, what it did is not.
    pub fn work(&mut self, life: u64, work: Work, now: Time) -> Vec<Wish> {
        let answer = match work {
            Work::Persist(record) => {
                let task = Arc::clone(record.task());
                self.disk.insert(Arc::clone(&task), *record);
                Some(Input::Persisted { task })
            }
            Work::Forget(task) => {
                self.disk.remove(&task);
                self.processes.retain(|(t, _), _| *t != task);
                Some(Input::Forgotten { task })
            }
            Work::Start(program) => Some(self.start(program, life == self.life, now)),
            Work::Attach(program) => Some(self.attach(program, life == self.life)),
            Work::End(name, code) => self.end(&name, code, now),
            Work::Remove(program) => {
                self.processes.remove(&(Arc::clone(&program.task), Arc::clone(&program.program)));
                Some(Input::Driver { program, event: DriverEvent::Removed })
            }
        };
        match answer {
            Some(input) if life == self.life => vec![Wish::Soon(Span::ZERO, input)],
            _ => Vec::new(),
        }
    }

    fn start(&mut self, program: ProgramRef, watch: bool, now: Time) -> Input {
        let name = (Arc::clone(&program.task), Arc::clone(&program.program));
        if self.processes.get(&name).is_some_and(|there| there.ended.is_none()) {
            self.doubled.push(format!("{}/{} was started while it ran", name.0, name.1));
        }
        let pid = self.next_pid;
        self.next_pid += 1;
        let watched = watch.then(|| program.clone());
        self.processes.insert(name, Process { pid, started_at: now, ended: None, watched });
        Input::Driver { program, event: DriverEvent::Started { pid, at: now, notes: Vec::new() } }
    }

    fn attach(&mut self, program: ProgramRef, watch: bool) -> Input {
        let name = (Arc::clone(&program.task), Arc::clone(&program.program));
        let event = match self.processes.get_mut(&name) {
            None => DriverEvent::Never,
            Some(process) => match &process.ended {
                Some(exit) => DriverEvent::Exited(exit.clone()),
                None => {
                    if watch {
                        process.watched = Some(program.clone());
                    }
                    DriverEvent::Attached { pid: process.pid, at: process.started_at, notes: Vec::new() }
                }
            },
        };
        Input::Driver { program, event }
    }

    fn end(&mut self, name: &Name, code: Option<i32>, now: Time) -> Option<Input> {
        let process = self.processes.get_mut(name).filter(|p| p.ended.is_none())?;
        let signal = if code.is_none() { Some(9) } else { None };
        let exit = Exit { code, signal, at: now, started_at: process.started_at, ..Exit::default() };
        process.ended = Some(exit.clone());
        let program = process.watched.take()?;
        Some(Input::Driver { program, event: DriverEvent::Exited(exit) })
    }

    /// What every simulated machine is.
    pub fn description(hostname: &str) -> Description {
        let driver = |name: &str| model::DriverInfo { name: name.into(), healthy: true, notes: Vec::new() };
        Description {
            hostname: hostname.into(),
            platform: model::Platform { os: "linux".into(), arch: "amd64".into() },
            resources: model::Resources {
                nano_cpus: 4_000_000_000,
                memory: 8 << 30,
                ..model::Resources::default()
            },
            drivers: vec![driver("exec"), driver("mock")],
            ..Description::default()
        }
    }
}
