//! The daemon, the supervisor or the machine goes away at any moment.

use std::process::{Command, Stdio};
use std::time::Duration;

use drivers::{Attached, Driver, DriverError, KeepLogs, Key};

use crate::hall::*;

/// Kills the starting process at moments spread over the whole of a start, then looks and starts again: there is one
/// program at each moment, and the same one before and after.
#[test]
fn the_daemon_is_killed_at_any_moment_of_a_start() {
    run(async {
        let place = Place::new();
        let mut before_the_program = 0;
        let mut after = 0;
        for round in 0..60u64 {
            let launch = place.launch(&format!("t{round}"), &["sleep", "1000"]);
            let key = Key::of(&launch);
            let mut starting = Command::new(helper())
                .args(["start", &place.cgroup, &serde_json::to_string(&launch).unwrap()])
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_micros(round * 250));
            starting.kill().unwrap();
            starting.wait().unwrap();
            let driver = driver(&place.cgroup);
            let found = driver.attach(key.clone()).await.unwrap();
            let started = driver.start(launch).await.unwrap();
            match found {
                Attached::Running(found) => {
                    assert_eq!(found.pid, started.pid);
                    after += 1;
                }
                Attached::Never => before_the_program += 1,
                other => panic!("{other:?}"),
            }
            let ours = place.processes();
            assert_eq!(ours.into_iter().collect::<Vec<_>>(), [started.pid as i32], "round {round}");
            driver.remove(key, KeepLogs::No).await.unwrap();
        }
        eprintln!("killed before {before_the_program}, after {after}");
        place.nothing_remains(&[]).await;
    });
}

#[test]
fn a_lost_supervisor_takes_its_tree_with_it() {
    run(async {
        lose_the_supervisor(Place::new()).await;
        lose_the_supervisor(Place::without_cgroups()).await;
    });
}

async fn lose_the_supervisor(place: Place) {
    let launch = place.sh("t", "sleep 1000 & (sleep 1000 &) ; wait");
    let key = Key::of(&launch);
    place.driver.start(launch.clone()).await.unwrap();
    eventually("the tree is up", || place.processes().len() == 3);
    let waiting = tokio::spawn(place.driver.wait(key.clone()));
    for pid in place.supervisors() {
        kill(pid, libc::SIGKILL);
    }
    let exit = waiting.await.unwrap().unwrap();
    assert_eq!((exit.code, exit.signal, exit.lost), (None, None, true));
    assert_eq!(exit.reason, "the supervisor was lost");
    let lost = Attached::Lost { reason: "the supervisor was lost".into() };
    assert_eq!(place.driver.attach(key.clone()).await.unwrap(), lost);
    assert!(matches!(place.driver.start(launch).await, Err(DriverError::Lost { .. })));
    assert_eq!(place.processes().len(), 0);
    place.nothing_remains(&[key]).await;
}

#[test]
fn after_a_restart_of_the_machine_programs_are_lost() {
    run(async {
        let place = Place::new();
        let launch = place.launch("t", &["sleep", "1000"]);
        let key = Key::of(&launch);
        place.driver.start(launch).await.unwrap();
        // As if the machine had been restarted: everything is dead, and the record is of another boot.
        for pid in place.supervisors().into_iter().chain(place.processes()) {
            kill(pid, libc::SIGKILL);
        }
        eventually("all are dead", || place.supervisors().is_empty() && place.processes().is_empty());
        let lock = std::fs::File::open(key.dir.join("main/lock")).unwrap();
        lock.lock().unwrap();
        drop(lock);
        let file = key.dir.join("main/launch.json");
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(boot.trim()));
        std::fs::write(&file, text.replace(boot.trim(), "00000000-0000-4000-8000-000000000000")).unwrap();
        let found = place.driver.attach(key.clone()).await.unwrap();
        assert_eq!(found, Attached::Lost { reason: "the machine was restarted".into() });
        place.nothing_remains(&[key]).await;
    });
}

#[test]
fn a_cleaned_run_directory_is_made_again() {
    run(async {
        let place = Place::new();
        let launch = place.launch("t", &["sleep", "1000"]);
        let key = Key::of(&launch);
        let started = place.driver.start(launch.clone()).await.unwrap();
        std::fs::remove_dir_all(&launch.run_dir).unwrap();
        std::fs::create_dir(&launch.run_dir).unwrap();
        place.driver.stop(key.clone(), None).await.unwrap();
        assert_eq!(place.driver.wait(key.clone()).await.unwrap().signal, Some(15));
        let Ok(Attached::Exited(found, _)) = place.driver.attach(key.clone()).await else {
            panic!("it has ended");
        };
        assert_eq!(found.pid, started.pid);
        place.nothing_remains(&[key]).await;
    });
}

#[test]
fn supervisors_shrug_off_signals_meant_for_daemons() {
    run(async {
        let place = Place::new();
        let launch = place.launch("t", &["sleep", "1000"]);
        let key = Key::of(&launch);
        let started = place.driver.start(launch).await.unwrap();
        for pid in place.supervisors() {
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
                kill(pid, signal);
            }
        }
        let Ok(Attached::Running(found)) = place.driver.attach(key.clone()).await else {
            panic!("it runs");
        };
        assert_eq!(found.pid, started.pid);
        place.nothing_remains(&[key]).await;
    });
}
