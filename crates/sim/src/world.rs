//! The world: a clock that jumps to what happens next, an ideal log, one leading manager, and machines.
//!
//! The log keeps the promises of the real one: what is committed is applied in order and stays; what was on its way when the
//! manager died is either committed or lost.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use agent::Input as AgentInput;
use manager::{Effect, Input, Manager, Step, Ticket};
use model::{
    Availability, Cluster, ClusterId, Labels, Meta, Node, NodeId, NodeStatus, Role, ServiceId, Slot, Span,
    Task, TaskId, Time,
};
use store::{Change, ChangeSet, Entry, FEATURE_LEVEL, Tables};

use crate::host::{Host, Wish, Work};
use crate::random::Random;

/// A promise that was broken, in a sentence.
pub type Promise = String;

/// Something that is going to happen.
enum Happening {
    /// A proposal reaches the log; the manager's own ones have a ticket and the leadership they were made in.
    Commit(Option<(u64, Ticket)>, ChangeSet),
    /// The manager gets this, if it still is in that leadership.
    Manager(u64, Input),
    /// A machine's agent gets this, if its daemon still lives that life.
    Agent(NodeId, u64, AgentInput),
    /// A machine's disk or driver does this.
    Work(NodeId, u64, Work),
    /// Wakes a machine.
    Wake(NodeId, u64),
    /// Wakes the manager.
    Tick(u64),
}

/// A simulated cluster.
pub struct World {
    now: Time,
    random: Random,
    queue: BTreeMap<(Time, u64), Happening>,
    sequence: u64,
    tables: Tables,
    manager: Manager,
    /// Counts leaderships.
    leadership: u64,
    hosts: BTreeMap<NodeId, Host>,
    /// Which machine a connection of which life is of.
    connections: BTreeMap<u64, (NodeId, u64, u64)>,
    next_connection: u64,
    /// Every change set that was applied, in order, as text.
    trace: String,
    broken: Vec<Promise>,
}

impl World {
    /// A cluster of so many machines, whose manager leads and whose agents are about to register.
    pub fn new(seed: u64, machines: u32) -> Self {
        let mut world = Self {
            now: Time(1_000_000_000_000),
            random: Random::new(seed),
            queue: BTreeMap::new(),
            sequence: 0,
            tables: Tables::new(),
            manager: Manager::new(),
            leadership: 0,
            hosts: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_connection: 0,
            trace: String::new(),
            broken: Vec::new(),
        };
        let mut first = vec![Change::PutCluster(Cluster::new(ClusterId::from_u128(1), "default"))];
        for number in 1..=machines {
            first.push(Change::CreateNode(member(number)));
        }
        world.commit(None, ChangeSet::of(first));
        world.lead();
        for number in 1..=machines {
            world.add_host(NodeId::from_u128(number.into()));
        }
        world
    }

    fn add_host(&mut self, node: NodeId) {
        let seed = self.random.bits();
        let (host, wishes) = Host::new(node, seed, self.now);
        self.hosts.insert(node, host);
        self.grant(node, wishes);
        self.describe(node);
    }

    fn describe(&mut self, node: NodeId) {
        let life = self.hosts[&node].life;
        let description = Arc::new(Host::description(&format!("host-{}", node.0.as_u128())));
        self.after(Span::ZERO, Happening::Agent(node, life, AgentInput::Described(description)));
    }

    /// The time now.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The committed state.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// A fresh id.
    pub fn id(&mut self) -> model::Id {
        self.random.id()
    }

    /// Everything that was decided so far, as text.
    pub fn trace(&self) -> &str {
        &self.trace
    }

    /// Chance, from the world's seed.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// A request reaches the log in a moment.
    pub fn request(&mut self, set: ChangeSet) {
        self.after(Span::from_millis(1), Happening::Commit(None, set));
    }

    /// The manager dies, and leads again after `away`. What it had proposed may be committed or lost.
    pub fn crash_manager(&mut self, away: Span) {
        self.leadership += 1;
        self.manager = Manager::new();
        let under_way: Vec<(Time, u64)> = self
            .queue
            .iter()
            .filter(|(_, h)| matches!(h, Happening::Commit(Some(_), _)))
            .map(|(k, _)| *k)
            .collect();
        for key in under_way {
            if self.random.once_in(2) {
                self.queue.remove(&key);
            }
        }
        self.connections.clear();
        let leadership = self.leadership;
        let back = self.now + away;
        self.at(back, Happening::Tick(leadership));
        for node in self.hosts.keys().copied().collect::<Vec<_>>() {
            self.disconnect(node);
        }
    }

