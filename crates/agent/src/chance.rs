//! The chance in back-off, from a seed.

use model::Span;

use crate::limits::{BACKOFF_MAX, BACKOFF_STEP};

/// Waits that grow while connections fail: each is between nothing and a bound, and the bound goes from step to maximum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    bound: Span,
    state: u64,
}

impl Backoff {
    pub(crate) fn new(seed: u64) -> Self {
        Self { bound: Span::ZERO, state: seed }
    }

    /// How long to wait now.
    pub(crate) fn next(&mut self) -> Span {
        let next = BACKOFF_STEP.0.saturating_add(self.bound.0.saturating_mul(2));
        self.bound = Span(next.min(BACKOFF_MAX.0));
        let share = (u128::from(self.random()) * u128::from(self.bound.0.unsigned_abs())) >> 64;
        Span(i64::try_from(share).unwrap_or(self.bound.0))
    }

    /// A connection has shown that it works.
    pub(crate) fn reset(&mut self) {
        self.bound = Span::ZERO;
    }

    /// SplitMix64: every 64-bit number once in its period, which is all that is needed to spread agents out.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_grow_as_swarmkits_and_waits_lie_below_them() {
        let bounds = [100, 300, 700, 1500, 3100, 6300, 8000, 8000].map(Span::from_millis);
        let mut longest = Span::ZERO;
        for seed in 0..100 {
            let mut backoff = Backoff::new(seed);
            for bound in bounds {
                let wait = backoff.next();
                assert!(wait >= Span::ZERO && wait < bound, "{wait} of {bound}");
                longest = longest.max(wait);
            }
            backoff.reset();
            assert!(backoff.next() < bounds[0]);
        }
        assert!(longest > Span::from_secs(7), "waits reach the upper end: {longest}");
        assert_ne!(Backoff::new(1).next(), Backoff::new(2).next());
    }
}
