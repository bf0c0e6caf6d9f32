//! Stories of batch services: which slot runs when, ends and attempts, lost nodes, iterations, history, and what it costs.

mod world;

use model::{
    Availability, Condition, Desired, Mode, Mount, NodeState, ServiceId, Sharing, Slot, Span, TaskSpec,
    TaskState, Volume,
};
use orchestrator::{Key, keys_of};
use store::Change;
use world::{SECOND, World, constrained, spec, with};

fn batch(completions: u32, concurrency: u32) -> Mode {
    Mode::Batch { completions, concurrency }
}

/// Done, given up, and filled slots of a service.
fn counts(w: &World, id: ServiceId) -> (u32, u32, u32) {
    let (service, used) = w.tables.service_with_use(id).expect("the service");
    (used.done(service.revision), used.given_up(service.revision), used.filled())
}

/// Looked at whenever plans have been applied: no more slots are in progress than may be.
fn never_too_many(w: &World) {
    for service in w.tables.services() {
        let used = w.tables.service_use(service.id);
        let in_progress = used.filled() + used.undecided(service.revision);
        let most = service.mode.at_once();
        assert!(in_progress <= most, "{in_progress} in progress, {most} at once: {}", w.show(service.id));
    }
}

fn world(nodes: &[&str]) -> World {
    let mut w = World::new(nodes);
    w.watch = Some(never_too_many);
    w
}

/// Tasks that fail at once, replaced without delay at most so many times.
fn failing(attempts: u32) -> TaskSpec {
    with(spec("exits 3 0"), |s| s.replace.max_attempts = attempts)
}

#[test]
fn slots_run_the_lowest_first_and_so_many_at_once() {
    let mut w = world(&["a", "b"]);
    let s = w.create(batch(5, 2), spec("exits 0 1000"));
    for shown in [
        "1: running@a; 2: running@b",
        "1: complete; 2: complete; 3: running@a; 4: running@b",
        "1: complete; 2: complete; 3: complete; 4: complete; 5: running@a",
        "1: complete; 2: complete; 3: complete; 4: complete; 5: complete",
        "1: complete; 2: complete; 3: complete; 4: complete; 5: complete",
    ] {
        w.settle();
        assert_eq!(w.show(s), shown);
        w.pass(SECOND);
    }
    assert_eq!(counts(&w, s), (5, 0, 0));
    assert_eq!(w.decisions(s), ["scale-up: 2 tasks created: completions 5, at once 2"]);
    // Another manager runs nothing again.
    w.take_over();
    w.settle();
    assert_eq!(counts(&w, s), (5, 0, 0));
}

#[test]
fn how_many_at_once() {
    for (completions, concurrency, running) in [(0, 3, 0), (4, 0, 4), (4, 9, 4), (4, 1, 1), (1200, 0, 1200)] {
        let mut w = world(&["a"]);
        let s = w.create(batch(completions, concurrency), spec("runs"));
        w.settle();
        assert_eq!(w.running(s), running, "{completions} completions, {concurrency} at once");
    }
}

