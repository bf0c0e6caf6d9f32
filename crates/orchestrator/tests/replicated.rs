//! Stories of replicated services: scale, ends and replacements, removal, duplicates, history.

mod world;

use model::{Condition, Desired, NodeState, Slot, Span, TaskId, TaskState};
use store::Change;
use world::{SECOND, World, constrained, replicas, spec, with};

#[test]
fn scale_up_and_down() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(0), spec("runs"));
    for (n, shown) in [
        (0, ""),
        (3, "1: running@a; 2: running@b; 3: running@a"),
        (1, "1: running@a"),
        (2, "1: running@a; 2: running@b"),
        (0, ""),
    ] {
        w.scale(s, n);
        w.settle();
        assert_eq!(w.show(s), shown, "{n} replicas");
    }
    let decisions = w.decisions(s);
    assert_eq!(
        decisions,
        [
            "scale-up: 3 tasks created: replicas 3, filled 0",
            "scale-down: 2 tasks removed: replicas 1, filled 3",
            "scale-up: 1 task created: replicas 2, filled 1",
            "scale-down: 2 tasks removed: replicas 0, filled 2",
        ]
    );
}

#[test]
fn what_waits_for_a_node_is_removed_without_a_trace() {
    let mut w = World::new(&[]);
    let s = w.create(replicas(3), spec("runs"));
    w.settle();
    assert_eq!(w.show(s), "1: pending; 2: pending; 3: pending");
    w.scale(s, 1);
    w.settle();
    assert_eq!(w.show(s), "1: pending");
}

#[test]
fn a_killed_task_is_replaced_after_the_delay_in_its_slot() {
    let mut w = World::new(&["a"]);
    let s = w.create(replicas(2), with(spec("runs"), |s| s.replace.delay = Span::from_secs(5)));
    w.settle();
    let old = w.kill(s, 1, 137);
    w.settle();
    // The replacement is there and prepared at once; it runs when the delay has passed.
    assert_eq!(w.show(s), "1: running@a; 2: failed, ready->ready@a");
    w.pass(Span::from_millis(4999));
    assert_eq!(w.show(s), "1: running@a; 2: failed, ready->ready@a");
    w.pass(Span::from_millis(1));
    assert_eq!(w.show(s), "1: running@a; 2: failed, running@a");
    let new = w.filling(s, Slot::Number(1)).expect("a task");
    assert_ne!(new.id, old);
    assert_eq!(
        w.decisions(s)[1..],
        [
            "replace: slot 2: failed with exit code 137; replaced after 5s",
            "start-delayed: slot 2: the delay of 5s has passed",
        ]
    );
}

#[test]
fn a_delay_holds_up_no_other_slot() {
    let mut w = World::new(&["a"]);
    let s = w.create(replicas(3), with(spec("runs"), |s| s.replace.delay = Span::from_secs(60)));
    w.settle();
    w.kill(s, 0, 1);
    w.pass(Span::from_secs(10));
    w.kill(s, 1, 1);
    w.scale(s, 4);
    w.settle();
    assert_eq!(w.show(s), "1: failed, ready->ready@a; 2: failed, ready->ready@a; 3: running@a; 4: running@a");
    w.pass(Span::from_secs(50));
    assert_eq!(w.show(s), "1: failed, running@a; 2: failed, ready->ready@a; 3: running@a; 4: running@a");
    w.pass(Span::from_secs(10));
    assert_eq!(w.show(s), "1: failed, running@a; 2: failed, running@a; 3: running@a; 4: running@a");
}

