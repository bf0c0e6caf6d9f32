//! Stories of new revisions on their way through the slots.

mod world;

use model::{Availability, Condition, Mode, Span, UpdatePolicy, UpdateState};
use world::{SECOND, World, constrained, replicas, spec, with};

/// Without a watch, as the tests of the mere pace want it.
fn pace(parallelism: u32, delay: Span) -> UpdatePolicy {
    UpdatePolicy { parallelism, delay, monitor: Span::ZERO, ..UpdatePolicy::default() }
}

fn slow(command: &str) -> model::TaskSpec {
    with(spec(command), |s| drop(s.programs[0].env.insert("STOP_MS".into(), "1000".into())))
}

/// Each row: parallelism, then how many tasks run each second while six slots that take a second to stop
/// are updated.
#[test]
fn at_most_so_many_slots_change_at_once() {
    for (parallelism, delay, running, revisions_after) in [
        (1, 0, [5, 5, 5, 5, 5, 5, 6], [1, 2, 3, 4, 5, 6, 6]),
        (2, 0, [4, 4, 4, 6, 6, 6, 6], [2, 4, 6, 6, 6, 6, 6]),
        (4, 0, [2, 4, 6, 6, 6, 6, 6], [4, 6, 6, 6, 6, 6, 6]),
        (0, 0, [0, 6, 6, 6, 6, 6, 6], [6, 6, 6, 6, 6, 6, 6]),
        (1, 1, [5, 6, 5, 6, 5, 6, 5], [1, 1, 2, 2, 3, 3, 4]),
    ] {
        let mut w = World::new(&["a"]);
        let delay = Span::from_secs(delay);
        let s = w.create_with(replicas(6), slow("runs"), pace(parallelism, delay));
        w.settle();
        w.update(s, slow("runs"));
        for second in 0..7 {
            w.settle();
            assert_eq!(
                w.running(s),
                running[second],
                "parallelism {parallelism} at {second} s: {}",
                w.show(s)
            );
            w.pass(SECOND);
            let new = w.revisions(s).iter().filter(|r| **r == 2).count();
            assert_eq!(
                new,
                revisions_after[second],
                "parallelism {parallelism} after {second} s: {}",
                w.show(s)
            );
        }
        let said = w.decisions(s).iter().filter(|d| d.starts_with("update: 1 task of another")).count();
        let at_once = w.decisions(s).iter().filter(|d| d.contains("tasks of another")).count();
        assert_eq!(said + at_once, 1, "{:?}", w.decisions(s));
    }
}

#[test]
fn a_broken_revision_takes_down_no_more_than_it_has_and_is_repaired() {
    // How it breaks, and what the paused update says of it.
    for (broken, why) in [
        (with(spec("rejects"), |s| s.replace.delay = SECOND), "was rejected (no such thing)"),
        (spec("stuck"), "is preparing and does not run after 10m0s"),
        (with(spec("exits 1 0"), |s| s.replace.delay = SECOND), "failed with exit code 1"),
        (with(spec("exits 1 4900"), |s| s.replace.delay = SECOND), "failed with exit code 1"),
        (with(spec("exits 0 100"), |s| s.replace.delay = SECOND), "completed with exit code 0"),
        (with(spec("rejects"), |s| s.replace.max_attempts = 2), "was rejected (no such thing)"),
        (with(spec("rejects"), |s| s.replace.condition = Condition::None), "was rejected (no such thing)"),
        (constrained("runs", "node.hostname==nowhere"), "found no node within 1m0s"),
    ] {
        let case = format!("{} {:?}", broken.programs[0].command.join(" "), broken.replace);
        let mut w = World::new(&["a"]);
        let s = w.create(replicas(5), slow("runs"));
        w.settle();
        w.update(s, broken);
        w.pass(Span::from_secs(700));
        let old = w.revisions(s).iter().filter(|r| **r == 1).count();
        assert_eq!(old, 4, "{case}: {}", w.show(s));
        let paused = format!("paused: update paused: slot 1 {why}; 1 of 5 slots failed, none may");
        assert_eq!(w.update_state(s), paused, "{case}");
        w.update(s, slow("runs"));
        w.pass(Span::from_secs(60));
        assert_eq!(w.revisions(s), [3; 5], "{case}: {}", w.show(s));
        assert_eq!(w.update_state(s), "completed: update completed");
    }
}

