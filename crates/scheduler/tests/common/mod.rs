//! A small world for tests of the scheduler: nodes and services in one line, ids from small numbers.

#![allow(dead_code)] // each test file uses its own part of it

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    Availability, Description, Desired, DriverInfo, DriverKind, Labels, Meta, Mode, NamespaceId, Node,
    NodeId, NodeState, NodeStatus, Platform, PortMode, PortSpec, ProgramSpec, Protocol, Resources, Revision,
    RevisionId, Role, Service, ServiceId, Slot, Steering, Task, TaskId, TaskSpec, TaskState, Time,
    UpdatePolicy,
};
use scheduler::{Limits, Placements, schedule};
use store::{Applied, Change, ChangeSet, Entry, FEATURE_LEVEL, Tables};

pub const GIB: i64 = 1 << 30;
pub const CPU: i64 = 1_000_000_000;

pub fn node_id(n: u32) -> NodeId {
    NodeId::from_u128(0x1000 + u128::from(n))
}

pub fn service_id(n: u32) -> ServiceId {
    ServiceId::from_u128(0x2000 + u128::from(n))
}

pub fn revision_id(service: u32, number: u32) -> RevisionId {
    RevisionId::from_u128(0x3000 + u128::from(service) * 0x100 + u128::from(number))
}

pub fn task_id(n: u32) -> TaskId {
    TaskId::from_u128(0x9_0000 + u128::from(n))
}

/// A ready node `n<number>` with 4 processors, 16 GiB and the drivers exec and mock.
pub fn node(n: u32) -> Node {
    Node {
        id: node_id(n),
        meta: Meta::default(),
        role: Role::Worker,
        availability: Availability::Active,
        drain_until: None,
        labels: Labels::new(),
        description: Arc::new(Description {
            hostname: format!("n{n}").into(),
            platform: Platform { os: "linux".into(), arch: "amd64".into() },
            resources: Resources { nano_cpus: 4 * CPU, memory: 16 * GIB, generic: BTreeMap::new() },
            drivers: vec![driver("exec", true), driver("mock", true)],
            ..Description::default()
        }),
        status: NodeStatus { state: NodeState::Ready, ..NodeStatus::default() },
    }
}

pub fn driver(name: &str, healthy: bool) -> DriverInfo {
    DriverInfo { name: name.into(), healthy, notes: Vec::new() }
}

/// A change to what a node is, for [`node`].
pub fn described(mut node: Node, change: impl FnOnce(&mut Description)) -> Node {
    change(Arc::make_mut(&mut node.description));
    node
}

pub fn labelled(mut node: Node, key: &str, value: &str) -> Node {
    node.labels.insert(key.into(), value.into());
    node
}

pub fn reserve(nano_cpus: i64, memory: i64) -> Resources {
    Resources { nano_cpus, memory, generic: BTreeMap::new() }
}

/// What a task runs: one program that reserves so much.
pub fn spec(reserve: Resources) -> TaskSpec {
    let mut program = ProgramSpec::new(DriverKind::Exec, vec!["sleep".into(), "1".into()]);
    program.reserve = reserve;
    TaskSpec { programs: vec![program], ..TaskSpec::default() }
}

/// A spec that reserves nothing.
pub fn light() -> TaskSpec {
    spec(Resources::default())
}

pub fn constrained(mut spec: TaskSpec, constraints: &[&str]) -> TaskSpec {
    spec.placement.constraints = constraints.iter().map(|c| c.parse().expect("a constraint")).collect();
    spec
}

pub fn at_most(mut spec: TaskSpec, max_replicas: u32) -> TaskSpec {
    spec.placement.max_replicas = max_replicas;
    spec
}

/// A spec with one more port; 0 leaves it open.
pub fn port(mut spec: TaskSpec, protocol: Protocol, published: u16) -> TaskSpec {
    let name = format!("p{}", spec.ports.len()).into();
    spec.ports.push(PortSpec { name, protocol, target: 0, published, mode: PortMode::Host });
    spec
}

/// Tables that entries are applied to, one index each.
#[derive(Clone)]
pub struct World {
    pub tables: Tables,
    next_task: u32,
    late: i64,
}

