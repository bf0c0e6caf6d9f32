//! Random change sets against a store that is as simple as can be: maps of objects, everything else worked out anew each time.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use common::*;
use model::{
    BoundPort, Desired, Mode, Mount, NodeId, NodeState, NodeStatus, Protocol, Resources, RevisionId, Rule,
    Service, ServiceId, Sharing, Slot, Task, TaskId, TaskState, Time, Volume,
};
use proptest::prelude::*;
use store::codec::{digest, read_snapshot, write_snapshot};
use store::{
    Action, Change, ChangeSet, Entry, EventId, EventLog, FEATURE_LEVEL, NodeUse, Object, ObjectId, Rollout,
    ServiceUse, Table, Tables,
};

const IDS: u32 = 12;
const NODES: u32 = 4;
const SERVICES: u32 = 3;

/// What a random change is made from; small numbers, so that they meet.
type Seed = (u8, u8, u8, u8);

/// A node with a volume that one task writes to.
fn offering(n: u32) -> model::Node {
    let mut node = node(n);
    let sharing = Sharing::OneWriter;
    let volume = Volume { path: "/d".into(), read_only: false, sharing };
    Arc::make_mut(&mut node.description).volumes.insert("data".into(), volume);
    node
}

/// A revision; the second of each service writes to the volume, the third reads from it.
fn using(n: u32, service: u32, reserve: Resources) -> model::Revision {
    let mut revision = revision(n, service, reserve);
    if n % 10 > 1 {
        let mounts = vec![Mount { volume: "data".into(), read_only: n % 10 == 3 }];
        Arc::make_mut(&mut revision.task).mounts = mounts;
    }
    revision
}

/// A change from a seed. Most fit the state more often than not; the others are there to be refused.
fn change((kind, a, b, c): Seed) -> Vec<Change> {
    let task = 1 + u32::from(a) % IDS;
    let node = 1 + u32::from(b) % NODES;
    let service = 1 + u32::from(b) % SERVICES;
    // Three revisions a service, numbered so that each knows its own.
    let revision_no = 1 + u32::from(c) % 3;
    let of = |service: u32, n: u32| service * 10 + n;
    let desired = Desired::ALL[usize::from(c) % 5];
    let state = TaskState::ALL[2 + usize::from(c) % 10];
    match kind % 22 {
        0..=3 => vec![create_task(task, service, u32::from(c) % 2, of(service, revision_no))],
        4 => vec![Change::CreateTask {
            id: task_id(task),
            service: service_id(service),
            slot: Slot::Node(node_id(1 + u32::from(c) % NODES)),
            revision: revision_id(of(service, 1)),
            node: Some(node_id(1 + u32::from(c) % NODES)),
            desired: if a % 2 == 0 { Desired::Ready } else { Desired::Running },
            start_after: (a % 2 == 0).then_some(Time(i64::from(b))),
        }],
        5..=7 => vec![assign(task, node)],
        8 => vec![assign_port(task, node, 1 + u16::from(c) % 3)],
        9 | 10 => vec![direct(task, desired)],
        11..=13 => vec![report(task, node, state)],
        14 => vec![end(task, if c % 2 == 0 { TaskState::Shutdown } else { TaskState::Orphaned })],
        15 | 16 => vec![Change::DeleteTask(task_id(task))],
        17 => vec![Change::CreateNode(offering(node))],
        18 if c % 4 == 0 => vec![Change::DeleteNode(node_id(node))],
        18 => vec![Change::SetNodeStatus {
            node: node_id(node),
            status: NodeStatus { state: NodeState::Down, ..NodeStatus::default() },
        }],
        19 => vec![
            Change::CreateRevision(using(of(service, revision_no), service, reserve(i64::from(c), 1))),
            Change::CreateService(Box::new(common::service(service, "s", of(service, revision_no)))),
        ],
        20 => {
            let number = of(service, revision_no);
            let mut updated = common::service(service, &format!("name-{service}"), number);
            updated.previous = (c % 2 == 0).then_some(revision_id(of(service, 1)));
            match b % 8 {
                0..3 => updated.mode = Mode::Global,
                3 | 4 => updated.mode = Mode::Batch { completions: 4, concurrency: 2 },
                5 => updated.mode = Mode::GlobalBatch,
                _ => {}
            }
            let make = Change::CreateRevision(using(number, service, reserve(i64::from(b), 2)));
            if c % 3 == 0 {
                vec![Change::UpdateService(Box::new(updated))]
            } else {
                vec![make, Change::UpdateService(Box::new(updated))]
            }
        }
        _ if c % 3 == 0 => vec![Change::DeleteService(service_id(service))],
        _ => vec![
            Change::Decide {
                service: service_id(service),
                rule: Rule::ScaleUp,
                task: None,
                text: c.to_string().into(),
            },
            Change::ExplainTasks {
                tasks: vec![task_id(task)],
                unplaced: (b % 2 == 0).then(Default::default),
            },
        ],
    }
}

