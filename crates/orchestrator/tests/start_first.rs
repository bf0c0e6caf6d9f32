//! Stories of updates in which the new task of a slot starts before the old one ends, and of their rollback.

mod world;

use model::{
    Availability, Condition, FailureAction, Mode, Mount, NodeState, PortMode, PortSpec, Protocol, Ratio,
    Sharing, Slot, Span, TaskId, TaskState, UpdateOrder, UpdatePolicy, UpdateState, Volume,
};
use world::{SECOND, World, replicas, spec, with};

fn start_first() -> UpdatePolicy {
    UpdatePolicy { order: UpdateOrder::StartFirst, ..UpdatePolicy::default() }
}

fn slow(command: &str) -> model::TaskSpec {
    with(spec(command), |s| drop(s.programs[0].env.insert("STOP_MS".into(), "1000".into())))
}

fn seconds(n: i64) -> Span {
    Span::from_secs(n)
}

/// The tasks that run, by slot.
fn running(w: &World, s: model::ServiceId) -> Vec<TaskId> {
    let runs =
        |t: &&std::sync::Arc<model::Task>| t.status.state == TaskState::Running && t.desired.is_wanted();
    w.tables.tasks_of_service(s).filter(runs).map(|t| t.id).collect()
}

#[test]
fn the_old_task_runs_until_the_new_one_has_been_watched() {
    let mut w = World::new(&["a"]);
    let s = w.create_with(replicas(2), slow("runs"), start_first());
    w.settle();
    let old = running(&w, s);
    w.update(s, slow("runs"));
    w.pass(seconds(4));
    assert_eq!(w.show(s), "1: running@a, running@a; 2: running@a");
    assert!(old.iter().all(|id| running(&w, s).contains(id)));
    w.pass(SECOND);
    assert_eq!(w.show(s), "1: running->shutdown@a, running@a; 2: running@a", "the second one waits for it");
    w.pass(SECOND);
    assert_eq!(w.show(s), "1: shutdown, running@a; 2: running@a, running@a");
    w.pass(seconds(6));
    assert_eq!(w.show(s), "1: shutdown, running@a; 2: shutdown, running@a");
    assert_eq!(w.update_state(s), "completed: update completed");
    assert_eq!(w.revisions(s), [2, 2]);
}

/// U1 (moby#37972): an update that never gets well, with a rollback: the old task runs all the time.
#[test]
fn a_rollback_never_touches_a_healthy_original() {
    for broken in ["rejects", "stuck", "exits 1 0", "exits 1 4000"] {
        let mut w = World::new(&["a", "b"]);
        let policy =
            UpdatePolicy { delay: seconds(10), failure_action: FailureAction::Rollback, ..start_first() };
        let s = w.create_with(replicas(3), slow("runs"), policy);
        w.settle();
        let before = running(&w, s);
        w.update(s, with(spec(broken), |t| t.replace.delay = seconds(5)));
        for _ in 0..700 {
            w.pass(SECOND);
            let now = running(&w, s);
            assert!(before.iter().all(|id| now.contains(id)), "{broken}: {}", w.show(s));
        }
        assert_eq!(running(&w, s), before, "{broken}");
        assert_eq!(w.revisions(s), [1, 1, 1]);
        let told = w.update_state(s);
        assert!(
            told.starts_with(
                "rollback_completed: rollback completed (update rolled back to revision 1: slot 1 "
            ),
            "{told}"
        );
        let service = w.tables.service(s).expect("it is there");
        assert!(service.update_status.as_ref().is_some_and(|u| u.automatic));
    }
}

