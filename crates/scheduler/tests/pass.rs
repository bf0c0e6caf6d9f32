//! How a pass behaves: whose turn it is, what bounds it, what it leaves alone, and that it always says the same.

mod common;

use common::*;
use model::{Availability, Desired, Slot, TaskState, Time};
use scheduler::{Limits, Placements, relevant, schedule};
use store::{Change, ChangeSet, Entry, FEATURE_LEVEL, Guard, ObjectId, Tables};

fn bytes(decided: &Placements) -> Vec<u8> {
    let entry = Entry { feature_level: FEATURE_LEVEL, time: Time(1), sets: decided.sets.clone() };
    store::codec::encode_entry(&entry)
}

fn placements(set: &ChangeSet) -> usize {
    set.changes.iter().filter(|change| matches!(change, Change::AssignTask { .. })).count()
}

/// Some of everything: services that fit, that do not, and one for given nodes.
fn mixed() -> World {
    let mut w = World::new((1..=6).map(|n| labelled(node(n), "zone", ["a", "b"][n as usize % 2])));
    w.service(1, constrained(spec(reserve(CPU, GIB)), &["node.labels.zone==a"]));
    w.service(2, port(light(), model::Protocol::Tcp, 80));
    w.service(3, spec(reserve(9 * CPU, 0)));
    w.service(4, port(light(), model::Protocol::Tcp, 0));
    w.tasks(1, 20);
    w.tasks(2, 9);
    w.tasks(3, 4);
    for node in 1..=6 {
        w.task_for(4, node);
    }
    w
}

#[test]
fn the_same_view_gives_the_same_bytes() {
    let w = mixed();
    let decided = schedule(&w.tables, &Limits::default());
    assert!(decided.placed > 20 && decided.unplaced > 4);
    assert_eq!(bytes(&decided), bytes(&schedule(&w.tables, &Limits::default())));
    assert_eq!(bytes(&decided), bytes(&schedule(&w.tables.clone(), &Limits::default())));
    let mut stored = Vec::new();
    store::codec::write_snapshot(&w.tables, &mut stored).expect("memory takes it");
    let read = store::codec::read_snapshot(&mut stored.as_slice()).expect("it was just written");
    assert_eq!(bytes(&decided), bytes(&schedule(&read, &Limits::default())));
}

#[test]
fn the_order_in_which_things_were_made_in_one_step_does_not_matter() {
    let build = |backwards: bool| {
        let mut w = World::new([]);
        w.service(1, spec(reserve(CPU, 0)));
        w.service(2, light());
        let services = [1, 2].map(|n| w.tables.service(service_id(n)).expect("it is there").clone());
        let mut changes: Vec<Change> = (1..=7).map(|n| Change::CreateNode(node(n))).collect();
        for n in 0..40 {
            changes.push(create(n, &services[n as usize % 2], Slot::Number(n / 2), None));
        }
        if backwards {
            changes.reverse();
        }
        w.must(changes);
        bytes(&schedule(&w.tables, &Limits::default()))
    };
    assert_eq!(build(false), build(true));
}

#[test]
fn a_second_pass_over_the_same_state_has_nothing_to_say() {
    let mut w = mixed();
    let first = w.pass(&Limits::default());
    assert!(!first.more && !first.held);
    let second = schedule(&w.tables, &Limits::default());
    let visited = second.visited;
    assert_eq!(second, Placements { unplaced: first.unplaced, visited, ..Placements::default() });
    assert_eq!(visited.tasks, 0, "what has its reason is not even read");
}

#[test]
fn a_reason_is_written_again_only_when_it_changes() {
    let mut w = World::new([node(1)]);
    w.service(1, spec(reserve(0, 20 * GIB)));
    let task = w.tasks(1, 1)[0];
    w.settle();
    let said = w.task(task).modified;
    w.service(2, light());
    w.tasks(2, 3);
    w.settle();
    assert_eq!(w.task(task).modified, said, "other tasks are no news for it");
    w.describe(1, |d| d.resources.memory = 18 * GIB);
    w.settle();
    assert!(w.why(task).contains("18 GiB free"));
    assert_eq!(w.tables.decisions(service_id(1)).count(), 1, "one note when it began to wait");
    w.describe(1, |d| d.resources.memory = 20 * GIB);
    w.settle();
    assert_eq!((w.node_of(task), w.why(task)), (Some(1), "no reason".into()));
}

