//! Bench of the store: what a task costs in memory, how fast entries are applied while snapshots are kept, and how fast the whole
//! state is written and read.
//!
//! The tables hold 10,000 nodes, 2,000 services and 1,000,000 tasks of one program each, without ports. Every change goes
//! through `Tables::apply` in entries of a thousand change sets with one change each, and its events are made and dropped: that
//! is what a manager's apply thread does. One thread, no log, no network; seconds are
//! those that the processor spent on it.

use std::io;
use std::sync::Arc;

use model::{
    Availability, Description, Desired, DriverKind, Labels, Meta, Mode, NamespaceId, Node, NodeId, NodeState,
    NodeStatus, ProgramEvent, ProgramSpec, ProgramState, ProgramStatus, Resources, Revision, RevisionId,
    Role, Service, ServiceId, Slot, TaskId, TaskSpec, TaskState, Time, UpdatePolicy, limits,
};
use store::codec::{decode_entry, encode_entry, read_snapshot, write_snapshot};
use store::{Change, ChangeSet, Entry, EventLog, FEATURE_LEVEL, Tables};

use crate::bench::{Figure, Row, Took};

/// The rows.
pub const ROWS: &[Row] = &[
    Row { name: "fill-1m", what: "1,000,000 tasks made, assigned and reported as running", measure: fill },
    Row {
        name: "update-1m",
        what: "updates of 1,000,000 tasks, no snapshot kept",
        measure: || update(usize::MAX, 1_000_000),
    },
    Row {
        name: "update-1m-100k",
        what: "updates of 1,000,000 tasks, a snapshot kept every 100,000",
        measure: || update(100_000, 1_000_000),
    },
    Row {
        name: "update-1m-1k",
        what: "updates of 1,000,000 tasks, a snapshot kept every 1,000",
        measure: || update(1_000, 1_000_000),
    },
    Row {
        name: "snapshot-1m",
        what: "the state of 1,000,000 tasks frozen, written and read",
        measure: || snapshot(1_000_000),
    },
    Row {
        name: "snapshot-100k",
        what: "the state of 100,000 tasks frozen, written and read",
        measure: || snapshot(100_000),
    },
    Row {
        name: "entries-1m",
        what: "entries as bytes decoded and applied to 1,000,000 tasks",
        measure: entries,
    },
    Row {
        name: "events",
        what: "a log of events filled by tasks that fail again and again, and a start that replays it",
        measure: events,
    },
];

const NODES: u32 = 10_000;
const SERVICES: u32 = 2_000;
const TASKS: u32 = 1_000_000;
/// Change sets in an entry.
const BATCH: usize = 1_000;

/// Ids that look as chance would make them, but are the same in each run.
fn id(kind: u32, number: u32) -> model::Id {
    let seed = u128::from(kind) << 32 | u128::from(number);
    let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let mixed = (mixed ^ (mixed >> 61)).wrapping_mul(0xbf58_476d_1ce4_e5b9_94d0_49bb_1331_11eb);
    model::Id::from_u128(mixed ^ (mixed >> 64))
}

fn node_of(task: u32) -> NodeId {
    NodeId(id(1, task.wrapping_mul(2_654_435_761) % NODES))
}

fn task_id(task: u32) -> TaskId {
    TaskId(id(4, task))
}

struct World {
    tables: Tables,
    index: u64,
    batch: Vec<ChangeSet>,
}

impl World {
    /// Nodes and services, no tasks.
    fn furnished() -> Self {
        let mut world = Self { tables: Tables::new(), index: 0, batch: Vec::new() };
        for number in 0..NODES {
            world.push(Change::CreateNode(node(number)));
        }
        for number in 0..SERVICES {
            let (service, revision) = service(number);
            let set = ChangeSet::of(vec![
                Change::CreateRevision(revision),
                Change::CreateService(Box::new(service)),
            ]);
            world.push_set(set);
        }
        world.flush();
        world
    }

    fn push(&mut self, change: Change) {
        self.push_set(ChangeSet::of(vec![change]));
    }

