//! Stories of tasks that are moved on purpose, within the budget of their service.

mod world;

use model::{Availability, NodeState, ServiceId, Slot, Span, TaskId, UpdateOrder, UpdatePolicy};
use world::{SECOND, World, constrained, replicas, spec, with};

use Availability::{Active, Drain, Pause};

fn seconds(n: i64) -> Span {
    Span::from_secs(n)
}

fn slow(command: &str) -> model::TaskSpec {
    with(spec(command), |s| drop(s.programs[0].env.insert("STOP_MS".into(), "1000".into())))
}

fn task(w: &World, s: ServiceId, slot: u32) -> TaskId {
    w.filling(s, Slot::Number(slot)).expect("a task in the slot").id
}

/// Lets seconds pass half by half, and says how few tasks ran at the end of one.
fn fewest(w: &mut World, s: ServiceId, n: u32) -> u32 {
    let mut fewest = u32::MAX;
    for _ in 0..2 * n {
        w.pass(Span::from_millis(500));
        fewest = fewest.min(w.tables.healthy(s));
    }
    fewest
}

#[test]
fn without_a_budget_everything_goes_at_once() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(4), slow("runs"));
    w.settle();
    w.availability("a", Drain);
    w.settle();
    assert_eq!(w.running(s), 2);
    assert_eq!(w.tables.tasks_leaving(s).count(), 0);
}

#[test]
fn stop_first_leaves_as_many_as_have_to_run() {
    for (min, fewest_of_four) in [("3", 3), ("2", 2), ("75%", 3), ("51%", 3), ("1", 2)] {
        let mut w = World::new(&["a", "b"]);
        let s = w.create(replicas(4), slow("runs"));
        w.budget(s, min, 0);
        w.settle();
        w.availability("a", Drain);
        w.settle();
        assert_eq!(w.running(s), fewest_of_four, "{min}: {}", w.show(s));
        assert_eq!(fewest(&mut w, s, 10), fewest_of_four, "{min}");
        assert_eq!(w.tables.node_use(w.node_named("a").id).active(), 0, "{min}: {}", w.show(s));
        assert_eq!(w.running(s), 4);
        assert_eq!(w.tables.service_use(s).doubled(), 0);
    }
}

/// One replica, and a second one beside it until that has been watched.
#[test]
fn with_surge_one_replica_is_never_missing() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(1), slow("runs"));
    w.budget(s, "0", 1);
    w.settle();
    let old = task(&w, s, 0);
    w.availability("a", Drain);
    w.pass(seconds(4));
    assert_eq!(w.show(s), "1: running@a, running@b");
    assert_eq!(task(&w, s, 0), old);
    assert_eq!(fewest(&mut w, s, 4), 1);
    assert_eq!(w.show(s), "1: shutdown, running@b");
    assert_eq!(
        w.decisions(s)[1..],
        [
            "drain: 1 task made beside tasks that leave node a",
            "drain: 1 task left node a: the next one runs on node b",
        ]
    );
}

/// Where not one may be missing, one at a time has a second task.
#[test]
fn all_healthy_means_one_more_at_a_time() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(4), slow("runs"));
    w.budget(s, "100%", 0);
    w.settle();
    w.availability("a", Drain);
    w.settle();
    assert_eq!(w.tables.service_use(s).doubled(), 1, "{}", w.show(s));
    assert_eq!(fewest(&mut w, s, 14), 4);
    assert_eq!(w.tables.node_use(w.node_named("a").id).active(), 0, "{}", w.show(s));
}

#[test]
fn surge_bounds_how_many_are_made_beside() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(10), spec("runs"));
    w.budget(s, "0", 2);
    w.settle();
    w.availability("a", Drain);
    for _ in 0..20 {
        w.pass(SECOND);
        let wanted = w.tables.tasks_of_service(s).filter(|t| t.fills_slot()).count();
        assert!(wanted <= 12, "{}", w.show(s));
        assert!(w.running(s) >= 10);
    }
    assert_eq!(w.tables.node_use(w.node_named("a").id).active(), 0, "{}", w.show(s));
    assert_eq!(w.running(s), 10);
}

/// Tasks that do not run are no loss: they go at once.
#[test]
fn what_does_not_run_is_not_waited_for() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(2), spec("stuck"));
    w.budget(s, "2", 0);
    w.settle();
    w.availability("a", Drain);
    w.settle();
    assert_eq!(w.show(s), "1: shutdown, preparing@b; 2: preparing@b");
}

#[test]
fn a_node_that_goes_down_is_no_matter_of_budgets() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(4), spec("runs"));
    w.budget(s, "4", 0);
    w.settle();
    w.availability("a", Drain);
    w.settle();
    w.state("a", NodeState::Down);
    w.settle();
    assert_eq!(w.tables.healthy(s), 4, "{}", w.show(s));
}

