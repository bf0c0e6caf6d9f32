//! Identities: 128 random bits, shown as 25 base-36 characters.
//!
//! Chance is an argument: ids are made from bits that the edge (or the simulator's seed) supplies.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// How many characters an id has in its native (and Docker) form.
pub const TEXT_LEN: usize = 25;

/// 128 bits that name one thing. Two 64-bit halves, so that ids pack without 16-byte alignment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Id {
    hi: u64,
    lo: u64,
}

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not 25 characters.
    #[error("an id has 25 characters, this has {0}")]
    Length(usize),
    /// A character outside `0-9a-z`.
    #[error("an id has only the characters 0-9 and a-z, found {0:?}")]
    Character(char),
    /// Larger than 128 bits can hold.
    #[error("this id is beyond the range of ids")]
    Range,
}

impl Id {
    /// The id with these bits.
    pub const fn from_u128(bits: u128) -> Self {
        Self { hi: (bits >> 64) as u64, lo: bits as u64 }
    }

    /// The bits of this id.
    pub const fn as_u128(self) -> u128 {
        (self.hi as u128) << 64 | self.lo as u128
    }

    /// The ids whose text begins with `prefix`, as a range; `None` when no id can begin so.
    pub fn prefix_range(prefix: &str) -> Option<RangeInclusive<Self>> {
        if prefix.len() > TEXT_LEN {
            return None;
        }
        let mut low: u128 = 0;
        let mut high: u128 = 0;
        for position in 0..TEXT_LEN {
            let (l, h) = match prefix.as_bytes().get(position) {
                Some(&b) => (digit(b as char).ok()?, digit(b as char).ok()?),
                None => (0, 35),
            };
            low = low.checked_mul(36)?.checked_add(l)?;
            high = high.checked_mul(36).and_then(|v| v.checked_add(h)).unwrap_or(u128::MAX);
            if high == u128::MAX && position + 1 < TEXT_LEN && prefix.len() <= position {
                // Every further digit only moves `high` beyond what 128 bits hold.
                for _ in position + 1..TEXT_LEN {
                    low = low.checked_mul(36)?;
                }
                break;
            }
        }
        Some(Self::from_u128(low)..=Self::from_u128(high))
    }
}

fn digit(c: char) -> Result<u128, IdError> {
    match c {
        '0'..='9' => Ok(u128::from(c as u32 - '0' as u32)),
        'a'..='z' => Ok(u128::from(c as u32 - 'a' as u32 + 10)),
        other => Err(IdError::Character(other)),
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [b'0'; TEXT_LEN];
        let mut rest = self.as_u128();
        for slot in text.iter_mut().rev() {
            *slot = b"0123456789abcdefghijklmnopqrstuvwxyz"[(rest % 36) as usize];
            rest /= 36;
        }
        f.pad(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Id {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if text.len() != TEXT_LEN {
            return Err(IdError::Length(text.chars().count()));
        }
        let mut bits: u128 = 0;
        for c in text.chars() {
            let d = digit(c)?;
            bits = bits.checked_mul(36).and_then(|v| v.checked_add(d)).ok_or(IdError::Range)?;
        }
        Ok(Self::from_u128(bits))
    }
}

macro_rules! typed_ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub Id);

        impl $name {
            /// The id with these bits.
            pub const fn from_u128(bits: u128) -> Self {
                Self(Id::from_u128(bits))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                text.parse().map(Self)
            }
        }
    )+};
}

typed_ids! {
    /// Names the cluster itself.
    ClusterId,
    /// Names a machine that has joined.
    NodeId,
    /// Names a namespace; [`NamespaceId::DEFAULT`] always exists.
    NamespaceId,
    /// Names a submitted job.
    JobId,
    /// Names a service.
    ServiceId,
    /// Names one immutable spec of a service.
    RevisionId,
    /// Names one placement of a slot.
    TaskId,
    /// Names one registration of an agent with a manager; a newer one displaces it.
    SessionId,
}

impl NamespaceId {
    /// The namespace `default`, which exists from the first index on and is never removed.
    pub const DEFAULT: Self = Self::from_u128(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bits_agree() {
        for bits in [0, 1, 35, 36, u128::from(u64::MAX), u128::MAX] {
            let id = Id::from_u128(bits);
            assert_eq!(id.to_string().len(), TEXT_LEN);
            assert_eq!(id.to_string().parse::<Id>(), Ok(id));
        }
    }

    #[test]
    fn refuses_what_is_no_id() {
        assert_eq!("abc".parse::<Id>(), Err(IdError::Length(3)));
        assert_eq!("ZZZZZZZZZZZZZZZZZZZZZZZZZ".parse::<Id>(), Err(IdError::Character('Z')));
        assert_eq!("zzzzzzzzzzzzzzzzzzzzzzzzz".parse::<Id>(), Err(IdError::Range));
    }

    #[test]
    fn a_prefix_is_a_range() {
        let id = Id::from_u128(0x1234_5678_9abc_def0_1234_5678_9abc_def0);
        let text = id.to_string();
        for n in 0..=TEXT_LEN {
            let range = Id::prefix_range(&text[..n]).expect("a real prefix");
            assert!(range.contains(&id), "{n}");
            assert!(range.start().to_string().starts_with(&text[..n]), "{n}");
            assert!(range.end().to_string().starts_with(&text[..n]), "{n}");
        }
        assert_eq!(Id::prefix_range(""), Some(Id::from_u128(0)..=Id::from_u128(u128::MAX)));
        assert_eq!(Id::prefix_range("z"), None);
        assert_eq!(Id::prefix_range("A"), None);
    }
}
