//! Start, stop, wait, remove.

use std::time::{Duration, Instant};

use drivers::{Attached, Driver, DriverError, KeepLogs, Key};

use crate::hall::*;

#[test]
fn a_program_runs_and_its_end_is_known() {
    run(async {
        let place = Place::new();
        let (exit, text) = place.run(place.sh("t", "echo out; echo err >&2; exit 3")).await;
        assert_eq!((exit.code, exit.signal, exit.oom, exit.lost), (Some(3), None, false, false));
        assert_eq!(exit.reason, "exited with code 3");
        assert!(text == "out\nerr\n" || text == "err\nout\n", "{text:?}");
        let key = Key::of(&place.sh("t", ""));
        let Ok(Attached::Exited(_, again)) = place.driver.attach(key.clone()).await else {
            panic!("it has ended");
        };
        assert_eq!(again, exit);
        place.nothing_remains(&[key]).await;
    });
}

#[test]
fn a_second_start_attaches() {
    run(async {
        let place = Place::new();
        let launch = place.launch("t", &["sleep", "1000"]);
        let key = Key::of(&launch);
        let first = place.driver.start(launch.clone()).await.unwrap();
        let second = driver(&place.cgroup).start(launch.clone()).await.unwrap();
        assert_eq!((first.pid, first.started_at_unix_ns), (second.pid, second.started_at_unix_ns));
        assert_eq!((first.attached, second.attached), (false, true));
        // Many at once: still one.
        let place2 = &place;
        let starts = (0..8).map(|_| tokio::spawn(driver(&place2.cgroup).start(launch.clone())));
        for start in starts.collect::<Vec<_>>() {
            assert_eq!(start.await.unwrap().unwrap().pid, first.pid);
        }
        assert_eq!(place.processes().len(), 1);
        place.nothing_remains(&[key]).await;
    });
}

#[test]
fn starting_at_once_from_several_sides_gives_one_program() {
    run(async {
        let place = Place::new();
        for round in 0..5 {
            let launch = place.launch(&format!("t{round}"), &["sleep", "1000"]);
            let starts: Vec<_> =
                (0..6).map(|_| tokio::spawn(driver(&place.cgroup).start(launch.clone()))).collect();
            let mut pids = std::collections::BTreeSet::new();
            let mut fresh = 0;
            for start in starts {
                let started = start.await.unwrap().unwrap();
                pids.insert(started.pid);
                fresh += u32::from(!started.attached);
            }
            assert_eq!((pids.len(), fresh), (1, 1));
            let key = Key::of(&launch);
            place.driver.remove(key, KeepLogs::No).await.unwrap();
        }
        place.nothing_remains(&[]).await;
    });
}

#[test]
fn what_cannot_start_says_which_field() {
    run(async {
        let place = Place::new();
        let mut cases = vec![];
        cases.push((place.launch("a", &["/nope"]), "command: /nope was not found"));
        cases.push((place.launch("a", &["/etc/passwd/x"]), "command: /etc/passwd/x was not found"));
        cases.push((place.launch("a", &["/proc/no/such"]), "command: /proc/no/such was not found"));
        let relative = "command: ./server was not found in /usr (the task's working directory); give an absolute path or \
                        --workdir";
        let mut launch = place.launch("a", &["./server"]);
        launch.cwd = Some("/usr".into());
        cases.push((launch, relative));
        let mut launch = place.launch("b", &["no-such-program"]);
        launch.env.push(("PATH".into(), "/usr/bin:/nowhere".into()));
        cases.push((launch, "command: no-such-program was not found in PATH (/usr/bin:/nowhere)"));
        let mut launch = place.launch("b", &["passwd"]);
        launch.env.push(("PATH".into(), "/nowhere:/etc".into()));
        cases.push((launch, "command: /etc/passwd is not executable (mode 0644)"));
        cases.push((
            place.launch("c", &["/etc/passwd"]),
            "command: /etc/passwd is not executable (mode 0644)",
        ));
        cases.push((place.launch("c", &["/etc"]), "command: /etc is a directory, not a program"));
        let script = place.dir.path().join("script");
        let texts = [
            ("#!/no/interpreter -x\n", " is a script for /no/interpreter, which was not found"),
            ("#!/bin/sh\r\n", " is a script for /bin/sh\\r, which was not found"),
            ("nothing", " is neither a program for this machine nor a script that begins with #!"),
        ];
        let said: Vec<String> =
            (0..3).map(|n| format!("command: {}{n}{}", script.display(), texts[n].1)).collect();
        for (n, (text, _)) in texts.iter().enumerate() {
            let file = format!("{}{n}", script.display());
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            cases.push((place.launch("c", &[&file]), &said[n]));
        }
        let mut launch = place.launch("d", &["true"]);
        launch.cwd = Some("/no/such/dir".into());
        cases.push((launch, "cwd: \"/no/such/dir\": no such file or directory"));
        let mut launch = place.launch("e", &["true"]);
        launch.user = Some("no-such-user".into());
        cases.push((launch, "user: \"no-such-user\" is not in /etc/passwd"));
        let mut launch = place.launch("f", &["true"]);
        launch.user = Some("0:no-such-group".into());
        cases.push((launch, "user: group \"no-such-group\" is not in /etc/group"));
        let mut keys = vec![];
        for (launch, wanted) in cases {
            keys.push(Key::of(&launch));
            // Twice: a failed start leaves nothing that a second one could attach to.
            for _ in 0..2 {
                let error = place.driver.start(launch.clone()).await.unwrap_err();
                assert_eq!(error.to_string(), wanted);
                assert!(matches!(error, DriverError::Start(_)));
            }
            assert_eq!(place.driver.attach(Key::of(&launch)).await.unwrap(), Attached::Never);
        }
        place.nothing_remains(&keys).await;
    });
}