#[test]
fn after_the_deadline_whatever_is_left_goes() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(4), spec("runs"));
    w.budget(s, "4", 0);
    w.room = 2;
    w.settle();
    let until = w.now + seconds(90);
    w.set_node("a", |n| (n.availability, n.drain_until) = (Drain, Some(until)));
    w.pass(seconds(89));
    assert_eq!(w.running(s), 4, "nobody has room: {}", w.show(s));
    w.pass(SECOND);
    assert_eq!(w.running(s), 2, "{}", w.show(s));
    w.room = 9;
    w.settle();
    assert_eq!(w.running(s), 4);
}

/// The new task finds no node: it is ended with the reason, and another is tried later. The old one runs on.
#[test]
fn a_move_without_a_node_is_tried_again() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(1), constrained("runs", "node.labels.zone != far"));
    w.budget(s, "0", 1);
    w.settle();
    let old = task(&w, s, 0);
    w.label("b", "zone", "far");
    w.availability("a", Drain);
    w.pass(seconds(59));
    assert_eq!(w.show(s), "1: running@a, pending");
    w.pass(SECOND);
    assert_eq!(w.show(s), "1: running@a, shutdown");
    assert_eq!(
        w.decisions(s)[2],
        "drain: slot 1 stays for now: of the next one: slot 1 found no node within 1m0s"
    );
    w.pass(seconds(60));
    assert_eq!(w.show(s), "1: running@a, shutdown, pending");
    w.label("b", "zone", "near");
    w.pass(seconds(5));
    assert_eq!(w.show(s), "1: shutdown, shutdown, running@b");
    assert!(w.tables.task(old).is_some());
}

/// Without a node, the one that fails elsewhere is tried again after a minute, whatever is kept of it.
#[test]
fn a_move_that_fails_is_not_hurried() {
    let mut w = World::new(&["a", "b"]);
    w.change_cluster(|c| c.history = 0);
    let s = w.create(replicas(1), spec("runs"));
    w.budget(s, "0", 1);
    w.settle();
    let old = task(&w, s, 0);
    w.availability("a", Drain);
    w.settle();
    let tasks: Vec<_> = w.tables.tasks_of_slot(s, Slot::Number(0)).cloned().collect();
    w.report(&tasks[1], model::TaskState::Failed, Some(1));
    w.pass(seconds(50));
    assert_eq!(w.show(s), "1: running@a, failed");
    assert_eq!(task(&w, s, 0), old);
    w.pass(seconds(16));
    assert_eq!(w.show(s), "1: running@b");
}

/// Back to active: exactly one remains, the one that has been running longest.
#[test]
fn a_drain_that_is_taken_back_keeps_the_older_tasks() {
    for back in [Active, Pause] {
        let mut w = World::new(&["a", "b"]);
        let s = w.create(replicas(4), slow("runs"));
        w.budget(s, "4", 3);
        w.settle();
        let old: Vec<TaskId> = (0..4).map(|n| task(&w, s, n)).collect();
        w.availability("a", Drain);
        w.pass(seconds(3));
        assert_eq!(w.tables.service_use(s).doubled(), 2);
        w.availability("a", back);
        w.pass(seconds(10));
        assert_eq!((0..4).map(|n| task(&w, s, n)).collect::<Vec<_>>(), old);
        assert_eq!(w.tables.tasks_leaving(s).count(), 0);
        assert_eq!(w.running(s), 4);
    }
}

/// A budget that is taken away, or given, while a node is drained counts from then on.
#[test]
fn a_budget_may_change_meanwhile() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(4), spec("runs"));
    w.budget(s, "4", 0);
    w.room = 2;
    w.settle();
    w.availability("a", Drain);
    w.pass(seconds(10));
    assert_eq!(w.running(s), 4);
    w.budget(s, "3", 0);
    w.settle();
    assert_eq!(w.running(s), 3, "{}", w.show(s));
    w.pass(seconds(60));
    assert_eq!(w.running(s), 3, "{}", w.show(s));
    w.budget(s, "0", 0);
    w.settle();
    assert_eq!(w.running(s), 2);
}

/// Others that fail meanwhile count: the move waits until they run again.
#[test]
fn a_failure_elsewhere_holds_a_move_up() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(4), with(spec("runs"), |t| t.replace.delay = seconds(30)));
    w.budget(s, "4", 0);
    w.settle();
    w.availability("a", Drain);
    w.pass(seconds(3));
    let other = (0..4).find(|n| w.tables.task(task(&w, s, *n)).unwrap().node == Some(w.node_named("b").id));
    w.kill(s, other.unwrap(), 1);
    w.pass(seconds(20));
    assert_eq!(w.running(s), 4, "three of four, and the one beside: {}", w.show(s));
    w.pass(seconds(30));
    assert_eq!(w.running(s), 4);
    assert_eq!(w.tables.node_use(w.node_named("a").id).active(), 0, "{}", w.show(s));
}

