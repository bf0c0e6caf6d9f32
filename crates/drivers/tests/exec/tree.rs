//! Everything that a program starts goes with it; limits hold.

use std::fs;

use drivers::{Driver, Key, Limits};

use crate::hall::*;

/// Children, grandchildren, daemons of their own session, all ignoring the polite signal.
const TREE: &str = "trap '' TERM; \
    for i in 1 2 3; do (setsid sh -c 'trap \"\" TERM; (setsid sleep 1000 &); sleep 1000 & sleep 1000' &); done; \
    sleep 1000 & sleep 1000 & echo up; wait; wait";

#[test]
fn stop_kills_the_whole_tree() {
    run(async {
        for place in [Place::new(), Place::without_cgroups()] {
            let mut launch = place.sh("t", TREE);
            launch.stop_grace = std::time::Duration::from_millis(50);
            let key = Key::of(&launch);
            place.driver.start(launch).await.unwrap();
            eventually("the tree is up", || place.processes().len() == 15);
            place.driver.stop(key.clone(), None).await.unwrap();
            place.driver.wait(key.clone()).await.unwrap();
            assert_eq!(place.processes().len(), 0);
            place.nothing_remains(&[key]).await;
        }
    });
}

#[test]
fn what_a_program_leaves_behind_is_killed() {
    run(async {
        for place in [Place::new(), Place::without_cgroups()] {
            let (exit, text) =
                place.run(place.sh("t", "sleep 1000 & (setsid sleep 1000 &); echo done")).await;
            assert_eq!((exit.code, &text[..]), (Some(0), "done\n"));
            assert_eq!(place.processes().len(), 0);
            place.nothing_remains(&[Key::of(&place.sh("t", ""))]).await;
        }
    });
}

/// A process that multiplies as fast as it can, within a limit that keeps the machine usable.
#[test]
fn a_multiplying_tree_is_killed() {
    run(async {
        let place = Place::new();
        if place.driver.inspect().notes.iter().any(|note| note.starts_with("pids limits are not enforced")) {
            eprintln!("skipped: without a limit on processes this would be an attack on the machine");
            return;
        }
        let mut launch =
            place.sh("t", "f() { (f &); (setsid sleep 1000 &); (f &); sleep 1000; }; (f &); exec sleep 1000");
        launch.limits.pids = 100;
        let key = Key::of(&launch);
        place.driver.start(launch).await.unwrap();
        eventually("it has multiplied", || place.processes().len() > 50);
        place.driver.kill(key.clone()).await.unwrap();
        place.driver.wait(key.clone()).await.unwrap();
        assert_eq!(place.processes().len(), 0);
        place.nothing_remains(&[key]).await;
    });
}

#[test]
fn programs_with_cgroups_of_their_own_are_cleaned_up() {
    run(async {
        let place = Place::new();
        let script = "cd $(grep -l -x $$ /sys/fs/cgroup/unified/*/t@main/cgroup.procs /sys/fs/cgroup/*/t@main/cgroup.procs \
            2>/dev/null | head -1 | xargs dirname) && mkdir -p a/b && (sh -c 'echo $$ > a/b/cgroup.procs; exec sleep 1000' &); \
            echo up; sleep 1000";
        let launch = place.sh("t", script);
        let key = Key::of(&launch);
        place.driver.start(launch).await.unwrap();
        eventually("it is up", || output(&key).contains("up"));
        place.driver.kill(key.clone()).await.unwrap();
        place.driver.wait(key.clone()).await.unwrap();
        assert_eq!(place.processes().len(), 0);
        place.nothing_remains(&[key]).await;
    });
}

#[test]
fn too_much_memory_is_reported_as_such() {
    run(async {
        let place = Place::new();
        let mut launch = place.sh("t", "x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo survived");
        launch.limits = Limits { memory_bytes: 32 << 20, ..Limits::default() };
        let key = Key::of(&launch);
        let started = place.driver.start(launch).await.unwrap();
        let exit = place.driver.wait(key.clone()).await.unwrap();
        if started.notes.is_empty() {
            assert!(exit.oom, "{exit:?}");
            assert!(exit.reason.ends_with(": out of memory"), "{exit:?}");
        } else {
            assert_eq!(started.notes, ["memory limits are not enforced: no memory controller is delegated"]);
        }
        place.nothing_remains(&[key]).await;
    });
}

#[test]
fn limits_can_be_read_back() {
    run(async {
        let place = Place::new();
        let mut launch = place.launch("t", &["sleep", "1000"]);
        launch.limits = Limits { nano_cpus: 500_000_000, memory_bytes: 64 << 20, pids: 20 };
        let key = Key::of(&launch);
        let started = place.driver.start(launch).await.unwrap();
        let mut missing = started.notes.len();
        let groups = fs::read_to_string(format!("/proc/{}/cgroup", started.pid)).unwrap();
        let mut found = 0;
        let mut all = place.cgroups();
        all.retain(|dir| dir.join("t@main").exists());
        for dir in all.iter().map(|dir| dir.join("t@main")) {
            let procs = fs::read_to_string(dir.join("cgroup.procs")).unwrap();
            assert_eq!(procs.trim(), started.pid.to_string(), "{}", dir.display());
            for (file, wanted) in [
                ("memory.limit_in_bytes", "67108864"),
                ("memory.max", "67108864"),
                ("cpu.cfs_quota_us", "50000"),
                ("cpu.max", "50000 100000"),
                ("pids.max", "20"),
            ] {
                if let Ok(text) = fs::read_to_string(dir.join(file)) {
                    assert_eq!(text.trim(), wanted);
                    found += 1;
                }
            }
        }
        if started.notes.iter().any(|note| note.starts_with("no cgroup is")) {
            missing -= 1;
        }
        assert_eq!(found + missing, 3, "{groups} {:?}", started.notes);
        place.nothing_remains(&[key]).await;
    });
}

#[test]
fn more_processes_than_allowed_cannot_be_made() {
    run(async {
        let place = Place::new();
        let mut launch =
            place.sh("t", "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done; echo all; sleep 1000");
        launch.limits.pids = 5;
        let key = Key::of(&launch);
        let started = place.driver.start(launch).await.unwrap();
        if started.notes.is_empty() {
            let exit = place.driver.wait(key.clone()).await.unwrap();
            assert_ne!(exit.code, Some(0));
            assert!(!output(&key).contains("all"), "{}", output(&key));
        }
        place.nothing_remains(&[key]).await;
    });
}

#[test]
fn without_cgroups_limits_are_notes() {
    run(async {
        let place = Place::without_cgroups();
        let mut launch = place.launch("t", &["true"]);
        launch.limits = Limits { nano_cpus: 1, memory_bytes: 64 << 20, pids: 1 };
        let started = place.driver.start(launch.clone()).await.unwrap();
        let missing =
            |what: &str| format!("{what} limits are not enforced: no {what} controller is delegated");
        assert_eq!(started.notes, ["memory", "cpu", "pids"].map(missing));
        let mut notes = place.driver.inspect().notes;
        assert_eq!(notes.remove(0), "no cgroup is writable: processes are tracked by their parents");
        assert_eq!(notes, started.notes);
        place.nothing_remains(&[Key::of(&launch)]).await;
    });
}
