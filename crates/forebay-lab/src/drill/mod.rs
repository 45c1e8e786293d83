//! Shows what saturation costs: several ways of routing, the same requests, and a verdict on each.
//!
//! | module | does |
//! |---|---|
//! | [`criteria`] | reads what an arm is held to |
//! | [`progress`] | says on a terminal how far it is |
//! | [`matrix`] | runs every cell of workers × seed × arm on all cores |
//! | [`stage`] | sets a cell up as a simulation |
//! | [`measure`] | reduces a run to its figures |
//! | [`row`] | brings the seeds of a cell together |
//! | [`verdict`] | decides GO, NO-GO or INCONCLUSIVE |
//! | [`digest`] | names files and criteria by their hash |
//! | [`published`] | holds predictions against figures of real engines |
//! | [`table`] | prints what a person reads at a terminal |

use std::collections::BTreeSet;

pub use forebay_core::Mode;
use forebay_core::{HoldOrder, KvPreset};

use indexmap::IndexMap;
use serde::Serialize;

use crate::simulate::{RunRecord, SimulateError, Summary};

pub mod criteria;
pub mod digest;
#[cfg(test)]
pub(crate) mod fake;
pub mod matrix;
pub mod measure;
pub mod notation;
pub mod progress;
pub mod published;
pub mod row;
pub mod stage;
pub mod table;
pub mod verdict;

use criteria::{Criteria, CriteriaError};
use matrix::{Cell, Variation};
use measure::Measured;
use stage::Stage;
use verdict::{Observed, Outcome, Verdict};

/// The arms of a drill that names none: three things that others do, and three steps towards
/// `hold`.
pub const ARMS: [Mode; 6] = [
    Mode::RoundRobin,
    Mode::Kv(KvPreset::Dynamo12),
    Mode::Kv(KvPreset::Dynamo12Wspt),
    Mode::LeastWork,
    Mode::Hold(HoldOrder::FirstCome),
    Mode::Hold(HoldOrder::Aged),
];

/// How far the sensitivity of the ranking is looked at, in percent. As wide as capacities are
/// misjudged in practice.
pub const SENSITIVITY_PCT: [i32; 4] = [-25, -10, 10, 25];

/// What is to be drilled.
#[derive(Clone, Debug)]
pub struct Design {
    /// The trace's name, as it is shown.
    pub trace: String,
    /// The engine preset's name.
    pub engine: String,
    /// The rate, in multiples of the trace's.
    pub scale: f64,
    /// Engine and workload are those of the published test, so that figures can be held against it.
    pub published: bool,
    /// Numbers of workers, ascending.
    pub workers: Vec<u32>,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The ways of routing; the last one is under test.
    pub arms: Vec<Mode>,
    /// What they are held to.
    pub criteria: Criteria,
    /// Whether the arms also run on fleets that differ from the preset.
    pub sensitivity: bool,
}

impl Design {
    /// Refuses what can't be drilled on this stage.
    pub fn check(&self, stage: &Stage) -> Result<(), DrillError> {
        let refuse = |what: String, remedy: &str| {
            Err(DrillError::Design { what, remedy: remedy.to_owned() })
        };
        if self.workers.is_empty() || self.workers.contains(&0) {
            return refuse("a fleet of no workers".to_owned(), "say --workers 2,4,8");
        }
        if self.seeds.is_empty() {
            return refuse("no seeds, so no runs".to_owned(), "say --seeds 3");
        }
        if self.arms.is_empty() {
            return refuse("no arms, so nothing to judge".to_owned(), "say --arm hold");
        }
        stage.check(&self.workers)?;
        let twice = |(nth, arm): (usize, &Mode)| self.arms[..nth].contains(arm).then_some(*arm);
        if let Some(arm) = self.arms.iter().enumerate().find_map(twice) {
            return refuse(
                format!("arm {arm} is named twice"),
                "name each arm once, the one under test last",
            );
        }
        self.criteria.check_classes(&stage.service)?;
        if let Some(limit) = self.criteria.good().iter().find(|limit| limit.class.is_some()) {
            let class = limit.class.as_deref().unwrap_or_default();
            return refuse(
                format!("class {class} has limits of its own for a good request"),
                "a simulated drill has one [good] for all; classes have theirs on live results",
            );
        }
        Ok(())
    }

    /// Every run to be made: by number of workers, seed and arm; then those for the sensitivity.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        let mut add = |workers: u32, variation: Variation| {
            for &seed in &self.seeds {
                let arms = self.arms.iter();
                cells.extend(arms.map(|&arm| Cell { arm, workers, seed, variation }));
            }
        };
        for &workers in &self.workers {
            add(workers, Variation::NONE);
        }
        if let (true, Some(&smallest)) = (self.sensitivity, self.workers.iter().min()) {
            for pct in SENSITIVITY_PCT {
                add(smallest, Variation { kv_pct: pct, ..Variation::NONE });
                add(smallest, Variation { speed_pct: pct, ..Variation::NONE });
                add(smallest, Variation { belief_pct: pct, ..Variation::NONE });
            }
        }
        cells
    }
}

/// One run that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Which.
    pub cell: Cell,
    /// What it came to.
    pub measured: Measured,
    /// Its summary as one line of JSON.
    pub summary: String,
    /// What the reader of its trace passed over.
    pub notes: Vec<String>,
}

impl Run {
    /// The figures of a record and of the summary that was made of it.
    pub fn of(cell: Cell, record: &RunRecord, summary: &Summary) -> Self {
        let varied = (cell.variation != Variation::NONE).then_some(cell.variation);
        let json = serde_json::to_string(&Line { summary, varied });
        let summary_line = json.expect("a summary is always JSON");
        Self {
            cell,
            measured: Measured::of(record, summary),
            summary: summary_line,
            notes: Vec::new(),
        }
    }
}