/// A failure that is applied between a plan and its turn: the store refuses the move.
#[test]
fn the_store_has_the_last_word() {
    let mut w = World::new(&["a", "b", "c"]);
    let s = w.create(replicas(3), with(spec("runs"), |t| t.replace.delay = seconds(30)));
    w.budget(s, "2", 0);
    w.settle();
    w.availability("a", Drain);
    let on_b = w.node_named("b").id;
    let other = w.tables.tasks_of_node(on_b).next().cloned().expect("a task");
    let failed = store::Change::ReportTask {
        task: other.id,
        node: on_b,
        state: model::TaskState::Failed,
        at: w.now,
        message: None,
        programs: Box::default(),
    };
    w.intruding.push(store::ChangeSet::of(vec![failed]));
    w.settle();
    assert!(w.refused > 0);
    assert_eq!(w.running(s), 2, "{}", w.show(s));
    w.pass(seconds(40));
    assert_eq!(w.running(s), 3);
    assert_eq!(w.tables.node_use(w.node_named("a").id).active(), 0);
}

/// An update has its slots; the drain has those that are of the current spec.
#[test]
fn an_update_and_a_drain_share_the_slots() {
    for order in [UpdateOrder::StopFirst, UpdateOrder::StartFirst] {
        let mut w = World::new(&["a", "b", "c"]);
        let policy = UpdatePolicy { order, delay: seconds(10), ..UpdatePolicy::default() };
        let s = w.create_with(replicas(6), slow("runs"), policy);
        w.budget(s, "5", 1);
        w.settle();
        w.availability("a", Drain);
        w.pass(seconds(2));
        w.update(s, slow("runs"));
        w.pass(seconds(120));
        assert_eq!(w.update_state(s), "completed: update completed", "{}", w.show(s));
        assert_eq!(w.revisions(s), [2; 6]);
        assert_eq!(w.tables.node_use(w.node_named("a").id).active(), 0, "{}", w.show(s));
        assert_eq!(w.tables.tasks_leaving(s).count(), 0);
        assert_eq!(w.tables.service_use(s).doubled(), 0);
    }
}

/// While an update is paused, its slots are moved with the spec that they have.
#[test]
fn slots_of_a_paused_update_are_moved_as_they_are() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(4), spec("runs"));
    w.budget(s, "0", 1);
    w.settle();
    w.update(s, with(spec("exits 1 0"), |t| t.replace.delay = seconds(5)));
    w.pass(seconds(1));
    assert!(w.update_state(s).starts_with("paused"), "{}", w.update_state(s));
    w.availability("a", Drain);
    w.pass(seconds(30));
    assert!(w.update_state(s).starts_with("paused"), "{}", w.update_state(s));
    assert_eq!(w.revisions(s), [1, 1, 1], "{}", w.show(s));
    let on_a = w.tables.node_use(w.node_named("a").id).active();
    assert_eq!(on_a, 0, "{}", w.show(s));
}

/// What is better off elsewhere is moved start-first, to the node that was chosen, one at a time.
#[test]
fn what_is_better_off_elsewhere_goes_there() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(4), slow("runs"));
    w.settle();
    w.join("c");
    let on = |w: &World, n: u32| {
        let node = w.tables.task(task(w, s, n)).and_then(|t| t.node).expect("its node");
        w.tables.node(node).expect("the node").description.hostname.to_string()
    };
    w.better_on(s, 0, "c");
    w.better_on(s, 3, "c");
    assert!(fewest(&mut w, s, 4) >= 4);
    assert_eq!(w.tables.service_use(s).doubled(), 1, "{}", w.show(s));
    assert!(fewest(&mut w, s, 12) >= 4);
    assert_eq!((on(&w, 0), on(&w, 3)), ("c".into(), "c".into()), "{}", w.show(s));
    assert_eq!(w.running(s), 4);
}

/// When the node that was chosen does not take it, or it fails there, it stays, and that is kept.
#[test]
fn a_move_for_its_own_good_is_tried_once() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(2), spec("runs"));
    w.room = 1;
    w.settle();
    let old = task(&w, s, 0);
    w.better_on(s, 0, "b");
    w.pass(seconds(59));
    assert_eq!(w.show(s), "1: running@a, pending; 2: running@b");
    w.pass(seconds(5));
    assert_eq!(w.show(s), "1: running@a; 2: running@b");
    assert_eq!(task(&w, s, 0), old);
    let told = w.decisions(s).pop().expect("a decision");
    assert_eq!(told, "rebalance: slot 1 stays on node a: of the next one: slot 1 found no node within 1m0s");
    w.room = 2;
    w.better_on(s, 0, "b");
    w.settle();
    let next = w.tables.tasks_of_slot(s, Slot::Number(0)).last().cloned().expect("the next one");
    w.report(&next, model::TaskState::Failed, Some(3));
    w.pass(seconds(100));
    assert_eq!(w.show(s), "1: running@a; 2: running@b");
    assert_eq!(task(&w, s, 0), old);
    w.better_on(s, 0, "b");
    w.availability("b", Drain);
    w.pass(seconds(5));
    assert_eq!(w.show(s), "1: running@a; 2: shutdown, running@a");
    assert_eq!(w.tables.tasks_leaving(s).count(), 0);
}
