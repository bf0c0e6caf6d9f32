//! The session with the manager: registration, heartbeats, reports, assignments that do not follow, and being given up.

mod support;

use std::sync::Arc;

use agent::{DriverEvent, Effect, Input, Link, limits};
use model::sync::{AssignmentChange, AssignmentsKind, ToAgent, ToManager};
use model::{Description, Desired, SessionId, Span, TaskState};
use support::{Desk, NOTHING, code, plain, remove, update, wanted};

const SECOND: Span = Span::from_secs(1);

fn description(hostname: &str) -> Arc<Description> {
    Arc::new(Description { hostname: hostname.into(), ..Description::default() })
}

fn registered(session: u128) -> ToAgent {
    ToAgent::Registered { session: SessionId::from_u128(session), node: "n1".into(), heartbeat: Span::ZERO }
}

/// A desk whose session is open; nobody answers heartbeats but the test.
fn silent() -> Desk {
    let mut desk = Desk::new(Vec::new());
    desk.input(Input::Described(description("n1")));
    desk.input(Input::Connected { connection: 1 });
    desk.session = 1;
    desk.say(registered(1));
    desk
}

/// The moments, relative to now, and lines of what happens by itself within `span`; nobody answers.
fn alone(desk: &mut Desk, span: Span) -> Vec<(Span, String)> {
    let (from, end) = (desk.now, desk.now + span);
    let mut lines = Vec::new();
    while let Some(wake) = desk.agent.next_wake().filter(|at| *at <= end) {
        desk.now = desk.now.max(wake);
        let at = desk.now.since(from);
        lines.extend(desk.input(Input::Tick).into_iter().map(|line| (at, line)));
    }
    desk.now = end;
    lines
}

#[test]
fn the_first_beat_follows_after_the_span_that_the_manager_gives() {
    let mut desk = Desk::new(Vec::new());
    desk.input(Input::Described(description("n1")));
    desk.input(Input::Connected { connection: 1 });
    let (session, heartbeat) = (SessionId::from_u128(1), Span::from_secs(3));
    assert_eq!(desk.say(ToAgent::Registered { session, node: "n1".into(), heartbeat }), NOTHING);
    assert_eq!(alone(&mut desk, heartbeat), [(heartbeat, "heartbeat".into())]);
}

#[test]
fn it_connects_then_registers_then_beats() {
    let mut desk = Desk::new(Vec::new());
    assert_eq!(desk.first, ["connect 1"]);
    assert_eq!(desk.input(Input::Connected { connection: 1 }), NOTHING, "nothing is known of the machine");
    assert_eq!(desk.input(Input::Described(description("n1"))), ["register"]);
    assert_eq!(desk.agent.link(), Link::Registering);
    assert_eq!(desk.say(registered(1)), ["heartbeat"]);
    assert_eq!(desk.agent.link(), Link::Open { session: SessionId::from_u128(1) });
}

#[test]
fn it_beats_again_after_each_period_that_is_given() {
    let mut desk = silent();
    desk.say(ToAgent::Heartbeat { period: Span::from_secs(3) });
    assert_eq!(alone(&mut desk, Span::from_secs(3)), [(Span::from_secs(3), "heartbeat".into())]);
    // A zero period does not make it spin, an endless one does not make it sleep.
    desk.say(ToAgent::Heartbeat { period: Span::ZERO });
    assert_eq!(alone(&mut desk, limits::PERIOD_MIN), [(limits::PERIOD_MIN, "heartbeat".into())]);
    desk.say(ToAgent::Heartbeat { period: Span::from_secs(1_000_000) });
    assert_eq!(alone(&mut desk, limits::PERIOD_MAX), [(limits::PERIOD_MAX, "heartbeat".into())]);
}

