//! Stories of nodes that go, come back, and change: for replicated and for global services.

mod world;

use model::{Availability, Condition, Desired, Mode, NodeState, Slot, Span, TaskId};
use orchestrator::Key;
use store::{Change, Tables};
use world::{World, constrained, replicas, spec, with};

const HOUR: Span = Span::from_secs(3600);

#[test]
fn a_node_that_goes_down_loses_its_tasks_at_once() {
    let mut w = World::new(&["a", "b"]);
    // Neither the delay nor the attempts nor the condition have a say: the task did not end by itself.
    let careful = with(spec("runs"), |s| {
        s.replace.delay = HOUR;
        s.replace.max_attempts = 1;
        s.replace.condition = Condition::None;
    });
    let s = w.create(replicas(2), careful);
    let g = w.create(Mode::Global, spec("runs"));
    w.settle();
    let a = w.node_named("a").id;
    for _ in 0..3 {
        w.state("a", NodeState::Down);
        w.settle();
        // It cannot be asked to end, and is not waited for.
        let on_a = |s| w.tables.tasks_of_service(s).filter(|t| t.fills_slot() && t.node == Some(a)).count();
        assert_eq!((w.running(s), w.running(g), on_a(s), on_a(g)), (2, 1, 0, 0));
        w.state("a", NodeState::Ready);
        w.settle();
        assert_eq!(w.running(s), 2, "{}", w.show(s));
        assert_eq!(w.running(g), 2, "{}", w.show(g));
        w.availability("b", Availability::Drain);
        w.settle();
        w.availability("b", Availability::Active);
        w.settle();
    }
    assert!(
        w.decisions(s).contains(&"node-lost: 1 task given up: node a is down".into()),
        "{:?}",
        w.decisions(s)
    );
    assert!(w.decisions(s).iter().all(|d| !d.starts_with("not-replaced")));
}

#[test]
fn drain_pause_activate() {
    for (availability, replicated, global) in [
        (Availability::Pause, "1: running@a; 2: running@b", "a: running@a; b: running@b"),
        (Availability::Drain, "1: shutdown, running@b; 2: running@b", "a: shutdown; b: running@b"),
    ] {
        let mut w = World::new(&["a", "b"]);
        let s = w.create(replicas(2), spec("runs"));
        let g = w.create(Mode::Global, spec("runs"));
        w.settle();
        w.availability("a", availability);
        w.settle();
        assert_eq!((&*w.show(s), &*w.show(g)), (replicated, global), "{availability:?}");
        // What is new goes elsewhere, for a global service it goes nowhere.
        let later = w.create(Mode::Global, spec("runs"));
        w.scale(s, 3);
        w.settle();
        assert_eq!(w.show(later), "b: running@b");
        assert!(w.show(s).ends_with("; 3: running@b"), "{}", w.show(s));
        w.availability("a", Availability::Active);
        w.settle();
        assert_eq!(w.show(later), "a: running@a; b: running@b");
        assert_eq!(w.running(g), 2, "{}", w.show(g));
    }
}

#[test]
fn a_paused_node_keeps_what_it_has_and_gets_nothing_in_its_place() {
    let mut w = World::new(&["a"]);
    let g = w.create(Mode::Global, spec("runs"));
    let s = w.create(replicas(1), constrained("runs", "node.labels.x!=y"));
    w.settle();
    w.availability("a", Availability::Pause);
    w.label("a", "x", "y");
    w.settle();
    assert_eq!((&*w.show(g), &*w.show(s)), ("a: running@a", "1: running@a"));
    let task = w.filling(g, Slot::Node(w.node_named("a").id)).expect("a task");
    w.report(&task, model::TaskState::Failed, Some(1));
    w.settle();
    assert_eq!(w.show(g), "a: failed");
    w.availability("a", Availability::Active);
    w.settle();
    assert_eq!((&*w.show(g), &*w.show(s)), ("a: failed, running@a", "1: shutdown, pending"));
}

#[test]
fn a_removed_node_takes_its_global_slots_with_it() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(2), with(spec("runs"), |s| s.replace.condition = Condition::None));
    let g = w.create(Mode::Global, spec("runs"));
    let once =
        w.create(Mode::Global, with(spec("exits 0 0"), |s| s.replace.condition = Condition::OnFailure));
    w.settle();
    w.remove_node("a");
    w.settle();
    assert_eq!(w.show(s), "1: orphaned, running@b; 2: running@b");
    assert_eq!(w.show(g), "b: running@b");
    assert_eq!(w.show(once), "b: complete");
    assert_eq!(
        w.decisions(s).last().map(String::as_str),
        Some("node-lost: 1 task created for tasks whose node is gone")
    );
}

