//! The life of tasks, played by hand: what is asked of disk and drivers, in which order, and what is reported.

mod support;

use agent::{DriverEvent, Exit, Input};
use model::{Desired, Lifecycle, Span, TaskState, Time};
use support::{Desk, NOTHING, code, plain, program, remove, restarting, signal, task, update, wanted};

const SECOND: Span = Span::from_secs(1);

#[test]
fn a_task_is_on_disk_before_it_starts_and_running_is_reported_at_once() {
    let mut desk = Desk::open();
    assert_eq!(desk.assign(vec![update(plain("t1"))]), ["persist t1 assigned/running"]);
    assert_eq!(desk.persisted("t1"), ["start t1/main"]);
    assert_eq!(desk.started("t1/main", 42), ["report 1: t1 running"]);
    assert_eq!(desk.pass(SECOND), NOTHING);
    assert_eq!(desk.events("t1"), ["started as process 42"]);
}

#[test]
fn a_slow_start_is_reported_as_starting() {
    let mut desk = Desk::open();
    desk.assign(vec![update(plain("t1"))]);
    desk.persisted("t1");
    assert_eq!(desk.pass(Span::from_millis(199)), NOTHING);
    assert_eq!(desk.pass(Span::from_millis(1)), ["report 1: t1 starting"]);
}

#[test]
fn the_end_is_on_disk_before_it_is_reported_and_before_traces_go() {
    for (exit, report) in [
        (code(0), "report 2: t1 complete"),
        (code(1), "report 2: t1 failed (exit status 1)"),
        (signal(9), "report 2: t1 failed (killed by signal 9 (SIGKILL))"),
        (Exit { oom: true, ..signal(9) }, "report 2: t1 failed (killed: out of memory)"),
    ] {
        let mut desk = Desk::open();
        desk.running(plain("t1"));
        let ended = report.split(' ').nth(3).unwrap();
        assert_eq!(desk.exited("t1/main", exit), [format!("persist t1 {ended}/running")]);
        assert_eq!(desk.state("t1"), Some(TaskState::Running), "not known to anybody yet");
        assert_eq!(desk.persisted("t1"), ["remove t1/main", report]);
        assert_eq!(desk.removed("t1/main"), NOTHING);
        assert_eq!(desk.pass(Span::from_secs(60)), NOTHING, "an ended task is kept and left alone");
        assert_eq!(desk.assign(vec![remove("t1")]), ["forget t1"]);
        assert_eq!(desk.forgotten("t1"), NOTHING);
        assert_eq!(desk.state("t1"), None);
    }
}

#[test]
fn an_end_that_nobody_saw_is_a_failure_with_its_reason() {
    let mut desk = Desk::open();
    desk.running(plain("t1"));
    let at = desk.now;
    desk.driver("t1/main", DriverEvent::Lost { message: "the supervisor was lost".into(), at });
    assert_eq!(desk.persisted("t1")[1], "report 2: t1 failed (the supervisor was lost)");
}

#[test]
fn a_task_told_to_end_is_stopped_with_its_grace() {
    let mut desk = Desk::open();
    desk.running(plain("t1"));
    let lines = desk.assign(vec![wanted(plain("t1"), Desired::Shutdown)]);
    assert_eq!(lines, ["stop t1/main 10s", "persist t1 running/shutdown"]);
    assert_eq!(desk.persisted("t1"), NOTHING);
    assert_eq!(desk.exited("t1/main", signal(15)), ["persist t1 shutdown/shutdown"]);
    assert_eq!(desk.persisted("t1"), ["remove t1/main", "report 2: t1 shutdown"]);
    assert_eq!(desk.removed("t1/main"), NOTHING);
}

#[test]
fn an_end_is_not_reported_by_the_word_of_an_older_write() {
    let mut desk = Desk::open();
    desk.running(plain("t1"));
    desk.assign(vec![wanted(plain("t1"), Desired::Shutdown)]);
    assert_eq!(desk.exited("t1/main", signal(15)), NOTHING, "the request is still being written");
    assert_eq!(desk.persisted("t1"), ["persist t1 shutdown/shutdown"]);
    assert_eq!(desk.persisted("t1"), ["remove t1/main", "report 2: t1 shutdown"]);
}

