//! A fingerprint of everything that managers and agents ever wanted done, in order: two runs with the same one did the same.

use std::fmt::{self, Write};

/// A running hash. No text is kept.
#[derive(Clone, Debug)]
pub struct Trace {
    hash: u64,
    rest: [u8; 8],
    filled: usize,
    effects: u64,
    exact: bool,
}

/// An odd number whose bits are evenly spread: what is multiplied by it touches every bit above.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Trace {
    /// An empty one. An exact one takes in every value of every effect, which costs about as much as everything else; another one only when each
    /// was, and who wanted it.
    pub fn new(exact: bool) -> Self {
        Self { hash: 0, rest: [0; 8], filled: 0, effects: 0, exact }
    }

    /// Takes in an effect, with the moment and who wants it.
    pub fn note(&mut self, at: i64, who: u64, effect: &dyn fmt::Debug) {
        self.effects += 1;
        self.mix(at as u64);
        self.mix(who);
        if self.exact {
            // Writing to a hash cannot fail.
            let _ = write!(self, "{effect:?}");
        }
    }

    /// The fingerprint so far.
    pub fn fingerprint(&self) -> u64 {
        let mut end = self.clone();
        end.mix(u64::from_le_bytes(self.rest) ^ self.filled as u64);
        end.hash
    }

    /// How many effects there were.
    pub fn effects(&self) -> u64 {
        self.effects
    }

    fn mix(&mut self, word: u64) {
        self.hash = (self.hash.rotate_left(23) ^ word).wrapping_mul(SPREAD);
    }
}

impl Write for Trace {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut bytes = text.as_bytes();
        if self.filled > 0 {
            let take = bytes.len().min(8 - self.filled);
            self.rest[self.filled..self.filled + take].copy_from_slice(&bytes[..take]);
            self.filled += take;
            bytes = &bytes[take..];
            if self.filled < 8 {
                return Ok(());
            }
            self.mix(u64::from_le_bytes(self.rest));
            self.filled = 0;
        }
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let mut eight = [0; 8];
            eight.copy_from_slice(word);
            self.mix(u64::from_le_bytes(eight));
        }
        let rest = words.remainder();
        self.rest[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(effects: &[&str]) -> u64 {
        let mut trace = Trace::new(true);
        effects.iter().for_each(|e| trace.note(1, 2, e));
        trace.fingerprint()
    }

    #[test]
    fn every_letter_counts() {
        assert_eq!(of(&["a long effect", "b"]), of(&["a long effect", "b"]));
        assert_ne!(of(&["a long effect", "b"]), of(&["a long effect", "c"]));
        assert_ne!(of(&["a long effect", "b"]), of(&["a lone effect", "b"]));
        assert_ne!(of(&["a"]), of(&["a", "a"]));
    }
}