/// The name that `CreateService` uses must be each service's own.
fn named(changes: Vec<Change>) -> Vec<Change> {
    let name = |mut change: Change| {
        if let Change::CreateService(service) = &mut change {
            service.name = format!("name-{}", service.id.0.as_u128() - 0x2000).into();
        }
        change
    };
    changes.into_iter().map(name).collect()
}

/// Everything that can be read of a node or service, worked out from the tasks alone.
#[derive(Debug, PartialEq, Default)]
struct NodeFacts {
    reserved: Resources,
    ports: Vec<(Protocol, u16, TaskId)>,
    users: Vec<(TaskId, bool)>,
    by_service: Vec<u32>,
    active: u32,
    failures: Vec<u32>,
}

fn node_facts(tables: &Tables, node: NodeId) -> NodeFacts {
    let mut facts = NodeFacts { by_service: vec![0; SERVICES as usize], ..NodeFacts::default() };
    for task in tables.tasks().filter(|t| t.node == Some(node) && t.holds_reservation()) {
        facts.active += 1;
        let spec = &tables.revision(task.revision).expect("kept by its task").task;
        facts.reserved.add(&spec.reservation());
        facts.users.extend(spec.mounts.iter().map(|mount| (task.id, mount.read_only)));
        if task.desired.is_wanted() {
            facts.by_service[(task.service.0.as_u128() - 0x2001) as usize] += 1;
        }
        facts
            .ports
            .extend(task.ports.iter().map(|BoundPort { protocol, port, .. }| (*protocol, *port, task.id)));
    }
    facts.ports.sort();
    facts.users.sort();
    let writers = facts.users.iter().filter(|(_, read_only)| !read_only).count();
    assert!(writers <= 1, "{writers} tasks write to the volume of {node}");
    let failed = |t: &&Arc<Task>| {
        matches!(t.status.state, TaskState::Failed | TaskState::Rejected) && matches!(t.slot, Slot::Number(_))
    };
    let count = |revision| {
        let of = |t: &&Arc<Task>| t.node == Some(node) && t.revision == revision;
        tables.tasks().filter(of).filter(failed).count() as u32
    };
    facts.failures = revisions().map(count).collect();
    facts
}

fn read_node_facts(tables: &Tables, node: NodeId) -> NodeFacts {
    let used: &NodeUse = tables.node_use(node);
    for (protocol, port, task) in used.ports() {
        assert_eq!(used.port_holder(protocol, port), Some(task));
    }
    NodeFacts {
        reserved: used.reserved().clone(),
        ports: used.ports().collect(),
        users: used.users_of("data").collect(),
        by_service: (1..=SERVICES).map(|n| used.tasks_of(service_id(n))).collect(),
        active: used.active(),
        failures: revisions().map(|id| tables.failures_on(id, node, Time(i64::MIN), u32::MAX)).collect(),
    }
}

