//! Stories of canaries: a new revision tried in the lowest slots beside what runs there, promoted, aborted, or failed.

mod world;

use model::{
    Availability, Condition, FailureAction, NodeState, Ratio, ServiceId, Slot, Span, TaskId, TaskState,
    UpdateOrder, UpdatePolicy, UpdateState,
};
use world::{SECOND, World, constrained, replicas, spec, with};

fn canaries(canary: u32) -> UpdatePolicy {
    UpdatePolicy { canary, ..UpdatePolicy::default() }
}

fn seconds(n: i64) -> Span {
    Span::from_secs(n)
}

fn slow(command: &str) -> model::TaskSpec {
    with(spec(command), |s| drop(s.programs[0].env.insert("STOP_MS".into(), "1000".into())))
}

/// The tasks of a revision that run and are wanted, by slot.
fn running(w: &World, s: ServiceId, revision: u64) -> Vec<TaskId> {
    let runs = |t: &&std::sync::Arc<model::Task>| {
        let number = w.tables.revision(t.revision).map_or(0, |r| r.number);
        t.status.state == TaskState::Running && t.desired.is_wanted() && number == revision
    };
    w.tables.tasks_of_service(s).filter(runs).map(|t| t.id).collect()
}

/// A service of `n` tasks that run, and an update of it with these canaries.
fn begun(n: u32, policy: UpdatePolicy, new: model::TaskSpec) -> (World, ServiceId, Vec<TaskId>) {
    let mut w = World::new(&["a", "b"]);
    let s = w.create_with(replicas(n), slow("runs"), policy);
    w.settle();
    let before = running(&w, s, 1);
    w.update(s, new);
    w.settle();
    (w, s, before)
}

#[test]
fn canaries_wait_beside_their_originals_until_they_are_promoted() {
    let (mut w, s, before) = begun(4, canaries(2), slow("runs"));
    assert_eq!(w.show(s), "1: running@a, running@a; 2: running@b, running@b; 3: running@a; 4: running@b");
    w.pass(seconds(4));
    assert_eq!(w.state_of(s), Some(UpdateState::Updating));
    w.pass(SECOND);
    let told = "canary: 2 canaries have been watched for 5s; promote or abort them";
    assert_eq!(w.update_state(s), told);
    w.pass(seconds(3600));
    assert_eq!(running(&w, s, 1), before, "{}", w.show(s));
    let tried = running(&w, s, 2);
    assert_eq!(w.update_state(s), told);

    w.promote(s);
    w.settle();
    assert_eq!(running(&w, s, 2), tried, "they have their slots: {}", w.show(s));
    assert!(running(&w, s, 1).iter().all(|id| before[2..].contains(id)));
    w.pass(seconds(30));
    assert_eq!(w.revisions(s), [2; 4], "{}", w.show(s));
    assert_eq!(running(&w, s, 2)[..2], tried);
    assert_eq!(w.update_state(s), "completed: update completed");
    assert!(
        w.decisions(s).iter().any(|d| d == "update: 2 tasks of revision 2 made as canaries"),
        "{:?}",
        w.decisions(s)
    );
}

#[test]
fn an_abort_touches_no_original() {
    for at in [0, 2, 7] {
        for order in [UpdateOrder::StopFirst, UpdateOrder::StartFirst] {
            let policy = UpdatePolicy { order, ..canaries(2) };
            let (mut w, s, before) = begun(3, policy, slow("runs"));
            w.policies(s, policy, UpdatePolicy { canary: 0, ..policy });
            w.pass(seconds(at));
            w.roll_back(s);
            for _ in 0..20 {
                w.pass(SECOND);
                assert_eq!(running(&w, s, 1), before, "{}", w.show(s));
            }
            assert_eq!(w.revisions(s), [1, 1, 1]);
            assert_eq!(w.update_state(s), "rollback_completed: rollback completed (as requested)");
        }
    }
}

