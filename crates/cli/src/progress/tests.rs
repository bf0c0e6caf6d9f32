//! What is shown while one waits, and when the wait ends.

use super::*;
use crate::commands::service_for_tests as service;
use crate::fake::{self, Fake};
use crate::screen::tests::paper;

fn board() -> Board {
    Board::new(&Wait {
        services: vec![("s1".into(), "web".into())],
        index: 10,
        timeout: None,
        quiet: false,
        look: String::new(),
    })
}

fn task(json: serde_json::Value) -> Task {
    let mut whole = serde_json::json!({
        "id": "t", "name": "web.1", "service": "s1", "desired": "running", "state": "running",
        "since": "2026-01-31T13:00:00Z", "revision": "r", "current": true, "ports": [], "programs": [],
        "created_at": "2026-01-31T13:00:00Z", "version": 11, "directed": 11,
    });
    let merge = json.as_object().unwrap().clone();
    whole.as_object_mut().unwrap().extend(merge);
    serde_json::from_value(whole).unwrap()
}

/// A line of which nothing was heard for a while.
fn line(status: ServiceStatus) -> Line {
    let mut line = board().lines.remove(0);
    line.heard_at = Instant::now().checked_sub(STEADY).unwrap();
    line.status = Some(status);
    line
}

fn wanted(wanted: u64, running: u64) -> ServiceStatus {
    ServiceStatus { wanted, running, ..ServiceStatus::default() }
}

/// Waits for `web`, which answers with these states; what was said on the way, and how it ended.
fn waited(timeout: Duration, steps: Vec<fake::Step>) -> (String, Result<(), Failure>) {
    let daemon = Fake::start(steps);
    let (mut screen, _, err) = paper();
    let wait = Wait {
        services: vec![("s1".into(), "web".into())],
        index: 10,
        timeout: Some(timeout),
        quiet: false,
        look: "quelea service ps web".into(),
    };
    let client = daemon.client();
    let ended = crate::commands::block_on(converge(&client, &mut screen, wait));
    (err.text(), ended)
}

fn seen(after: u64, index: u64, status: serde_json::Value) -> fake::Step {
    let mut whole = serde_json::to_value(service(serde_json::json!({"id": "s1"}))).unwrap();
    whole["status"] = status;
    fake::json(&format!("GET /v1/services/s1?index={after}&"), 200, index, &whole)
}

fn status(running: u64, converged: bool) -> serde_json::Value {
    serde_json::json!({"wanted": 2, "running": running, "updated": 2, "waiting": 0, "converged": converged, "tasks": {}})
}

fn job(state: &str, completed: u64, more: serde_json::Value) -> serde_json::Value {
    let mut job = serde_json::json!({"iteration": 1, "last_execution": "2026-01-31T13:00:00Z", "state": state,
        "total": 6, "completed": completed, "active": 2, "at_once": 2, "given_up": 0});
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut whole = status(2, state == "complete");
    whole["job"] = job;
    whole
}

#[test]
fn a_job_is_waited_for_until_every_run_is_complete() {
    let (said, ended) = waited(
        Duration::from_secs(60),
        vec![
            seen(0, 11, job("running", 0, serde_json::json!({}))),
            seen(11, 12, job("complete", 6, serde_json::json!({"active": 0}))),
            seen(12, 13, job("complete", 6, serde_json::json!({"active": 0}))),
        ],
    );
    ended.unwrap();
    assert!(said.ends_with("web: completed 6 of 6, job complete\n"), "{said}");
}

#[test]
fn a_job_that_cannot_complete_ends_the_wait() {
    let why =
        "1 of 6 runs is given up: slot 2: failed with exit code 3; not replaced: its policy never replaces";
    let (_, ended) = waited(
        Duration::from_secs(60),
        vec![
            seen(0, 11, job("failed", 5, serde_json::json!({"active": 0, "given_up": 1, "reason": why}))),
            seen(11, 12, job("failed", 5, serde_json::json!({"active": 0, "given_up": 1, "reason": why}))),
        ],
    );
    assert_eq!(ended.unwrap_err().to_string(), format!("web: cannot complete any more: {why}"));
}

