//! The waiting requests of one tenant in one class, in the three orders that matter.
//!
//! For a given drain time the order of `hold` does not move with time: cost / mean − K × waited /
//! drain differs from cost / mean + K × arrived / drain by the same amount for all. So a sorted set
//! serves, and is made anew when the drain time or the mean has moved by a fifth.

use std::collections::BTreeSet;

use super::fairness::{Account, Ordered};
use crate::means::RunningMean;
use crate::request::RequestId;
use crate::units::{Moment, Span, Tokens};

/// How far the drain time or the mean may move before the keys are made anew.
const DRIFT_MAX: f64 = 1.2;
/// The least drain time a key is made with: below it waits are too short to weigh.
const DRAIN_MIN: Span = Span::millis(1);

/// Occupancy counts in full once what waits would fill the flow's part of the fleet so many times
/// over, and in proportion before. With a short queue nearly everyone is let in by the next ends,
/// whatever they hold, and to look at it costs the tail; with a long one those ahead keep the room
/// from all the others (`docs/concepts/evidence.md`).
const FILLS_FULL: f64 = 2.5;

/// What the keys of a flow were made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Cost of a mean arrival, in tokens of prefill.
    pub(crate) mean: f64,
    /// How far occupancy counts, from 0 to 1.
    weight: f64,
    /// Predicted time until the flow's queue is empty, in seconds.
    pub(crate) drain: f64,
    /// K of `docs/concepts/hold.md`.
    pub(crate) ageing: f64,
}

impl Scale {
    /// A scale for mean arrivals with so much prefill and occupancy, in a flow whose queue drains
    /// in this time and would fill its part of the fleet so many times over.
    pub(crate) fn new(
        (uncached, occupancy): (f64, f64),
        (drain, fills): (Span, f64),
        ageing: f64,
    ) -> Self {
        let weight = (fills / FILLS_FULL).clamp(0.0, 1.0);
        let mean = (uncached + weight * occupancy).max(1.0);
        Self { mean, weight, drain: drain.max(DRAIN_MIN).as_secs_f64(), ageing }
    }

    /// The key of a request that has so much prefill before it and in it, and so much occupancy:
    /// the lowest goes first.
    pub(crate) fn key(&self, prefill: Tokens, occupancy: Tokens, arrived: Moment) -> f64 {
        let arrived = arrived.since(Moment::START).as_secs_f64();
        let cost = prefill.as_f64() + self.weight * occupancy.as_f64();
        cost / self.mean + self.ageing * arrived / self.drain
    }

    /// As much of a request's occupancy as counts.
    pub(crate) fn counted(&self, occupancy: Tokens) -> Tokens {
        Tokens((self.weight * occupancy.as_f64()) as u64)
    }

    fn has_drifted(&self, now: &Self) -> bool {
        let drift = |a: f64, b: f64| a.max(b) > DRIFT_MAX * a.min(b);
        drift(self.mean, now.mean)
            || drift(self.drain, now.drain)
            || self.ageing.total_cmp(&now.ageing).is_ne()
    }
}

/// Requests after which the spread of a flow's needs forgets.
const NEED_WINDOW: u32 = 64;

/// Where a waiting request stands in its flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) key: f64,
    pub(crate) promise: Moment,
    pub(crate) arrived: Moment,
    pub(crate) need: Tokens,
    /// Uncached tokens on the worker that held most of it, at arrival.
    pub(crate) work: Tokens,
}

/// The waiting requests of one tenant in one class.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) account: Account,
    /// Requests of the flow on workers.
    pub(crate) in_flight: u32,
    /// KV need of those on workers.
    pub(crate) flying: Tokens,
    need_mean: RunningMean<NEED_WINDOW>,
    need_square_mean: RunningMean<NEED_WINDOW>,
    /// KV need of those that wait.
    pub(crate) need: Tokens,
    /// Uncached tokens of those that wait, as at their arrivals.
    pub(crate) work: Tokens,
    pub(crate) scale: Scale,
    pub(crate) by_key: BTreeSet<(Ordered, RequestId)>,
    pub(crate) by_promise: BTreeSet<(Moment, RequestId)>,
    pub(crate) by_age: BTreeSet<(Moment, RequestId)>,
}

