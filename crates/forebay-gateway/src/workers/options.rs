//! Holds how workers are watched: how often, how long, how much.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Tokens, WorkerProfile};

use crate::config::{Config, Pool as PoolConfig};

/// How workers are watched. The defaults are guesses that were tried on engines of the size of one
/// machine; each says what it weighs.
#[derive(Clone, Debug)]
pub(crate) struct WatchOptions {
    /// How a worker is asked whether it is well.
    pub(crate) probe: ProbeOptions,
    /// How a worker's own figures are read.
    pub(crate) scrape: ScrapeOptions,
    /// The models that the pool is asked for, if they are listed.
    pub(crate) models: Arc<[String]>,
    /// The path that a worker's models are read from.
    pub(crate) models_path: String,
    /// From one reading of a worker's models to the next: adapters come and go, but not often.
    pub(crate) models_every: Duration,
    /// How long a worker may owe a stream its next piece, without any other sign of life, until it
    /// is taken for stalled. To be below the time after which a stream is given up, or nobody owes
    /// anything any more by then.
    pub(crate) silence_max: Duration,
    /// How long a worker that does not answer probes may go without any sign of life until what
    /// runs on it is taken for lost.
    pub(crate) gone_after: Duration,
    /// How long a drained worker may take to finish what it has when it is to leave.
    pub(crate) drain_max: Duration,
    /// How often a worker's account is looked at for silence and for the end of a drain.
    pub(crate) tick: Duration,
    /// What is taken of a worker where its engine tells nothing.
    pub(crate) profile: WorkerProfile,
    /// Whether the pool takes its block size from its first worker.
    pub(crate) learn_block_size: bool,
}

/// How a worker is asked whether it is well.
#[derive(Clone, Debug)]
pub(crate) struct ProbeOptions {
    /// The path that is asked for.
    pub(crate) path: String,
    /// From the end of one probe to the next. Up to a tenth is added or taken by chance, so that
    /// many gateways do not ask at once.
    pub(crate) every: Duration,
    /// The same while the worker is away, so that it is used soon after it is well.
    pub(crate) every_away: Duration,
    /// The longest that an answer may take.
    pub(crate) timeout: Duration,
    /// Failures in a row after which a worker is sent nothing new.
    pub(crate) failures: u32,
    /// Successes in a row after which it is again.
    pub(crate) successes: u32,
    /// From one attempt at a completion to the next, while a worker that was lost is tried out.
    pub(crate) attempt_every: Duration,
    /// The longest that one attempt may take.
    pub(crate) attempt_max: Duration,
}

/// How a worker's own figures are read.
#[derive(Clone, Debug)]
pub(crate) struct ScrapeOptions {
    /// The path that is asked for.
    pub(crate) path: String,
    /// From the end of one reading to the next.
    pub(crate) every: Duration,
    /// The most that becomes of it for a worker that has no figures.
    pub(crate) every_max: Duration,
    /// The longest that a reading may take.
    pub(crate) timeout: Duration,
    /// The most bytes of one reading. Engines give 60 KB; one with many adapters gives a few times
    /// that.
    pub(crate) bytes_max: usize,
    /// The age above which a figure is not believed any more.
    pub(crate) stale_max: Duration,
    /// How long a worker's first figures are waited for before it is used without.
    pub(crate) first_within: Duration,
}

impl WatchOptions {
    /// Those of a pool of the configuration.
    pub(crate) fn of(config: &Config, pool: &PoolConfig) -> Self {
        let (health, scrape) = (&config.health, &config.scrape);
        let default = Self::default();
        Self {
            models: Arc::from(pool.models.as_slice()),
            probe: ProbeOptions {
                path: health.path.clone(),
                every: health.interval,
                timeout: health.timeout,
                failures: health.failures,
                successes: health.successes,
                ..default.probe
            },
            scrape: ScrapeOptions {
                path: scrape.path.clone(),
                every: scrape.interval,
                stale_max: scrape.stale_max,
                ..default.scrape
            },
            silence_max: default.silence_max.min(config.timeouts.idle_max.mul_f64(0.75)),
            drain_max: config.timeouts.drain_max,
            profile: pool.profile,
            learn_block_size: pool.block_size.is_none(),
            ..default
        }
    }
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            probe: ProbeOptions::default(),
            scrape: ScrapeOptions::default(),
            models: Arc::from([]),
            models_path: "/v1/models".to_owned(),
            models_every: Duration::from_mins(1),
            silence_max: Duration::from_secs(30),
            gone_after: Duration::from_secs(10),
            drain_max: Duration::from_mins(10),
            tick: Duration::from_millis(250),
            profile: WorkerProfile {
                kv_capacity: None,
                // What vLLM takes by itself for a server on most devices.
                batch_tokens_max: Tokens(2_048),
                seqs_max: 256,
            },
            learn_block_size: false,
        }
    }
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self {
            path: "/health".to_owned(),
            every: Duration::from_secs(2),
            every_away: Duration::from_secs(1),
            timeout: Duration::from_secs(2),
            failures: 3,
            successes: 1,
            attempt_every: Duration::from_secs(4),
            attempt_max: Duration::from_mins(1),
        }
    }
}

impl Default for ScrapeOptions {
    fn default() -> Self {
        Self {
            path: "/metrics".to_owned(),
            every: Duration::from_secs(1),
            every_max: Duration::from_secs(30),
            timeout: Duration::from_secs(2),
            bytes_max: 4 << 20,
            stale_max: Duration::from_secs(10),
            first_within: Duration::from_secs(2),
        }
    }
}
