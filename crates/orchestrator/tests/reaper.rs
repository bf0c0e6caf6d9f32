//! Stories of what is kept of ended tasks: by count, by outcome, by age, and what is kept whatever those say.

mod world;

use model::{Condition, NodeState, ServiceId, Slot, Span, TaskState, UpdatePolicy};
use orchestrator::{Key, PLAN_OBJECTS};
use world::{SECOND, World, replicas, spec, with};

fn secs(seconds: i64) -> Span {
    Span::from_secs(seconds)
}

/// The ends of slot 1 that are kept, oldest first: `f` failed, `c` completed, `s` shut down.
fn kept(w: &World, service: ServiceId) -> String {
    let letter = |state: TaskState| match state {
        TaskState::Failed => 'f',
        TaskState::Complete => 'c',
        TaskState::Shutdown => 's',
        _ => '?',
    };
    let ended = w.tables.tasks_of_slot(service, Slot::Number(0)).filter(|t| t.status.state.is_ended());
    ended.map(|t| letter(t.status.state)).collect()
}

/// A service of one slot in which tasks have ended in these ways, ten seconds apart, and the last one runs.
fn ended(w: &mut World, how: &str) -> ServiceId {
    let s = w.create(replicas(1), spec("runs"));
    w.settle();
    for end in how.chars() {
        w.pass(secs(10));
        let task = w.filling(s, Slot::Number(0)).expect("a task in the slot");
        match end {
            'f' => w.report(&task, TaskState::Failed, Some(1)),
            _ => w.report(&task, TaskState::Complete, Some(0)),
        }
        w.settle();
    }
    s
}

#[test]
fn which_ends_are_kept() {
    // The ends, history, history_failed, history_age in seconds, how long after the last end; what is left.
    let cases: [(&str, u32, u32, i64, i64, &str); 14] = [
        ("fcfcfc", 3, 0, 0, 0, "cfc"),
        ("fcfcfc", 0, 0, 0, 0, ""),
        ("fcfcfc", 9, 0, 0, 0, "fcfcfc"),
        // Besides the newest: the newest of the others that failed.
        ("fcfcfc", 1, 1, 0, 0, "fc"),
        ("fcfcfc", 1, 2, 0, 0, "ffc"),
        ("ffffcc", 2, 3, 0, 0, "fffcc"),
        ("cccccc", 2, 3, 0, 0, "cc"),
        ("ffcccc", 0, 9, 0, 0, "ff"),
        // By age: ends are ten seconds apart, and one goes at its moment.
        ("ffffff", 9, 0, 25, 0, "fff"),
        ("ffffff", 9, 0, 25, 4, "fff"),
        ("ffffff", 9, 0, 25, 5, "ff"),
        ("ffffff", 9, 0, 25, 25, ""),
        // Age goes before both counts, and they before age.
        ("ffffff", 2, 9, 25, 5, "ff"),
        ("ffffff", 2, 1, 600, 0, "fff"),
    ];
    for (how, history, failed, age, later, left) in cases {
        let mut w = World::new(&["a"]);
        w.change_cluster(|c| c.history = 100);
        let s = ended(&mut w, how);
        w.change_cluster(|c| {
            (c.history, c.history_failed, c.history_age) = (history, failed, secs(age));
        });
        w.pass(secs(later));
        assert_eq!(kept(&w, s), left, "{how} {history} {failed} {age} {later}");
        assert_eq!(w.running(s), 1);
    }
}

#[test]
fn the_newest_end_goes_at_its_moment_without_any_other_event() {
    let mut w = World::new(&["a"]);
    w.change_cluster(|c| c.history_age = secs(60));
    let s = ended(&mut w, "fff");
    w.pass(secs(39));
    assert_eq!(kept(&w, s), "fff");
    w.pass(SECOND);
    assert_eq!(kept(&w, s), "ff");
    // A new leader knows nothing but what is in the store.
    w.take_over();
    w.pass(secs(20));
    assert_eq!(kept(&w, s), "");
    // A shorter age holds at once, a longer one is awaited.
    let s = ended(&mut w, "fff");
    w.change_cluster(|c| c.history_age = secs(15));
    w.settle();
    assert_eq!(kept(&w, s), "ff");
    w.change_cluster(|c| c.history_age = secs(300));
    w.pass(secs(280));
    assert_eq!(kept(&w, s), "ff");
    w.pass(secs(20));
    assert_eq!(kept(&w, s), "");
}

#[test]
fn a_change_of_the_service_does_not_make_it_forget_the_moment() {
    let mut w = World::new(&["a"]);
    w.change_cluster(|c| c.history_age = secs(60));
    let s = ended(&mut w, "f");
    w.change_service(s, |s| drop(s.labels.insert("a".into(), "b".into())));
    w.settle();
    w.scale(s, 2);
    w.pass(secs(60));
    assert_eq!((kept(&w, s), w.running(s)), (String::new(), 2));
}

