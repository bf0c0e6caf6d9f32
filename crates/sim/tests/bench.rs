//! The benches as a program: what they say does not depend on what happens to their file meanwhile.

use std::path::Path;
use std::process::{Command, Stdio};

/// A bench goes on for long, and its program may be built anew meanwhile: its later processes are still of the one that
/// was started.
#[test]
fn a_bench_outlives_its_file() {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sim-{}", std::process::id()));
    std::fs::copy(env!("CARGO_BIN_EXE_sim"), &copy).unwrap();
    // A process that another test starts just now may still hold the copy open for writing: it cannot be run until then.
    let bench = loop {
        let mut command = Command::new(&copy);
        command.args(["bench", "scheduler", "--json", "--row", "1k-one-10k"]);
        match command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
            Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            started => break started.unwrap(),
        }
    };
    std::fs::remove_file(&copy).unwrap();
    let output = bench.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = String::from_utf8(output.stdout).unwrap();
    assert!(line.contains("\"row\":\"1k-one-10k\",") && line.contains("\"peak_rss_mib\":"), "{line}");
}
