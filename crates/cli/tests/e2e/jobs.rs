//! Jobs: programs that run to their end, so many in all and so many at once.

use std::fs;
use std::path::Path;

use crate::support::{Daemon, until};

/// How many runs have left a line.
fn runs(file: &Path) -> usize {
    fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

#[test]
fn a_job_runs_each_slot_to_its_end() {
    let mut daemon = Daemon::start();
    let (file, once) = (daemon.path("runs"), daemon.path("once"));
    // The first one that comes fails; of those that run, each says so.
    let script = format!(
        "mkdir '{}' 2>/dev/null && exit 3; echo $$ >> '{}'; sleep 0.3",
        once.display(),
        file.display()
    );
    let create = ["service", "create", "--driver", "exec", "--name", "sums", "--mode", "replicated-job"];
    let how = ["--replicas", "6", "--max-concurrent", "2", "--restart-delay", "200ms", "--", "sh", "-c"];
    let planned = daemon.run(&[&["plan"], &create[..], &how, &[&script]].concat());
    assert_eq!(planned.code, 1, "{planned:?}");
    assert!(planned.out.contains("+ service sums: 2 tasks created"), "{planned:?}");

    let made = daemon.run(&[&create[..], &how, &[&script]].concat());
    assert_eq!(made.code, 0, "{made:?}");
    assert!(made.err.ends_with("sums: completed 6 of 6, job complete\n"), "{made:?}");
    assert_eq!(runs(&file), 6);
    let tasks = daemon.tasks("sums");
    let failed = tasks.iter().filter(|t| t["state"] == "failed" && t["exit_code"] == 3).count();
    assert_eq!((tasks.len(), failed), (7, 1), "one was tried again");
    let list = daemon.run(&["service", "ls"]).ok();
    assert!(list.contains("0/2 (6/6 completed)") && list.contains("Complete"), "{list}");
    let job = &daemon.run(&["service", "inspect", "--json", "sums"]).json()[0]["status"]["job"];
    assert_eq!(
        (&job["iteration"], &job["state"], &job["completed"]),
        (&1.into(), &"complete".into(), &6.into())
    );

    // Nothing runs again by itself: not when it is asked for again, nor with another daemon.
    daemon.run(&["service", "update", "--label-add", "a=b", "sums"]).ok();
    daemon.kill9();
    daemon.restart();
    until("it is complete", || daemon.get("/v1/services/sums")["status"]["converged"] == true);
    assert_eq!(runs(&file), 6);

    // By force it does, and more runs are added to those that are done.
    daemon.run(&["service", "update", "--force", "sums"]).ok();
    assert_eq!(
        (runs(&file), &daemon.get("/v1/services/sums")["status"]["job"]["iteration"]),
        (12, &2.into())
    );
    daemon.run(&["service", "scale", "sums=8"]).ok();
    assert_eq!(runs(&file), 14);
    let why = daemon.run(&["why", "sums"]).ok();
    assert!(why.contains("batch service sums: iteration 2, 8 of 8 complete"), "{why}");

    let back = daemon.run(&["service", "rollback", "sums"]);
    assert_eq!(back.code, 1, "{back:?}");
    assert!(back.err.contains("sums is a batch service: it is not rolled back"), "{back:?}");
    let slow = daemon.run(&["service", "update", "--update-delay", "1s", "sums"]);
    assert_eq!(slow.code, 2, "{slow:?}");
}

#[test]
fn a_job_that_cannot_complete_says_so() {
    let daemon = Daemon::start();
    let create =
        ["service", "create", "--driver", "exec", "--name", "bad", "--mode", "batch", "--replicas", "3"];
    let policy = ["--max-concurrent", "1", "--restart-max-attempts", "1", "--restart-delay", "100ms"];
    let made = daemon.run(&[&create[..], &policy, &["--", "sh", "-c", "exit 4"]].concat());
    assert_eq!(made.code, 1, "{made:?}");
    let why = "bad: cannot complete any more: 3 of 3 runs are given up: slot 3: failed with exit code 4";
    assert!(made.err.contains(why), "{made:?}");
    assert!(made.err.contains("quelea service logs bad"), "{made:?}");
    assert_eq!(daemon.tasks("bad").len(), 6, "each slot had one more attempt");
    let list = daemon.run(&["service", "ls"]).ok();
    assert!(list.contains("0/1 (0/3 completed)") && list.contains("Failed"), "{list}");
}

#[test]
fn a_job_on_each_node_and_one_of_a_stack() {
    let daemon = Daemon::start();
    let create = ["service", "create", "--driver", "exec", "--name", "scan", "--mode", "global-job"];
    let made = daemon.run(&[&create[..], &["--", "true"]].concat());
    assert_eq!(made.code, 0, "{made:?}");
    let list = daemon.run(&["service", "ls", "--filter", "mode=global-job"]).ok();
    assert!(list.contains("0/0 (1/1 completed)"), "{list}");

    let file = daemon.path("stack.yaml");
    let text = "services:\n  sums:\n    command: 'true'\n    deploy:\n      mode: replicated-job\n      replicas: 3\n      x-max-concurrent: 1\n";
    fs::write(&file, text).expect("written");
    let path = file.display().to_string();
    daemon.run(&["stack", "deploy", "-c", &path, "jobs"]).ok();
    until("its job is complete", || daemon.get("/v1/services/jobs_sums")["status"]["job"]["completed"] == 3);
}
