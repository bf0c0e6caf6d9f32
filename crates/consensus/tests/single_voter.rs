//! A cluster of one: what its users rely on.

#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use consensus::{FORMAT_VERSION, OpenError, Options, ProposeError};
use redb::ReadableDatabase;
use support::{entries, numbered, numbers, open};

#[tokio::test]
async fn proposals_are_answered_in_order_and_are_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let (consensus, published) = open(Options::new(dir.path().join("c"), 7)).await.unwrap();
    let leadership = *consensus.leadership().borrow();
    assert!(leadership.is_me);
    assert_eq!(leadership.leader, Some(7));
    let mut before = 0;
    for n in 0..20 {
        let committed = consensus.propose(numbered(n, 0)).await.unwrap();
        assert_eq!(committed.reply, n as usize + 1);
        assert!(committed.index > before);
        before = committed.index;
        // The proposer reads its own write.
        assert_eq!(entries(&published).len(), n as usize + 1);
        assert!(consensus.read_barrier().await.unwrap() >= committed.index);
    }
    consensus.shutdown().await;

    let (consensus, again) = open(Options::new(dir.path().join("c"), 7)).await.unwrap();
    assert_eq!(*published.lock().unwrap(), *again.lock().unwrap());
    assert!(consensus.leadership().borrow().term > leadership.term);
    assert_eq!(consensus.propose(vec![]).await.unwrap().reply, 21);
    consensus.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_proposals_each_take_effect_once() {
    let dir = tempfile::tempdir().unwrap();
    let (consensus, published) = open(Options::new(dir.path(), 1)).await.unwrap();
    let callers: Vec<_> = (0..200)
        .map(|caller| {
            let consensus = consensus.clone();
            tokio::spawn(async move {
                for n in 0..20 {
                    consensus.propose(numbered(caller * 20 + n, 300)).await.unwrap();
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let order = numbers(&published);
    let mut sorted = order.clone();
    sorted.sort();
    assert_eq!(sorted, (0..4_000).collect::<Vec<u64>>());
    consensus.shutdown().await;
    let (consensus, again) = open(Options::new(dir.path(), 1)).await.unwrap();
    assert_eq!(numbers(&again), order);
    consensus.shutdown().await;
}

#[tokio::test]
async fn entries_over_the_limit_are_refused_and_leave_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { max_entry_bytes: 1_000, ..Options::new(dir.path(), 1) };
    let (consensus, published) = open(options).await.unwrap();
    let refused = consensus.propose(vec![0; 1_001]).await.unwrap_err();
    assert_eq!(refused, ProposeError::TooLarge { bytes: 1_001, limit: 1_000 });
    assert_eq!(refused.to_string(), "entry of 1001 bytes is over the limit of 1000 bytes");
    assert!(entries(&published).is_empty());
    consensus.propose(vec![0; 1_000]).await.unwrap();
    consensus.shutdown().await;
}

#[tokio::test]
async fn large_entries_under_way_wait_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::new(dir.path(), 1);
    (options.max_entry_bytes, options.max_in_flight_bytes) = (1 << 20, 1 << 20);
    let (consensus, published) = open(options).await.unwrap();
    let proposals: Vec<_> = (0..8)
        .map(|n| {
            let consensus = consensus.clone();
            tokio::spawn(async move { consensus.propose(numbered(n, 1 << 20)).await })
        })
        .collect();
    for proposal in proposals {
        proposal.await.unwrap().unwrap();
    }
    assert_eq!(numbers(&published).len(), 8);
    consensus.shutdown().await;
}

#[tokio::test]
async fn impossible_options_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { snapshot_after_entries: 0, ..Options::new(dir.path().join("c"), 1) };
    let error = open(options).await.map(drop).unwrap_err();
    assert_eq!(error.to_string(), "consensus options: snapshot_after_entries must not be 0");
    assert!(!dir.path().join("c").exists());
}

#[tokio::test]
async fn a_directory_serves_one_process_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let (consensus, _) = open(Options::new(dir.path(), 1)).await.unwrap();
    let error = open(Options::new(dir.path(), 1)).await.map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("in use by another process"), "{error}");
    let other = consensus.clone();
    consensus.shutdown().await;
    assert!(matches!(other.propose(vec![1]).await, Err(ProposeError::Stopped(_))));
    let (consensus, _) = open(Options::new(dir.path(), 1)).await.unwrap();
    consensus.shutdown().await;
}

