//! Sums up latencies over all that were offered, with what was never served as infinitely late.

use serde::Serialize;

use crate::simulate::{Fixed, Millis};

/// A distribution. What an unserved request makes infinite has no figure, which is written `null`:
/// it is undefined, and neither zero nor the largest that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// The arithmetic mean.
    pub mean: Millis,
    /// The median.
    pub p50: Millis,
    /// The third quartile.
    pub p75: Millis,
    /// Nine in ten are at most this.
    pub p90: Millis,
    /// Nineteen in twenty are at most this.
    pub p95: Millis,
    /// Ninety-nine in a hundred are at most this.
    pub p99: Millis,
    /// The largest.
    pub max: Millis,
}

impl Quantiles {
    /// Of these values in microseconds, in rising order, and so many more that are infinite; each
    /// by nearest rank, so that it is a value that occurred. The figures are milliseconds.
    pub(super) fn of(sorted: &[u64], infinite: u64) -> Self {
        let all = sorted.len() as u64 + infinite;
        let rank = |percent: u64| {
            let place = (all * percent).div_ceil(100).checked_sub(1)?;
            sorted.get(place as usize).map(|micros| *micros as f64 / 1e3)
        };
        let sum: u128 = sorted.iter().map(|micros| u128::from(*micros)).sum();
        let mean = (infinite == 0 && all > 0).then(|| sum as f64 / all as f64 / 1e3);
        Self {
            mean: Fixed(mean),
            p50: Fixed(rank(50)),
            p75: Fixed(rank(75)),
            p90: Fixed(rank(90)),
            p95: Fixed(rank(95)),
            p99: Fixed(rank(99)),
            max: Fixed(rank(100)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fixed, Quantiles};

    #[test]
    fn quantiles_are_values_that_occurred_by_nearest_rank() {
        let sorted: Vec<u64> = (1..=200).map(|ms| ms * 1_000).collect();
        let of = Quantiles::of(&sorted, 0);
        let seen = [of.mean, of.p50, of.p75, of.p90, of.p95, of.p99, of.max];
        assert_eq!(seen, [100.5, 100.0, 150.0, 180.0, 190.0, 198.0, 200.0].map(Fixed::some));
    }

    #[test]
    fn one_in_seven_refused_leaves_p75_and_makes_p90_undefined() {
        let served: Vec<u64> = (1..=6).map(|ms| ms * 1_000).collect();
        let of = Quantiles::of(&served, 1);
        assert_eq!((of.p50, of.p75), (Fixed::some(4.0), Fixed::some(6.0)));
        assert_eq!((of.mean, of.p90, of.max), (Fixed(None), Fixed(None), Fixed(None)));
        let json = serde_json::to_string(&of).unwrap();
        assert!(json.starts_with(r#"{"mean":null,"p50":4.000,"p75":6.000,"p90":null,"#), "{json}");
    }

    #[test]
    fn nothing_has_no_figures() {
        assert_eq!(Quantiles::of(&[], 0).max, Fixed(None));
        assert_eq!(Quantiles::of(&[], 3).p50, Fixed(None));
    }
}
