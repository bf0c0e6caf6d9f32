//! Bytes on disk: log records and the engine's metadata.
//!
//! The metadata are small protobuf messages of our own, so that openraft's types may change
//! without changing a file. Field numbers are never used again for something else.

use std::collections::{BTreeMap, BTreeSet};

use openraft::BasicNode;
use prost::Message;

use crate::types::{
    Entry, EntryPayload, LogId, Membership, Payload, StoredMembership, Vote, log_id, term_of,
};

/// The version of both file formats, log and snapshot, that this program writes.
pub const FORMAT_VERSION: u32 = 1;

/// crc32, kind, term: what stands before the payload of each log record.
pub(crate) const RECORD_HEAD: usize = 4 + 1 + 8;

const KIND_BLANK: u8 = 0;
const KIND_NORMAL: u8 = 1;
const KIND_MEMBERSHIP: u8 = 2;

/// A log entry split into what is written: its head without the checksum, and its payload.
pub(crate) struct Record {
    kind: u8,
    term: u64,
    body: Body,
}

enum Body {
    Shared(Payload),
    Owned(Vec<u8>),
}

impl Record {
    pub(crate) fn of(entry: &Entry) -> Self {
        let term = term_of(&entry.log_id);
        let (kind, body) = match &entry.payload {
            EntryPayload::Blank => (KIND_BLANK, Body::Owned(Vec::new())),
            EntryPayload::Normal(payload) => (KIND_NORMAL, Body::Shared(payload.clone())),
            EntryPayload::Membership(m) => {
                (KIND_MEMBERSHIP, Body::Owned(MembershipRecord::of(m).encode_to_vec()))
            }
        };
        Self { kind, term, body }
    }

    fn body(&self) -> &[u8] {
        match &self.body {
            Body::Shared(payload) => &payload.0,
            Body::Owned(bytes) => bytes,
        }
    }

    /// Bytes that [`put`](Record::put) fills.
    pub(crate) fn len(&self) -> usize {
        RECORD_HEAD + self.body().len()
    }

    /// Writes the record for `index` into `out`, which has exactly [`len`](Record::len) bytes.
    pub(crate) fn put(&self, index: u64, out: &mut [u8]) {
        let (head, rest) = out.split_at_mut(RECORD_HEAD);
        rest.copy_from_slice(self.body());
        head[4] = self.kind;
        head[5..].copy_from_slice(&self.term.to_le_bytes());
        let crc = record_crc(index, &head[4..], rest);
        head[..4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The checksum covers the index, which is the key under which the record stands, so that a record
/// that turns up in another's place is noticed.
fn record_crc(index: u64, head: &[u8], body: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&index.to_le_bytes());
    crc.update(head);
    crc.update(body);
    crc.finalize()
}

/// Checks the record's checksum and returns its log id, without decoding it.
pub(crate) fn check_record(index: u64, bytes: &[u8]) -> Result<LogId, String> {
    if bytes.len() < RECORD_HEAD {
        return Err(format!("record {index} is cut off after {} bytes", bytes.len()));
    }
    let (head, body) = bytes.split_at(RECORD_HEAD);
    if head[..4] != record_crc(index, &head[4..], body).to_le_bytes() {
        return Err(format!("record {index} fails its checksum"));
    }
    let mut term = [0; 8];
    term.copy_from_slice(&head[5..]);
    Ok(log_id(u64::from_le_bytes(term), index))
}

/// Checks and decodes a record.
pub(crate) fn decode_record(index: u64, bytes: &[u8]) -> Result<Entry, String> {
    let log_id = check_record(index, bytes)?;
    let body = &bytes[RECORD_HEAD..];
    let payload = match bytes[4] {
        KIND_BLANK => EntryPayload::Blank,
        KIND_NORMAL => EntryPayload::Normal(Payload(body.to_vec().into())),
        KIND_MEMBERSHIP => EntryPayload::Membership(
            MembershipRecord::decode(body)
                .map_err(|e| e.to_string())
                .and_then(|m| m.membership())
                .map_err(|e| format!("record {index} holds no membership: {e}"))?,
        ),
        kind => return Err(format!("record {index} is of the unknown kind {kind}")),
    };
    Ok(Entry { log_id, payload })
}

/// A message with its checksum in front, for values of the metadata table.
pub(crate) fn seal(message: &impl Message) -> Vec<u8> {
    let body = message.encode_to_vec();
    let mut out = crc32fast::hash(&body).to_le_bytes().to_vec();
    out.extend_from_slice(&body);
    out
}

/// The message in a sealed value.
pub(crate) fn unseal<M: Message + Default>(what: &str, bytes: &[u8]) -> Result<M, String> {
    match bytes.split_first_chunk::<4>() {
        Some((crc, body)) if *crc == crc32fast::hash(body).to_le_bytes() => {
            M::decode(body).map_err(|e| format!("the {what} cannot be read: {e}"))
        }
        _ => Err(format!("the {what} fails its checksum")),
    }
}

/// Who wrote the file, and in which format.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Owner {
    #[prost(uint32, tag = "1")]
    pub(crate) format: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) node_id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VoteRecord {
    #[prost(uint64, tag = "1")]
    term: u64,
    #[prost(uint64, tag = "2")]
    node_id: u64,
    #[prost(bool, tag = "3")]
    committed: bool,
}

impl VoteRecord {
    pub(crate) fn of(vote: &Vote) -> Self {
        let leader = &vote.leader_id;
        Self { term: leader.term, node_id: leader.voted_for, committed: vote.committed }
    }