impl Flow {
    pub(crate) fn new() -> Self {
        Self {
            account: Account::default(),
            in_flight: 0,
            flying: Tokens::ZERO,
            need_mean: RunningMean::default(),
            need_square_mean: RunningMean::default(),
            need: Tokens::ZERO,
            work: Tokens::ZERO,
            scale: Scale::new((1.0, 0.0), (DRAIN_MIN, 0.0), 0.0),
            by_key: BTreeSet::new(),
            by_promise: BTreeSet::new(),
            by_age: BTreeSet::new(),
        }
    }

    /// Number of requests that wait.
    pub(crate) fn len(&self) -> usize {
        self.by_age.len()
    }

    /// A request of the flow went to a worker.
    pub(crate) fn depart(&mut self, need: Tokens) {
        self.in_flight += 1;
        self.flying += need;
        self.need_mean.add(need.as_f64());
        self.need_square_mean.add(need.as_f64() * need.as_f64());
    }

    /// It came back.
    pub(crate) fn land(&mut self, need: Tokens) {
        self.in_flight -= 1;
        self.flying -= need;
    }

    /// The need of a large request of the flow: the mean and two standard deviations.
    pub(crate) fn large_need(&self) -> Tokens {
        let mean = self.need_mean.get().unwrap_or(0.0);
        let variance = self.need_square_mean.get().unwrap_or(0.0) - mean * mean;
        Tokens((mean + 2.0 * variance.max(0.0).sqrt()) as u64)
    }

    /// Nothing waits and nothing runs: the flow can be forgotten.
    pub(crate) fn is_idle(&self) -> bool {
        self.by_age.is_empty() && self.in_flight == 0
    }

    pub(crate) fn insert(&mut self, request: RequestId, place: &Place) {
        self.by_key.insert((Ordered(place.key), request));
        self.by_promise.insert((place.promise, request));
        self.by_age.insert((place.arrived, request));
        self.need += place.need;
        self.work += place.work;
    }

    pub(crate) fn remove(&mut self, request: RequestId, place: &Place) {
        self.by_key.remove(&(Ordered(place.key), request));
        self.by_promise.remove(&(place.promise, request));
        self.by_age.remove(&(place.arrived, request));
        self.need -= place.need;
        self.work -= place.work;
    }

    /// Moves a request to another key.
    pub(crate) fn rekey(&mut self, request: RequestId, before: f64, after: f64) {
        self.by_key.remove(&(Ordered(before), request));
        self.by_key.insert((Ordered(after), request));
    }

    /// Takes the scale of now, and says whether the keys must be made anew for it.
    pub(crate) fn rescale(&mut self, now: Scale) -> bool {
        let drifted = self.scale.has_drifted(&now);
        if drifted {
            self.scale = now;
        }
        drifted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_weighs_waiting_in_units_of_the_drain() {
        let scale = Scale::new((1000.0, 0.0), (Span::secs(30), 1.0), 3.0);
        let key = |prefill, at| scale.key(Tokens(prefill), Tokens::ZERO, at);
        let late_short = key(500, Moment::START + Span::secs(20));
        let early_long = key(2000, Moment::START);
        assert!(early_long < late_short, "20 s of a 30 s drain weigh two mean prefills");
        let soon_short = key(500, Moment::START + Span::secs(10));
        assert!(soon_short < early_long);
    }

    #[test]
    fn what_a_request_holds_counts_the_more_the_longer_the_queue_is() {
        let occupancy = Tokens(2000);
        for (fills, counted, mean) in [(0.0, 0, 1000.0), (1.25, 1000, 2000.0), (9.0, 2000, 3000.0)]
        {
            let scale = Scale::new((1000.0, 2000.0), (Span::secs(30), fills), 3.0);
            assert_eq!((scale.counted(occupancy), scale.mean), (Tokens(counted), mean));
            let key = scale.key(Tokens(500), occupancy, Moment::START);
            assert!((key - (500.0 + counted as f64) / mean).abs() < 1e-9);
        }
    }

    #[test]
    fn keys_are_made_anew_when_the_drain_has_moved_by_a_fifth() {
        let mut flow = Flow::new();
        let scale = |mean, secs| Scale::new((mean, 0.0), (Span::secs(secs), 1.0), 3.0);
        assert!(flow.rescale(scale(100.0, 10)));
        assert!(!flow.rescale(scale(110.0, 11)));
        assert!(flow.rescale(scale(110.0, 13)));
    }
}
