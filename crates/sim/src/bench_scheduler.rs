//! Bench of the scheduler: how long it takes to decide where tasks go, with the store's tables as they are in memory.
//!
//! A row fills tables with nodes, services and pending tasks, then runs passes with the limits that a manager uses, each over
//! what the plans before it left, until nothing waits. `decide_s` is the time inside `scheduler::schedule`;
//! `apply_s` that of `Tables::apply` for its plans; nothing else is in either. No log, no network, one thread.

use std::sync::Arc;

use model::{
    Availability, Description, DriverInfo, DriverKind, Labels, Meta, Mode, NamespaceId, Node, NodeId,
    NodeState, NodeStatus, Platform, ProgramSpec, Resources, Revision, RevisionId, Role, Service, ServiceId,
    Slot, TaskId, TaskSpec, Time, UpdatePolicy,
};
use scheduler::{Limits, schedule};
use store::{Change, ChangeSet, Entry, FEATURE_LEVEL, Tables};

use crate::bench::{Figure, Row, Took};

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        name: "1k-single-10k",
        what: "1,000 nodes, 10,000 services of one task",
        measure: || {
            measure(&Shape { nodes: 1_000, services: 10_000, replicas: 1, impossible: 0, asks: None })
        },
    },
    Row {
        name: "1k-one-10k",
        what: "1,000 nodes, one service of 10,000 tasks",
        measure: || {
            measure(&Shape { nodes: 1_000, services: 1, replicas: 10_000, impossible: 0, asks: None })
        },
    },
    Row {
        name: "1k-one-100k",
        what: "1,000 nodes, one service of 100,000 tasks",
        measure: || {
            measure(&Shape { nodes: 1_000, services: 1, replicas: 100_000, impossible: 0, asks: None })
        },
    },
    Row {
        name: "100k-one-1m",
        what: "100,000 nodes, one service of 1,000,000 tasks",
        measure: || {
            measure(&Shape { nodes: 100_000, services: 1, replicas: 1_000_000, impossible: 0, asks: None })
        },
    },
    Row {
        name: "100k-10k-services-1m",
        what: "100,000 nodes, 10,000 services of 100 tasks",
        measure: || {
            measure(&Shape { nodes: 100_000, services: 10_000, replicas: 100, impossible: 0, asks: None })
        },
    },
    Row {
        name: "1k-impossible-1k",
        what: "1,000 nodes, 1,000 services of one task that no node can take",
        measure: || measure(&Shape { nodes: 1_000, services: 0, replicas: 0, impossible: 1_000, asks: None }),
    },
    Row {
        name: "100k-version-10k",
        what: "100,000 nodes, 10 services of 1,000 tasks that ask for a version",
        measure: || {
            let asks = Some("node.labels.kernel version >= 5.4, < 6, != 5.10.7");
            measure(&Shape { nodes: 100_000, services: 10, replicas: 1_000, impossible: 0, asks })
        },
    },
];

/// What a row fills the tables with.
struct Shape {
    nodes: u32,
    services: u32,
    /// Tasks of each service.
    replicas: u32,
    /// Services of one task that reserves more than any node has.
    impossible: u32,
    /// What each service asks of its nodes.
    asks: Option<&'static str>,
}

/// Ids that look as chance would make them, but are the same in each run.
struct Ids(u128);

impl Ids {
    fn next(&mut self) -> u128 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let mixed = (self.0 ^ (self.0 >> 61)).wrapping_mul(0xbf58_476d_1ce4_e5b9_94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 64)
    }
}

fn measure(shape: &Shape) -> Vec<Figure> {
    let mut world = World { tables: Tables::new(), index: 0, ids: Ids(1) };
    world.fill(shape);
    let mut sum = Sum::default();
    while world.pass(&mut sum) {}
    assert_eq!(sum.placed as u64, u64::from(shape.services) * u64::from(shape.replicas), "all are placed");
    // What a pass costs when everything is said and nothing has changed.
    let mut idle_pass = Took::default();
    let idle = idle_pass.add(|| schedule(&world.tables, &Limits::default()));
    assert!(idle.sets.is_empty() && !idle.more, "a pass over the same state decides nothing");
    let placed = sum.placed as f64;
    let Sum { decide, apply, .. } = sum;
    vec![
        Figure::new("placed", placed),
        Figure::new("passes", f64::from(sum.passes)),
        Figure::new("decide_s", decide.wall_s),
        Figure::new("decide_cpu_s", decide.cpu_s),
        Figure::new("decisions_per_s", placed / decide.wall_s),
        Figure::new("decisions_per_cpu_s", placed / decide.cpu_s),
        Figure::new("apply_s", apply.wall_s),
        Figure::new("apply_cpu_s", apply.cpu_s),
        Figure::new("decided_and_applied_per_s", placed / (decide.wall_s + apply.wall_s)),
        Figure::new("idle_pass_s", idle_pass.wall_s),
        Figure::new("idle_pass_cpu_s", idle_pass.cpu_s),
    ]
}