#[test]
fn what_a_job_shows() {
    for (status, shown) in [
        (job("running", 3, serde_json::json!({})), "web: completed 3 of 6, active tasks 2 of 2"),
        (
            job("running", 3, serde_json::json!({"given_up": 2, "active": 1, "reason": "slot 2: failed"})),
            "web: completed 3 of 6, active tasks 1 of 1, 2 given up, slot 2: failed",
        ),
    ] {
        let line = line(serde_json::from_value(status).unwrap());
        assert_eq!(line.text(), shown);
        assert!(!line.wants_a_look());
    }
}

#[test]
fn it_waits_until_all_are_steady() {
    let (said, ended) = waited(
        Duration::from_secs(60),
        vec![
            // A state from before the change does not count, however fine it looks.
            seen(0, 9, status(2, true)),
            seen(0, 11, status(1, false)),
            seen(11, 12, status(2, true)),
            // One more look at what changes nothing.
            seen(12, 13, status(2, true)),
        ],
    );
    ended.unwrap();
    assert_eq!(said, "web: 2/2 running, steady\n");
}

#[test]
fn on_a_terminal_lines_are_redrawn_in_place_when_they_change() {
    let mut board = board();
    let (mut screen, _, err) = paper();
    screen.err_size = Some((30, 24));
    for running in [0, 0, 1] {
        board.lines[0].status = Some(wanted(2, running));
        board.lines[0].trouble = Some(trouble("exit status 1"));
        board.draw(&mut screen, false).unwrap();
    }
    assert_eq!(
        err.text(),
        "\u{1b}[2Kweb: 0/2 running, exit status\n\u{1b}[2K  1\n\
         \u{1b}[2A\u{1b}[2Kweb: 1/2 running, exit status\n\u{1b}[2K  1\n"
    );
}

#[test]
fn what_takes_too_long_is_told_with_its_reason() {
    let waiting = serde_json::json!({"wanted": 2, "running": 1, "updated": 2, "waiting": 1, "converged": false, "tasks": {},
        "reason": "no suitable node (insufficient memory on 1 node)"});
    let tasks = serde_json::json!({"index": 11, "changed": 11, "items": []});
    let (said, ended) = waited(
        Duration::from_millis(1500),
        vec![
            seen(0, 11, waiting),
            fake::Step::silence("GET /v1/services/s1?index=11&"),
            fake::json("GET /v1/services/s1/tasks", 200, 11, &tasks),
        ],
    );
    let where_it_stands = "web: 1/2 running, 1 waiting: no suitable node (insufficient memory on 1 node)";
    assert_eq!(said, format!("{where_it_stands}\n"));
    let failure = ended.unwrap_err();
    assert!(
        matches!(&failure, Failure::TimedOut(s) if *s == format!("timed out after 1.5s: {where_it_stands}")),
        "{failure}"
    );
}

#[test]
fn a_line_says_where_it_stands() {
    assert_eq!(board().lines[0].text(), "web: ...");
    let mut line = line(ServiceStatus {
        waiting: 2,
        reason: Some("no suitable node (1 node is drained)".into()),
        ..wanted(3, 1)
    });
    assert_eq!(line.text(), "web: 1/3 running, 2 waiting: no suitable node (1 node is drained)");
    line.finished = true;
    assert_eq!(line.text(), "web: 1/3 running, ended with success");
}

fn trouble(text: &str) -> Trouble {
    Trouble { text: text.into(), what: text.into(), failed: true }
}

fn clock() -> Timestamp {
    "2026-01-31T13:00:00Z".parse().unwrap()
}

fn ended(fields: serde_json::Value) -> Task {
    let mut whole = serde_json::json!({"desired": "shutdown", "state": "failed", "exit_code": 1});
    whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    task(whole)
}

