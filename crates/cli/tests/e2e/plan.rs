//! Plans, simulations and rebalancing against a running daemon of one node: what they say, how they end, and that they change
//! nothing.

use crate::support::{Daemon, Said, unique_seconds, until};

/// Runs a command that asks, and checks that the cluster is as before.
#[track_caller]
fn ask(daemon: &Daemon, args: &[&str]) -> Said {
    let services = daemon.get("/v1/services")["changed"].clone();
    let said = daemon.run(args);
    assert_eq!(daemon.get("/v1/services")["changed"], services, "{args:?} changes nothing");
    said
}

#[track_caller]
fn changes(said: Said) -> String {
    assert_eq!(said.code, 1, "stdout: {}\nstderr: {}", said.out, said.err);
    said.out
}

/// The copy on which a plan is made has come to rest first: the version that was read is not one of its own.
#[test]
fn a_change_can_be_planned_while_an_update_goes_on() {
    let daemon = Daemon::start();
    let flags = ["--driver", "exec", "--name", "web", "--replicas", "2", "--update-monitor", "10m"];
    daemon.run(&[&["service", "create"][..], &flags, &["--", "sleep", &unique_seconds()]].concat()).ok();
    daemon.run(&["service", "update", "-d", "--env-add", "A=1", "web"]).ok();
    let before = daemon.get("/v1/services/web")["update_status"]["state"].clone();
    let out = changes(daemon.run(&["plan", "service", "update", "web", "--env-add", "A=2"]));
    assert!(out.contains("env.A  1 -> 2"), "{out}");
    changes(daemon.run(&["plan", "service", "rm", "web"]));
    let after = daemon.get("/v1/services/web")["update_status"]["state"].clone();
    assert_eq!([before, after], ["updating", "updating"]);
}

#[test]
fn plans_of_services_say_what_they_would_do() {
    let daemon = Daemon::start();
    let mark = unique_seconds();
    let flags = ["--driver", "exec", "--name", "web", "--replicas", "2", "--env", "COLOUR=red"];
    let command = ["--", "sleep", &*mark];
    let plan = [&["plan", "service", "create"][..], &flags, &command].concat();
    let out = changes(ask(&daemon, &plan));
    assert!(out.contains("+ service web: 2 tasks created"), "{out}");
    assert!(out.contains("+ env.COLOUR  red") || out.contains("env.COLOUR "), "{out}");
    assert!(out.contains("web.2  created"), "{out}");
    assert!(out.contains("Nothing was changed."), "{out}");
    assert_eq!(daemon.get("/v1/services")["items"].as_array().map(Vec::len), Some(0));

    daemon.run(&[&["service", "create"][..], &flags, &command].concat()).ok();
    daemon.converged("web", 2);
    until("it rests", || daemon.get("/v1/services/web")["status"]["converged"] == true);
    // The same again is refused as the command itself would be, with a code of its own.
    let refused = ask(&daemon, &plan);
    assert_eq!(refused.code, 255, "{}", refused.err);
    assert!(refused.err.contains("there is a service web already"), "{}", refused.err);

    let said = ask(&daemon, &["plan", "service", "scale", "web=2"]).ok();
    assert!(said.starts_with("Nothing would change"), "{said}");
    let out = changes(ask(&daemon, &["plan", "service", "scale", "web=3"]));
    assert!(out.contains("~ replicas  2 -> 3") && out.contains("web.3  created"), "{out}");
    ask(&daemon, &["plan", "service", "update", "web", "--env-add", "COLOUR=red"]).ok();
    let out = changes(ask(&daemon, &["plan", "service", "update", "web", "--env-add", "COLOUR=blue"]));
    assert!(out.contains("service web: 2 tasks replaced"), "{out}");
    assert!(out.contains("~ env.COLOUR  red -> blue") && out.contains("revision 1 -> 2"), "{out}");
    let out = changes(ask(&daemon, &["plan", "service", "update", "web", "--label-add", "tier=front"]));
    assert!(out.contains("service web: updated in place, 2 tasks stay"), "{out}");
    assert!(out.contains("+ labels.tier  front") && !out.contains("replaced"), "{out}");
    let out = changes(ask(&daemon, &["plan", "service", "rm", "web"]));
    assert!(out.contains("- service web: 2 tasks removed"), "{out}");
    assert_eq!(ask(&daemon, &["plan", "service", "rm", "nothing"]).code, 255);
    assert_eq!(daemon.running("web").len(), 2);
}