/// A slot that came through before another one failed is changed back; the others keep their tasks.
#[test]
fn a_rollback_changes_back_what_was_changed() {
    for order in [UpdateOrder::StopFirst, UpdateOrder::StartFirst] {
        let mut w = World::new(&["a"]);
        let update =
            UpdatePolicy { failure_action: FailureAction::Rollback, order, ..UpdatePolicy::default() };
        let s = w.create_with(replicas(3), slow("runs"), update);
        w.policies(s, update, UpdatePolicy { order, ..UpdatePolicy::default() });
        w.settle();
        let before = running(&w, s);
        w.update(s, slow("runs"));
        w.pass(seconds(8));
        assert_eq!(
            w.revisions(s).iter().filter(|r| **r == 2).count(),
            if order == UpdateOrder::StopFirst { 3 } else { 2 }
        );
        // The newest task fails while it is watched.
        let new = w.tables.tasks_of_service(s).filter(|t| t.status.state == TaskState::Running);
        let newest = new.max_by_key(|t| (t.created, t.slot)).expect("one runs").clone();
        w.report(&newest, TaskState::Failed, Some(9));
        w.settle();
        assert_eq!(w.state_of(s), Some(UpdateState::RollbackStarted), "{}", w.show(s));
        w.pass(seconds(60));
        assert_eq!(w.revisions(s), [1, 1, 1], "{}", w.show(s));
        assert_eq!(w.state_of(s), Some(UpdateState::RollbackCompleted));
        let kept = running(&w, s).iter().filter(|id| before.contains(id)).count();
        assert_eq!(kept, if order == UpdateOrder::StopFirst { 0 } else { 2 }, "{}", w.show(s));
    }
}

/// moby#36699: a surge for which there is no room.
#[test]
fn a_surge_that_does_not_fit_counts_as_failed_with_its_reason() {
    let fails = |action| UpdatePolicy { failure_action: action, ..start_first() };
    for (action, state, told) in [
        (
            FailureAction::Pause,
            UpdateState::Paused,
            "update paused: slot 1 was rejected (found no node within 1m0s: no suitable node (full on 2 nodes)); 1 of 4 slots failed, none may",
        ),
        (
            FailureAction::Rollback,
            UpdateState::RollbackCompleted,
            "rollback completed (update rolled back to revision 1: slot 1 was rejected (found no node within 1m0s: no suitable node (full on 2 nodes)); 1 of 4 slots failed, none may)",
        ),
        (
            FailureAction::Continue,
            UpdateState::Completed,
            "update completed, although 4 of 4 slots failed: slot 4 was rejected (found no node within 1m0s)",
        ),
    ] {
        let mut w = World::new(&["a", "b"]);
        w.room = 2;
        let s = w.create_with(replicas(4), slow("runs"), fails(action));
        w.settle();
        let before = running(&w, s);
        w.update(s, slow("runs"));
        w.settle();
        let waiting = w.tables.tasks_waiting().next().expect("the surge waits").id;
        let text = "full on 2 nodes".into();
        let refusal = model::Refusal { filter: model::FilterKind::Resources, nodes: 2, text };
        let unplaced = Some(std::sync::Arc::new(model::Unplaced { refusals: vec![refusal] }));
        w.apply(vec![store::Change::ExplainTasks { tasks: vec![waiting], unplaced }]);
        w.pass(seconds(59));
        assert_eq!(w.state_of(s), Some(UpdateState::Updating));
        w.pass(seconds(300));
        assert_eq!(running(&w, s), before, "{action}: {}", w.show(s));
        assert_eq!(w.update_state(s), format!("{state}: {told}"));
        let pending = w.tables.tasks_waiting().filter(|t| t.desired.is_wanted()).count();
        // While it goes on, one at a time is tried again; otherwise none is forgotten beside a running one.
        assert_eq!(pending, usize::from(action == FailureAction::Continue), "{}", w.show(s));
        if action == FailureAction::Continue {
            w.join("c");
            w.pass(seconds(200));
            assert_eq!(w.revisions(s), [2; 4], "there is room now: {}", w.show(s));
        }
    }
}

/// The same, and there is room in time.
#[test]
fn a_surge_that_fits_in_time_goes_on() {
    let mut w = World::new(&["a"]);
    w.room = 2;
    let s = w.create_with(replicas(2), slow("runs"), start_first());
    w.settle();
    w.update(s, slow("runs"));
    w.pass(seconds(50));
    assert_eq!(w.show(s), "1: running@a, pending; 2: running@a");
    w.join("b");
    w.pass(seconds(30));
    assert_eq!(w.revisions(s), [2, 2], "{}", w.show(s));
    assert_eq!(w.state_of(s), Some(UpdateState::Completed));
}