/// Each row: state, by itself, index at which it began (the wait began at 10), converged; then the exit it means.
#[test]
fn an_update_ends_the_wait_when_it_ends_badly() {
    for (state, automatic, index, converged, ending) in [
        ("updating", false, 11, false, "goes on"),
        ("paused", false, 11, true, "refused"),
        ("paused", false, 5, false, "refused"),
        ("paused", false, 5, true, "goes on"),
        ("completed", false, 11, true, "goes on"),
        ("rollback_started", true, 12, false, "goes on"),
        ("rollback_paused", true, 12, false, "refused"),
        ("rollback_completed", true, 12, true, "rolled back"),
        ("rollback_completed", true, 5, true, "goes on"),
        ("rollback_completed", false, 12, true, "goes on"),
    ] {
        let mut line = line(ServiceStatus { converged, ..wanted(2, 2) });
        line.update = serde_json::from_value(serde_json::json!({
            "state": state, "automatic": automatic, "index": index, "started_at": "", "message": "why",
        }))
        .unwrap();
        let told = match line.check_update(10) {
            Ok(()) => "goes on",
            Err(Failure::Refused(text)) if text == "web: why" => "refused",
            Err(Failure::RolledBack(text)) if text == "web: why" => "rolled back",
            Err(other) => panic!("{state}: {other}"),
        };
        assert_eq!(told, ending, "{state} {automatic} {index} {converged}");
    }
}

#[test]
fn a_crash_loop_says_what_failed_how_often_and_when_it_goes_on() {
    let next = task(serde_json::json!({
        "id": "n", "desired": "ready", "state": "ready", "start_after": "2026-01-31T13:00:04.5Z",
    }));
    let mut line = line(wanted(1, 0));
    let said = |line: &mut Line, tasks: &[Task]| {
        line.look_at(tasks, 10, clock()).unwrap();
        line.text()
    };
    // Failures from before the wait do not count.
    let old = ended(serde_json::json!({"id": "a", "version": 9}));
    let mut tasks = vec![old, ended(serde_json::json!({"id": "b"})), next];
    assert_eq!(
        said(&mut line, &tasks),
        "web: 0/1 running, web.1 failed with exit code 1; next start in 5s; see: quelea service logs web"
    );
    tasks.insert(0, ended(serde_json::json!({"id": "c"})));
    // The history may forget them; we don't.
    assert!(said(&mut line, &tasks).contains("exit code 1 (2 times); next"), "{}", line.text());
    tasks[0] = ended(serde_json::json!({"id": "d"}));
    assert!(said(&mut line, &tasks).contains("exit code 1 (3 times); next"), "{}", line.text());
    assert_eq!(line.ends["web.1"].seen.len(), 2, "what is forgotten is forgotten here, too");
    let running = task(serde_json::json!({"id": "n"}));
    assert!(said(&mut line, &[running]).contains("(3 times)"), "{}", line.text());
}

#[test]
fn what_ends_with_success_under_condition_any_is_told_with_the_way_out() {
    let mut line = line(wanted(1, 0));
    let done = ended(serde_json::json!({"state": "complete", "exit_code": 0}));
    line.look_at(&[done.clone(), task(serde_json::json!({"id": "n", "desired": "ready", "state": "pending", "start_after": "2026-01-31T13:00:02Z"}))], 10, clock())
        .unwrap();
    assert_eq!(
        line.text(),
        "web: 0/1 running, web.1 ended with exit code 0; replaced in 2s (any: use --restart-condition none for programs that end)"
    );
    // Before the replacement is made, the policy says when.
    line.heard_at = Instant::now();
    line.look_at(&[done], 10, clock()).unwrap();
    assert!(line.text().contains("; replaced in 5s (any"), "{}", line.text());
}

