//! `service logs -f`: every task of a service, those that come later too, until the service is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Child, Stdio};

use crate::support::{Daemon, Said, signal, unique_seconds, until};

/// A follower whose output goes to files.
struct Follower {
    child: Child,
    out: std::path::PathBuf,
    err: std::path::PathBuf,
}

impl Follower {
    fn start(daemon: &Daemon, name: &str, args: &[&str]) -> Self {
        let (out, err) = (daemon.path(&format!("{name}.out")), daemon.path(&format!("{name}.err")));
        let child = daemon
            .command(args)
            .stdout(fs::File::create(&out).expect("a file"))
            .stderr(fs::File::create(&err).expect("a file"))
            .stdin(Stdio::null())
            .spawn()
            .expect("it starts");
        Self { child, out, err }
    }

    fn out(&self) -> String {
        fs::read_to_string(&self.out).expect("a file")
    }

    fn end(mut self) -> Said {
        let status = self.child.wait().expect("it ends");
        let read = |path| fs::read_to_string(path).expect("a file");
        Said { code: status.code().unwrap_or(-1), out: read(&self.out), err: read(&self.err) }
    }
}

fn create(daemon: &Daemon, name: &str, more: &[&str], script: &str) {
    let first = ["service", "create", "-d", "--driver", "exec", "--name", name];
    daemon.run(&[&first[..], more, &["--", "sh", "-c", script]].concat()).ok();
}

/// The lines of each task, by the front that names it.
fn by_task(out: &str) -> BTreeMap<String, Vec<String>> {
    let mut tasks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in out.lines() {
        let (front, text) = line.split_once(" | ").unwrap_or_else(|| panic!("no front: {line:?}"));
        tasks.entry(front.trim().to_owned()).or_default().push(text.to_owned());
    }
    tasks
}

#[test]
fn replaced_and_added_tasks_are_followed_until_the_service_is_gone() {
    let daemon = Daemon::start();
    let counter = daemon.path("counter").display().to_string();
    let script = format!("echo x >> {counter}; n=$(wc -l < {counter}); echo line $n; sleep 0.05; exit 1");
    create(&daemon, "loop", &["--restart-delay", "0s", "--restart-condition", "any"], &script);
    let follower = Follower::start(&daemon, "logs", &["service", "logs", "-f", "loop"]);
    until("lines of five tasks", || by_task(&follower.out()).len() >= 5);
    daemon.run(&["service", "scale", "-d", "loop=3"]).ok();
    let slots = |out: &str| -> BTreeSet<String> {
        by_task(out).keys().map(|front| front.split('.').take(2).collect::<Vec<_>>().join(".")).collect()
    };
    until("lines of the new slots", || slots(&follower.out()).len() == 3);
    daemon.run(&["service", "rm", "loop"]).ok();
    let said = follower.end();
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    // A task that ends quickly says one thing, once.
    for (task, lines) in by_task(&said.out) {
        assert_eq!(lines.len(), 1, "{task}: {lines:?}");
        assert!(task.contains('@'), "{task}");
    }
}

#[test]
fn no_line_of_a_task_that_ends_at_once_is_lost() {
    let daemon = Daemon::start();
    // The service exists, with nothing to run, before the follower looks: each of its tasks is new to it.
    let counter = daemon.path("counter").display().to_string();
    let script = format!("echo x >> {counter}; echo id $$; exit 1");
    let policy = ["--restart-delay", "0s", "--restart-max-attempts", "40", "--replicas", "0"];
    create(&daemon, "quick", &policy, &script);
    let follower = Follower::start(&daemon, "logs", &["service", "logs", "-f", "--raw", "quick"]);
    daemon.run(&["service", "scale", "-d", "quick=1"]).ok();
    let started = || fs::read_to_string(&counter).unwrap_or_default().lines().count();
    until("all attempts were made", || started() >= 41);
    until("their lines are here", || follower.out().lines().count() >= started());
    daemon.run(&["service", "rm", "quick"]).ok();
    let said = follower.end();
    assert_eq!(said.code, 0, "{}", said.err);
    let lines: Vec<&str> = said.out.lines().collect();
    let different: BTreeSet<&&str> = lines.iter().collect();
    assert_eq!((lines.len(), different.len()), (started(), started()), "{lines:?}");
}

