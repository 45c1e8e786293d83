//! Holds everything that one run needs.

use std::fmt;

use forebay_core::{Knowledge, Limits, Mode, Rng, Settings, Span, Tokens};
use forebay_service::Service;

use super::Client;
use crate::engine::{Preset, PresetError};
use crate::trace::{Requests, TraceError};

/// The least and the most that a rate is scaled by: a day's trace in a tenth of a second, or over
/// more than two thousand years.
pub const SCALES: (f64, f64) = (1e-6, 1e6);
/// The longest run, in virtual time. No trace of a service is as long, and what is longer comes
/// from a mistake of unit.
pub const RUN_MAX: Span = Span::secs(100 * 365 * 86_400);

/// Everything that one run needs. Start from [`Plan::new`] and change what differs.
pub struct Plan {
    /// The trace's name in the results.
    pub trace: String,
    /// The requests, in the order of their times.
    pub requests: Requests,
    /// The main pool's workers. They may differ, but share a block size.
    pub workers: Vec<Preset>,
    /// How the main pool chooses.
    pub mode: Mode,
    /// Where the cores' knowledge of the caches comes from.
    pub knowledge: Knowledge,
    /// The seed of every draw.
    pub seed: u64,
    /// What happens at the door.
    pub service: Service,
    /// The rate, in multiples of the trace's: arrival times are divided by this, lengths stay.
    pub scale: f64,
    /// A constant in place of the learned mean output.
    pub expected_output: Option<Tokens>,
    /// How far the cores' idea of a worker's KV capacity is off, in percent; negative is too small.
    pub capacity_error_pct: f64,
    /// Workers do not say their KV capacity when they join; the script may tell it later.
    pub capacity_untold: bool,
    /// How clients take a refusal.
    pub client: Client,
    /// How long clients wait for a first token; `None` is for ever.
    pub patience: Option<Patience>,
    /// What happens to the main pool, in any order.
    pub script: Vec<Scripted>,
}

impl Plan {
    /// A plan with the defaults of `forebay simulate`.
    pub fn new(trace: String, requests: Requests, workers: Vec<Preset>, mode: Mode) -> Self {
        Self {
            trace,
            requests,
            workers,
            mode,
            knowledge: Knowledge::Events,
            seed: 1,
            service: Service::single(),
            scale: 1.0,
            expected_output: None,
            capacity_error_pct: 0.0,
            capacity_untold: false,
            client: Client::None,
            patience: None,
            script: Vec::new(),
        }
    }

    /// Refuses what makes no run.
    pub(super) fn check(&self) -> Result<(), SimulateError> {
        let Some(first) = self.workers.first() else {
            return Err(SimulateError::NoWorkers);
        };
        if let Some(other) = self.workers.iter().find(|one| one.block_size != first.block_size) {
            return Err(SimulateError::BlockSizes {
                first: (first.name.clone(), first.block_size),
                other: (other.name.clone(), other.block_size),
            });
        }
        let of_pools = self.service.pools.iter().map(|pool| u64::from(pool.workers));
        for workers in of_pools.chain([self.workers.len() as u64]) {
            check_workers(workers, &self.service.limits)?;
        }
        check_scale(self.scale)?;
        if !(-99.0..=10_000.0).contains(&self.capacity_error_pct) {
            return Err(SimulateError::CapacityError(self.capacity_error_pct));
        }
        Ok(())
    }
}

/// So many workers of this preset, if the limits allow them: they are counted before they are made.
pub fn fleet(preset: &Preset, workers: u32, limits: &Limits) -> Result<Vec<Preset>, SimulateError> {
    check_workers(u64::from(workers), limits)?;
    Ok(vec![preset.clone(); workers as usize])
}

pub(crate) fn check_workers(workers: u64, limits: &Limits) -> Result<(), SimulateError> {
    let most = limits.workers_max;
    if workers > u64::from(most) {
        return Err(SimulateError::TooManyWorkers { workers, most });
    }
    Ok(())
}