#[test]
fn an_end_is_tried_again_as_the_policy_says() {
    let delayed = |seconds| move |s: &mut TaskSpec| s.replace.delay = Span::from_secs(seconds);
    for (condition, task, after, shown, counted) in [
        // A slot that fails keeps its place among those in progress; one that is given up makes room.
        (Condition::Any, failing(0), 0, "", (0, 0, 1)),
        (Condition::Any, failing(2), 1, "1: failed, failed, failed; 2: failed, failed, failed", (0, 2, 0)),
        (Condition::OnFailure, failing(1), 1, "1: failed, failed; 2: failed, failed", (0, 2, 0)),
        (Condition::None, failing(5), 1, "1: failed; 2: failed", (0, 2, 0)),
        (Condition::None, spec("exits 0 0"), 1, "1: complete; 2: complete", (2, 0, 0)),
        // Success is never run again, whatever the policy says.
        (Condition::Any, spec("exits 0 0"), 1, "1: complete; 2: complete", (2, 0, 0)),
        (Condition::Any, with(failing(0), delayed(60)), 59, "1: failed, ready->ready@a", (0, 0, 1)),
        (Condition::None, spec("rejects"), 1, "1: rejected; 2: rejected", (0, 2, 0)),
    ] {
        let mut w = world(&["a"]);
        let name = format!("{condition:?} {:?} {:?}", task.programs[0].command, task.replace);
        let s = w.create(batch(2, 1), with(task, |s| s.replace.condition = condition));
        if after == 0 {
            // It would go on for ever within this moment.
            for _ in 0..20 {
                w.reconcile_marked();
                let task = w.filling(s, Slot::Number(0)).expect("the first slot is tried again");
                assert_eq!(counts(&w, s), counted, "{name}");
                let node = w.node_named("a").id;
                w.apply(vec![Change::AssignTask {
                    task: task.id,
                    node,
                    ports: Box::default(),
                    named: Box::default(),
                }]);
                let task = w.filling(s, Slot::Number(0)).expect("it");
                w.report(&task, TaskState::Failed, Some(3));
            }
            continue;
        }
        w.pass(Span::from_secs(after));
        assert_eq!((w.show(s).as_str(), counts(&w, s)), (shown, counted), "{name}");
        w.take_over();
        w.settle();
        assert_eq!(w.show(s), shown, "{name}: another manager");
    }
}

#[test]
fn the_reason_of_a_slot_that_is_given_up_is_kept() {
    let mut w = world(&["a"]);
    let s = w.create(batch(2, 2), with(failing(1), |s| s.replace.window = Span::from_secs(60)));
    w.settle();
    let told = w.decisions(s);
    let last = told.last().expect("a decision");
    assert_eq!(
        last,
        "not-replaced: slot 2: failed with exit code 3; not replaced: all 1 attempts within 1m0s are used up"
    );
    assert!(!told.iter().any(|text| text.contains("completed")), "{told:?}");
}

#[test]
fn what_is_lost_with_its_node_runs_elsewhere_and_is_not_counted() {
    type Loss = fn(&mut World);
    let losses: [(&str, Loss, &str); 4] = [
        ("down", |w| w.state("a", NodeState::Down), "1: running->shutdown@a, running@b"),
        ("drained", |w| w.availability("a", Availability::Drain), "1: shutdown, running@b"),
        ("removed", |w| w.remove_node("a"), "1: orphaned, running@b"),
        ("unfit", |w| w.label("a", "fit", "no"), "1: shutdown, running@b"),
    ];
    for (name, lose, shown) in losses {
        let mut w = world(&["a"]);
        let never =
            with(constrained("runs", "node.labels.fit!=no"), |s| s.replace.condition = Condition::None);
        let s = w.create(batch(3, 1), never);
        w.settle();
        w.join("b");
        lose(&mut w);
        w.settle();
        assert_eq!((w.show(s).as_str(), counts(&w, s)), (shown, (0, 0, 1)), "{name}");
    }
}

/// A drain with no other node: it waits, and runs when the node is back.
#[test]
fn without_any_node_it_waits() {
    let mut w = world(&["a"]);
    let s = w.create(batch(2, 1), spec("exits 0 1000"));
    w.settle();
    w.availability("a", Availability::Drain);
    w.pass(Span::from_secs(600));
    assert_eq!(w.show(s), "1: shutdown, pending");
    w.availability("a", Availability::Active);
    w.pass(Span::from_secs(2));
    assert_eq!(w.show(s), "1: shutdown, complete; 2: complete");
    assert_eq!(counts(&w, s), (2, 0, 0));
}

