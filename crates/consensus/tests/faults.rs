//! Disks that fail and power that goes: nothing acknowledged is lost, nothing goes on.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use consensus::{DiskHook, Options, ProposeError};
use support::{numbered, numbers, open};

/// Fails the n-th operation from when it is armed, and all after it.
#[derive(Debug)]
struct Failing {
    left: AtomicI64,
    syncs_only: bool,
    errno: i32,
}

impl Failing {
    fn step(&self) -> io::Result<()> {
        if self.left.fetch_sub(1, Ordering::SeqCst) > 0 {
            return Ok(());
        }
        Err(io::Error::from_raw_os_error(self.errno))
    }
}

impl DiskHook for Failing {
    fn write(&self, _offset: u64, _data: &[u8]) -> io::Result<()> {
        if self.syncs_only { Ok(()) } else { self.step() }
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        if self.syncs_only { Ok(()) } else { self.step() }
    }

    fn sync(&self) -> io::Result<()> {
        self.step()
    }
}

#[tokio::test]
async fn a_failing_disk_stops_the_node_and_loses_nothing_acknowledged() {
    const ENOSPC: i32 = 28;
    const EIO: i32 = 5;
    for (syncs_only, errno, text) in
        [(true, EIO, "Input/output error"), (false, ENOSPC, "No space left on device")]
    {
        for after in [0, 1, 2, 3, 5, 8, 13, 40] {
            let dir = tempfile::tempdir().unwrap();
            let disk = Arc::new(Failing { left: AtomicI64::new(i64::MAX), syncs_only, errno });
            let options = Options { disk_hook: Some(disk.clone()), ..Options::new(dir.path(), 1) };
            let (consensus, _) = open(options).await.unwrap();
            consensus.propose(numbered(0, 300)).await.unwrap();
            disk.left.store(after, Ordering::SeqCst);
            let mut acknowledged = 1;
            let error = loop {
                match consensus.propose(numbered(acknowledged, 300)).await {
                    Ok(_) => acknowledged += 1,
                    Err(error) => break error,
                }
            };
            let reason = consensus.fatal().await;
            for part in ["cannot write ", "log.redb", text] {
                assert!(reason.contains(part), "{reason}");
            }
            assert_eq!(error, ProposeError::Stopped(reason));
            // The disk is well again, but nobody knows what it holds: no going on.
            disk.left.store(i64::MAX, Ordering::SeqCst);
            assert_eq!(consensus.propose(vec![]).await.unwrap_err(), error);
            assert_eq!(consensus.snapshot_now().await.unwrap_err(), error);
            consensus.shutdown().await;

            let (consensus, published) = open(Options::new(dir.path(), 1)).await.unwrap();
            let found = numbers(&published);
            assert!(found.len() as u64 >= acknowledged, "{found:?} of {acknowledged}");
            assert_eq!(found, (0..found.len() as u64).collect::<Vec<u64>>());
            consensus.propose(numbered(found.len() as u64, 0)).await.unwrap();
            consensus.shutdown().await;
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Write(offset, data) => {
                let end = *offset as usize + data.len();
                image.resize(image.len().max(end), 0);
                image[*offset as usize..end].copy_from_slice(data);
            }
            Self::SetLen(len) => image.resize(*len as usize, 0),
        }
    }
}

/// Keeps what the file surely holds after each sync, and the changes since.
#[derive(Debug, Default)]
struct Recorder(Mutex<Recording>);

#[derive(Debug, Default)]
struct Recording {
    synced: Vec<u8>,
    since: Vec<Change>,
    /// For each sync: how many proposals were acknowledged by then, what was there before, and what
    /// it made sure of.
    syncs: Vec<(usize, Vec<u8>, Vec<Change>)>,
    acknowledged: usize,
    on: bool,
}

impl DiskHook for Recorder {
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().since.push(Change::Write(offset, data.to_vec()));
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().since.push(Change::SetLen(len));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut recording = self.0.lock().unwrap();
        let since = std::mem::take(&mut recording.since);
        if recording.on {
            let before = recording.synced.clone();
            let acknowledged = recording.acknowledged;
            recording.syncs.push((acknowledged, before, since.clone()));
        }
        since.iter().for_each(|change| change.apply(&mut recording.synced));
        Ok(())
    }
}

/// A generator of the plainest kind; the seed is the test's.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// What the disk may hold when power goes during a sync: any of the changes, the last one torn.
fn torn(before: &[u8], changes: &[Change], dice: &mut Dice) -> Vec<u8> {
    let mut image = before.to_vec();
    let last = dice.below(changes.len().max(1));
    for (at, change) in changes.iter().enumerate() {
        match change {
            Change::Write(offset, data) if at == last => {
                let sectors = data.len().div_ceil(512);
                let cut = (dice.below(sectors + 1) * 512).min(data.len());
                Change::Write(*offset, data[..cut].to_vec()).apply(&mut image);
            }
            // The length comes with the journal of the file system, before the data.
            Change::SetLen(_) => change.apply(&mut image),
            Change::Write(..) if dice.below(3) > 0 => change.apply(&mut image),
            Change::Write(..) => {}
        }
    }
    image
}