#[derive(Default)]
struct Sum {
    placed: usize,
    passes: u32,
    decide: Took,
    apply: Took,
}

struct World {
    tables: Tables,
    index: u64,
    ids: Ids,
}

impl World {
    fn apply(&mut self, sets: Vec<ChangeSet>) {
        self.index += 1;
        let entry = Entry { feature_level: FEATURE_LEVEL, time: Time(self.index as i64), sets };
        let applied = self.tables.apply(self.index, &entry);
        if let Some(refused) = applied.results.into_iter().find_map(Result::err) {
            panic!("no change of a bench is refused: {refused}");
        }
    }

    /// Decides once and applies what was decided; false when that was nothing.
    fn pass(&mut self, sum: &mut Sum) -> bool {
        let decided = sum.decide.add(|| schedule(&self.tables, &Limits::default()));
        sum.passes += 1;
        sum.placed += decided.placed;
        if decided.sets.is_empty() {
            return false;
        }
        sum.apply.add(|| self.apply(decided.sets));
        true
    }

    fn fill(&mut self, shape: &Shape) {
        let mut changes: Vec<Change> = Vec::new();
        for number in 0..shape.nodes {
            let node = node(NodeId::from_u128(self.ids.next()), number);
            changes.push(Change::CreateNode(node));
        }
        for number in 0..shape.services + shape.impossible {
            let possible = number < shape.services;
            let memory = if possible { 16 << 20 } else { 1 << 50 };
            let (service, revision) = service(&mut self.ids, number, memory);
            let revision = shape.asks.map_or(revision.clone(), |asks| asking(revision, asks));
            let (id, of) = (service.id, revision.id);
            changes.extend([Change::CreateRevision(revision), Change::CreateService(Box::new(service))]);
            for slot in 0..if possible { shape.replicas } else { 1 } {
                changes.push(Change::CreateTask {
                    id: TaskId::from_u128(self.ids.next()),
                    service: id,
                    slot: Slot::Number(slot),
                    revision: of,
                    node: None,
                    desired: model::Desired::Running,
                    start_after: None,
                });
            }
            if changes.len() >= 10_000 {
                self.apply(vec![ChangeSet::of(std::mem::take(&mut changes))]);
            }
        }
        self.apply(vec![ChangeSet::of(changes)]);
    }
}

/// A node with room for some thousand of the bench's tasks.
fn node(id: NodeId, number: u32) -> Node {
    Node {
        id,
        meta: Meta::default(),
        role: Role::Worker,
        availability: Availability::Active,
        drain_until: None,
        labels: Labels::from([
            ("kernel".into(), ["5.4.0", "5.15.3", "4.19.1", "6.1.0-rc1"][number as usize % 4].into()),
            ("zone".into(), ["a", "b", "c"][number as usize % 3].into()),
        ]),
        description: Arc::new(Description {
            hostname: format!("node-{number}").into(),
            platform: Platform { os: "linux".into(), arch: "amd64".into() },
            resources: Resources {
                nano_cpus: 64_000_000_000,
                memory: 256 << 30,
                generic: std::collections::BTreeMap::new(),
            },
            volumes: Default::default(),
            named: std::collections::BTreeMap::new(),
            drivers: vec![DriverInfo { name: "exec".into(), healthy: true, notes: Vec::new() }],
            engine_labels: Labels::new(),
            version: "0.1.0".into(),
        }),
        status: NodeStatus { state: NodeState::Ready, ..NodeStatus::default() },
    }
}

/// A revision whose tasks ask this of their nodes.
fn asking(revision: Revision, asks: &str) -> Revision {
    let mut task = TaskSpec::clone(&revision.task);
    task.placement.constraints.push(asks.parse().expect("a bench asks for what can be asked"));
    Revision { task: Arc::new(task), ..revision }
}

/// A service whose tasks reserve a little of a processor and so much memory.
fn service(ids: &mut Ids, number: u32, memory: i64) -> (Service, Revision) {
    let (id, of) = (ServiceId::from_u128(ids.next()), RevisionId::from_u128(ids.next()));
    let mut program = ProgramSpec::new(DriverKind::Exec, vec!["sleep".into(), "3600".into()]);
    program.reserve = Resources { nano_cpus: 1_000_000, memory, ..Resources::default() };
    let revision = Revision {
        id: of,
        service: id,
        number: 1,
        created_at: Time::ZERO,
        created: 0,
        task: Arc::new(TaskSpec { programs: vec![program], ..TaskSpec::default() }),
    };
    let service = Service {
        id,
        meta: Meta::default(),
        namespace: NamespaceId::DEFAULT,
        job: None,
        name: format!("service-{number}").into(),
        labels: Labels::new(),
        mode: Mode::Replicated { replicas: 1 },
        update: UpdatePolicy::default(),
        rollback: UpdatePolicy::default(),
        revision: of,
        previous: None,
        update_status: None,
        priority: 50,
        steering: Default::default(),
        disruption: Default::default(),
    };
    (service, revision)
}
