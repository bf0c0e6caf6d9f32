//! Entries of the log.
//!
//! Message `Entry`: 1 format, 2 feature_level, 3 time (fixed), 4 sets. Message `ChangeSet`: 1 guards, 2 changes.
//! Sets and changes are read one by one, straight from the bytes: the only list that grows is the result.

use model::Time;
use prost::Message;

use super::CodecError;
use super::change;
use super::fields::{Texts, Wire};
use super::shape::{self, Value, Walk};
use crate::{ChangeSet, Entry, FEATURE_LEVEL, Guard};

/// The format of entries. It changes only when older programs could not even skip what is new.
pub const ENTRY_FORMAT: u32 = 1;

/// The longest entry in bytes. Whoever proposes must cut larger ones: nobody reads them.
pub const ENTRY_BYTES: usize = 64 << 20;

/// Writes an entry.
///
/// What is written from values within their limits can be read; [`check_entry`] tells it of any bytes.
pub fn encode_entry(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::new();
    key(1, VARINT, &mut out);
    varint(u64::from(ENTRY_FORMAT), &mut out);
    key(2, VARINT, &mut out);
    varint(u64::from(entry.feature_level), &mut out);
    key(3, FIXED64, &mut out);
    out.extend_from_slice(&entry.time.0.to_le_bytes());
    let (mut set_bytes, mut change_bytes) = (Vec::new(), Vec::new());
    for set in &entry.sets {
        set_bytes.clear();
        for guard in &set.guards {
            put(1, &guard.to_message(), &mut set_bytes);
        }
        for change in &set.changes {
            change_bytes.clear();
            change::write(change, &mut change_bytes);
            put_bytes(2, &change_bytes, &mut set_bytes);
        }
        put_bytes(4, &set_bytes, &mut out);
    }
    out
}

/// Reads an entry.
///
/// # Errors
/// [`CodecError::Newer`] for one of a newer program, and whatever else is wrong with the bytes.
pub fn decode_entry(bytes: &[u8]) -> Result<Entry, CodecError> {
    let mut entry = Entry::default();
    let mut texts = Texts::default();
    entry.feature_level = walk_entry(bytes, |part| match part {
        Part::Time(time) => {
            entry.time = time;
            Ok(())
        }
        Part::Set(bytes) => {
            entry.sets.push(read_set(bytes, &mut texts)?);
            Ok(())
        }
    })?;
    Ok(entry)
}

/// Checks that an entry is within every limit, without reading it: what a leader does before it proposes.
///
/// # Errors
/// The limit that is exceeded.
pub fn check_entry(bytes: &[u8]) -> Result<(), CodecError> {
    walk_entry(bytes, |part| match part {
        Part::Time(_) => Ok(()),
        Part::Set(bytes) => walk_set(bytes, |part| match part {
            SetPart::Guard(bytes) => shape::check(bytes, &Guard::SHAPE),
            SetPart::Change(bytes) => change::check(bytes),
        }),
    })
    .map(|_| ())
}

enum Part<'a> {
    Time(Time),
    Set(&'a [u8]),
}

/// Walks over an entry, after a look at its versions; answers its feature level.
fn walk_entry(
    bytes: &[u8],
    mut each: impl FnMut(Part<'_>) -> Result<(), CodecError>,
) -> Result<u32, CodecError> {
    const WHAT: &str = "an entry";
    if bytes.len() > ENTRY_BYTES {
        let (found, limit) = (bytes.len() as u64, ENTRY_BYTES as u64);
        return Err(CodecError::TooLong { what: WHAT, found, limit });
    }
    // The versions come first in what we write, but are looked for everywhere: nothing else counts before them.
    let (mut format, mut feature_level) = (0, 0);
    let mut walk = Walk::new(bytes, WHAT);
    while let Some((tag, value)) = walk.next()? {
        match (tag, value) {
            (1, Value::Varint(n)) => format = u32::try_from(n).unwrap_or(u32::MAX),
            (2, Value::Varint(n)) => feature_level = u32::try_from(n).unwrap_or(u32::MAX),
            _ => {}
        }
    }
    if format == 0 {
        return Err(CodecError::Missing("the format of an entry"));
    }
    for (what, found, known) in
        [("entry format", format, ENTRY_FORMAT), ("feature level", feature_level, FEATURE_LEVEL)]
    {
        if found > known {
            return Err(CodecError::Newer { what, found, known });
        }
    }
    let mut walk = Walk::new(bytes, WHAT);
    while let Some((tag, value)) = walk.next()? {
        match (tag, value) {
            (1 | 2, Value::Varint(_)) => {}
            (3, Value::Fixed64(time)) => each(Part::Time(Time(time.cast_signed())))?,
            (4, Value::Bytes(set)) => each(Part::Set(set))?,
            _ => return Err(unknown_field(WHAT, tag)),
        }
    }
    Ok(feature_level)
}

enum SetPart<'a> {
    Guard(&'a [u8]),
    Change(&'a [u8]),
}

fn walk_set(
    bytes: &[u8],
    mut each: impl FnMut(SetPart<'_>) -> Result<(), CodecError>,
) -> Result<(), CodecError> {
    const WHAT: &str = "a change set";
    let mut walk = Walk::new(bytes, WHAT);
    while let Some((tag, value)) = walk.next()? {
        match (tag, value) {
            (1, Value::Bytes(guard)) => each(SetPart::Guard(guard))?,
            (2, Value::Bytes(change)) => each(SetPart::Change(change))?,
            _ => return Err(unknown_field(WHAT, tag)),
        }
    }
    Ok(())
}

fn unknown_field(what: &'static str, tag: u32) -> CodecError {
    CodecError::Malformed { what, problem: format!("field {tag} is not known or not of its kind") }
}

fn read_set(bytes: &[u8], texts: &mut Texts) -> Result<ChangeSet, CodecError> {
    let mut set = ChangeSet::default();
    walk_set(bytes, |part| {
        match part {
            SetPart::Guard(bytes) => set.guards.push(Guard::read(bytes, texts)?),
            SetPart::Change(bytes) => set.changes.push(change::read(bytes, texts)?),
        }
        Ok(())
    })?;
    Ok(set)
}

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

fn key(tag: u32, kind: u32, out: &mut Vec<u8>) {
    varint(u64::from(tag << 3 | kind), out);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field that holds a message.
pub(super) fn put(tag: u32, message: &impl Message, out: &mut Vec<u8>) {
    key(tag, BYTES, out);
    let length = message.encoded_len();
    varint(length as u64, out);
    out.reserve(length);
    message.encode_raw(out);
}

fn put_bytes(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    key(tag, BYTES, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
