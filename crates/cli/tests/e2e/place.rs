//! What cannot be placed says why, and starts by itself when the reason goes.

use crate::support::{Daemon, unique_seconds, until};

#[test]
fn a_constraint_that_no_node_meets() {
    let daemon = Daemon::start();
    let mark = unique_seconds();
    let create = [
        "service",
        "create",
        "-d",
        "--driver",
        "exec",
        "--name",
        "picky",
        "--constraint",
        "node.labels.zone==east",
    ];
    daemon.run(&[&create[..], &["--", "sleep", &mark]].concat()).ok();
    until("the reason is told", || {
        daemon.run(&["service", "ps", "picky"]).ok().contains("node.labels.zone==east")
    });
    let why = daemon.run(&["why", "picky"]).ok();
    assert!(why.contains("node.labels.zone==east"), "{why}");
    let json = daemon.run(&["why", "--json", "picky"]).json();
    let text = json.to_string();
    assert!(text.contains("\"filter\":\"constraint\"") && text.contains("\"nodes\":1"), "{text}");
    let remedy = "the smallest change that would place picky.1: the label zone=east on node ";
    for of in ["picky", "picky.1"] {
        let why = daemon.run(&["why", of]).ok();
        assert!(why.contains(remedy), "{why}");
    }
    let task = &daemon.tasks("picky")[0];
    assert_eq!(task["state"], "pending");
    assert_eq!(task["unplaced"]["refusals"][0]["filter"], "constraint", "{task}");
    assert_eq!(task["unplaced"]["refusals"][0]["nodes"], 1, "{task}");

    let node = daemon.get("/v1/nodes")["items"][0]["id"].as_str().expect("an id").to_owned();
    daemon.run(&["node", "update", "--label-add", "zone=east", &node]).ok();
    daemon.converged("picky", 1);
    assert!(daemon.tasks("picky")[0].get("unplaced").is_none());
}

#[test]
fn a_port_and_memory_that_another_service_holds() {
    let daemon = Daemon::start();
    let mark = unique_seconds();
    let memory = daemon.get("/v1/nodes")["items"][0]["resources"]["memory"].as_u64().expect("bytes");
    let most = (memory / 4 * 3).to_string();
    let create = |name: &str, flags: &[&str]| {
        let fixed = ["service", "create", "-d", "--driver", "exec", "--name", name];
        daemon.run(&[&fixed[..], flags, &["--", "sleep", &mark]].concat()).ok();
    };
    create("first", &["--reserve-memory", &most, "--publish", "published=18342,mode=host"]);
    daemon.converged("first", 1);
    create("second", &["--reserve-memory", &most]);
    create("third", &["--publish", "published=18342,mode=host"]);
    until("both say why", || {
        let of = |name: &str| daemon.run(&["service", "ps", name]).ok();
        of("second").contains("memory") && of("third").contains("18342")
    });
    daemon.run(&["service", "rm", "first"]).ok();
    daemon.converged("second", 1);
    daemon.converged("third", 1);
}

#[test]
fn a_paused_node_takes_nothing_new_and_a_drained_one_gives_up() {
    let daemon = Daemon::start();
    let mark = unique_seconds();
    let node = daemon.get("/v1/nodes")["items"][0]["id"].as_str().expect("an id").to_owned();
    let create = |name: &str| {
        let fixed = ["service", "create", "-d", "--driver", "exec", "--name", name, "--", "sleep", &mark];
        daemon.run(&fixed).ok();
    };
    create("old");
    daemon.converged("old", 1);
    daemon.run(&["node", "update", "--availability", "pause", &node]).ok();
    create("new");
    until("it waits", || daemon.tasks("new").iter().any(|t| t.get("unplaced").is_some()));
    assert_eq!(daemon.running("old").len(), 1);
    daemon.run(&["node", "update", "--availability", "drain", &node]).ok();
    until("the drained node runs nothing", || daemon.running("old").is_empty());
    daemon.run(&["node", "update", "--availability", "active", &node]).ok();
    daemon.converged("old", 1);
    daemon.converged("new", 1);
}
