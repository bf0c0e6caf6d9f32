//! Chance from a seed.

use model::{Id, Span};

/// A stream of numbers that a seed determines (SplitMix64, by Steele, Lea and Flood).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits().checked_rem(bound).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// A span from `low` to `high`.
    pub fn span(&mut self, low: Span, high: Span) -> Span {
        Span(low.0 + self.below((high.0 - low.0).max(0) as u64 + 1) as i64)
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// True in so many of a million times.
    pub fn in_million(&mut self, times: u32) -> bool {
        times > 0 && self.below(1_000_000) < u64::from(times)
    }

    /// One of these; they must not be none.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// A fresh id.
    pub fn id(&mut self) -> Id {
        Id::from_u128(u128::from(self.bits()) << 64 | u128::from(self.bits()))
    }
}