#[test]
fn a_request_to_end_does_not_wait_for_a_full_disk() {
    let mut desk = Desk::open();
    desk.running(plain("t1"));
    desk.assign(vec![wanted(plain("t1"), Desired::Shutdown)]);
    desk.persist_failed("t1");
    assert_eq!(desk.exited("t1/main", signal(15)), NOTHING, "the next write waits a little");
    assert_eq!(desk.pass(SECOND).last().unwrap(), "persist t1 shutdown/shutdown");
    desk.persist_failed("t1");
    desk.pass(Span::from_millis(100));
    assert!(
        desk.last_report().1.ends_with("t1 running (its record cannot be written: no space left on device)"),
        "{:?}",
        desk.last_report()
    );
    desk.pass(SECOND);
    assert_eq!(desk.persisted("t1")[0], "remove t1/main");
    assert!(desk.last_report().1.ends_with(": t1 shutdown"), "{:?}", desk.last_report());
}

#[test]
fn a_program_that_does_not_end_in_time_is_killed_again_and_again() {
    let mut desk = Desk::open();
    desk.running(plain("t1"));
    desk.assign(vec![wanted(plain("t1"), Desired::Shutdown)]);
    desk.persisted("t1");
    let lines = desk.pass(Span::from_secs(14));
    assert!(!lines.contains(&"kill t1/main".to_owned()), "the driver kills first: {lines:?}");
    assert_eq!(desk.pass(SECOND)[0], "kill t1/main");
    assert!(desk.pass(Span::from_secs(5)).contains(&"kill t1/main".to_owned()));
}

#[test]
fn a_stop_while_a_start_is_under_way_is_carried_out_after_it() {
    let mut desk = Desk::open();
    desk.assign(vec![update(plain("t1"))]);
    desk.persisted("t1");
    let lines = desk.assign(vec![wanted(plain("t1"), Desired::Shutdown)]);
    assert_eq!(lines, ["persist t1 starting/shutdown"]);
    desk.persisted("t1");
    assert!(desk.started("t1/main", 42).contains(&"stop t1/main 10s".to_owned()));
    desk.exited("t1/main", signal(15));
    desk.persisted("t1");
    assert_eq!(desk.state("t1"), Some(TaskState::Shutdown));
}

#[test]
fn a_stop_while_a_start_fails_ends_it() {
    let mut desk = Desk::open();
    desk.assign(vec![update(plain("t1"))]);
    desk.persisted("t1");
    desk.assign(vec![wanted(plain("t1"), Desired::Shutdown)]);
    desk.persisted("t1");
    assert_eq!(desk.start_failed("t1/main", "busy", false), ["persist t1 shutdown/shutdown"]);
    assert_eq!(desk.persisted("t1")[0], "remove t1/main");
    assert_eq!(desk.state("t1"), Some(TaskState::Shutdown));
}

#[test]
fn a_program_that_may_have_started_is_removed_before_its_end_is_told() {
    let mut desk = Desk::open();
    desk.assign(vec![update(plain("t1"))]);
    desk.persisted("t1");
    desk.assign(vec![wanted(plain("t1"), Desired::Shutdown)]);
    desk.persisted("t1");
    let why = "the supervisor did not answer within 10 s";
    assert_eq!(desk.start_failed("t1/main", why, true)[0], "attach t1/main");
    let why = DriverEvent::AttachFailed { message: why.into() };
    assert_eq!(desk.driver("t1/main", why), ["remove t1/main"]);
    let failed = || DriverEvent::RemoveFailed { message: "busy".into() };
    assert_eq!(desk.driver("t1/main", failed()), NOTHING, "not at once again");
    assert_eq!(desk.pass(SECOND).last().map(String::as_str), Some("remove t1/main"));
    assert_eq!(desk.removed("t1/main"), ["persist t1 shutdown/shutdown"]);
    assert_eq!(desk.persisted("t1"), ["report 2: t1 shutdown"]);

    // It did start: it is found, and ended as any other.
    let mut desk = Desk::open();
    desk.assign(vec![update(plain("t1"))]);
    desk.persisted("t1");
    desk.start_failed("t1/main", "no answer", true);
    desk.pass(SECOND);
    desk.attached("t1/main", 42);
    assert_eq!((desk.state("t1"), desk.message("t1")), (Some(TaskState::Running), String::new()));
}