#[test]
fn stop_sends_the_signal_and_waits_for_a_polite_program() {
    run(async {
        let place = Place::new();
        let mut launch = place.sh("t", "trap 'echo bye; exit 7' USR1; echo up; while :; do sleep 0.01; done");
        launch.stop_signal = libc::SIGUSR1;
        let key = Key::of(&launch);
        place.driver.start(launch).await.unwrap();
        eventually("it is up", || output(&key) == "up\n");
        place.driver.stop(key.clone(), None).await.unwrap();
        let exit = place.driver.wait(key.clone()).await.unwrap();
        assert_eq!(exit.code, Some(7));
        assert_eq!(output(&key), "up\nbye\n");
        // Stopping what has stopped is fine, and so is killing it.
        place.driver.stop(key.clone(), None).await.unwrap();
        place.driver.kill(key.clone()).await.unwrap();
        place.nothing_remains(&[key]).await;
    });
}

#[test]
fn a_program_that_ignores_the_signal_is_killed_after_its_grace() {
    run(async {
        let place = Place::new();
        let launch = place.sh("t", "trap '' TERM; echo up; while :; do sleep 0.01; done");
        let key = Key::of(&launch);
        place.driver.start(launch).await.unwrap();
        eventually("it is up", || output(&key) == "up\n");
        let begun = Instant::now();
        place.driver.stop(key.clone(), Some(Duration::from_secs(3600))).await.unwrap();
        // A second stop shortens the grace.
        place.driver.stop(key.clone(), Some(Duration::from_millis(300))).await.unwrap();
        let exit = place.driver.wait(key.clone()).await.unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(300));
        assert_eq!((exit.code, exit.signal), (None, Some(9)));
        assert_eq!(exit.reason, "killed by signal 9 when it was stopped");
        place.nothing_remains(&[key]).await;
    });
}

#[test]
fn what_is_unknown_says_so_and_removing_it_is_fine() {
    run(async {
        let place = Place::new();
        let key = Key::of(&place.sh("t", ""));
        assert_eq!(place.driver.attach(key.clone()).await.unwrap(), Attached::Never);
        let wanted = "no program \"main\" of task \"t\" is known here";
        assert_eq!(place.driver.wait(key.clone()).await.unwrap_err().to_string(), wanted);
        assert_eq!(place.driver.stop(key.clone(), None).await.unwrap_err().to_string(), wanted);
        assert_eq!(place.driver.kill(key.clone()).await.unwrap_err().to_string(), wanted);
        place.nothing_remains(&[key]).await;
    });
}

#[test]
fn a_restart_in_place_goes_on_in_the_same_log() {
    run(async {
        let place = Place::new();
        let launch = place.sh("t", "echo again");
        let key = Key::of(&launch);
        for _ in 0..3 {
            place.run(launch.clone()).await;
            place.driver.remove(key.clone(), KeepLogs::Yes).await.unwrap();
        }
        assert_eq!(output(&key), "again\nagain\nagain\n");
        place.nothing_remains(&[key]).await;
    });
}

#[test]
fn a_deep_run_directory_and_long_names_are_no_problem() {
    run(async {
        let place = Place::new();
        let mut launch = place.launch(&"t".repeat(64), &["sleep", "1000"]);
        launch.program = "p".repeat(64);
        launch.run_dir = place.dir.path().join("run").join("deep/".repeat(40));
        let key = Key::of(&launch);
        place.driver.start(launch.clone()).await.unwrap();
        let waiting = tokio::spawn(place.driver.wait(key.clone()));
        place.driver.kill(key.clone()).await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap().signal, Some(9));
        place.driver.remove(key, KeepLogs::No).await.unwrap();
        assert_eq!(std::fs::read_dir(&launch.run_dir).unwrap().count(), 0);
    });
}

#[test]
fn two_hundred_programs_come_and_go() {
    run(async {
        let place = Place::new();
        let launches: Vec<_> = (0..200).map(|i| place.launch(&format!("t{i}"), &["sleep", "1000"])).collect();
        let keys: Vec<_> = launches.iter().map(Key::of).collect();
        let begun = Instant::now();
        let starts: Vec<_> =
            launches.into_iter().map(|launch| tokio::spawn(place.driver.start(launch))).collect();
        for start in starts {
            start.await.unwrap().unwrap();
        }
        eprintln!("200 started in {:?}", begun.elapsed());
        assert_eq!(place.processes().len(), 200);
        assert_eq!(place.supervisors().len(), 200);
        let begun = Instant::now();
        let removals: Vec<_> =
            keys.iter().map(|key| tokio::spawn(place.driver.remove(key.clone(), KeepLogs::No))).collect();
        for removal in removals {
            removal.await.unwrap().unwrap();
        }
        eprintln!("200 removed in {:?}", begun.elapsed());
        place.nothing_remains(&keys).await;
    });
}
