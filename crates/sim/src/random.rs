//! Chance from a seed.

use model::Id;

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

    /// True once in `n` times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A fresh id.
    pub fn id(&mut self) -> Id {
        Id::from_u128(u128::from(self.bits()) << 64 | u128::from(self.bits()))
    }
}