#[test]
fn a_task_told_to_end_before_it_started_never_starts() {
    // Before its record is on disk.
    let mut desk = Desk::open();
    desk.assign(vec![update(plain("t1"))]);
    assert_eq!(desk.assign(vec![wanted(plain("t1"), Desired::Shutdown)]), NOTHING);
    assert_eq!(desk.persisted("t1"), ["persist t1 shutdown/shutdown"]);
    assert_eq!(desk.persisted("t1"), ["report 1: t1 shutdown"]);

    // While it waits.
    let mut desk = Desk::open();
    desk.assign(vec![wanted(plain("t1"), Desired::Ready)]);
    assert_eq!(desk.persisted("t1"), ["report 1: t1 ready"]);
    assert_eq!(desk.assign(vec![wanted(plain("t1"), Desired::Remove)]), ["persist t1 shutdown/remove"]);
    desk.pass(Span::from_millis(20));
    assert_eq!(desk.persisted("t1"), ["report 2: t1 shutdown"]);
}

#[test]
fn a_task_wanted_ready_waits_until_more_is_wanted_and_never_less() {
    let mut desk = Desk::open();
    desk.assign(vec![wanted(plain("t1"), Desired::Ready)]);
    assert_eq!(desk.persisted("t1"), ["report 1: t1 ready"]);
    assert_eq!(desk.pass(Span::from_secs(4)), NOTHING);
    let lines = desk.assign(vec![wanted(plain("t1"), Desired::Running)]);
    assert_eq!(lines, ["start t1/main", "persist t1 starting/running"]);
    desk.persisted("t1");
    assert_eq!(desk.started("t1/main", 42), ["report 2: t1 running"]);
    assert_eq!(desk.assign(vec![wanted(plain("t1"), Desired::Ready)]), NOTHING);
    desk.assign(vec![wanted(plain("t1"), Desired::Shutdown)]);
    assert_eq!(desk.assign(vec![wanted(plain("t1"), Desired::Running)]), NOTHING);
    desk.exited("t1/main", signal(15));
    desk.persisted("t1");
    desk.persisted("t1");
    assert_eq!(desk.assign(vec![wanted(plain("t1"), Desired::Running)]), NOTHING);
    assert_eq!(desk.state("t1"), Some(TaskState::Shutdown));
}

#[test]
fn a_start_that_fails_for_good_fails_the_task() {
    let mut desk = Desk::open();
    desk.assign(vec![update(task("t1", vec![restarting("main", 3, 0, 1)]))]);
    desk.persisted("t1");
    let why = "command: \"/nope\": no such file or directory";
    assert_eq!(desk.start_failed("t1/main", why, false), ["persist t1 failed/running"]);
    let lines = desk.persisted("t1");
    assert_eq!(lines, ["remove t1/main".to_owned(), format!("report 1: t1 failed ({why})")]);
}

#[test]
fn a_start_that_may_succeed_later_is_tried_again_and_says_why_it_waits() {
    let mut desk = Desk::open();
    desk.assign(vec![update(plain("t1"))]);
    desk.persisted("t1");
    let first = desk.start_failed("t1/main", "no pids left", true);
    assert_eq!(first, ["report 1: t1 starting (it could not be started yet: no pids left)"]);
    assert_eq!(desk.pass(SECOND), ["attach t1/main"]);
    assert_eq!(desk.driver("t1/main", DriverEvent::Never), ["start t1/main"]);
    desk.started("t1/main", 42);
    assert_eq!(desk.pass(SECOND).len(), 0, "said at once");
    assert_eq!(desk.last_report().1, "report 2: t1 running");

    let mut desk = Desk::open();
    desk.assign(vec![update(plain("t1"))]);
    desk.persisted("t1");
    for _ in 1..agent::limits::START_TRIES {
        desk.start_failed("t1/main", "no pids left", true);
        desk.pass(SECOND);
        assert!(desk.driver("t1/main", DriverEvent::Never).contains(&"start t1/main".to_owned()));
    }
    assert_eq!(desk.start_failed("t1/main", "no pids left", true)[0], "remove t1/main");
    assert_eq!(desk.removed("t1/main"), ["persist t1 failed/running"]);
    desk.pass(SECOND);
    desk.persisted("t1");
    assert!(desk.last_report().1.ends_with("t1 failed (no pids left)"), "{:?}", desk.last_report());
}