#[test]
fn a_manager_that_does_not_answer_is_given_up() {
    let reason = |desk: &Desk| match desk.agent.link() {
        Link::Down { reason } => reason.unwrap_or_default().to_string(),
        other => panic!("{other:?}"),
    };
    let five = Span::from_secs(5);

    let mut desk = silent();
    assert_eq!(alone(&mut desk, five), [(five, "connect 2".into())]);
    assert_eq!(reason(&desk), "the manager does not answer the heartbeat");

    let mut desk = Desk::new(Vec::new());
    desk.input(Input::Described(description("n1")));
    desk.input(Input::Connected { connection: 1 });
    assert_eq!(alone(&mut desk, five), [(five, "connect 2".into())]);
    assert_eq!(reason(&desk), "the manager does not answer the registration");

    let mut desk = Desk::open();
    desk.answers = false;
    desk.assign(vec![update(plain("t1"))]);
    desk.persisted("t1");
    desk.started("t1/main", 1);
    assert_eq!(desk.pass(limits::REPORT_PATIENCE).last().map(String::as_str), Some("connect 2"));
    assert_eq!(reason(&desk), "the manager does not answer a report");
}

#[test]
fn connections_are_tried_again_with_growing_waits_until_a_heartbeat_is_answered() {
    let waits = |seed_desk: &mut Desk, times: u32| -> Vec<Span> {
        let mut waits = Vec::new();
        for _ in 0..times {
            let connection = seed_desk.connection;
            seed_desk.input(Input::Disconnected { connection, reason: "refused".into() });
            let Some(Effect::Connect { after, .. }) = seed_desk.effects.last() else {
                panic!("no new connection");
            };
            waits.push(*after);
        }
        waits
    };
    let mut desk = Desk::new(Vec::new());
    let bounds = [100, 300, 700, 1500, 3100, 6300, 8000, 8000].map(Span::from_millis);
    for (wait, bound) in waits(&mut desk, 8).into_iter().zip(bounds) {
        assert!(wait < bound, "{wait} of {bound}");
    }
    desk.register();
    assert!(waits(&mut desk, 1)[0] < bounds[0]);
    let one = |seed| agent::Agent::new(agent::Config::new(seed), vec![], support::DAWN).0;
    let mut first = one(1);
    let mut second = one(2);
    let lost = Input::Disconnected { connection: 1, reason: "refused".into() };
    assert_ne!(
        first.step(support::DAWN, lost.clone()),
        second.step(support::DAWN, lost),
        "agents spread out"
    );
}

#[test]
fn what_an_old_connection_says_is_not_heard() {
    let mut desk = Desk::open();
    desk.input(Input::Disconnected { connection: 1, reason: "reset".into() });
    for message in [
        registered(9),
        ToAgent::Heartbeat { period: SECOND },
        ToAgent::Reported { number: 1 },
        ToAgent::SessionEnded { reason: "displaced".into() },
    ] {
        assert_eq!(desk.input(Input::Message { connection: 1, message }), NOTHING);
    }
    assert_eq!(desk.input(Input::Connected { connection: 1 }), NOTHING);
    assert_eq!(desk.input(Input::Disconnected { connection: 1, reason: "reset".into() }), NOTHING);
    assert_eq!(desk.register()[0], "register");
}

#[test]
fn assignments_of_another_session_are_not_heard() {
    let mut desk = Desk::open();
    let set = model::sync::Assignments {
        session: SessionId::from_u128(99),
        kind: AssignmentsKind::Complete,
        applies_to: 0,
        results_in: 1,
        changes: vec![update(plain("t1"))],
    };
    assert_eq!(desk.say(ToAgent::Assignments(set)), NOTHING);
}

#[test]
fn a_session_that_ends_is_replaced() {
    let mut desk = Desk::open();
    desk.running(plain("t1"));
    assert_eq!(desk.say(ToAgent::SessionEnded { reason: "displaced".into() }), ["connect 2"]);
    assert_eq!(desk.agent.link(), Link::Down { reason: Some("displaced".into()) });
    assert_eq!(desk.register(), ["register", "heartbeat"], "what is acknowledged is not said again");
    let mut known = plain("t1");
    known.state = TaskState::Running;
    assert_eq!(desk.complete(vec![update(known)]), NOTHING);
}