#[derive(Debug, PartialEq, Default)]
struct ServiceFacts {
    by_state: Vec<u32>,
    by_revision: Vec<u32>,
    filled: u32,
    doubled: u32,
    total: u32,
    running: u32,
    first_empty: Vec<u32>,
    highest: Option<u32>,
    /// Of a batch service: slots done, given up and undecided, by revision.
    ends: Vec<(u32, u32, u32)>,
}

fn service_facts(tables: &Tables, service: ServiceId) -> ServiceFacts {
    let tasks: Vec<&Task> = tables.tasks().map(|t| &**t).filter(|t| t.service == service).collect();
    let count = |wanted: &dyn Fn(&Task) -> bool| tasks.iter().filter(|t| wanted(t)).count() as u32;
    let mut fills: BTreeMap<Slot, u32> = BTreeMap::new();
    for task in tasks.iter().filter(|t| t.fills_slot()) {
        *fills.entry(task.slot).or_default() += 1;
    }
    let numbers: BTreeSet<u32> =
        fills.keys().filter_map(|s| if let Slot::Number(n) = s { Some(*n) } else { None }).collect();
    ServiceFacts {
        by_state: TaskState::ALL.iter().map(|state| count(&|t| t.status.state == *state)).collect(),
        by_revision: revisions().map(|id| count(&|t| t.fills_slot() && t.revision == id)).collect(),
        filled: fills.len() as u32,
        doubled: fills.values().filter(|n| **n > 1).count() as u32,
        total: tasks.len() as u32,
        running: count(&|t| t.status.state == TaskState::Running && t.desired.is_wanted()),
        first_empty: (0..6).map(|from| (from..).find(|n| !numbers.contains(n)).unwrap_or(0)).collect(),
        highest: numbers.last().copied(),
        ends: revisions().map(|id| ends(tables, service, &tasks, id)).collect(),
    }
}

/// What ended tasks of a revision say of the slots of a batch service.
fn ends(tables: &Tables, service: ServiceId, tasks: &[&Task], revision: RevisionId) -> (u32, u32, u32) {
    if !tables.service(service).is_some_and(|s| s.mode.is_batch()) {
        return (0, 0, 0);
    }
    let ended =
        |t: &&&Task| t.revision == revision && t.status.state.is_ended() && t.desired != Desired::Remove;
    let slots = |wanted: &dyn Fn(&Task) -> bool| -> BTreeSet<Slot> {
        tasks.iter().filter(ended).filter(|t| wanted(t)).map(|t| t.slot).collect()
    };
    let complete = |t: &Task| t.status.state == TaskState::Complete;
    let done = slots(&complete);
    let given_up = slots(&|t| t.desired == Desired::Complete);
    let open = slots(&|t| !complete(t) && t.desired < Desired::Complete);
    (done.len() as u32, given_up.difference(&done).count() as u32, open.len() as u32)
}

fn revisions() -> impl Iterator<Item = RevisionId> {
    (1..=SERVICES).flat_map(|service| (1..=3).map(move |n| revision_id(service * 10 + n)))
}

fn read_service_facts(used: &ServiceUse) -> ServiceFacts {
    ServiceFacts {
        by_state: TaskState::ALL.iter().map(|state| used.by_state(*state)).collect(),
        by_revision: revisions().map(|id| used.by_revision(id)).collect(),
        filled: used.filled(),
        doubled: used.doubled(),
        total: used.total(),
        running: used.running(),
        first_empty: (0..6).map(|from| used.first_empty(from)).collect(),
        highest: used.highest_filled(),
        ends: revisions().map(|id| (used.done(id), used.given_up(id), used.undecided(id))).collect(),
    }
}

fn ids<'a>(tasks: impl Iterator<Item = &'a Arc<Task>>) -> Vec<TaskId> {
    tasks.map(|t| t.id).collect()
}

/// The tasks that a condition picks, in the order of a key.
fn sorted<K: Ord>(tables: &Tables, wanted: impl Fn(&Task) -> bool, key: impl Fn(&Task) -> K) -> Vec<TaskId> {
    let mut tasks: Vec<&Task> = tables.tasks().map(|t| &**t).filter(|t| wanted(t)).collect();
    tasks.sort_by_key(|t| key(t));
    tasks.iter().map(|t| t.id).collect()
}