#[test]
fn a_task_that_cannot_run_is_rejected() {
    let mut desk = Desk::open();
    desk.assign(vec![update(task("t1", vec![]))]);
    assert_eq!(desk.persisted("t1"), ["persist t1 rejected/running"]);
    assert_eq!(desk.persisted("t1"), ["report 1: t1 rejected (none of its programs is a main program)"]);

    let mut desk = Desk::open();
    let lines = desk.assign(vec![update(plain("../etc"))]);
    assert_eq!(lines, ["report 1: ../etc rejected (the id of the task cannot name a directory)"]);
    assert_eq!(desk.assign(vec![remove("../etc")]), NOTHING, "nothing on disk is touched");
    assert_eq!(desk.state("../etc"), None);
}

#[test]
fn a_task_whose_first_record_cannot_be_written_is_rejected_and_leaves_nothing() {
    let mut desk = Desk::open();
    desk.assign(vec![update(plain("t1"))]);
    let why = "its record cannot be written: no space left on device";
    assert_eq!(desk.persist_failed("t1"), [format!("report 1: t1 assigned ({why})")]);
    assert_eq!(desk.pass(SECOND), ["persist t1 assigned/running"]);
    desk.persist_failed("t1");
    desk.pass(SECOND);
    assert_eq!(desk.persist_failed("t1"), ["forget t1"]);
    assert_eq!(desk.forgotten("t1"), [format!("report 2: t1 rejected ({why})")]);
    assert_eq!(desk.assign(vec![remove("t1")]), NOTHING);
}

#[test]
fn programs_are_restarted_in_place_within_their_window_and_each_restart_is_on_disk_first() {
    let mut desk = Desk::open();
    desk.running(task("t1", vec![restarting("main", 2, 60, 3)]));
    for n in 1..=2 {
        let lines = desk.exited("t1/main", code(7));
        assert_eq!(lines[0], "persist t1 running/running");
        let message = format!("exit status 7; restarting in 3s, {n} of 2 in this window");
        assert_eq!(desk.message("t1"), message);
        assert_eq!(desk.persisted("t1"), ["remove t1/main"]);
        desk.pass(Span::from_secs(2));
        desk.removed("t1/main");
        assert_eq!(desk.pass(Span::from_millis(999)), NOTHING);
        assert!(desk.pass(Span::from_millis(1)).contains(&"start t1/main".to_owned()));
        desk.started("t1/main", 42 + n);
        assert_eq!(desk.message("t1"), "");
    }
    assert_eq!(desk.exited("t1/main", code(7))[0], "persist t1 failed/running");
    desk.pass(SECOND);
    assert_eq!(
        desk.persisted("t1")[1],
        format!("report {}: t1 failed (exit status 7 after 2 restarts)", desk.last_report().0)
    );
}

#[test]
fn a_success_is_not_restarted_in_place() {
    let mut desk = Desk::open();
    desk.running(task("t1", vec![restarting("main", 2, 60, 3)]));
    assert_eq!(desk.exited("t1/main", code(0)), ["persist t1 complete/running"]);
}

#[test]
fn a_task_told_to_end_between_two_runs_is_not_started_again() {
    let mut desk = Desk::open();
    desk.running(task("t1", vec![restarting("main", 2, 60, 3)]));
    desk.exited("t1/main", code(7));
    desk.persisted("t1");
    desk.removed("t1/main");
    assert_eq!(desk.assign(vec![wanted(plain("t1"), Desired::Shutdown)])[0], "persist t1 shutdown/shutdown");
    desk.persisted("t1");
    assert!(!desk.pass(Span::from_secs(10)).contains(&"start t1/main".to_owned()));
    assert_eq!(desk.state("t1"), Some(TaskState::Shutdown));
}

#[test]
fn work_goes_on_without_a_manager() {
    let mut desk = Desk::open();
    desk.running(task("t1", vec![restarting("main", 1, 60, 1)]));
    desk.input(Input::Disconnected { connection: 1, reason: "gone".into() });
    desk.exited("t1/main", code(7));
    desk.persisted("t1");
    desk.removed("t1/main");
    assert_eq!(desk.pass(SECOND), ["start t1/main"]);
    desk.started("t1/main", 43);
    desk.exited("t1/main", code(7));
    desk.persisted("t1");
    let lines = desk.register();
    assert!(lines.contains(&"report 1: t1 failed (exit status 7 after 1 restart)".to_owned()), "{lines:?}");
}