/// The only node that has the volume is drained (at once, as Nomad's `-force`) and comes back: nothing is dead meanwhile.
#[test]
fn without_the_node_of_its_volume_it_waits() {
    let mut w = world(&["a", "b"]);
    w.describe("a", |d| {
        let sharing = Sharing::None;
        d.volumes.insert("data".into(), Volume { path: "/srv".into(), read_only: false, sharing });
    });
    let uses = with(spec("exits 0 1000"), |s| {
        s.mounts.push(Mount { volume: "data".into(), read_only: false });
    });
    let s = w.create(batch(2, 2), uses);
    w.settle();
    assert_eq!(w.show(s), "1: running@a; 2: pending", "one at a time, and only there");
    w.availability("a", Availability::Drain);
    w.pass(Span::from_secs(600));
    assert_eq!(w.show(s), "1: shutdown, pending; 2: pending");
    w.availability("a", Availability::Active);
    w.pass(Span::from_secs(5));
    assert_eq!(w.show(s), "1: shutdown, complete; 2: complete");
    assert_eq!(counts(&w, s), (2, 0, 0));
}

/// The node was away while its task ended: what ran in its place is not needed any more.
#[test]
fn a_late_success_counts() {
    let mut w = world(&["a"]);
    let s = w.create(batch(2, 1), spec("runs"));
    w.settle();
    let first = w.filling(s, Slot::Number(0)).expect("a task");
    w.join("b");
    w.state("a", NodeState::Down);
    w.settle();
    assert_eq!(w.show(s), "1: running->shutdown@a, running@b");
    w.report(&first, TaskState::Complete, Some(0));
    w.settle();
    assert_eq!(w.show(s), "1: complete, shutdown; 2: running@b");
    assert!(w.decisions(s).contains(&"duplicate: slot 1 is done: its next task is not needed".into()));
    w.change_cluster(|c| c.history = 0);
    w.settle();
    assert_eq!(w.show(s), "1: complete; 2: running@b");
}

#[test]
fn another_revision_runs_every_slot_again() {
    let mut w = world(&["a"]);
    let slow = with(spec("exits 0 5000"), |s| {
        s.programs[0].env.insert("STOP_MS".into(), "700".into());
    });
    let s = w.create(batch(3, 2), slow.clone());
    w.pass(Span::from_secs(6));
    assert_eq!(w.show(s), "1: complete; 2: complete; 3: running@a");
    w.update(s, with(slow, |s| s.force = 1));
    w.settle();
    assert_eq!(w.show(s), "1: complete, running@a; 2: complete, running@a; 3: running->shutdown@a");
    assert_eq!(w.update_state(s), "", "nothing is rolled");
    w.pass(Span::from_secs(6));
    assert_eq!(w.show(s), "1: complete, complete; 2: complete, complete; 3: shutdown, running@a");
    w.pass(Span::from_secs(6));
    assert_eq!(counts(&w, s), (3, 0, 0));
    let told = w.decisions(s);
    assert!(
        told.contains(&"update: 1 task of an older iteration told to end: iteration 2 has begun".into()),
        "{told:?}"
    );
}

/// A slot whose task of the last iteration still ends waits for that; no two of a slot run at once.
#[test]
fn a_slot_waits_for_the_end_of_its_last_iteration() {
    let mut w = world(&["a"]);
    let slow = with(spec("exits 0 5000"), |s| {
        s.programs[0].env.insert("STOP_MS".into(), "700".into());
    });
    let s = w.create(batch(1, 1), slow.clone());
    w.settle();
    w.update(s, with(slow, |s| s.force = 1));
    w.settle();
    assert_eq!(w.show(s), "1: running->shutdown@a, ready->ready@a");
    w.pass(SECOND);
    assert_eq!(w.show(s), "1: shutdown, running@a");
}

/// A job that is run six times by force keeps two old tasks beside the current one of each slot, and never runs again by itself.
#[test]
fn history_is_limited_and_what_is_done_stays_done() {
    for (history, kept) in [(2, 2), (0, 1), (5, 5)] {
        let mut w = world(&["a"]);
        w.change_cluster(|c| c.history = history);
        let task = spec("exits 0 1000");
        let s = w.create(batch(3, 2), task.clone());
        for force in 1..=6 {
            w.update(s, with(task.clone(), |s| s.force = force));
            w.pass(Span::from_secs(3));
            assert_eq!(counts(&w, s), (3, 0, 0), "history {history}, iteration {force}");
            for n in 0..3 {
                let known = w.tables.tasks_of_slot(s, Slot::Number(n)).count();
                assert!(known <= history as usize + 1, "slot {n} has {known}, history {history}");
            }
        }
        assert_eq!(w.ended(s), 3 * kept, "history {history}");
        // Neither another manager nor less history makes the job run again.
        let before = w.show(s);
        w.take_over();
        w.settle();
        assert_eq!(w.show(s), before);
        w.change_cluster(|c| c.history = 0);
        w.pass(Span::from_secs(60));
        assert_eq!(w.show(s), "1: complete; 2: complete; 3: complete");
    }
}

