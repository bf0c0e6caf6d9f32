//! What a look costs, counted in objects read: the same however many tasks the cluster has. Counted where assertions are checked.

#![cfg(debug_assertions)]

mod world;

use model::{Desired, Id, Mode, NodeState, Service, ServiceId, Slot, Task, TaskId, TaskState};
use orchestrator::{Cx, Key, Plan, keys_of, reconcile};
use store::{Change, ChangeSet, Entry, objects_read};
use world::{World, replicas, spec, with};

const NODES: usize = 50;

/// A cluster that rests: a service of so many replicas, and two of ten.
struct Crowd {
    world: World,
    large: ServiceId,
    small: ServiceId,
}

impl Crowd {
    fn of(tasks: u32) -> Self {
        let names: Vec<String> = (0..NODES).map(|n| format!("n{n}")).collect();
        let names: Vec<&str> = names.iter().map(|n| &**n).collect();
        let mut world = World::new(&names);
        world.sweeps = false;
        let large = world.create(replicas(tasks), spec("runs"));
        let small = world.create(replicas(10), spec("runs"));
        fill(&mut world, large, tasks, 1_000_000);
        fill(&mut world, small, 10, 2_000_000);
        assert_eq!((world.running(large), world.running(small)), (tasks, 10));
        Self { world, large, small }
    }

    /// What a look at a key reads, and what it plans.
    fn look(&self, key: Key) -> (u64, Plan) {
        let mut next = 5_000_000;
        let mut new_id = || {
            next += 1;
            Id::from_u128(next)
        };
        let before = objects_read();
        let plan = reconcile(&self.world.tables, key, &mut Cx { now: self.world.now, new_id: &mut new_id });
        (objects_read() - before, plan)
    }

    fn task(&self, service: ServiceId, slot: u32) -> Task {
        let task = self.world.filling(service, Slot::Number(slot));
        Task::clone(&task.expect("every slot is filled"))
    }

    /// The task of a slot ends, and nobody has looked yet.
    fn end(&mut self, service: ServiceId, slot: u32) {
        let task = self.task(service, slot);
        self.world.apply(vec![report(&task, TaskState::Failed)]);
    }
}

fn report(task: &Task, state: TaskState) -> Change {
    Change::ReportTask {
        task: task.id,
        node: task.node.expect("it has a node"),
        state,
        at: model::Time(1),
        message: None,
        programs: Box::default(),
    }
}

/// Fills the slots of a service with tasks that run, spread over the nodes.
fn fill(world: &mut World, service: ServiceId, tasks: u32, first_id: u128) {
    let nodes: Vec<_> = world.tables.nodes().map(|n| n.id).collect();
    let revision = world.tables.service(service).expect("it is there").revision;
    for n in 0..tasks {
        let id = TaskId::from_u128(first_id + u128::from(n));
        let node = nodes[n as usize % nodes.len()];
        let made = Change::CreateTask {
            id,
            service,
            slot: Slot::Number(n),
            revision,
            node: None,
            desired: Desired::Running,
            start_after: None,
        };
        let assigned = Change::AssignTask { task: id, node, ports: Box::default(), named: Box::default() };
        let running = Change::ReportTask {
            task: id,
            node,
            state: TaskState::Running,
            at: model::Time(1),
            message: None,
            programs: Box::default(),
        };
        world.apply(vec![made, assigned, running]);
    }
}

/// Half of the slots of the large service have been changed, one at a time, and have been watched for long enough; one is in change.
fn half_updated(c: &mut Crowd) {
    let update = model::UpdatePolicy { parallelism: 2, ..model::UpdatePolicy::default() };
    c.world.policies(c.large, update, model::UpdatePolicy::default());
    c.world.update(c.large, spec("runs"));
    let service = c.world.tables.service(c.large).expect("it is there").clone();
    let Mode::Replicated { replicas } = service.mode else { panic!("it is replicated") };
    for n in 0..=replicas / 2 {
        let old = c.task(c.large, n);
        let node = old.node.expect("it has a node");
        let id = TaskId::from_u128(3_000_000 + u128::from(n));
        let made = Change::CreateTask {
            id,
            service: c.large,
            slot: old.slot,
            revision: service.revision,
            node: None,
            desired: Desired::Running,
            start_after: None,
        };
        let shut = Change::DirectTask { task: old.id, desired: Desired::Shutdown };
        c.world.apply(vec![shut, report(&old, TaskState::Shutdown), made]);
        if n < replicas / 2 {
            let assigned =
                Change::AssignTask { task: id, node, ports: Box::default(), named: Box::default() };
            c.world.apply(vec![assigned]);
            let new = c.task(c.large, n);
            c.world.apply(vec![report(&new, TaskState::Running)]);
        }
    }
    c.world.now = c.world.now + model::Span::from_secs(30);
}