#[test]
fn a_new_node_gets_its_global_tasks() {
    let mut w = World::new(&["a"]);
    let g = w.create(Mode::Global, spec("runs"));
    let labelled = w.create(Mode::Global, constrained("runs", "node.labels.zone==east"));
    w.settle();
    w.join("b");
    w.settle();
    assert_eq!((&*w.show(g), &*w.show(labelled)), ("a: running@a; b: running@b", ""));
    for _ in 0..2 {
        w.label("b", "zone", "east");
        w.settle();
        assert_eq!(w.show(labelled), "b: running@b");
        w.label("b", "zone", "west");
        w.settle();
        assert_eq!(w.show(labelled), "");
    }
    assert_eq!(
        w.decisions(labelled)[..2],
        [
            "global-add: 1 task created: one for each node that complies",
            "global-remove: 1 task removed: node b does not meet node.labels.zone==east",
        ]
    );
}

#[test]
fn what_is_complete_on_a_node_stays_so_when_the_node_comes_back() {
    let mut w = World::new(&["a"]);
    let once =
        w.create(Mode::Global, with(spec("exits 0 0"), |s| s.replace.condition = Condition::OnFailure));
    let g = w.create(Mode::Global, spec("runs"));
    w.settle();
    for state in [NodeState::Down, NodeState::Ready] {
        w.state("a", state);
        w.settle();
        assert_eq!(w.show(once), "a: complete");
    }
    assert_eq!(w.show(g), "a: shutdown, running@a");
}

/// Each global service has its own say about what is on a node, whatever the others have there: one look at the node finds what each of them
/// lacks, has twice, or has no more place for. While the node is paused it keeps what it has, and nothing comes to it.
#[test]
fn one_look_at_a_node_judges_each_global_service_by_itself() {
    let after = |condition| with(spec("exits 0 1000"), |s| s.replace.condition = condition);
    let mut w = World::new(&["a", "b"]);
    w.allow_doubles = true;
    let fine = w.create(Mode::Global, spec("runs"));
    let again = w.create(Mode::Global, after(Condition::Any));
    let once = w.create(Mode::Global, after(Condition::OnFailure));
    let twice = w.create(Mode::Global, spec("runs"));
    let outdated = w.create(Mode::Global, spec("runs"));
    let unfit = w.create(Mode::Global, constrained("runs", "node.labels.zone!=west"));
    let fitting = w.create(Mode::Global, constrained("runs", "node.labels.zone==west"));
    w.settle();
    let a = w.node_named("a").id;
    let task = |w: &World, s| w.filling(s, Slot::Node(a)).expect("a task");
    let kept = [fine, twice, outdated].map(|s| task(&w, s).id);

    // While nobody looks: two ends, a double, a task of the next revision beside the one there, and another label.
    for s in [again, once] {
        let ended = task(&w, s);
        w.report(&ended, model::TaskState::Complete, Some(0));
    }
    w.update(outdated, constrained("runs", "node.labels.zone!=north"));
    let beside = |w: &World, s, id| Change::CreateTask {
        id: TaskId::from_u128(id),
        service: s,
        slot: Slot::Node(a),
        revision: w.tables.service(s).expect("the service").revision,
        node: Some(a),
        desired: Desired::Running,
        start_after: None,
    };
    let more = vec![beside(&w, twice, 1), beside(&w, outdated, 2)];
    w.apply(more);
    w.availability("a", Availability::Pause);
    w.label("a", "zone", "west");
    let look = |w: &mut World| {
        let view = w.tables.clone();
        let plan = w.look_at(&view, Key::Node(a));
        let mut after = view.clone();
        after.speculate(&plan.set, w.now).expect("nothing has moved");
        let there = |tables: &Tables, s| {
            tables.tasks_of_slot(s, Slot::Node(a)).map(|t| (t.id, t.desired)).collect::<Vec<_>>()
        };
        let decided = |s| there(&view, s) != there(&after, s);
        [fine, again, once, twice, outdated, unfit, fitting].map(decided)
    };
    assert_eq!(look(&mut w), [false, false, false, true, true, false, false], "paused");
    w.availability("a", Availability::Active);
    assert_eq!(look(&mut w), [false, true, true, true, true, true, true], "active again");

    w.settle();
    for (s, what, shown) in [
        (fine, "nothing happens to it", "a: running@a; b: running@b"),
        (twice, "the one that came furthest stays", "a: running@a; b: running@b"),
        (unfit, "it has no place here", "b: running@b"),
        (fitting, "it has one now", "a: running@a"),
        (again, "what is complete is replaced", "a: complete, running@a; b: running@b"),
        (once, "or not, as its policy says", "a: complete; b: running@b"),
    ] {
        assert_eq!(w.show(s), shown, "{what}");
    }
    assert_eq!([fine, twice].map(|s| task(&w, s).id)[..], kept[..2], "what was there goes on");
    assert_ne!(task(&w, outdated).id, kept[2]);
    assert_eq!(w.tables.service_use(outdated).filled(), 2);
}

