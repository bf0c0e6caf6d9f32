//! Room that is made by ending tasks of far lower priority.

mod common;

use common::*;
use model::{Desired, Protocol, TaskState};
use scheduler::{Limits, explain, relevant, schedule};

/// A full node of 4 processors: four tasks of service 1, whose priority is 40; and service 2, of which a task needs two
/// processors and may end others.
fn full(priority: u8) -> (World, Vec<u32>) {
    let mut w = World::new([node(1)]);
    w.prioritised(1, spec(reserve(CPU, 0)), 40);
    let low = w.tasks(1, 4);
    w.settle();
    w.prioritised(2, spec(reserve(2 * CPU, 0)), priority);
    w.steer(2, |s| s.preempt = true);
    (w, low)
}

fn told_to_end(w: &World, tasks: &[u32]) -> Vec<u32> {
    tasks.iter().copied().filter(|t| w.task(*t).desired == Desired::Shutdown).collect()
}

#[test]
fn the_fewest_end_and_the_room_is_used_once_it_is_there() {
    let (mut w, low) = full(50);
    let high = w.tasks(2, 1)[0];
    w.settle();
    assert_eq!(told_to_end(&w, &low), low[..2], "two are enough");
    assert_eq!(w.node_of(high), None, "nothing is promised twice");
    let reason = "ended to make room for s2.1: its priority 40 is below 50";
    assert_eq!(w.task(low[0]).dismissed.as_deref(), Some(reason), "the task itself says why");
    assert_eq!(w.said(1), "preempted: s1.2 on n1 ends to make room for s2.1: its priority 40 is below 50");
    assert_eq!(w.why(high), "no suitable node (room is kept for it on n1, until tasks there have ended)");

    // What replaces those that end does not take the room of the one that waits.
    let again = w.tasks(1, 2);
    w.report(low[0], TaskState::Shutdown);
    w.settle();
    assert_eq!((w.node_of(high), w.node_of(again[0])), (None, None));
    // What is kept is not free for others, and whoever asks is told so: a processor is, in truth, unused.
    let verdicts = explain(&w.tables, w.task(again[0]));
    assert!(verdicts[0].refusal.is_some(), "{verdicts:?}");
    w.report(low[1], TaskState::Shutdown);
    w.settle();
    assert_eq!((w.node_of(high), w.node_of(again[0])), (Some(1), None));
    assert_eq!(told_to_end(&w, &low), low[..2], "no more than that");
}

#[test]
fn only_who_asks_and_is_far_above_is_given_room() {
    for (priority, preempt, ended) in [(49, true, 0), (50, true, 2), (50, false, 0), (100, true, 2)] {
        let (mut w, low) = full(priority);
        w.steer(2, |s| s.preempt = preempt);
        w.tasks(2, 1);
        w.settle();
        assert_eq!(told_to_end(&w, &low).len(), ended, "{priority} {preempt}");
    }
}

#[test]
fn nothing_ends_for_what_would_not_fit_anyway() {
    let (mut w, low) = full(90);
    w.update(2, 2, spec(reserve(5 * CPU, 0)));
    let high = w.tasks(2, 1)[0];
    w.settle();
    assert_eq!(told_to_end(&w, &low), []);
    assert!(w.why(high).contains("insufficient CPU"), "{}", w.why(high));
    let (mut w, low) = full(90);
    w.update(2, 2, constrained(spec(reserve(CPU, 0)), &["node.role==manager"]));
    w.tasks(2, 1);
    w.settle();
    assert_eq!(told_to_end(&w, &low), []);
}

#[test]
fn the_lowest_priority_ends_first_then_the_youngest() {
    let mut w = World::new((1..=2).map(node));
    w.prioritised(1, constrained(spec(reserve(2 * CPU, 0)), &["node.hostname==n1"]), 30);
    w.prioritised(2, constrained(spec(reserve(4 * CPU, 0)), &["node.hostname==n2"]), 20);
    w.prioritised(3, spec(reserve(CPU, 0)), 90);
    w.steer(3, |s| s.preempt = true);
    let (thirty, twenty) = (w.tasks(1, 1), w.tasks(2, 1));
    let young = w.tasks(1, 1);
    w.settle();
    let high = w.tasks(3, 4);
    w.settle();
    assert_eq!(told_to_end(&w, &twenty), twenty, "all four find room in its place");
    assert_eq!(told_to_end(&w, &thirty), []);
    assert!(high.iter().all(|task| w.node_of(*task).is_none()));
    w.tasks(3, 1);
    w.settle();
    assert_eq!((told_to_end(&w, &thirty), told_to_end(&w, &young)), (vec![], young));
}

#[test]
fn a_large_one_spares_small_ones_that_are_not_needed() {
    let mut w = World::new([node(1)]);
    w.prioritised(1, spec(reserve(CPU, 0)), 10);
    w.prioritised(2, spec(reserve(3 * CPU, 0)), 20);
    let (small, large) = (w.tasks(1, 1), w.tasks(2, 1));
    w.settle();
    w.prioritised(3, spec(reserve(3 * CPU, 0)), 50);
    w.steer(3, |s| s.preempt = true);
    w.tasks(3, 1);
    w.settle();
    assert_eq!((told_to_end(&w, &small), told_to_end(&w, &large)), (vec![], large));
}