/// U4 (swarmkit#2242): the number of replicas is right in the end, whatever dies meanwhile.
#[test]
fn replicas_are_right_after_ends_in_the_middle() {
    for order in [UpdateOrder::StopFirst, UpdateOrder::StartFirst] {
        for condition in [Condition::Any, Condition::None] {
            for at in [0, 1, 4, 5, 6, 9] {
                for slot in 0..4 {
                    let mut w = World::new(&["a", "b"]);
                    let task = || with(slow("runs"), |t| t.replace.condition = condition);
                    let policy = UpdatePolicy { order, ..UpdatePolicy::default() };
                    let s = w.create_with(replicas(4), task(), policy);
                    w.settle();
                    w.update(s, task());
                    w.pass(seconds(at));
                    let old = w
                        .tables
                        .tasks_of_slot(s, Slot::Number(slot))
                        .find(|t| t.status.state == TaskState::Running && t.fills_slot());
                    let Some(old) = old.cloned() else { continue };
                    let was_new = w.tables.revision(old.revision).is_some_and(|r| r.number == 2);
                    w.report(&old, TaskState::Failed, Some(137));
                    w.pass(seconds(120));
                    let case = format!(
                        "{order} {condition:?} slot {slot} at {at}: {} {}",
                        w.show(s),
                        w.update_state(s)
                    );
                    if was_new {
                        // It failed while it was watched, or ended for good: the update says so.
                        assert!(
                            matches!(w.state_of(s), Some(UpdateState::Paused | UpdateState::Completed)),
                            "{case}"
                        );
                        continue;
                    }
                    assert_eq!(w.running(s), 4, "{case}");
                    assert_eq!(w.revisions(s), [2; 4], "{case}");
                    assert_eq!(w.tables.service_use(s).filled(), 4, "{case}");
                }
            }
        }
    }
}

#[test]
fn a_failed_slot_beside_a_running_one_is_tried_again_as_its_policy_says() {
    let mut w = World::new(&["a"]);
    let policy = UpdatePolicy { failure_action: FailureAction::Continue, parallelism: 2, ..start_first() };
    let s = w.create_with(replicas(2), spec("runs"), policy);
    w.settle();
    let before = running(&w, s);
    w.update(
        s,
        with(spec("exits 3 100"), |t| {
            t.replace.delay = seconds(2);
            t.replace.max_attempts = 2;
        }),
    );
    w.pass(seconds(60));
    assert_eq!(running(&w, s), before);
    assert_eq!(w.show(s), "1: running@a, failed, failed, failed; 2: running@a, failed, failed, failed");
    assert_eq!(
        w.update_state(s),
        "completed: update completed, although 2 of 2 slots failed: slot 2 failed with exit code 3"
    );
    w.change_cluster(|c| c.history = 0);
    w.pass(seconds(60));
    assert_eq!(running(&w, s), before, "what has been tried is remembered: {}", w.show(s));
    w.update(s, spec("runs"));
    w.pass(seconds(30));
    assert_eq!(w.revisions(s), [3, 3]);
}

fn uses(volume: &str, read_only: bool) -> model::TaskSpec {
    with(slow("runs"), |s| s.mounts.push(Mount { volume: volume.into(), read_only }))
}