/// An ended task that is still wanted would head its slot for as long as it is kept.
#[test]
fn what_was_tried_and_taken_back_has_no_say_any_more() {
    let rollback = FailureAction::Rollback;
    for (what, policy) in [
        ("aborted by request", canaries(2)),
        ("canaries that failed", UpdatePolicy { failure_action: rollback, ..canaries(2) }),
        (
            "start-first",
            UpdatePolicy {
                order: UpdateOrder::StartFirst,
                failure_action: rollback,
                ..UpdatePolicy::default()
            },
        ),
    ] {
        let (mut w, s, _) = begun(3, policy, slow("fails"));
        w.pass(seconds(20));
        if w.state_of(s).is_some_and(|state| !state.is_rollback()) {
            w.roll_back(s);
        }
        w.pass(seconds(90));
        assert_eq!(w.revisions(s), [1; 3], "{what}: {}", w.show(s));
        let ended = || w.tables.tasks_of_service(s).filter(|t| t.status.state.is_ended());
        assert!(ended().next().is_some() && ended().all(|t| !t.desired.is_wanted()), "{what}: {}", w.show(s));
    }
}

#[test]
fn canaries_that_last_may_promote_themselves() {
    let (mut w, s, _) = begun(3, UpdatePolicy { auto_promote: true, ..canaries(1) }, slow("runs"));
    w.pass(seconds(60));
    assert_eq!(w.revisions(s), [2; 3], "{}", w.show(s));
    assert_eq!(w.state_of(s), Some(UpdateState::Completed));
    let said = w.decisions(s);
    assert!(
        said.iter()
            .any(|d| d == "promoted: canaries promoted by themselves: 1 canary has been watched for 5s"),
        "{said:?}"
    );
}

/// nomad#10465 and others: whatever keeps a canary from lasting, the failure action is taken in bounded time.
#[test]
fn d3_a_canary_that_can_never_start_fails_at_its_deadline_and_reverts() {
    for broken in
        [spec("rejects"), spec("stuck"), spec("exits 3 100"), constrained("runs", "node.hostname==nowhere")]
    {
        for (action, state) in [
            (FailureAction::Rollback, UpdateState::RollbackCompleted),
            (FailureAction::Pause, UpdateState::Paused),
        ] {
            let policy = UpdatePolicy { failure_action: action, auto_promote: true, ..canaries(1) };
            let mut broken = broken.clone();
            broken.replace.delay = seconds(5);
            let (mut w, s, before) = begun(3, policy, broken);
            for _ in 0..70 {
                w.pass(seconds(10));
                assert_eq!(running(&w, s, 1), before, "{}", w.show(s));
            }
            assert_eq!(w.state_of(s), Some(state), "{} {}", w.show(s), w.update_state(s));
            assert!(w.update_state(s).contains("1 of 1 canaries failed, none may"), "{}", w.update_state(s));
            if action == FailureAction::Pause {
                let tried = w.tables.tasks_of_service(s).filter(|t| t.is_of_number(&w, 2)).count();
                assert_eq!(tried, 1, "what failed is left while the update is paused: {}", w.show(s));
                w.roll_back(s);
                w.pass(seconds(10));
            }
            assert_eq!(running(&w, s, 1), before);
            assert_eq!(w.revisions(s), [1, 1, 1], "{}", w.show(s));
        }
    }
}

trait OfNumber {
    fn is_of_number(&self, w: &World, number: u64) -> bool;
}

impl OfNumber for model::Task {
    fn is_of_number(&self, w: &World, number: u64) -> bool {
        w.tables.revision(self.revision).is_some_and(|r| r.number == number)
    }
}

/// nomad PR#11878: a service with canaries beside one without, changed at once.
#[test]
fn d5_services_with_and_without_canaries_both_complete() {
    let mut w = World::new(&["a", "b"]);
    let a = w.create_with(replicas(3), slow("runs"), UpdatePolicy { auto_promote: true, ..canaries(1) });
    let b = w.create(replicas(3), slow("runs"));
    w.settle();
    w.update(a, slow("runs"));
    w.update(b, slow("runs"));
    w.pass(seconds(60));
    for s in [a, b] {
        assert_eq!((w.revisions(s), w.state_of(s)), (vec![2; 3], Some(UpdateState::Completed)));
    }
}