#[tokio::test]
async fn power_that_goes_in_the_middle_of_a_write_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Recorder::default());
    let options = Options { disk_hook: Some(disk.clone()), ..Options::new(dir.path(), 1) };
    open(options.clone()).await.unwrap().0.shutdown().await;
    // From here on what the recorder holds is the file's content.
    {
        let mut recording = disk.0.lock().unwrap();
        recording.since.clear();
        recording.synced = fs::read(dir.path().join("log.redb")).unwrap();
    }
    let (consensus, _) = open(options).await.unwrap();
    disk.0.lock().unwrap().on = true;
    for n in 0..60 {
        consensus.propose(numbered(n, if n % 7 == 0 { 9_000 } else { 300 })).await.unwrap();
        disk.0.lock().unwrap().acknowledged = n as usize + 1;
    }
    let syncs = std::mem::take(&mut disk.0.lock().unwrap().syncs);
    consensus.shutdown().await;
    assert!(syncs.len() >= 60);

    let mut dice = Dice(42);
    for (acknowledged, before, changes) in &syncs {
        for _ in 0..2 {
            let image = torn(before, changes, &mut dice);
            recovers(&image, *acknowledged).await;
        }
    }
}

async fn recovers(image: &[u8], acknowledged: usize) {
    let dir = tempfile::tempdir().unwrap();
    write_log(dir.path(), image);
    let (consensus, published) = open(Options::new(dir.path(), 1)).await.unwrap();
    let found = numbers(&published);
    assert_eq!(found, (0..found.len() as u64).collect::<Vec<u64>>());
    // The one under way may have made it or not.
    assert!((acknowledged..=acknowledged + 1).contains(&found.len()), "{} of {acknowledged}", found.len());
    consensus.shutdown().await;
}

fn write_log(dir: &Path, image: &[u8]) {
    fs::write(dir.join("log.redb"), image).unwrap();
}

/// A file that changed on the disk: refused with its name and what to do, or, where the change
/// hit nothing that counts, opened with everything in it. Never a panic, never a silent loss.
#[tokio::test]
async fn flipped_bytes_in_a_closed_log_are_refused_or_harmless() {
    const ENTRIES: u64 = 400;
    let dir = tempfile::tempdir().unwrap();
    let (consensus, _) = open(Options::new(dir.path(), 1)).await.unwrap();
    for n in 0..ENTRIES {
        consensus.propose(numbered(n, 300)).await.unwrap();
    }
    consensus.shutdown().await;
    let good = fs::read(dir.path().join("log.redb")).unwrap();
    let used = good.iter().rposition(|b| *b != 0).unwrap();
    let mut dice = Dice(7);
    let mut refused = 0;
    for round in 0..120 {
        let mut bad = good.clone();
        // Half of the damage goes where entries are, the rest anywhere.
        let at = match round % 2 {
            0 => {
                let needle = format!("{} ....", dice.below(ENTRIES as usize));
                match good.windows(needle.len()).rposition(|w| w == needle.as_bytes()) {
                    Some(at) => at + dice.below(300),
                    None => continue,
                }
            }
            _ => dice.below(used),
        };
        bad[at] ^= 1 << dice.below(8);
        refused += u32::from(refused_or_whole(&bad, ENTRIES, at).await);
    }
    assert!(refused >= 40, "only {refused} of the damaged files were refused");
}

async fn refused_or_whole(image: &[u8], entries: u64, at: usize) -> bool {
    let dir = tempfile::tempdir().unwrap();
    write_log(dir.path(), image);
    match open(Options::new(dir.path(), 1)).await {
        Ok((consensus, published)) => {
            assert_eq!(numbers(&published), (0..entries).collect::<Vec<u64>>(), "byte {at}");
            consensus.shutdown().await;
            false
        }
        Err(error) => {
            let text = error.to_string();
            for part in ["log.redb", "is damaged", "restore the directory from a backup"] {
                assert!(text.contains(part), "byte {at}: {text}");
            }
            true
        }
    }
}

#[tokio::test]
async fn files_that_are_no_log_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (consensus, _) = open(Options::new(dir.path(), 1)).await.unwrap();
    for n in 0..100 {
        consensus.propose(numbered(n, 300)).await.unwrap();
    }
    consensus.shutdown().await;
    let good = fs::read(dir.path().join("log.redb")).unwrap();
    for len in [0, 1, 100, 4_096, 8_192, good.len() / 4, good.len() / 2] {
        assert!(refused_or_whole(&good[..len], 100, len).await, "cut to {len}");
    }
    assert!(refused_or_whole(&[b'x'; 10_000], 100, 0).await);
}
