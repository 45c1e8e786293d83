//! Says what a live drill is: what is sent, to which arms, in which blocks.

use std::path::PathBuf;
use std::time::Duration;

use forebay_core::Mode;
use http::HeaderMap;

use super::sending::Sending;
use crate::drill::criteria::Criteria;
use crate::drill::notation::listed;
use crate::drill::stage::Source;
use crate::engine::Preset;
use crate::report::SignOff;
use crate::slo::Objectives;

/// A live drill as its file has it.
#[derive(Clone, Debug)]
pub struct Design {
    /// The file.
    pub file: PathBuf,
    /// The folder that its paths and commands begin at.
    pub folder: PathBuf,
    /// What is sent.
    pub load: Load,
    /// How often, and in which order.
    pub blocks: Blocks,
    /// The engines that stand behind the arms, if the drill starts or knows any.
    pub engines: Option<Engines>,
    /// What is compared; the last one is under test.
    pub arms: Vec<Arm>,
    /// Pages of metrics that are read alongside, such as a GPU exporter's.
    pub exporters: Vec<Exporter>,
    /// The engine of the simulation that stands beside the figures.
    pub simulated: Option<Preset>,
    /// What arms are held to.
    pub criteria: Criteria,
    /// The file of the criteria; `None` of those that are built in.
    pub criteria_file: Option<PathBuf>,
    /// The objectives that the criteria were made from, where that file is one of those.
    pub objectives: Option<Objectives>,
    /// Who decides, if anybody said.
    pub sign_off: Option<SignOff>,
}

/// What is sent.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where requests come from.
    pub source: Source,
    /// Requests in a block.
    pub requests: u64,
    /// Prompts above this many tokens are left out of a trace.
    pub prompt_max: Option<u64>,
    /// Multiples of `capacity_per_s`, or of the trace's own rate where that is not given.
    pub loads: Vec<f64>,
    /// The rate that the fleet can serve with the smallest number of workers, in requests a second
    /// of the trace's clock: measured before, such as by `forebay capacity`.
    pub capacity_per_s: Option<f64>,
    /// How many times faster than the trace's clock the engines live; arrivals are hurried by it.
    pub speed: f64,
    /// The model that is asked for.
    pub model: String,
    /// The folder of the model's tokenizer: prompts are then made of words that are one token each
    /// for it. Without it they are so for `forebay engine` only.
    pub tokenizer: Option<PathBuf>,
    /// Requests ahead of each block that no figure counts.
    pub warmup: u64,
    /// How it is sent.
    pub sending: Sending,
}

/// How often each arm is run, and in which order.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// Blocks of each arm before the first look at whether criteria are settled.
    pub least: u32,
    /// Blocks of each arm at most.
    pub most: u32,
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// How long engines may take to become idle after a block.
    pub idle_max: Duration,
}

/// Engines that stand behind the arms.
#[derive(Clone, Debug)]
pub struct Engines {
    /// Numbers of workers that are tried.
    pub workers: Vec<u32>,
    /// Starts one worker; `None` where `urls` are there already.
    pub command: Option<Command>,
    /// Workers that run already. A number of workers takes the first so many.
    pub urls: Vec<String>,
    /// Path that answers 200 once a worker is ready.
    pub health: String,
    /// What is asked of each worker before a block, such as `POST /reset_prefix_cache`.
    pub reset: Option<Hook>,
    /// Path of a worker's metrics.
    pub metrics: String,
}

/// One thing that is compared.
#[derive(Clone, Debug)]
pub struct Arm {
    /// Its name in tables and folders.
    pub name: String,
    /// Starts it; `None` where it runs already.
    pub command: Option<Command>,
    /// Where it is asked, without the path of the endpoint.
    pub url: String,
    /// Path that answers 200 once it is ready.
    pub health: String,
    /// What is asked of it before a block.
    pub reset: Option<Hook>,
    /// Path of its metrics, if it has any.
    pub metrics: Option<String>,
    /// Another address for its metrics, where they do not stand under `url`.
    pub metrics_url: Option<String>,
    /// Counters that add up to the refusals that it has sent.
    pub refusals: Vec<String>,
    /// The model it is asked for, where that differs.
    pub model: Option<String>,
    /// Headers of its own. None of them is secret.
    pub headers: HeaderMap,
    /// The variable of the environment that holds its key, where that differs.
    pub key_env: Option<String>,
    /// The mode that the simulation runs in its place.
    pub mode: Option<Mode>,
}

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments, with placeholders: see [`super::fill`].
    pub words: Vec<String>,
    /// Stops it, where it is not enough to end its processes.
    pub stop: Vec<String>,
    /// Text of a file that is written before it starts; its path is `{config}`.
    pub config: Option<String>,
    /// How long it may take until it is ready.
    pub ready_max: Duration,
}

/// One question without an answer that matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// `GET` or `POST`.
    pub verb: http::Method,
    /// The path.
    pub path: String,
}

/// A page of metrics that is read alongside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exporter {
    /// Its name in files.
    pub name: String,
    /// The page.
    pub url: String,
    /// The metrics that are kept; with none, all are.
    pub metrics: Vec<String>,
}

/// One combination of fleet and load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Number of workers; 0 where the drill knows none.
    pub workers: u32,
    /// The load, as in [`Load::loads`].
    pub load: f64,
}

impl Cell {
    /// Its name in paths: `n2-load1.19`.
    pub fn name(&self) -> String {
        match self.workers {
            0 => format!("load{}", self.load),
            workers => format!("n{workers}-load{}", self.load),
        }
    }

    /// Its name in sentences: `N = 2 at 1.19`.
    pub fn title(&self) -> String {
        match self.workers {
            0 => format!("load {}", self.load),
            workers => format!("N = {workers}, load {}", self.load),
        }
    }
}

impl Design {
    /// What will be run, in a few lines.
    pub fn shown(&self) -> String {
        let names: Vec<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
        let (under_test, others) =
            names.split_last().map_or(("", &[][..]), |(last, rest)| (*last, rest));
        let against =
            if others.is_empty() { String::new() } else { format!(" against {}", listed(others)) };
        let cells: Vec<String> = self.cells().iter().map(Cell::title).collect();
        let Blocks { least, most, .. } = self.blocks;
        format!(
            "under test: {under_test}{against}\ncells: {}\nblocks: {least} to {most} of each arm, \
             {} requests of {} each\ncriteria: {}\n",
            cells.join("; "),
            self.load.requests,
            self.load.source.name(),
            self.criteria.canonical().trim_end().replace('\n', "; "),
        )
    }

    /// Every combination, by number of workers and then by load.
    pub fn cells(&self) -> Vec<Cell> {
        let none = [0];
        let workers = self.engines.as_ref().map_or(&none[..], |engines| &engines.workers);
        let of =
            |workers: u32| self.load.loads.iter().map(move |load| Cell { workers, load: *load });
        workers.iter().flat_map(|workers| of(*workers)).collect()
    }

    /// The arms of a round, by their places: forward, then backward, so that a drift of the machine
    /// meets all alike (A B B A).
    pub fn order(&self, round: u32) -> Vec<usize> {
        let places = 0..self.arms.len();
        if round.is_multiple_of(2) { places.collect() } else { places.rev().collect() }
    }
}
