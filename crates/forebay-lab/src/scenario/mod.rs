//! Checks claims about the whole: a workload, a fleet, what happens to it, and what must hold.
//!
//! A scenario is a TOML file whose first key is its claim, in one sentence. It is run for each of
//! its loads and seeds, first with load and faults (the safety phase), then without (the liveness
//! phase), and every run must satisfy three things:
//!
//! 1. **Safety**, always: every request that a core took leaves it exactly once and goes only to
//!    workers that take it; a second core, told the same, says the same; once all has ended nothing
//!    is left on any account.
//! 2. **Liveness**, always: within `drain_s_max` of the last arrival, or the last event, everything
//!    has ended by itself.
//! 3. **The claim**: each `[[expect]]`.
//!
//! | module | does |
//! |---|---|
//! | `read` | reads a file and finds all of its faults |
//! | `workload` | draws the requests of a run |
//! | `capacity` | measures what the fleet can do, so that loads are relative to it |
//! | `witness` | listens to the cores and checks safety |
//! | `expect` | compares figures with what must hold |
//! | `run` | puts these together |

pub(crate) mod capacity;
mod expect;
mod keys;
mod read;
mod run;
#[cfg(test)]
mod tests;
mod verdict;
mod witness;
mod workload;

use std::path::{Path, PathBuf};

use forebay_core::{Knowledge, Mode, Span, Tokens};
use forebay_service::text_file::{self, UnreadableFile};
use forebay_service::{Faults, Service};

use crate::engine::Preset;
use crate::recording::{RecordingFault, RecordingTap};
use crate::simulate::{Client, NoTap, Patience, SimulateError, Tap, Who};
use crate::trace::synth::Description;

use expect::Expectation;
pub use keys::LOAD_FACTORS as LOADS;
pub use verdict::Verdict;

/// A claim and how it is checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file.
    pub file: PathBuf,
    /// What it claims, in one sentence.
    pub claim: String,
    /// The seeds it is run with.
    pub seeds: Vec<u64>,
    /// Factors on every stream's load; each is a run of its own.
    pub loads: Vec<f64>,
    drain_s_max: f64,
    streams: Vec<Stream>,
    fleet: Fleet,
    client: Client,
    patience: Option<Patience>,
    events: Vec<Timed>,
    service: Service,
    arms: Vec<Arm>,
    expectations: Vec<Expectation>,
}

/// Requests that come together.
#[derive(Clone, Debug)]
struct Stream {
    requests: u64,
    from: Span,
    rate: Rate,
    shape: Shape,
    class: Option<String>,
    tenant: Option<String>,
}

/// How fast requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rate {
    /// In multiples of what the fleet can do.
    Load(f64),
    /// Requests a second.
    PerS(f64),
}

/// What requests look like.
#[derive(Clone, Debug)]
enum Shape {
    /// As a synthetic trace, with its bursts.
    Synth(Box<Description>),
    /// Evenly drawn lengths, arrivals at random.
    Plain {
        /// Least and most tokens of a prompt.
        prompt: (u64, u64),
        /// Least and most tokens of an answer.
        output: (u64, u64),
        /// Tokens at a prompt's beginning that others share.
        prefix_tokens: u64,
        /// How many such beginnings there are.
        prefixes: u64,
    },
}

/// Who serves.
#[derive(Clone, Debug)]
struct Fleet {
    workers: Vec<Preset>,
    mode: Mode,
    knowledge: Knowledge,
    expected_output: Option<Tokens>,
    capacity_error_pct: f64,
    capacity_told: bool,
}

/// Something that happens at a set time.
#[derive(Clone, Debug, PartialEq)]
struct Timed {
    at: Span,
    what: What,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq)]
enum What {
    Lost(Who),
    Back(Who),
    Slowed(Who, f64),
    Drained(Who),
    CapacityTold(Who),
    /// The pool goes on in another mode.
    Mode(Mode),
    /// The pool takes nothing new.
    ShutDown,
}

/// A run to compare with: as the scenario's own, but for this.
#[derive(Clone, Debug, PartialEq)]
struct Arm {
    name: String,
    mode: Mode,
    /// Only so many of the workers.
    workers: usize,
    /// Only the requests of these tenants; empty for all.
    tenants: Vec<String>,
    /// Whether the events happen.
    events: bool,
    /// How clients take a refusal.
    client: Client,
}

/// Why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file could not be read at all.
    #[error(transparent)]
    Unreadable(#[from] UnreadableFile),
    /// It was read, and these are its faults.
    #[error(transparent)]
    Faulty(#[from] Faults),
    /// It could not be recorded.
    #[error(transparent)]
    Record(#[from] RecordingFault),
    /// Its run could not be made.
    #[error("{}: {said}", file.display())]
    Simulate {
        /// The file.
        file: PathBuf,
        /// What the simulator said.
        said: SimulateError,
    },
}

impl Scenario {
    /// Reads a scenario file.
    pub fn load(file: &Path) -> Result<Self, ScenarioError> {
        Ok(Self::parse(file, &text_file::read(file)?)?)
    }

    /// Reads the text of a scenario file. Paths in it start at the folder of `file`.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Faults> {
        read::read(file, text)
    }

    /// Its name: the file's without folder and ending.
    pub fn name(&self) -> String {
        self.file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Runs it once: with this seed, and with every stream's load times this factor.
    pub fn run(&self, seed: u64, load: f64) -> Result<Verdict, ScenarioError> {
        self.run_tapped(seed, load, &mut NoTap)
    }

    /// The same, and writes a recording of its own run.
    pub fn record(&self, seed: u64, load: f64, file: &Path) -> Result<Verdict, ScenarioError> {
        let mut tap = RecordingTap::create(file, &self.service)?;
        let verdict = self.run_tapped(seed, load, &mut tap)?;
        tap.finish()?;
        Ok(verdict)
    }

    /// The files that a recording of this name consists of: one of each pool.
    pub fn recordings(&self, file: &Path) -> Vec<PathBuf> {
        RecordingTap::files(file, &self.service)
    }

    fn run_tapped(
        &self,
        seed: u64,
        load: f64,
        listener: &mut dyn Tap,
    ) -> Result<Verdict, ScenarioError> {
        run::run(self, seed, load, listener)
            .map_err(|said| ScenarioError::Simulate { file: self.file.clone(), said })
    }
}
