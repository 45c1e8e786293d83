//! Remembers how many tokens requests of one kind generate on average.
//!
//! The kind is the tenant and the prefix: what a prompt starts with says what it is for (a
//! classifier's instructions lead to three tokens, a chat's to three hundred). A mean is kept for
//! the prefix at several depths, and the deepest one that enough requests have shared is used.
//! Evidence (`docs/concepts/evidence.md`): better predictions of the length, even perfect ones,
//! hardly matter, so nothing cleverer is here.

use hashbrown::HashMap;

use crate::fleet::Fixed;
use crate::request::{Arrival, TenantId};
use crate::rng::mixed;
use crate::units::Tokens;

/// Depths, in blocks, at which a prefix has a mean of its own.
const DEPTHS: [usize; 5] = [1, 4, 16, 64, 256];
/// Requests that a mean needs before it is believed.
const COUNT_MIN: u32 = 8;
/// What is expected before anything has finished: between a classifier's answer and a chat's.
const MEAN_START: u64 = 256;
/// But no more than this part of the smallest worker: engines are sized to run some at once.
const PART_START: u64 = 16;
/// Samples after which a mean output forgets: prompts of one kind change their kind seldom.
const OUTPUT_WINDOW: u32 = 64;

/// A running mean: exact for the first `WINDOW` samples, exponential after.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunningMean<const WINDOW: u32> {
    count: u32,
    mean: f64,
}

impl<const WINDOW: u32> RunningMean<WINDOW> {
    pub(crate) fn add(&mut self, sample: f64) {
        self.count = self.count.saturating_add(1);
        self.mean += (sample - self.mean) / f64::from(self.count.min(WINDOW));
    }

    /// The mean, if anything was added.
    pub(crate) fn get(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }
}

type OutputMean = RunningMean<OUTPUT_WINDOW>;

/// Mean outputs by tenant and prefix, in bounded memory.
#[derive(Debug)]
pub(crate) struct OutputMeans {
    /// Two generations: when the young one is full it becomes the old one, so that a mean that
    /// nobody asked for during a whole generation is forgotten.
    young: HashMap<u64, OutputMean, Fixed>,
    old: HashMap<u64, OutputMean, Fixed>,
    all: OutputMean,
    generation_max: usize,
}

impl OutputMeans {
    /// At most `means_max` means are remembered.
    pub(crate) fn new(means_max: u32) -> Self {
        let generation_max = (means_max / 2).max(1) as usize;
        Self {
            young: HashMap::default(),
            old: HashMap::default(),
            all: OutputMean::default(),
            generation_max,
        }
    }

    /// The output to expect of a request, at least 1 and at most what it may generate, on workers
    /// of which the smallest holds so many tokens.
    pub(crate) fn expect(&self, arrival: &Arrival, capacity: Tokens) -> Tokens {
        let start = MEAN_START.min(capacity.0 / PART_START) as f64;
        let mean = keys(arrival)
            .filter_map(|key| self.young.get(&key).or_else(|| self.old.get(&key)))
            .filter(|mean| mean.count >= COUNT_MIN)
            .last()
            .or(Some(&self.all))
            .and_then(OutputMean::get)
            .unwrap_or(start);
        let bound = arrival.output_max.map_or(u64::MAX, |bound| bound.0);
        Tokens((mean.round() as u64).min(bound).max(1))
    }

    /// A request of this kind generated so many tokens.
    pub(crate) fn observe(&mut self, arrival: &Arrival, output: Tokens) {
        self.all.add(output.as_f64());
        for key in keys(arrival) {
            let mut mean =
                self.young.get(&key).or_else(|| self.old.get(&key)).copied().unwrap_or_default();
            mean.add(output.as_f64());
            if self.young.len() >= self.generation_max && !self.young.contains_key(&key) {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(key, mean);
        }
    }
}

/// The keys of a request's means, the shallowest first: its tenant, then its prefix at each depth
/// it reaches.
fn keys(arrival: &Arrival) -> impl Iterator<Item = u64> + '_ {
    let TenantId(tenant) = arrival.tenant;
    let tenant = mixed(u64::from(tenant) + 1);
    let prefixes = DEPTHS
        .iter()
        .map_while(|depth| arrival.blocks.get(depth - 1))
        .map(move |block| mixed(tenant ^ block.0));
    std::iter::once(tenant).chain(prefixes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::request::{ClassId, RequestId};
    use crate::units::BlockHash;

    const LARGE: Tokens = Tokens(100_000);

    fn arrival(first: u64, rest: u64) -> Arrival {
        let blocks: Vec<_> = (0..20)
            .map(|nth| BlockHash(if nth < 2 { first + nth } else { rest * 1000 + nth }))
            .collect();
        Arrival {
            request: RequestId(0),
            class: ClassId(0),
            tenant: TenantId(0),
            session: None,
            prompt: Tokens(1280),
            output_max: None,
            blocks: Arc::from(blocks),
            ticket: None,
        }
    }

    #[test]
    fn the_deepest_prefix_that_was_seen_often_is_believed() {
        let mut means = OutputMeans::new(1000);
        for nth in 0..10 {
            means.observe(&arrival(100, nth), Tokens(3));
            means.observe(&arrival(200, nth), Tokens(300));
        }
        assert_eq!(means.expect(&arrival(100, 99), LARGE), Tokens(3));
        assert_eq!(means.expect(&arrival(200, 99), LARGE), Tokens(300));
        let unknown = means.expect(&arrival(300, 99), LARGE).0;
        assert!(
            (140..160).contains(&unknown),
            "an unknown prefix gets its tenant's mean: {unknown}"
        );
    }

    #[test]
    fn a_small_worker_is_not_filled_by_a_guess() {
        let means = OutputMeans::new(10);
        assert_eq!(means.expect(&arrival(1, 1), LARGE), Tokens(256));
        assert_eq!(means.expect(&arrival(1, 1), Tokens(512)), Tokens(32));
    }

    #[test]
    fn max_tokens_bounds_the_expectation() {
        let mut arrival = arrival(1, 1);
        arrival.output_max = Some(Tokens(16));
        assert_eq!(OutputMeans::new(10).expect(&arrival, LARGE), Tokens(16));
    }

    #[test]
    fn memory_is_bounded_whatever_prefixes_come() {
        let mut means = OutputMeans::new(100);
        (0..10_000).for_each(|nth| means.observe(&arrival(nth * 7, nth), Tokens(9)));
        assert!(means.young.len() + means.old.len() <= 100);
    }
}
