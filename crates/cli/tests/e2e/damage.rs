//! Files that are missing, damaged or copied: refused by name, or given up with the reason; never a program killed that is wanted, or left
//! that is not.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{Daemon, pid_of, processes, supervised, unique_seconds, until};

fn create(daemon: &Daemon, name: &str, replicas: &str, mark: &str) {
    let fixed = ["service", "create", "--driver", "exec", "--restart-delay", "100ms", "--name", name];
    daemon.run(&[&fixed[..], &["--replicas", replicas, "--", "sleep", mark]].concat()).ok();
}

/// The directories of tasks.
fn task_dirs(daemon: &Daemon) -> Vec<PathBuf> {
    let tasks = daemon.path("data").join("tasks");
    fs::read_dir(tasks).expect("the tasks' directory").flatten().map(|e| e.path()).collect()
}

/// Starts the program on the daemon's data; it must end by itself: what it said.
fn refused(daemon: &Daemon) -> String {
    let output = Command::new(crate::support::QUELEA)
        .args(["daemon", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(daemon.path("data"))
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_missing_log_is_not_an_empty_cluster() {
    let mut daemon = Daemon::start();
    let mark = unique_seconds();
    create(&daemon, "web", "2", &mark);
    let before = processes(&mark);
    daemon.kill9();
    let log = daemon.path("data").join("raft").join("log.redb");
    let away = daemon.path("log.redb");
    fs::rename(&log, &away).expect("moved");
    let said = refused(&daemon);
    assert!(said.contains("log.redb") && said.contains("is missing"), "{said}");
    assert_eq!(processes(&mark), before, "what runs is left alone");
    fs::rename(&away, &log).expect("moved back");
    daemon.restart();
    daemon.converged("web", 2);
    assert_eq!(processes(&mark), before);
}

#[test]
fn a_copy_of_the_data_does_not_touch_the_programs_of_the_original() {
    let original = Daemon::start();
    let mark = unique_seconds();
    create(&original, "web", "2", &mark);
    let before = processes(&mark);
    let mut copy = Daemon::start();
    copy.terminate();
    fs::remove_dir_all(copy.path("data")).expect("removed");
    let copied = Command::new("cp").arg("-a").arg(original.path("data")).arg(copy.path("data")).status();
    assert!(copied.expect("cp").success());
    fs::remove_dir_all(copy.path("data").join("run")).expect("removed");
    copy.restart();
    copy.converged("web", 2);
    let now = processes(&mark);
    assert!(before.is_subset(&now), "{before:?} {now:?}");
    assert_eq!(original.running("web").len(), 2);
    copy.run(&["service", "rm", "web"]).ok();
    until("the copy's own programs end", || processes(&mark) == before);
}

#[test]
fn a_damaged_launch_record_gives_the_program_up() {
    let mut daemon = Daemon::start();
    let mark = unique_seconds();
    create(&daemon, "web", "1", &mark);
    let before = processes(&mark);
    daemon.kill9();
    fs::write(task_dirs(&daemon)[0].join("main").join("launch.json"), "garbage").expect("written");
    daemon.restart();
    until("another process took its place", || {
        let now = processes(&mark);
        now.len() == 1 && now != before
    });
    let tasks = daemon.tasks("web");
    let said =
        |t: &serde_json::Value| t["message"].as_str().is_some_and(|m| m.contains("launch.json is damaged"));
    assert!(tasks.iter().any(said), "{tasks:?}");
    daemon.run(&["service", "rm", "web"]).ok();
    until("nothing is left", || processes(&mark).is_empty() && supervised(&daemon.path("data")).is_empty());
}

#[test]
fn a_damaged_state_record_does_not_lose_the_program() {
    let mut daemon = Daemon::start();
    let mark = unique_seconds();
    create(&daemon, "web", "1", &mark);
    let before = processes(&mark);
    daemon.kill9();
    fs::write(task_dirs(&daemon)[0].join("main").join("state.json"), "{").expect("written");
    daemon.restart();
    daemon.converged("web", 1);
    assert_eq!(processes(&mark), before);
    daemon.run(&["service", "rm", "web"]).ok();
    until("nothing is left", || processes(&mark).is_empty() && task_dirs(&daemon).is_empty());
}

#[test]
fn tasks_that_never_started_leave_nothing_behind_a_restart() {
    let mut daemon = Daemon::start();
    let fixed = ["service", "create", "-d", "--driver", "exec", "--name", "x", "--replicas", "3"];
    daemon.run(&[&fixed[..], &["--restart-delay", "1h", "--", "/bin/false"]].concat()).ok();
    let ready = |d: &Daemon| d.tasks("x").iter().filter(|t| t["state"] == "ready").count();
    until("replacements wait for their turn", || ready(&daemon) == 3);
    daemon.run(&["service", "update", "-d", "--env-add", "A=1", "x"]).ok();
    until("the update has ended some of them", || {
        daemon.tasks("x").iter().any(|t| t["state"] == "shutdown" || t["current"] == true)
    });
    daemon.kill9();
    daemon.restart();
    daemon.run(&["service", "rm", "-d", "x"]).ok();
    until("no directory of a task is left", || task_dirs(&daemon).is_empty());
}

#[test]
fn a_program_gets_the_usual_limit_of_open_files() {
    let daemon = Daemon::start();
    let mark = unique_seconds();
    create(&daemon, "web", "1", &mark);
    let of = |pid: u32| {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
        let line = limits.lines().find(|l| l.starts_with("Max open files")).expect("a line").to_owned();
        line.split_whitespace().nth(3).expect("the soft limit").to_owned()
    };
    let own = of(std::process::id());
    assert_eq!(of(pid_of(&daemon.running("web")[0])), own, "a program gets what the daemon was started with");
}
