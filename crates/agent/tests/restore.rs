//! After a restart of the daemon: tasks are found again, never started a second time, and told again.

mod support;

use agent::{DriverEvent, Exit, Record};
use model::{Desired, Lifecycle, Span, TaskState, Time};
use support::{DAWN, Desk, NOTHING, code, plain, program, restarting, signal, task, update, wanted};

const SECOND: Span = Span::from_secs(1);

/// The records that a desk has had written so far, with another desk an hour later.
fn restart(desk: Desk) -> Desk {
    Desk::at(desk.records, desk.now + Span::from_secs(3600))
}

fn running() -> Desk {
    let mut desk = Desk::open();
    desk.running(plain("t1"));
    desk
}

#[test]
fn a_running_program_is_attached_and_reported_and_nothing_is_started() {
    let mut desk = restart(running());
    assert_eq!(desk.first, ["connect 1", "attach t1/main"]);
    assert_eq!(desk.register(), ["register", "heartbeat"], "nothing is said before it is known");
    assert_eq!(desk.attached("t1/main", 42), ["report 1: t1 running"]);
    assert_eq!(desk.events("t1"), ["found running as process 42"]);
    assert_eq!(desk.exited("t1/main", code(1)), ["persist t1 failed/running"]);
}

#[test]
fn every_task_is_reported_again_after_a_restart() {
    let mut desk = running();
    desk.running(plain("t2"));
    desk.exited("t2/main", code(0));
    desk.persisted("t2");
    let mut desk = restart(desk);
    desk.attached("t1/main", 42);
    assert!(desk.register().contains(&"report 1: t2 complete, t1 running".to_owned()));
}

#[test]
fn what_ended_meanwhile_is_told_with_its_own_end() {
    let mut desk = restart(running());
    let exit = Exit { at: DAWN + SECOND, ..signal(9) };
    assert_eq!(desk.driver("t1/main", DriverEvent::Exited(exit)), ["persist t1 failed/running"]);
    desk.persisted("t1");
    let lines = desk.register();
    assert_eq!(lines.last().map(String::as_str), Some("report 1: t1 failed (killed by signal 9 (SIGKILL))"));
}

#[test]
fn what_was_lost_is_a_failure() {
    let mut desk = restart(running());
    let at = desk.now;
    desk.driver("t1/main", DriverEvent::Lost { message: "the machine was restarted".into(), at });
    assert_eq!(desk.records[0].state, TaskState::Failed);
    assert_eq!(desk.records[0].message.as_deref(), Some("the machine was restarted"));
}

#[test]
fn what_never_ran_is_started() {
    let mut desk = Desk::open();
    desk.assign(vec![update(plain("t1"))]);
    let mut desk = restart(desk);
    assert_eq!(desk.driver("t1/main", DriverEvent::Never), ["start t1/main"]);
}

#[test]
fn nothing_is_started_before_it_is_known_what_became_of_everything() {
    let mut desk = Desk::open();
    let mains = vec![program("a", Lifecycle::Main), program("b", Lifecycle::Main)];
    desk.assign(vec![update(task("t1", mains))]);
    let mut desk = restart(desk);
    assert_eq!(desk.driver("t1/b", DriverEvent::Never), NOTHING);
    assert_eq!(desk.attached("t1/a", 1), ["start t1/b"]);

    // A restart in place waits as well.
    let mut desk = Desk::open();
    let mains = vec![restarting("a", 1, 0, 0), program("b", Lifecycle::Main)];
    desk.assign(vec![update(task("t1", mains))]);
    desk.persisted("t1");
    desk.started("t1/a", 1);
    desk.started("t1/b", 2);
    desk.exited("t1/a", code(1));
    let mut desk = restart(desk);
    assert_eq!(desk.driver("t1/a", DriverEvent::Never), NOTHING);
    assert_eq!(desk.attached("t1/b", 2), ["start t1/a"]);
}

#[test]
fn a_waiting_task_goes_on_waiting() {
    let mut desk = Desk::open();
    desk.assign(vec![wanted(plain("t1"), Desired::Ready)]);
    let mut desk = restart(desk);
    assert_eq!(desk.driver("t1/main", DriverEvent::Never), NOTHING);
    assert_eq!(desk.state("t1"), Some(TaskState::Ready));
    assert!(desk.register().contains(&"report 1: t1 ready".to_owned()));
}

#[test]
fn a_request_to_end_is_carried_on() {
    let mut desk = running();
    desk.assign(vec![wanted(plain("t1"), Desired::Shutdown)]);
    let mut desk = restart(desk);
    assert_eq!(desk.attached("t1/main", 42), ["stop t1/main 10s"]);
    desk.persisted("t1");
    assert_eq!(desk.exited("t1/main", signal(15)), ["persist t1 shutdown/shutdown"]);
}

#[test]
fn a_stop_that_took_effect_meanwhile_is_a_shutdown() {
    let mut desk = running();
    desk.assign(vec![wanted(plain("t1"), Desired::Shutdown)]);
    let mut desk = restart(desk);
    let exit = Exit { at: DAWN, ..signal(15) };
    desk.driver("t1/main", DriverEvent::Exited(exit));
    desk.persisted("t1");
    assert_eq!(desk.records[0].state, TaskState::Shutdown);
}

#[test]
fn an_ended_task_is_cleaned_again_but_not_looked_for() {
    let mut desk = running();
    desk.exited("t1/main", code(1));
    let mut desk = restart(desk);
    assert_eq!(desk.first, ["connect 1", "remove t1/main"]);
    desk.removed("t1/main");
    let lines = desk.register();
    assert!(lines.contains(&"report 1: t1 failed (exit status 1)".to_owned()), "{lines:?}");
    // The next complete set does not list it.
    assert_eq!(desk.complete(vec![]), ["forget t1"]);
}

