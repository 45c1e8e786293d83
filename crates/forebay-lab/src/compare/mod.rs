//! Compares arms of live runs over everything that was offered, and judges each.
//!
//! | module | does |
//! |---|---|
//! | [`comparison`] | holds what came of it |
//! | `arms` | reads arms from the words that name them |
//! | `drilled` | reads the folder of a live drill |
//! | `same` | finds runs that were given twice |
//! | `request` | reduces a run to its requests, and counts how they ended |
//! | `cut` | cuts one run into blocks |
//! | `known` | finds quantiles over all offered, or their bounds |
//! | `group` | sums up some requests |
//! | `judge` | holds an arm to its criteria |
//! | `contrast` | holds an arm against the baseline |
//! | `aside` | says who was refused, what was wasted, how recovery went |
//! | `summary` | says it in sentences |
//! | [`table`] | prints it |

mod arms;
mod aside;
pub mod comparison;
mod contrast;
mod cut;
mod drilled;
mod group;
mod judge;
mod known;
mod number;
mod request;
mod same;
mod say;
mod summary;
pub mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::drill::criteria::Criteria;
use crate::drill::notation::{counted, three_digits};
use crate::drill::verdict::Outcome;
use crate::results::Results;
use crate::stats::bootstrap::Plan;
use crate::stats::distribution::t_quantile;

use comparison::{ArmFigures, Blocks, Estimate, Finding, RunSeen, SCHEMA, Word};
use contrast::{Side, Together};
use cut::Cut;
use group::Sure;
use request::{Request, Unit, is_outside};

pub use arms::{Given, ServerCount};
pub use comparison::Comparison;

/// One side of a comparison: an endpoint, a way of routing.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Its name in every table.
    pub label: String,
    /// Its runs. One run is cut into blocks by its schedule; several are a block each.
    pub runs: Vec<Block>,
}

/// A run of an arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The file or folder it came from.
    pub from: String,
    /// What it left behind.
    pub results: Results,
}

/// How a comparison is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The seed of every resample.
    pub seed: u64,
    /// How often blocks are drawn anew.
    pub resamples: u32,
    /// The confidence of intervals and verdicts. Lower what is left of it for repeated looks, see
    /// [`crate::stats::looks`].
    pub confidence: f64,
}

impl Default for Options {
    /// 2,000 resamples: the error of a 2.5 % tail is then about a third of a percent, less than
    /// what a few dozen blocks can tell.
    fn default() -> Self {
        Self { seed: 1, resamples: 2_000, confidence: 0.95 }
    }
}

/// Why arms cannot be compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CompareError {
    /// There is nothing to compare.
    #[error("no arm\nhint: name the results of one arm at least, the one under test last")]
    NoArm,
    /// An arm has no run.
    #[error("{0}: no results\nhint: name a folder that `forebay load` wrote, or a summary")]
    NoRun(String),
    /// Two arms have one name.
    #[error(
        "two arms are called {0}\nhint: give each a name of its own, as NAME=PATH or with --label; \
         runs of one arm have commas between them"
    )]
    SameLabel(String),
    /// One run is twice in an arm.
    #[error(
        "{arm}: {first} and {second} are the same run\nhint: one run tells no more by being given \
         twice; leave one out, or measure again"
    )]
    SameRun {
        /// The arm's label.
        arm: String,
        /// Where it lies.
        first: String,
        /// Where it lies as well.
        second: String,
    },
    /// The buckets of a run do not add up to what it offered.
    #[error("{from}: {what}\nhint: the files of this run contradict one another; measure it again")]
    Unbalanced {
        /// The file or folder.
        from: String,
        /// What does not add up.
        what: String,
    },
}

/// The valid runs of an arm, reduced.
struct Read<'a> {
    arm: &'a Arm,
    /// Each run by its place; `None` where it is not valid.
    runs: Vec<Option<Unit>>,
    /// Requests that were under way when a valid run was stopped.
    cut_off: Vec<Request>,
}

/// How each criterion fares, what follows, and why.
type Judged = (Vec<Finding>, Outcome, String);

/// What intervals of an arm are made of.
struct Cutting {
    units: Vec<Unit>,
    is_cut: bool,
    autocorrelation: Option<f64>,
}