#[test]
fn a_standing_update_says_why() {
    let mut w = World::new(&["a"]);
    let s = w.create(replicas(3), spec("runs"));
    w.settle();
    w.update(s, with(spec("rejects"), |s| s.replace.max_attempts = 1));
    w.settle();
    assert_eq!(w.show(s), "1: shutdown, rejected, rejected; 2: running@a; 3: running@a");
    assert_eq!(
        w.decisions(s)[1..],
        [
            "update: 1 task of another revision replaced by revision 2, slots at once: 1",
            "replace: slot 1: was rejected; replaced",
            "update: update paused: slot 1 was rejected (no such thing); 1 of 3 slots failed, none may",
            "not-replaced: slot 1: was rejected (no such thing); not replaced: all 1 attempts are used up",
        ]
    );
}

#[test]
fn a_revision_that_recovers_goes_on() {
    let mut w = World::new(&["a"]);
    let s = w.create(replicas(3), spec("runs"));
    w.settle();
    w.update(
        s,
        with(spec("runs"), |s| s.placement.constraints.push("node.labels.x==y".parse().expect("one"))),
    );
    w.pass(Span::from_secs(59));
    assert_eq!(w.show(s), "1: shutdown, pending; 2: running@a; 3: running@a");
    w.label("a", "x", "y");
    w.settle();
    assert_eq!(w.revisions(s), [2, 1, 1], "the first one is watched before others are changed");
    w.pass(Span::from_secs(5));
    assert_eq!(w.revisions(s), [2, 2, 2]);
    assert_eq!(w.state_of(s), Some(UpdateState::Updating), "the last ones are still watched");
    w.pass(Span::from_secs(5));
    assert_eq!(w.state_of(s), Some(UpdateState::Completed));
}

#[test]
fn slots_that_do_not_run_come_first() {
    let mut w = World::new(&["a"]);
    let s = w.create(replicas(4), with(slow("runs"), |s| s.replace.delay = Span::from_secs(500)));
    w.settle();
    w.kill(s, 2, 1);
    w.settle();
    w.update(s, slow("stuck"));
    w.settle();
    assert_eq!(w.revisions(s), [1, 1, 1], "the slot that waited is the one in change: {}", w.show(s));
}

#[test]
fn an_update_with_scale_and_ends_meanwhile() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create_with(replicas(6), slow("runs"), pace(2, SECOND));
    w.settle();
    w.update(s, slow("runs"));
    w.settle();
    w.scale(s, 9);
    w.settle();
    w.kill(s, 4, 1);
    w.pass(SECOND);
    w.availability("a", Availability::Drain);
    w.pass(SECOND);
    w.scale(s, 5);
    w.pass(Span::from_secs(60));
    assert_eq!(w.revisions(s), [2; 5], "{}", w.show(s));
    w.roll_back(s);
    w.pass(Span::from_secs(60));
    assert_eq!(w.revisions(s), [1; 5], "{}", w.show(s));
}

#[test]
fn what_ended_for_good_runs_again_with_a_new_revision() {
    let mut w = World::new(&["a"]);
    let once = |force| {
        with(spec("exits 0 0"), |s| {
            s.replace.condition = Condition::OnFailure;
            s.force = force;
        })
    };
    let s = w.create(replicas(2), once(0));
    w.settle();
    assert_eq!(w.show(s), "1: complete; 2: complete");
    w.update(s, once(1));
    w.settle();
    assert_eq!(w.show(s), "1: complete, complete; 2: complete, complete");
}

#[test]
fn a_completed_task_does_not_hold_up_its_update() {
    let mut w = World::new(&["a"]);
    let s = w.create(replicas(3), spec("runs"));
    w.settle();
    w.update(s, with(spec("exits 0 1000"), |s| s.replace.condition = Condition::OnFailure));
    w.pass(Span::from_secs(10));
    assert!(w.show(s).split("; ").all(|slot| slot.ends_with("shutdown, complete")), "{}", w.show(s));
}

#[test]
fn global_services_roll_as_well_and_pass_over_nodes_that_take_nothing() {
    let mut w = World::new(&["a", "b", "c", "d"]);
    let s = w.create(Mode::Global, slow("runs"));
    w.settle();
    w.availability("b", Availability::Pause);
    w.state("c", model::NodeState::Down);
    w.update(s, slow("runs"));
    w.settle();
    assert_eq!(w.running(s), 2, "{}", w.show(s));
    w.pass(Span::from_secs(12));
    assert_eq!(w.revisions(s), [2, 1, 2], "{}", w.show(s));
    w.state("c", model::NodeState::Ready);
    w.pass(Span::from_secs(12));
    assert_eq!(w.revisions(s), [2, 1, 2, 2], "{}", w.show(s));
    w.availability("b", Availability::Active);
    w.pass(Span::from_secs(12));
    assert_eq!(w.revisions(s), [2, 2, 2, 2], "{}", w.show(s));
}