#[test]
fn a_change_of_the_machine_is_told() {
    let mut desk = Desk::open();
    assert_eq!(desk.input(Input::Described(description("n1"))), NOTHING, "nothing is new");
    assert_eq!(desk.input(Input::Described(description("n2"))), ["describe 1"]);
    assert_eq!(desk.say(registered(1)), NOTHING);
    assert_eq!(desk.assign(vec![]), NOTHING, "the session goes on where it was");
    // While the registration is under way.
    desk.input(Input::Disconnected { connection: 1, reason: "reset".into() });
    desk.input(Input::Connected { connection: 2 });
    assert_eq!(desk.input(Input::Described(description("n3"))), NOTHING);
    assert_eq!(desk.say(registered(2)), ["describe 2", "heartbeat"]);
}

#[test]
fn assignments_that_do_not_follow_bring_a_new_session_and_are_not_applied() {
    for (kind, applies_to, results_in) in
        [(AssignmentsKind::Incremental, 7, 8), (AssignmentsKind::Incremental, 0, 1)]
    {
        let mut desk = Desk::open();
        desk.running(plain("t1"));
        let session = SessionId::from_u128(1);
        let changes = vec![remove("t1")];
        let set = model::sync::Assignments { session, kind, applies_to, results_in, changes };
        assert_eq!(desk.say(ToAgent::Assignments(set)), ["connect 2"]);
        assert_eq!(desk.register(), ["register", "heartbeat"]);
        let mut known = plain("t1");
        known.state = TaskState::Running;
        assert_eq!(desk.complete(vec![update(known)]), NOTHING);
    }
}

#[test]
fn an_incremental_set_before_the_complete_one_brings_a_new_session() {
    let mut desk = silent();
    let session = SessionId::from_u128(1);
    let (kind, changes) = (AssignmentsKind::Incremental, vec![]);
    let set = model::sync::Assignments { session, kind, applies_to: 0, results_in: 1, changes };
    assert_eq!(desk.say(ToAgent::Assignments(set)), ["connect 2"]);
}

#[test]
fn a_report_that_was_not_answered_is_sent_again_and_the_newest_wins() {
    let mut desk = Desk::open();
    desk.answers = false;
    desk.assign(vec![update(plain("t1")), update(plain("t2"))]);
    desk.persisted("t1");
    desk.persisted("t2");
    assert_eq!(desk.started("t1/main", 1), ["report 1: t1 running, t2 starting"]);
    desk.started("t2/main", 2);
    assert_eq!(desk.pass(Span::from_millis(20)), ["report 2: t2 running"]);
    assert_eq!(desk.reported(2), NOTHING);
    desk.input(Input::Disconnected { connection: 1, reason: "reset".into() });
    desk.exited("t1/main", code(0));
    desk.persisted("t1");
    desk.pass(SECOND);
    let lines = desk.register();
    assert_eq!(lines, ["register", "heartbeat", "report 1: t1 complete"], "t2 was acknowledged");
    assert_eq!(desk.reported(1), NOTHING);
    assert_eq!(desk.pass(SECOND), NOTHING);
}

#[test]
fn what_a_complete_set_contradicts_is_said_again() {
    let mut desk = Desk::open();
    desk.running(plain("t1"));
    // The managers were restored from a backup that knows less.
    assert_eq!(desk.complete(vec![update(plain("t1"))]), ["report 2: t1 running"]);
}

#[test]
fn reports_are_batched_when_much_happens() {
    let mut desk = Desk::open();
    let ids: Vec<String> = (100..200).map(|n| format!("t{n}")).collect();
    desk.assign(ids.iter().map(|id| update(plain(id))).collect());
    for id in &ids {
        desk.persisted(id);
    }
    let mut reports = 0;
    for id in &ids {
        reports += desk.started(&format!("{id}/main"), 1).len();
        desk.now = desk.now + Span::from_millis(1);
    }
    reports += desk.pass(Span::from_millis(20)).len();
    assert!((5..=7).contains(&reports), "100 starts in 100 ms take one report each 20 ms: {reports}");
    assert!(desk.agent.tasks().all(|task| task.state == TaskState::Running));
}

