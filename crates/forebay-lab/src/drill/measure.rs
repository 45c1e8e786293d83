//! Reduces a run to the figures that criteria, tables and figures are made of.
//!
//! A run of a million requests shrinks to a few hundred numbers here, so that a matrix of runs holds no more
//! than one record for each thread. Latencies are milliseconds, counted from the first scheduled attempt;
//! quantiles are nearest-rank, and a request that was never served counts as infinitely late.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use crate::simulate::{Fate, RequestRecord, RunRecord, TimelinePoint};

/// Groups of equal size into which a run's requests are cut in order of arrival.
pub const DECILES: usize = 10;

/// What to look at in a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statistic {
    /// The arithmetic mean.
    Mean,
    /// The median.
    P50,
    /// The third quartile.
    P75,
    /// Nine in ten are below it.
    P90,
    /// Ninety-nine in a hundred are below it.
    P99,
    /// The largest.
    Max,
}

impl Statistic {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 6] = [Self::Mean, Self::P50, Self::P75, Self::P90, Self::P99, Self::Max];

    /// Its name in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P75 => "p75",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::Max => "max",
        }
    }
}

/// A distribution of latencies in milliseconds; `f64::INFINITY` where unserved requests make it so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// The arithmetic mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The third quartile.
    pub p75: f64,
    /// The ninth decile.
    pub p90: f64,
    /// The ninety-ninth percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Latency {
    /// The figures of some latencies in milliseconds, or `None` where there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let rank = |share: f64| nearest_rank(&values, share);
        Some(Self {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            p50: rank(0.5),
            p75: rank(0.75),
            p90: rank(0.9),
            p99: rank(0.99),
            max: rank(1.0),
        })
    }

    /// One of the figures.
    pub const fn get(&self, statistic: Statistic) -> f64 {
        match statistic {
            Statistic::Mean => self.mean,
            Statistic::P50 => self.p50,
            Statistic::P75 => self.p75,
            Statistic::P90 => self.p90,
            Statistic::P99 => self.p99,
            Statistic::Max => self.max,
        }
    }
}

/// The smallest of the sorted values that at least this share of them does not exceed.
fn nearest_rank(sorted: &[f64], share: f64) -> f64 {
    // The small amount taken off keeps a product such as 0.9 × 10 from being rounded up past its rank.
    let rank = (share * sorted.len() as f64 - 1e-9).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// What a group of requests met: a whole run, or one class of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Logical requests.
    pub offered: u64,
    /// Served to the last token.
    pub completed: u64,
    /// Refused for good.
    pub refused: u64,
    /// Given up by their clients.
    pub abandoned: u64,
    /// Failed by a worker.
    pub failed: u64,
    /// Time to first token, over all offered.
    pub ttft: Option<Latency>,
    /// Mean gap between tokens of each request of at least two, over all offered.
    pub itl: Option<Latency>,
    /// Time to the last token, over all offered.
    pub e2e: Option<Latency>,
    /// Arrival to dispatch, over all offered.
    pub queue: Option<Latency>,
    /// Time to first token, over the served only.
    pub served_ttft: Option<Latency>,
    /// Gaps between tokens, over the served only.
    pub served_itl: Option<Latency>,
    /// Time to the last token, over the served only.
    pub served_e2e: Option<Latency>,
}

impl Group {
    fn of(requests: &[&RequestRecord]) -> Self {
        let count = |wanted: fn(&Fate) -> bool| {
            requests.iter().filter(|request| wanted(&request.fate)).count() as u64
        };
        let offered = |latency: fn(&RequestRecord) -> Option<f64>| {
            let unserved = |request: &RequestRecord| request.fate != Fate::Completed;
            let of_one = |request: &&RequestRecord| {
                if unserved(request) { Some(f64::INFINITY) } else { latency(request) }
            };
            Latency::of(requests.iter().filter_map(of_one).collect())
        };
        let served = |latency: fn(&RequestRecord) -> Option<f64>| {
            let completed = requests.iter().filter(|request| request.fate == Fate::Completed);
            Latency::of(completed.filter_map(|request| latency(request)).collect())
        };
        Self {
            offered: requests.len() as u64,
            completed: count(|fate| matches!(fate, Fate::Completed)),
            refused: count(|fate| matches!(fate, Fate::Refused(_))),
            abandoned: count(|fate| matches!(fate, Fate::Abandoned)),
            failed: count(|fate| matches!(fate, Fate::Failed(_))),
            ttft: offered(ttft_ms),
            itl: offered(itl_ms),
            e2e: offered(e2e_ms),
            queue: Latency::of(requests.iter().map(|request| queue_ms(request)).collect()),
            served_ttft: served(ttft_ms),
            served_itl: served(itl_ms),
            served_e2e: served(e2e_ms),
        }
    }

    /// The share of the offered that was served to the last token, 0 to 1; 1 where nothing was offered.
    pub fn completed_share(&self) -> f64 {
        if self.offered == 0 { 1.0 } else { self.completed as f64 / self.offered as f64 }
    }

    /// The share of the offered that was refused for good, 0 to 1; 0 where nothing was offered.
    pub fn refused_share(&self) -> f64 {
        if self.offered == 0 { 0.0 } else { self.refused as f64 / self.offered as f64 }
    }
}