#[test]
fn conditions_and_ends() {
    let never = "not replaced: its policy never replaces";
    let success = "not replaced: its policy replaces on failure only";
    for (condition, command, shown, why) in [
        (
            Condition::None,
            "exits 0 1000",
            "1: complete",
            Some(format!("slot 1: completed with exit code 0; {never}")),
        ),
        (
            Condition::None,
            "exits 3 1000",
            "1: failed",
            Some(format!("slot 1: failed with exit code 3; {never}")),
        ),
        (
            Condition::None,
            "rejects",
            "1: rejected",
            Some(format!("slot 1: was rejected (no such thing); {never}")),
        ),
        (
            Condition::OnFailure,
            "exits 0 1000",
            "1: complete",
            Some(format!("slot 1: completed with exit code 0; {success}")),
        ),
        (Condition::OnFailure, "exits 3 1000", "1: failed, running@a", None),
        (Condition::Any, "exits 0 1000", "1: complete, running@a", None),
        (Condition::Any, "exits 3 1000", "1: failed, running@a", None),
    ] {
        let mut w = World::new(&["a"]);
        let s = w.create(replicas(1), with(spec(command), |s| s.replace.condition = condition));
        w.pass(Span::from_millis(1500));
        assert_eq!(w.show(s), shown, "{condition:?} {command}");
        let told: Vec<String> =
            w.decisions(s).into_iter().filter(|d| d.starts_with("not-replaced")).collect();
        assert_eq!(told, why.map(|w| format!("not-replaced: {w}")).into_iter().collect::<Vec<_>>());
        // The sentence is not said twice, and scaling does not wake what has ended for good.
        w.scale(s, 2);
        w.settle();
        if condition == Condition::None {
            assert!(w.show(s).starts_with(shown), "{}", w.show(s));
            assert_eq!(w.decisions(s).iter().filter(|d| d.starts_with("not-replaced: slot 1")).count(), 1);
        }
    }
}

#[test]
fn an_agent_that_shuts_a_task_down_by_itself() {
    for (condition, shown) in [
        (Condition::None, "1: shutdown"),
        (Condition::OnFailure, "1: shutdown, running@a"),
        (Condition::Any, "1: shutdown, running@a"),
    ] {
        let mut w = World::new(&["a"]);
        let s = w.create(replicas(1), with(spec("runs"), |s| s.replace.condition = condition));
        w.settle();
        let task = w.filling(s, Slot::Number(0)).expect("a task");
        w.report(&task, TaskState::Shutdown, None);
        w.settle();
        assert_eq!(w.show(s), shown, "{condition:?}");
    }
}

/// How many tasks one slot has had after ten minutes of a command, and whether it is over.
#[test]
fn attempts_and_window() {
    let s = Span::from_secs;
    for (command, attempts, delay, window, tasks, over) in [
        // The report: the window is as long as the delay. It must stop after three replacements.
        ("exits 1 0", 3, s(10), s(10), 4, true),
        ("exits 1 0", 3, s(10), s(5), 4, true),
        ("exits 1 0", 3, s(10), s(0), 4, true),
        ("exits 1 0", 1, s(0), s(0), 2, true),
        ("exits 1 0", 3, s(0), s(1), 4, true),
        ("rejects", 3, s(10), s(10), 4, true),
        // Ends that succeed are attempts as well, as in docker.
        ("exits 0 0", 2, s(1), s(0), 3, true),
        // Without a window ends count for ever.
        ("exits 1 60000", 3, s(0), s(0), 4, true),
        // Each has run for longer than the window: it starts afresh every time.
        ("exits 1 60000", 3, s(0), s(30), 10, false),
        // Runs add up: at the fourth end three runs of 20 s lie within 60 s, so all attempts are used up...
        ("exits 1 20000", 3, s(0), s(60), 4, true),
        // ... and within 59 s they do not.
        ("exits 1 20000", 3, s(0), s(59), 30, false),
        // No limit: a loop.
        ("exits 1 0", 0, s(60), s(0), 11, false),
    ] {
        let mut w = World::new(&["a"]);
        w.change_cluster(|c| c.history = 100);
        let service = w.create(
            replicas(1),
            with(spec(command), |t| {
                t.replace.max_attempts = attempts;
                t.replace.delay = delay;
                t.replace.window = window;
            }),
        );
        w.pass(s(600));
        let told = w.decisions(service).iter().filter(|d| d.starts_with("not-replaced")).count();
        let all = w.tables.service_use(service).total();
        let case = format!("{command}, {attempts} attempts, delay {delay}, window {window}");
        assert_eq!(
            (told == 1, w.running(service) == 0 && told == 1),
            (over, over),
            "{case}: {}",
            w.show(service)
        );
        assert!(all.abs_diff(tasks) <= u32::from(!over), "{case}: {all} tasks instead of {tasks}");
        if over {
            assert_eq!(all, tasks, "{case}");
        }
    }
}

