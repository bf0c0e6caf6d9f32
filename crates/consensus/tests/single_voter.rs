//! A cluster of one: what its users rely on.

mod support;

use consensus::Options;
use support::{entries, numbered, open};

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