impl World {
    pub fn new(nodes: impl IntoIterator<Item = Node>) -> Self {
        let mut world = Self { tables: Tables::new(), next_task: 1, late: 0 };
        world.must(nodes.into_iter().map(Change::CreateNode).collect());
        world
    }

    pub fn entry(&mut self, sets: Vec<ChangeSet>) -> Applied {
        let index = self.tables.index() + 1;
        let time = Time(i64::try_from(index).expect("a small index") * 10 + self.late);
        self.tables.apply(index, &Entry { feature_level: FEATURE_LEVEL, time, sets })
    }

    pub fn must(&mut self, changes: Vec<Change>) -> Applied {
        let applied = self.entry(vec![ChangeSet::of(changes)]);
        assert_eq!(applied.results, [Ok(())]);
        applied
    }

    /// Makes service `n`, called `s<n>`, without tasks.
    pub fn service(&mut self, n: u32, spec: TaskSpec) {
        self.prioritised(n, spec, 50);
    }

    pub fn prioritised(&mut self, n: u32, spec: TaskSpec, priority: u8) {
        let service = Service {
            id: service_id(n),
            meta: Meta::default(),
            namespace: NamespaceId::DEFAULT,
            job: None,
            name: format!("s{n}").into(),
            labels: Labels::new(),
            mode: Mode::Replicated { replicas: 1 },
            update: UpdatePolicy::default(),
            rollback: UpdatePolicy::default(),
            revision: revision_id(n, 1),
            previous: None,
            update_status: None,
            priority,
            steering: Default::default(),
            disruption: Default::default(),
        };
        self.must(vec![
            Change::CreateRevision(revision(n, 1, spec)),
            Change::CreateService(Box::new(service)),
        ]);
    }

    /// Changes what service `n` wishes.
    pub fn steer(&mut self, n: u32, change: impl FnOnce(&mut Steering)) {
        let mut new = Service::clone(self.tables.service(service_id(n)).expect("the service is there"));
        change(&mut new.steering);
        self.must(vec![Change::UpdateService(Box::new(new))]);
    }

    /// Gives service `n` so many replicas, of which so many have to run.
    pub fn budget(&mut self, n: u32, replicas: u32, min_healthy: u32) {
        let mut new = Service::clone(self.tables.service(service_id(n)).expect("the service is there"));
        new.mode = Mode::Replicated { replicas };
        new.disruption.min_healthy = model::Amount::Count(min_healthy);
        self.must(vec![Change::UpdateService(Box::new(new))]);
    }

    /// Service `n` with preferences over node labels.
    pub fn prefer(&mut self, n: u32, labels: &[&str]) {
        let preference = |label: &&str| format!("node.labels.{label}").parse().expect("a key");
        self.steer(n, |s| s.preferences = labels.iter().map(preference).collect());
    }

    /// Tells a task to end.
    pub fn stop(&mut self, n: u32) {
        self.must(vec![Change::DirectTask { task: task_id(n), desired: Desired::Shutdown }]);
    }

    /// Lets so many nanoseconds pass.
    pub fn wait(&mut self, span: i64) {
        self.late += span;
        self.must(vec![]);
    }

    /// Gives service `n` its revision `number`; the one before stays known.
    pub fn update(&mut self, n: u32, number: u32, spec: TaskSpec) {
        let old = self.tables.service(service_id(n)).expect("the service is there");
        let mut new = Service::clone(old);
        new.previous = Some(new.revision);
        new.revision = revision_id(n, number);
        self.must(vec![
            Change::CreateRevision(revision(n, number, spec)),
            Change::UpdateService(Box::new(new)),
        ]);
    }

    /// Makes so many tasks of service `n`, in slots after those it has; their numbers.
    pub fn tasks(&mut self, n: u32, count: u32) -> Vec<u32> {
        let service = Arc::clone(self.tables.service(service_id(n)).expect("the service is there"));
        let first_slot = self.tables.tasks_of_service(service.id).count() as u32;
        let numbers: Vec<u32> = (self.next_task..self.next_task + count).collect();
        self.next_task += count;
        let changes = numbers.iter().zip(first_slot..);
        let changes = changes.map(|(task, slot)| create(*task, &service, Slot::Number(slot), None));
        self.must(changes.collect());
        numbers
    }