#[test]
fn when_one_main_program_fails_the_others_are_stopped() {
    let mains = vec![program("a", Lifecycle::Main), program("b", Lifecycle::Main)];
    let mut desk = Desk::open();
    desk.assign(vec![update(task("t1", mains))]);
    assert_eq!(desk.persisted("t1"), ["start t1/a", "start t1/b"]);
    assert_eq!(desk.started("t1/a", 1), NOTHING, "not all run");
    assert_eq!(desk.started("t1/b", 2), ["report 1: t1 running"]);
    assert_eq!(desk.exited("t1/a", code(3)), ["stop t1/b 10s", "persist t1 running/running"]);
    desk.persisted("t1");
    assert_eq!(desk.exited("t1/b", signal(15)), ["persist t1 failed/running"]);
    desk.pass(SECOND);
    let lines = desk.persisted("t1");
    assert_eq!(&lines[..2], ["remove t1/a", "remove t1/b"]);
    assert!(lines[2].ends_with("t1 failed (a: exit status 3)"), "{lines:?}");
}

#[test]
fn a_task_is_complete_when_all_main_programs_are() {
    let mains = vec![program("a", Lifecycle::Main), program("b", Lifecycle::Main)];
    let mut desk = Desk::open();
    desk.assign(vec![update(task("t1", mains))]);
    desk.persisted("t1");
    desk.started("t1/a", 1);
    desk.started("t1/b", 2);
    assert_eq!(desk.exited("t1/a", code(0)), ["persist t1 running/running"]);
    desk.persisted("t1");
    assert_eq!(desk.exited("t1/b", code(0)), ["persist t1 complete/running"]);
}

#[test]
fn programs_run_in_the_order_of_their_lifecycles() {
    let programs = [
        ("post", Lifecycle::Poststop),
        ("after", Lifecycle::Poststart),
        ("main", Lifecycle::Main),
        ("side", Lifecycle::Sidecar),
        ("pre", Lifecycle::Prestart),
    ];
    let programs = programs.map(|(name, life)| program(name, life)).to_vec();
    let mut desk = Desk::open();
    desk.assign(vec![update(task("t1", programs))]);
    assert_eq!(desk.persisted("t1"), ["start t1/side", "start t1/pre"]);
    assert_eq!(desk.started("t1/side", 1), NOTHING);
    assert_eq!(desk.started("t1/pre", 2), NOTHING);
    assert_eq!(desk.exited("t1/pre", code(0)), ["start t1/main", "persist t1 starting/running"]);
    desk.persisted("t1");
    assert_eq!(desk.started("t1/main", 3), ["start t1/after", "report 1: t1 running"]);
    desk.started("t1/after", 4);
    desk.pass(SECOND);

    let lines = desk.assign(vec![wanted(plain("t1"), Desired::Shutdown)]);
    assert_eq!(lines[..2], ["stop t1/after 10s", "stop t1/main 10s"]);
    desk.persisted("t1");
    let none = |lines: Vec<String>| assert!(lines.iter().all(|l| !l.starts_with("st")), "{lines:?}");
    none(desk.exited("t1/main", signal(15)));
    desk.persisted("t1");
    assert_eq!(desk.exited("t1/after", signal(15))[0], "stop t1/side 10s");
    desk.persisted("t1");
    assert_eq!(desk.exited("t1/side", signal(15))[0], "start t1/post");
    desk.persisted("t1");
    desk.started("t1/post", 5);
    assert_eq!(desk.state("t1"), Some(TaskState::Running));
    assert_eq!(desk.exited("t1/post", code(0))[0], "persist t1 shutdown/shutdown");
    assert_eq!(desk.persisted("t1").iter().filter(|l| l.starts_with("remove")).count(), 5);
}

#[test]
fn a_prestart_that_fails_fails_the_task_without_its_main_programs() {
    let programs = vec![program("pre", Lifecycle::Prestart), program("main", Lifecycle::Main)];
    let mut desk = Desk::open();
    desk.assign(vec![update(task("t1", programs))]);
    assert_eq!(desk.persisted("t1"), ["start t1/pre"]);
    desk.started("t1/pre", 1);
    assert_eq!(desk.exited("t1/pre", code(1)), ["persist t1 failed/running"]);
    desk.pass(SECOND);
    let lines = desk.persisted("t1");
    assert_eq!(lines[0], "remove t1/pre");
    assert!(lines[1].ends_with("t1 failed (pre: exit status 1)"), "{lines:?}");
    desk.removed("t1/pre");
    assert_eq!(desk.assign(vec![remove("t1")]), ["forget t1"], "what never ran has no traces");
}

