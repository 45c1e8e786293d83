//! Decides whether an arm meets its criteria, and says why in one sentence.
//!
//! GO: every seed passes every criterion at every number of workers. NO-GO: every seed misses one
//! and the same criterion, at one number of workers or more. INCONCLUSIVE: anything else, since
//! seeds that disagree, or that miss different things, are a reason for more seeds and not for a
//! decision.

use std::collections::BTreeSet;
use std::fmt;

use super::criteria::Criterion;
use super::notation::{counted, listed};

#[cfg(test)]
mod tests;

/// Whether an arm is fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every seed passes everything.
    Go,
    /// Every seed misses one and the same criterion.
    NoGo,
    /// Anything else.
    Inconclusive,
}

impl Outcome {
    /// Its name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Go => "GO",
            Self::NoGo => "NO-GO",
            Self::Inconclusive => "INCONCLUSIVE",
        }
    }

    /// The exit code it ends a drill with; 2 is misuse.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Go => 0,
            Self::NoGo => 1,
            Self::Inconclusive => 3,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What one run has to show for each criterion.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Number of workers.
    pub workers: u32,
    /// The seed.
    pub seed: u64,
    /// One value for each criterion; `None` where the run had no request to show it on.
    pub values: Vec<Option<f64>>,
}

/// An outcome with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the arm is fit.
    pub outcome: Outcome,
    /// Why, in one sentence with figures.
    pub reason: String,
}

impl Verdict {
    /// The verdict on all runs of one arm.
    pub fn of(criteria: &[Criterion], runs: &[Observed]) -> Self {
        let seeds: BTreeSet<u64> = runs.iter().map(|run| run.seed).collect();
        let findings: Vec<Finding> = criteria
            .iter()
            .enumerate()
            .map(|(place, criterion)| Finding::of(criterion, place, runs))
            .collect();
        let missed: Vec<&Finding> =
            findings.iter().filter(|finding| !finding.missed_by.is_empty()).collect();
        let by_all: Vec<&Finding> =
            missed.iter().copied().filter(|one| one.missed_by.len() == seeds.len()).collect();
        let unseen: Vec<&Finding> = findings.iter().filter(|finding| finding.unseen).collect();
        if runs.is_empty() || criteria.is_empty() {
            return inconclusive("there is nothing to judge".to_owned());
        }
        if !by_all.is_empty() {
            let told: Vec<String> = by_all.iter().map(|one| one.miss()).collect();
            let who = if seeds.len() == 1 { "the only seed misses" } else { "every seed misses" };
            return Self { outcome: Outcome::NoGo, reason: format!("{who} {}", listed(&told)) };
        }
        if !missed.is_empty() {
            return inconclusive(disagreement(&missed, seeds.len()));
        }
        if let Some(finding) = unseen.first() {
            let subject = finding.criterion.subject();
            return inconclusive(format!("no request was offered that could show {subject}"));
        }
        Self { outcome: Outcome::Go, reason: success(&findings, runs, seeds.len()) }
    }
}

fn inconclusive(reason: String) -> Verdict {
    Verdict { outcome: Outcome::Inconclusive, reason }
}

fn disagreement(missed: &[&Finding], seeds: usize) -> String {
    let told: Vec<String> = missed
        .iter()
        .map(|one| {
            let count = one.missed_by.len();
            let verb = if count == 1 { "misses" } else { "miss" };
            format!("{count} of {seeds} {verb} {}", one.miss())
        })
        .collect();
    format!("the seeds disagree: {}", listed(&told))
}

fn success(findings: &[Finding], runs: &[Observed], seeds: usize) -> String {
    let workers: BTreeSet<u32> = runs.iter().map(|run| run.workers).collect();
    let workers: Vec<u32> = workers.into_iter().collect();
    let worst: Vec<String> = findings
        .iter()
        .filter_map(|finding| {
            let criterion = finding.criterion;
            Some(format!("{} {}", criterion.subject(), criterion.shown(finding.worst?)))
        })
        .collect();
    let seeds = if seeds == 1 { "the only seed".to_owned() } else { format!("all {seeds} seeds") };
    format!(
        "{seeds} pass{} at N = {}; the worst run has {}",
        if seeds == "the only seed" { "es" } else { "" },
        listed(&workers),
        listed(&worst)
    )
}

/// What all runs say about one criterion.
struct Finding<'c> {
    criterion: &'c Criterion,
    /// Seeds that miss it somewhere.
    missed_by: BTreeSet<u64>,
    /// Numbers of workers at which it is missed.
    missed_at: BTreeSet<u32>,
    /// The mildest and the worst of the values that miss it.
    missing: Option<(f64, f64)>,
    /// The worst value of all.
    worst: Option<f64>,
    /// Some run had nothing to show for it.
    unseen: bool,
}

impl<'c> Finding<'c> {
    fn of(criterion: &'c Criterion, place: usize, runs: &[Observed]) -> Self {
        let mut finding = Self {
            criterion,
            missed_by: BTreeSet::new(),
            missed_at: BTreeSet::new(),
            missing: None,
            worst: None,
            unseen: false,
        };
        for run in runs {
            match run.values[place] {
                None => finding.unseen = true,
                Some(value) => finding.note(run, value),
            }
        }
        finding
    }

    fn note(&mut self, run: &Observed, value: f64) {
        let worse = |one: f64| self.criterion.worse(one, value);
        self.worst = Some(self.worst.map_or(value, worse));
        if self.criterion.passes(value) {
            return;
        }
        self.missing = Some(self.missing.map_or((value, value), |(mild, worst)| {
            let milder = self.criterion.milder(mild, value);
            (milder, worse(worst))
        }));
        self.missed_by.insert(run.seed);
        self.missed_at.insert(run.workers);
    }

    /// `completed ≥ 99.9 % (84.9–87.1 % at N = 2)`.
    fn miss(&self) -> String {
        let at: Vec<u32> = self.missed_at.iter().copied().collect();
        let figures = self.missing.map_or(String::new(), |(mild, worst)| {
            let (mild, worst) = (self.criterion.shown(mild), self.criterion.shown(worst));
            if mild == worst { worst } else { format!("{mild} to {worst}") }
        });
        format!("{} ({figures} at N = {})", self.criterion, listed(&at))
    }
}

/// The verdict on one arm, as a sentence for the end of a table.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.outcome, self.reason)
    }
}

/// A note for drills with too few seeds to show a spread.
pub fn caution(seeds: usize) -> Option<String> {
    (seeds < 3).then(|| {
        let shows = if seeds == 1 { "shows" } else { "show" };
        format!("{} {shows} little of the spread between runs.", counted(seeds, "seed"))
    })
}