pub(crate) fn check_scale(scale: f64) -> Result<(), SimulateError> {
    // NaN is in no range.
    if (SCALES.0..=SCALES.1).contains(&scale) { Ok(()) } else { Err(SimulateError::Scale(scale)) }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("trace", &self.trace)
            .field("workers", &self.workers.len())
            .field("mode", &self.mode)
            .field("seed", &self.seed)
            .field("scale", &self.scale)
            .finish_non_exhaustive()
    }
}

/// How long clients wait for a first token before they go away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Patience {
    /// All the same.
    Fixed(Span),
    /// Drawn for each from an exponential distribution with this mean.
    Exponential(Span),
}

impl Patience {
    /// One client's patience.
    pub(super) fn draw(self, rng: &mut Rng) -> Span {
        match self {
            Self::Fixed(span) => span,
            Self::Exponential(mean) => mean.scaled(-(1.0 - rng.unit()).ln()),
        }
    }
}

/// Something that happens to the main pool at a set time.
#[derive(Clone, Debug, PartialEq)]
pub struct Scripted {
    /// When, from the start of the run; not scaled.
    pub at: Span,
    /// What.
    pub what: Happening,
}

/// What can happen to the main pool.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// Workers die, with all that runs on them.
    Lost(Who),
    /// Workers come back with an empty cache.
    Back(Who),
    /// Each step takes this many times as long as its preset says; 1 is back to normal.
    Slowed(Who, f64),
    /// Workers finish what they have and take nothing new.
    Drained(Who),
    /// Workers say their KV capacity.
    CapacityTold(Who),
    /// The core gets new settings.
    Reconfigured(Box<Settings>),
}

/// Which workers of the main pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// One, by its place in [`Plan::workers`].
    One(u32),
    /// All.
    All,
}

impl Who {
    /// Their places, in a pool of this many.
    pub(super) fn places(self, workers: usize) -> std::ops::Range<usize> {
        match self {
            Self::One(place) => (place as usize).min(workers)..(place as usize + 1).min(workers),
            Self::All => 0..workers,
        }
    }
}

/// Why a run could not be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimulateError {
    /// The trace is at fault.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A preset is at fault.
    #[error(transparent)]
    Preset(#[from] PresetError),
    /// The trace names a class that is not served.
    #[error(
        "request {nth} of {trace} names the class `{class}`, which is not served\nhint: {remedy}"
    )]
    UnknownClass {
        /// The trace.
        trace: String,
        /// Which request of it, from 1.
        nth: u64,
        /// The class it names.
        class: String,
        /// What to do.
        remedy: String,
    },
    /// There is nothing to run on.
    #[error("a fleet needs at least one worker\nhint: say `--workers 2`")]
    NoWorkers,
    /// There are more workers than the limits allow.
    #[error(
        "{workers} workers, of at most {most}\nhint: name fewer, or raise `workers_max` under \
         `[limits]` in the service file"
    )]
    TooManyWorkers {
        /// How many.
        workers: u64,
        /// The limit.
        most: u32,
    },
    /// Prefixes can't be compared between workers.
    #[error(
        "workers of one pool must share a block size: `{}` has {}, `{}` has {}\nhint: write a \
         preset with the other's `block_size`, or put them into pools of their own",
        first.0, first.1, other.0, other.1
    )]
    BlockSizes {
        /// The first worker's preset and block size.
        first: (String, u32),
        /// The one that differs.
        other: (String, u32),
    },
    /// The rate makes no sense.
    #[error(
        "a scale of {0} is out of range\nhint: give a number from {least} to {most}; 1 leaves the \
         rate as it is",
        least = SCALES.0,
        most = SCALES.1
    )]
    Scale(f64),
    /// It would take longer than any run may.
    #[error(
        "{trace}: the run would take more than 100 years, and {nth} requests of it have come so \
         far\nhint: see whether its times and rates are in the unit they are meant to be in; \
         `--scale` above 1 makes it shorter"
    )]
    TooLong {
        /// The trace.
        trace: String,
        /// How many of its requests were pulled.
        nth: u64,
    },
    /// The capacity would be none or absurd.
    #[error(
        "a capacity error of {0} % leaves no capacity\nhint: give a percentage from -99 to 10000"
    )]
    CapacityError(f64),
}