/// nomad#27804: nobody says anything for a day. The update stands still, and what then happens to it is said by people alone; once it
/// goes on its tasks have their whole time again.
#[test]
fn d6_what_stands_still_does_not_fail_and_deadlines_begin_anew() {
    let policy =
        UpdatePolicy { promote_within: seconds(60), failure_action: FailureAction::Rollback, ..canaries(1) };
    let (mut w, s, before) = begun(3, policy, slow("runs"));
    w.pass(seconds(70));
    let told = "paused: update paused: its canaries were not promoted within 1m0s; promote or abort them";
    assert_eq!(w.update_state(s), told);
    w.pass(seconds(100_000));
    assert_eq!(w.update_state(s), told);
    assert_eq!(running(&w, s, 1), before);
    // The canary's node is lost, and there is no room for the next one.
    w.room = 0;
    let canary = w.tables.task(running(&w, s, 2)[0]).expect("it runs").node.expect("its node");
    let name = w.tables.node(canary).expect("it is there").description.hostname.to_string();
    w.availability(&name, Availability::Drain);
    w.pass(seconds(50));
    w.promote(s);
    w.pass(seconds(55));
    assert_eq!(w.state_of(s), Some(UpdateState::Updating), "{} {}", w.show(s), w.update_state(s));
    w.room = 100;
    w.availability(&name, Availability::Active);
    w.pass(seconds(60));
    assert_eq!((w.revisions(s), w.state_of(s)), (vec![2; 3], Some(UpdateState::Completed)), "{}", w.show(s));
}

#[test]
fn the_originals_own_policy_goes_on_beside_a_canary() {
    let (mut w, s, before) = begun(3, canaries(2), slow("runs"));
    w.pass(seconds(7));
    let tried = running(&w, s, 2);
    let original = w.tables.task(before[0]).expect("it runs").clone();
    w.report(&original, TaskState::Failed, Some(1));
    w.settle();
    let now = running(&w, s, 1);
    assert_eq!((now.len(), &now[1..]), (3, &before[1..]), "{}", w.show(s));
    assert_eq!(running(&w, s, 2), tried);
    // A node that is lost takes from both lines, and both are filled again.
    w.state("a", NodeState::Down);
    w.pass(seconds(1));
    assert_eq!((running(&w, s, 1).len(), running(&w, s, 2).len()), (3, 2), "{}", w.show(s));
    w.state("a", NodeState::Ready);
    // A canary that lasted and ends is replaced as its policy says, and has not failed.
    let canary = w.tables.task(running(&w, s, 2)[0]).expect("it runs").clone();
    w.pass(seconds(10));
    w.report(&canary, TaskState::Failed, Some(1));
    w.pass(seconds(10));
    assert_eq!((running(&w, s, 1).len(), running(&w, s, 2).len()), (3, 2), "{}", w.show(s));
    assert_eq!(w.state_of(s), Some(UpdateState::Canary));
    let now = running(&w, s, 1);
    w.roll_back(s);
    w.pass(seconds(10));
    assert_eq!(running(&w, s, 1), now, "{}", w.show(s));
}

#[test]
fn an_original_that_ended_for_good_stays_so() {
    let mut w = World::new(&["a"]);
    let once = with(spec("exits 0 20000"), |t| t.replace.condition = Condition::None);
    let s = w.create_with(replicas(2), once, canaries(1));
    w.settle();
    w.update(s, with(spec("runs"), |t| t.replace.condition = Condition::None));
    w.pass(seconds(60));
    assert_eq!(w.show(s), "1: complete, running@a; 2: complete");
    w.change_cluster(|c| c.history = 0);
    w.pass(seconds(5));
    assert_eq!(w.show(s), "1: complete, running@a; 2: complete");
    w.roll_back(s);
    w.pass(seconds(30));
    assert_eq!(w.show(s), "1: complete; 2: complete");
    assert_eq!(w.state_of(s), Some(UpdateState::RollbackCompleted));
}