    fn push_set(&mut self, set: ChangeSet) {
        self.batch.push(set);
        if self.batch.len() == BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let entry = self.entry();
        self.apply(&entry);
    }

    fn entry(&mut self) -> Entry {
        let time = Time(self.index.cast_signed() * 1_000_000);
        Entry { feature_level: FEATURE_LEVEL, time, sets: std::mem::take(&mut self.batch) }
    }

    fn apply(&mut self, entry: &Entry) {
        self.index += 1;
        let applied = self.tables.apply(self.index, entry);
        if let Some(refused) = applied.results.into_iter().find_map(Result::err) {
            panic!("no change of a bench is refused: {refused}");
        }
    }

    /// Makes tasks, gives them nodes, and lets them run; says how many seconds each of the three took.
    fn fill(&mut self, tasks: u32) -> [f64; 3] {
        let steps: [fn(u32) -> Change; 3] = [create, assign, |task| report(task, TaskState::Running)];
        steps.map(|step| {
            let all = || {
                (0..tasks).for_each(|task| self.push(step(task)));
                self.flush();
            };
            timed(all).1
        })
    }
}

fn fill() -> Vec<Figure> {
    let mut world = World::furnished();
    let before = resident();
    eprintln!("making {TASKS} tasks");
    let [create, assign, report] = world.fill(TASKS);
    let bytes = resident() - before;
    let rate = |seconds: f64| f64::from(TASKS) / seconds;
    vec![
        Figure::new("bytes_per_task", bytes / f64::from(TASKS)),
        Figure::new("creates_per_s", rate(create)),
        Figure::new("assigns_per_s", rate(assign)),
        Figure::new("reports_per_s", rate(report)),
    ]
}

/// How many updates are measured.
const UPDATES: u32 = 1_000_000;

/// One update in four tells a task to end, one in ten gives a waiting one its node, the others report the next state of tasks
/// that start. No task is changed twice in a row, and the order is as good as random.
fn updates(tasks: u32) -> impl Iterator<Item = Change> {
    (0..UPDATES).map(move |n| {
        let task = scattered(n, tasks);
        match n % 20 {
            0 | 1 => assign(task),
            2..=6 => Change::DirectTask { task: task_id(task), desired: Desired::Shutdown },
            _ => report(task, TaskState::Starting),
        }
    })
}

/// A permutation of the tasks: neighbours in time are far apart in every table.
fn scattered(n: u32, tasks: u32) -> u32 {
    (u64::from(n) * 611_953 % u64::from(tasks)) as u32
}

/// Tables for [`updates`]: those tasks that it assigns wait, the others are prepared.
fn prepared(tasks: u32) -> World {
    eprintln!("making {tasks} tasks");
    let mut world = World::furnished();
    for task in 0..tasks {
        world.push(create(task));
    }
    for n in 0..tasks {
        let task = scattered(n, tasks);
        if n % 20 > 1 {
            world.push(assign(task));
        }
    }
    for n in 0..tasks {
        let task = scattered(n, tasks);
        if n % 20 > 1 {
            world.push(report(task, TaskState::Preparing));
        }
    }
    world.flush();
    world
}

fn update(keep_every: usize, tasks: u32) -> Vec<Figure> {
    let mut world = prepared(tasks);
    let changes: Vec<Change> = updates(tasks).collect();
    eprintln!("updating them {} times", changes.len());
    let mut kept = world.tables.clone();
    let mut since = 0;
    let all = || {
        for change in changes {
            world.push(change);
            since += 1;
            if since == keep_every {
                since = 0;
                kept = world.tables.clone();
            }
        }
        world.flush();
    };
    let ((), seconds) = timed(all);
    assert!(kept.index() <= world.tables.index());
    vec![Figure::new("updates_per_s", f64::from(UPDATES) / seconds)]
}

/// How often the tables are cloned to learn what a snapshot costs.
const CLONES: u32 = 1_000_000;

