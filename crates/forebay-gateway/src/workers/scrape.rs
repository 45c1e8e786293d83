//! Reads what a worker says of itself, gently: one reading at a time, bounded in bytes and time,
//! and seldom where there is nothing to read.

use std::time::Duration;

use forebay_core::{Moment, Observation, Span, Tokens, WorkerProfile};
use forebay_wire::engine_metrics::{self, EngineFigures};
use tokio::time::{Instant, sleep};

use super::fetch::{NoAnswer, Question, ask};
use super::options::WatchOptions;
use super::state::Event;
use super::watch::Watched;

/// Figures of an engine are of its last step: what was sent less than this before they were asked
/// for may not be in them. A step of a large batch takes a tenth of a second.
const LAG: Span = Span::millis(200);
/// Between two attempts at the first figures.
const FIRST_EVERY: Duration = Duration::from_millis(100);

/// Why there are no figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoFigures {
    /// The worker can't be read at this moment.
    Unread(NoAnswer),
    /// It has nothing to read there.
    None,
}

impl NoFigures {
    /// Whether the worker can be reached: why one can't be is said by its probes.
    fn is_of_one_that_is_there(self) -> bool {
        match self {
            Self::Unread(why) => matches!(why, NoAnswer::TooLate | NoAnswer::TooLong),
            Self::None => true,
        }
    }
}

impl Watched {
    /// Reads its figures for as long as it is watched.
    pub(super) async fn scrape(&self) {
        let mut every = self.options().scrape.every;
        let mut warned = false;
        loop {
            sleep(self.jittered(every)).await;
            let options = self.options();
            let options = &options.scrape;
            match self.read_figures(options.timeout).await {
                Ok(_) => (every, warned) = (options.every, false),
                Err(why) => {
                    // One that can't be reached is no reason to ask it more than one that can.
                    every = (2 * every).min(options.every_max.max(options.every));
                    if why.is_of_one_that_is_there() && !warned {
                        warned = true;
                        self.warn_of(why);
                    }
                }
            }
            let stale = self.known().turned_stale(self.now(), options.stale_max);
            if !stale.is_empty() {
                let figures = stale.join(", ");
                let (pool, worker) = (&self.pool.name, &self.worker.name);
                tracing::warn!(pool, %worker, figures, "worker's figures are stale: unknown now");
            }
        }
    }

    /// Reads its figures once, and passes on what is new in them.
    pub(super) async fn read_figures(&self, within: Duration) -> Result<EngineFigures, NoFigures> {
        // Never two at a time: the older one might come last, and look like a restart.
        let _turn = self.reading.lock().await;
        let asked_at = self.now();
        let options = self.options();
        let options = &options.scrape;
        let (path, bytes_max) = (options.path.as_str(), options.bytes_max);
        let question = Question { path, body: None, within, bytes_max };
        let answer = ask(&self.worker, question).await.map_err(NoFigures::Unread)?;
        self.warn_of_key(answer.status, path);
        if !answer.status.is_success() {
            return Err(NoFigures::None);
        }
        let figures = engine_metrics::read(&answer.body);
        self.take(asked_at, &figures);
        Ok(figures)
    }

    /// Its first figures, for which a little while is waited; what it is like by them.
    pub(super) async fn introduce(&self) -> WorkerProfile {
        let ends = Instant::now() + self.options().scrape.first_within;
        let figures = loop {
            let left = ends.saturating_duration_since(Instant::now());
            match self.read_figures(left.max(FIRST_EVERY)).await {
                Ok(figures) => break Some(figures),
                Err(NoFigures::Unread(_)) if Instant::now() < ends => sleep(FIRST_EVERY).await,
                Err(_) => break None,
            }
        };
        let figures = figures.unwrap_or_default();
        self.warn_of_unknowns(&figures);
        self.take_block_size(&figures);
        profile(&figures, &self.options())
    }