#[test]
fn what_is_given_up_stays_given_up_without_history() {
    let mut w = world(&["a"]);
    w.change_cluster(|c| c.history = 0);
    let s = w.create(batch(2, 1), failing(2));
    w.settle();
    w.take_over();
    w.settle();
    assert_eq!(counts(&w, s), (0, 2, 0));
}

#[test]
fn completions_and_concurrency_change() {
    let mut w = world(&["a"]);
    w.watch = None;
    let s = w.create(batch(2, 2), spec("exits 0 1000"));
    let change = |w: &mut World, mode, seconds, counted| {
        w.change_service(s, |s| s.mode = mode);
        w.pass(Span::from_secs(seconds));
        assert_eq!(counts(w, s), counted, "{mode:?} {}", w.show(s));
    };
    change(&mut w, batch(2, 2), 2, (2, 0, 0));
    change(&mut w, batch(4, 2), 0, (2, 0, 2));
    // None ends because fewer may be at once; the surplus goes, done or not.
    change(&mut w, batch(9, 1), 0, (2, 0, 2));
    change(&mut w, batch(9, 1), 1, (4, 0, 1));
    change(&mut w, batch(9, 4), 0, (4, 0, 4));
    change(&mut w, batch(3, 4), 0, (3, 0, 0));
    assert_eq!(w.show(s), "1: complete; 2: complete; 3: complete");
    change(&mut w, batch(4, 4), 0, (3, 0, 1));
}

/// Fewer may be at once than are in progress: what fails waits for its turn, the lowest slot first, and nothing is forgotten.
#[test]
fn over_the_limit_what_ends_badly_waits_for_its_turn() {
    for lose in [false, true] {
        let mut w = world(&["a", "b"]);
        w.watch = None;
        let s = w.create(batch(4, 4), spec("runs"));
        w.settle();
        w.change_service(s, |s| s.mode = batch(4, 2));
        w.settle();
        assert_eq!(w.running(s), 4);
        if lose {
            w.availability("b", Availability::Drain);
        } else {
            w.kill(s, 1, 1);
            w.kill(s, 3, 1);
        }
        w.settle();
        assert_eq!(counts(&w, s).2, 2, "{}", w.show(s));
        for n in [0, 2, 1, 3] {
            let task = w.filling(s, Slot::Number(n)).expect("the lowest slots have their turn");
            w.report(&task, TaskState::Complete, Some(0));
            w.settle();
        }
        assert_eq!(counts(&w, s), (4, 0, 0), "lost: {lose}: {}", w.show(s));
    }
}

#[test]
fn a_removed_batch_service_leaves_nothing() {
    let mut w = world(&["a"]);
    let s = w.create(batch(4, 2), spec("exits 0 1000"));
    w.pass(Span::from_millis(1500));
    w.delete(s);
    w.settle();
    assert_eq!(w.show(s), "");
}

#[test]
fn a_paused_node_ends_what_it_runs_and_takes_no_more() {
    let mut w = world(&["a"]);
    let s = w.create(batch(3, 1), spec("exits 0 1000"));
    w.settle();
    w.availability("a", Availability::Pause);
    w.settle();
    assert_eq!(w.running(s), 1);
    // The stand-in for the scheduler asks `takes_tasks` as the real one does.
    w.pass(Span::from_secs(5));
    assert_eq!(w.show(s), "1: complete; 2: pending");
}

// ---- what fails in flight

