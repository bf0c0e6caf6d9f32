//! Updates of running services: good ones, bad ones, and what is taken back.

use std::collections::BTreeSet;

use crate::support::{Daemon, id_of, pid_of, unique_seconds, until};

/// A service of two tasks whose updates watch each new task for so long.
fn create(daemon: &Daemon, monitor: &str, flags: &[&str], command: &[&str]) {
    let fixed = ["service", "create", "--driver", "exec", "--name", "web", "--replicas", "2"];
    daemon
        .run(
            &[
                &fixed[..],
                &["--update-monitor", monitor, "--rollback-monitor", "300ms"],
                flags,
                &["--"],
                command,
            ]
            .concat(),
        )
        .ok();
    daemon.converged("web", 2);
}

/// Which tasks run, with their processes.
fn who_runs(daemon: &Daemon) -> BTreeSet<(String, u32)> {
    daemon.running("web").iter().map(|t| (id_of(t), pid_of(t))).collect()
}

#[test]
fn a_good_update_is_completed_and_can_be_taken_back() {
    let daemon = Daemon::start();
    create(&daemon, "300ms", &[], &["sleep", &unique_seconds()]);
    let refused = daemon.run(&["service", "rollback", "web"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("web has no previous revision"), "{refused:?}");
    let before = who_runs(&daemon);

    daemon.run(&["service", "update", "--env-add", "A=1", "web"]).ok();
    let shown = daemon.get("/v1/services/web");
    assert_eq!(shown["update_status"]["state"], "completed");
    assert!(who_runs(&daemon).is_disjoint(&before));
    assert!(daemon.running("web").iter().all(|t| t["current"] == true));

    daemon.run(&["service", "rollback", "web"]).ok();
    let shown = daemon.get("/v1/services/web");
    assert_eq!(shown["update_status"]["state"], "rollback_completed");
    assert_eq!((&shown["revision"]["number"], &shown["spec"]["env"]), (&1.into(), &serde_json::json!({})));
    daemon.run(&["service", "update", "--rollback", "web"]).ok();
    assert_eq!(daemon.get("/v1/services/web")["spec"]["env"]["A"], "1");

    let forced = who_runs(&daemon);
    daemon.run(&["service", "update", "--force", "web"]).ok();
    assert!(who_runs(&daemon).is_disjoint(&forced), "every task is another one");
    let both = daemon.run(&["service", "update", "--rollback", "--env-add", "B=1", "web"]);
    assert_eq!(both.code, 2, "{both:?}");
}

#[test]
fn a_bad_update_pauses_and_says_why() {
    let daemon = Daemon::start();
    create(&daemon, "3s", &["--restart-delay", "200ms"], &["sleep", &unique_seconds()]);
    let before = who_runs(&daemon);
    let said = daemon.run(&["service", "update", "--args", "sh -c 'echo broken; exit 7'", "web"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("update paused: slot 1 failed with exit code 7"), "{said:?}");
    assert!(said.err.contains("1 of 2 slots failed, none may"), "{said:?}");
    assert_eq!(who_runs(&daemon).intersection(&before).count(), 1, "the second one was not touched");

    let inspected = daemon.run(&["service", "inspect", "web"]).ok();
    assert!(inspected.contains("paused") && inspected.contains("exit code 7"), "{inspected}");
    let listed = daemon.run(&["service", "ls"]).ok();
    assert!(listed.contains("Update paused"), "{listed}");
    let why = daemon.run(&["why", "web"]).ok();
    assert!(why.contains("update paused: slot 1 failed with exit code 7"), "{why}");
    let words = why.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("to go back: quelea service rollback web"), "{why}");

    // It goes on with the next spec.
    daemon.run(&["service", "update", "--args", &format!("sleep {}", unique_seconds()), "web"]).ok();
    assert_eq!(daemon.get("/v1/services/web")["update_status"]["state"], "completed");
    assert!(who_runs(&daemon).is_disjoint(&before));
}

#[test]
fn a_bad_update_that_is_rolled_back_never_touches_what_runs() {
    let daemon = Daemon::start();
    let policy = ["--update-order", "start-first", "--update-failure-action", "rollback"];
    create(&daemon, "3s", &policy, &["sleep", &unique_seconds()]);
    let before = who_runs(&daemon);
    let said = daemon.run(&["service", "update", "--args", "sh -c 'exit 7'", "web"]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(
        said.err.contains("update rolled back to revision 1: slot 1 failed with exit code 7"),
        "{said:?}"
    );
    assert_eq!(who_runs(&daemon), before, "the same tasks, the same processes");
    let shown = daemon.get("/v1/services/web");
    assert_eq!(shown["update_status"]["state"], "rollback_completed");
    assert_eq!(shown["status"]["converged"], true);

    let again = daemon.run(&["service", "rollback", "web"]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.err.contains("has been rolled back already, from revision 2 to 1"), "{again:?}");

    // And a good one, beside them.
    daemon.run(&["service", "update", "--env-add", "A=1", "web"]).ok();
    assert!(who_runs(&daemon).is_disjoint(&before));
    until("the old ones have ended", || {
        daemon.tasks("web").iter().all(|t| t["state"] != "running" || t["current"] == true)
    });
}

#[test]
fn a_stack_is_rolled_back_as_its_file_says() {
    let daemon = Daemon::start();
    let file = |command: &str| {
        let text = format!(
            "services:\n  web:\n    command: {command}\n    deploy:\n      update_config: {{monitor: 3s, order: start-first, failure_action: rollback}}\n"
        );
        std::fs::write(daemon.path("stack.yaml"), text).expect("a file");
    };
    file(&format!("sleep {}", unique_seconds()));
    let deploy = ["stack", "deploy", "-c", "stack.yaml", "shop"];
    daemon.run(&deploy).ok();
    let before = daemon.converged("shop_web", 1);
    file("\"sh -c 'exit 9'\"");
    let said = daemon.run(&deploy);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains("rolled back to revision 1: slot 1 failed with exit code 9"), "{said:?}");
    assert_eq!(pid_of(&daemon.converged("shop_web", 1)[0]), pid_of(&before[0]));
}
