//! Finds what is known of a latency over all that were offered, from requests or from summaries.
//!
//! A summary has percentiles of the completed only. Over all offered each of them lies further
//! down: with 14 % unserved the median of the offered is the 58th percentile of the completed,
//! which lies between the median and the 75th that the summary gives. That is said as bounds; a
//! figure between them would be made up.

use super::request::Unit;
use crate::drill::criteria::Metric;
use crate::results::{Outcome, Spread};
use crate::stats::quantile::Pooled;
use crate::stats::share::{Share, Tally};

/// A latency of the requests of a group over all units of an arm.
pub(super) enum Known {
    /// Every value.
    Values {
        /// Over all offered.
        offered: Pooled,
        /// By unit, for the share at or below a value.
        units: Vec<Vec<f64>>,
    },
    /// What summaries say, with what each offered.
    Spreads(Vec<(Spread, f64)>),
}

/// What is known of one quantile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Known {
    /// The latency of a class over these units; `None` where nothing is known.
    pub(super) fn of(units: &[Unit], metric: Metric, class: Option<&str>) -> Option<Self> {
        if units.iter().all(|unit| matches!(unit, Unit::Requests(_))) {
            let of = |unit: &Unit| -> Vec<f64> {
                let requests = unit.requests().iter().filter(|request| request.is_of(class));
                let values = requests.map(|request| request.latency(metric));
                values.filter(|value| !value.is_nan()).collect()
            };
            let units: Vec<Vec<f64>> = units.iter().map(of).collect();
            let offered = Pooled::of(&units);
            return (!offered.is_empty()).then_some(Self::Values { offered, units });
        }
        if class.is_some() {
            return None;
        }
        let spreads = units.iter().map(|unit| spread(unit, metric)).collect::<Option<Vec<_>>>()?;
        (!spreads.is_empty()).then_some(Self::Spreads(spreads))
    }

    /// A quantile over all offered.
    pub(super) fn offered(&self, q: f64) -> Bounds {
        match self {
            Self::Values { offered, .. } => {
                let value = offered.quantile(q).unwrap_or(f64::NAN);
                Bounds { low: value, high: value }
            }
            Self::Spreads(spreads) => bounded(spreads, q),
        }
    }

    /// A quantile over the completed.
    pub(super) fn survivors(&self, q: f64) -> Option<Bounds> {
        match self {
            Self::Values { units, .. } => {
                let value = served(units).quantile(q)?;
                Some(Bounds { low: value, high: value })
            }
            Self::Spreads(spreads) => {
                let of = |(spread, _): &(Spread, f64)| (spread.clone(), spread.count as f64);
                let served: Vec<(Spread, f64)> = spreads.iter().map(of).collect();
                Some(bounded(&served, q)).filter(|bounds| bounds.low.is_finite())
            }
        }
    }

    /// The mean over the completed.
    pub(super) fn survivors_mean(&self) -> Option<f64> {
        match self {
            Self::Values { units, .. } => served(units).mean(),
            Self::Spreads(spreads) => {
                let count: u64 = spreads.iter().map(|(spread, _)| spread.count).sum();
                let sum: f64 = spreads.iter().map(|(it, _)| it.mean * it.count as f64).sum();
                (count > 0).then(|| sum / count as f64)
            }
        }
    }

    /// The mean over all offered of each unit: infinite where one was not served.
    pub(super) fn means(&self) -> Vec<f64> {
        match self {
            Self::Values { units, .. } => units
                .iter()
                .filter_map(|unit| Pooled::of(std::slice::from_ref(unit)).mean())
                .collect(),
            Self::Spreads(spreads) => spreads
                .iter()
                .map(
                    |(spread, of)| {
                        if spread.count as f64 >= *of { spread.mean } else { f64::INFINITY }
                    },
                )
                .collect(),
        }
    }

    /// Requests beyond a limit by unit: at least, and at most.
    pub(super) fn beyond(&self, limit: f64) -> (Vec<Tally>, Vec<Tally>) {
        match self {
            Self::Values { units, .. } => {
                let of = |unit: &Vec<f64>| Tally {
                    of: unit.len() as f64,
                    hit: unit.iter().filter(|value| **value > limit).count() as f64,
                };
                let tallies: Vec<Tally> = units.iter().map(of).collect();
                (tallies.clone(), tallies)
            }
            Self::Spreads(spreads) => spreads
                .iter()
                .map(|(spread, of)| {
                    let (low, high) = at_most(spread, limit);
                    let beyond =
                        |share: f64| Tally { of: *of, hit: of - share * spread.count as f64 };
                    (beyond(high), beyond(low))
                })
                .unzip(),
        }
    }

    /// The interval of a quantile over all offered with these errors below and above: the
    /// quantiles at the ends of the interval of the share that lies at or below it (Woodruff, JASA
    /// 47, 1952). `None` where only bounds are known.
    pub(super) fn interval(
        &self,
        q: f64,
        (below, above): (f64, f64),
        autocorrelation: f64,
    ) -> Option<Bounds> {
        let Self::Values { offered, .. } = self else { return None };
        let (beyond, _) = self.beyond(offered.quantile(q)?);
        let spread = Share::of(&beyond, autocorrelation)?;
        let (low, high) = Share { value: q, ..spread }.interval(below, above);
        Some(Bounds { low: offered.quantile(low)?, high: offered.quantile(high)? })
    }
}

