//! The daemon is killed at random moments: everything acknowledged is there, every process is found again with its pid, none is
//! doubled, none lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Daemon, eventually, id_of, pid_of, processes, request, unique_seconds, until};

/// What the daemon acknowledged: the replicas of each service.
type Acknowledged = Mutex<BTreeMap<String, u64>>;

/// Creates and scales services until told to stop, and notes what was acknowledged. A request whose answer never came may or may not have
/// happened: it is noted in `open`.
fn load(
    socket: &std::path::Path,
    mark: &str,
    round: usize,
    known: &Acknowledged,
    open: &Acknowledged,
    stop: &AtomicBool,
) {
    for step in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let names: Vec<String> = known.lock().expect("no panic").keys().cloned().collect();
        let replicas = (step % 3) as u64;
        let (name, answer) = if step % 2 == 0 || names.is_empty() {
            let name = format!("s{round}-{step}");
            open.lock().expect("no panic").insert(name.clone(), replicas);
            (name.clone(), request(socket, "POST", "/v1/services", &spec(&name, replicas, mark).to_string()))
        } else {
            let name = names[step * 7 % names.len()].clone();
            open.lock().expect("no panic").insert(name.clone(), replicas);
            let body = json!({ "replicas": replicas }).to_string();
            (name.clone(), request(socket, "POST", &format!("/v1/services/{name}/scale"), &body))
        };
        match answer {
            Some((200 | 201, _)) => {
                known.lock().expect("no panic").insert(name.clone(), replicas);
                open.lock().expect("no panic").remove(&name);
            }
            Some((status, body)) => assert!(status == 503, "{name}: {status} {body}"),
            None => return,
        }
    }
}

fn spec(name: &str, replicas: u64, mark: &str) -> Value {
    json!({
        "name": name,
        "replicas": replicas,
        "programs": [{ "driver": "exec", "command": ["sleep", mark] }],
        "restart_policy": { "delay": "100ms" },
    })
}

#[test]
fn twenty_kills_under_load_lose_nothing_and_double_nothing() {
    let mut daemon = Daemon::start();
    let mark = unique_seconds();
    let known = Acknowledged::default();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..20 {
        let open = Acknowledged::default();
        let stop = AtomicBool::new(false);
        let socket = daemon.socket();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::scope(|scope| {
            scope.spawn(|| load(&socket, &mark, round, &known, &open, &stop));
            std::thread::sleep(Duration::from_millis(20 + (random >> 33) % 400));
            daemon.kill9();
            stop.store(true, Ordering::Relaxed);
        });
        // What runs under a supervisor now must be found again, and not started anew.
        let alive = processes(&mark);
        daemon.restart();
        check_acknowledged(&daemon, &known, &open);
        check_processes(&daemon, &mark, &alive);
    }
    let services = known.lock().expect("no panic").len();
    assert!(services >= 20, "the load created {services} services");
}

/// Everything acknowledged is there; what was open is there whole or not at all, and is known from now on.
fn check_acknowledged(daemon: &Daemon, known: &Acknowledged, open: &Acknowledged) {
    let list = daemon.get("/v1/services");
    let found: BTreeMap<String, u64> =
        list["items"].as_array().expect("a list").iter().map(name_and_replicas).collect();
    let mut known = known.lock().expect("no panic");
    let open = open.lock().expect("no panic");
    for (name, replicas) in known.iter() {
        let now = found.get(name).unwrap_or_else(|| panic!("{name} was acknowledged and is gone"));
        let may_be = now == replicas || open.get(name) == Some(now);
        assert!(may_be, "{name}: {replicas} replicas were acknowledged, {now} found");
    }
    for name in found.keys() {
        assert!(known.contains_key(name) || open.contains_key(name), "{name} was never asked for");
    }
    *known = found;
}