#[test]
fn used_up_attempts_say_so_with_the_last_end() {
    let mut w = World::new(&["a"]);
    let s = w.create(
        replicas(1),
        with(spec("exits 7 0"), |t| {
            t.replace.max_attempts = 2;
            t.replace.window = Span::from_secs(10);
        }),
    );
    w.settle();
    let last = w.decisions(s).pop();
    let text =
        "not-replaced: slot 1: failed with exit code 7; not replaced: all 2 attempts within 10s are used up";
    assert_eq!(last.as_deref(), Some(text));
    // A new revision has all its attempts before it.
    w.update(s, with(spec("exits 8 0"), |t| t.replace.max_attempts = 1));
    w.settle();
    assert_eq!(w.show(s), "1: failed, failed, failed, failed, failed");
    // Going back to the first revision is a new start as well.
    w.roll_back(s);
    w.settle();
    let last = w.decisions(s).pop();
    assert_eq!(last.as_deref(), Some(text));
    w.scale(s, 0);
    w.settle();
    assert_eq!(w.show(s), "");
}

#[test]
fn a_crash_loop_does_not_crowd_out_other_decisions() {
    let mut w = World::new(&["a"]);
    let s = w.create(replicas(1), with(spec("exits 1 100"), |t| t.replace.delay = SECOND));
    w.pass(Span::from_secs(120));
    let mut told = w.decisions(s);
    told.sort();
    assert_eq!(
        told,
        [
            "replace: slot 1: failed with exit code 1; replaced after 1s",
            "scale-up: 1 task created: replicas 1, filled 0",
            "start-delayed: slot 1: the delay of 1s has passed",
        ]
    );
    let failed = w.tables.decisions(s).find(|d| d.rule == model::Rule::Replace).expect("kept");
    assert!(failed.times > 50, "each of them is counted: {failed:?}");
}

#[test]
fn what_is_rejected_while_it_waits_is_tried_once_in_each_delay() {
    let mut w = World::new(&["a"]);
    w.change_cluster(|c| c.history = 100);
    let s = w.create(replicas(1), with(spec("rejects"), |t| t.replace.delay = Span::from_secs(10)));
    for tries in 1..5 {
        w.pass(Span::from_millis(9_999));
        // The first end has its replacement at once, which is rejected at once as well.
        assert_eq!(w.ended(s), tries + 1, "{}", w.show(s));
        w.pass(Span::from_millis(1));
    }
}

#[test]
fn the_new_task_waits_for_the_old_one_for_a_minute_at_most() {
    for (stop_ms, waits) in [("3000", Span::from_secs(3)), ("600000", Span::from_secs(60))] {
        let mut w = World::new(&["a", "b"]);
        let task = with(spec("runs"), |s| drop(s.programs[0].env.insert("STOP_MS".into(), stop_ms.into())));
        let s = w.create(replicas(1), task);
        w.settle();
        w.availability("a", model::Availability::Drain);
        w.settle();
        assert_eq!(w.show(s), "1: running->shutdown@a, ready->ready@b");
        w.pass(Span(waits.0 - 1));
        assert_eq!(w.show(s), "1: running->shutdown@a, ready->ready@b");
        w.pass(Span(1));
        assert!(w.show(s).ends_with(", running@b"), "{}", w.show(s));
    }
}