fn snapshot(tasks: u32) -> Vec<Figure> {
    eprintln!("making {tasks} tasks");
    let mut world = World::furnished();
    world.fill(tasks);
    let clone = |_| drop(std::hint::black_box(world.tables.clone()));
    let ((), seconds) = timed(|| (0..CLONES).for_each(clone));
    let clone_ns = seconds * 1e9 / f64::from(CLONES);

    eprintln!("writing and reading them");
    let mut bytes = Vec::new();
    write_snapshot(&world.tables, &mut bytes).expect("memory takes every byte");
    let (written, write) = timed(|| write_snapshot(&world.tables, &mut io::sink()));
    written.expect("a sink takes every byte");
    drop(world);
    let (read, seconds) = timed(|| read_snapshot(&mut bytes.as_slice()));
    let read = read.expect("what was written can be read");
    assert_eq!(read.tasks().count(), tasks as usize);
    let megabytes = bytes.len() as f64 / 1e6;
    vec![
        Figure::new("snapshot_ns", clone_ns),
        Figure::new("stored_bytes_per_task", bytes.len() as f64 / f64::from(tasks)),
        Figure::new("write_mb_per_s", megabytes / write),
        Figure::new("write_s", write),
        Figure::new("read_mb_per_s", megabytes / seconds),
        Figure::new("read_s", seconds),
    ]
}

fn entries() -> Vec<Figure> {
    let mut world = prepared(TASKS);
    let mut encoded: Vec<Vec<u8>> = Vec::new();
    for change in updates(TASKS) {
        world.batch.push(ChangeSet::of(vec![change]));
        if world.batch.len() == BATCH {
            encoded.push(encode_entry(&world.entry()));
        }
    }
    let bytes: usize = encoded.iter().map(Vec::len).sum();
    eprintln!("decoding and applying {} entries", encoded.len());
    let read = |bytes: &Vec<u8>| decode_entry(bytes).expect("what was written can be read");
    let ((), decode) = timed(|| encoded.iter().for_each(|bytes| drop(std::hint::black_box(read(bytes)))));
    let mut kept = world.tables.clone();
    let all = || {
        for bytes in &encoded {
            world.apply(&read(bytes));
            kept = world.tables.clone();
        }
    };
    let ((), both) = timed(all);
    assert_eq!(kept.index(), world.tables.index());
    vec![
        Figure::new("bytes_per_update", bytes as f64 / f64::from(UPDATES)),
        Figure::new("decoded_per_s", f64::from(UPDATES) / decode),
        Figure::new("decoded_and_applied_per_s", f64::from(UPDATES) / both),
    ]
}

/// Events that are kept in all.
const EVENTS: usize = limits::EVENTS_KEPT;
/// Slots in which tasks fail again and again.
const SLOTS: u32 = 100;

/// Entries as a crash loop makes them: in each slot in turn a task is made, placed, reported in five states, the last time
/// as failed, and forgotten. Each change is an event, and each entry has one, as when little happens at a time.
fn crash_loop(world: &mut World) -> Vec<Vec<u8>> {
    let steps: [fn(u32) -> Change; 8] = [
        create,
        assign,
        |task| report(task, TaskState::Accepted),
        |task| report(task, TaskState::Preparing),
        |task| report(task, TaskState::Starting),
        |task| report(task, TaskState::Running),
        failed,
        |task| Change::DeleteTask(task_id(task)),
    ];
    let mut entries = Vec::new();
    for n in 0..=EVENTS / (steps.len() * SLOTS as usize) {
        for step in steps {
            for slot in 0..SLOTS {
                world.batch.push(ChangeSet::of(vec![step(n as u32 * SLOTS + slot)]));
                entries.push(encode_entry(&world.entry()));
            }
        }
    }
    entries.truncate(EVENTS);
    entries
}

/// A task's end, with what an agent tells of a program by then.
fn failed(task: u32) -> Change {
    let Change::ReportTask { task, node, at, mut programs, .. } = report(task, TaskState::Running) else {
        unreachable!("a report is a report")
    };
    let event = |n: usize| ProgramEvent { at: Time(n as i64), message: format!("event {n} of it").into() };
    programs[0].events = (0..10).map(event).collect();
    let message = Some("program main exited with code 1".into());
    Change::ReportTask { task, node, state: TaskState::Failed, at, message, programs }
}