    fn disconnect(&mut self, node: NodeId) {
        let (life, connection) = (self.hosts[&node].life, self.hosts[&node].connection);
        let input = AgentInput::Disconnected { connection, reason: "the manager is gone".into() };
        self.after(Span::ZERO, Happening::Agent(node, life, input));
    }

    /// A machine's daemon is killed and starts again; its programs run on.
    pub fn crash_agent(&mut self, node: NodeId) {
        let seed = self.random.bits();
        let now = self.now;
        let Some(host) = self.hosts.get_mut(&node) else { return };
        let wishes = host.restart(seed, now);
        self.grant(node, wishes);
        self.describe(node);
    }

    /// A machine is gone for good, with all that ran on it.
    pub fn lose(&mut self, node: NodeId) {
        self.hosts.remove(&node);
    }

    /// The program of a task ends by itself with this code, wherever it runs.
    pub fn end_program(&mut self, task: TaskId, code: i32) {
        let name: Arc<str> = task.to_string().into();
        let Some(node) = self.tables.task(task).and_then(|t| t.node) else { return };
        let Some(life) = self.hosts.get(&node).map(|h| h.life) else { return };
        let work = Work::End((name, "main".into()), Some(code));
        self.after(Span::ZERO, Happening::Work(node, life, work));
    }

    /// Lets time pass until nothing happens any more before `until`, then jumps there.
    pub fn run_until(&mut self, until: Time) {
        while let Some((key, happening)) = self.queue.pop_first() {
            if key.0 > until {
                self.queue.insert(key, happening);
                break;
            }
            self.now = self.now.max(key.0);
            self.happen(happening);
        }
        self.now = until;
    }

    /// Lets so much time pass.
    pub fn run_for(&mut self, span: Span) {
        self.run_until(self.now + span);
    }

    fn at(&mut self, time: Time, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((time, self.sequence), happening);
    }