#[tokio::test]
async fn dropping_the_last_handle_releases_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (consensus, _) = open(Options::new(dir.path(), 1)).await.unwrap();
    consensus.propose(numbered(1, 0)).await.unwrap();
    drop(consensus);
    loop {
        match open(Options::new(dir.path(), 1)).await {
            Ok((consensus, published)) => {
                assert_eq!(numbers(&published), [1]);
                return consensus.shutdown().await;
            }
            Err(OpenError::Locked { .. }) => tokio::task::yield_now().await,
            Err(e) => panic!("{e}"),
        }
    }
}

#[tokio::test]
async fn another_nodes_directory_is_refused_with_both_ids() {
    let dir = tempfile::tempdir().unwrap();
    open(Options::new(dir.path(), 3)).await.unwrap().0.shutdown().await;
    let error = open(Options::new(dir.path(), 4)).await.map(drop).unwrap_err();
    assert!(matches!(error, OpenError::ForeignNode { found: 3, wanted: 4, .. }), "{error}");
}

#[tokio::test]
async fn a_newer_format_is_refused_with_both_versions() {
    let dir = tempfile::tempdir().unwrap();
    open(Options::new(dir.path(), 3)).await.unwrap().0.shutdown().await;
    // The owner as version 99 would write it: fields 1 (format) and 2 (node id) behind a crc32.
    let owner = [0x08, 99, 0x10, 3];
    let mut sealed = crc32fast::hash(&owner).to_le_bytes().to_vec();
    sealed.extend(owner);
    let meta = redb::TableDefinition::<&str, &[u8]>::new("meta");
    let db = redb::Database::open(dir.path().join("log.redb")).unwrap();
    let read = db.begin_read().unwrap();
    assert!(read.open_table(meta).unwrap().get("owner").unwrap().is_some());
    drop(read);
    let write = db.begin_write().unwrap();
    write.open_table(meta).unwrap().insert("owner", sealed.as_slice()).unwrap();
    write.commit().unwrap();
    drop(db);
    let error = open(Options::new(dir.path(), 3)).await.map(drop).unwrap_err();
    assert!(matches!(error, OpenError::NewerFormat { found: 99, supported: FORMAT_VERSION, .. }), "{error}");
}

#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("c");
    let (consensus, _) = open(Options::new(&home, 1)).await.unwrap();
    consensus.propose(numbered(1, 0)).await.unwrap();
    let snapshot = consensus.snapshot_now().await.unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home), 0o700);
    assert_eq!(mode(&home.join("snapshots")), 0o700);
    assert_eq!(mode(&home.join("lock")), 0o600);
    assert_eq!(mode(&home.join("log.redb")), 0o600);
    assert_eq!(mode(&snapshot.path), 0o600);
    consensus.shutdown().await;
}

#[tokio::test]
async fn a_machine_that_panics_stops_the_node_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (consensus, _) = open(Options::new(dir.path(), 1)).await.unwrap();
    consensus.propose(numbered(1, 0)).await.unwrap();
    let error = consensus.propose(b"panic".to_vec()).await.unwrap_err();
    let reason = consensus.fatal().await;
    assert_eq!(reason, "the state machine could not apply an entry: it panicked: asked to");
    assert_eq!(error, ProposeError::Stopped(reason.clone()));
    assert_eq!(consensus.propose(numbered(2, 0)).await.unwrap_err(), error);
    assert_eq!(consensus.read_barrier().await.unwrap_err(), error);
    assert_eq!(consensus.snapshot_now().await.unwrap_err(), error);
    assert_eq!(consensus.status().failed, Some(reason));
    consensus.shutdown().await;
}