#[test]
fn placements_guard_the_tasks_and_the_nodes_once() {
    let mut w = World::new((1..=2).map(node));
    w.service(1, light());
    let tasks = w.tasks(1, 3);
    let decided = schedule(&w.tables, &Limits::default());
    let set = &decided.sets[0];
    let node_version = |n| w.tables.node(node_id(n)).expect("it is there").meta.modified;
    for n in 1..=2 {
        let guard = Guard { object: ObjectId::Node(node_id(n)), version: node_version(n) };
        assert_eq!(set.guards.iter().filter(|g| **g == guard).count(), 1);
    }
    for n in tasks {
        let guard = Guard { object: ObjectId::Task(task_id(n)), version: w.task(n).modified };
        assert_eq!(set.guards.iter().filter(|g| **g == guard).count(), 1);
    }
    assert_eq!(set.guards.len(), 5);

    // Each set stands alone, so each names the nodes it uses.
    let small = schedule(&w.tables, &Limits { set: 2, ..Limits::default() });
    let nodes = small
        .sets
        .iter()
        .map(|set| set.guards.iter().filter(|guard| matches!(guard.object, ObjectId::Node(_))).count());
    assert_eq!(nodes.collect::<Vec<_>>(), [2, 1]);

    // A decision about a node that was drained meanwhile is refused.
    w.set_availability(2, Availability::Drain);
    let applied = w.entry(decided.sets);
    assert!(applied.results[0].is_err());
    w.settle();
    assert_eq!(w.spread_of(1), [3, 0]);
}

#[test]
fn limits_bound_a_pass_and_its_sets() {
    let mut w = World::new((1..=4).map(node));
    w.service(1, light());
    w.service(2, light());
    w.tasks(1, 25);
    w.tasks(2, 10);
    let limits = Limits { placements: 10, reasons: 10, set: 4 };
    let mut passes = 0;
    loop {
        let decided = w.pass(&limits);
        assert!(decided.placed <= 10 && decided.sets.iter().all(|set| placements(set) <= 4));
        passes += 1;
        assert_eq!(decided.more, passes < 4, "pass {passes}");
        if !decided.more {
            break;
        }
    }
    assert_eq!(w.spread_of(1).iter().sum::<u32>() + w.spread_of(2).iter().sum::<u32>(), 35);
    let tables = &w.tables;
    let notes: Vec<_> = tables.decisions(service_id(1)).map(|d| (d.text.to_string(), d.times)).collect();
    let text = "4 tasks placed on 4 nodes, fewest tasks of the service first";
    assert!(
        notes.iter().any(|(note, times)| note == text && *times > 1),
        "equal ones are counted: {notes:?}"
    );
}

#[test]
fn a_pass_that_looks_at_many_nodes_may_place_as_many_tasks() {
    let mut w = World::new((1..=50).map(node));
    w.service(1, light());
    w.tasks(1, 60);
    w.settle();
    w.tasks(1, 200);
    let limits = Limits { placements: 10, ..Limits::default() };
    let decided = w.pass(&limits);
    assert_eq!((decided.placed, decided.more), (50, true));
}

#[test]
fn what_cannot_be_placed_keeps_nobody_waiting() {
    let mut w = World::new((1..=3).map(node));
    for n in 1..=30 {
        w.prioritised(n, spec(reserve(99 * CPU, 0)), 90);
        w.tasks(n, 30);
    }
    w.service(31, light());
    w.tasks(31, 5);
    let limits = Limits { placements: 5, reasons: 5, set: 5 };
    let decided = w.pass(&limits);
    assert_eq!((decided.placed, decided.more), (5, true), "placed although all others come first");
    // The reasons follow in bounded steps, and that ends.
    let mut passes = 1;
    while w.pass(&limits).more {
        passes += 1;
        assert!(passes < 1000);
    }
    assert!((1..=900).all(|task| w.why(task).starts_with("no suitable node (insufficient CPU on 3 nodes")));
}