#[test]
fn a_report_is_of_bounded_size_and_no_more_than_a_few_wait_for_an_answer() {
    let mut desk = Desk::open();
    desk.answers = false;
    let count = limits::REPORT_TASKS * (limits::REPORTS_IN_FLIGHT + 2);
    let ids: Vec<String> = (0..count).map(|n| format!("t{n:05}")).collect();
    let refused = |id: &String| {
        let mut bad = plain(id);
        bad.spec = Arc::default();
        update(bad)
    };
    desk.assign(ids.iter().map(refused).collect());
    for id in &ids {
        desk.persisted(id);
        desk.persisted(id);
    }
    desk.pass(SECOND);
    let sizes = |desk: &Desk| -> Vec<usize> {
        let size = |effect: &Effect| match effect {
            Effect::Send { message: ToManager::Report { tasks, .. }, .. } => Some(tasks.len()),
            _ => None,
        };
        desk.effects.iter().filter_map(size).collect()
    };
    assert_eq!(sizes(&desk).len(), limits::REPORTS_IN_FLIGHT);
    for number in 1.. {
        if number > sizes(&desk).len() as u64 {
            break;
        }
        desk.reported(number);
        desk.pass(Span::from_millis(20));
    }
    assert_eq!(sizes(&desk).iter().sum::<usize>(), count, "each once");
    assert!(sizes(&desk).iter().all(|size| *size <= limits::REPORT_TASKS));
}

#[test]
fn a_report_is_bounded_in_bytes() {
    let mut desk = Desk::open();
    let ids: Vec<String> = (0..200).map(|n| format!("t{n:05}")).collect();
    desk.assign(ids.iter().map(|id| update(plain(id))).collect());
    for id in &ids {
        desk.persisted(id);
        let notes = (0..10).map(|n| format!("{n}{}", "x".repeat(2000)).into()).collect();
        let at = desk.now;
        desk.driver(&format!("{id}/main"), DriverEvent::Started { pid: 1, at, notes });
    }
    desk.pass(SECOND);
    let mut reported = 0;
    for effect in &desk.effects {
        let Effect::Send { message: ToManager::Report { tasks, .. }, .. } = effect else {
            continue;
        };
        reported += tasks.len();
        let events = tasks.iter().flat_map(|t| &t.programs).flat_map(|p| &p.events);
        let bytes: usize = events.map(|event| event.message.len()).sum();
        assert!(bytes <= limits::REPORT_BYTES, "{bytes}");
    }
    assert_eq!(reported, 200);
}

#[test]
fn more_tasks_than_the_node_takes_are_rejected() {
    let mut desk = Desk::open();
    let mut changes: Vec<AssignmentChange> = Vec::new();
    for n in 0..=limits::TASKS {
        // What has ended before takes a place as well: the manager still knows it.
        let mut ended = plain(&format!("t{n:06}"));
        if n < limits::TASKS {
            ended.state = TaskState::Complete;
        }
        changes.push(update(ended));
    }
    assert_eq!(
        desk.assign(changes),
        ["report 1: t100000 rejected (this node has 100000 tasks and takes no more)"]
    );
}

#[test]
fn what_happens_while_nobody_listens_is_told_later() {
    let mut desk = Desk::open();
    desk.running(plain("t1"));
    desk.assign(vec![wanted(plain("t1"), Desired::Shutdown)]);
    desk.persisted("t1");
    desk.input(Input::Disconnected { connection: 1, reason: "gone".into() });
    desk.exited("t1/main", code(0));
    assert_eq!(desk.persisted("t1"), ["remove t1/main"]);
    desk.removed("t1/main");
    assert_eq!(desk.pass(Span::from_secs(3600)), NOTHING);
    assert!(desk.register().contains(&"report 1: t1 shutdown".to_owned()));
}