fn name_and_replicas(service: &Value) -> (String, u64) {
    let replicas = service["spec"]["replicas"].as_u64().unwrap_or_else(|| panic!("no replicas in {service}"));
    (service["spec"]["name"].as_str().expect("a name").to_owned(), replicas)
}

/// Once it has converged: the wanted tasks run, each in a process of its own, and nothing else does. Tasks that were wanted all along kept the
/// process that was alive.
fn check_processes(daemon: &Daemon, mark: &str, alive: &BTreeSet<u32>) {
    let tasks = eventually("every service has converged", || {
        let list = daemon.get("/v1/services");
        let services = list["items"].as_array().expect("a list");
        let wanted: u64 = services.iter().map(|s| name_and_replicas(s).1).sum();
        let tasks = daemon.get("/v1/tasks?state=running");
        let tasks = tasks["items"].as_array().expect("a list").clone();
        let steady = services.iter().all(|s| s["status"]["converged"] == true);
        (steady && tasks.len() as u64 == wanted).then_some(tasks)
    });
    let pids: BTreeSet<u32> = tasks.iter().map(pid_of).collect();
    assert_eq!(pids.len(), tasks.len(), "no two tasks share a process");
    until("exactly the wanted processes run", || processes(mark) == pids);
    // No attached process was restarted: a task that is still wanted and was alive before has one of the pids from before. (Those
    // that the kill caught before their start have new ones.)
    for task in &tasks {
        let events = task["programs"][0]["events"].to_string();
        assert!(!events.contains("lost"), "{}: {events}", id_of(task));
    }
    assert!(
        pids.is_empty() || alive.is_empty() || pids.iter().any(|p| alive.contains(p)),
        "something was attached"
    );
}

#[test]
fn processes_keep_their_pid_while_the_daemon_is_away() {
    let mut daemon = Daemon::start();
    let mark = unique_seconds();
    let create = ["service", "create", "--driver", "exec", "--name", "web", "--replicas", "5"];
    daemon.run(&[&create[..], &["--", "sleep", &mark]].concat()).ok();
    let before: BTreeMap<String, u32> =
        daemon.converged("web", 5).iter().map(|t| (id_of(t), pid_of(t))).collect();
    for end in ["kill", "terminate"] {
        match end {
            "kill" => daemon.kill9(),
            _ => assert_eq!(daemon.terminate(), 0, "{}", daemon.log()),
        }
        assert_eq!(processes(&mark).len(), 5, "they live on after {end}");
        daemon.restart();
        let after: BTreeMap<String, u32> =
            daemon.converged("web", 5).iter().map(|t| (id_of(t), pid_of(t))).collect();
        assert_eq!(after, before, "after {end}");
        assert_eq!(daemon.tasks("web").len(), 5, "nothing was replaced after {end}");
    }
}

#[test]
fn what_ended_while_the_daemon_was_away_is_told_and_replaced() {
    let mut daemon = Daemon::start();
    let mark = unique_seconds();
    let create = [
        "service",
        "create",
        "--driver",
        "exec",
        "--name",
        "web",
        "--replicas",
        "2",
        "--restart-delay",
        "0s",
    ];
    daemon.run(&[&create[..], &["--", "sleep", &mark]].concat()).ok();
    let before = daemon.converged("web", 2);
    daemon.kill9();
    crate::support::signal(pid_of(&before[0]), "TERM");
    until("it has ended", || processes(&mark).len() == 1);
    daemon.restart();
    until("it was replaced", || {
        let running = daemon.running("web");
        running.len() == 2 && running.iter().all(|t| id_of(t) != id_of(&before[0]))
    });
    let ended = daemon.tasks("web").into_iter().find(|t| id_of(t) == id_of(&before[0])).expect("history");
    assert_eq!(ended["state"], "failed");
    assert!(ended["message"].as_str().is_some_and(|m| m.contains("TERM")), "{ended}");
    assert!(
        daemon.running("web").iter().any(|t| pid_of(t) == pid_of(&before[1])),
        "the other one was left alone"
    );
}
