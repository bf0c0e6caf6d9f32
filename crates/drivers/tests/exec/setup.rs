//! What a program finds when it wakes up.

use std::fs;

use drivers::{Driver, Key};

use crate::hall::*;

#[test]
fn environment_streams_and_directory() {
    run(async {
        let place = Place::new();
        let mut launch =
            place.sh("t", "env | sort; pwd; umask; cat; readlink /proc/self/fd/0; ls /proc/$$/fd");
        launch.cwd = Some("/usr".into());
        launch.env.push(("A".into(), "b c".into()));
        let (_, text) = place.run(launch.clone()).await;
        let home = if is_root() { "/root".into() } else { std::env::var("HOME").unwrap() };
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let wanted = format!(
            "A=b c\nHOME={home}\nPATH={path}\nPWD=/usr\n{}\n/usr\n0022\n/dev/null\n0\n1\n2\n",
            place.mark
        );
        assert_eq!(text, wanted);
        place.nothing_remains(&[Key::of(&launch)]).await;
    });
}

#[test]
fn signals_session_and_group_are_fresh() {
    run(async {
        let place = Place::new();
        let launch = place.launch("t", &["sleep", "1000"]);
        let key = Key::of(&launch);
        let started = place.driver.start(launch).await.unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", started.pid)).unwrap();
        for line in ["SigBlk", "SigIgn", "SigCgt"] {
            let set = status.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(":\t"));
            assert_eq!(set, Some("0000000000000000"), "{line}");
        }
        let stat = fs::read_to_string(format!("/proc/{}/stat", started.pid)).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let pid = started.pid.to_string();
        assert_eq!((fields[2], fields[3]), (&pid[..], &pid[..]));
        place.nothing_remains(&[key]).await;
    });
}

#[test]
fn another_user_and_group() {
    if !is_root() {
        eprintln!("skipped: only root may become another user");
        return;
    }
    run(async {
        let place = Place::new();
        // The user must be able to reach nothing of ours: only the command, in /.
        let mut launch = place.sh("t", "id -u; id -g; id -G; echo $HOME");
        launch.user = Some("nobody".into());
        let (_, text) = place.run(launch.clone()).await;
        assert_eq!(text, "65534\n65534\n65534\n/nonexistent\n");
        let mut launch2 = place.sh("u", "id -u; id -g; id -G; echo $HOME");
        launch2.user = Some("12345:daemon".into());
        let (_, text) = place.run(launch2.clone()).await;
        assert_eq!(text, "12345\n1\n1\n/\n");
        place.nothing_remains(&[Key::of(&launch), Key::of(&launch2)]).await;
    });
}

#[test]
fn the_supervisor_is_small_and_holds_no_needless_files() {
    run(async {
        let place = Place::new();
        let launch = place.launch("t", &["sleep", "1000"]);
        let key = Key::of(&launch);
        place.driver.start(launch).await.unwrap();
        let supervisor = *place.supervisors().first().unwrap();
        let rollup = fs::read_to_string(format!("/proc/{supervisor}/smaps_rollup")).unwrap();
        let private: u64 = rollup
            .lines()
            .filter(|line| line.starts_with("Private_"))
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
            .sum();
        eprintln!("the supervisor has {private} kB of its own");
        assert!(private < 1500, "{rollup}");
        // Three streams, lock, signals, socket directory, socket, two pipes; the report's pipe is closed a little later.
        let files = || fs::read_dir(format!("/proc/{supervisor}/fd")).unwrap().count();
        eventually("it has nine files open", || files() == 9);
        place.nothing_remains(&[key]).await;
    });
}