#[test]
fn a_host_port_is_room_too() {
    let mut w = World::new([node(1)]);
    w.prioritised(1, port(light(), Protocol::Tcp, 80), 10);
    let low = w.tasks(1, 1);
    w.settle();
    w.prioritised(2, port(light(), Protocol::Tcp, 80), 50);
    w.steer(2, |s| s.preempt = true);
    let high = w.tasks(2, 2);
    w.settle();
    assert_eq!(told_to_end(&w, &low), low);
    w.report(low[0], TaskState::Shutdown);
    w.settle();
    assert_eq!((w.node_of(high[0]), w.node_of(high[1])), (Some(1), None));
}

#[test]
fn a_node_is_never_promised_twice_and_the_same_state_gives_the_same_plan() {
    let (mut w, low) = full(60);
    w.tasks(2, 3);
    let first = schedule(&w.tables, &Limits::default());
    assert_eq!(first, schedule(&w.tables, &Limits::default()));
    assert_eq!((first.placed, first.preempted), (0, 4));
    w.settle();
    for task in low {
        w.report(task, TaskState::Shutdown);
        w.settle();
        let held = w.tables.node_use(node_id(1)).reserved().nano_cpus;
        assert!(held <= 4 * CPU, "{held}");
    }
    assert_eq!(w.spread_of(2), [2]);
}

/// What runs, of four tasks of which so many have to run, ends only as far as the service can spare it.
#[test]
fn a_budget_is_kept() {
    for (floor, running, ended) in
        [(0, 4, 2), (2, 4, 2), (3, 4, 0), (4, 4, 0), (2, 3, 2), (3, 3, 0), (4, 1, 2)]
    {
        let (mut w, low) = full(50);
        w.budget(1, 4, floor);
        low.iter().take(running).for_each(|task| w.report(*task, TaskState::Running));
        w.tasks(2, 1);
        w.settle();
        let told = told_to_end(&w, &low);
        assert_eq!(told.len(), ended, "{floor} of {running}: {told:?}");
        let left = low.iter().filter(|t| w.task(**t).is_running()).count();
        assert!(left >= running.min(floor as usize), "{floor} of {running}: {left} are left");
    }
}

#[test]
fn whose_budget_stands_in_the_way_is_said_and_looked_at_again() {
    let (mut w, low) = full(50);
    w.budget(1, 4, 3);
    low.iter().take(3).for_each(|task| w.report(*task, TaskState::Running));
    let high = w.tasks(2, 1)[0];
    w.settle();
    assert_eq!(told_to_end(&w, &low), [], "one does not run and may end, but that is not enough");
    let why = "no suitable node (insufficient CPU on 1 node: 2 wanted, none free; preemption would break the budget of s1 on 1 node)";
    assert_eq!(w.why(high), why);
    let said = explain(&w.tables, w.task(high)).remove(0).refusal.expect("it is full").1;
    assert_eq!(&*said, "insufficient CPU: 2 wanted, none free; preemption would break the budget of s1");
    let again = schedule(&w.tables, &Limits::default());
    assert_eq!(again.sets, [], "the same state has the same reason");

    w.budget(1, 4, 2);
    w.settle();
    assert_eq!(told_to_end(&w, &low).len(), 2);
}

#[test]
fn one_more_that_runs_is_worth_a_pass_while_somebody_waits_for_it() {
    let (mut w, low) = full(50);
    w.budget(1, 4, 2);
    let runs = |w: &mut World, task: u32| {
        let applied = w.must(vec![store::Change::ReportTask {
            task: task_id(task),
            node: node_id(1),
            state: TaskState::Running,
            at: model::Time(1),
            message: None,
            programs: Box::default(),
        }]);
        applied.events.iter().any(|event| relevant(event, &w.tables))
    };
    assert!(!runs(&mut w, low[0]), "nobody waits");
    w.tasks(2, 1);
    assert!(runs(&mut w, low[1]));
    assert!(!runs(&mut w, low[1]), "it runs already");
    w.budget(1, 4, 0);
    assert!(!runs(&mut w, low[2]), "without a budget it might have ended before");
}

/// Several nodes draw on one budget, and others of lower rank are taken where it is used up.
#[test]
fn a_budget_is_drawn_on_once() {
    let mut w = World::new((1..=3).map(node));
    w.prioritised(1, constrained(spec(reserve(4 * CPU, 0)), &["node.hostname!=n3"]), 10);
    w.prioritised(2, constrained(spec(reserve(4 * CPU, 0)), &["node.hostname==n3"]), 20);
    let (budgeted, other) = (w.tasks(1, 2), w.tasks(2, 1));
    w.settle();
    w.budget(1, 2, 1);
    budgeted.iter().chain(&other).for_each(|task| w.report(*task, TaskState::Running));
    w.prioritised(3, spec(reserve(4 * CPU, 0)), 50);
    w.steer(3, |s| s.preempt = true);
    let high = w.tasks(3, 3);
    w.settle();
    assert_eq!(told_to_end(&w, &budgeted).len(), 1);
    assert_eq!(told_to_end(&w, &other), other);
    let said = "preemption would break the budget of s1 on 1 node";
    assert!(w.why(high[2]).contains(said), "{}", w.why(high[2]));
}