#[test]
fn a_removed_service_leaves_nothing_whatever_its_tasks_were_doing() {
    let mut w = World::new(&["a", "b", "c"]);
    let slow = |command: &str| {
        with(spec(command), |s| drop(s.programs[0].env.insert("STOP_MS".into(), "2000".into())))
    };
    let running = w.create(replicas(2), slow("runs"));
    let on_b = "node.hostname==b";
    let stuck =
        w.create(replicas(1), with(constrained("stuck", on_b), |s| s.programs = slow("stuck").programs));
    let failed = w.create(replicas(1), with(spec("exits 1 0"), |s| s.replace.max_attempts = 2));
    let waiting = w.create(replicas(1), constrained("runs", "node.hostname==nowhere"));
    let later = Span::from_secs(90);
    let delayed = w.create(replicas(1), with(constrained("exits 1 0", on_b), |s| s.replace.delay = later));
    let global = w.create(model::Mode::Global, spec("runs"));
    w.settle();
    let all = [running, stuck, failed, waiting, delayed, global];
    for s in all {
        w.delete(s);
    }
    w.state("a", NodeState::Down);
    w.settle();
    assert_eq!([failed, waiting].map(|s| w.show(s)), ["", ""]);
    w.pass(Span::from_secs(2));
    assert_eq!([delayed, stuck].map(|s| w.show(s)), ["", ""]);
    assert_eq!(w.show(running), "1: running->remove@a");
    w.state("a", NodeState::Ready);
    w.pass(Span::from_secs(2));
    assert_eq!(all.map(|s| w.show(s)), [""; 6].map(String::from));
    assert_eq!(w.tables.services_with_tasks().count(), 0);
}

#[test]
fn of_two_tasks_in_a_slot_the_furthest_stays() {
    let mut w = World::new(&["a"]);
    let s = w.create(replicas(2), spec("runs"));
    w.settle();
    w.allow_doubles = true;
    let kept = w.filling(s, Slot::Number(1)).expect("a task").id;
    let revision = w.tables.service(s).expect("the service").revision;
    let double = |id: u128| Change::CreateTask {
        id: TaskId::from_u128(id),
        service: s,
        slot: Slot::Number(1),
        revision,
        node: None,
        desired: Desired::Running,
        start_after: None,
    };
    w.apply(vec![double(1), double(2)]);
    w.settle();
    assert_eq!(w.show(s), "1: running@a; 2: running@a");
    assert_eq!(w.filling(s, Slot::Number(1)).expect("a task").id, kept);
    assert_eq!(
        w.decisions(s).last().map(String::as_str),
        Some("duplicate: slot 2 was filled twice; the task that came furthest stays")
    );
    // The service finds them as well as the slot, and the end of one that had to go says nothing about the
    // slot.
    w.apply(vec![double(3)]);
    let key = orchestrator::Key::Service(s);
    let view = w.tables.clone();
    assert!(!w.look_at(&view, key).is_quiet());
    w.settle();
    w.kill(s, 1, 1);
    w.settle();
    assert_eq!(w.show(s), "1: running@a; 2: failed, running@a");
}

#[test]
fn ten_thousand_replicas_in_bounded_plans() {
    let mut w = World::new(&["a", "b"]);
    w.sweeps = false;
    let s = w.create(replicas(10_000), spec("runs"));
    w.reconcile_marked();
    assert_eq!(w.tables.service_use(s).filled(), 10_000);
    assert_eq!(w.planned.len(), 20);
    assert_eq!(w.decisions(s), ["scale-up: 500 tasks created: replicas 10000, filled 0"]);
    w.sweep();
    w.scale(s, 3);
    w.reconcile_marked();
    assert_eq!(w.tables.service_use(s).total(), 3);
    w.delete(s);
    w.reconcile_marked();
    assert_eq!(w.tables.service_use(s).total(), 0);
}

#[test]
fn labels_and_replicas_replace_nothing() {
    let mut w = World::new(&["a"]);
    let s = w.create(replicas(2), spec("runs"));
    w.settle();
    let before: Vec<TaskId> = w.tables.tasks_of_service(s).map(|t| t.id).collect();
    w.change_service(s, |s| drop(s.labels.insert("a".into(), "b".into())));
    w.scale(s, 3);
    w.settle();
    let after: Vec<TaskId> = w.tables.tasks_of_service(s).map(|t| t.id).collect();
    assert_eq!(after[..2], before);
}