fn events() -> Vec<Figure> {
    let mut world = World::furnished();
    let entries = crash_loop(&mut world);
    let mut log = EventLog::starting_at(world.tables.index());
    let before = resident();
    let replay = || {
        for bytes in &entries {
            world.index += 1;
            let entry = decode_entry(bytes).expect("what was written can be read");
            let applied = world.tables.apply(world.index, &entry);
            assert_eq!(applied.events.len(), 1, "each entry is accepted and is one event");
            log.push(&applied.events, &world.tables);
        }
    };
    let ((), seconds) = timed(replay);
    let bytes = resident() - before;
    assert_eq!(log.after(log.oldest(), usize::MAX).map(|kept| kept.len()), Ok(EVENTS));
    vec![Figure::new("events_mb", bytes / 1e6), Figure::new("replay_s", seconds)]
}

fn create(task: u32) -> Change {
    let service = task % SERVICES;
    Change::CreateTask {
        id: task_id(task),
        service: ServiceId(id(2, service)),
        slot: Slot::Number(task / SERVICES),
        revision: RevisionId(id(3, service)),
        node: None,
        desired: Desired::Running,
        start_after: None,
    }
}

fn assign(task: u32) -> Change {
    Change::AssignTask {
        task: task_id(task),
        node: node_of(task),
        ports: Box::default(),
        named: Box::default(),
    }
}

fn report(task: u32, state: TaskState) -> Change {
    let program = ProgramStatus {
        name: "main".into(),
        state: if state == TaskState::Running { ProgramState::Running } else { ProgramState::Pending },
        pid: task,
        started_at: Time(1_700_000_000_000_000_000),
        ..ProgramStatus::default()
    };
    Change::ReportTask {
        task: task_id(task),
        node: node_of(task),
        state,
        at: Time(1_700_000_000_000_000_000),
        message: None,
        programs: [program].into(),
    }
}

fn node(number: u32) -> Node {
    Node {
        id: NodeId(id(1, number)),
        meta: Meta::default(),
        role: Role::Worker,
        availability: Availability::Active,
        drain_until: None,
        labels: Labels::new(),
        description: Arc::new(Description {
            hostname: format!("node-{number}").into(),
            resources: Resources { nano_cpus: 64_000_000_000, memory: 256 << 30, ..Resources::default() },
            ..Description::default()
        }),
        status: NodeStatus { state: NodeState::Ready, ..NodeStatus::default() },
    }
}

fn service(number: u32) -> (Service, Revision) {
    let (service, revision) = (ServiceId(id(2, number)), RevisionId(id(3, number)));
    let mut program = ProgramSpec::new(DriverKind::Exec, vec!["sleep".into(), "3600".into()]);
    program.reserve = Resources { nano_cpus: 1_000_000, memory: 16 << 20, ..Resources::default() };
    let of = Revision {
        id: revision,
        service,
        number: 1,
        created_at: Time::ZERO,
        created: 0,
        task: Arc::new(TaskSpec { programs: vec![program], ..TaskSpec::default() }),
    };
    let service = Service {
        id: service,
        meta: Meta::default(),
        namespace: NamespaceId::DEFAULT,
        job: None,
        name: format!("service-{number}").into(),
        labels: Labels::new(),
        mode: Mode::Replicated { replicas: TASKS / SERVICES },
        update: UpdatePolicy::default(),
        rollback: UpdatePolicy::default(),
        revision,
        previous: None,
        update_status: None,
        priority: 50,
        steering: Default::default(),
        disruption: Default::default(),
    };
    (service, of)
}

/// Does something, and the seconds of processor time that it took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let mut took = Took::default();
    let result = took.add(work);
    (result, took.cpu_s)
}

/// The resident memory of this process in bytes.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel tells of this process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.expect("VmRSS is a number of kB") * 1024.0
}
