//! Sums up latencies: means and nearest-rank quantiles, over all that were offered.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A number that is always written with `D` decimals, so that equal runs are equal bytes; `null`
/// where it is infinite or there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fixed<const D: usize>(pub Option<f64>);

impl<const D: usize> Fixed<D> {
    /// A number that is there.
    pub const fn some(value: f64) -> Self {
        Self(Some(value))
    }

    /// Part over whole, or none of nothing.
    pub fn ratio(part: f64, whole: f64) -> Self {
        Self((whole > 0.0).then(|| part / whole))
    }
}

impl<const D: usize> Serialize for Fixed<D> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.filter(|value| value.is_finite()) {
            None => serializer.serialize_none(),
            Some(value) => RawValue::from_string(format!("{value:.D$}"))
                .map_err(serde::ser::Error::custom)?
                .serialize(serializer),
        }
    }
}

/// Milliseconds to the microsecond.
pub type Millis = Fixed<3>;
/// Shares and ratios to the millionth.
pub type Ratio = Fixed<6>;

/// A distribution of latencies. What an unserved request makes infinite is none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// The arithmetic mean.
    pub mean: Millis,
    /// The median.
    pub p50: Millis,
    /// The third quartile.
    pub p75: Millis,
    /// Nine in ten are at most this.
    pub p90: Millis,
    /// Ninety-nine in a hundred are at most this.
    pub p99: Millis,
    /// The largest.
    pub max: Millis,
}

impl Latency {
    /// Of these latencies in nanoseconds, in rising order, and `unserved` more that are infinite.
    pub(crate) fn of(sorted: &[u64], unserved: u64) -> Self {
        let offered = sorted.len() as u64 + unserved;
        let rank = |percent| {
            let place = nearest_rank(offered, percent)?;
            sorted.get(place as usize - 1).map(|nanos| *nanos as f64 / 1e6)
        };
        let sum: u128 = sorted.iter().map(|nanos| u128::from(*nanos)).sum();
        let mean = (unserved == 0 && offered > 0).then(|| sum as f64 / offered as f64 / 1e6);
        Self {
            mean: Fixed(mean),
            p50: Fixed(rank(50)),
            p75: Fixed(rank(75)),
            p90: Fixed(rank(90)),
            p99: Fixed(rank(99)),
            max: Fixed(rank(100)),
        }
    }

    /// Its figures in the order of the columns.
    pub(super) fn columns(&self) -> [Millis; 6] {
        [self.mean, self.p50, self.p75, self.p90, self.p99, self.max]
    }
}

/// The nearest rank of a percentile among so many, from 1: the least rank that at least `percent` %
/// lie at or below. None of nothing.
const fn nearest_rank(count: u64, percent: u64) -> Option<u64> {
    match (count * percent).div_ceil(100) {
        0 => None,
        rank => Some(rank),
    }
}

#[cfg(test)]
mod tests {
    use super::{Fixed, Latency, nearest_rank};

    #[test]
    fn ranks_are_those_computed_by_hand() {
        // 20 % of five are one, 50 % are 2.5 and so the third, 99 % are 4.95 and so the fifth.
        let of_five = [20, 50, 75, 90, 99, 100].map(|percent| nearest_rank(5, percent));
        assert_eq!(of_five, [1, 3, 4, 5, 5, 5].map(Some));
        assert_eq!([nearest_rank(1000, 99), nearest_rank(1, 50)], [Some(990), Some(1)]);
        assert_eq!(nearest_rank(0, 50), None);
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let sorted: Vec<u64> = [15, 20, 35, 40, 50].iter().map(|ms| ms * 1_000_000).collect();
        let latency = Latency::of(&sorted, 0);
        let expected = [32.0, 35.0, 40.0, 50.0, 50.0, 50.0].map(Fixed::some);
        assert_eq!(latency.columns(), expected);
    }

    #[test]
    fn one_unserved_request_makes_the_mean_infinite_but_not_the_median() {
        let latency = Latency::of(&[1_000_000, 2_000_000, 3_000_000], 1);
        assert_eq!(latency.mean.0, None);
        assert_eq!(latency.p50.0, Some(2.0));
        assert_eq!(latency.p75.0, Some(3.0));
        assert_eq!([latency.p90.0, latency.max.0], [None, None]);
    }

    #[test]
    fn numbers_have_a_fixed_number_of_decimals() {
        let shown = |value| serde_json::to_string(&Fixed::<3>(value)).unwrap();
        assert_eq!(shown(Some(2.0)), "2.000");
        assert_eq!(shown(Some(0.000_4)), "0.000");
        assert_eq!(shown(Some(f64::INFINITY)), "null");
        assert_eq!(shown(None), "null");
    }
}