/// What one run comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// All requests.
    pub all: Group,
    /// The requests of each class, in the order of the classes.
    pub classes: IndexMap<String, Group>,
    /// Final reasons of refusals and how often each was given.
    pub refused_by: BTreeMap<&'static str, u64>,
    /// Time to first token over all offered, by tenth of the arrivals; `None` for a tenth that is empty.
    pub deciles: [Option<Latency>; DECILES],
    /// First scheduled to last end, in seconds.
    pub makespan_s: f64,
    /// Preemptions over all engines.
    pub preemptions: u64,
    /// The fleet over time.
    pub timeline: Vec<TimelinePoint>,
}

impl Measured {
    /// The figures of a run.
    pub fn of(record: &RunRecord) -> Self {
        let all: Vec<&RequestRecord> = record.requests.iter().collect();
        let class = |place: usize| -> Vec<&RequestRecord> {
            all.iter().copied().filter(|request| usize::from(request.class) == place).collect()
        };
        let mut refused_by = BTreeMap::new();
        for request in &all {
            if let Fate::Refused(reason) = request.fate {
                *refused_by.entry(reason.label()).or_insert(0) += 1;
            }
        }
        let classes = record.classes.iter().enumerate();
        Self {
            classes: classes
                .map(|(place, name)| (name.clone(), Group::of(&class(place))))
                .collect(),
            refused_by,
            deciles: deciles(&all),
            makespan_s: makespan_s(&all),
            preemptions: record.preemptions,
            timeline: record.timeline.clone(),
            all: Group::of(&all),
        }
    }
}

fn ttft_ms(request: &RequestRecord) -> Option<f64> {
    request.first_token.map(|first| first.since(request.scheduled).as_millis_f64())
}

fn e2e_ms(request: &RequestRecord) -> Option<f64> {
    Some(request.ended.since(request.scheduled).as_millis_f64())
}

fn itl_ms(request: &RequestRecord) -> Option<f64> {
    let first = request.first_token?;
    (request.output >= 2)
        .then(|| request.ended.since(first).as_millis_f64() / (request.output - 1) as f64)
}

fn queue_ms(request: &RequestRecord) -> f64 {
    request.queue.map_or(f64::INFINITY, forebay_core::Span::as_millis_f64)
}

fn makespan_s(requests: &[&RequestRecord]) -> f64 {
    let first = requests.iter().map(|request| request.scheduled).min();
    let last = requests.iter().map(|request| request.ended).max();
    first.zip(last).map_or(0.0, |(first, last)| last.since(first).as_secs_f64())
}

fn deciles(requests: &[&RequestRecord]) -> [Option<Latency>; DECILES] {
    let mut ordered = requests.to_vec();
    ordered.sort_by_key(|request| (request.scheduled, request.id));
    std::array::from_fn(|nth| {
        let bound = |nth: usize| nth * ordered.len() / DECILES;
        let tenth = &ordered[bound(nth)..bound(nth + 1)];
        let of_one = |request: &&RequestRecord| match request.fate {
            Fate::Completed => ttft_ms(request),
            _ => Some(f64::INFINITY),
        };
        Latency::of(tenth.iter().filter_map(of_one).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::{Latency, Measured, Statistic};
    use crate::drill::fake;

    #[test]
    fn quantiles_are_nearest_rank() {
        let latency = Latency::of((1..=10).map(f64::from).collect()).unwrap();
        let figures = Statistic::ALL.map(|statistic| latency.get(statistic));
        assert_eq!(figures, [5.5, 5.0, 8.0, 9.0, 10.0, 10.0]);
        assert_eq!(Latency::of(vec![]), None);
    }

    #[test]
    fn one_unserved_request_makes_the_mean_infinite_and_leaves_the_median() {
        let measured = Measured::of(&fake::run(&fake::Shape { refused: 1, ..fake::SHAPE }, 1));
        let ttft = measured.all.ttft.unwrap();
        assert!(ttft.mean.is_infinite() && ttft.max.is_infinite());
        assert!(ttft.p50.is_finite());
        assert!(measured.all.served_ttft.unwrap().max.is_finite());
        assert_eq!(measured.all.offered, measured.all.completed + measured.all.refused);
        assert_eq!(measured.refused_by.values().sum::<u64>(), 1);
    }

    #[test]
    fn a_run_without_requests_has_no_latencies_and_misses_nothing() {
        let measured = Measured::of(&fake::run(&fake::Shape { requests: 0, ..fake::SHAPE }, 1));
        assert_eq!(measured.all.ttft, None);
        assert!((measured.all.completed_share() - 1.0).abs() < f64::EPSILON);
        assert!(measured.deciles.iter().all(Option::is_none));
    }

    #[test]
    fn deciles_follow_the_arrivals() {
        let measured = Measured::of(&fake::run(&fake::Shape { slope: 5.0, ..fake::SHAPE }, 1));
        let p50 = measured.deciles.map(|tenth| tenth.unwrap().p50);
        assert!(p50[0] < p50[4] && p50[4] < p50[9], "{p50:?}");
    }
}
