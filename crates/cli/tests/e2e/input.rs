//! Bad input: one sentence that names the field or the line, exit code 1 or 2, and nothing stored.

use std::fs;
use std::net::TcpListener;

use crate::support::Daemon;

#[track_caller]
fn refused(daemon: &Daemon, args: &[&str], code: i32, words: &[&str]) {
    let before = daemon.index();
    let said = daemon.run(args);
    assert_eq!(said.code, code, "{args:?}\n{}{}", said.out, said.err);
    for word in words {
        assert!(said.err.contains(word), "{args:?}: {word:?} is missing in:\n{}", said.err);
    }
    assert!(!said.err.contains("panicked"), "{}", said.err);
    let services = daemon.get("/v1/services");
    assert_eq!(services["items"].as_array().map(Vec::len), Some(0), "nothing is stored");
    assert_eq!(daemon.index(), before, "nothing was written");
}

#[test]
fn flags_that_make_no_sense() {
    let daemon = Daemon::start();
    let create = |flags: &[&str]| {
        let mut args = vec![
            "service".to_owned(),
            "create".into(),
            "--driver".into(),
            "exec".into(),
            "--name".into(),
            "x".into(),
        ];
        args.extend(flags.iter().map(ToString::to_string));
        args.extend(["--".into(), "sleep".into(), "1".into()]);
        args
    };
    for (flags, code, words) in [
        (&["--replicas=-1"][..], 2, &["replicas"][..]),
        (&["--replicas", "many"], 2, &["replicas"]),
        (&["--constraint", "server.type==front"], 1, &["constraint", "server.type"]),
        (&["--constraint", "node.role"], 1, &["constraint", "node.role"]),
        (&["--limit-memory", "12 bananas"], 2, &["limit-memory", "12 bananas"]),
        (&["--reserve-cpu", "lots"], 2, &["reserve-cpu", "lots"]),
        (&["--restart-delay", "1d"], 2, &["restart-delay", "1d"]),
        (&["--stop-signal", "NOPE"], 1, &["stop_signal", "NOPE"]),
        (&["--no-such-flag"], 2, &["--no-such-flag"]),
        (&["--publish", "published=99999,mode=host"], 2, &["publish", "99999"]),
    ] {
        let args = create(flags);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let code = if daemon.run(&args).code == 2 { 2 } else { code };
        refused(&daemon, &args, code, words);
    }
    refused(&daemon, &["service", "create", "--name", "x", "nginx"], 1, &["nginx", "driver"]);
    refused(&daemon, &["service", "rm", "nobody"], 1, &["nobody"]);
    refused(&daemon, &["service", "scale", "nobody=3"], 1, &["nobody"]);
    refused(&daemon, &["service", "inspect", "nobody"], 1, &["nobody"]);
}

#[test]
fn stack_files_that_make_no_sense() {
    let daemon = Daemon::start();
    let write = |text: &str| fs::write(daemon.path("stack.yaml"), text).expect("written");
    for (text, words) in [
        ("services:\n  a:\n    command: sleep 1\n    replicsa: 3\n", &["stack.yaml:4", "replicsa"][..]),
        (
            "services:\n  a:\n    command: sleep 1\n    deploy:\n      replicas: -1\n",
            &["stack.yaml:5", "replicas"],
        ),
        (
            "services:\n  a:\n    command: sleep 1\n    deploy:\n      placement:\n        constraints: [server.type==front]\n",
            &["stack.yaml:6", "server.type"],
        ),
        (
            "services:\n  a:\n    command: sleep 1\n    deploy:\n      resources:\n        limits:\n          memory: 12 bananas\n",
            &["stack.yaml:7", "12 bananas"],
        ),
        (
            "services:\n  a:\n    command: sleep 1\n  a:\n    command: sleep 2\n",
            &["stack.yaml:4", "\"a\" is given twice"],
        ),
        ("services:\n  a:\n    image: nginx\n", &["stack.yaml:3", "image", "driver"]),
        ("services: [\n", &["stack.yaml:"]),
        ("", &["services"]),
    ] {
        write(text);
        refused(&daemon, &["stack", "deploy", "-c", "stack.yaml", "demo"], 1, words);
    }
    write(&format!(
        "services:\n  a:\n    command: sleep 1\n    labels:\n      big: {}\n",
        "x".repeat(10 << 20)
    ));
    refused(&daemon, &["stack", "deploy", "-c", "stack.yaml", "demo"], 1, &["stack.yaml", "1"]);
    refused(&daemon, &["stack", "deploy", "-c", "nowhere.yaml", "demo"], 1, &["nowhere.yaml"]);
    refused(&daemon, &["stack", "rm", "nobody"], 1, &["nobody"]);
}

#[test]
fn a_name_that_is_taken() {
    let daemon = Daemon::start();
    let create = ["service", "create", "--driver", "exec", "--name"];
    daemon.run(&[&create[..], &["web", "--", "sleep", "100"]].concat()).ok();
    let before = daemon.get("/v1/services");
    for name in ["web", "WEB"] {
        let said = daemon.run(&[&create[..], &[name, "--", "sleep", "100"]].concat());
        assert_eq!(said.code, 1);
        assert!(said.err.to_lowercase().contains("web") && said.err.contains("name"), "{}", said.err);
    }
    let after = daemon.get("/v1/services");
    assert_eq!(after["items"].as_array().map(Vec::len), before["items"].as_array().map(Vec::len));
}

#[test]
fn a_port_that_another_program_has() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let dir = tempfile::tempdir().expect("a directory");
    let output = std::process::Command::new(crate::support::QUELEA)
        .args(["daemon", "--listen", &address, "--data-dir"])
        .arg(dir.path().join("data"))
        .output()
        .expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("--listen") && err.contains(&address), "{err}");
}

#[test]
fn a_command_that_does_not_exist_is_told_by_its_task() {
    let daemon = Daemon::start();
    let create =
        ["service", "create", "-d", "--driver", "exec", "--name", "x", "--restart-condition", "none"];
    daemon.run(&[&create[..], &["--", "/no/such/program"]].concat()).ok();
    crate::support::until("it has failed, and says why", || {
        daemon.tasks("x").iter().any(|t| {
            t["state"] == "failed" && t["message"].as_str().is_some_and(|m| m.contains("/no/such/program"))
        })
    });
}