#[test]
fn a_global_service_starts_first_where_there_is_room_for_two() {
    let port =
        PortSpec { name: "".into(), protocol: Protocol::Tcp, target: 0, published: 80, mode: PortMode::Host };
    for (name, task, first) in [
        ("free", slow("runs"), true),
        (
            "a given port",
            with(slow("runs"), |t| t.ports.push(PortSpec { published: 0, ..port.clone() })),
            true,
        ),
        ("a fixed port", with(slow("runs"), |t| t.ports.push(port.clone())), false),
        ("one a node", with(slow("runs"), |t| t.placement.max_replicas = 1), false),
        ("a volume for all", uses("shared", false), true),
        ("a volume for one", uses("own", false), false),
        ("a volume for one writer", uses("written", false), false),
        ("a volume that is read", uses("written", true), true),
    ] {
        let mut w = World::new(&["a", "b"]);
        for node in ["a", "b"] {
            w.describe(node, |d| {
                let shares = [Sharing::All, Sharing::None, Sharing::OneWriter];
                for (name, sharing) in ["shared", "own", "written"].into_iter().zip(shares) {
                    d.volumes.insert(name.into(), Volume { path: "/srv".into(), read_only: false, sharing });
                }
            });
        }
        let s = w.create_with(Mode::Global, task.clone(), start_first());
        w.settle();
        w.update(s, with(task, |t| t.force = 1));
        w.settle();
        let expected = if first {
            "a: running@a, running@a; b: running@b"
        } else if name.starts_with("a volume") {
            // The agent has not said yet that the old one let go of it.
            "a: running->shutdown@a, pending->ready; b: running@b"
        } else {
            "a: running->shutdown@a, ready->ready@a; b: running@b"
        };
        assert_eq!(w.show(s), expected, "{name}");
        w.pass(seconds(30));
        assert_eq!(w.revisions(s), [2, 2], "{name}: {}", w.show(s));
        assert_eq!(w.state_of(s), Some(UpdateState::Completed), "{name}");
    }
}

#[test]
fn a_new_update_in_the_middle_of_one_leaves_no_third_task() {
    let mut w = World::new(&["a"]);
    let s = w.create_with(replicas(3), slow("runs"), UpdatePolicy { parallelism: 2, ..start_first() });
    w.settle();
    let before = running(&w, s);
    w.update(s, slow("stuck"));
    w.pass(seconds(2));
    assert_eq!(w.show(s), "1: running@a, preparing@a; 2: running@a, preparing@a; 3: running@a");
    w.update(s, slow("runs"));
    w.pass(seconds(3));
    assert!(before.iter().all(|id| running(&w, s).contains(id)), "{}", w.show(s));
    w.pass(seconds(30));
    assert_eq!(w.revisions(s), [3, 3, 3], "{}", w.show(s));
    let service = w.tables.service(s).expect("it is there");
    let previous = w.tables.revision(service.previous.expect("one")).expect("it is kept").number;
    assert_eq!(previous, 1, "a rollback goes to what last came through");
}

#[test]
fn back_to_the_spec_before_in_the_middle_keeps_what_still_runs() {
    let mut w = World::new(&["a"]);
    let s = w.create_with(replicas(3), slow("runs"), start_first());
    w.policies(s, start_first(), start_first());
    w.settle();
    let before = running(&w, s);
    w.update(s, slow("stuck"));
    w.pass(seconds(2));
    w.roll_back(s);
    w.pass(seconds(2));
    assert_eq!(running(&w, s), before);
    assert_eq!(w.update_state(s), "rollback_completed: rollback completed (as requested)");
    // And the rollback of the rollback.
    w.roll_back(s);
    w.pass(seconds(2));
    assert_eq!(w.state_of(s), Some(UpdateState::RollbackStarted));
    assert!(before.iter().all(|id| running(&w, s).contains(id)), "{}", w.show(s));
}

#[test]
fn a_node_that_goes_down_in_the_middle() {
    for order in [UpdateOrder::StopFirst, UpdateOrder::StartFirst] {
        for at in [0, 2, 5, 7, 12] {
            let mut w = World::new(&["a", "b", "c"]);
            let s =
                w.create_with(replicas(5), slow("runs"), UpdatePolicy { order, ..UpdatePolicy::default() });
            w.settle();
            w.update(s, slow("runs"));
            w.pass(seconds(at));
            w.state("a", NodeState::Down);
            w.pass(seconds(100));
            assert_eq!(w.revisions(s), [2; 5], "{order} at {at}: {}", w.show(s));
            assert_eq!(
                w.state_of(s),
                Some(UpdateState::Completed),
                "a lost task says nothing: {}",
                w.update_state(s)
            );
            w.state("a", NodeState::Ready);
            w.availability("b", Availability::Drain);
            w.pass(seconds(100));
            assert_eq!(w.running(s), 5, "{order} at {at}: {}", w.show(s));
        }
    }
}

