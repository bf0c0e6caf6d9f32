//! openraft's type parameters, chosen once.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use openraft::BasicNode;
use openraft::impls::leader_id_std;

openraft::declare_raft_types!(
    /// Opaque entries, numbered nodes, and at most one leader in a term, so that an entry is
    /// named by term and index alone.
    pub(crate) TypeConfig:
        D = Payload,
        R = Reply,
        NodeId = u64,
        Node = BasicNode,
        Term = u64,
        LeaderId = leader_id_std::LeaderId<u64, u64>,
);

pub(crate) type LogId = openraft::alias::LogIdOf<TypeConfig>;
pub(crate) type Vote = openraft::alias::VoteOf<TypeConfig>;
pub(crate) type Entry = openraft::alias::EntryOf<TypeConfig>;
pub(crate) type EntryPayload = openraft::EntryPayload<Payload, u64, BasicNode>;
pub(crate) type Membership = openraft::Membership<u64, BasicNode>;
pub(crate) type StoredMembership = openraft::alias::StoredMembershipOf<TypeConfig>;
pub(crate) type SnapshotMeta = openraft::alias::SnapshotMetaOf<TypeConfig>;
pub(crate) type Snapshot = openraft::alias::SnapshotOf<TypeConfig, crate::snapshot::SnapshotFile>;

/// The log id of the entry `index` written in `term`.
pub(crate) fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(openraft::alias::CommittedLeaderIdOf::<TypeConfig>::new(term), index)
}

/// The term of a log id.
pub(crate) fn term_of(id: &LogId) -> u64 {
    *id.leader_id
}

/// The bytes of one entry, shared between the log's tail, the writer and the machine. It shows
/// only its size: entries may hold what doesn't belong into logs.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Payload(pub(crate) Arc<Vec<u8>>);

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A machine's reply on its way through the engine, which needn't know the machine's types.
/// The mutex is there because openraft asks for `Sync`; one task at a time holds a reply.
pub(crate) struct Reply(Mutex<Option<Box<dyn Any + Send>>>);

impl Reply {
    /// For the engine's own entries.
    pub(crate) fn none() -> Self {
        Self(Mutex::new(None))
    }

    pub(crate) fn new<T: Send + 'static>(value: T) -> Self {
        Self(Mutex::new(Some(Box::new(value))))
    }

    pub(crate) fn take<T: 'static>(self) -> Option<T> {
        let value = self.0.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        value.downcast().ok().map(|value| *value)
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}