/// Compares arms: the first is the baseline, the last under test.
pub fn compare(
    arms: &[Arm],
    criteria: &Criteria,
    options: &Options,
) -> Result<Comparison, CompareError> {
    let labels: BTreeSet<&str> = arms.iter().map(|arm| arm.label.as_str()).collect();
    if arms.is_empty() {
        return Err(CompareError::NoArm);
    }
    if let Some(arm) = arms.iter().find(|arm| arm.runs.is_empty()) {
        return Err(CompareError::NoRun(arm.label.clone()));
    }
    if labels.len() < arms.len() {
        let mut seen = BTreeSet::new();
        let twice = arms.iter().find(|arm| !seen.insert(&arm.label));
        return Err(CompareError::SameLabel(twice.map_or(String::new(), |it| it.label.clone())));
    }
    arms.iter().try_for_each(same::refuse_within)?;
    let read = |arm| Read::of(arm, criteria);
    let reads = arms.iter().map(read).collect::<Result<Vec<Read<'_>>, CompareError>>()?;
    let count = reads.iter().filter_map(Read::single).map(|it| cut::cut(it).count).min();
    let cut = |read: &Read<'_>| {
        let place = read.single().zip(count);
        read.cut(place.map(|(requests, count)| cut::into_equal(requests, count)).as_ref())
    };
    let cuttings: Vec<Cutting> = reads.iter().map(cut).collect();
    let figures = reads.iter().zip(&cuttings);
    let figures: Vec<ArmFigures> =
        figures.map(|(read, cutting)| read.figures(cutting, criteria, options)).collect();
    let has_limits = !criteria.good().is_empty();
    let differences = (1..reads.len()).filter_map(|nth| {
        let (one, other, together) = reads[0].with(&reads[nth], count, *options)?;
        let side = |place: usize, units| {
            let (label, group) = (reads[place].arm.label.as_str(), &figures[place].all);
            Side { label, units, group, are_runs: !cuttings[place].is_cut, has_limits }
        };
        Some(contrast::difference(&side(0, &one), &side(nth, &other), &together))
    });
    let differences = differences.collect();
    let mut comparison = Comparison {
        schema: SCHEMA,
        seed: options.seed,
        resamples: options.resamples,
        confidence: options.confidence,
        criteria: criteria.canonical(),
        criteria_sha256: criteria.hash(),
        arms: figures,
        differences,
        summary: Vec::new(),
        notes: Vec::new(),
    };
    comparison.summary = summary::sentences(&comparison);
    comparison.notes = summary::notes(&comparison);
    comparison.notes.extend(same::notes(arms));
    Ok(comparison)
}

impl<'a> Read<'a> {
    fn of(arm: &'a Arm, criteria: &Criteria) -> Result<Self, CompareError> {
        let unit = |block: &Block| {
            let is_valid = block.results.about().is_valid();
            is_valid.then(|| Unit::of(block, criteria)).transpose()
        };
        let valid = arm.runs.iter().filter(|block| block.results.about().is_valid());
        let cut_off = valid.flat_map(|block| request::cut_off(block, criteria)).collect();
        Ok(Self { arm, runs: arm.runs.iter().map(unit).collect::<Result<_, _>>()?, cut_off })
    }

    /// The requests of the only valid run, where there is but one and they are known.
    fn single(&self) -> Option<&[Request]> {
        let mut valid = self.runs.iter().flatten();
        match (valid.next(), valid.next()) {
            (Some(Unit::Requests(requests)), None) => Some(requests),
            _ => None,
        }
    }

    fn cut(&self, cut: Option<&Cut>) -> Cutting {
        match self.single().zip(cut) {
            None => Cutting {
                units: self.runs.iter().flatten().cloned().collect(),
                is_cut: false,
                autocorrelation: None,
            },
            Some((requests, cut)) => {
                let blocks = cut::into(requests, cut);
                let autocorrelation = cut::autocorrelation(&blocks);
                let units = blocks.into_iter().map(Unit::Requests).collect();
                Cutting { units, is_cut: true, autocorrelation }
            }
        }
    }

