//! The snapshot file: a header, the machine's bytes in checksummed frames, and a trailer.
//!
//! ```text
//! magic "QUELEASN" | format u32 | header length u32 | crc32 of both and the header u32 | header
//! frame: length u32 (not 0) | crc32 of the frame's number and its bytes u32 | bytes
//! trailer: 0 u32 | crc32 of the next 16 bytes u32 | bytes in all frames u64 | frames u64
//! ```
//!
//! Numbers are little-endian; nothing follows the trailer.

use std::io::{self, Read, Write};

use prost::Message;

use crate::format::{FORMAT_VERSION, SnapshotHeader};

const MAGIC: &[u8; 8] = b"QUELEASN";
/// Frames are this long, but for the last one.
const FRAME_BYTES: usize = 256 << 10;
/// A header holds a log id and a membership: an upper bound, so that a damaged length can't ask
/// for all memory.
const MAX_HEADER_BYTES: u32 = 1 << 20;

/// Why a file is no snapshot.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// Its checks fail.
    Damaged(String),
    /// It has a format from the future: this version.
    Newer(u32),
    /// It couldn't be read at all.
    Io(io::Error),
}

impl From<io::Error> for Unreadable {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::UnexpectedEof => Self::Damaged("it is cut off".into()),
            io::ErrorKind::InvalidData => Self::Damaged(e.to_string()),
            _ => Self::Io(e),
        }
    }
}

/// Takes the machine's bytes and writes frames.
pub(crate) struct FrameWriter<W> {
    out: W,
    frame: Vec<u8>,
    frames: u64,
    total: u64,
}

impl<W: Write> FrameWriter<W> {
    pub(crate) fn new(mut out: W, header: &SnapshotHeader) -> io::Result<Self> {
        let header = header.encode_to_vec();
        let length = u32::try_from(header.len()).map_err(io::Error::other)?;
        out.write_all(MAGIC)?;
        out.write_all(&FORMAT_VERSION.to_le_bytes())?;
        out.write_all(&length.to_le_bytes())?;
        out.write_all(&header_crc(FORMAT_VERSION, length, &header).to_le_bytes())?;
        out.write_all(&header)?;
        Ok(Self { out, frame: Vec::with_capacity(FRAME_BYTES), frames: 0, total: 0 })
    }

    fn end_frame(&mut self) -> io::Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        self.out.write_all(&(self.frame.len() as u32).to_le_bytes())?;
        self.out.write_all(&frame_crc(self.frames, &self.frame).to_le_bytes())?;
        self.out.write_all(&self.frame)?;
        self.frames += 1;
        self.total += self.frame.len() as u64;
        self.frame.clear();
        Ok(())
    }

    /// Writes the trailer and gives the output back.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.end_frame()?;
        let sums = trailer_sums(self.total, self.frames);
        self.out.write_all(&0u32.to_le_bytes())?;
        self.out.write_all(&crc32fast::hash(&sums).to_le_bytes())?;
        self.out.write_all(&sums)?;
        Ok(self.out)
    }
}

impl<W: Write> Write for FrameWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(FRAME_BYTES - self.frame.len());
        self.frame.extend_from_slice(&bytes[..taken]);
        if self.frame.len() == FRAME_BYTES {
            self.end_frame()?;
        }
        Ok(taken)
    }

    /// Frames end where they are full, not where a caller flushes.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Gives the machine's bytes back, each frame only after its checksum has passed.
pub(crate) struct FrameReader<R> {
    input: R,
    frame: Vec<u8>,
    at: usize,
    frames: u64,
    total: u64,
    ended: bool,
}

impl<R: Read> FrameReader<R> {
    pub(crate) fn new(mut input: R) -> Result<(Self, SnapshotHeader), Unreadable> {
        let mut magic = [0; 8];
        input.read_exact(&mut magic)?;
        if &magic != MAGIC {
            return Err(Unreadable::Damaged("it does not begin as a snapshot does".into()));
        }
        let version = read_u32(&mut input)?;
        if version > FORMAT_VERSION {
            return Err(Unreadable::Newer(version));
        }
        let length = read_u32(&mut input)?;
        let crc = read_u32(&mut input)?;
        if length > MAX_HEADER_BYTES {
            return Err(Unreadable::Damaged(format!("its header claims {length} bytes")));
        }
        let mut header = vec![0; length as usize];
        input.read_exact(&mut header)?;
        if crc != header_crc(version, length, &header) {
            return Err(Unreadable::Damaged("its header fails the checksum".into()));
        }
        let header = SnapshotHeader::decode(header.as_slice())
            .map_err(|e| Unreadable::Damaged(format!("its header cannot be read: {e}")))?;
        let reader = Self { input, frame: Vec::new(), at: 0, frames: 0, total: 0, ended: false };
        Ok((reader, header))
    }