#[test]
fn a_lower_limit_prunes_twenty_failed_tasks_without_any_other_event() {
    let mut w = World::new(&["a"]);
    w.change_cluster(|c| c.history = 5);
    let s = w.create(replicas(4), spec("runs"));
    w.settle();
    for _ in 0..5 {
        for slot in 0..4 {
            w.kill(s, slot, 1);
        }
        w.settle();
    }
    assert_eq!(w.ended(s), 20);
    w.change_cluster(|c| c.history = 1);
    w.settle();
    assert_eq!((w.ended(s), w.running(s)), (4, 4));
}

#[test]
fn one_slot_with_very_many_ends_is_trimmed_in_bounded_plans() {
    let mut w = World::new(&["a"]);
    w.sweeps = false;
    w.change_cluster(|c| c.history = 10_000);
    let s = w.create(replicas(1), spec("runs"));
    w.settle();
    let ends = 2 * PLAN_OBJECTS + 7;
    for _ in 0..ends {
        w.kill(s, 0, 1);
        w.settle();
    }
    w.planned.clear();
    w.change_cluster(|c| c.history = 3);
    let view = w.tables.clone();
    let plan = w.look_at(&view, Key::Slot(s, 0));
    assert!(plan.more && plan.set.changes.len() == PLAN_OBJECTS, "{}", plan.set.changes.len());
    w.reconcile_marked();
    assert_eq!(w.planned.iter().map(|set| set.changes.len()).collect::<Vec<_>>(), [500, 500, 4]);
    assert_eq!(kept(&w, s), "fff");
    w.sweep();
}

#[test]
fn history_is_kept_by_count_and_a_lower_limit_works_at_once() {
    let mut w = World::new(&["a"]);
    w.change_cluster(|c| c.history = 7);
    let s = w.create(replicas(1), with(spec("exits 1 100"), |t| t.replace.delay = SECOND));
    w.pass(Span::from_secs(30));
    assert_eq!(w.ended(s), 7);
    for limit in [5, 1, 0] {
        w.change_cluster(|c| c.history = limit);
        w.settle();
        assert_eq!(w.ended(s), limit as usize, "{}", w.show(s));
    }
    w.pass(Span::from_secs(10));
    assert_eq!(w.ended(s), 0);
    assert_eq!(w.tables.service_use(s).filled(), 1);
}

#[test]
fn history_keeps_what_the_policy_counts_and_why_a_slot_is_empty() {
    let mut w = World::new(&["a"]);
    w.change_cluster(|c| c.history = 0);
    let counted = w.create(replicas(1), with(spec("exits 1 0"), |t| t.replace.max_attempts = 8));
    let over = w.create(replicas(1), with(spec("exits 0 0"), |t| t.replace.condition = Condition::OnFailure));
    w.settle();
    assert_eq!((w.ended(counted), w.ended(over)), (9, 1));
    w.pass(Span::from_secs(100));
    assert_eq!((w.ended(counted), w.ended(over)), (9, 1));
    w.scale(counted, 0);
    w.scale(over, 0);
    w.settle();
    assert_eq!((w.ended(counted), w.ended(over)), (0, 0));
}

#[test]
fn no_setting_takes_what_something_depends_on() {
    let none = |w: &mut World| {
        w.change_cluster(|c| (c.history, c.history_failed, c.history_age) = (0, 0, SECOND));
    };
    // What the policy counts.
    let mut w = World::new(&["a"]);
    none(&mut w);
    let s = w.create(replicas(1), with(spec("exits 1 5000"), |t| t.replace.max_attempts = 3));
    w.pass(secs(100));
    assert_eq!((kept(&w, s).as_str(), w.running(s)), ("ffff", 0), "four attempts and no more");
    // Why a slot is empty.
    let over = w.create(replicas(1), with(spec("exits 0 100"), |t| t.replace.condition = Condition::None));
    w.pass(secs(100));
    assert_eq!((kept(&w, over).as_str(), w.running(over)), ("c", 0));
    // What an update has found out.
    let mut w = World::new(&["a"]);
    none(&mut w);
    let first = UpdatePolicy { order: model::UpdateOrder::StartFirst, ..UpdatePolicy::default() };
    let s = w.create_with(replicas(2), spec("runs"), first);
    w.settle();
    w.update(s, spec("exits 3 100"));
    w.pass(Span::from_secs(600));
    assert_eq!(
        (w.update_state(s).split(':').next(), w.running(s)),
        (Some("paused"), 2),
        "{}",
        w.update_state(s)
    );
}

#[test]
fn orphans_are_history_like_every_other_end() {
    let mut w = World::new(&["a", "b"]);
    w.change_cluster(|c| {
        c.orphan_after = secs(30);
        c.history_age = secs(60);
    });
    let s = w.create(replicas(2), spec("runs"));
    w.settle();
    w.state("a", NodeState::Down);
    w.pass(secs(31));
    assert_eq!((w.ended(s), w.running(s)), (1, 2), "{}", w.show(s));
    w.pass(secs(60));
    assert_eq!((w.ended(s), w.running(s)), (0, 2));
    // Those of a removed service are forgotten at once.
    w.state("a", NodeState::Ready);
    w.settle();
    w.state("b", NodeState::Down);
    w.pass(SECOND);
    w.delete(s);
    w.pass(secs(30));
    assert_eq!(w.tables.tasks_of_service(s).count(), 0);
}
