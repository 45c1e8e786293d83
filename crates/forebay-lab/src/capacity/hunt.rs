//! Says which rate comes next, and takes runs in.

use super::fault::{self, TargetFault};
use super::judge::{Judged, judge};
use super::{Capacity, Ended, Trial};
use crate::compare::CompareError;
use crate::drill::criteria::Criteria;
use crate::drill::notation::three_digits;
use crate::results::{Outcome, Run};
use crate::stats::knee::{Knee, knee};
use crate::stats::search::{Bounds, Looks, Search, Shown};

/// Runs at a rate that may be INVALID before it counts as beyond the generator's reach: a machine
/// that was busy for a moment is not the limit.
const INVALID_MAX: usize = 3;

/// Runs that an end of the interval needs at least, its own or those of rates between it and the
/// edge. Near saturation a queue remembers for as long as a run lasts, so that one run is one draw
/// however many blocks it is cut into: in the tests one run alone misled in a quarter of searches.
const RUNS_MIN: usize = 2;

/// A search for a capacity.
#[derive(Debug)]
pub struct Hunt {
    search: Search,
    criteria: Criteria,
    seed: u64,
    bounds: Bounds,
    error: f64,
    offered: Vec<Offered>,
    /// Runs so far, those that may not be used included.
    runs: u64,
}

/// A rate with its runs.
#[derive(Debug, Default)]
struct Offered {
    rate: f64,
    runs: Vec<Run>,
    folders: Vec<String>,
    invalid: Vec<String>,
    judged: Option<Judged>,
    why_invalid: String,
}

/// What a run led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The rate looks like this now, for this reason.
    Counted(Looks, String),
    /// The run may not be used, and the rate is tried again.
    Again,
    /// No run at the rate may be used: it is beyond the generator's reach.
    BeyondReach,
}