#[test]
fn unknown_and_disconnected_nodes_lose_nothing() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(2), spec("runs"));
    let g = w.create(Mode::Global, spec("runs"));
    w.settle();
    let before = (w.show(s), w.show(g));
    for state in [NodeState::Unknown, NodeState::Disconnected, NodeState::Ready] {
        w.state("a", state);
        w.settle();
        assert_eq!((w.show(s), w.show(g)), before, "{state:?}");
    }
}

/// moby#31014: a label goes, all tasks stop; the label comes back, all of them must run again by themselves.
#[test]
fn a_label_that_goes_and_comes_back() {
    let mut w = World::new(&["a"]);
    w.label("a", "test", "activated");
    let s = w.create(replicas(5), constrained("runs", "node.labels.test==activated"));
    w.settle();
    assert_eq!(w.running(s), 5);
    for _ in 0..3 {
        w.label("a", "test", "off");
        w.settle();
        assert_eq!(w.running(s), 0);
        assert_eq!(w.tables.service_use(s).filled(), 5, "five wait for a node");
        w.label("a", "test", "activated");
        w.settle();
        assert_eq!(w.running(s), 5, "{}", w.show(s));
    }
    let text = "node-lost: 5 tasks given up: node a does not meet node.labels.test==activated";
    assert!(w.decisions(s).contains(&text.into()), "{:?}", w.decisions(s));
}

#[test]
fn a_node_that_stays_away_loses_its_tasks_for_good() {
    let mut w = World::new(&["a", "b"]);
    w.change_cluster(|c| c.orphan_after = HOUR);
    let s = w.create(replicas(2), spec("runs"));
    let gone = w.create(replicas(2), spec("runs"));
    w.settle();
    w.state("a", NodeState::Down);
    w.delete(gone);
    w.pass(Span(HOUR.0 - 1));
    assert_eq!(w.show(s), "1: running->shutdown@a, running@b; 2: running@b");
    assert_eq!(w.show(gone), "1: running->remove@a");
    w.pass(Span(1));
    assert_eq!((&*w.show(s), &*w.show(gone)), ("1: orphaned, running@b; 2: running@b", ""));
    assert_eq!(
        w.decisions(s).last().map(String::as_str),
        Some("orphaned: 1 task orphaned: node a has been down for 1h0m0s")
    );
}

#[test]
fn the_time_away_counts_from_when_it_is_shortened_as_well() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(2), spec("runs"));
    w.settle();
    w.state("a", NodeState::Down);
    w.pass(HOUR);
    assert_eq!(w.show(s), "1: running->shutdown@a, running@b; 2: running@b");
    w.change_cluster(|c| c.orphan_after = HOUR);
    w.settle();
    assert_eq!(w.show(s), "1: orphaned, running@b; 2: running@b");
}

#[test]
fn a_task_that_waits_for_its_delay_keeps_waiting_on_another_node() {
    let mut w = World::new(&["a", "b"]);
    let s = w.create(replicas(1), with(spec("runs"), |s| s.replace.delay = Span::from_secs(20)));
    w.settle();
    w.kill(s, 0, 1);
    w.pass(Span::from_secs(5));
    assert_eq!(w.show(s), "1: failed, ready->ready@a");
    w.availability("a", Availability::Drain);
    w.pass(Span::from_secs(14));
    assert_eq!(w.show(s), "1: failed, shutdown, ready->ready@b");
    w.pass(Span::from_secs(1));
    assert_eq!(w.show(s), "1: failed, shutdown, running@b");
}

#[test]
fn a_big_node_is_drained_in_bounded_plans() {
    let mut w = World::new(&["a"]);
    w.sweeps = false;
    w.pipeline = 64;
    let s = w.create(replicas(700), spec("runs"));
    w.settle();
    assert_eq!(w.running(s), 700);
    w.join("b");
    let before = w.planned.len();
    w.availability("a", Availability::Drain);
    w.settle();
    assert_eq!(w.running(s), 700);
    w.sweep();
    let first = w.planned[before].changes.iter().filter(|c| matches!(c, Change::CreateTask { .. })).count();
    assert_eq!(first, 250, "a slot costs two changes");
}
