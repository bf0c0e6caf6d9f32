//! Snapshots: they bound the log, stop nobody, and a damaged one never passes for a good one.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use consensus::{Consensus, Frozen, Machine, OpenError, Options};
use support::{numbered, numbers, open};

/// Snapshot files, oldest first.
fn files(dir: &Path) -> Vec<PathBuf> {
    let index = |path: &PathBuf| -> u64 {
        path.file_stem().unwrap().to_str().unwrap().split('-').next().unwrap().parse().unwrap()
    };
    let mut files: Vec<PathBuf> = fs::read_dir(dir.join("snapshots"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "snap"))
        .collect();
    files.sort_by_key(index);
    files
}

fn flip_last_byte_of_body(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.len() - 40;
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_stays_bounded_and_everything_survives() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        snapshot_after_entries: 2_000,
        keep_entries_after_snapshot: 500,
        ..Options::new(dir.path(), 1)
    };
    let (consensus, _) = open(options.clone()).await.unwrap();
    let mut largest = 0;
    for round in 0..50u64 {
        let proposals: Vec<_> = (0..1_000)
            .map(|n| {
                let consensus = consensus.clone();
                tokio::spawn(async move { consensus.propose(numbered(round * 1_000 + n, 300)).await })
            })
            .collect();
        for proposal in proposals {
            proposal.await.unwrap().unwrap();
        }
        largest = largest.max(consensus.status().log_bytes);
    }
    // 50,000 entries are over 15 MB of payload. redb grows its file by doubling, and two
    // generations of pages live side by side, so the bound is not tight.
    assert!(largest < 12 << 20, "the log grew to {largest} bytes");
    let newest = consensus.snapshot_now().await.unwrap();
    let status = consensus.status();
    assert_eq!(status.applied_index, Some(newest.index));
    assert_eq!(status.snapshot, Some(newest.clone()));
    assert!(status.purged_index > Some(newest.index - 5_000), "{status:?}");
    assert_eq!(files(dir.path()).len(), 2);
    assert_eq!(*files(dir.path()).last().unwrap(), newest.path);
    assert_eq!(fs::metadata(&newest.path).unwrap().len(), newest.bytes);
    // There is nothing newer to take.
    assert_eq!(consensus.snapshot_now().await.unwrap(), newest);
    consensus.shutdown().await;

    let (consensus, published) = open(options).await.unwrap();
    let mut all = numbers(&published);
    all.sort();
    assert_eq!(all, (0..50_000).collect::<Vec<u64>>());
    consensus.shutdown().await;
}

#[tokio::test]
async fn the_log_continues_where_the_snapshot_ends() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { keep_entries_after_snapshot: 0, ..Options::new(dir.path(), 1) };
    let mut next = 0;
    for _ in 0..5 {
        let (consensus, published) = open(options.clone()).await.unwrap();
        assert_eq!(numbers(&published), (0..next).collect::<Vec<u64>>());
        for n in next..next + 7 {
            consensus.propose(numbered(n, 0)).await.unwrap();
        }
        consensus.snapshot_now().await.unwrap();
        for n in next + 7..next + 10 {
            consensus.propose(numbered(n, 0)).await.unwrap();
        }
        next += 10;
        consensus.shutdown().await;
    }
}

/// A directory with two snapshots, at entries 10 and 20 of 25, and a log from `keep` before the
/// newest on.
async fn two_snapshots(dir: &Path, keep: u64) -> Options {
    let options = Options { keep_entries_after_snapshot: keep, ..Options::new(dir, 1) };
    let (consensus, _) = open(options.clone()).await.unwrap();
    for n in 0..25 {
        consensus.propose(numbered(n, 0)).await.unwrap();
        if n == 9 || n == 19 {
            consensus.snapshot_now().await.unwrap();
        }
    }
    // The purge follows the snapshot; it is done when the log begins where it should.
    let snapshot = consensus.status().snapshot.unwrap();
    while consensus.status().purged_index < snapshot.index.checked_sub(keep) {
        tokio::task::yield_now().await;
    }
    consensus.shutdown().await;
    assert_eq!(files(dir).len(), 2);
    options
}

#[tokio::test]
async fn a_damaged_newest_snapshot_gives_way_to_the_older_one_while_the_log_reaches_back() {
    for cut in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let options = two_snapshots(dir.path(), 1_000).await;
        let newest = files(dir.path()).pop().unwrap();
        if cut {
            let bytes = fs::read(&newest).unwrap();
            fs::write(&newest, &bytes[..bytes.len() / 2]).unwrap();
        } else {
            flip_last_byte_of_body(&newest);
        }
        let (consensus, published) = open(options).await.unwrap();
        assert_eq!(numbers(&published), (0..25).collect::<Vec<u64>>());
        assert!(newest.with_extension("damaged").exists());
        consensus.shutdown().await;
    }
}