#[test]
fn what_finds_no_node_is_told_before() {
    let daemon = Daemon::start();
    let memory = daemon.get("/v1/nodes")["items"][0]["resources"]["memory"].as_u64().expect("bytes");
    let most = (memory / 4 * 3).to_string();
    let create = ["plan", "service", "create", "--driver", "exec", "--name", "big", "--replicas", "2"];
    let args = [&create[..], &["--reserve-memory", &most, "--json", "--", "sleep", "1"]].concat();
    let said = ask(&daemon, &args);
    let json: serde_json::Value = serde_json::from_str(&changes(said)).expect("--json prints JSON");
    assert_eq!(json["unplaceable"][0]["count"], 1, "{json}");
    assert_eq!(json["unplaceable"][0]["unplaced"]["refusals"][0]["filter"], "resources", "{json}");
    assert_eq!(json["services"][0]["tasks"]["unplaceable"], 1, "{json}");
}

#[test]
fn an_unchanged_stack_has_nothing_to_do_and_a_label_is_no_reason_to_replace() {
    let daemon = Daemon::start();
    let mark = unique_seconds();
    let file = daemon.path("stack.yaml");
    let text = |label: &str| {
        format!(
            "services:\n  web:\n    command: sleep {mark}\n    deploy:\n      labels:\n        tier: {label}\n"
        )
    };
    std::fs::write(&file, text("front")).expect("a file");
    let file = file.to_str().expect("a path").to_owned();
    let plan = ["plan", "stack", "-c", &*file, "shop"];
    let out = changes(ask(&daemon, &plan));
    assert!(out.contains("+ stack shop") && out.contains("+ service shop_web: 1 task created"), "{out}");
    daemon.run(&["stack", "deploy", "-c", &file, "shop"]).ok();
    until("it rests", || daemon.get("/v1/services/shop_web")["status"]["converged"] == true);
    let out = ask(&daemon, &plan).ok();
    assert!(out.starts_with("Nothing would change"), "{out}");

    std::fs::write(&file, text("back")).expect("a file");
    let out = changes(ask(&daemon, &plan));
    assert!(out.contains("~ service shop_web: updated in place, 1 task stays"), "{out}");
    assert!(out.contains("~ labels.tier  front -> back"), "{out}");

    std::fs::write(&file, format!("services:\n  db:\n    command: sleep {mark}\n")).expect("a file");
    let out = changes(ask(&daemon, &plan));
    assert!(out.contains("service shop_web stays although the file has it no more"), "{out}");
    let out = changes(ask(&daemon, &["plan", "stack", "-c", &file, "--prune", "shop"]));
    assert!(out.contains("- service shop_web: 1 task removed"), "{out}");
    std::fs::write(&file, "services:\n  db:\n    nope: 1\n").expect("a file");
    let refused = ask(&daemon, &plan);
    assert_eq!(refused.code, 255);
    assert!(refused.err.contains("stack.yaml:3:"), "{}", refused.err);
}

#[test]
fn nodes_that_go_and_come() {
    let daemon = Daemon::start();
    let mark = unique_seconds();
    let host = daemon.get("/v1/nodes")["items"][0]["hostname"].as_str().expect("a name").to_owned();
    let create = ["service", "create", "--driver", "exec", "--name", "web", "--replicas", "2"];
    daemon.run(&[&create[..], &["--", "sleep", &mark]].concat()).ok();
    until("it rests", || daemon.get("/v1/services/web")["status"]["converged"] == true);
    let out = changes(ask(&daemon, &["simulate", "drain", "self"]));
    assert!(out.contains("web.1  lost") && out.contains(&format!("node {host} is drained")), "{out}");
    assert!(out.contains("1 node is drained"), "{out}");
    let out = changes(ask(&daemon, &["simulate", "down", &host]));
    assert!(out.contains("2 tasks lost") && out.contains("1 node is down"), "{out}");
    let out = changes(ask(&daemon, &["simulate", "add", "2", "--like", "self"]));
    assert!(out.contains(&format!("{host}+2")) && out.contains("no task is touched"), "{out}");
    assert_eq!(ask(&daemon, &["simulate", "down", "nobody"]).code, 255);

    let out = ask(&daemon, &["rebalance", "--plan"]).ok();
    assert!(out.starts_with("The cluster is even"), "{out}");
    let out = daemon.run(&["rebalance", "--apply"]).ok();
    assert!(out.starts_with("The cluster is even"), "{out}");
}
