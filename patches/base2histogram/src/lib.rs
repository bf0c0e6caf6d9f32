//! Stands in for the crate of this name in the consensus engine.
//!
//! openraft records the sizes of its batches in histograms that can be read only with its feature `runtime-stats`, which is off here. The
//! crate that it uses for them builds lookup tables for every width it knows at the first use: 26 MB that stay, and about
//! 60 ms of the start, for numbers that nobody can ask for. This one has the part of its interface that openraft names, and counts.
//! It goes when the original builds only the table that is used.

#![forbid(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;

/// Counts what is recorded, and forgets the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram<T = ()> {
    samples: u64,
    _slots: PhantomData<T>,
}

impl<T> Default for Histogram<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Histogram<T> {
    /// A histogram without samples.
    pub fn new() -> Self {
        Self { samples: 0, _slots: PhantomData }
    }

    /// Counts a value.
    pub fn record(&mut self, _value: u64) {
        self.samples += 1;
    }

    /// Counts a value several times.
    pub fn record_n(&mut self, _value: u64, count: u64) {
        self.samples += count;
    }

    /// How many were counted.
    pub fn total(&self) -> u64 {
        self.samples
    }

    /// The count; there are no percentiles.
    pub fn percentile_stats(&self) -> PercentileStats {
        PercentileStats { samples: self.samples, ..PercentileStats::default() }
    }
}

/// The count of a histogram, and percentiles that are always zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PercentileStats {
    /// How many samples there were.
    pub samples: u64,
    /// Always zero.
    pub p0_1: u64,
    /// Always zero.
    pub p1: u64,
    /// Always zero.
    pub p5: u64,
    /// Always zero.
    pub p10: u64,
    /// Always zero.
    pub p50: u64,
    /// Always zero.
    pub p90: u64,
    /// Always zero.
    pub p99: u64,
    /// Always zero.
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[samples: {}]", self.samples)
    }
}

/// A chart without lines.
#[derive(Clone, Debug, Default)]
pub struct AsciiChart;

impl AsciiChart {
    /// An empty chart.
    pub fn new() -> Self {
        Self
    }

    /// Adds nothing.
    pub fn add<T>(self, _name: impl Into<String>, _histogram: Histogram<T>) -> Self {
        self
    }
}

impl fmt::Display for AsciiChart {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
