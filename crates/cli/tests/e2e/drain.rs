//! Taking a node out: budgets, what a drain waits for, its deadline, and that it can be taken back.

use crate::support::{Daemon, unique_seconds, until};

fn create(daemon: &Daemon, name: &str, flags: &[&str]) {
    let fixed = ["service", "create", "--driver", "exec", "--name", name];
    let mark = unique_seconds();
    daemon.run(&[&fixed[..], flags, &["--", "sleep", &mark]].concat()).ok();
}

#[test]
fn what_has_no_budget_goes_at_once() {
    let daemon = Daemon::start();
    create(&daemon, "web", &["--replicas", "2"]);
    daemon.converged("web", 2);
    let name = daemon.get("/v1/nodes")["items"][0]["hostname"].as_str().expect("a name").to_owned();
    let out = daemon.run(&["node", "drain", "self"]);
    assert_eq!((out.code, out.out.trim()), (0, &*name), "{}", out.err);
    assert!(out.err.ends_with("0 tasks left, 2 gone: 2 wait for a node\n"), "{}", out.err);
    assert!(daemon.run(&["node", "ls"]).ok().contains("  Drain  "));
    assert!(daemon.running("web").is_empty());
    daemon.run(&["node", "update", "--availability", "active", "self"]).ok();
    daemon.converged("web", 2);
}

#[test]
fn a_budget_keeps_the_only_one_until_the_deadline() {
    let daemon = Daemon::start();
    create(&daemon, "web", &["--min-healthy", "100%"]);
    let before = daemon.converged("web", 1)[0]["id"].clone();
    assert!(daemon.run(&["service", "inspect", "web"]).ok().contains("at least 100% run"));
    let spec = &daemon.get("/v1/services/web")["spec"];
    assert_eq!(spec["disruption"], serde_json::json!({"min_healthy": "100%", "max_surge": 0}));

    // Nobody else takes it: waiting ends, the drain does not.
    let out = daemon.run(&["node", "drain", "self", "--timeout", "3s"]);
    assert_eq!(out.code, 4, "{}", out.err);
    assert!(
        out.err.contains("1 task left, 0 gone: web (1) waits for a node: no suitable node"),
        "{}",
        out.err
    );
    assert!(out.err.contains("goes on being drained"), "{}", out.err);
    assert!(daemon.run(&["node", "ls"]).ok().contains("Draining (1 left)"));
    let shown = daemon.run(&["node", "inspect", "self"]).ok();
    assert!(shown.contains("Leaving:") && shown.contains("web (1) waits for a node"), "{shown}");
    assert!(!shown.contains("Deadline"), "{shown}");
    assert_eq!(daemon.running("web")[0]["id"], before);

    // Taken back, it is the same task; and the second one is gone.
    daemon.run(&["node", "update", "--availability", "active", "self"]).ok();
    until("one is left", || daemon.get("/v1/services/web")["status"]["converged"] == true);
    assert_eq!(daemon.running("web")[0]["id"], before);

    // Drained again, it keeps the deadline and says so; another one takes its place.
    let out = daemon.run(&["node", "drain", "-d", "self", "--deadline", "1h"]);
    assert_eq!((out.code, out.err.as_str()), (0, ""));
    let out = daemon.run(&["node", "drain", "-d", "self"]);
    assert_eq!(out.code, 0);
    assert!(out.err.contains("its deadline stays") && out.err.contains("goes at once in "), "{}", out.err);
    assert!(daemon.run(&["why", "self"]).ok().contains("whatever is left goes at once in "));
    let out = daemon.run(&["node", "drain", "self", "--deadline", "2s"]);
    assert_eq!(out.code, 0, "{}", out.err);
    assert!(!out.err.contains("stays"), "{}", out.err);
    assert!(daemon.running("web").is_empty());
    assert!(daemon.run(&["why", "web"]).ok().contains("is drained"));
}

#[test]
fn what_is_refused() {
    let daemon = Daemon::start();
    let create = ["service", "create", "-d", "--driver", "exec", "--name", "x"];
    for (flags, code, part) in [
        (&["--min-healthy", "101%"][..], 2, "2 or 50%"),
        (&["--mode", "global", "--max-surge", "1"], 1, "only replicated services have a budget"),
    ] {
        let out = daemon.run(&[&create[..], flags, &["--", "sleep", "1"]].concat());
        assert_eq!(out.code, code, "{}", out.err);
        assert!(out.err.contains(part), "{}", out.err);
    }
    let (status, body) = daemon.call("PATCH", "/v1/nodes/self", r#"{"deadline": "5m"}"#);
    assert!(status == 400 && body.contains("only a drain has one"), "{body}");
    let drain = r#"{"availability": "drain", "deadline": "0s"}"#;
    let (status, body) = daemon.call("PATCH", "/v1/nodes/self", drain);
    assert!(status == 400 && body.contains("deadline"), "{body}");
    assert_eq!(daemon.run(&["node", "drain", "nobody"]).code, 1);
    // A drain that nobody waits for says the node's name.
    let out = daemon.run(&["node", "drain", "-d", "self"]);
    assert_eq!((out.code, out.err.as_str()), (0, ""));
}
