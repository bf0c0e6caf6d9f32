//! What people are told when something does not go as asked.

use crate::support::{Daemon, Said, eventually, pid_of, signal, unique_seconds};

fn create(daemon: &Daemon, name: &str, more: &[&str], command: &[&str]) -> Said {
    let first =
        ["service", "create", "-d", "--driver", "exec", "--restart-condition", "none", "--name", name];
    daemon.run(&[&first[..], more, &["--"], command].concat())
}

/// The message of the first task of a service that has one.
fn message(daemon: &Daemon, service: &str) -> String {
    eventually("a message", || {
        daemon.tasks(service).iter().find_map(|t| t["message"].as_str().map(str::to_owned))
    })
}

#[test]
fn a_program_that_is_not_there_is_named_with_where_it_was_looked_for() {
    let daemon = Daemon::start();
    for (name, more, command, said) in [
        (
            "bare",
            &["--env", "PATH=/usr/bin:/nowhere"][..],
            "no-server",
            "no-server was not found in PATH (/usr/bin:/nowhere)",
        ),
        (
            "relative",
            &["--workdir", "/usr"],
            "./server",
            "./server was not found in /usr (the task's working directory); give an absolute path or --workdir",
        ),
        ("mode", &[], "/etc/passwd", "/etc/passwd is not executable (mode 0644)"),
        ("proc", &[], "/proc/nobody", "/proc/nobody was not found"),
    ] {
        create(&daemon, name, more, &[command]).ok();
        let message = message(&daemon, name);
        assert!(message.contains(said), "{name}: {message}");
        let shown = daemon.run(&["service", "ps", "--no-trunc", name]).ok();
        assert!(shown.contains(said), "{shown}");
        let why = daemon.run(&["why", name]);
        assert!(why.out.contains(said), "{}", why.out);
    }
}

#[test]
fn a_signal_is_named() {
    let daemon = Daemon::start();
    let mark = unique_seconds();
    create(&daemon, "web", &[], &["sleep", &mark]).ok();
    let task = daemon.converged("web", 1).remove(0);
    signal(pid_of(&task), "KILL");
    assert_eq!(message(&daemon, "web"), "killed by signal 9 (SIGKILL)");
}

#[test]
fn a_limit_that_is_not_enforced_is_told_once() {
    let daemon = Daemon::start();
    let nodes = daemon.get("/v1/nodes");
    let (host, drivers) =
        (nodes["items"][0]["hostname"].as_str().expect("a name"), nodes["items"][0]["drivers"].to_string());
    let mark = unique_seconds();
    let limited = ["--limit-memory", "64m", "--limit-pids", "100"];
    let said = create(&daemon, "web", &limited, &["sleep", &mark]);
    let mut wanted = Vec::new();
    for what in ["memory", "pids"] {
        if drivers.contains(&format!("{what} limits are not enforced")) {
            wanted.push(format!(
                "quelea: note: {what} limit is not enforced on node {host}: no {what} controller"
            ));
        }
    }
    assert_eq!(said.err.lines().collect::<Vec<_>>(), wanted);
    said.ok();
    assert_eq!(create(&daemon, "free", &[], &["sleep", &mark]).err, "");
    let file = daemon.path("stack.yaml");
    let text = format!(
        "services:\n  a:\n    command: sleep {mark}\n    deploy:\n      resources:\n        limits:\n          memory: 64M\n"
    );
    std::fs::write(&file, text).expect("a file");
    let deploy = || daemon.run(&["stack", "deploy", "-d", "-c", &file.display().to_string(), "shop"]);
    assert_eq!(deploy().err.lines().collect::<Vec<_>>(), &wanted[..wanted.len().min(1)]);
    assert_eq!(deploy().err, "", "nothing was changed");
}

#[test]
fn events_say_what_changed() {
    let daemon = Daemon::start();
    let mark = unique_seconds();
    create(&daemon, "web", &["--replicas", "3"], &["sleep", &mark]).ok();
    let tasks = daemon.converged("web", 3);
    let out = daemon.path("events");
    let mut command = daemon.command(&[
        "events",
        "--filter",
        "service=web",
        "--filter",
        "type=service",
        "--filter",
        "type=task",
    ]);
    let mut child = command.stdout(std::fs::File::create(&out).expect("a file")).spawn().expect("it starts");
    let seen = || std::fs::read_to_string(&out).unwrap_or_default();
    // It says nothing until something happens: so something happens until it says something.
    let mut replicas = 3;
    let line = eventually("the change of replicas", || {
        let line = seen().lines().find(|l| l.contains("replicas")).map(str::to_owned);
        if line.is_none() {
            replicas = if replicas == 3 { 5 } else { 3 };
            daemon.run(&["service", "scale", "-d", &format!("web={replicas}")]).ok();
        }
        line
    });
    assert!(
        line.contains("service updated  web (")
            && (line.contains("replicas 3 -> 5") || line.contains("replicas 5 -> 3")),
        "{line}"
    );
    let running = daemon.running("web");
    let task =
        running.iter().find(|t| tasks.iter().any(|old| old["id"] == t["id"])).expect("one of the first");
    signal(pid_of(task), "KILL");
    let id = &task["id"].as_str().expect("an id")[..12];
    let line = eventually("the end of the task", || {
        seen().lines().find(|l| l.contains(id) && l.contains("-> failed")).map(str::to_owned)
    });
    assert!(line.contains("state running -> failed (killed by signal 9 (SIGKILL))"), "{line}");
    signal(child.id(), "INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let past = daemon
        .command(&["events", "--since", "2020-01-01", "--filter", "image=x"])
        .output()
        .expect("it runs");
    assert_eq!(past.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&past.stderr).contains("only by type, event, service and node"));
}