#[test]
fn events_of_a_run_may_come_in_any_order_and_twice() {
    let mut desk = Desk::open();
    desk.assign(vec![update(plain("t1"))]);
    desk.persisted("t1");
    let exit = Exit { started_at: desk.now, ..code(1) };
    assert_eq!(desk.exited("t1/main", exit.clone()), ["persist t1 failed/running"]);
    assert_eq!(desk.started("t1/main", 42), NOTHING);
    assert_eq!(desk.exited("t1/main", exit), NOTHING);
    assert_eq!(desk.persisted("t1")[0], "remove t1/main");
    assert_eq!(desk.persisted("t1"), NOTHING);
    desk.removed("t1/main");
    assert_eq!(desk.removed("t1/main"), NOTHING);
    assert_eq!(desk.started("t1/main", 42), NOTHING);
    assert_eq!(desk.state("t1"), Some(TaskState::Failed));
}

#[test]
fn the_late_word_of_an_earlier_run_is_not_heard() {
    let mut desk = Desk::open();
    desk.running(task("t1", vec![restarting("main", 2, 60, 0)]));
    let first = desk.newest("t1/main");
    desk.exited("t1/main", code(1));
    desk.persisted("t1");
    assert_eq!(desk.removed("t1/main")[0], "start t1/main");
    let event = DriverEvent::Exited(Exit { at: desk.now, ..code(1) });
    assert_eq!(desk.input(Input::Driver { program: first, event }), NOTHING);
    desk.started("t1/main", 43);
    assert_eq!(desk.state("t1"), Some(TaskState::Running));
}

#[test]
fn a_removed_task_is_stopped_then_cleaned_then_forgotten() {
    let mut desk = Desk::open();
    desk.running(plain("t1"));
    assert_eq!(desk.assign(vec![remove("t1")]), ["stop t1/main 10s", "persist t1 running/remove"]);
    assert_eq!(desk.exited("t1/main", signal(15)), ["remove t1/main"]);
    assert_eq!(desk.removed("t1/main"), NOTHING, "a write is under way");
    assert_eq!(desk.persisted("t1"), ["forget t1"]);
    assert_eq!(desk.forgotten("t1"), NOTHING);
    assert_eq!(desk.state("t1"), None);
    assert_eq!(desk.exited("t1/main", code(0)), NOTHING);
    assert_eq!(desk.pass(Span::from_secs(60)), NOTHING, "nothing is said of it any more");
}

#[test]
fn a_complete_set_replaces_everything() {
    let mut desk = Desk::open();
    desk.running(plain("t1"));
    desk.running(plain("t2"));
    let mut known = plain("t2");
    known.state = TaskState::Running;
    let lines = desk.complete(vec![update(known), update(plain("t3"))]);
    assert_eq!(lines, ["stop t1/main 10s", "persist t1 running/remove", "persist t3 assigned/running"]);
}

#[test]
fn a_task_that_comes_back_while_it_is_forgotten_is_taken_in_afterwards() {
    let mut desk = Desk::open();
    desk.running(plain("t1"));
    desk.assign(vec![remove("t1")]);
    assert_eq!(desk.assign(vec![update(plain("t1"))]), NOTHING);
    desk.persisted("t1");
    desk.exited("t1/main", signal(15));
    assert_eq!(desk.removed("t1/main"), ["forget t1"]);
    assert_eq!(desk.assign(vec![update(plain("t1"))]), NOTHING);
    assert_eq!(desk.forgotten("t1"), ["persist t1 assigned/running"]);
    assert_eq!(desk.persisted("t1"), ["start t1/main"]);
}

#[test]
fn a_task_that_the_manager_has_given_up_is_stopped() {
    let mut desk = Desk::open();
    desk.running(plain("t1"));
    let mut orphaned = plain("t1");
    orphaned.state = TaskState::Orphaned;
    assert_eq!(desk.complete(vec![update(orphaned)])[0], "stop t1/main 10s");
}

