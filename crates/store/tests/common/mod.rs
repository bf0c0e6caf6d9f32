//! A small world for tests of the store: short names for ids, and change sets in one line.

#![allow(dead_code)] // each test file uses its own part of it

use std::sync::Arc;

use model::{
    Availability, BoundPort, Cluster, ClusterId, Description, Desired, DriverKind, Id, Job, JobId, Labels,
    Meta, Mode, Namespace, NamespaceId, Node, NodeId, NodeState, NodeStatus, ProgramSpec, ProgramState,
    ProgramStatus, Protocol, Resources, Revision, RevisionId, Role, Service, ServiceId, Slot, Task, TaskId,
    TaskSpec, TaskState, Time, UpdatePolicy,
};
use store::{Applied, Change, ChangeSet, Entry, FEATURE_LEVEL, Refused, Tables};

pub fn node_id(n: u32) -> NodeId {
    NodeId(Id::from_u128(0x1000 + u128::from(n)))
}

pub fn service_id(n: u32) -> ServiceId {
    ServiceId(Id::from_u128(0x2000 + u128::from(n)))
}

pub fn revision_id(n: u32) -> RevisionId {
    RevisionId(Id::from_u128(0x3000 + u128::from(n)))
}

pub fn task_id(n: u32) -> TaskId {
    TaskId(Id::from_u128(0x4000 + u128::from(n)))
}

pub fn job_id(n: u32) -> JobId {
    JobId(Id::from_u128(0x5000 + u128::from(n)))
}

pub fn namespace_id(n: u32) -> NamespaceId {
    NamespaceId(Id::from_u128(0x6000 + u128::from(n)))
}

pub fn cluster(name: &str) -> Cluster {
    Cluster::new(ClusterId(Id::from_u128(0x7000)), name)
}

pub fn namespace(n: u32, name: &str) -> Namespace {
    Namespace { id: namespace_id(n), meta: Meta::default(), name: name.into(), description: "".into() }
}

pub fn job(n: u32, name: &str) -> Job {
    Job {
        id: job_id(n),
        meta: Meta::default(),
        namespace: NamespaceId::DEFAULT,
        name: name.into(),
        labels: Labels::new(),
        number: 1,
        source: "services: {}".into(),
        priority: 50,
    }
}

pub fn node(n: u32) -> Node {
    Node {
        id: node_id(n),
        meta: Meta::default(),
        role: Role::Worker,
        availability: Availability::Active,
        drain_until: None,
        labels: Labels::new(),
        description: Arc::new(Description {
            hostname: format!("host-{n}").into(),
            resources: reserve(1_000_000_000_000_000, 1 << 50),
            ..Description::default()
        }),
        status: NodeStatus { state: NodeState::Ready, ..NodeStatus::default() },
    }
}

pub fn reserve(nano_cpus: i64, memory: i64) -> Resources {
    Resources { nano_cpus, memory, ..Resources::default() }
}

pub fn revision(n: u32, service: u32, reserve: Resources) -> Revision {
    let mut program = ProgramSpec::new(DriverKind::Mock, vec![]);
    program.reserve = reserve;
    Revision {
        id: revision_id(n),
        service: service_id(service),
        number: u64::from(n),
        created_at: Time::ZERO,
        created: 0,
        task: Arc::new(TaskSpec { programs: vec![program], ..TaskSpec::default() }),
    }
}

pub fn service(n: u32, name: &str, revision: u32) -> Service {
    Service {
        id: service_id(n),
        meta: Meta::default(),
        namespace: NamespaceId::DEFAULT,
        job: None,
        name: name.into(),
        labels: Labels::new(),
        mode: Mode::Replicated { replicas: 3 },
        update: UpdatePolicy::default(),
        rollback: UpdatePolicy::default(),
        revision: revision_id(revision),
        previous: None,
        update_status: None,
        priority: 50,
        steering: Default::default(),
        disruption: Default::default(),
    }
}

pub fn create_task(n: u32, service: u32, slot: u32, revision: u32) -> Change {
    Change::CreateTask {
        id: task_id(n),
        service: service_id(service),
        slot: Slot::Number(slot),
        revision: revision_id(revision),
        node: None,
        desired: Desired::Running,
        start_after: None,
    }
}

pub fn assign(task: u32, node: u32) -> Change {
    Change::AssignTask {
        task: task_id(task),
        node: node_id(node),
        ports: Box::default(),
        named: Box::default(),
    }
}

pub fn assign_port(task: u32, node: u32, port: u16) -> Change {
    let port = BoundPort { name: "http".into(), protocol: Protocol::Tcp, port };
    Change::AssignTask {
        task: task_id(task),
        node: node_id(node),
        ports: [port].into(),
        named: Box::default(),
    }
}

pub fn direct(task: u32, desired: Desired) -> Change {
    Change::DirectTask { task: task_id(task), desired }
}

pub fn end(task: u32, state: TaskState) -> Change {
    Change::EndTask { task: task_id(task), state, message: "because".into() }
}

pub fn report(task: u32, node: u32, state: TaskState) -> Change {
    let program = ProgramStatus {
        name: "main".into(),
        state: if state.is_ended() { ProgramState::Dead } else { ProgramState::Running },
        ..ProgramStatus::default()
    };
    Change::ReportTask {
        task: task_id(task),
        node: node_id(node),
        state,
        at: Time(77),
        message: Some("said the agent".into()),
        programs: [program].into(),
    }
}

/// Tables with the index of the next entry; time is ten times the index.
pub struct World {
    pub tables: Tables,
}

impl World {
    pub fn new() -> Self {
        Self { tables: Tables::new() }
    }

    /// A world with nodes 1 to 3, and service 1 `web` at revision 1.
    pub fn furnished() -> Self {
        let mut world = Self::new();
        world.must(vec![Change::PutCluster(cluster("test"))]);
        world.must((1..=3).map(|n| Change::CreateNode(node(n))).collect());
        world.must(vec![
            Change::CreateRevision(revision(1, 1, reserve(10, 100))),
            Change::CreateService(Box::new(service(1, "web", 1))),
        ]);
        world
    }

    pub fn entry(&mut self, sets: Vec<ChangeSet>) -> Applied {
        let index = self.tables.index() + 1;
        let time = Time(i64::try_from(index).expect("a small index") * 10);
        self.tables.apply(index, &Entry { feature_level: FEATURE_LEVEL, time, sets })
    }

    pub fn try_set(&mut self, set: ChangeSet) -> Result<Applied, Refused> {
        let applied = self.entry(vec![set]);
        match applied.results[0].clone() {
            Ok(()) => Ok(applied),
            Err(refused) => Err(refused),
        }
    }

    pub fn try_apply(&mut self, changes: Vec<Change>) -> Result<Applied, Refused> {
        self.try_set(ChangeSet::of(changes))
    }

    pub fn must(&mut self, changes: Vec<Change>) -> Applied {
        self.try_apply(changes).expect("the change set is accepted")
    }

    pub fn task(&self, n: u32) -> &Task {
        self.tables.task(task_id(n)).expect("the task exists")
    }

    /// Task ids as the numbers they were made from.
    pub fn numbers<'a>(tasks: impl Iterator<Item = &'a Arc<Task>>) -> Vec<u32> {
        tasks.map(|t| u32::try_from(t.id.0.as_u128() - 0x4000).expect("an id of a test")).collect()
    }
}
