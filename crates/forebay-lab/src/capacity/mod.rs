//! Finds the highest rate at which a target meets its criteria.
//!
//! A rate is offered in runs of a fixed length, and judged as any arm is: by intervals over blocks.
//! GO and NO-GO decide it, each with the confidence that was asked for, however often it is looked
//! at; a rate that stays inconclusive is at the edge. Dividing the error among all rates as well
//! would let no rate be decided within minutes, so the confidence is that of each rate.

mod told;

use serde::Serialize;

use crate::compare::{self, Arm, Block, CompareError, Options};
use crate::drill::criteria::Criteria;
use crate::drill::verdict::Outcome;
use crate::results::{Results, Run};
use crate::stats::knee::{Knee, knee};
use crate::stats::search::{Answer, Bounds, Decided, Search};

pub use told::{Growth, told};

/// A search for a capacity.
#[derive(Debug)]
pub struct Hunt {
    search: Search,
    criteria: Criteria,
    seed: u64,
    runs_max: u32,
    error: f64,
    /// The runs at the rate that is tried now.
    runs: Vec<Block>,
    trials: Vec<Trial>,
}

/// A rate that was tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// Requests a second that were offered.
    pub per_s: f64,
    /// Runs at it.
    pub runs: u32,
    /// `holds`, `fails`, or `open`.
    pub decided: &'static str,
    /// Why, in one sentence with figures.
    pub reason: String,
    /// Requests a second that were completed.
    pub completed_per_s: Option<f64>,
    /// The median TTFT over all offered in milliseconds; `None` where it is infinite.
    pub ttft_ms_p50: Option<f64>,
}

/// What a search came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// The rate and its interval.
    pub answer: Answer,
    /// How sure the decision about each rate is.
    pub confidence: f64,
    /// Where the median TTFT bends.
    pub knee: Option<Knee>,
    /// Every rate that was tried, in the order of the search.
    pub trials: Vec<Trial>,
    /// The criteria, one line each.
    pub criteria: String,
    /// Their SHA-256.
    pub criteria_sha256: String,
}

impl Hunt {
    /// A search that has not begun. [`Bounds::blocks_max`] are the runs at one rate at most.
    pub fn new(bounds: Bounds, criteria: Criteria, seed: u64) -> Self {
        Self {
            search: Search::new(bounds),
            criteria,
            seed,
            runs_max: bounds.blocks_max.max(1),
            error: bounds.error,
            runs: Vec::new(),
            trials: Vec::new(),
        }
    }

    /// The rate to offer next, and the seed to offer it with: each run has one of its own. `None`
    /// at the end.
    pub fn next(&self) -> Option<(f64, u64)> {
        let runs = self.trials.iter().map(|trial| u64::from(trial.runs)).sum::<u64>();
        let seed = self.seed.wrapping_add(runs + self.runs.len() as u64);
        self.search.next_rate().map(|rate| (rate, seed))
    }

    /// Takes in a run at that rate, and says what it decides: nothing yet, where it is `None`.
    pub fn take(&mut self, run: Run) -> Result<Option<&Trial>, CompareError> {
        let Some((rate, _)) = self.next() else { return Ok(None) };
        let from = format!("{rate:.3}/s, run {}", self.runs.len() + 1);
        self.runs.push(Block { from, results: Results::Run(Box::new(run)) });
        let arm = Arm { label: format!("{rate:.3}/s"), runs: self.runs.clone() };
        // Each look at a rate has an equal part of the error that the rate may make.
        let alpha = self.error / f64::from(self.runs_max);
        let options = Options { seed: self.seed, confidence: 1.0 - alpha, ..Options::default() };
        let comparison = compare::compare(&[arm], &self.criteria, &options)?;
        let Some(figures) = comparison.arms.first() else { return Ok(None) };
        let runs = self.runs.len() as u32;
        let decided = match figures.outcome.0 {
            Outcome::Go => Decided::Holds,
            Outcome::NoGo => Decided::Fails,
            Outcome::Inconclusive if runs < self.runs_max => return Ok(None),
            Outcome::Inconclusive => Decided::Open,
        };
        let ttft = figures.all.latencies.iter().find(|latency| latency.metric == "ttft_ms");
        self.trials.push(Trial {
            per_s: rate,
            runs,
            decided: match decided {
                Decided::Holds => "holds",
                Decided::Fails => "fails",
                Decided::Open => "open",
            },
            reason: figures.reason.clone(),
            completed_per_s: figures.completed_per_s.value.filter(|value| value.is_finite()),
            ttft_ms_p50: ttft
                .and_then(|ttft| ttft.offered.p50.value)
                .filter(|value| value.is_finite()),
        });
        self.runs.clear();
        self.search.settle(decided);
        Ok(self.trials.last())
    }

    /// What is known so far.
    pub fn capacity(&self) -> Capacity {
        let points: Vec<(f64, f64)> = self
            .trials
            .iter()
            .filter_map(|trial| Some((trial.per_s, trial.ttft_ms_p50?)))
            .collect();
        Capacity {
            answer: self.search.answer(),
            confidence: 1.0 - self.error,
            knee: knee(&points),
            trials: self.trials.clone(),
            criteria: self.criteria.canonical(),
            criteria_sha256: self.criteria.hash(),
        }
    }
}

impl Capacity {
    /// 0 where the interval is as narrow as was asked for, 1 where not even the lowest rate holds,
    /// 3 where the search ended too early to tell.
    pub fn exit_code(&self) -> u8 {
        let fails_everywhere = self.answer.rate.is_none()
            && self.trials.iter().any(|trial| trial.decided == "fails")
            && self.trials.iter().all(|trial| trial.decided != "open");
        match (self.answer.rate, self.answer.is_settled) {
            (Some(_), true) => 0,
            (None, _) if fails_everywhere => 1,
            _ => 3,
        }
    }
}

#[cfg(test)]
mod tests;