#[test]
fn priority_then_age_then_id_decide_who_is_placed_when_not_all_can_be() {
    let room_for_one = || World::new([described(node(1), |d| d.resources.nano_cpus = CPU)]);
    let one = || spec(reserve(CPU, 0));

    let mut w = room_for_one();
    w.prioritised(1, one(), 40);
    w.prioritised(2, one(), 60);
    let tasks = [w.tasks(1, 1)[0], w.tasks(2, 1)[0]];
    w.settle();
    assert_eq!(tasks.map(|task| w.node_of(task)), [None, Some(1)], "the higher priority");

    let mut w = room_for_one();
    w.service(1, one());
    w.service(2, one());
    let tasks = [w.tasks(2, 1)[0], w.tasks(1, 1)[0]];
    w.settle();
    assert_eq!(tasks.map(|task| w.node_of(task)), [Some(1), None], "the older task");

    let mut w = room_for_one();
    w.service(1, one());
    w.service(2, one());
    let services = [1, 2].map(|n| w.tables.service(service_id(n)).expect("it is there").clone());
    w.must([1, 0].map(|n| create(n, &services[n as usize], Slot::Number(0), None)).to_vec());
    w.settle();
    assert_eq!([0, 1].map(|task| w.node_of(task)), [Some(1), None], "the smaller id");

    // Within a service as well: what has waited longest is placed first, whatever its slot.
    let mut w = room_for_one();
    w.service(1, one());
    let service = w.tables.service(service_id(1)).expect("it is there").clone();
    w.must(vec![create(1, &service, Slot::Number(5), None)]);
    w.must(vec![create(2, &service, Slot::Number(0), None)]);
    w.settle();
    assert_eq!([1, 2].map(|task| w.node_of(task)), [Some(1), None]);
}

#[test]
fn a_delayed_task_is_placed_at_once_and_an_unwanted_one_never() {
    let mut w = World::new([node(1)]);
    w.service(1, light());
    let service = w.tables.service(service_id(1)).expect("it is there").clone();
    w.must(vec![Change::CreateTask {
        id: task_id(1),
        service: service.id,
        slot: Slot::Number(0),
        revision: service.revision,
        node: None,
        desired: Desired::Ready,
        start_after: Some(Time(1_000_000)),
    }]);
    w.must(vec![create(2, &service, Slot::Number(1), None)]);
    w.must(vec![Change::DirectTask { task: task_id(2), desired: Desired::Shutdown }]);
    w.settle();
    assert_eq!(w.node_of(1), Some(1));
    assert_eq!(w.node_of(2), None);
    assert_eq!(w.why(2), "no reason");
}

#[test]
fn tasks_of_a_removed_service_are_left_alone() {
    let mut w = World::new([node(1)]);
    w.service(1, light());
    let task = w.tasks(1, 1)[0];
    w.must(vec![Change::DeleteService(service_id(1))]);
    assert_eq!(schedule(&w.tables, &Limits::default()), Placements::default());
    assert_eq!(w.node_of(task), None);
}

#[test]
fn tasks_made_for_nodes_are_only_confirmed() {
    let mut w = World::new((1..=4).map(node));
    w.set_availability(3, Availability::Pause);
    w.service(1, spec(reserve(4 * CPU, 0)));
    w.service(2, constrained(spec(reserve(CPU, 0)), &["node.hostname!=n2"]));
    w.service(3, constrained(spec(reserve(4 * CPU, 0)), &["node.hostname==n4"]));
    w.tasks(3, 1);
    w.settle();
    let tasks: Vec<u32> = (1..=4).map(|node| w.task_for(2, node)).collect();
    let seen = scheduler::explain(&w.tables, w.task(tasks[1]));
    assert_eq!(seen.len(), 1, "only its node is asked");
    w.settle();
    let states: Vec<TaskState> = tasks.iter().map(|task| w.task(*task).status.state).collect();
    use TaskState::{Assigned, Pending};
    assert_eq!(states, [Assigned, Pending, Pending, Pending]);
    assert_eq!(w.node_of(tasks[0]), Some(1));
    let texts: Vec<String> = tasks[1..].iter().map(|task| w.why(*task)).collect();
    assert_eq!(
        texts,
        [
            "no suitable node (constraint node.hostname!=n2 does not hold on 1 node)",
            "no suitable node (1 node is paused)",
            "no suitable node (insufficient CPU on 1 node: 1 wanted, none free)",
        ]
    );
    let notes: Vec<_> = w.tables.decisions(service_id(2)).map(|d| d.text.to_string()).collect();
    assert!(notes.contains(&"placed on n1, for which it was made".into()), "{notes:?}");

    w.set_availability(3, Availability::Active);
    w.settle();
    assert_eq!(w.task(tasks[2]).status.state, Assigned);
}