    /// Makes a task of service `n` for one node; its number.
    pub fn task_for(&mut self, n: u32, node: u32) -> u32 {
        let service = Arc::clone(self.tables.service(service_id(n)).expect("the service is there"));
        let task = self.next_task;
        self.next_task += 1;
        let node = node_id(node);
        self.must(vec![create(task, &service, Slot::Node(node), Some(node))]);
        task
    }

    /// Runs passes and applies their plans until nothing comes of it.
    pub fn settle(&mut self) {
        for _ in 0..1000 {
            let decided = schedule(&self.tables, &Limits::default());
            if decided.sets.is_empty() {
                return;
            }
            self.apply(decided);
        }
        panic!("the scheduler does not come to rest");
    }

    /// One pass, with its plans applied.
    pub fn pass(&mut self, limits: &Limits) -> Placements {
        let decided = schedule(&self.tables, limits);
        self.apply(decided.clone());
        decided
    }

    fn apply(&mut self, decided: Placements) {
        let applied = self.entry(decided.sets);
        assert!(applied.results.iter().all(Result::is_ok), "{:?}", applied.results);
    }

    pub fn task(&self, n: u32) -> &Task {
        self.tables.task(task_id(n)).expect("the task exists")
    }

    /// The number of the node a task is on.
    pub fn node_of(&self, n: u32) -> Option<u32> {
        self.task(n).node.map(|id| (id.0.as_u128() - 0x1000) as u32)
    }

    /// Why a task waits, as people read it.
    pub fn why(&self, n: u32) -> String {
        self.task(n).unplaced.as_ref().map_or_else(|| "no reason".into(), |why| why.to_string())
    }

    /// What the agent says.
    pub fn report(&mut self, n: u32, state: TaskState) {
        let node = self.task(n).node.expect("the task has a node");
        self.must(vec![Change::ReportTask {
            task: task_id(n),
            node,
            state,
            at: Time(1),
            message: None,
            programs: Box::default(),
        }]);
    }

    pub fn set_labels(&mut self, n: u32, labels: &[(&str, &str)]) {
        let node = self.tables.node(node_id(n)).expect("the node is there");
        let (role, availability) = (node.role, node.availability);
        let labels = labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        self.must(vec![Change::SetNode { node: node_id(n), role, availability, drain_until: None, labels }]);
    }

    pub fn set_availability(&mut self, n: u32, availability: Availability) {
        let node = self.tables.node(node_id(n)).expect("the node is there");
        let (role, labels) = (node.role, node.labels.clone());
        self.must(vec![Change::SetNode { node: node_id(n), role, availability, drain_until: None, labels }]);
    }

    pub fn describe(&mut self, n: u32, change: impl FnOnce(&mut Description)) {
        let node = self.tables.node(node_id(n)).expect("the node is there");
        let mut description = Description::clone(&node.description);
        change(&mut description);
        self.must(vec![Change::DescribeNode { node: node_id(n), description: Arc::new(description) }]);
    }

    /// How many tasks of service `n` hold each of the nodes, by node id.
    pub fn spread_of(&self, n: u32) -> Vec<u32> {
        self.tables.nodes().map(|node| self.tables.node_use(node.id).tasks_of(service_id(n))).collect()
    }

    /// The last decision about service `n`.
    pub fn said(&self, n: u32) -> String {
        let last = self.tables.decisions(service_id(n)).last();
        last.map_or_else(|| "nothing".into(), |decision| format!("{}: {}", decision.rule, decision.text))
    }
}

fn revision(n: u32, number: u32, spec: TaskSpec) -> Revision {
    Revision {
        id: revision_id(n, number),
        service: service_id(n),
        number: u64::from(number),
        created_at: Time::ZERO,
        created: 0,
        task: Arc::new(spec),
    }
}

pub fn create(task: u32, service: &Service, slot: Slot, node: Option<NodeId>) -> Change {
    Change::CreateTask {
        id: task_id(task),
        service: service.id,
        slot,
        revision: service.revision,
        node,
        desired: Desired::Running,
        start_after: None,
    }
}
