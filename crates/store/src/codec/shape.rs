//! The limits of messages, checked on the bytes before anything is decoded.
//!
//! Two bytes can announce an empty message that takes hundreds in memory. So a message is walked first: each field that
//! repeats or holds a message has a greatest count, which is a named limit.

use super::CodecError;

/// What may stand in a message: its fields that repeat or hold messages. Others replace each other and need no limit.
pub(super) struct Shape {
    pub(super) what: &'static str,
    pub(super) fields: &'static [Field],
}

/// A field that repeats or holds a message.
pub(super) struct Field {
    pub(super) tag: u32,
    /// How often it may stand there.
    pub(super) most: u32,
    /// What is inside, when it is a message.
    pub(super) inside: Option<&'static Shape>,
}

/// A message without fields that repeat or hold messages.
pub(super) const PLAIN: Shape = Shape { what: "a message", fields: &[] };

/// A field that holds one message.
pub(super) const fn one(tag: u32, inside: &'static Shape) -> Field {
    Field { tag, most: 1, inside: Some(inside) }
}

/// A field that repeats a message.
pub(super) const fn many(tag: u32, most: usize, inside: &'static Shape) -> Field {
    Field { tag, most: most as u32, inside: Some(inside) }
}

/// A field that repeats a text, or an entry of a map of plain values.
pub(super) const fn texts(tag: u32, most: usize) -> Field {
    Field { tag, most: most as u32, inside: None }
}

/// The most fields that a shape lists.
const FIELDS: usize = 32;

/// Checks a message against its shape.
pub(super) fn check(bytes: &[u8], shape: &Shape) -> Result<(), CodecError> {
    let mut counts = [0u32; FIELDS];
    let mut walk = Walk::new(bytes, shape.what);
    while let Some((tag, value)) = walk.next()? {
        let Some(at) = shape.fields.iter().position(|f| f.tag == tag) else { continue };
        let field = &shape.fields[at];
        counts[at] += 1;
        if counts[at] > field.most {
            return Err(CodecError::TooLong {
                what: shape.what,
                found: u64::from(counts[at]),
                limit: u64::from(field.most),
            });
        }
        if let (Some(inside), Value::Bytes(bytes)) = (field.inside, value) {
            check(bytes, inside)?;
        }
    }
    Ok(())
}

/// A field's value as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A number of variable length.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes.
    Fixed32(u32),
    /// A text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
}

/// Walks over the fields of a message.
pub(super) struct Walk<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Walk<'a> {
    pub(super) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    /// The next field's number and value.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, CodecError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let tag = u32::try_from(key >> 3).ok().filter(|tag| *tag > 0);
        let Some(tag) = tag else { return Err(self.malformed("a field's number is out of range")) };
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                let fits = usize::try_from(length).ok().filter(|n| *n <= self.rest.len());
                let Some(length) = fits else { return Err(CodecError::Truncated(self.what)) };
                let (bytes, rest) = self.rest.split_at(length);
                self.rest = rest;
                Value::Bytes(bytes)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(self.malformed("a field has a kind that does not exist")),
        };
        Ok(Some((tag, value)))
    }

    fn varint(&mut self) -> Result<u64, CodecError> {
        let mut value = 0u64;
        for (at, byte) in self.rest.iter().enumerate().take(10) {
            if at == 9 && *byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        if self.rest.len() < 10 {
            Err(CodecError::Truncated(self.what))
        } else {
            Err(self.malformed("a number is too long"))
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let Some((array, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(CodecError::Truncated(self.what));
        };
        self.rest = rest;
        Ok(*array)
    }

    fn malformed(&self, problem: &str) -> CodecError {
        CodecError::Malformed { what: self.what, problem: problem.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INNER: Shape = Shape { what: "inner", fields: &[texts(2, 1)] };
    const OUTER: Shape = Shape { what: "outer", fields: &[many(1, 2, &INNER), texts(3, 2)] };

    #[test]
    fn counts_are_limited_at_each_level() {
        for (bytes, fits) in [
            (&[][..], true),
            (&[0x0a, 0, 0x0a, 0], true),
            (&[0x0a, 0, 0x0a, 0, 0x0a, 0], false),
            (&[0x0a, 2, 0x12, 0], true),
            (&[0x0a, 4, 0x12, 0, 0x12, 0], false),
            (&[0x1a, 0, 0x1a, 0, 0x20, 1, 0x20, 1, 0x20, 1], true),
            (&[0x1a, 0, 0x1a, 0, 0x1a, 0], false),
        ] {
            assert_eq!(check(bytes, &OUTER).is_ok(), fits, "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [
            &[0x0a][..],
            &[0x0a, 5, 1],
            &[0x00, 1],
            &[0x0b],
            &[0x08, 0xff],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
            &[0x09, 1, 2, 3],
        ] {
            assert!(check(bytes, &OUTER).is_err(), "{bytes:?}");
        }
    }
}