    /// Both sides of a difference, block by block where the plans are the same. `None` where one
    /// has nothing valid.
    fn with(
        &self,
        other: &Self,
        count: Option<usize>,
        options: Options,
    ) -> Option<(Vec<Unit>, Vec<Unit>, Together)> {
        let plan = |read: &Self, nth: usize| read.arm.runs[nth].results.about().plan.clone();
        let same = |one: usize, two: usize| {
            plan(self, one).is_some() && plan(self, one) == plan(other, two)
        };
        let valid = |read: &Self, nth: usize| read.runs.get(nth).is_some_and(Option::is_some);
        let pairs: Vec<usize> = (0..self.runs.len().max(other.runs.len()))
            .filter(|nth| valid(self, *nth) && valid(other, *nth))
            .collect();
        let paired = !pairs.is_empty()
            && self.runs.len() == other.runs.len()
            && pairs.iter().all(|nth| same(*nth, *nth));
        if let (Some(ones), Some(others), Some(count)) = (self.single(), other.single(), count) {
            // The same request is in the same block on both sides.
            let base = cut::into_equal(ones, count);
            let own = cut::into_equal(others, count);
            let known = others.iter().all(|request| base.places.contains_key(&request.place));
            let paired = paired && known && ones.len() == others.len();
            let one = self.cut(Some(&base));
            let two = other.cut(Some(if paired { &base } else { &own }));
            let blocks = one.units.len();
            let plan = if paired { Plan::Paired(blocks) } else { Plan::Unpaired(blocks, blocks) };
            let autocorrelation = leaning(&one, &two, paired);
            return Some((one.units, two.units, Together { plan, autocorrelation, options }));
        }
        let units = |read: &Self| -> Vec<Unit> {
            if paired {
                pairs.iter().filter_map(|nth| read.runs[*nth].clone()).collect()
            } else if let Some((requests, count)) = read.single().zip(count) {
                read.cut(Some(&cut::into_equal(requests, count))).units
            } else {
                read.runs.iter().flatten().cloned().collect()
            }
        };
        let (one, two) = (units(self), units(other));
        let plan =
            if paired { Plan::Paired(one.len()) } else { Plan::Unpaired(one.len(), two.len()) };
        let together = Together { plan, autocorrelation: 0.0, options };
        (!one.is_empty() && !two.is_empty()).then_some((one, two, together))
    }

    fn figures(&self, cutting: &Cutting, criteria: &Criteria, options: &Options) -> ArmFigures {
        let has_limits = !criteria.good().is_empty();
        let runs: Vec<&Unit> = self.runs.iter().flatten().collect();
        let makespans: Option<Vec<f64>> = runs.iter().map(|run| run.makespan_s()).collect();
        let sure = Sure {
            units: &cutting.units,
            autocorrelation: cutting.autocorrelation.unwrap_or(0.0),
            error: (1.0 - options.confidence) / 2.0,
            has_limits,
            runs: runs.len(),
            seconds: makespans.as_ref().map(|all| all.iter().sum()),
        };
        let requests: Vec<&Request> = cutting.units.iter().flat_map(Unit::requests).collect();
        let (findings, outcome, reason) = if cutting.units.is_empty() {
            (Vec::new(), Outcome::Inconclusive, self.nothing_valid())
        } else {
            let judged = judge::judge(&sure, criteria.list(), options.confidence);
            self.unless_cut_off(judged, &sure, criteria, options.confidence)
        };
        let names = |of: fn(&Request) -> Option<&str>| -> BTreeSet<String> {
            requests.iter().filter_map(|request| of(request)).map(str::to_owned).collect()
        };
        let classes = names(|request| request.class.as_deref()).into_iter();
        let tenants = names(|request| request.tenant.as_deref()).into_iter().map(|name| {
            let own = requests.iter().filter(|it| it.tenant.as_deref() == Some(name.as_str()));
            let buckets = request::buckets(own.copied());
            (name, buckets)
        });
        let is_known = !requests.is_empty();
        ArmFigures {
            label: self.arm.label.clone(),
            runs: self.arm.runs.iter().map(seen).collect(),
            blocks: Blocks {
                count: cutting.units.len(),
                is_cut: cutting.is_cut,
                requests_max: sizes(&cutting.units).max().unwrap_or(0),
                autocorrelation: cutting.autocorrelation,
            },
            is_figures_only: cutting.units.iter().any(|unit| matches!(unit, Unit::Figures(_))),
            all: sure.group(None).expect("counts of all requests are always known"),
            classes: classes
                .filter_map(|name| Some((name.clone(), sure.group(Some(&name))?)))
                .collect(),
            tenants: tenants.collect::<BTreeMap<_, _>>(),
            who: is_known.then(|| aside::who(&requests)),
            wasted: is_known.then(|| aside::wasted(&requests)),
            recovery: runs
                .first()
                .and_then(|run| aside::recovery(&run.requests().iter().collect::<Vec<_>>())),
            amplification: is_known.then(|| {
                let attempts: u64 = requests.iter().map(|request| request.attempts).sum();
                attempts as f64 / requests.len() as f64
            }),
            completed_per_s: per_s(&runs, sure.error),
            makespan_s: makespans
                .filter(|all| !all.is_empty())
                .map(|all| all.iter().sum::<f64>() / all.len() as f64),
            findings,
            outcome: Word(outcome),
            reason,
        }
    }

