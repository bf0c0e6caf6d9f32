//! One to two hundred to none, and nothing is left behind.

use std::fs;

use crate::support::{Daemon, cgroups, processes, supervised, unique_seconds, until};

#[test]
fn scaling_up_and_down_leaves_nothing_behind() {
    let daemon = Daemon::start();
    let mark = unique_seconds();
    let node = daemon.get("/v1/nodes")["items"][0]["id"].as_str().expect("an id")[..12].to_owned();
    let create = ["service", "create", "--driver", "exec", "--name", "many"];
    daemon.run(&[&create[..], &["--", "sleep", &mark]].concat()).ok();
    daemon.converged("many", 1);
    let small = resident_kib(daemon.pid());
    daemon.run(&["service", "scale", "many=200"]).ok();
    daemon.converged("many", 200);
    until("200 processes run", || processes(&mark).len() == 200);
    daemon.run(&["service", "scale", "many=0"]).ok();
    until("no task is left", || daemon.tasks("many").is_empty());
    until("no process is left", || processes(&mark).is_empty());
    let data = daemon.path("data");
    until("no supervisor is left", || supervised(&data).is_empty());
    until("no directory of a task is left", || fs::read_dir(data.join("tasks")).expect("tasks").count() == 0);
    until("no socket of a supervisor is left", || {
        let files: Vec<_> =
            fs::read_dir(data.join("run")).expect("run").flatten().map(|e| e.file_name()).collect();
        files.iter().all(|name| name == "quelea.sock" || name == "token")
    });
    until("no cgroup of a task is left", || {
        let of_tasks = |p: &std::path::PathBuf| p.display().to_string().contains("@main");
        !cgroups(&node).iter().any(of_tasks)
    });
    let large = resident_kib(daemon.pid());
    assert!(large < small + 32 * 1024, "memory: {small} KiB before, {large} KiB after");
}

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
}