/// A slot is given up by a plan that is lost: the next slot, begun because of it, is refused by the store.
#[test]
fn room_that_a_lost_change_made_is_none() {
    let mut w = world(&["a"]);
    let s = w.create(batch(3, 1), with(spec("runs"), |s| s.replace.condition = Condition::None));
    w.settle();
    let task = w.kill(s, 0, 1);
    // Somebody has it in flight that the slot is given up, and it is lost.
    let give_up = Change::DirectTask { task, desired: Desired::Complete };
    w.flying.push((store::ChangeSet::of(vec![give_up]), false));
    w.settle();
    assert_eq!(w.show(s), "1: failed; 2: running@a");
}

#[test]
fn a_task_that_completed_meanwhile_is_not_run_again() {
    let mut w = world(&["a", "b"]);
    let s = w.create(batch(2, 1), spec("runs"));
    w.settle();
    let task = w.filling(s, Slot::Number(0)).expect("a task");
    w.availability("a", Availability::Drain);
    // Between the plan and its turn the agent says that it is complete.
    let report = Change::ReportTask {
        task: task.id,
        node: task.node.expect("its node"),
        state: TaskState::Complete,
        at: w.now,
        message: None,
        programs: Box::default(),
    };
    w.intruding.push(store::ChangeSet::of(vec![report]));
    w.settle();
    assert_eq!(w.show(s), "1: complete; 2: running@b");
    assert!(w.refused > 0, "the plan came too late");
}

// ---- global batch

const GLOBAL: Mode = Mode::GlobalBatch;

#[test]
fn one_run_on_each_node() {
    let mut w = world(&["a", "b"]);
    let s = w.create(GLOBAL, spec("exits 0 1000"));
    w.settle();
    assert_eq!(w.show(s), "a: running@a; b: running@b");
    w.pass(SECOND);
    assert_eq!(w.show(s), "a: complete; b: complete");
    w.join("c");
    w.settle();
    assert_eq!(w.show(s), "a: complete; b: complete; c: running@c");
    w.pass(SECOND);
    w.update(s, with(spec("exits 0 1000"), |s| s.force = 1));
    w.settle();
    assert_eq!(w.show(s), "a: complete, running@a; b: complete, running@b; c: complete, running@c");
    assert_eq!(
        w.decisions(s),
        [
            "global-add: 2 tasks created: one for each node that complies",
            "global-add: 3 tasks created: one for each node that complies"
        ]
    );
}

/// What a node does, after which the run on it is: ended or not, and what follows when the node is as before.
#[test]
fn a_node_that_goes_and_comes_back() {
    type Act = fn(&mut World);
    let cases: [(&str, Act, Act, &str, &str); 4] = [
        (
            "drain",
            |w| w.availability("a", Availability::Drain),
            |w| w.availability("a", Availability::Active),
            "a: shutdown",
            "a: shutdown, running@a",
        ),
        (
            "down",
            |w| w.state("a", NodeState::Down),
            |w| w.state("a", NodeState::Ready),
            "a: running->shutdown@a",
            "a: shutdown, running@a",
        ),
        (
            "pause",
            |w| w.availability("a", Availability::Pause),
            |w| w.availability("a", Availability::Active),
            "a: running@a",
            "a: running@a",
        ),
        ("unfit", |w| w.label("a", "fit", "no"), |w| w.label("a", "fit", "yes"), "", "a: running@a"),
    ];
    for (name, go, back, away, again) in cases {
        for done in [false, true] {
            let mut w = world(&["a"]);
            let s = w.create(GLOBAL, constrained("runs", "node.labels.fit!=no"));
            w.settle();
            let node = w.node_named("a").id;
            let task = w.filling(s, Slot::Node(node)).expect("its run");
            if done {
                w.report(&task, TaskState::Complete, Some(0));
                w.settle();
            }
            go(&mut w);
            w.settle();
            assert_eq!(w.show(s), if done { "a: complete" } else { away }, "{name}, done {done}");
            back(&mut w);
            w.pass(SECOND);
            assert_eq!(w.show(s), if done { "a: complete" } else { again }, "{name}, done {done}");
        }
    }
}