type Row = (&'static str, fn(&mut Crowd), fn(&Crowd) -> Key, u64, usize);

/// What happens, which key is looked at, how much may be read at most, and how many changes come of it at least.
const ROWS: &[Row] = &[
    ("a service as it shall be", |_| (), |c| Key::Service(c.large), 8, 0),
    ("a slot as it shall be", |_| (), |c| Key::Slot(c.large, 7), 8, 0),
    ("another service", |_| (), |c| Key::Service(c.small), 8, 0),
    ("a slot whose task ended", |c| c.end(c.large, 7), |c| Key::Slot(c.large, 7), 16, 2),
    ("the service of a task that ended", |c| c.end(c.large, 7), |c| Key::Service(c.large), 16, 2),
    ("five more replicas", |c| c.world.scale(c.small, 15), |c| Key::Service(c.small), 30, 5),
    (
        "five replicas more of the large one",
        |c| {
            let service = c.world.tables.service(c.large).expect("it is there").clone();
            let Mode::Replicated { replicas } = service.mode else { panic!("it is replicated") };
            c.world.scale(c.large, replicas + 5);
        },
        |c| Key::Service(c.large),
        30,
        5,
    ),
    (
        "two canaries of the large one",
        |c| {
            let update = model::UpdatePolicy { canary: 2, ..model::UpdatePolicy::default() };
            c.world.policies(c.large, update, model::UpdatePolicy::default());
            c.world.update(c.large, spec("runs"));
        },
        |c| Key::Service(c.large),
        30,
        2,
    ),
    (
        "the first step of an update of the large one",
        |c| {
            let update = model::UpdatePolicy { parallelism: 3, ..model::UpdatePolicy::default() };
            c.world.policies(c.large, update, model::UpdatePolicy::default());
            c.world.update(c.large, spec("runs"));
        },
        |c| Key::Service(c.large),
        60,
        7,
    ),
    ("a step in the middle of it", half_updated, |c| Key::Service(c.large), 40, 3),
    (
        "five replicas fewer of the large one",
        |c| {
            let service = c.world.tables.service(c.large).expect("it is there").clone();
            let Mode::Replicated { replicas } = service.mode else { panic!("it is replicated") };
            c.world.scale(c.large, replicas - 5);
        },
        |c| Key::Service(c.large),
        60,
        5,
    ),
];

#[test]
fn a_look_costs_what_must_change_and_not_what_is_there() {
    for (what, happens, key, most, changes) in ROWS {
        let costs = [1_000, 100_000].map(|tasks| {
            let mut crowd = Crowd::of(tasks);
            happens(&mut crowd);
            let (read, plan) = crowd.look(key(&crowd));
            assert!(plan.set.changes.len() >= *changes, "{what}: {:?}", plan.set);
            assert!(*changes > 0 || plan.is_quiet(), "{what}: {:?}", plan.set);
            read
        });
        assert_eq!(costs[0], costs[1], "{what}");
        assert!(costs[0] <= *most, "{what}: {} objects read", costs[0]);
    }
}

#[test]
fn slots_that_ended_for_good_cost_nothing() {
    let costs = [1_000, 100_000].map(|tasks| {
        let mut crowd = Crowd::of(10);
        let world = &mut crowd.world;
        let once = with(spec("runs"), |spec| spec.replace.condition = model::Condition::None);
        let service = world.create(replicas(tasks), once);
        fill(world, service, tasks, 6_000_000);
        for n in 0..tasks {
            let task = world.filling(service, Slot::Number(n)).expect("every slot is filled");
            let over = Change::DirectTask { task: task.id, desired: Desired::Complete };
            world.apply(vec![report(&task, TaskState::Failed), over]);
        }
        let (read, plan) = crowd.look(Key::Service(service));
        assert!(plan.is_quiet(), "{:?}", plan.set);
        read
    });
    assert_eq!(costs[0], costs[1]);
    assert!(costs[0] <= 8, "{} objects read", costs[0]);
}

#[test]
fn to_hear_that_a_service_is_scaled_costs_no_task() {
    for tasks in [1_000, 100_000] {
        let crowd = Crowd::of(tasks);
        let mut tables = crowd.world.tables.clone();
        let mut service = Service::clone(tables.service(crowd.large).expect("it is there"));
        service.mode = replicas(tasks + 5);
        let set = ChangeSet::of(vec![Change::UpdateService(Box::new(service))]);
        let entry = Entry { feature_level: store::FEATURE_LEVEL, time: crowd.world.now, sets: vec![set] };
        let applied = tables.apply(tables.index() + 1, &entry);
        let (mut marked, before) = (Vec::new(), objects_read());
        for event in &applied.events {
            keys_of(event, &tables, &mut |key| marked.push(key));
        }
        assert!(marked.contains(&Key::Service(crowd.large)), "{marked:?}");
        assert!(objects_read() - before <= 4, "{} objects read", objects_read() - before);
    }
}

#[test]
fn a_node_costs_its_tasks() {
    for tasks in [1_000, 100_000] {
        let mut crowd = Crowd::of(tasks);
        let node = crowd.world.node_named("n3").id;
        let there = crowd.world.tables.tasks_of_node(node).count() as u64;
        let (read, plan) = crowd.look(Key::Node(node));
        assert!(plan.is_quiet() && read <= 16 + there * 6, "{read} objects read for {there} tasks");
        crowd.world.state("n3", NodeState::Down);
        let (read, plan) = crowd.look(Key::Node(node));
        assert!(read <= 16 + there * 10, "{read} objects read for {there} tasks");
        let (_, first) = crowd.look(Key::Slot(crowd.large, 3));
        assert!(!plan.is_quiet() || !first.is_quiet(), "what is lost is given up");
        crowd.world.state("n3", NodeState::Ready);
        crowd.world.budget(crowd.large, "50%", 3);
        crowd.world.availability("n3", model::Availability::Drain);
        let (read, plan) = crowd.look(Key::Node(node));
        assert!(read <= 16 + there * 16, "{read} objects read for {there} tasks that are moved");
        let left = |c: &Change| matches!(c, Change::LeaveTask { .. });
        let begun = |c: &Change| matches!(c, Change::CreateTask { .. });
        let count = |of: fn(&Change) -> bool| plan.set.changes.iter().filter(|c| of(c)).count();
        // Three by the budget; and one of the other service, if the plan got that far.
        assert!(count(left) > 3 && [3, 4].contains(&count(begun)), "{:?}", plan.set);
        crowd.world.apply(plan.set.changes.clone());
        let (read, plan) = crowd.look(Key::Service(crowd.large));
        assert!(plan.set.changes.is_empty() && read <= 60, "{read} objects read while no more may begin");
    }
}

#[test]
fn a_step_of_a_global_update_costs_the_nodes_in_change() {
    let costs = [200, 3_000].map(|nodes: usize| {
        let names: Vec<String> = (0..nodes).map(|n| format!("n{n}")).collect();
        let names: Vec<&str> = names.iter().map(|n| &**n).collect();
        let mut world = World::new(&names);
        world.sweeps = false;
        let service = world.create(Mode::Global, spec("runs"));
        world.settle();
        let update = model::UpdatePolicy { parallelism: 3, ..model::UpdatePolicy::default() };
        world.policies(service, update, model::UpdatePolicy::default());
        world.update(service, spec("runs"));
        let crowd = Crowd { world, large: service, small: service };
        let (read, plan) = crowd.look(Key::Update(service));
        let made = plan.set.changes.iter().filter(|c| matches!(c, Change::CreateTask { .. })).count();
        assert_eq!(made, 3, "{:?}", plan.set);
        read
    });
    assert_eq!(costs[0], costs[1]);
    assert!(costs[0] <= 60, "{} objects read", costs[0]);
}