#[test]
fn scaling_in_the_middle() {
    for order in [UpdateOrder::StopFirst, UpdateOrder::StartFirst] {
        for (at, to) in [(1, 6), (1, 2), (6, 8), (6, 1), (8, 0)] {
            let mut w = World::new(&["a"]);
            let s =
                w.create_with(replicas(4), slow("runs"), UpdatePolicy { order, ..UpdatePolicy::default() });
            w.settle();
            w.update(s, slow("runs"));
            w.pass(seconds(at));
            w.scale(s, to);
            w.pass(seconds(100));
            assert_eq!(w.revisions(s), vec![2; to as usize], "{order} {to} at {at}: {}", w.show(s));
            assert_eq!(w.state_of(s), Some(UpdateState::Completed));
        }
    }
}

#[test]
fn a_share_of_the_slots_may_fail() {
    // Slots 1 and 3 of 10 fail; each row: the share that may, and what becomes of the update.
    for (ratio, state) in [
        ("0", UpdateState::Paused),
        ("0.1", UpdateState::Paused),
        ("0.19", UpdateState::Paused),
        ("0.2", UpdateState::Completed),
        ("1", UpdateState::Completed),
    ] {
        for parallelism in [0, 1, 3] {
            let mut w = World::new(&["a"]);
            let policy = UpdatePolicy {
                max_failure_ratio: Ratio::parse(ratio).expect("a ratio"),
                parallelism,
                ..UpdatePolicy::default()
            };
            let s = w.create_with(replicas(10), slow("runs"), policy);
            w.settle();
            w.update(s, with(slow("runs"), |t| t.replace.delay = SECOND));
            for slot in [0, 2] {
                let revision = w.tables.service(s).expect("it is there").revision;
                for _ in 0..30 {
                    let task = w.filling(s, Slot::Number(slot)).expect("a task");
                    if task.revision == revision && task.status.state == TaskState::Running {
                        w.kill(s, slot, 1);
                        break;
                    }
                    w.pass(SECOND);
                }
            }
            w.pass(seconds(120));
            assert_eq!(w.state_of(s), Some(state), "{ratio} {parallelism}: {}", w.update_state(s));
            if state == UpdateState::Completed {
                assert!(w.update_state(s).contains("although 2 of 10 slots failed"), "{}", w.update_state(s));
                assert_eq!(w.revisions(s), [2; 10]);
            }
        }
    }
}

#[test]
fn a_paused_update_leaves_what_it_has_not_changed_as_it_was() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(3), with(spec("runs"), |t| t.replace.delay = SECOND));
    w.settle();
    w.update(s, with(spec("exits 1 100"), |t| t.replace.max_attempts = 1));
    w.pass(seconds(5));
    assert_eq!(w.state_of(s), Some(UpdateState::Paused));
    // An old task ends, another one's node goes away: neither slot gets the broken revision.
    w.kill(s, 1, 1);
    w.state("b", NodeState::Down);
    w.pass(seconds(30));
    assert_eq!(w.revisions(s), [1, 1], "{}", w.show(s));
    // Force takes the same spec up again.
    w.update(s, with(spec("runs"), |t| t.force = 1));
    w.pass(seconds(30));
    assert_eq!(w.revisions(s), [3, 3, 3]);
}