#[test]
fn many_tasks_made_for_nodes_get_one_note() {
    let mut w = World::new((1..=3).map(node));
    w.service(1, light());
    let service = w.tables.service(service_id(1)).expect("it is there").clone();
    let for_node = |n| create(n, &service, Slot::Node(node_id(n)), Some(node_id(n)));
    w.must((1..=3).map(for_node).collect());
    w.settle();
    assert_eq!(w.said(1), "placed: 3 tasks placed on 3 nodes, each on the one for which it was made");
}

fn laid_over(tables: &Tables, changes: Vec<Change>) -> Tables {
    let mut view = tables.clone();
    view.speculate(&ChangeSet::of(changes), Time(1_000)).expect("it can be laid over");
    view
}

#[test]
fn what_is_in_flight_counts_and_is_left_alone() {
    let mut w = World::new([node(1)]);
    w.service(1, spec(reserve(3 * CPU, 0)));
    let tasks = w.tasks(1, 2);
    let first = schedule(&w.tables, &Limits::default());
    assert_eq!((first.placed, first.unplaced), (1, 1));

    // The plans of the first pass laid over: the placed task is not placed again, its resources are taken, and the
    // other's reason is on its way.
    let mut view = w.tables.clone();
    for set in &first.sets {
        view.speculate(set, Time(1_000)).expect("it can be laid over");
    }
    let second = schedule(&view, &Limits::default());
    assert_eq!(second, Placements { held: true, visited: second.visited, ..Placements::default() });

    // A task that is made in flight is not touched, and it will be heard of.
    let service = w.tables.service(service_id(1)).expect("it is there").clone();
    w.must(vec![Change::DirectTask { task: task_id(tasks[1]), desired: Desired::Shutdown }]);
    w.settle();
    let view = laid_over(&w.tables, vec![create(99, &service, Slot::Number(9), None)]);
    let last = schedule(&view, &Limits::default());
    assert_eq!(last, Placements { visited: last.visited, ..Placements::default() });
}

/// The pass asks only the first and the last of a group whether they know the reason. So none after one in flight may be told it before
/// that one is.
#[test]
fn a_reason_passes_over_nobody_who_is_in_flight() {
    let mut w = World::new([node(1)]);
    w.service(1, spec(reserve(5 * CPU, 0)));
    let tasks = w.tasks(1, 3);
    w.settle();
    w.describe(1, |d| d.resources = reserve(CPU, 0));
    let other = model::Unplaced { refusals: Vec::new() };
    let explain = Change::ExplainTasks { tasks: vec![task_id(tasks[1])], unplaced: Some(other.into()) };
    let decided = schedule(&laid_over(&w.tables, vec![explain.clone()]), &Limits::default());
    assert!(decided.held, "it looks again");
    let mut sets = decided.sets;
    sets.insert(0, ChangeSet::of(vec![explain]));
    w.entry(sets);
    w.settle();
    let whys: Vec<String> = tasks.iter().map(|task| w.why(*task)).collect();
    assert!(whys.iter().all(|why| why.ends_with("5 wanted, 1 free)")), "{whys:?}");
}