/// Why a search can't go on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HuntError {
    /// The target is broken, or turns us away.
    #[error(transparent)]
    Target(#[from] TargetFault),
    /// A run can't be judged.
    #[error(transparent)]
    Compare(#[from] CompareError),
}

impl Hunt {
    /// A search that has not begun. Each end of the interval may be wrong with probability `error`.
    pub fn new(bounds: Bounds, criteria: Criteria, seed: u64, error: f64) -> Self {
        let (search, offered) = (Search::new(bounds), Vec::new());
        Self { search, criteria, seed, bounds, error, offered, runs: 0 }
    }

    /// The rate to offer next, and the seed to offer it with: each run has one of its own. `None`
    /// at the end.
    pub fn next(&self) -> Option<(f64, u64)> {
        let seed = self.seed.wrapping_add(self.runs);
        self.search.next_rate().map(|rate| (rate, seed))
    }

    /// Takes in a run at that rate, whose results lie in `folder`.
    pub fn take(&mut self, run: Run, folder: &str) -> Result<Taken, HuntError> {
        let Some((rate, _)) = self.next() else { return Ok(Taken::Again) };
        self.runs += 1;
        let place = self.place(rate);
        let offered = &mut self.offered[place];
        if let Some(invalid) = run.about.invalid.first() {
            offered.invalid.push(folder.to_owned());
            offered.why_invalid.clone_from(&invalid.what);
            if !offered.invalid.len().is_multiple_of(INVALID_MAX) {
                return Ok(Taken::Again);
            }
            // One that counts says more than any number of runs that do not.
            let looks = offered.judged.as_ref().map(|judged| judged.looks);
            self.search.tell(rate, looks.unwrap_or(Looks::BeyondReach));
            return Ok(if looks.is_some() { Taken::Again } else { Taken::BeyondReach });
        }
        fault::of(&run, &self.criteria, &three_digits(rate))?;
        offered.runs.push(run);
        offered.folders.push(folder.to_owned());
        let judged = self.judged(&[place])?;
        let (looks, reason) = (judged.looks, judged.figures.reason.clone());
        self.offered[place].judged = Some(judged);
        self.search.tell(rate, looks);
        self.show_all()?;
        Ok(Taken::Counted(looks, reason))
    }

    /// What is known so far.
    pub fn capacity(&self, ended: Ended) -> Capacity {
        let is_known = |offered: &&Offered| offered.runs.len() + offered.invalid.len() > 0;
        let known = self.offered.iter().filter(is_known);
        let trials: Vec<Trial> = known.map(|offered| self.trial(offered)).collect();
        let points: Vec<(f64, f64)> = trials
            .iter()
            .filter_map(|trial| Some((trial.offered_per_s?, trial.completed_per_s?)))
            .collect();
        let knee = knee(&points).filter(Knee::is_bend);
        Capacity {
            answer: self.search.answer(),
            confidence: 1.0 - self.error,
            knee,
            trials,
            criteria: self.criteria.canonical(),
            criteria_sha256: self.criteria.hash(),
            ended,
        }
    }

    /// The place of a rate among those that were offered, which rise.
    fn place(&mut self, rate: f64) -> usize {
        let place = self.offered.partition_point(|offered| offered.rate < rate * (1.0 - 1e-9));
        let is_there = |it: &Offered| it.rate <= rate * (1.0 + 1e-9);
        if !self.offered.get(place).is_some_and(is_there) {
            self.offered.insert(place, Offered { rate, ..Offered::default() });
        }
        place
    }

    /// Each look at a rate has an equal part of the error that the rate may make: after each run it
    /// is looked at by itself, and with its neighbours.
    fn alpha(&self) -> f64 {
        self.error / f64::from(self.bounds.runs_max)
    }

    fn judged(&self, places: &[usize]) -> Result<Judged, CompareError> {
        let runs: Vec<&Run> = places.iter().flat_map(|place| &self.offered[*place].runs).collect();
        let mut judged = judge(&runs, &self.criteria, self.seed, self.alpha())?;
        judged.shown = judged.shown.filter(|_| runs.len() >= RUNS_MIN);
        Ok(judged)
    }

    /// Tells the search what is shown now about rates near the edge, by themselves and together
    /// with those between them and the edge.
    fn show_all(&mut self) -> Result<(), CompareError> {
        let (low, high) = (self.search.answer().looks_low, self.search.answer().looks_high);
        let counts = |place: &usize| !self.offered[*place].runs.is_empty();
        let places: Vec<usize> = (0..self.offered.len()).filter(counts).collect();
        let is = |within: fn(f64, f64) -> bool, edge: f64| -> Vec<usize> {
            let rate = |place: &&usize| within(self.offered[**place].rate, edge);
            places.iter().filter(rate).copied().collect()
        };
        let (mut well, ill) =
            (is(|rate, low| rate <= low, low), is(|rate, high| rate >= high, high));
        well.reverse();
        for (side, wanted) in [(well, Shown::Holds), (ill, Shown::Fails)] {
            for (nth, place) in side.iter().enumerate() {
                self.show(*place, &side[..=nth], wanted)?;
            }
        }
        Ok(())
    }

    fn show(&mut self, place: usize, with: &[usize], wanted: Shown) -> Result<(), CompareError> {
        let rate = self.offered[place].rate;
        if self.search.tried(rate).is_some_and(|tried| tried.shown.is_some()) {
            return Ok(());
        }
        let own = self.offered[place].judged.as_ref().and_then(|judged| judged.shown);
        if let Some(shown) = own {
            self.search.show(rate, shown);
        } else if with.len() > 1 && self.judged(with)?.shown == Some(wanted) {
            self.search.show(rate, wanted);
        }
        Ok(())
    }

    fn trial(&self, offered: &Offered) -> Trial {
        let rate = offered.rate;
        let tried = self.search.tried(rate);
        let mut trial = Trial {
            per_s: rate,
            runs: offered.folders.clone(),
            invalid_runs: offered.invalid.clone(),
            looks: match tried.map(|tried| tried.looks) {
                Some(Looks::Well) => "well",
                Some(Looks::Ill) => "ill",
                Some(Looks::BeyondReach) | None => "beyond_reach",
            },
            decided: match tried.and_then(|tried| tried.shown) {
                Some(Shown::Holds) => "holds",
                Some(Shown::Fails) => "fails",
                None => "open",
            },
            reason: offered.why_invalid.clone(),
            ..Trial::default()
        };
        if let Some(judged) = &offered.judged {
            let (figures, all) = (&judged.figures, &judged.figures.all);
            let ttft = all.latencies.iter().find(|latency| latency.metric == "ttft_ms");
            trial.reason.clone_from(&figures.reason);
            trial.offered = all.buckets.offered;
            trial.good_share = all.good_share.clone();
            trial.completed_share = all.completed_share.clone();
            trial.refused_share = all.refused_share.clone();
            let each: Vec<[f64; 2]> = offered.runs.iter().filter_map(per_s).collect();
            let mean = |of: usize| {
                let sum: f64 = each.iter().map(|rates| rates[of]).sum();
                (!each.is_empty()).then(|| sum / each.len() as f64)
            };
            (trial.offered_per_s, trial.completed_per_s) = (mean(0), mean(1));
            if let Some(ttft) = ttft {
                trial.ttft_ms_p50 = ttft.offered.p50.clone();
                trial.ttft_ms_p90 = ttft.offered.p90.clone();
            }
        }
        trial
    }
}

/// Requests that came and that were completed a second while those that count were due: what comes
/// out of a target that is offered more than it can do, and neither how it starts nor how it
/// drains.
fn per_s(run: &Run) -> Option<[f64; 2]> {
    let due = || run.rows.iter().filter(|row| !row.is_warmup).map(|row| row.scheduled);
    let (from, to) = (due().min()?, due().max()?);
    let ends = run.rows.iter().filter(|row| row.outcome == Outcome::Completed);
    let ends = ends.filter_map(|row| Some(row.last()?.end));
    let completed = ends.filter(|end| (from..to).contains(end)).count();
    let seconds = (to - from).as_secs_f64();
    (seconds > 0.0).then(|| [due().count() as f64 / seconds, completed as f64 / seconds])
}