    fn after(&mut self, span: Span, happening: Happening) {
        self.at(self.now + span, happening);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Commit(ticket, set) => self.commit(ticket, set),
            Happening::Manager(leadership, input) if leadership == self.leadership => self.step(input),
            Happening::Tick(leadership) if leadership == self.leadership => {
                if self.manager.leads() {
                    self.step(Input::Tick)
                } else {
                    self.lead()
                }
            }
            Happening::Agent(node, life, input) => self.agent_input(node, life, input),
            Happening::Work(node, life, work) => {
                let now = self.now;
                let Some(host) = self.hosts.get_mut(&node) else { return };
                let wishes = host.work(life, work, now);
                let doubled = std::mem::take(&mut host.doubled);
                self.broken.extend(doubled);
                self.grant(node, wishes);
            }
            Happening::Wake(node, life) => self.agent_input(node, life, AgentInput::Tick),
            Happening::Manager(..) | Happening::Tick(_) => {}
        }
    }

    fn lead(&mut self) {
        self.step(Input::Lead(Arc::new(self.tables.clone())));
    }

    fn commit(&mut self, ticket: Option<(u64, Ticket)>, set: ChangeSet) {
        let before: BTreeMap<TaskId, Task> = touched(&set, &self.tables);
        let _ = writeln!(self.trace, "{:?} {set:?}", self.now);
        let entry = Entry { feature_level: FEATURE_LEVEL, time: self.now, sets: vec![set] };
        let index = self.tables.index() + 1;
        let applied = self.tables.apply(index, &entry);
        for (id, old) in before {
            if let Some(new) = self.tables.task(id)
                && (new.status.state < old.status.state || new.desired < old.desired)
            {
                self.broken.push(format!(
                    "task {id} went back from {:?} to {:?}",
                    old.status.state, new.status.state
                ));
            }
        }
        let outcomes = ticket
            .filter(|(leadership, _)| *leadership == self.leadership)
            .map(|(_, ticket)| ticket)
            .into_iter()
            .zip(applied.results)
            .collect();
        let input =
            Input::Applied { tables: Arc::new(self.tables.clone()), events: applied.events, outcomes };
        self.after(Span::ZERO, Happening::Manager(self.leadership, input));
    }

    fn step(&mut self, input: Input) {
        let random = &mut self.random;
        let mut new_id = || random.id();
        let mut step = Step { now: self.now, new_id: &mut new_id };
        let effects = self.manager.step(input, &mut step);
        for effect in effects {
            match effect {
                Effect::Propose(ticket, set) => {
                    let ticket = Some((self.leadership, ticket));
                    self.after(Span::from_millis(1), Happening::Commit(ticket, set));
                }
                Effect::Send(conn, message) => {
                    let Some((node, life, connection)) = self.connections.get(&conn).copied() else {
                        continue;
                    };
                    let input = AgentInput::Message { connection, message };
                    self.after(Span::from_millis(1), Happening::Agent(node, life, input));
                }
                // Agents of this world say nothing that would be worth one.
                Effect::Note(text) => unreachable!("{text}"),
            }
        }
        if self.manager.has_work() {
            self.after(Span::ZERO, Happening::Tick(self.leadership));
        } else if let Some(wake) = self.manager.next_wake() {
            self.at(wake.max(self.now), Happening::Tick(self.leadership));
        }
    }

    fn agent_input(&mut self, node: NodeId, life: u64, input: AgentInput) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(&node).filter(|h| h.life == life) else { return };
        let wishes = host.input(now, input);
        let wake = host.next_wake();
        self.grant(node, wishes);
        if let Some(wake) = wake {
            self.at(wake.max(now), Happening::Wake(node, life));
        }
    }

    fn grant(&mut self, node: NodeId, wishes: Vec<Wish>) {
        let life = self.hosts[&node].life;
        for wish in wishes {
            match wish {
                Wish::Soon(span, input) => self.after(span, Happening::Agent(node, life, input)),
                Wish::Work(span, work) => self.after(span, Happening::Work(node, life, work)),
                Wish::Dial(connection, after) => self.dial(node, life, connection, after),
                Wish::Say(connection, message) => self.say(node, life, connection, message),
            }
        }
    }

    fn dial(&mut self, node: NodeId, life: u64, connection: u64, after: Span) {
        self.next_connection += 1;
        self.connections.insert(self.next_connection, (node, life, connection));
        self.after(after, Happening::Agent(node, life, AgentInput::Connected { connection }));
    }

    fn say(&mut self, node: NodeId, life: u64, connection: u64, message: model::sync::ToManager) {
        let found = self.connections.iter().rev().find(|(_, c)| **c == (node, life, connection));
        let Some(conn) = found.map(|(conn, _)| *conn) else { return };
        let input = Input::Agent { node, conn, address: "".into(), message };
        self.after(Span::from_millis(1), Happening::Manager(self.leadership, input));
    }

    /// What must hold once everything has had time to converge: for each replicated slot exactly one wanted task, which runs, on a
    /// machine that is there and that runs its program; and no program runs that nobody wants.
    pub fn check_converged(&self) -> Vec<Promise> {
        let mut broken = self.broken.clone();
        let mut wanted = BTreeMap::new();
        for service in self.tables.services() {
            if let model::Mode::Replicated { replicas } = service.mode {
                self.check_slots(service.id, replicas, &mut broken);
            }
        }
        for task in self.tables.tasks().filter(|t| t.fills_slot()) {
            if let Some(node) = task.node {
                wanted.insert((node, task.id.to_string()), task.status.state);
            }
        }
        for host in self.hosts.values() {
            for (task, _) in host.running() {
                if wanted.remove(&(host.node, task.to_string())).is_none() {
                    broken.push(format!("task {task} runs on {} and nobody wants it", host.node));
                }
            }
        }
        let left = wanted.iter().filter(|((node, _), _)| self.hosts.contains_key(node));
        broken
            .extend(left.map(|((node, task), state)| format!("task {task} does not run on {node}: {state}")));
        broken
    }

    fn check_slots(&self, service: ServiceId, replicas: u32, broken: &mut Vec<Promise>) {
        for number in 0..replicas {
            let slot = Slot::Number(number);
            let filling: Vec<_> =
                self.tables.tasks_of_slot(service, slot).filter(|t| t.fills_slot()).collect();
            let fine = filling.len() == 1 && filling[0].status.state == model::TaskState::Running;
            if !fine {
                let states: Vec<_> = filling.iter().map(|t| t.status.state).collect();
                broken.push(format!("slot {slot} of {service} has {states:?} instead of one running task"));
            }
        }
    }

    /// True when no machine has anything left.
    pub fn machines_are_empty(&self) -> bool {
        self.hosts.values().all(Host::is_empty)
    }
}

/// The tasks that a change set names, as they are now.
fn touched(set: &ChangeSet, tables: &Tables) -> BTreeMap<TaskId, Task> {
    let ids = set.changes.iter().filter_map(|change| match change {
        Change::ReportTask { task, .. }
        | Change::DirectTask { task, .. }
        | Change::AssignTask { task, .. }
        | Change::EndTask { task, .. } => Some(*task),
        _ => None,
    });
    ids.filter_map(|id| tables.task(id).map(|t| (id, Task::clone(t)))).collect()
}

fn member(number: u32) -> Node {
    Node {
        id: NodeId::from_u128(number.into()),
        meta: Meta::default(),
        role: Role::Worker,
        availability: Availability::Active,
        labels: Labels::new(),
        description: Arc::new(Host::description(&format!("host-{number}"))),
        status: NodeStatus::default(),
    }
}