/// Whether another canary follows is for the update to say: its pause may come of this very end.
#[test]
fn the_next_start_of_a_canary_is_told_once_it_is_there() {
    let mut line = line(wanted(1, 1));
    line.heard_at = Instant::now();
    let own = task(serde_json::json!({"id": "o", "current": false}));
    let failed = |desired: &str| ended(serde_json::json!({"id": "c", "desired": desired, "canary": true}));
    line.look_at(&[own.clone(), failed("running")], 10, clock()).unwrap();
    let told = "web: 1/1 running, web.1 failed with exit code 1; see: quelea service logs web";
    assert_eq!(line.text(), told);
    let next = task(serde_json::json!({
        "id": "n", "desired": "ready", "state": "ready", "start_after": "2026-01-31T13:00:04.5Z", "canary": true,
    }));
    line.look_at(&[own, failed("shutdown"), next], 10, clock()).unwrap();
    assert!(line.text().contains("failed with exit code 1; next start in 5s; see"), "{}", line.text());
}

#[test]
fn a_start_that_fails_says_the_drivers_sentence() {
    let mut line = line(wanted(1, 0));
    line.heard_at = Instant::now();
    let rejected = ended(
        serde_json::json!({"state": "rejected", "exit_code": null, "message": "no such program: nope"}),
    );
    line.look_at(&[rejected], 10, clock()).unwrap();
    assert_eq!(
        line.text(),
        "web: 0/1 running, web.1 could not be started: no such program: nope; next start in 5s; see: quelea why web.1"
    );
}

#[test]
fn where_lines_stay_each_change_is_said_once() {
    let mut board = board();
    let (mut screen, _, err) = paper();
    let trouble = |n: usize| Some(trouble(&format!("web.1 failed ({n} times)")));
    for (n, running) in [(2, 0), (2, 1), (2, 0), (2, 1)] {
        board.lines[0].status = Some(wanted(1, running));
        board.lines[0].trouble = trouble(n);
        board.draw(&mut screen, false).unwrap();
    }
    assert_eq!(err.text(), "web: 0/1 running, web.1 failed (2 times)\n");
    // Fast ones only once a second.
    board.lines[0].trouble = trouble(3);
    board.draw(&mut screen, false).unwrap();
    assert_eq!(err.text().lines().count(), 1);
    board.said.get_mut(&0).unwrap().1 -= STEADY;
    board.draw(&mut screen, false).unwrap();
    assert_eq!(err.text().lines().last(), Some("web: 1/1 running, web.1 failed (3 times)"));
}

#[test]
fn nothing_is_steady_shortly_after_a_task_ended() {
    let service = |ended_at: &str| {
        let status = serde_json::json!({"wanted": 1, "running": 1, "updated": 1, "waiting": 0, "converged": true,
            "ended_at": ended_at, "tasks": {}});
        service(serde_json::json!({"id": "s1", "status": status}))
    };
    let there = |ended_at: &str| {
        let mut board = board();
        board.hear(vec![service(ended_at)], clock());
        board.lines[0].there_since = Instant::now().checked_sub(STEADY);
        board.lines[0].is_there()
    };
    assert!(!there("2026-01-31T12:59:56Z"));
    assert!(there("2026-01-31T12:59:55Z"));
    // A clock that is ahead does not hold anybody up for longer.
    assert_eq!(still_to_settle("2026-01-31T19:00:00Z", clock()), SETTLED);
}

#[test]
fn what_ended_and_is_not_replaced_is_done_or_failed() {
    let ended =
        |state: &str| task(serde_json::json!({"state": state, "desired": "shutdown", "exit_code": 1}));
    // While things move, a replacement may still be made.
    let mut moving = line(wanted(1, 0));
    moving.heard_at = Instant::now();
    moving.look_at(&[ended("failed")], 10, clock()).unwrap();
    let mut line_ok = line(wanted(1, 0));
    line_ok.look_at(&[ended("complete")], 10, clock()).unwrap();
    assert!(line_ok.is_there());
    let said = line(wanted(1, 0)).look_at(&[ended("failed")], 10, clock()).unwrap_err().to_string();
    assert_eq!(said, "web.1 ended and is not replaced: exit code 1");
    // A replacement that waits for its delay is still to come.
    let mut waiting = line(wanted(1, 0));
    let next = task(serde_json::json!({"id": "n", "desired": "ready", "state": "ready"}));
    waiting.look_at(&[ended("failed"), next], 10, clock()).unwrap();
    assert!(!waiting.is_there());
}