#[test]
fn a_daemon_that_ends_is_told_in_one_sentence() {
    for end in ["KILL", "TERM"] {
        let mut daemon = Daemon::start();
        let mark = unique_seconds();
        create(&daemon, "web", &[], &format!("echo begun; exec sleep {mark}"));
        let follower = Follower::start(&daemon, "logs", &["service", "logs", "-f", "web"]);
        until("its line", || follower.out().contains("begun"));
        match end {
            "KILL" => daemon.kill9(),
            _ => assert_eq!(daemon.terminate(), 0),
        }
        let said = follower.end();
        assert_eq!(said.code, 1, "{end}: {}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{end}: {}", said.err);
        assert!(said.err.contains("the connection to the daemon ended"), "{end}: {}", said.err);
        assert!(!said.err.contains("body"), "{end}: {}", said.err);
    }
}

#[test]
fn ctrl_c_ends_followers_quietly() {
    let daemon = Daemon::start();
    let mark = unique_seconds();
    create(&daemon, "web", &[], &format!("echo begun; exec sleep {mark}"));
    daemon.converged("web", 1);
    for args in [&["service", "logs", "-f", "web"][..], &["events", "--from", "oldest"]] {
        let follower = Follower::start(&daemon, "quiet", args);
        until("its first line", || !follower.out().is_empty());
        signal(follower.child.id(), "INT");
        let said = follower.end();
        assert_eq!((said.code, said.err.as_str()), (130, ""), "{args:?}");
    }
}

#[test]
fn lines_can_be_chosen() {
    let daemon = Daemon::start();
    let mark = unique_seconds();
    create(&daemon, "web", &[], &format!("for i in 1 2 3 4 5; do echo line $i; done; exec sleep {mark}"));
    let task = daemon.converged("web", 1).remove(0);
    let id = task["id"].as_str().expect("an id");
    until("all lines are there", || {
        daemon.run(&["service", "logs", "--raw", "web"]).out.lines().count() == 5
    });
    let logs = |args: &[&str]| daemon.run(&[&["service", "logs"], args, &["web"]].concat());
    assert_eq!(logs(&["--raw", "--tail", "2"]).ok(), "line 4\nline 5\n");
    for since in
        ["2020-01-01", "2020-01-01T10:00", "2020-01-01T10:00:00Z", "1577836800", "1577836800.5", "10m"]
    {
        assert_eq!(logs(&["--raw", "--since", since]).ok().lines().count(), 5, "{since}");
    }
    for since in ["2999-01-01", "2999-01-01T10:00:00+02:00"] {
        assert_eq!(logs(&["--raw", "--since", since]).ok(), "", "{since}");
    }
    assert_eq!(logs(&["--since", "someday"]).code, 2);
    let whole = logs(&["--no-trunc", "--tail", "1"]).ok();
    assert!(whole.starts_with(&format!("web.1.{id}@")), "{whole}");
    let stamped = logs(&["--raw", "--timestamps", "--tail", "1"]).ok();
    assert!(stamped.starts_with("20") && stamped.ends_with("Z line 5\n"), "{stamped}");
    let bare = logs(&["--no-task-ids", "--tail", "1"]).ok();
    assert!(bare.starts_with("web.1@"), "{bare}");
    // One task, and --tail with following.
    let follower = Follower::start(&daemon, "task", &["service", "logs", "-f", "--raw", "-n", "1", id]);
    until("its last line", || follower.out() == "line 5\n");
    daemon.run(&["service", "rm", "web"]).ok();
    let said = follower.end();
    assert_eq!((said.code, said.out.as_str()), (0, "line 5\n"), "{}", said.err);
}