#[test]
fn a_run_on_a_node_is_given_up_by_policy() {
    let mut w = world(&["a", "b"]);
    let s = w.create(GLOBAL, failing(1));
    w.pass(SECOND);
    assert_eq!(w.show(s), "a: failed, failed; b: failed, failed");
    assert_eq!(counts(&w, s), (0, 2, 0));
    w.remove_node("b");
    w.settle();
    assert_eq!(counts(&w, s), (0, 1, 0));
}

// ---- costs

/// With 100,000 completions and ten at once, an end marks two keys, and what they do is one task's end and one more task.
#[test]
fn one_completion_costs_what_it_changes() {
    let mut w = world(&["a"]);
    w.sweeps = false;
    let s = w.create(batch(100_000, 10), spec("runs"));
    w.settle();
    for round in 0..50 {
        let n = w.tables.service_use(s).filled_numbers().nth(round % 10).expect("ten are in progress");
        let task = w.filling(s, Slot::Number(n)).expect("a task");
        let before = w.planned.len();
        w.report(&task, TaskState::Complete, Some(0));
        w.settle();
        let changes: usize = w.planned[before..].iter().map(|set| set.changes.len()).sum();
        assert_eq!(changes, 2, "{:?}", &w.planned[before..]);
        assert_eq!(w.running(s), 10);
    }
    let task =
        w.tables.tasks_of_service(s).find(|t| t.status.state == TaskState::Complete).expect("one").clone();
    let mut marked = Vec::new();
    let event = store::Event {
        id: store::EventId { index: 1, ordinal: 0 },
        at: w.now,
        action: store::Action::Updated,
        object: store::Object::Task(task.clone()),
        before: None,
    };
    keys_of(&event, &w.tables, &mut |key| marked.push(key));
    assert_eq!(marked, [Key::of_slot(s, task.slot), Key::Service(s)]);
}

/// What looks at a slot that is done, and at its service, read: the same whether 1,000 or 100,000 slots are to be done.
#[cfg(debug_assertions)]
#[test]
fn a_completion_reads_the_same_however_many_slots_there_are() {
    let costs = [1_000, 100_000].map(|completions| {
        let mut w = world(&["a"]);
        w.sweeps = false;
        let s = w.create(batch(completions, 10), spec("runs"));
        w.settle();
        // Every other slot but the last hundred is done or given up, out of order, and ten are in progress.
        w.change_service(s, |s| s.mode = batch(completions, 11));
        let node = w.node_named("a").id;
        let revision = w.tables.service(s).expect("the service").revision;
        for n in (10..completions - 100).rev().filter(|n| n % 2 == 0) {
            let id = model::TaskId::from_u128(1_000_000 + u128::from(n));
            let made = Change::CreateTask {
                id,
                service: s,
                slot: Slot::Number(n),
                revision,
                node: None,
                desired: Desired::Running,
                start_after: None,
            };
            let state = if n % 4 == 0 { TaskState::Complete } else { TaskState::Failed };
            let ended = Change::ReportTask {
                task: id,
                node,
                state,
                at: w.now,
                message: None,
                programs: Box::default(),
            };
            let assigned =
                Change::AssignTask { task: id, node, ports: Box::default(), named: Box::default() };
            let closed = Change::DirectTask { task: id, desired: Desired::Complete };
            w.apply(vec![made, assigned, ended, closed]);
        }
        w.change_service(s, |s| s.mode = batch(completions, 10));
        let last = w.filling(s, Slot::Number(9)).expect("in progress");
        w.report(&last, TaskState::Complete, Some(0));
        let view = w.tables.clone();
        [Key::Slot(s, 9), Key::Service(s)].map(|key| {
            let before = store::objects_read();
            let plan = w.look_at(&view, key);
            assert!(!plan.is_quiet(), "{key:?} has something to do");
            store::objects_read() - before
        })
    });
    assert_eq!(costs[0], costs[1]);
    assert!(costs[0].iter().all(|read| *read <= 16), "{costs:?}");
}