    fn next_frame(&mut self) -> io::Result<()> {
        let length = read_u32(&mut self.input)? as usize;
        let crc = read_u32(&mut self.input)?;
        if length == 0 {
            return self.end(crc);
        }
        if length > FRAME_BYTES {
            return Err(damaged(format!("frame {} claims {length} bytes", self.frames)));
        }
        self.frame.resize(length, 0);
        self.at = 0;
        self.input.read_exact(&mut self.frame)?;
        if crc != frame_crc(self.frames, &self.frame) {
            return Err(damaged(format!("frame {} fails its checksum", self.frames)));
        }
        self.frames += 1;
        self.total += length as u64;
        Ok(())
    }

    fn end(&mut self, crc: u32) -> io::Result<()> {
        let mut sums = [0; 16];
        self.input.read_exact(&mut sums)?;
        if crc != crc32fast::hash(&sums) || sums != trailer_sums(self.total, self.frames) {
            return Err(damaged("its trailer does not fit the frames".into()));
        }
        if self.input.read(&mut [0])? != 0 {
            return Err(damaged("something follows the trailer".into()));
        }
        self.frame.clear();
        self.at = 0;
        self.ended = true;
        Ok(())
    }
}

impl<R: Read> Read for FrameReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.frame.len() && !self.ended && !out.is_empty() {
            self.next_frame()?;
        }
        let taken = out.len().min(self.frame.len() - self.at);
        out[..taken].copy_from_slice(&self.frame[self.at..self.at + taken]);
        self.at += taken;
        Ok(taken)
    }
}

fn damaged(detail: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, detail)
}

fn read_u32(input: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

fn header_crc(version: u32, length: u32, header: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&version.to_le_bytes());
    crc.update(&length.to_le_bytes());
    crc.update(header);
    crc.finalize()
}

fn frame_crc(number: u64, bytes: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&number.to_le_bytes());
    crc.update(bytes);
    crc.finalize()
}

fn trailer_sums(total: u64, frames: u64) -> [u8; 16] {
    let mut sums = [0; 16];
    sums[..8].copy_from_slice(&total.to_le_bytes());
    sums[8..].copy_from_slice(&frames.to_le_bytes());
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{StoredMembership, log_id};

    fn file_of(body: &[u8]) -> Vec<u8> {
        let header = SnapshotHeader::new(Some(log_id(2, 5)), &StoredMembership::default());
        let mut writer = FrameWriter::new(Vec::new(), &header).unwrap();
        writer.write_all(body).unwrap();
        writer.finish().unwrap()
    }

    fn read(file: &[u8]) -> Result<Vec<u8>, Unreadable> {
        let (mut reader, header) = FrameReader::new(file)?;
        assert_eq!(header.parts().unwrap().0, Some(log_id(2, 5)));
        let mut body = Vec::new();
        reader.read_to_end(&mut body)?;
        Ok(body)
    }

    #[test]
    fn bodies_of_all_sizes_come_back() {
        for len in [0, 1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 3 * FRAME_BYTES + 7] {
            let body: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            assert_eq!(read(&file_of(&body)).unwrap(), body, "{len} bytes");
        }
    }

    #[test]
    fn every_flipped_bit_every_cut_and_every_addition_is_noticed() {
        let good = file_of(b"the machine's bytes");
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&bad).is_err(), "bit {bit}");
        }
        for len in 0..good.len() {
            assert!(read(&good[..len]).is_err(), "cut to {len}");
        }
        let mut longer = good.clone();
        longer.push(0);
        assert!(read(&longer).is_err());
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let mut newer = file_of(b"x");
        newer[8..12].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
        assert!(matches!(read(&newer), Err(Unreadable::Newer(v)) if v == FORMAT_VERSION + 1));
    }
}