#[tokio::test]
async fn a_damaged_newest_snapshot_is_refused_when_the_log_does_not_reach_back() {
    let dir = tempfile::tempdir().unwrap();
    let options = two_snapshots(dir.path(), 0).await;
    let [old, newest] = files(dir.path()).try_into().unwrap();
    flip_last_byte_of_body(&newest);
    let error = open(options.clone()).await.map(drop).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, OpenError::Gap { snapshot: Some(_), .. }), "{text}");
    for part in
        ["are missing", "restore the directory from a backup", newest.to_str().unwrap(), "fails its checksum"]
    {
        assert!(text.contains(part), "{text}");
    }
    // Refusing changes nothing: the same again, and with no snapshot at all likewise.
    assert_eq!(open(options.clone()).await.map(drop).unwrap_err().to_string(), text);
    fs::remove_file(old).unwrap();
    fs::remove_file(newest).unwrap();
    let error = open(options).await.map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Gap { snapshot: None, damaged: None, .. }), "{error}");
}

#[tokio::test]
async fn snapshots_without_their_log_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = two_snapshots(dir.path(), 0).await;
    fs::remove_file(dir.path().join("log.redb")).unwrap();
    let error = open(options).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("it is missing, though there are snapshots"), "{error}");
}

#[tokio::test]
async fn a_snapshot_of_a_newer_format_is_refused_not_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let options = two_snapshots(dir.path(), 1_000).await;
    let newest = files(dir.path()).pop().unwrap();
    let mut bytes = fs::read(&newest).unwrap();
    bytes[8] = 77;
    fs::write(&newest, bytes).unwrap();
    let error = open(options).await.map(drop).unwrap_err();
    assert!(matches!(error, OpenError::NewerFormat { found: 77, .. }), "{error}");
}

#[tokio::test]
async fn what_a_crash_left_half_written_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let options = two_snapshots(dir.path(), 0).await;
    let leftover = dir.path().join("snapshots/99-9.tmp");
    fs::write(&leftover, b"half").unwrap();
    let (consensus, _) = open(options).await.unwrap();
    assert!(!leftover.exists());
    consensus.shutdown().await;
}

/// A machine whose frozen views wait for a word before they are written.
struct Slow {
    applied: u64,
    go: Option<mpsc::Receiver<()>>,
    go_later: std::sync::Mutex<Option<mpsc::Receiver<()>>>,
}

impl Machine for Slow {
    type Reply = u64;

    fn apply(&mut self, _index: u64, _entry: &[u8]) -> u64 {
        self.applied += 1;
        self.applied
    }

    fn freeze(&self) -> Box<dyn Frozen> {
        let go = self.go_later.lock().unwrap().take();
        Box::new(Slow { applied: self.applied, go, go_later: None.into() })
    }

    fn install(&mut self, _index: u64, reader: &mut dyn Read) -> Result<(), String> {
        let mut bytes = [0; 8];
        reader.read_exact(&mut bytes).map_err(|e| e.to_string())?;
        self.applied = u64::from_le_bytes(bytes);
        Ok(())
    }
}

impl Frozen for Slow {
    fn write(self: Box<Self>, out: &mut dyn Write) -> std::io::Result<()> {
        if let Some(go) = &self.go {
            go.recv().map_err(std::io::Error::other)?;
        }
        out.write_all(&self.applied.to_le_bytes())
    }
}

#[tokio::test]
async fn writing_a_snapshot_does_not_stop_proposals() {
    let dir = tempfile::tempdir().unwrap();
    let (go, wait) = mpsc::channel();
    let machine = Slow { applied: 0, go: None, go_later: Some(wait).into() };
    let consensus = Consensus::open(Options::new(dir.path(), 1), machine).await.unwrap();
    let frozen_at = consensus.propose(vec![]).await.unwrap().index;
    let snapshot = tokio::spawn({
        let consensus = consensus.clone();
        async move { consensus.snapshot_now().await }
    });
    // The snapshot can't end before its word, so these are applied while it is being written.
    for _ in 0..100 {
        consensus.propose(vec![]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(consensus.status().snapshot, None);
    go.send(()).unwrap();
    assert!(snapshot.await.unwrap().unwrap().index >= frozen_at);
    consensus.shutdown().await;
    let machine = Slow { applied: 0, go: None, go_later: None.into() };
    let consensus = Consensus::open(Options::new(dir.path(), 1), machine).await.unwrap();
    assert_eq!(consensus.propose(vec![]).await.unwrap().reply, 102);
    consensus.shutdown().await;
}

#[tokio::test]
async fn a_snapshot_that_the_machine_refuses_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let options = two_snapshots(dir.path(), 0).await;
    let machine = Slow { applied: 0, go: None, go_later: None.into() };
    let error = Consensus::open(options, machine).await.map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("bytes of it were not understood"), "{error}");
}