#[test]
fn scaling_while_canaries_wait() {
    let (mut w, s, before) = begun(3, canaries(2), slow("runs"));
    w.pass(seconds(7));
    w.scale(s, 6);
    w.pass(seconds(7));
    assert_eq!((running(&w, s, 1).len(), running(&w, s, 2).len()), (6, 2), "{}", w.show(s));
    w.scale(s, 2);
    w.pass(seconds(7));
    assert_eq!((running(&w, s, 1), running(&w, s, 2).len()), (before[..2].to_vec(), 2), "{}", w.show(s));
    w.scale(s, 0);
    w.pass(seconds(7));
    assert_eq!(w.running(s), 0);
    assert_eq!(w.state_of(s), Some(UpdateState::Canary));
    w.scale(s, 3);
    w.pass(seconds(20));
    assert_eq!((running(&w, s, 1).len(), running(&w, s, 2).len()), (3, 2), "{}", w.show(s));
    w.promote(s);
    w.pass(seconds(30));
    assert_eq!((w.revisions(s), w.state_of(s)), (vec![2; 3], Some(UpdateState::Completed)));
}

/// Nothing runs that could be tried: neither the canaries nor the update itself say that they were watched.
#[test]
fn without_replicas_nothing_is_tried_and_that_is_said() {
    for auto_promote in [false, true] {
        let policy = UpdatePolicy { auto_promote, ..canaries(1) };
        let (mut w, s, _) = begun(0, policy, slow("runs"));
        w.pass(seconds(7));
        if !auto_promote {
            let told = "canary: no canary was tried, since the service has no replicas; scale it up, promote or abort";
            assert_eq!(w.update_state(s), told);
            w.promote(s);
            w.pass(seconds(7));
        }
        let told = "completed: update completed; nothing was tried, since the service has no replicas";
        assert_eq!(w.update_state(s), told);
        let by_themselves = "promoted: canaries promoted by themselves: no canary was tried, since the service has no replicas";
        assert_eq!(w.decisions(s).iter().any(|d| d == by_themselves), auto_promote, "{:?}", w.decisions(s));
    }
    // Scaled up before anybody promotes, they are tried after all.
    let (mut w, s, _) = begun(0, canaries(1), slow("runs"));
    w.pass(seconds(7));
    w.scale(s, 2);
    w.pass(seconds(7));
    assert_eq!((running(&w, s, 1).len(), running(&w, s, 2).len()), (2, 1), "{}", w.show(s));
}

#[test]
fn a_new_spec_ends_the_canaries_before_and_begins_others() {
    for at in [0, 2, 7] {
        let (mut w, s, before) = begun(3, canaries(2), slow("runs"));
        w.pass(seconds(at));
        let first = running(&w, s, 2);
        w.policies(s, canaries(1), UpdatePolicy::default());
        w.update(s, slow("runs"));
        w.pass(seconds(7));
        assert_eq!(running(&w, s, 1), before, "{}", w.show(s));
        assert!(running(&w, s, 2).is_empty() && !first.is_empty(), "{}", w.show(s));
        assert_eq!(running(&w, s, 3).len(), 1);
        assert_eq!(w.state_of(s), Some(UpdateState::Canary));
        // And one without: the slots have one owner again.
        w.policies(s, UpdatePolicy::default(), UpdatePolicy::default());
        w.update(s, slow("runs"));
        w.pass(seconds(40));
        assert_eq!(
            (w.revisions(s), w.state_of(s)),
            (vec![4; 3], Some(UpdateState::Completed)),
            "{}",
            w.show(s)
        );
    }
}

#[test]
fn some_canaries_may_fail_but_then_somebody_has_to_promote() {
    let half = Ratio::parse("0.5").expect("a ratio");
    let policy = UpdatePolicy { max_failure_ratio: half, auto_promote: true, ..canaries(2) };
    let (mut w, s, before) = begun(3, policy, with(slow("runs"), |t| t.replace.delay = seconds(1)));
    w.pass(seconds(2));
    let one = w.tables.task(running(&w, s, 2)[1]).expect("it runs").clone();
    w.report(&one, TaskState::Failed, Some(4));
    w.pass(seconds(20));
    assert_eq!(
        w.update_state(s),
        "canary: 2 canaries have been watched for 5s, although 1 of 2 failed: slot 2 failed with exit code 4; promote or abort them"
    );
    assert_eq!((running(&w, s, 1), running(&w, s, 2).len()), (before, 2), "{}", w.show(s));
    w.promote(s);
    w.pass(seconds(30));
    assert_eq!((w.revisions(s), w.state_of(s)), (vec![2; 3], Some(UpdateState::Completed)));
}