/// Where a slot stands, and since when.
type Stands = BTreeMap<Slot, (&'static str, i64)>;

/// How far the slots of a service are with its revision, slot by slot.
fn rollout_facts(tables: &Tables, service: &Service) -> Option<Stands> {
    let status = service.update_status.as_ref();
    let of_other =
        |t: &Arc<Task>| t.service == service.id && t.fills_slot() && t.revision != service.revision;
    let active = status.is_some_and(|s| s.state.is_active());
    let kept = !service.tries_canaries() && (active || tables.tasks().any(of_other));
    if service.mode.is_batch() || !kept {
        return None;
    }
    let mut facts = BTreeMap::new();
    for slot in (0..9).map(Slot::Number).chain((1..=NODES).map(|n| Slot::Node(node_id(n)))) {
        let takes_part = match (slot, service.mode) {
            (Slot::Number(n), Mode::Replicated { replicas }) => n < replicas,
            (Slot::Node(id), Mode::Global) => {
                tables.node(id).is_some_and(|n| n.takes_tasks() && tables.is_settled(n.meta.modified))
            }
            _ => false,
        };
        let tasks: Vec<&Task> = tables.tasks_of_slot(service.id, slot).map(|t| &**t).collect();
        if takes_part && let Some(stands) = stands(tables, service, &tasks) {
            facts.insert(slot, stands);
        }
    }
    Some(facts)
}

fn stands(tables: &Tables, service: &Service, tasks: &[&Task]) -> Option<(&'static str, i64)> {
    let began = service.update_status.as_ref().map_or(0, |s| s.began);
    let is_new = |t: &Task| t.revision == service.revision && t.created > began;
    let new = tasks.iter().filter(|t| is_new(t)).count();
    let held = tasks.iter().filter(|t| t.holds_reservation()).count();
    let filling: Vec<&&Task> = tasks.iter().filter(|t| t.fills_slot()).collect();
    let stands = match (&filling[..], new) {
        _ if tasks.is_empty() => return None,
        // In flight.
        _ if tasks.iter().any(|t| !tables.is_settled(t.modified)) => ("apart", 0),
        ([one], 1) if is_new(one) => match one.status.state {
            TaskState::New | TaskState::Pending => ("waiting", one.created_at.0),
            TaskState::Running if held == 1 => ("running", one.status.applied_at.0),
            TaskState::Running => ("apart", 0),
            _ => ("starting", one.status.applied_at.0),
        },
        ([one], 0) if one.revision == service.revision => return None,
        ([one], 0) if one.desired == Desired::Running && one.status.state == TaskState::Running => {
            ("outdated", 0)
        }
        ([_], 0) => ("idle", 0),
        _ => ("apart", 0),
    };
    Some(stands)
}

fn read_rollout(rollout: &Rollout) -> Stands {
    let mut facts = BTreeMap::new();
    for (stands, slots) in [
        ("idle", rollout.idle().collect::<Vec<_>>()),
        ("outdated", rollout.outdated().collect()),
        ("apart", rollout.apart().collect()),
    ] {
        facts.extend(slots.into_iter().map(|slot| (slot, (stands, 0))));
    }
    for (stands, moments) in
        [("waiting", rollout.waiting()), ("starting", rollout.starting()), ("running", rollout.running())]
    {
        let mut at = moments.first();
        while let Some(now) = at {
            let before: BTreeSet<Slot> = moments.up_to(Time(now.0 - 1)).collect();
            let here = moments.up_to(now).filter(|slot| !before.contains(slot));
            facts.extend(here.map(|slot| (slot, (stands, now.0))));
            at = moments.first_after(now);
        }
        assert_eq!(moments.count_after(Time(i64::MIN), usize::MAX), moments.len());
    }
    facts
}

/// Every index and derived table says what follows from the objects.
fn check(tables: &Tables) {
    let mut load = Vec::new();
    for n in 1..=NODES {
        let node = node_id(n);
        let facts = node_facts(tables, node);
        if tables.node(node).is_some() {
            load.push((facts.active, node));
        } else {
            assert_eq!(facts.active, 0, "a removed node holds nothing");
        }
        assert_eq!(read_node_facts(tables, node), facts, "node {n}");
        assert_eq!(ids(tables.tasks_of_node(node)), sorted(tables, |t| t.node == Some(node), |t| t.id));
    }
    load.sort();
    assert!(tables.nodes_by_load().eq(load.into_iter().map(|(_, node)| node)));
    assert_eq!(tables.nodes().count(), tables.node_count());
    let age = |t: &Task| (t.slot, t.created, t.id);
    for n in 1..=SERVICES {
        let service = service_id(n);
        assert_eq!(
            read_service_facts(tables.service_use(service)),
            service_facts(tables, service),
            "service {n}"
        );
        assert_eq!(ids(tables.tasks_of_service(service)), sorted(tables, |t| t.service == service, age));
        for revision in revisions() {
            let over = |t: &Task| {
                t.revision == revision && t.desired == Desired::Complete && t.status.state.is_ended()
            };
            let taken =
                |n: u32| tables.tasks_of_slot(service, Slot::Number(n)).any(|t| t.fills_slot() || over(t));
            let vacant = (0..).find(|n| !taken(*n)).unwrap_or(0);
            assert_eq!(tables.service_use(service).first_vacant(revision, 0), vacant, "service {n}");
        }
        let facts = tables.service(service).and_then(|service| rollout_facts(tables, service));
        assert_eq!(tables.rollout(service).map(read_rollout), facts, "service {n}");
        let slots = (0..5).map(Slot::Number).chain((1..=NODES).map(|n| Slot::Node(node_id(n))));
        for slot in slots {
            let of_slot = sorted(tables, |t| t.service == service && t.slot == slot, age);
            assert_eq!(ids(tables.tasks_of_slot(service, slot)), of_slot);
        }
    }
    let global = tables.services().filter(|s| s.mode.is_global());
    assert!(tables.global_services().map(|s| s.id).eq(global.map(|s| s.id)));
    let with_tasks: BTreeSet<ServiceId> = tables.tasks().map(|t| t.service).collect();
    assert!(tables.services_with_tasks().eq(with_tasks));
    let turn = |t: &Task| (t.service, t.revision, t.created, t.slot, t.id);
    assert_eq!(ids(tables.tasks_waiting()), sorted(tables, Task::waits_for_node, turn));
    let mut groups: BTreeMap<_, u64> = BTreeMap::new();
    for task in tables.tasks().filter(|t| t.waits_for_node()) {
        let oldest = groups.entry((task.service, task.revision)).or_insert(task.created);
        *oldest = task.created.min(*oldest);
    }
    assert!(tables.waiting_groups().eq(groups.into_iter().map(|((s, r), oldest)| (s, r, oldest))));
    let delayed =
        |t: &Task| t.desired == Desired::Ready && t.start_after.is_some() && !t.status.state.is_ended();
    let order = |t: &Task| (t.start_after, t.id);
    let in_order: Vec<TaskId> = tables.tasks_delayed().map(|(_, id)| id).collect();
    assert_eq!(in_order, sorted(tables, delayed, order));
    let referred: BTreeSet<RevisionId> =
        (tables.services().flat_map(|s| Some(s.revision).into_iter().chain(s.previous)))
            .chain(tables.tasks().map(|t| t.revision))
            .collect();
    assert!(revisions().all(|id| tables.revision(id).is_some() == referred.contains(&id)));
}

/// The indexes that are more than a function of the objects, and the events, kept by hand.
#[derive(Default)]
struct Followed {
    tables: BTreeMap<Table, u64>,
    node_tasks: BTreeMap<NodeId, u64>,
    services: BTreeMap<ServiceId, u64>,
}

impl Followed {
    /// What one accepted change set does to them, from the tables before and after it.
    fn follow(&mut self, before: &Tables, after: &Tables, index: u64) {
        let differs = |object: ObjectId| match object {
            ObjectId::Task(id) => before.task(id) != after.task(id),
            ObjectId::Node(id) => before.node(id) != after.node(id),
            ObjectId::Service(id) => before.service(id) != after.service(id),
            _ => false,
        };
        for n in 1..=IDS {
            let id = task_id(n);
            if !differs(ObjectId::Task(id)) {
                continue;
            }
            self.tables.insert(Table::Tasks, index);
            let (old, new) = (before.task(id), after.task(id));
            for task in [old, new].into_iter().flatten() {
                self.services.insert(task.service, index);
            }
            if new.is_none_or(|new| new.directed == index) {
                for task in [old, new].into_iter().flatten() {
                    if let Some(node) = task.node {
                        self.node_tasks.insert(node, index);
                    }
                }
            }
        }
        for n in 1..=NODES {
            if differs(ObjectId::Node(node_id(n))) {
                self.tables.insert(Table::Nodes, index);
            }
            let node = node_id(n);
            if after.node(node).is_none() && after.tasks_of_node(node).next().is_none() {
                self.node_tasks.remove(&node);
            }
        }
        for n in 1..=SERVICES {
            let service = service_id(n);
            if differs(ObjectId::Service(service)) {
                self.tables.insert(Table::Services, index);
                self.services.insert(service, index);
            }
            if after.service(service).is_none() && after.tasks_of_service(service).next().is_none() {
                self.services.remove(&service);
            }
        }
    }

    fn check(&self, tables: &Tables) {
        for table in [Table::Nodes, Table::Services, Table::Tasks] {
            assert_eq!(tables.table_index(table), self.tables.get(&table).copied().unwrap_or(0), "{table:?}");
        }
        for n in 1..=NODES {
            let followed = self.node_tasks.get(&node_id(n)).copied().unwrap_or(0);
            assert_eq!(tables.node_tasks_index(node_id(n)), followed, "node {n}");
        }
        for n in 1..=SERVICES {
            let followed = self.services.get(&service_id(n)).copied().unwrap_or(0);
            assert_eq!(tables.service_index(service_id(n)), followed, "service {n}");
        }
    }
}

/// The objects of which events tell, by id.
type Seen = BTreeMap<ObjectId, Object>;

fn observe(tables: &Tables) -> Seen {
    let nodes = tables.nodes().map(|o| (ObjectId::Node(o.id), Object::Node(o.clone())));
    let services = tables.services().map(|o| (ObjectId::Service(o.id), Object::Service(o.clone())));
    let tasks = tables.tasks().map(|o| (ObjectId::Task(o.id), Object::Task(o.clone())));
    nodes.chain(services).chain(tasks).collect()
}

/// Plays events on what was seen.
fn play(seen: &mut Seen, events: &[store::Event]) {
    for event in events {
        let id = match &event.object {
            Object::Node(o) => ObjectId::Node(o.id),
            Object::Service(o) => ObjectId::Service(o.id),
            Object::Task(o) => ObjectId::Task(o.id),
            other => panic!("nothing changes {other:?}"),
        };
        let known = seen.contains_key(&id);
        match event.action {
            Action::Created => assert!(!known, "{id:?} was not there"),
            Action::Updated | Action::Deleted => assert!(known, "{id:?} was there"),
        }
        let before = (event.action == Action::Updated).then(|| seen[&id].clone());
        assert_eq!(event.before, before, "what it was");
        if event.action == Action::Deleted {
            seen.remove(&id);
        } else {
            seen.insert(id, event.object.clone());
        }
    }
}

fn restored(tables: &Tables) -> Tables {
    let mut bytes = Vec::new();
    write_snapshot(tables, &mut bytes).expect("a snapshot of committed tables");
    read_snapshot(&mut bytes.as_slice()).expect("what was written can be read")
}

fn seeds() -> impl Strategy<Value = Vec<Vec<Vec<Seed>>>> {
    let set = proptest::collection::vec(any::<Seed>(), 1..5);
    let entry = proptest::collection::vec(set, 1..4);
    proptest::collection::vec(entry, 1..40)
}

fn run(entries: Vec<Vec<Vec<Seed>>>) {
    let mut tables = Tables::new();
    let mut followed = Followed::default();
    let mut log = EventLog::starting_at(0);
    let mut all = Vec::new();
    let mut snapshots: Vec<(Tables, u32)> = Vec::new();
    // A third of a cluster to begin with.
    let mut first: Vec<Vec<Change>> = (1..=2).map(|n| vec![Change::CreateNode(offering(n))]).collect();
    first.push(named(change((19, 0, 0, 0))));
    let random = entries
        .into_iter()
        .map(|sets| sets.into_iter().map(|set| named(set.into_iter().flat_map(change).collect())).collect());
    for (n, sets) in std::iter::once(first).chain(random).enumerate() {
        // Indexes rise with gaps: some entries of the log are not the store's.
        let index = 3 * n as u64 + 1;
        let before = tables.clone();
        let sum = digest(&before);
        // Set by set on copies, to see what each does by itself.
        let mut so_far = before.clone();
        let mut expected = Vec::new();
        for at in 0..sets.len() {
            let mut after = before.clone();
            let up_to = sets[..=at].iter().cloned().map(ChangeSet::of).collect();
            let result = after.apply(index, &Entry { sets: up_to, ..entry_at(n) }).results.remove(at);
            let mut view = so_far.clone();
            let speculated = view.speculate(&ChangeSet::of(sets[at].clone()), Time(n as i64));
            assert_eq!(speculated, result, "laying over and applying agree");
            check(&view);
            if result.is_ok() {
                followed.follow(&so_far, &after, index);
            } else {
                assert_eq!(observe(&after), observe(&so_far), "what is refused leaves no trace");
                assert_eq!(observe(&view), observe(&so_far), "what is refused leaves no trace");
            }
            check(&after);
            followed.check(&after);
            so_far = after;
            expected.push(result.is_ok());
        }
        let entry = Entry { sets: sets.iter().cloned().map(ChangeSet::of).collect(), ..entry_at(n) };
        let applied = tables.apply(index, &entry);
        assert_eq!(applied.results.iter().map(Result::is_ok).collect::<Vec<_>>(), expected);
        assert_eq!(digest(&before), sum, "a snapshot never changes");
        check(&tables);
        followed.check(&tables);
        for (at, event) in applied.events.iter().enumerate() {
            assert_eq!(event.id, EventId { index, ordinal: at as u32 });
        }
        log.push(&applied.events, &tables);
        all.extend(applied.events);
        if n % 5 == 0 {
            let read = restored(&tables);
            check(&read);
            followed.check(&read);
            assert_eq!(digest(&read), digest(&tables));
            // From here on with what was read, as a manager that has just started.
            tables = read;
            snapshots.push((tables.clone(), digest(&tables)));
        }
    }
    // Whoever took a snapshot and then reads events from its index on misses nothing and sees nothing twice.
    for (snapshot, sum) in snapshots {
        assert_eq!(digest(&snapshot), sum, "a snapshot never changes");
        let mut seen = observe(&snapshot);
        let position = EventId::end_of(snapshot.index());
        let kept = log.after(position, usize::MAX).expect("all are kept");
        let events = &all[all.partition_point(|e: &store::Event| e.id <= position)..];
        assert!(
            kept.iter().map(|e| (e.id, e.at, e.action)).eq(events.iter().map(|e| (e.id, e.at, e.action)))
        );
        play(&mut seen, events);
        assert_eq!(seen, observe(&tables));
    }
}

fn entry_at(n: usize) -> Entry {
    Entry { feature_level: FEATURE_LEVEL, time: Time(n as i64), sets: Vec::new() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn indexes_and_derived_tables_follow_from_the_objects(entries in seeds()) {
        run(entries);
    }
}