    /// The same unless it is a GO that hangs on requests which a stop ended before they were over:
    /// they might never have been served.
    fn unless_cut_off(
        &self,
        judged: Judged,
        sure: &Sure<'_>,
        criteria: &Criteria,
        confidence: f64,
    ) -> Judged {
        let mut units = sure.units.to_vec();
        let last = units.last_mut();
        let Some(Unit::Requests(requests)) = last.filter(|_| !self.cut_off.is_empty()) else {
            return judged;
        };
        requests.extend(self.cut_off.iter().cloned());
        let (_, outcome, _) =
            judge::judge(&Sure { units: &units, ..*sure }, criteria.list(), confidence);
        if judged.1 != Outcome::Go || outcome == Outcome::Go {
            return judged;
        }
        let many = counted(self.cut_off.len(), "request");
        let reason = format!(
            "{many} under way when the run was stopped might never have been served, and if so not \
             every criterion is shown to hold; let the run end by itself"
        );
        (judged.0, Outcome::Inconclusive, reason)
    }

    fn nothing_valid(&self) -> String {
        let reasons = self.arm.runs.iter().flat_map(|run| &run.results.about().invalid);
        let reason = reasons.map(|invalid| invalid.what.as_str()).next().unwrap_or("no reason");
        format!("no run of it is valid, so there is nothing to judge: {reason}")
    }
}

/// By how much neighbouring blocks of a difference lean the same way. What both sides have in
/// common cancels between pairs.
fn leaning(one: &Cutting, two: &Cutting, paired: bool) -> f64 {
    let of = |cutting: &Cutting| cutting.autocorrelation.unwrap_or(0.0);
    let each = of(one).max(of(two));
    if !paired {
        return each;
    }
    let lost = |unit: &Unit| {
        let requests = unit.requests();
        let lost = requests.iter().filter(|request| request.ttft.is_infinite()).count();
        lost as f64 / requests.len().max(1) as f64
    };
    let median = |unit: &Unit| {
        let values: Vec<f64> = unit.requests().iter().map(|request| request.ttft).collect();
        crate::stats::quantile::Pooled::of(&[values]).quantile(0.5).unwrap_or(0.0).min(1e9)
    };
    let apart = |of: &dyn Fn(&Unit) -> f64| {
        let pairs = one.units.iter().zip(&two.units);
        cut::lag_one(&pairs.map(|(one, two)| of(two) - of(one)).collect::<Vec<f64>>())
    };
    apart(&lost).unwrap_or(0.0).max(apart(&median).unwrap_or(0.0))
}

fn sizes(units: &[Unit]) -> impl Iterator<Item = u64> {
    units.iter().filter_map(|unit| Some(unit.buckets(None, false)?.offered))
}

fn seen(run: &Block) -> RunSeen {
    let about = run.results.about();
    let (offered, stopped) = match &run.results {
        Results::Figures(figures) => (figures.offered(), 0),
        Results::Run(run) => {
            let rows = run.rows.iter().filter(|row| !row.is_warmup);
            let (out, counted): (Vec<_>, Vec<_>) = rows.partition(|row| is_outside(run, row));
            (counted.len() as u64, out.len() as u64)
        }
    };
    RunSeen {
        from: run.from.clone(),
        tool: about.tool.clone(),
        workload: about.workload.clone(),
        plan: about.plan.clone(),
        offered,
        stopped,
        is_closed_loop: about.is_closed_loop,
        invalid: about.invalid.iter().map(|it| format!("{}: {}", it.reason, it.what)).collect(),
    }
}

/// Completed requests a second over runs, with t's interval where there are several.
fn per_s(runs: &[&Unit], error: f64) -> Estimate {
    let rates: Option<Vec<f64>> = runs.iter().map(|run| contrast::completed_per_s(run)).collect();
    let Some(rates) = rates.filter(|rates| !rates.is_empty()) else { return say::nothing() };
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let spread: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    let half = (rates.len() >= 2)
        .then(|| t_quantile(1.0 - error, count - 1.0) * (spread / (count - 1.0) / count).sqrt());
    Estimate {
        value: Some(mean),
        low: half.map(|half| mean - half),
        high: half.map(|half| mean + half),
        is_bounded_only: false,
        said: format!("{}/s", three_digits(mean)),
    }
}