/// A summary with what was varied, if anything was.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    varied: Option<Variation>,
}

/// Why a drill can't be held, or came to no end.
#[derive(Debug, thiserror::Error)]
pub enum DrillError {
    /// There is nothing to run, or the same thing twice.
    #[error("{what}\nhint: {remedy}")]
    Design {
        /// What is wrong.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// The criteria are about something else than the stage.
    #[error(transparent)]
    Criteria(#[from] CriteriaError),
    /// No run could be made.
    #[error(transparent)]
    Stage(#[from] SimulateError),
    /// A run could not be made.
    #[error("{arm} on {workers} workers, seed {seed}: {said}")]
    Run {
        /// The arm.
        arm: Mode,
        /// Number of workers.
        workers: u32,
        /// The seed.
        seed: u64,
        /// Why.
        said: SimulateError,
    },
}

/// Holds the drill: makes every run on all cores, and judges the arms. `done` is called after each
/// run.
pub fn hold(design: Design, stage: &Stage, done: &(dyn Fn() + Sync)) -> Result<Drill, DrillError> {
    let make = |cell: &Cell| {
        let Cell { arm, workers, seed, .. } = *cell;
        stage.run(cell).map_err(|said| DrillError::Run { arm, workers, seed, said })
    };
    let runs = matrix::run(&design.cells(), &make, done)?;
    let held = Drill::of(design, runs);
    Ok(match stage.replayed() {
        Some(draws) => held.of_replays(draws),
        None => held,
    })
}

/// What came of a drill.
#[derive(Clone, Debug)]
pub struct Drill {
    /// What was drilled.
    pub design: Design,
    /// Where all seeds replayed the same requests, what their draws still decided.
    pub replayed: Option<&'static str>,
    /// Every run on the fleet as the preset has it.
    pub runs: Vec<Run>,
    /// Every run on a fleet that differs.
    pub varied: Vec<Run>,
    /// The verdict on each arm, in the order of the arms.
    pub verdicts: Vec<Verdict>,
}

impl Drill {
    /// Brings the runs of a design together and judges its arms. Variations are judged by nobody: a
    /// verdict is about the fleet that was asked for.
    pub fn of(design: Design, runs: Vec<Run>) -> Self {
        let as_asked = |run: &Run| run.cell.variation == Variation::NONE;
        let (runs, varied): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(as_asked);
        let verdicts = design.arms.iter().map(|arm| {
            let observed: Vec<Observed> = runs
                .iter()
                .filter(|run| run.cell.arm == *arm)
                .map(|run| observed(&design.criteria, run))
                .collect();
            Verdict::of(design.criteria.list(), &observed)
        });
        let verdicts = verdicts.collect();
        Self { design, replayed: None, runs, varied, verdicts }
    }

    /// The same drill, whose seeds all replayed the same requests and differ only in these draws:
    /// what they agree on is then no spread of the load, and the verdict under test says so.
    #[must_use]
    pub(crate) fn of_replays(mut self, draws: &'static str) -> Self {
        self.replayed = Some(draws);
        if let (2.., Some(verdict)) = (self.design.seeds.len(), self.verdicts.last_mut()) {
            let said = format!("; all seeds replay the same requests and differ only in {draws}");
            verdict.reason.push_str(&said);
        }
        self
    }

    /// The runs of one arm at one number of workers, by seed.
    pub fn at(&self, workers: u32, arm: Mode) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.cell.workers == workers && run.cell.arm == arm)
    }

    /// Requests that an arm refused for good, by reason, over all seeds and numbers of workers,
    /// without the reasons of none.
    pub fn refused_by(&self, arm: Mode) -> IndexMap<&'static str, u64> {
        let runs = self.runs.iter().filter(|run| run.cell.arm == arm);
        row::refused_by(runs.map(|run| &run.measured))
    }

    /// The runs of one arm on a fleet that differs from the preset, by seed; as asked for
    /// [`Variation::NONE`].
    pub fn varied(&self, arm: Mode, variation: Variation) -> impl Iterator<Item = &Run> {
        let smallest = self.smallest();
        self.runs.iter().chain(&self.varied).filter(move |run| {
            run.cell.arm == arm && run.cell.variation == variation && run.cell.workers == smallest
        })
    }

    /// What the readers of the traces passed over, each said once.
    pub fn notes(&self) -> Vec<&str> {
        let notes: BTreeSet<&str> =
            self.runs.iter().flat_map(|run| &run.notes).map(String::as_str).collect();
        notes.into_iter().collect()
    }

    /// What was run on what, in words.
    pub fn title(&self) -> String {
        let rate = match self.design.scale {
            1.0 => String::new(),
            scale => format!(" at {scale} × its rate"),
        };
        format!("Trace {}{rate} on engine {}", self.design.trace, self.design.engine)
    }

    /// The smallest number of workers: where saturation shows.
    pub fn smallest(&self) -> u32 {
        self.design.workers.iter().copied().min().unwrap_or(0)
    }

    /// The arm under test.
    pub fn under_test(&self) -> Option<(Mode, &Verdict)> {
        self.design.arms.last().copied().zip(self.verdicts.last())
    }

    /// The exit code of the drill: that of the arm under test.
    pub fn exit_code(&self) -> u8 {
        let (_, verdict) = self.under_test().unzip();
        verdict.map_or(Outcome::Inconclusive.exit_code(), |verdict| verdict.outcome.exit_code())
    }
}

fn observed(criteria: &Criteria, run: &Run) -> Observed {
    let values = criteria.list().iter().map(|criterion| criterion.value(&run.measured));
    Observed { workers: run.cell.workers, seed: run.cell.seed, values: values.collect() }
}
