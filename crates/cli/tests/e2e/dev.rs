//! `quelea dev`: in the foreground, for a while.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::{QUELEA, processes, signal, supervised, unique_seconds, until};

fn dev(dir: &Path, extra: &[&str]) -> Child {
    let mut child = Command::new(QUELEA)
        .arg("dev")
        .args(["--listen", "127.0.0.1:0", "--socket"])
        .arg(dir.join("q.sock"))
        .args(extra)
        .env("TMPDIR", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("it starts");
    let out = BufReader::new(child.stdout.take().expect("piped"));
    let ready =
        out.lines().map_while(Result::ok).find(|l| l.contains("service create") || l.contains("ready"));
    assert!(ready.is_some(), "it says what to do next");
    child
}

fn run(dir: &Path, args: &[&str]) {
    let host = format!("unix://{}", dir.join("q.sock").display());
    let output = Command::new(QUELEA).args(args).env("QUELEA_HOST", host).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn create(dir: &Path, mark: &str) {
    let fixed =
        ["service", "create", "--driver", "exec", "--name", "web", "--replicas", "3", "--", "sleep", mark];
    run(dir, &fixed);
    assert_eq!(processes(mark).len(), 3);
}

#[test]
fn ctrl_c_ends_everything_and_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = dev(dir.path(), &[]);
    let mark = unique_seconds();
    create(dir.path(), &mark);
    signal(child.id(), "INT");
    assert!(child.wait().expect("it ends").success());
    assert!(processes(&mark).is_empty());
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).expect("it is there").flatten().map(|e| e.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_throwaway_cluster_ends_with_a_killed_daemon() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = dev(dir.path(), &[]);
    let mark = unique_seconds();
    create(dir.path(), &mark);
    child.kill().expect("killed");
    child.wait().expect("ended");
    until("its processes end with it", || processes(&mark).is_empty());
    until("its supervisors too", || supervised(dir.path()).is_empty());
}

#[test]
fn with_a_data_directory_processes_outlive_a_killed_daemon() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data").display().to_string();
    let mut child = dev(dir.path(), &["--data-dir", &data]);
    let mark = unique_seconds();
    create(dir.path(), &mark);
    let before = processes(&mark);
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_eq!(processes(&mark), before);
    let mut child = dev(dir.path(), &["--data-dir", &data]);
    assert_eq!(processes(&mark), before);
    signal(child.id(), "TERM");
    assert!(child.wait().expect("it ends").success());
    assert!(processes(&mark).is_empty());
}
