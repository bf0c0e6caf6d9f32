//! kill -9 at any moment: everything acknowledged is there, in order, once.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use consensus::Options;
use support::{numbered, numbers, open};

const DIR: &str = "CONSENSUS_CRASH_DIR";
const ROUNDS: u64 = 20;

/// Snapshots and purges come often, so that crashes hit them too.
fn options(dir: &Path) -> Options {
    Options { snapshot_after_entries: 150, keep_entries_after_snapshot: 20, ..Options::new(dir, 1) }
}

/// The child: proposes numbered entries, eight at a time, and prints each acknowledged number.
/// A test only so that the test binary can be started again for it; alone it does nothing.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (consensus, published) = open(options(Path::new(&dir))).await.unwrap();
        say("open");
        let mut next = numbers(&published).len() as u64;
        loop {
            // Polled in order, so entered in order; acknowledged one after the other.
            let group = (next..next + 8).map(|n| {
                let consensus = consensus.clone();
                async move {
                    consensus.propose(numbered(n, 200)).await.unwrap();
                    say(&format!("ack {n}"));
                }
            });
            futures_util::future::join_all(group).await;
            next += 8;
        }
    });
}

fn say(line: &str) {
    // Around the test harness, which would keep the output to itself.
    let mut out = std::io::stderr().lock();
    writeln!(out, "{line}").unwrap();
}

#[tokio::test]
async fn twenty_kills_lose_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        acknowledged = acknowledged.max(run_and_kill(dir.path(), round));
        let (consensus, published) = open(options(dir.path())).await.unwrap();
        let found = numbers(&published);
        assert_eq!(found, (0..found.len() as u64).collect::<Vec<u64>>(), "round {round}");
        assert!(found.len() as u64 >= acknowledged, "round {round}: {} of {acknowledged}", found.len());
        consensus.shutdown().await;
    }
    assert!(acknowledged > ROUNDS, "the children hardly ran: {acknowledged}");
}

/// Starts the child, kills it at a moment that differs from round to round, and returns one past
/// the largest number that it acknowledged.
fn run_and_kill(dir: &Path, round: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // A spread of moments; none of them decides whether the test passes.
    let moment = Duration::from_micros(1_000 + (round * 7_919) % 60_000);
    let mut acknowledged = 0;
    let mut killer = None;
    for line in lines {
        let line = line.unwrap();
        if line == "open" {
            let pid = child.id();
            killer = Some(std::thread::spawn(move || {
                std::thread::sleep(moment);
                let killed = Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
                assert!(killed.success());
            }));
        }
        if let Some(n) = line.strip_prefix("ack ") {
            acknowledged = acknowledged.max(n.parse::<u64>().unwrap() + 1);
        }
    }
    killer.expect("the child opens").join().unwrap();
    assert!(!child.wait().unwrap().success());
    acknowledged
}
