//! Canaries of real programs: promoted, aborted, failed, and planned.

use std::collections::BTreeSet;

use crate::support::{Daemon, id_of, pid_of, unique_seconds, until};

/// Which tasks run, with their processes.
fn who_runs(daemon: &Daemon) -> BTreeSet<(String, u32)> {
    daemon.running("web").iter().map(|t| (id_of(t), pid_of(t))).collect()
}

fn state(daemon: &Daemon) -> String {
    daemon.get("/v1/services/web")["update_status"]["state"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn canaries_are_promoted_or_aborted_and_what_they_stand_beside_is_not_touched() {
    let daemon = Daemon::start();
    let flags = ["--driver", "exec", "--name", "web", "--replicas", "2", "--restart-delay", "200ms"];
    let policy = ["--update-canary", "1", "--update-monitor", "500ms"];
    let command = ["--", "sleep", &*unique_seconds()];
    let create = [&["service", "create"][..], &flags, &policy, &command].concat();
    daemon.run(&create).ok();
    daemon.converged("web", 2);
    let before = who_runs(&daemon);
    let refused = daemon.run(&["service", "promote", "web"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("web has no canaries to promote"), "{refused:?}");

    let said = daemon.run(&["service", "update", "--env-add", "A=1", "web"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains("`quelea service promote web`"), "{said:?}");
    assert_eq!(state(&daemon), "canary");
    let tried = who_runs(&daemon);
    assert!(tried.is_superset(&before) && tried.len() == 3, "{tried:?}");
    let listed = daemon.run(&["service", "ls"]).ok();
    assert!(listed.contains("Canary, to be promoted"), "{listed}");
    let tasks = daemon.run(&["service", "ps", "web"]).ok();
    assert!(tasks.contains("Running (canary)") && !tasks.contains("\\_"), "both head their slot: {tasks}");
    let why = daemon.run(&["why", "web"]).ok();
    let words = why.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("to go back: quelea service abort web"), "{why}");
    let inspected = daemon.run(&["service", "inspect", "web"]).ok();
    assert!(inspected.contains("canaries: 1, to be promoted"), "{inspected}");

    let plan = daemon.run(&["plan", "service", "abort", "web"]);
    assert!(plan.code == 1 && plan.out.contains("revision 2 is tried no longer"), "{plan:?}");
    let plan = daemon.run(&["plan", "service", "promote", "web"]);
    assert!(plan.code == 1 && plan.out.contains("revision 1 -> 2"), "{plan:?}");
    assert_eq!((state(&daemon), who_runs(&daemon)), ("canary".into(), tried), "a plan changes nothing");

    daemon.run(&["service", "abort", "web"]).ok();
    assert_eq!(who_runs(&daemon), before, "the same tasks, the same processes");
    let refused = daemon.run(&["service", "rollback", "web"]);
    assert!(refused.code == 1 && refused.err.contains("were never promoted"), "{refused:?}");

    // One that fails: paused, and nothing else has happened.
    let said = daemon.run(&["service", "update", "--args", "sh -c 'exit 7'", "web"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("slot 1 failed with exit code 7"), "{said:?}");
    assert!(said.err.contains("1 of 1 canaries failed, none may"), "{said:?}");
    assert!(!said.err.contains("next start"), "it is not started again: {said:?}");
    let tasks = daemon.run(&["service", "ps", "web"]).ok();
    let row = |part: &str| tasks.lines().find(|l| l.contains(part)).unwrap_or_default().to_owned();
    assert!(row("Failed (canary)").contains("\\_ web.1"), "history of the task that is there: {tasks}");
    let id = row("Failed (canary)").split_whitespace().next().expect("an id").to_owned();
    let why = daemon.run(&["why", &id]).ok();
    assert!(why.contains("no other canary takes its place while the update is paused"), "{why}");
    assert_eq!(who_runs(&daemon), before);
    daemon.run(&["service", "abort", "web"]).ok();
    assert_eq!(who_runs(&daemon), before);

    let args = format!("sleep {}", unique_seconds());
    let plan = daemon.run(&["plan", "service", "update", "--args", &args, "web"]);
    assert!(plan.code == 1 && plan.out.contains("is tried beside it"), "{plan:?}");
    daemon.run(&["service", "update", "--args", &args, "web"]).ok();
    let canary: BTreeSet<_> = who_runs(&daemon).difference(&before).cloned().collect();
    daemon.run(&["service", "promote", "web"]).ok();
    assert_eq!(state(&daemon), "completed");
    until("the old ones have ended", || who_runs(&daemon).len() == 2);
    let after = who_runs(&daemon);
    assert!(after.is_superset(&canary) && after.is_disjoint(&before), "{after:?}");

    let plan = daemon.run(&["plan", "service", "rollback", "web"]);
    assert!(plan.code == 1 && plan.out.contains("2 tasks replaced"), "{plan:?}");
    assert_eq!(who_runs(&daemon), after, "a plan changes nothing");
}

#[test]
fn canaries_may_promote_themselves() {
    let daemon = Daemon::start();
    let flags = ["--driver", "exec", "--name", "web", "--replicas", "2", "--update-monitor", "300ms"];
    let policy = ["--update-canary", "1", "--update-auto-promote"];
    let command = ["--", "sleep", &*unique_seconds()];
    daemon.run(&[&["service", "create"][..], &flags, &policy, &command].concat()).ok();
    daemon.run(&["service", "update", "--env-add", "A=1", "web"]).ok();
    assert_eq!(state(&daemon), "completed");
    assert!(daemon.running("web").iter().all(|t| t["current"] == true));
}