#[test]
fn a_node_in_flight_is_neither_used_nor_blamed() {
    let mut w = World::new([node(1), node(2)]);
    w.set_availability(1, Availability::Drain);
    w.service(1, light());
    w.service(2, spec(reserve(8 * CPU, 0)));
    w.tasks(1, 3);
    w.tasks(2, 1);
    let activate = Change::SetNode {
        node: node_id(1),
        role: model::Role::Worker,
        availability: Availability::Active,
        drain_until: None,
        labels: model::Labels::new(),
    };
    let view = laid_over(&w.tables, vec![activate.clone()]);
    let decided = schedule(&view, &Limits::default());
    assert_eq!((decided.placed, decided.unplaced, decided.held), (3, 1, false));
    let refers = |guard: &Guard| guard.object == ObjectId::Node(node_id(1));
    assert!(!decided.sets.iter().flat_map(|set| &set.guards).any(refers));

    // When only a node in flight would take it, a task waits without a reason until the node has settled.
    w.set_availability(2, Availability::Pause);
    let view = laid_over(&w.tables, vec![activate]);
    let decided = schedule(&view, &Limits::default());
    assert_eq!((decided.placed, decided.held), (0, true));
    let explained = decided.sets.iter().flat_map(|set| &set.changes).filter_map(|change| match change {
        Change::ExplainTasks { tasks, unplaced } => Some((tasks.clone(), unplaced.clone())),
        _ => None,
    });
    let explained: Vec<_> = explained.collect();
    assert_eq!(explained.len(), 1, "only the one that is too large for both");
    assert_eq!(explained[0].0, [task_id(4)]);
    let why = explained[0].1.as_ref().expect("a reason").to_string();
    assert_eq!(why, "no suitable node (1 node is paused; insufficient CPU on 1 node: 8 wanted, 4 free)");
}

#[test]
fn only_events_that_can_help_are_worth_a_pass() {
    let mut w = World::new([node(1)]);
    w.service(1, spec(reserve(3 * CPU, 0)));
    let empty = Tables::new();
    let worth = |applied: &store::Applied| {
        applied.events.iter().map(|event| relevant(event, &empty)).collect::<Vec<_>>()
    };
    let service = w.tables.service(service_id(1)).expect("it is there").clone();

    assert_eq!(worth(&w.must(vec![create(1, &service, Slot::Number(0), None)])), [true]);
    assert_eq!(worth(&w.must(vec![create(2, &service, Slot::Number(1), None)])), [true]);
    let decided = schedule(&w.tables, &Limits::default());
    assert_eq!((decided.placed, decided.unplaced), (1, 1));
    let applied = w.entry(decided.sets);
    assert_eq!(worth(&applied), [false, false], "placed, and explained");

    let report = |state| Change::ReportTask {
        task: task_id(1),
        node: node_id(1),
        state,
        at: Time(1),
        message: None,
        programs: Box::default(),
    };
    assert_eq!(worth(&w.must(vec![report(TaskState::Running)])), [false]);
    let stop = Change::DirectTask { task: task_id(1), desired: Desired::Shutdown };
    assert_eq!(worth(&w.must(vec![stop])), [true], "its service has one less there");
    let remove = Change::DirectTask { task: task_id(1), desired: Desired::Remove };
    assert_eq!(worth(&w.must(vec![remove])), [false], "that is known");
    assert_eq!(worth(&w.must(vec![report(TaskState::Complete)])), [true], "it gave back what it held");
    assert_eq!(worth(&w.must(vec![Change::DeleteTask(task_id(1))])), [false]);
    let direct = Change::DirectTask { task: task_id(2), desired: Desired::Remove };
    assert_eq!(worth(&w.must(vec![direct])), [false]);
    let mut urgent = model::Service::clone(&service);
    urgent.labels.insert("a".into(), "b".into());
    assert_eq!(worth(&w.must(vec![Change::UpdateService(Box::new(urgent.clone()))])), [false]);
    urgent.priority = 90;
    assert_eq!(
        worth(&w.must(vec![Change::UpdateService(Box::new(urgent))])),
        [true],
        "others may give way to it"
    );
    assert_eq!(worth(&w.must(vec![Change::DeleteService(service_id(1))])), [true], "a reason may name it");
    let drain = Change::SetNode {
        node: node_id(1),
        role: model::Role::Worker,
        availability: Availability::Drain,
        drain_until: None,
        labels: model::Labels::new(),
    };
    assert_eq!(worth(&w.must(vec![drain])), [true]);
    assert_eq!(worth(&w.must(vec![Change::DeleteNode(node_id(1))])), [true]);
}
