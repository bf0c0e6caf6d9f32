//! Settings of the whole cluster, and what nodes offer by name.

use serde_json::{Value, json};

use crate::support::{Daemon, pid_of, signal, unique_seconds, until};

/// The tasks of a service that have ended.
fn ended(daemon: &Daemon, service: &str) -> usize {
    let over = ["complete", "shutdown", "failed", "rejected"];
    let is_over = |t: &&Value| over.contains(&t["state"].as_str().unwrap_or(""));
    daemon.tasks(service).iter().filter(is_over).count()
}

#[test]
fn settings_hold_at_once_and_outlive_the_daemon() {
    let mut daemon = Daemon::start();
    let before = daemon.run(&["cluster", "inspect", "--json"]).json();
    assert_eq!(before[0]["task_history_limit"], json!(5));
    let seconds = unique_seconds();
    let create = ["service", "create", "--driver", "exec", "--name", "web", "--restart-delay", "0s", "--"];
    daemon.run(&[&create[..], &["sleep", &seconds]].concat()).ok();
    for n in 1..=4 {
        let task = daemon.converged("web", 1).remove(0);
        signal(pid_of(&task), "KILL");
        until("its end is known", || ended(&daemon, "web") == n);
    }
    daemon.converged("web", 1);
    // A lower limit prunes what is there, and nothing else happens.
    daemon.run(&["cluster", "update", "--task-history-limit", "1"]).ok();
    until("one is left", || ended(&daemon, "web") == 1);
    daemon.run(&["cluster", "update", "--task-history-failed", "3", "--dispatcher-heartbeat", "30s"]).ok();
    // What changes nothing writes nothing.
    let index = daemon.index();
    daemon.run(&["cluster", "update", "--task-history-failed", "3"]).ok();
    assert_eq!(daemon.index(), index);
    daemon.kill9();
    daemon.restart();
    let after = daemon.run(&["cluster", "inspect", "--json"]).json();
    assert_eq!(
        (&after[0]["dispatcher_heartbeat"], &after[0]["task_history_failed"], &after[0]["id"]),
        (&json!("30s"), &json!(3), &before[0]["id"])
    );
    // An age is waited for: nothing happens to the service meanwhile.
    daemon.run(&["cluster", "update", "--task-history-age", "1s"]).ok();
    until("none is left", || ended(&daemon, "web") == 0);
    let shown = daemon.run(&["cluster", "inspect"]).ok();
    assert!(shown.contains("for 1s at most"), "{shown}");
    for (flags, part) in [
        (&["--orphan-after", "0s"][..], "orphan_after: 0s is below 1s"),
        (&["--task-history-limit", "-1"], "use a number from 0 to 10000"),
        (&["--autolock"], "is not supported yet"),
        (&[], "nothing to change"),
    ] {
        let refused = daemon.run(&[&["cluster", "update"][..], flags].concat());
        assert!(refused.code != 0 && refused.err.contains(part), "{flags:?}: {}", refused.err);
    }
}

#[test]
fn the_strategy_of_the_cluster_is_shown_where_it_holds() {
    let daemon = Daemon::start();
    let create = ["service", "create", "--driver", "mock", "--name"];
    daemon.run(&[&create[..], &["own", "--strategy", "spread", "--", "a"]].concat()).ok();
    daemon.run(&[&create[..], &["none", "--", "a"]].concat()).ok();
    let before = daemon.converged("none", 1);
    daemon.run(&["cluster", "update", "--strategy", "binpack"]).ok();
    let shown = |name: &str| daemon.run(&["service", "inspect", name]).ok();
    assert!(shown("none").contains("binpack (the cluster's)"), "{}", shown("none"));
    assert!(shown("own").lines().any(|l| l.starts_with("Strategy:") && l.ends_with("spread")));
    daemon.run(&["service", "update", "--strategy", "cluster", "own"]).ok();
    assert!(shown("own").contains("binpack (the cluster's)"), "{}", shown("own"));
    assert_eq!(daemon.converged("none", 1)[0]["id"], before[0]["id"], "nothing was replaced");
    daemon.run(&["service", "scale", "none=2"]).ok();
    let why = daemon.run(&["why", "none"]).ok();
    assert!(why.contains("fullest node first"), "{why}");
}

#[test]
fn cards_are_given_out_by_name_and_a_task_whose_card_is_gone_moves_to_another() {
    let mut daemon = Daemon::start_with(&["--node-generic-resource", "gpu=one,two"]);
    let seconds = unique_seconds();
    let line = format!("echo card $DOCKER_RESOURCE_GPU; exec sleep {seconds}");
    let create = ["service", "create", "--driver", "exec", "--name", "web", "--generic-resource", "gpu=1"];
    let rest = ["--replicas", "2", "--restart-delay", "0s", "--", "sh", "-c", &line];
    daemon.run(&[&create[..], &rest].concat()).ok();
    let cards = |daemon: &Daemon| {
        let mut cards: Vec<String> = daemon
            .running("web")
            .iter()
            .map(|task| task["named_resources"]["gpu"][0].as_str().unwrap_or("none").to_owned())
            .collect();
        cards.sort();
        cards
    };
    daemon.converged("web", 2);
    assert_eq!(cards(&daemon), ["one", "two"]);
    until("each wrote which it has", || {
        let logs = daemon.run(&["service", "logs", "web"]).ok();
        logs.contains("card one") && logs.contains("card two")
    });
    daemon.run(&["service", "scale", "--detach", "web=3"]).ok();
    until("the third has no card", || {
        let waits = |t: &Value| t["unplaced"]["text"].as_str().is_some_and(|text| text.contains("gpu"));
        daemon.tasks("web").iter().any(waits)
    });
    // The machine comes back with other cards: whose card is gone has to go, and what waits gets the new one.
    daemon.kill9();
    daemon.set_arguments(&["--node-generic-resource", "gpu=two", "--node-generic-resource", "gpu=three"]);
    daemon.restart();
    until("the new cards are in use", || cards(&daemon) == ["three", "two"]);
    let ps = daemon.run(&["service", "ps", "--no-trunc", "web"]).ok();
    assert!(ps.contains("has no gpu one any more"), "{ps}");
    let shown = daemon.run(&["node", "inspect", "self"]).ok();
    assert!(shown.contains("gpu: 2 of 2 reserved (three, two)"), "{shown}");
    for bad in ["gpu=0", "gpu=a,a", "gpu="] {
        let refused = daemon.run(&["daemon", "--data-dir", "/nonexistent", "--node-generic-resource", bad]);
        assert!(refused.code != 0 && refused.err.contains("gpu"), "{bad}: {}", refused.err);
    }
}
