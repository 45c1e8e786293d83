//! Reduces a run to the figures that criteria, tables and figures are made of.
//!
//! A run of a million requests shrinks to a few hundred numbers here, so that a matrix of runs
//! holds no more than one record for each thread. Latencies are milliseconds; `f64::INFINITY` is
//! what an unserved request makes of them, and `None` is what there are no requests for: a summary
//! writes `null` for both.

use indexmap::IndexMap;

use crate::simulate::{self, Fate, RequestRecord, RunRecord, Summary, TimelinePoint};

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
    /// Nine in ten are at most this.
    P90,
    /// Ninety-nine in a hundred are at most this.
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
    /// The figures of a summary; `unserved` says whether the group has requests that were never
    /// served.
    fn of(latency: &simulate::Latency, unserved: bool) -> Option<Self> {
        if latency.max.0.is_none() && !unserved {
            return None;
        }
        let figure = |figure: simulate::Millis| figure.0.unwrap_or(f64::INFINITY);
        Some(Self {
            mean: figure(latency.mean),
            p50: figure(latency.p50),
            p75: figure(latency.p75),
            p90: figure(latency.p90),
            p99: figure(latency.p99),
            max: figure(latency.max),
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

/// What a group of requests met: a whole run, or one class of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Logical requests.
    pub offered: u64,
    /// Served to the last token.
    pub completed: u64,
    /// Refused for good.
    pub refused: u64,
    /// Refused for good, by the last reason, without the reasons of none.
    pub refused_by: IndexMap<&'static str, u64>,
    /// Given up by their clients.
    pub abandoned: u64,
    /// Failed by a worker.
    pub failed: u64,
    /// The share of the offered that was served within the thresholds of a good request, 0 to 1; 1
    /// where nothing was offered.
    pub good_share: f64,
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
    fn of(group: &simulate::Group) -> Self {
        let unserved = group.completed < group.offered;
        let offered = |latency| Latency::of(latency, unserved);
        let served = |latency| Latency::of(latency, false);
        Self {
            offered: group.offered,
            completed: group.completed,
            refused: group.refused,
            refused_by: group.refused_by.clone(),
            abandoned: group.abandoned,
            failed: group.failed,
            good_share: group.goodput_share.0.unwrap_or(1.0),
            ttft: offered(&group.ttft_ms),
            itl: offered(&group.itl_ms),
            e2e: offered(&group.e2e_ms),
            queue: offered(&group.queue_ms),
            served_ttft: served(&group.completed_only.ttft_ms),
            served_itl: served(&group.completed_only.itl_ms),
            served_e2e: served(&group.completed_only.e2e_ms),
        }
    }

    /// The share of the offered that was served to the last token, 0 to 1; 1 where nothing was
    /// offered.
    pub fn completed_share(&self) -> f64 {
        if self.offered == 0 { 1.0 } else { self.completed as f64 / self.offered as f64 }
    }

    /// The share of the offered that was refused for good, 0 to 1; 0 where nothing was offered.
    pub fn refused_share(&self) -> f64 {
        if self.offered == 0 { 0.0 } else { self.refused as f64 / self.offered as f64 }
    }

    /// The share of the offered that a worker failed, or whose client went away first, 0 to 1; 0
    /// where nothing was offered.
    pub fn failed_share(&self) -> f64 {
        let lost = self.failed + self.abandoned;
        if self.offered == 0 { 0.0 } else { lost as f64 / self.offered as f64 }
    }
}

/// What one run comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// All requests.
    pub all: Group,
    /// The requests of each class, in the order of the classes.
    pub classes: IndexMap<String, Group>,
    /// Time to first token over all offered, by tenth of the arrivals; `None` for a tenth that is
    /// empty.
    pub deciles: [Option<Latency>; DECILES],
    /// First scheduled to last end, in seconds.
    pub makespan_s: f64,
    /// Preemptions over all engines.
    pub preemptions: u64,
    /// The fleet over time.
    pub timeline: Vec<TimelinePoint>,
}

impl Measured {
    /// The figures of a run and of the summary that was made of it.
    pub fn of(record: &RunRecord, summary: &Summary) -> Self {
        let classes = summary.classes.iter();
        Self {
            all: Group::of(&summary.all),
            classes: classes.map(|(name, group)| (name.clone(), Group::of(group))).collect(),
            deciles: deciles(&record.requests),
            makespan_s: summary.all.makespan_s.0.unwrap_or(0.0),
            preemptions: record.preemptions,
            timeline: record.timeline.clone(),
        }
    }
}

fn deciles(requests: &[RequestRecord]) -> [Option<Latency>; DECILES] {
    let mut ordered: Vec<&RequestRecord> = requests.iter().collect();
    ordered.sort_by_key(|request| (request.scheduled, request.id));
    std::array::from_fn(|nth| {
        let bound = |nth: usize| nth * ordered.len() / DECILES;
        let tenth = &ordered[bound(nth)..bound(nth + 1)];
        let served = tenth.iter().filter(|request| request.fate == Fate::Completed);
        let mut ttft: Vec<u64> = served
            .filter_map(|request| Some(request.first_token?.since(request.scheduled).0))
            .collect();
        ttft.sort_unstable();
        let unserved = tenth.len() - ttft.len();
        Latency::of(&simulate::Latency::of(&ttft, unserved as u64), unserved > 0)
    })
}

#[cfg(test)]
mod tests {
    use crate::drill::fake;

    #[test]
    fn one_unserved_request_makes_the_mean_infinite_and_leaves_the_median() {
        let measured = fake::measured(&fake::Shape { refused: 1, ..fake::SHAPE }, 1);
        let ttft = measured.all.ttft.unwrap();
        assert!(ttft.mean.is_infinite() && ttft.max.is_infinite());
        assert!(ttft.p50.is_finite());
        assert!(measured.all.served_ttft.unwrap().max.is_finite());
        assert_eq!(measured.all.offered, measured.all.completed + measured.all.refused);
    }

    #[test]
    fn requests_none_of_which_was_served_are_infinitely_late_and_not_missing() {
        let measured = fake::measured(&fake::Shape { refused: 200, ..fake::SHAPE }, 1);
        assert!(measured.all.ttft.unwrap().p50.is_infinite());
        assert_eq!(measured.all.served_ttft, None);
        assert!(measured.deciles.iter().all(|tenth| tenth.unwrap().p50.is_infinite()));
    }

    #[test]
    fn a_run_without_requests_has_no_latencies_and_misses_nothing() {
        let measured = fake::measured(&fake::Shape { requests: 0, ..fake::SHAPE }, 1);
        assert_eq!(measured.all.ttft, None);
        assert!((measured.all.completed_share() - 1.0).abs() < f64::EPSILON);
        assert!(measured.deciles.iter().all(Option::is_none));
    }

    #[test]
    fn deciles_follow_the_arrivals() {
        let measured = fake::measured(&fake::Shape { slope: 5.0, ..fake::SHAPE }, 1);
        let p50 = measured.deciles.map(|tenth| tenth.unwrap().p50);
        assert!(p50[0] < p50[4] && p50[4] < p50[9], "{p50:?}");
    }
}