#[test]
fn the_managers_state_counts_only_at_first_sight() {
    // Ended elsewhere or before: never run here.
    let mut ended = plain("t1");
    ended.state = TaskState::Failed;
    let mut desk = Desk::open();
    assert_eq!(desk.assign(vec![update(ended)]), NOTHING);
    assert_eq!(desk.state("t1"), Some(TaskState::Failed));
    assert_eq!(desk.assign(vec![remove("t1")]), NOTHING);

    // Known to run, but the node has lost its disk: looked for, and not started a second time.
    let mut ran = plain("t1");
    ran.state = TaskState::Running;
    let mut desk = Desk::open();
    desk.assign(vec![update(ran)]);
    assert_eq!(desk.persisted("t1"), ["attach t1/main"]);
    assert_eq!(desk.driver("t1/main", DriverEvent::Never), ["persist t1 failed/running"]);
    desk.persisted("t1");
    assert!(desk.last_report().1.ends_with("t1 failed (what the node knew of it is lost)"));
}

#[test]
fn notes_of_a_driver_become_events() {
    let mut desk = Desk::open();
    desk.assign(vec![update(plain("t1"))]);
    desk.persisted("t1");
    let notes = vec!["memory limits are not enforced".into()];
    let at = desk.now;
    desk.driver("t1/main", DriverEvent::Started { pid: 1, at, notes });
    assert_eq!(desk.events("t1"), ["started as process 1", "memory limits are not enforced"]);
}

#[test]
fn stop_ends_everything_within_its_time_and_takes_nothing_more() {
    let mut desk = Desk::open();
    desk.running(plain("t1"));
    desk.running(plain("t2"));
    desk.exited("t2/main", code(0));
    desk.persisted("t2");
    desk.removed("t2/main");
    let lines = desk.input(Input::Stop { within: Span::from_secs(3) });
    assert_eq!(lines, ["stop t1/main 3s", "persist t1 running/shutdown"]);
    assert_eq!(desk.assign(vec![update(plain("t3"))]), NOTHING);
    desk.persisted("t1");
    desk.exited("t1/main", signal(15));
    assert_eq!(desk.persisted("t1")[0], "remove t1/main");
    assert_eq!(desk.removed("t1/main"), ["stopped"]);
    assert_eq!(desk.pass(SECOND), ["report 4: t1 shutdown"]);
}

#[test]
fn stop_with_nothing_to_stop_is_done_at_once() {
    let mut desk = Desk::open();
    assert_eq!(desk.input(Input::Stop { within: SECOND }), ["stopped"]);
}

#[test]
fn stop_shortens_a_grace_period_that_already_runs() {
    let mut desk = Desk::open();
    desk.running(plain("t1"));
    desk.assign(vec![wanted(plain("t1"), Desired::Shutdown)]);
    desk.persisted("t1");
    desk.pass(Span::from_secs(2));
    assert_eq!(desk.input(Input::Stop { within: SECOND })[0], "stop t1/main 1s");
    assert_eq!(desk.pass(Span::from_secs(6)).last().map(String::as_str), Some("kill t1/main"));
}

#[test]
fn poststop_programs_do_not_outlast_a_stop() {
    let programs = vec![program("main", Lifecycle::Main), program("post", Lifecycle::Poststop)];
    let mut desk = Desk::open();
    desk.running(task("t1", programs));
    desk.input(Input::Stop { within: Span::from_secs(3) });
    desk.persisted("t1");
    assert_eq!(desk.exited("t1/main", signal(15))[0], "start t1/post");
    desk.persisted("t1");
    desk.started("t1/post", 9);
    assert!(desk.pass(Span::from_secs(3)).contains(&"stop t1/post 0s".to_owned()));
    desk.exited("t1/post", signal(9));
    desk.persisted("t1");
    assert_eq!(desk.state("t1"), Some(TaskState::Shutdown));
}

#[test]
fn a_clock_that_steps_back_is_not_followed() {
    let mut desk = Desk::open();
    desk.running(task("t1", vec![restarting("main", 1, 60, 1)]));
    desk.now = Time(0);
    desk.exited("t1/main", code(1));
    desk.persisted("t1");
    desk.removed("t1/main");
    assert!(desk.agent.next_wake().is_some_and(|at| at > support::DAWN));
}