#[test]
fn another_manager_at_any_moment_goes_on_with_the_canaries() {
    let story = |take_over: bool| {
        let mut w = World::new(&["a", "b"]);
        let s = w.create_with(replicas(4), slow("runs"), canaries(2));
        w.settle();
        let step = |w: &mut World| {
            for _ in 0..9 {
                w.pass(SECOND);
                if take_over {
                    w.take_over();
                }
            }
        };
        w.update(s, slow("runs"));
        step(&mut w);
        w.roll_back(s);
        step(&mut w);
        w.update(s, slow("runs"));
        step(&mut w);
        w.promote(s);
        step(&mut w);
        step(&mut w);
        (w.show(s), w.update_state(s))
    };
    assert_eq!(story(true), story(false));
}

/// A fixed number of canaries costs no more in a large service.
#[test]
fn a_slot_has_one_owner_in_each_line() {
    let (mut w, s, _) = begun(2, canaries(1), slow("runs"));
    w.pass(seconds(7));
    w.watch = Some(|w: &World| {
        let service = w.tables.services().next().expect("one service");
        for n in 0..2 {
            let mut lines: Vec<_> = w
                .tables
                .tasks_of_slot(service.id, Slot::Number(n))
                .filter(|t| t.fills_slot())
                .map(|t| t.revision)
                .collect();
            let all = lines.len();
            lines.dedup();
            assert_eq!(all, lines.len(), "{}", w.show(service.id));
        }
    });
    for slot in [0, 0, 1, 0] {
        w.kill(s, slot, 1);
        w.pass(seconds(3));
    }
    assert_eq!((running(&w, s, 1).len(), running(&w, s, 2).len()), (2, 1), "{}", w.show(s));
}

/// What a canary's line and the slot's own did side by side interrupts neither of them.
#[test]
fn ends_beside_the_other_line_count_against_the_attempts() {
    let failing = || with(slow("runs"), |t| (t.replace.max_attempts, t.replace.delay) = (2, Span::ZERO));
    let fail = |w: &mut World, s: ServiceId, revision: u64| {
        let task = w.tables.task(running(w, s, revision)[0]).expect("it runs").clone();
        w.report(&task, TaskState::Failed, Some(4));
        w.pass(seconds(7));
    };
    let promoted = |with_own: bool| {
        let policy = UpdatePolicy { failure_action: FailureAction::Continue, ..canaries(1) };
        let (mut w, s, _) = begun(1, policy, failing());
        w.pass(seconds(7));
        fail(&mut w, s, 2);
        if with_own {
            fail(&mut w, s, 1);
        }
        w.promote(s);
        w.pass(seconds(7));
        fail(&mut w, s, 2);
        assert_eq!(running(&w, s, 2).len(), 1, "two attempts more: {}", w.show(s));
        fail(&mut w, s, 2);
        (running(&w, s, 2).len(), w.decisions(s).last().cloned())
    };
    assert_eq!(promoted(false).0, 0);
    assert_eq!(promoted(true), promoted(false), "three ends are three ends");

    // Likewise of the slot's own tasks, when the canaries are aborted.
    let mut w = World::new(&["a", "b"]);
    let s = w.create_with(replicas(1), failing(), canaries(1));
    w.settle();
    fail(&mut w, s, 1);
    w.update(s, failing());
    w.pass(seconds(7));
    fail(&mut w, s, 1);
    w.roll_back(s);
    w.pass(seconds(7));
    fail(&mut w, s, 1);
    assert_eq!(running(&w, s, 1).len(), 0, "{}", w.show(s));
}
