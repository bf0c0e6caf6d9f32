//! What ends is replaced.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::{Daemon, id_of, pid_of, processes, signal, unique_seconds, until};

#[test]
fn a_killed_process_is_replaced_in_its_slot_after_the_delay() {
    let daemon = Daemon::start();
    let mark = unique_seconds();
    let create = [
        "service",
        "create",
        "--driver",
        "exec",
        "--name",
        "web",
        "--replicas",
        "2",
        "--restart-delay",
        "1s",
    ];
    daemon.run(&[&create[..], &["--", "sleep", &mark]].concat()).ok();
    let before = daemon.converged("web", 2);
    let victim = before.iter().find(|t| t["slot"] == 2).expect("slot 2");
    let other = before.iter().find(|t| t["slot"] == 1).expect("slot 1");
    signal(pid_of(victim), "KILL");

    until("the second slot runs another task", || {
        let running = daemon.running("web");
        running.len() == 2 && running.iter().all(|t| id_of(t) != id_of(victim))
    });
    let after = daemon.running("web");
    let heir = after.iter().find(|t| t["slot"] == 2).expect("the same slot");
    assert_ne!(id_of(heir), id_of(victim));
    assert_ne!(pid_of(heir), pid_of(victim));
    assert!(
        after.iter().any(|t| id_of(t) == id_of(other) && pid_of(t) == pid_of(other)),
        "slot 1 was left alone"
    );
    assert_eq!(processes(&mark).len(), 2);

    let tasks = daemon.tasks("web");
    let dead = tasks.iter().find(|t| id_of(t) == id_of(victim)).expect("it is still known");
    assert_eq!(dead["state"], "failed");
    assert!(dead["message"].as_str().is_some_and(|m| m.contains("KILL")), "{dead}");
    let since = |t: &serde_json::Value, field: &str| t[field].as_str().expect("a time").to_owned();
    let (ended, started) = (since(dead, "since"), since(&heir["programs"][0], "started_at"));
    assert!(seconds_between(&ended, &started) >= 0.95, "the delay was kept: {ended} to {started}");

    let ps = daemon.run(&["service", "ps", "web"]).ok();
    assert!(ps.contains("\\_ web.2"), "history is shown below its slot:\n{ps}");
    assert!(ps.to_lowercase().contains("failed"), "{ps}");
}

fn seconds_between(earlier: &str, later: &str) -> f64 {
    let parse = |text: &str| text.parse::<jiff::Timestamp>().expect("RFC 3339");
    (parse(later) - parse(earlier)).as_secs_f64()
}

#[test]
fn what_ends_with_success_is_not_replaced_on_failure_only() {
    let daemon = Daemon::start();
    let create = [
        "service",
        "create",
        "-d",
        "--driver",
        "exec",
        "--name",
        "once",
        "--restart-condition",
        "on-failure",
    ];
    daemon.run(&[&create[..], &["--", "true"]].concat()).ok();
    until("it is complete", || daemon.tasks("once").iter().any(|t| t["state"] == "complete"));
    until("the decision is told", || {
        let why = daemon.run(&["why", "once"]).ok();
        why.contains("not-replaced") || why.contains("not replaced")
    });
    assert_eq!(daemon.tasks("once").len(), 1);
}

#[test]
fn attempts_end_and_say_so() {
    let daemon = Daemon::start();
    let policy = ["--restart-max-attempts", "2", "--restart-delay", "100ms"];
    let create = ["service", "create", "-d", "--driver", "exec", "--name", "bad"];
    daemon.run(&[&create[..], &policy, &["--", "sh", "-c", "exit 7"]].concat()).ok();
    until("three tasks have failed, and no more come", || {
        let why = daemon.run(&["why", "bad"]).ok();
        daemon.tasks("bad").iter().filter(|t| t["state"] == "failed").count() == 3 && why.contains('7')
    });
    until("nothing is wanted any more", || daemon.running("bad").is_empty());
    assert_eq!(daemon.tasks("bad").len(), 3);
    assert!(daemon.tasks("bad").iter().all(|t| t["exit_code"] == 7));
}

#[test]
fn the_whole_tree_ends_with_its_program() {
    let daemon = Daemon::start();
    let mark = unique_seconds();
    let script = format!("(setsid sleep {mark} &) ; sleep {mark} & trap '' TERM; sleep {mark}");
    let create = ["service", "create", "--driver", "exec", "--name", "tree", "--stop-grace-period", "200ms"];
    daemon.run(&[&create[..], &["--", "sh", "-c", &script]].concat()).ok();
    daemon.converged("tree", 1);
    until("the whole tree is there", || processes(&mark).len() >= 3);
    daemon.run(&["service", "rm", "tree"]).ok();
    until("nothing is left", || processes(&mark).is_empty());
}

/// Creates a service in the foreground; the first line of its progress that has all of these.
fn waits_and_says(daemon: &Daemon, name: &str, script: &str, parts: &[&str]) -> String {
    let fixed = ["service", "create", "--driver", "exec", "--restart-delay", "300ms", "--name", name];
    let mut create = daemon.command(&[&fixed[..], &["--", "sh", "-c", script]].concat());
    let mut child = create.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let line = lines.find(|line| parts.iter().all(|part| line.contains(part)));
    child.kill().expect("it is still waiting");
    child.wait().expect("killed");
    line.unwrap_or_else(|| panic!("nothing with {parts:?}"))
}

#[test]
fn what_ends_again_and_again_is_waited_for_and_explained() {
    let daemon = Daemon::start();
    let line = waits_and_says(&daemon, "bad", "exit 7", &["bad.1 failed with exit code 7 (", " times)"]);
    assert!(line.ends_with("see: quelea service logs bad"), "{line}");
    let line = waits_and_says(&daemon, "once", "exit 0", &["once.1 ended with exit code 0"]);
    assert!(line.contains("use --restart-condition none for programs that end"), "{line}");
    let list = daemon.run(&["service", "ls"]).ok();
    assert!(!list.contains("steady"), "{list}");

    // What is repeated is counted, and the beginning is still known.
    until("placements are counted", || daemon.run(&["why", "bad"]).ok().contains(" times so far)"));
    let why = daemon.run(&["why", "bad"]).ok();
    assert_eq!(why.lines().filter(|line| line.contains(" placed on ")).count(), 1, "{why}");
    assert!(why.contains("scale-up"), "{why}");
    let why = daemon.run(&["why", "bad.1"]).ok();
    assert!(why.contains("it replaces another: before it, task bad.1"), "{why}");
    assert!(why.contains("with exit code 7"), "{why}");
}
