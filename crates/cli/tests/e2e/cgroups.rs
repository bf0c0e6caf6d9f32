//! Cgroups go with what was in them, however the daemon ends.

use std::path::PathBuf;

use crate::support::{Daemon, cgroups, pid_of, signal, supervised, unique_seconds, until};

/// The beginning of the name of a daemon's groups.
fn group_of(daemon: &Daemon) -> String {
    let info = daemon.get("/v1/info");
    format!("quelea-{}", &info["node"].as_str().expect("an id")[..12])
}

fn create(daemon: &Daemon, replicas: &str) -> Vec<u32> {
    let mark = unique_seconds();
    // What ends stays ended.
    let create = ["service", "create", "--driver", "exec", "--name", "web", "--restart-condition", "none"];
    daemon.run(&[&create[..], &["--replicas", replicas, "--", "sleep", &mark]].concat()).ok();
    let count = replicas.parse().expect("a number");
    daemon.converged("web", count).iter().map(pid_of).collect()
}

/// The last program of a daemon that has ended takes the groups with it.
fn ends_with_its_last_program(end: impl Fn(&mut Daemon)) {
    let mut daemon = Daemon::start();
    let name = group_of(&daemon);
    let pids = create(&daemon, "3");
    end(&mut daemon);
    if cgroups(&name).is_empty() {
        eprintln!("skipped: no cgroup can be made here");
        return;
    }
    signal(pids[0], "KILL");
    until("one supervisor has ended", || supervised(&daemon.path("data")).len() == 2);
    assert!(!cgroups(&name).is_empty(), "others still run");
    for pid in &pids[1..] {
        signal(*pid, "KILL");
    }
    until("the groups went with the last program", || cgroups(&name).is_empty());
}

#[test]
fn after_a_killed_daemon_they_go_with_the_last_program() {
    ends_with_its_last_program(|daemon| daemon.kill9());
}

#[test]
fn after_a_daemon_that_was_ended_they_go_with_the_last_program() {
    ends_with_its_last_program(|daemon| assert_eq!(daemon.terminate(), 0));
}

#[test]
fn a_start_removes_what_a_killed_daemon_left_and_an_end_removes_all() {
    let mut daemon = Daemon::start();
    let name = group_of(&daemon);
    daemon.kill9();
    daemon.restart();
    create(&daemon, "2");
    daemon.run(&["service", "rm", "web"]).ok();
    until("no group of a program is left", || cgroups(&name).iter().all(|dir| !is_program(dir)));
    assert_eq!(daemon.terminate(), 0);
    assert_eq!(cgroups(&name), Vec::<PathBuf>::new());
}

fn is_program(dir: &std::path::Path) -> bool {
    dir.display().to_string().contains('@')
}

#[test]
fn programs_start_while_others_end() {
    let daemon = Daemon::start();
    let name = group_of(&daemon);
    // Each start comes while the last supervisor of before is about to take the groups away.
    let create = ["service", "create", "-d", "--driver", "exec", "--name", "web", "--restart-delay", "0s"];
    let counter = daemon.path("counter");
    let script = format!("echo x >> {}; exit 1", counter.display());
    let script = ["--restart-max-attempts", "60", "--", "sh", "-c", &script];
    daemon.run(&[&create[..], &script].concat()).ok();
    let started = || std::fs::read_to_string(&counter).unwrap_or_default().lines().count();
    until("all attempts were made", || started() == 61);
    until("all have ended", || daemon.tasks("web").iter().all(|t| t["state"] == "failed"));
    for task in daemon.tasks("web") {
        assert_eq!(task["message"], "exit status 1", "{task}");
        let events = task["programs"][0]["events"].to_string();
        assert!(!events.contains("no cgroup") && !events.contains("supervisor"), "{events}");
    }
    daemon.run(&["service", "rm", "web"]).ok();
    until("nothing of a program is left", || cgroups(&name).iter().all(|dir| !is_program(dir)));
}