#[test]
fn a_node_that_is_paused_in_the_middle_of_its_change_holds_up_nobody() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(Mode::Global, slow("runs"));
    w.settle();
    w.update(s, slow("stuck"));
    w.pass(Span::from_secs(2));
    assert_eq!(w.revisions(s), [1]);
    w.update(s, slow("runs"));
    w.availability("a", Availability::Pause);
    w.pass(Span::from_secs(12));
    assert_eq!(w.revisions(s), [3], "{}", w.show(s));
}

#[test]
fn constraints_of_a_new_revision_are_met_at_the_pace_of_the_update() {
    let mut w = World::new(&["a", "b"]);
    w.label("b", "disk", "ssd");
    let s = w.create(replicas(4), slow("runs"));
    w.settle();
    w.update(
        s,
        with(slow("runs"), |t| t.placement.constraints.push("node.labels.disk==ssd".parse().expect("one"))),
    );
    w.settle();
    // A change of the node asks the tasks for the constraints that they were made with.
    w.label("a", "other", "label");
    w.settle();
    assert_eq!(w.running(s), 3, "{}", w.show(s));
    w.pass(Span::from_secs(10));
    let on_b = |t: &std::sync::Arc<model::Task>| t.node == Some(w.node_named("b").id);
    assert!(w.tables.tasks_of_service(s).filter(|t| t.fills_slot()).all(on_b), "{}", w.show(s));
}

/// 1 to 2 (half way), to 3 (hardly begun), back to what 2 was: its tasks stay.
#[test]
fn back_to_a_revision_that_some_slots_run_keeps_their_tasks() {
    let mut w = World::new(&["a"]);
    let s = w.create(replicas(4), slow("runs"));
    w.settle();
    w.update(s, slow("runs"));
    w.pass(Span::from_secs(12));
    let second = w.tables.service(s).expect("it is there").revision;
    w.update(s, slow("stuck"));
    w.pass(SECOND);
    let of_second = |w: &World| -> Vec<model::TaskId> {
        let filling = w.tables.tasks_of_service(s).filter(|t| t.fills_slot());
        filling.filter(|t| t.revision == second).map(|t| t.id).collect()
    };
    let before = of_second(&w);
    assert!(before.len() >= 2, "{}", w.show(s));
    w.change_service(s, |service| service.revise(second));
    w.pass(Span::from_secs(60));
    assert!(before.iter().all(|id| of_second(&w).contains(id)), "{}", w.show(s));
    assert_eq!(w.revisions(s), [2; 4]);
    assert_eq!(w.state_of(s), Some(UpdateState::Completed));
}

/// D13 (nomad#12680, #16515, #14925): a node that is cut off and comes back before it is given up neither stops nor starts anything, whatever the
/// policy, and its task gets the next update. One that was given up is replaced exactly once.
#[test]
fn d13_a_node_that_comes_back_has_what_it_had_and_gets_the_update() {
    for condition in [Condition::Any, Condition::None] {
        let mut w = World::new(&["a", "b"]);
        let task = |force| {
            with(constrained("runs", "node.hostname==a"), |t| {
                t.replace.condition = condition;
                t.force = force;
            })
        };
        let s = w.create(replicas(1), task(0));
        w.settle();
        let before = w.show(s);
        for state in [model::NodeState::Disconnected, model::NodeState::Unknown, model::NodeState::Ready] {
            w.state("a", state);
            w.pass(Span::from_secs(20));
            assert_eq!(w.show(s), before, "{state:?}");
        }
        w.update(s, task(1));
        w.pass(Span::from_secs(30));
        assert_eq!((w.revisions(s), w.state_of(s)), (vec![2], Some(UpdateState::Completed)), "{}", w.show(s));

        w.state("a", model::NodeState::Down);
        w.pass(Span::from_secs(30));
        w.state("a", model::NodeState::Ready);
        w.pass(Span::from_secs(90));
        assert_eq!(w.show(s), "1: shutdown, shutdown, running@a");
        w.update(s, task(2));
        w.pass(Span::from_secs(30));
        assert_eq!(w.revisions(s), [3], "{}", w.show(s));
    }
}
