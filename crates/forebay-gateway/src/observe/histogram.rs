//! Counts values by size, from any thread and without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of waits and latencies in nanoseconds: from what nobody notices to what nobody
/// waits for.
pub(crate) const WAITS: [u64; 18] = bounds([
    1_000,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    20_000_000,
    40_000_000,
    80_000_000,
    160_000_000,
    320_000_000,
    640_000_000,
]);
/// Upper bounds of gaps between tokens in nanoseconds: a reader notices from about 100 ms.
pub(crate) const GAPS: [u64; 14] = bounds([
    2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 50_000, 75_000, 100_000, 200_000, 400_000,
    800_000, 1_600_000, 5_000_000,
]);
/// Upper bounds of decisions in nanoseconds.
pub(crate) const DECISIONS: [u64; 11] = bounds([1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000]);
/// Upper bounds of lengths in tokens.
pub(crate) const LENGTHS: [u64; 14] =
    [16, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072, 262_144];
/// Upper bounds of ratios in thousandths.
pub(crate) const RATIOS: [u64; 11] =
    [100, 250, 500, 750, 900, 1_100, 1_500, 2_000, 4_000, 8_000, 16_000];

/// Microseconds as nanoseconds.
const fn bounds<const N: usize>(micros: [u64; N]) -> [u64; N] {
    let mut nanos = [0; N];
    let mut nth = 0;
    while nth < N {
        nanos[nth] = micros[nth] * 1_000;
        nth += 1;
    }
    nanos
}

/// Counts of values between bounds, and their sum.
///
/// Values are whole numbers of a small unit, since a float can't be added without a lock.
#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: &'static [u64],
    /// One more than bounds: the last is of what lies above them all.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// A histogram as it was at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counted {
    /// The sum of all values, in the unit that is shown.
    pub(crate) sum: f64,
    /// Upper bounds in the unit that is shown, and how many values lie between each and the one
    /// before. The last bound is infinite.
    pub(crate) buckets: Vec<(f64, u64)>,
}

impl Histogram {
    /// An empty histogram with these upper bounds, which must grow.
    pub(crate) fn new(bounds: &'static [u64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Counts a value.
    pub(crate) fn record(&self, value: u64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        // Nothing else is read on the strength of these, so their order does not matter.
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// What was counted so far, where one shown unit has so many small ones.
    pub(crate) fn counted(&self, unit: f64) -> Counted {
        let bounds = self.bounds.iter().map(|bound| *bound as f64 / unit);
        let bounds = bounds.chain([f64::INFINITY]);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        Counted {
            sum: self.sum.load(Ordering::Relaxed) as f64 / unit,
            buckets: bounds.zip(counts).collect(),
        }
    }
}

impl Counted {
    /// How many values were counted.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{DECISIONS, GAPS, Histogram, LENGTHS, RATIOS, WAITS};

    #[test]
    fn a_value_is_counted_below_the_first_bound_that_is_not_less() {
        let histogram = Histogram::new(&[10, 20]);
        [0, 10, 11, 20, 21, 1_000].into_iter().for_each(|value| histogram.record(value));
        let counted = histogram.counted(10.0);
        assert_eq!(counted.buckets, [(1.0, 2), (2.0, 2), (f64::INFINITY, 2)]);
        assert!((counted.sum - 106.2).abs() < 1e-9);
        assert_eq!(counted.count(), 6);
    }

    #[test]
    fn all_bounds_grow() {
        let all: [&[u64]; 5] = [&WAITS, &GAPS, &DECISIONS, &LENGTHS, &RATIOS];
        assert!(all.iter().all(|bounds| bounds.is_sorted_by(|a, b| a < b)));
    }
}