    pub(crate) fn vote(&self) -> Vote {
        match self.committed {
            true => Vote::new_committed(self.term, self.node_id),
            false => Vote::new(self.term, self.node_id),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LogIdRecord {
    #[prost(uint64, tag = "1")]
    term: u64,
    #[prost(uint64, tag = "2")]
    index: u64,
}

impl LogIdRecord {
    pub(crate) fn of(id: &LogId) -> Self {
        Self { term: term_of(id), index: id.index }
    }

    pub(crate) fn log_id(&self) -> LogId {
        log_id(self.term, self.index)
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MembershipRecord {
    /// One set of voters, or two while membership changes (joint consensus).
    #[prost(message, repeated, tag = "1")]
    voters: Vec<VoterSet>,
    /// All nodes, voters and learners.
    #[prost(message, repeated, tag = "2")]
    nodes: Vec<MemberRecord>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VoterSet {
    #[prost(uint64, repeated, tag = "1")]
    ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberRecord {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    address: String,
}

impl MembershipRecord {
    fn of(membership: &Membership) -> Self {
        let voters = membership.get_joint_config().iter();
        let nodes = membership.nodes();
        Self {
            voters: voters.map(|ids| VoterSet { ids: ids.iter().copied().collect() }).collect(),
            nodes: nodes.map(|(id, n)| MemberRecord { id: *id, address: n.addr.clone() }).collect(),
        }
    }

    fn membership(self) -> Result<Membership, String> {
        // openraft's own empty membership, before the first one is written, isn't one that its
        // checked constructor would make.
        if self.voters.is_empty() && self.nodes.is_empty() {
            return Ok(Membership::default());
        }
        let voters: Vec<BTreeSet<u64>> =
            self.voters.into_iter().map(|set| set.ids.into_iter().collect()).collect();
        let nodes: BTreeMap<u64, BasicNode> =
            self.nodes.into_iter().map(|m| (m.id, BasicNode { addr: m.address })).collect();
        Membership::new(voters, nodes).map_err(|e| e.to_string())
    }
}

/// What a snapshot file says about itself, before the machine's bytes.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SnapshotHeader {
    #[prost(message, optional, tag = "1")]
    last: Option<LogIdRecord>,
    #[prost(message, optional, tag = "2")]
    membership_at: Option<LogIdRecord>,
    #[prost(message, optional, tag = "3")]
    membership: Option<MembershipRecord>,
}

impl SnapshotHeader {
    pub(crate) fn new(last: Option<LogId>, membership: &StoredMembership) -> Self {
        Self {
            last: last.as_ref().map(LogIdRecord::of),
            membership_at: membership.log_id().as_ref().map(LogIdRecord::of),
            membership: Some(MembershipRecord::of(membership.membership())),
        }
    }

    pub(crate) fn parts(self) -> Result<(Option<LogId>, StoredMembership), String> {
        let last = self.last.map(|id| id.log_id());
        let membership = self.membership.unwrap_or_default().membership()?;
        let at = self.membership_at.map(|id| id.log_id());
        Ok((last, StoredMembership::new(at, membership)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry> {
        let nodes = BTreeMap::from([
            (1, BasicNode { addr: "a:1".into() }),
            (2, BasicNode { addr: "b:2".into() }),
            (3, BasicNode { addr: String::new() }),
        ]);
        let joint = vec![BTreeSet::from([1]), BTreeSet::from([1, 2])];
        let membership = Membership::new(joint, nodes).unwrap();
        vec![
            Entry { log_id: log_id(3, 7), payload: EntryPayload::Blank },
            Entry {
                log_id: log_id(u64::MAX, 8),
                payload: EntryPayload::Normal(Payload(b"bytes".to_vec().into())),
            },
            Entry { log_id: log_id(0, 9), payload: EntryPayload::Normal(Payload(vec![].into())) },
            Entry { log_id: log_id(4, 10), payload: EntryPayload::Membership(membership) },
        ]
    }

    fn encode(entry: &Entry) -> Vec<u8> {
        let record = Record::of(entry);
        let mut bytes = vec![0; record.len()];
        record.put(entry.log_id.index, &mut bytes);
        bytes
    }

    #[test]
    fn records_come_back_as_they_went() {
        for entry in entries() {
            let back = decode_record(entry.log_id.index, &encode(&entry)).unwrap();
            assert_eq!(back, entry);
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        for entry in entries() {
            let good = encode(&entry);
            for bit in 0..good.len() * 8 {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(decode_record(entry.log_id.index, &bad).is_err(), "bit {bit}");
            }
            for len in 0..good.len() {
                assert!(decode_record(entry.log_id.index, &good[..len]).is_err(), "cut to {len}");
            }
        }
    }

    #[test]
    fn a_record_in_anothers_place_is_noticed() {
        let entry = &entries()[1];
        let error = decode_record(entry.log_id.index + 1, &encode(entry)).unwrap_err();
        assert_eq!(error, "record 9 fails its checksum");
    }
}
