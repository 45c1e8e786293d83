//! Sums up some requests of an arm: how they ended, and how long they took over all offered.

use super::comparison::{Estimate, Group, LatencyFigures, Quantiles};
use super::known::{Bounds, Known};
use super::request::Unit;
use super::{comparison::Buckets, say};
use crate::drill::criteria::Metric;
use crate::stats::share::{Share, Tally};

/// The latencies that a client sees.
pub(super) const METRICS: [(Metric, &str); 3] =
    [(Metric::Ttft, "ttft_ms"), (Metric::Itl, "itl_ms"), (Metric::E2e, "e2e_ms")];

/// What an arm's figures are made with.
#[derive(Clone, Copy)]
pub(super) struct Sure<'u> {
    pub(super) units: &'u [Unit],
    /// How much neighbouring blocks lean the same way.
    pub(super) autocorrelation: f64,
    /// The error on either side of an interval.
    pub(super) error: f64,
    /// There are limits that tell good from slow.
    pub(super) has_limits: bool,
    /// Runs that the units are of.
    pub(super) runs: usize,
    /// How long those took together, where it is known.
    pub(super) seconds: Option<f64>,
}

impl Sure<'_> {
    /// Counts of each unit; `None` where one does not know them.
    pub(super) fn buckets(&self, class: Option<&str>) -> Option<Vec<Buckets>> {
        self.units.iter().map(|unit| unit.buckets(class, self.has_limits)).collect()
    }

    /// A share over all units with its interval.
    pub(super) fn share(&self, tallies: &[Tally]) -> Option<(Share, Estimate)> {
        let share = Share::of(tallies, self.autocorrelation)?;
        let interval = share.interval(self.error, self.error);
        Some((share, say::share(share.value, interval)))
    }

    /// Everything about the requests of a class, or about all.
    pub(super) fn group(&self, class: Option<&str>) -> Option<Group> {
        let each = self.buckets(class)?;
        let buckets = each.iter().fold(Buckets::none(), |sum, unit| sum.and(*unit));
        let stayed: Vec<Buckets> = each.iter().map(|unit| unit.stayed()).collect();
        let estimate = |count: fn(&Buckets) -> u64| {
            self.share(&tallies(&stayed, count)).map_or_else(say::nothing, |(_, said)| said)
        };
        let completed = estimate(|unit| unit.completed);
        let good = match buckets.good {
            Some(_) => estimate(|unit| unit.good.unwrap_or(0)),
            None => say::share_between(0.0, completed.value.unwrap_or(1.0)),
        };
        let refused = self.share(&tallies(&each, |unit| unit.refused));
        let latencies = METRICS.iter().map(|(metric, name)| {
            let known = Known::of(self.units, *metric, class);
            self.latency(name, known.as_ref(), &buckets)
        });
        Some(Group {
            buckets,
            good_share: good,
            completed_share: completed,
            design_effect: refused
                .as_ref()
                .filter(|_| buckets.refused > 0)
                .map(|(share, _)| share.design_effect),
            refused_share: refused.map_or_else(say::nothing, |(_, said)| said),
            latencies: latencies.collect(),
        })
    }

    fn latency(
        &self,
        metric: &'static str,
        known: Option<&Known>,
        buckets: &Buckets,
    ) -> LatencyFigures {
        let offered = |q: f64| {
            known.map_or_else(say::nothing, |known| {
                let interval = known.interval(q, (self.error, self.error), self.autocorrelation);
                say::latency(known.offered(q), interval, buckets)
            })
        };
        let survivors = |q: f64| {
            let bounds = known.and_then(|known| known.survivors(q));
            bounds.map_or_else(say::nothing, |bounds| say::latency(bounds, None, buckets))
        };
        let mean = known.and_then(Known::survivors_mean);
        LatencyFigures {
            metric,
            offered: Quantiles { p50: offered(0.5), p90: offered(0.9), p99: offered(0.99) },
            survivors: Quantiles { p50: survivors(0.5), p90: survivors(0.9), p99: survivors(0.99) },
            survivors_mean: mean.map_or_else(say::nothing, |mean| {
                say::latency(Bounds { low: mean, high: mean }, None, buckets)
            }),
        }
    }
}

/// A count of each unit against what it offered.
pub(super) fn tallies(units: &[Buckets], count: fn(&Buckets) -> u64) -> Vec<Tally> {
    let of = |unit: &Buckets| Tally { of: unit.offered as f64, hit: count(unit) as f64 };
    units.iter().map(of).collect()
}