fn served(units: &[Vec<f64>]) -> Pooled {
    let finite = |unit: &Vec<f64>| -> Vec<f64> {
        unit.iter().copied().filter(|value| value.is_finite()).collect()
    };
    Pooled::of(&units.iter().map(finite).collect::<Vec<_>>())
}

/// What a summary says of a latency, and how many requests it is to be held against.
fn spread(unit: &Unit, metric: Metric) -> Option<(Spread, f64)> {
    let Unit::Figures(figures) = unit else { return None };
    let spread = match metric {
        Metric::Ttft => figures.ttft_ms.clone(),
        Metric::Itl => figures.itl_ms.clone(),
        Metric::E2e => figures.e2e_ms.clone(),
        Metric::Queue => None,
    }?;
    let completed = figures.counts.get(&Outcome::Completed).copied().unwrap_or(0);
    // Completed requests without the figure, such as answers of one token, are in no population of
    // it.
    let without = completed.saturating_sub(spread.count);
    let offered = figures.offered().saturating_sub(without);
    (spread.count > 0).then_some((spread, offered as f64))
}

/// The share of a summary's requests at or below `limit`: at least, and at most.
fn at_most(spread: &Spread, limit: f64) -> (f64, f64) {
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for (share, value) in points(spread) {
        if value <= limit { low = low.max(share) } else { high = high.min(share) }
    }
    (low, high.max(low))
}

/// The distribution of a summary as far as it is known: shares with their values, rising.
fn points(spread: &Spread) -> Vec<(f64, f64)> {
    let range = spread.range.map(|(least, most)| [(0.0, least), (1.0, most)]);
    let mut points: Vec<(f64, f64)> =
        spread.percentiles.iter().map(|(p, value)| (f64::from(*p) / 100.0, *value)).collect();
    points.extend(range.into_iter().flatten());
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

/// The bounds of a quantile over several summaries, of which each has `of` requests to count.
fn bounded(spreads: &[(Spread, f64)], q: f64) -> Bounds {
    let whole: f64 = spreads.iter().map(|(_, of)| of).sum();
    let mut values: Vec<f64> =
        spreads.iter().flat_map(|(spread, _)| points(spread)).map(|(_, value)| value).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let share = |limit: f64| {
        let of = |(spread, _): &(Spread, f64)| {
            let (low, high) = at_most(spread, limit);
            (low * spread.count as f64, high * spread.count as f64)
        };
        let (low, high): (Vec<f64>, Vec<f64>) = spreads.iter().map(of).unzip();
        (low.iter().sum::<f64>() / whole, high.iter().sum::<f64>() / whole)
    };
    let enough = |share: f64| share >= q - 1e-9;
    let reaches =
        |of: fn((f64, f64)) -> f64| values.iter().copied().find(|value| enough(of(share(*value))));
    let high = reaches(|(low, _)| low).unwrap_or(f64::INFINITY);
    // A percentile lies at its value and not below: what may lie below it falls short of its share.
    let least = values.iter().copied().find(|value| share(*value).1 > q + 1e-9);
    let low = least.unwrap_or(f64::INFINITY);
    Bounds { low: low.min(high), high }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Known, bounded};
    use crate::results::Spread;

    fn spread(count: u64) -> Spread {
        let percentiles = [(25, 3.0), (50, 5.0), (75, 11.0), (90, 14.0), (99, 18.0)];
        Spread {
            count,
            mean: 6.4,
            std: None,
            range: Some((0.1, 20.0)),
            percentiles: BTreeMap::from(percentiles),
        }
    }

    #[test]
    fn a_quantile_of_all_offered_lies_between_the_percentiles_that_are_told() {
        // 85 of 100 completed: the median of the offered is their 58.8th percentile.
        let bounds = bounded(&[(spread(85), 100.0)], 0.5);
        assert_eq!((bounds.low, bounds.high), (5.0, 11.0));
        // Nine in ten of the offered are more than were completed.
        let bounds = bounded(&[(spread(85), 100.0)], 0.9);
        assert!(bounds.low.is_infinite() && bounds.high.is_infinite());
        // With nobody lost the percentiles are those that are told.
        let bounds = bounded(&[(spread(100), 100.0)], 0.5);
        assert_eq!((bounds.low, bounds.high), (5.0, 5.0));
    }

    #[test]
    fn requests_beyond_a_limit_are_bounded_too_and_count_the_unserved() {
        let known = Known::Spreads(vec![(spread(85), 100.0)]);
        let (low, high) = known.beyond(12.0);
        // Between 75 % and 90 % of the 85 are within 12.
        assert!((low[0].hit - 23.5).abs() < 1e-9 && (high[0].hit - 36.25).abs() < 1e-9);
        assert!(known.means()[0].is_infinite());
        let survivors = known.survivors(0.9).unwrap();
        assert!((survivors.low - 14.0).abs() < 1e-9);
    }
}