    fn take(&self, asked_at: Moment, figures: &EngineFigures) {
        let news = self.known().take(self.now(), figures);
        if news.distrusted {
            tracing::warn!(
                pool = self.pool.name,
                worker = %self.worker.name,
                "worker's process seems to change all the time: are there several behind its \
                 address? restarts are not believed until that ends"
            );
        }
        if news.restarted {
            self.happens(Event::Restarted(profile(figures, &self.options())));
        } else if let Some(capacity) = news.capacity {
            self.pool.observe(self.worker.id, Observation::Capacity(capacity));
        }
        if let Some(load) = news.load {
            self.pool.observe(self.worker.id, Observation::Load(load));
        }
        if news.nothing_waits {
            let at = Moment(asked_at.0.saturating_sub(LAG.0));
            self.pool.nothing_waits_in(self.worker.id, at);
        }
    }

    /// Takes the pool's block size from its first worker: nothing has run yet, so no account is by
    /// the old one.
    fn take_block_size(&self, figures: &EngineFigures) {
        let engines = figures.block_size.and_then(|told| u32::try_from(told).ok());
        let longest = self.worker.models.get().iter().filter_map(|it| it.max_model_len).max();
        if self.options().learn_block_size
            && self.pool.workers().is_empty()
            && let (Some(engines), Some(longest)) = (engines, longest)
        {
            let block_size = block_size(engines, longest);
            let settings = self.pool.settings();
            self.pool.reconfigure(forebay_core::Settings { block_size, ..settings });
        }
    }

    fn warn_of(&self, why: NoFigures) {
        let (pool, worker) = (&self.pool.name, &self.worker.name);
        let path = &self.options().scrape.path;
        match why {
            NoFigures::None => {
                tracing::warn!(pool, %worker, path, "worker has no figures at this path");
            }
            NoFigures::Unread(why) => {
                let reason = why.word();
                tracing::warn!(pool, %worker, path, reason, "worker's figures can't be read");
            }
        }
    }

    fn warn_of_unknowns(&self, figures: &EngineFigures) {
        let assumed = self.options().profile;
        let capacity = assumed.kv_capacity.filter(|_| figures.kv_capacity_tokens.is_none());
        let unknown = [
            (figures.kv_capacity_tokens.is_none() && capacity.is_none(), "KV capacity"),
            (figures.waiting.is_none(), "requests waiting"),
            (figures.preemptions_total.is_none(), "preemptions"),
        ];
        let names: Vec<&str> =
            unknown.into_iter().filter_map(|(unknown, name)| unknown.then_some(name)).collect();
        if !names.is_empty() {
            let figures = names.join(", ");
            tracing::warn!(
                pool = self.pool.name,
                worker = %self.worker.name,
                figures,
                "worker does not tell these figures: capacity is learned from how it behaves, \
                 the rest is done without"
            );
        }
    }
}

/// Most blocks of the longest prompt: what is known of a prompt's prefix costs about 60 ns a block.
const BLOCKS_MAX: u64 = 512;

/// The block size for an engine's own and the longest prompt of its model, in tokens.
fn block_size(engines: u32, longest: u64) -> u32 {
    let mut block_size = engines.clamp(1, 1 << 15);
    while longest / u64::from(block_size) > BLOCKS_MAX && block_size < 1 << 15 {
        block_size *= 2;
    }
    block_size
}

/// What a worker with these figures is like: what it tells goes before what was configured.
fn profile(figures: &EngineFigures, options: &WatchOptions) -> WorkerProfile {
    let told = figures.kv_capacity_tokens.filter(|told| *told > 0).map(Tokens);
    WorkerProfile { kv_capacity: told.or(options.profile.kv_capacity), ..options.profile }
}

#[cfg(test)]
mod tests {
    use super::block_size;

    #[test]
    fn blocks_are_as_fine_as_the_engines_and_as_coarse_as_the_longest_prompt_asks_for() {
        assert_eq!(block_size(32, 2_048), 32);
        assert_eq!(block_size(16, 16_384), 32);
        assert_eq!(block_size(16, 131_072), 256);
        assert_eq!(block_size(0, 0), 1);
        assert_eq!(block_size(16, u64::MAX), 32_768);
    }
}