#[test]
fn a_rollback_that_fails_stands_still_and_is_not_rolled_back() {
    let mut w = World::new(&["a"]);
    let policy = UpdatePolicy { failure_action: FailureAction::Rollback, ..UpdatePolicy::default() };
    let s = w.create_with(replicas(2), spec("runs"), policy);
    w.label("a", "x", "y");
    w.update(
        s,
        with(spec("runs"), |t| t.placement.constraints.push("node.labels.x==y".parse().expect("one"))),
    );
    w.pass(seconds(20));
    assert_eq!(w.revisions(s), [2, 2]);
    w.update(s, spec("exits 1 2000"));
    w.settle();
    // What it would go back to cannot run any more.
    w.label("a", "x", "z");
    w.pass(seconds(100));
    assert_eq!(w.state_of(s), Some(UpdateState::RollbackPaused), "{} {}", w.show(s), w.update_state(s));
    assert!(
        w.update_state(s).contains("rollback paused: slot 1 found no node within 1m0s"),
        "{}",
        w.update_state(s)
    );
    w.label("a", "x", "y");
    w.update(s, spec("runs"));
    w.pass(seconds(30));
    assert_eq!(w.revisions(s), [4, 4]);
}

#[test]
fn another_manager_takes_the_update_over_where_it_stands() {
    let script = |take_over_at: Option<i64>, broken: bool, order| {
        let mut w = World::new(&["a", "b"]);
        let policy = UpdatePolicy {
            order,
            failure_action: FailureAction::Rollback,
            delay: SECOND,
            ..UpdatePolicy::default()
        };
        let s = w.create_with(replicas(3), slow("runs"), policy);
        w.settle();
        w.update(s, if broken { slow("exits 1 3000") } else { slow("runs") });
        for second in 0..60 {
            w.pass(SECOND);
            if take_over_at == Some(second) {
                w.take_over();
            }
        }
        (w.show(s), w.update_state(s), w.revisions(s))
    };
    for order in [UpdateOrder::StopFirst, UpdateOrder::StartFirst] {
        for broken in [false, true] {
            let alone = script(None, broken, order);
            for second in 0..20 {
                assert_eq!(script(Some(second), broken, order), alone, "{order} {broken} at {second}");
            }
        }
    }
}

/// With next to no monitor a task that ends soon has come through all the same. Slots in which such tasks come and go take nobody's
/// turn once the update is over: the others are brought to the new revision as well.
#[test]
fn what_crashes_after_the_update_keeps_no_other_slot_back() {
    let mut w = World::new(&["a"]);
    let policy = UpdatePolicy { monitor: Span::from_millis(1), ..start_first() };
    let s = w.create_with(replicas(6), slow("runs"), policy);
    w.settle();
    w.update(s, with(spec("exits 9 2"), |t| t.replace.delay = Span::from_millis(100)));
    w.pass(seconds(60));
    assert!(w.update_state(s).starts_with("completed"), "{}", w.update_state(s));
    assert!(!w.revisions(s).contains(&1), "{:?}: {}", w.revisions(s), w.show(s));
}

/// The original of a slot ends by itself after a rollback: its own policy decides, although what stood beside it is newer.
#[test]
fn an_original_that_ends_after_a_rollback_is_replaced_as_its_policy_says() {
    let mut w = World::new(&["a"]);
    let once = |command| with(spec(command), |t| t.replace.condition = Condition::OnFailure);
    let s = w.create_with(replicas(1), once("exits 0 30000"), start_first());
    w.settle();
    w.update(s, once("stuck"));
    w.pass(seconds(2));
    w.roll_back(s);
    w.pass(seconds(60));
    assert_eq!(w.show(s), "1: complete, shutdown");
}

/// The last task of a slot that was changed cannot end, since its node is away: once that is known, the next slot's turn comes.
#[test]
fn an_update_goes_on_when_the_node_of_an_old_task_is_down() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create_with(replicas(2), slow("runs"), start_first());
    w.settle();
    w.update(s, slow("runs"));
    w.settle();
    // The old one's node no longer answers, and nobody knows yet.
    let old = w.tables.tasks_of_slot(s, Slot::Number(0)).next().expect("the old one").clone();
    let name =
        w.tables.node(old.node.expect("its node")).expect("it is there").description.hostname.to_string();
    w.state(&name, NodeState::Disconnected);
    w.pass(seconds(20));
    w.state(&name, NodeState::Down);
    w.settle();
    w.pass(seconds(20));
    assert_eq!(w.revisions(s), [2, 2], "{}", w.show(s));
}
