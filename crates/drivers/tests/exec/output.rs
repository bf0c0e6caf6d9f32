//! What programs write is kept, within bounds.

use std::fs;

use drivers::logs::{Follow, LogQuery, LogStream, LogStreamName};
use drivers::{Driver, KeepLogs, Key};

use crate::hall::*;

#[test]
fn output_is_kept_to_the_last_byte() {
    run(async {
        let place = Place::new();
        let launch = place.sh(
            "t",
            "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; printf last; kill -9 $$",
        );
        let (exit, text) = place.run(launch.clone()).await;
        assert_eq!(exit.signal, Some(9));
        let mut lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.pop(), Some("last"));
        assert_eq!(lines.len(), 20000);
        assert_eq!(lines[19999], "line 19999");
        place.nothing_remains(&[Key::of(&launch)]).await;
    });
}

#[test]
fn binary_output_and_long_lines_come_back_as_they_were() {
    run(async {
        let place = Place::new();
        let file = place.dir.path().join("noise");
        // Every byte in every neighbourhood, and a line of 100 kB.
        let mut noise: Vec<u8> =
            (0..200_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        noise.extend(vec![b'x'; 100_000]);
        fs::write(&file, &noise).unwrap();
        let launch = place.launch("t", &["cat", file.to_str().unwrap()]);
        let key = Key::of(&launch);
        place.driver.start(launch).await.unwrap();
        let mut stream =
            LogStream::open(&key.dir, "main", LogQuery::default(), Follow::UntilExit).await.unwrap();
        let mut back = Vec::new();
        while let Some(batch) = stream.next().await.unwrap() {
            for record in batch {
                assert_eq!(record.stream, LogStreamName::Stdout);
                back.extend_from_slice(&record.text);
                if !record.partial {
                    back.push(b'\n');
                }
            }
        }
        assert!(back == noise, "{} bytes instead of {}", back.len(), noise.len());
        fs::remove_file(file).unwrap();
        place.nothing_remains(&[key]).await;
    });
}

#[test]
fn a_hundred_megabytes_are_bounded_to_thirty() {
    run(async {
        let place = Place::new();
        let launch = place.sh(
            "t",
            "yes 'some text of no importance, again and again and again' | head -c 100000000; echo; echo end",
        );
        let key = Key::of(&launch);
        let begun = std::time::Instant::now();
        place.driver.start(launch).await.unwrap();
        place.driver.wait(key.clone()).await.unwrap();
        eprintln!("100 MB logged in {:?}", begun.elapsed());
        let files: Vec<_> =
            fs::read_dir(&key.dir).unwrap().flatten().filter(|e| e.path().is_file()).collect();
        let bytes: u64 = files.iter().map(|e| e.metadata().unwrap().len()).sum();
        assert_eq!(files.len(), 3);
        assert!(bytes <= 30 * 1024 * 1024 && bytes > 20 * 1024 * 1024, "{bytes}");
        assert!(output(&key).ends_with("\nend\n"));
        place.driver.remove(key.clone(), KeepLogs::Yes).await.unwrap();
        assert_eq!(fs::read_dir(&key.dir).unwrap().count(), 3);
        place.nothing_remains(&[key]).await;
    });
}

#[test]
fn a_follower_sees_each_line_once_while_files_are_rotated() {
    run(async {
        let place = Place::new();
        let mut launch = place.sh("t", "i=0; while [ $i -lt 30000 ]; do echo $i; i=$((i+1)); done");
        launch.log.max_bytes = 64 * 1024;
        launch.log.files = 100;
        let key = Key::of(&launch);
        place.driver.start(launch).await.unwrap();
        let mut stream =
            LogStream::open(&key.dir, "main", LogQuery::default(), Follow::UntilExit).await.unwrap();
        let mut next = 0u32;
        while let Some(batch) = stream.next().await.unwrap() {
            for record in batch {
                assert_eq!(String::from_utf8(record.text).unwrap(), next.to_string());
                next += 1;
            }
        }
        assert_eq!(next, 30000);
        place.nothing_remains(&[key]).await;
    });
}

/// The disk is a memory file system of 1 MiB that the log alone would fill many times. What is given back is more than
/// what may still be in the pipe then, as records.
#[test]
fn a_full_disk_neither_stops_nor_blocks_the_program() {
    if !is_root() {
        eprintln!("skipped: only root may mount");
        return;
    }
    run(async {
        let place = Place::new();
        let tasks = place.dir.path().join("tasks");
        fs::create_dir(&tasks).unwrap();
        let mounted = mount(&tasks);
        if !mounted {
            eprintln!("skipped: mounting is not allowed here");
            return;
        }
        let launch = place
            .sh("t", "yes 0123456789 | head -c 5000000; echo; rm /proc/self/cwd/ballast; echo end; exit 5");
        let mut launch = launch;
        launch.cwd = Some(tasks.clone());
        let key = Key::of(&launch);
        fs::write(tasks.join("ballast"), vec![0; 768 * 1024]).unwrap();
        place.driver.start(launch).await.unwrap();
        let exit = place.driver.wait(key.clone()).await.unwrap();
        let text = output(&key);
        unmount(&tasks);
        assert_eq!(exit.code, Some(5), "{exit:?}");
        assert!(text.contains("were lost here: no space left on device"), "{}", &text[text.len() - 300..]);
        assert!(text.ends_with("\nend\n"), "{}", &text[text.len() - 300..]);
    });
}

fn mount(at: &std::path::Path) -> bool {
    let status = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m,nr_inodes=100", "quelea-test"])
        .arg(at)
        .status();
    status.is_ok_and(|status| status.success())
}

fn unmount(at: &std::path::Path) {
    let _ = std::process::Command::new("umount").arg("-l").arg(at).status();
}