/// A desk whose program has ended for the first time and waits to be restarted in place.
fn between_runs() -> Desk {
    let mut desk = Desk::open();
    desk.running(task("t1", vec![restarting("main", 1, 0, 5)]));
    desk.exited("t1/main", code(7));
    desk
}

fn restarts(record: &Record) -> u32 {
    record.programs[0].restarts.count
}

#[test]
fn a_restart_that_is_on_disk_is_counted_once() {
    // The traces of the ended run are still there: the same end is not counted again.
    let desk = between_runs();
    let ended = desk.now;
    let mut desk = restart(desk);
    desk.driver("t1/main", DriverEvent::Exited(Exit { at: ended, ..code(7) }));
    assert_eq!(desk.removed("t1/main"), ["start t1/main"], "the delay has long passed");
    desk.started("t1/main", 43);
    assert_eq!(restarts(&desk.records[0]), 1);

    // The traces are removed.
    let mut desk = restart(between_runs());
    assert_eq!(desk.driver("t1/main", DriverEvent::Never), ["start t1/main"]);

    // It was started again.
    let mut desk = restart(between_runs());
    desk.attached("t1/main", 44);
    assert_eq!(desk.exited("t1/main", code(7))[0], "persist t1 failed/running", "its attempts are used up");

    // It was started again and ended again.
    let mut desk = restart(between_runs());
    let exit = Exit { at: desk.now - SECOND, ..code(8) };
    assert_eq!(desk.driver("t1/main", DriverEvent::Exited(exit))[0], "persist t1 failed/running");
}

#[test]
fn a_program_known_to_have_run_is_not_started_because_its_traces_are_gone() {
    let mut desk = Desk::open();
    let mains = vec![program("a", Lifecycle::Main), program("b", Lifecycle::Main)];
    desk.assign(vec![update(task("t1", mains))]);
    desk.persisted("t1");
    desk.started("t1/a", 1);
    desk.started("t1/b", 2);
    desk.exited("t1/a", code(0));
    let mut desk = restart(desk);
    assert_eq!(desk.first[1..], ["attach t1/b"]);
    desk.driver("t1/b", DriverEvent::Never);
    assert_eq!(desk.records[0].state, TaskState::Failed);
    assert_eq!(desk.records[0].message.as_deref(), Some("b: what the node knew of it is lost"));
}

#[test]
fn a_driver_that_cannot_say_is_asked_again_and_nothing_starts_meanwhile() {
    let mut desk = restart(running());
    let failed = || DriverEvent::AttachFailed { message: "the supervisor does not answer".into() };
    assert_eq!(desk.driver("t1/main", failed()), NOTHING);
    assert_eq!(desk.pass(SECOND), ["attach t1/main"]);
    assert_eq!(desk.attached("t1/main", 42), NOTHING);
    assert_eq!(desk.state("t1"), Some(TaskState::Running));
    assert_eq!(desk.message("t1"), "");

    // When it shall end nobody needs to know what became of it.
    let mut desk = restart(running());
    desk.register();
    desk.driver("t1/main", failed());
    assert_eq!(desk.complete(vec![wanted(plain("t1"), Desired::Shutdown)]), ["persist t1 starting/shutdown"]);
    assert_eq!(desk.persisted("t1"), ["remove t1/main"]);
    assert_eq!(desk.removed("t1/main"), ["persist t1 shutdown/shutdown"]);
    assert_eq!(desk.persisted("t1").len(), 1, "the report");
    assert_eq!(desk.state("t1"), Some(TaskState::Shutdown));
}

#[test]
fn traces_that_cannot_be_removed_are_tried_again() {
    let mut desk = running();
    desk.exited("t1/main", code(0));
    desk.persisted("t1");
    desk.driver("t1/main", DriverEvent::RemoveFailed { message: "device or resource busy".into() });
    assert!(desk.pass(SECOND).contains(&"remove t1/main".to_owned()));
    desk.removed("t1/main");
    assert_eq!(desk.state("t1"), Some(TaskState::Complete));
    assert_eq!(desk.message("t1"), "");
}

#[test]
fn a_restored_task_keeps_the_environment_of_its_node() {
    let mut desk = Desk::open();
    desk.assign(vec![update(plain("t1"))]);
    let mut desk = restart(desk);
    desk.driver("t1/main", DriverEvent::Never);
    let launch = desk.effects.iter().find_map(|effect| match effect {
        agent::Effect::Start(launch) => Some(launch.clone()),
        _ => None,
    });
    let launch = launch.unwrap();
    assert!(launch.env.contains(&("QUELEA_NODE_ID".into(), "n1".into())));
    assert_eq!((launch.stop_signal, &*launch.spec().name), (15, "main"));
}

#[test]
fn times_are_those_of_the_driver() {
    let mut desk = restart(running());
    let at = DAWN + Span::from_millis(5);
    desk.driver("t1/main", DriverEvent::Attached { pid: 42, at, notes: vec![] });
    desk.register();
    let reported = desk.effects.iter().find_map(|effect| match effect {
        agent::Effect::Send { message: model::sync::ToManager::Report { tasks, .. }, .. } => {
            Some(tasks[0].at)
        }
        _ => None,
    });
    assert_eq!(reported, Some(at));
    assert_ne!(at, Time::ZERO);
}
