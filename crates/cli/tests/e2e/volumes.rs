//! Volumes: a node offers a directory, a service writes into it, another one waits for it and is told why.

use serde_json::json;

use crate::support::{Daemon, eventually, unique_seconds, until};

#[test]
fn a_volume_is_offered_used_and_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, shared) = (dir.path().join("data"), dir.path().join("shared"));
    for path in [&data, &shared] {
        std::fs::create_dir(path).expect("a directory");
    }
    let own = format!("data={},sharing=none", data.display());
    let all = format!("my-files={}", shared.display());
    let mut daemon = Daemon::start_with(&["--volume", &own, "--volume", &all]);
    let seconds = unique_seconds();
    let create = |daemon: &Daemon, name: &str, mounts: &[&str], script: &str| {
        let fixed = ["service", "create", "-d", "--driver", "exec", "--restart-delay", "0s", "--name", name];
        let script = format!("{script}; exec sleep {seconds}");
        daemon.run(&[&fixed[..], mounts, &["--", "/bin/sh", "-c", &script]].concat()).ok();
    };
    let write =
        "echo here >> $QUELEA_VOLUME_DATA/file; echo $QUELEA_VOLUME_MY_FILES > $QUELEA_VOLUME_MY_FILES/path";
    create(&daemon, "db", &["--mount", "type=volume,source=data", "--mount", "source=my-files"], write);
    daemon.converged("db", 1);
    until("it has written", || std::fs::read_to_string(data.join("file")).is_ok_and(|text| text == "here\n"));
    until("both are told", || {
        std::fs::read_to_string(shared.join("path")).is_ok_and(|text| text.trim() == shared.to_string_lossy())
    });

    // Another one waits, and says for whom.
    create(&daemon, "copy", &["--mount", "source=data,readonly"], "cat $QUELEA_VOLUME_DATA/file");
    let waits = "volume data is in use on 1 node (by db.1)";
    until("it says why", || daemon.run(&["service", "ps", "copy"]).ok().contains(waits));
    let why = daemon.run(&["why", "copy"]).ok();
    assert!(why.contains("volume data is in use by db.1") && why.contains("volume data free"), "{why}");
    let plan = daemon.run(&[
        "plan",
        "service",
        "create",
        "--driver",
        "exec",
        "--name",
        "more",
        "--mount",
        "source=none",
        "--",
        "a",
    ]);
    assert!(plan.out.contains("there is no volume none"), "{}\n{}", plan.out, plan.err);
    let nodes = daemon.get("/v1/nodes");
    let volume = &nodes["items"][0]["volumes"]["data"];
    assert_eq!(volume["sharing"], "none");
    assert_eq!(volume["users"][0]["name"], "db.1", "{volume}");
    let inspected = daemon.run(&["node", "inspect", "self"]).ok();
    assert!(
        inspected.contains("shared by nobody (none)") && inspected.contains("used by db.1"),
        "{inspected}"
    );

    // A daemon that starts again finds both as they were; it is free when nobody uses it.
    daemon.kill9();
    daemon.restart();
    daemon.run(&["service", "rm", "db"]).ok();
    let task = daemon.converged("copy", 1).remove(0);
    assert_eq!(task["state"], "running");
    until("it has read", || daemon.run(&["service", "logs", "copy"]).ok().contains("here"));

    // The directory goes, then the volume.
    daemon.run(&["service", "rm", "copy"]).ok();
    std::fs::remove_dir_all(&data).expect("it can be removed");
    let once =
        ["service", "create", "-d", "--driver", "exec", "--restart-condition", "none", "--name", "late"];
    daemon.run(&[&once[..], &["--mount", "source=data", "--", "sleep", &seconds]].concat()).ok();
    let refused = eventually("it cannot be started", || {
        let task = daemon.tasks("late").into_iter().next()?;
        let state = task["state"].as_str()?.to_owned();
        ["rejected", "failed"].contains(&&*state).then_some(task)
    });
    let message = refused["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("volume data: ") && message.contains("No such file or directory"), "{message}");
    daemon.terminate();
    daemon.set_arguments(&["--volume", &own]);
    let refused =
        daemon.command(&["daemon", "--data-dir"]).arg(daemon.path("other")).args(["--volume", &own]).output();
    let refused = String::from_utf8_lossy(&refused.expect("it runs").stderr).into_owned();
    assert!(refused.contains("--volume") && refused.contains("No such file or directory"), "{refused}");
    daemon.set_arguments(&["--volume", &all]);
    daemon.restart();
    let left = json!({"my-files": {"path": shared, "read_only": false, "sharing": "all", "users": []}});
    until("the volume is gone", || daemon.get("/v1/nodes")["items"][0]["volumes"] == left);
    create(&daemon, "other", &["--mount", "source=data"], "true");
    let missing = "there is no volume data on 1 node";
    until("it says so", || daemon.run(&["service", "ps", "other"]).ok().contains(missing));
    let stack = dir.path().join("stack.yaml");
    let text = "services:\n  web:\n    command: [sleep, \"{seconds}\"]\n    volumes: [my-files]\nvolumes:\n  my-files: {external: true}\n";
    std::fs::write(&stack, text.replace("{seconds}", &seconds)).expect("a file");
    daemon.run(&["stack", "deploy", "-c", &stack.to_string_lossy(), "s"]).ok();
    let inspected = daemon.run(&["service", "inspect", "s_web"]).ok();
    assert!(inspected.contains("Volumes:") && inspected.contains("my-files"), "{inspected}");
}
