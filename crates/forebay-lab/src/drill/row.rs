//! Brings the runs of one arm at one number of workers down to one row of a table.

use forebay_core::{Mode, RefusalReason};
use indexmap::IndexMap;

use super::measure::{Latency, Measured, Statistic};
use super::{Drill, Run};

/// The runs of one arm at one number of workers, over all seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// How requests are routed.
    pub arm: Mode,
    /// Number of workers.
    pub workers: u32,
    /// The share of all offered requests that was completed, 0 to 1.
    pub completed_share: f64,
    /// Requests refused, over all seeds.
    pub refused: u64,
    /// The same by reason, without the reasons of none.
    pub refused_by: IndexMap<&'static str, u64>,
    /// Requests abandoned or failed, over all seeds.
    pub lost: u64,
    /// Requests offered, over all seeds.
    pub offered: u64,
    /// TTFT over all offered requests: means of the seeds' figures, and the largest of their
    /// maxima.
    pub ttft: Option<Latency>,
    /// Mean gap between tokens over the served requests, in milliseconds: the mean of the seeds'
    /// means.
    pub itl_ms_mean: Option<f64>,
    /// Mean whole latency over all offered requests, in milliseconds: the mean of the seeds' means.
    pub e2e_ms_mean: Option<f64>,
    /// Makespan in seconds: the mean of the seeds'.
    pub makespan_s: f64,
    /// Makespan as a multiple of round-robin's: the mean of the seeds' ratios. `None` without that
    /// arm.
    pub makespan_ratio: Option<f64>,
    /// Preemptions in a run: the mean of the seeds'.
    pub preemptions: f64,
}

impl Row {
    /// The rows of a drill: by number of workers, then in the order of the arms.
    pub fn all(drill: &Drill) -> Vec<Self> {
        let cells = drill
            .design
            .workers
            .iter()
            .flat_map(|workers| drill.design.arms.iter().map(|arm| (*workers, *arm)));
        cells.map(|(workers, arm)| Self::of(drill, workers, arm)).collect()
    }

    /// The row of one arm at one number of workers.
    pub fn of(drill: &Drill, workers: u32, arm: Mode) -> Self {
        let runs: Vec<&Measured> = drill.at(workers, arm).map(|run| &run.measured).collect();
        let sum = |count: fn(&Measured) -> u64| runs.iter().map(|run| count(run)).sum::<u64>();
        let offered = sum(|run| run.all.offered);
        let completed = sum(|run| run.all.completed);
        let ratio = |run: &Run| {
            let mut paired = drill.at(workers, Mode::RoundRobin);
            let base = paired.find(|base| base.cell.seed == run.cell.seed)?.measured.makespan_s;
            (base > 0.0).then(|| run.measured.makespan_s / base)
        };
        Self {
            arm,
            workers,
            completed_share: if offered == 0 { 1.0 } else { completed as f64 / offered as f64 },
            refused: sum(|run| run.all.refused),
            refused_by: refused_by(runs.iter().copied()),
            lost: sum(|run| run.all.abandoned + run.all.failed),
            offered,
            ttft: over_seeds(runs.iter().map(|run| run.all.ttft)),
            itl_ms_mean: mean(runs.iter().map(|run| run.all.served_itl.map(|itl| itl.mean))),
            e2e_ms_mean: mean(runs.iter().map(|run| run.all.e2e.map(|e2e| e2e.mean))),
            makespan_s: mean(runs.iter().map(|run| Some(run.makespan_s))).unwrap_or(0.0),
            makespan_ratio: mean(drill.at(workers, arm).map(ratio)),
            preemptions: mean(runs.iter().map(|run| Some(run.preemptions as f64))).unwrap_or(0.0),
        }
    }
}

/// Requests of these runs that were refused for good, by reason, without the reasons of none.
pub fn refused_by<'a>(runs: impl Iterator<Item = &'a Measured>) -> IndexMap<&'static str, u64> {
    let mut counts: IndexMap<&'static str, u64> =
        RefusalReason::ALL.iter().map(|reason| (reason.label(), 0)).collect();
    for (reason, count) in runs.flat_map(|run| &run.all.refused_by) {
        *counts.entry(reason).or_default() += count;
    }
    counts.retain(|_, count| *count > 0);
    counts
}

/// The mean of figures; `None` where one is missing, infinite where one is.
pub fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values = values.collect::<Option<Vec<f64>>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Each figure's mean over the seeds, and the largest of the maxima; `None` where a seed has none.
pub fn over_seeds(latencies: impl Iterator<Item = Option<Latency>>) -> Option<Latency> {
    let latencies = latencies.collect::<Option<Vec<Latency>>>()?;
    let of = |statistic| mean(latencies.iter().map(|latency| Some(latency.get(statistic))));
    Some(Latency {
        mean: of(Statistic::Mean)?,
        p50: of(Statistic::P50)?,
        p75: of(Statistic::P75)?,
        p90: of(Statistic::P90)?,
        p99: of(Statistic::P99)?,
        max: latencies.iter().map(|latency| latency.max).fold(0.0, f64::max),
    })
}
