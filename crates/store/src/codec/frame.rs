//! Frames: the pieces of a snapshot, each with its length and checksum.
//!
//! A frame is: length of the payload (4 bytes), checksum (4), kind (1), payload. Numbers are little-endian; the checksum is CRC-32
//! of length, kind and payload.

use std::io::{self, Read, Write};

use prost::Message;

use super::CodecError;
use super::entry::ENTRY_BYTES;

/// The longest payload: whatever came with an entry fits, with what is kept beside it.
pub(super) const FRAME_BYTES: usize = ENTRY_BYTES + (1 << 20);

const HEAD: usize = 9;

/// What a frame holds. They follow each other in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Kind {
    Header = 1,
    Cluster = 2,
    Namespace = 3,
    Node = 4,
    Job = 5,
    Revision = 6,
    Service = 7,
    Task = 8,
    Trailer = 9,
}

impl Kind {
    pub(super) const ALL: [Self; 9] = [
        Self::Header,
        Self::Cluster,
        Self::Namespace,
        Self::Node,
        Self::Job,
        Self::Revision,
        Self::Service,
        Self::Task,
        Self::Trailer,
    ];
}

fn checksum(head: [u8; 4], kind: u8, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&head);
    hasher.update(&[kind]);
    hasher.update(payload);
    hasher.finalize()
}

/// Writes frames, each with one call of the writer.
pub(super) struct FrameWriter<'a> {
    out: &'a mut dyn Write,
    buffer: Vec<u8>,
    /// Frames written, by kind.
    pub(super) counts: [u64; Kind::ALL.len()],
}

impl<'a> FrameWriter<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, buffer: Vec::new(), counts: [0; Kind::ALL.len()] }
    }

    pub(super) fn write(&mut self, kind: Kind, message: &impl Message) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.resize(HEAD, 0);
        message.encode_raw(&mut self.buffer);
        let (head, payload) = self.buffer.split_at_mut(HEAD);
        let length = u32::try_from(payload.len()).ok().filter(|n| *n as usize <= FRAME_BYTES);
        let Some(length) = length else {
            let problem = format!("an object of {} bytes is too large for a snapshot", payload.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        };
        let length = length.to_le_bytes();
        head[..4].copy_from_slice(&length);
        head[4..8].copy_from_slice(&checksum(length, kind as u8, payload).to_le_bytes());
        head[8] = kind as u8;
        self.counts[kind as usize - 1] += 1;
        self.out.write_all(&self.buffer)
    }
}

/// Reads frames.
pub(super) struct FrameReader<'a> {
    input: &'a mut dyn Read,
    payload: Vec<u8>,
    /// Frames read, by kind.
    pub(super) counts: [u64; Kind::ALL.len()],
}

impl<'a> FrameReader<'a> {
    pub(super) fn new(input: &'a mut dyn Read) -> Self {
        Self { input, payload: Vec::new(), counts: [0; Kind::ALL.len()] }
    }

    /// The next frame.
    pub(super) fn next(&mut self) -> Result<(Kind, &[u8]), CodecError> {
        let mut head = [0; HEAD];
        read_exact(self.input, &mut head)?;
        let [l0, l1, l2, l3, c0, c1, c2, c3, kind] = head;
        let length = [l0, l1, l2, l3];
        let wanted = u32::from_le_bytes(length) as usize;
        if wanted > FRAME_BYTES {
            let (found, limit) = (wanted as u64, FRAME_BYTES as u64);
            return Err(CodecError::TooLong { what: "a frame of the snapshot", found, limit });
        }
        // The buffer grows with what really comes, not with what the length promises.
        self.payload.clear();
        Read::take(&mut *self.input, wanted as u64).read_to_end(&mut self.payload)?;
        if self.payload.len() < wanted {
            return Err(CodecError::Truncated(SNAPSHOT));
        }
        let frame = self.counts.iter().sum();
        if checksum(length, kind, &self.payload) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(CodecError::Damaged { frame });
        }
        let known = Kind::ALL.into_iter().find(|k| *k as u8 == kind);
        let number = u32::from(kind);
        let kind = known.ok_or(CodecError::Unknown { what: "kind of frame", number })?;
        self.counts[kind as usize - 1] += 1;
        Ok((kind, &self.payload))
    }

    /// Nothing may follow.
    pub(super) fn end(&mut self) -> Result<(), CodecError> {
        match Read::take(&mut *self.input, 1).read_to_end(&mut self.payload) {
            Ok(0) => Ok(()),
            Ok(_) => Err(CodecError::Unfit("something follows its end".into())),
            Err(e) => Err(e.into()),
        }
    }
}

pub(super) const SNAPSHOT: &str = "a snapshot";

/// Fills `bytes`, or says that the snapshot ends too early.
pub(super) fn read_exact(input: &mut dyn Read, bytes: &mut [u8]) -> Result<(), CodecError> {
    input.read_exact(bytes).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => CodecError::Truncated(SNAPSHOT),
        _ => e.into(),
    })
}
