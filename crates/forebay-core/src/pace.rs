//! Measures how fast the fleet works: residence, prefill and decode, each as a running mean.

use crate::means::RunningMean;
use crate::units::{Moment, Span, Tokens};

/// Finished requests after which the mean residence of the finished is believed. Before, they are
/// the short ones, since the long ones have not finished yet.
const FINISHED_MIN: u32 = 64;

/// Samples after which a pace forgets: many enough that noise alone seldom moves it by a fifth,
/// which would make the keys of the whole queue anew, few enough to follow a fleet that changes.
const PACE_WINDOW: u32 = 128;
/// The same for the mean arrival, which scatters more and changes less.
const ARRIVAL_WINDOW: u32 = 1024;

/// How fast the fleet works.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    need: RunningMean<PACE_WINDOW>,
    need_secs: RunningMean<PACE_WINDOW>,
    finished: u32,
    /// KV need in flight, and the same times its moment of dispatch in seconds: their ratio is the
    /// mean moment of dispatch, weighted by need.
    flying: f64,
    flying_since: f64,
    flights: u32,
    prefill_secs: RunningMean<PACE_WINDOW>,
    prefill_tokens: RunningMean<PACE_WINDOW>,
    token_secs: RunningMean<PACE_WINDOW>,
    stay: RunningMean<PACE_WINDOW>,
    uncached: RunningMean<ARRIVAL_WINDOW>,
    occupancy: RunningMean<ARRIVAL_WINDOW>,
}

impl Pace {
    /// A request with this KV need went to a worker.
    pub(crate) fn note_dispatched(&mut self, need: Tokens, now: Moment) {
        self.flights += 1;
        self.flying += need.as_f64();
        self.flying_since += need.as_f64() * now.since(Moment::START).as_secs_f64();
    }

    /// It is no longer there.
    pub(crate) fn note_landed(&mut self, need: Tokens, dispatched: Moment) {
        self.flights -= 1;
        self.flying -= need.as_f64();
        self.flying_since -= need.as_f64() * dispatched.since(Moment::START).as_secs_f64();
        if self.flights == 0 {
            // Rounding must not pile up over the years.
            (self.flying, self.flying_since) = (0.0, 0.0);
        }
    }

    /// A request that needed so many KV tokens was on its worker for so long.
    pub(crate) fn note_finished(&mut self, need: Tokens, residence: Span) {
        self.finished = self.finished.saturating_add(1);
        self.stay.add(residence.as_secs_f64());
        self.need.add(need.as_f64());
        self.need_secs.add(need.as_f64() * residence.as_secs_f64());
    }

    /// A first token came after so long, with so many uncached tokens to compute up to its own.
    pub(crate) fn note_prefill(&mut self, tokens: Tokens, took: Span) {
        self.prefill_tokens.add(tokens.as_f64());
        self.prefill_secs.add(took.as_secs_f64());
    }

    /// A request took so long from its first to its last of so many tokens.
    pub(crate) fn note_decode(&mut self, output: Tokens, took: Span) {
        if output.0 > 1 {
            self.token_secs.add(took.as_secs_f64() / (output.as_f64() - 1.0));
        }
    }

    /// An arrival had so many uncached tokens on the worker that holds most of it, and so much
    /// occupancy.
    pub(crate) fn note_arrival(&mut self, uncached: Tokens, occupancy: Tokens) {
        self.uncached.add(uncached.as_f64());
        self.occupancy.add(occupancy.as_f64());
    }

    /// Whether anything has been measured to predict from.
    pub(crate) fn is_known(&self) -> bool {
        self.prefill_secs.get().is_some()
    }

    /// Mean time on a worker, weighted by KV need: with it, need in flight ÷ residence is the rate
    /// at which room is freed (Little's law in KV tokens). Until enough have finished it is at
    /// least the mean age of those in flight.
    pub(crate) fn residence(&self, now: Moment) -> Span {
        let finished = match (self.need.get(), self.need_secs.get()) {
            (Some(need), Some(need_secs)) if need > 0.0 => need_secs / need,
            _ => 0.0,
        };
        if self.finished >= FINISHED_MIN || self.flying < 1.0 {
            return Span::secs_f64(finished);
        }
        let age = now.since(Moment::START).as_secs_f64() - self.flying_since / self.flying;
        Span::secs_f64(finished.max(age))
    }

    /// What a preemption does again, as a part of a residence: the prefill of all that the request
    /// holds. Dear until anything is known.
    pub(crate) fn preemption_cost(&self, now: Moment) -> f64 {
        let again = self.prefill(Tokens(self.need.get().unwrap_or(0.0) as u64)).as_secs_f64();
        let residence = self.residence(now).as_secs_f64();
        if again > 0.0 && residence > 0.0 { again / residence } else { 1.0 }
    }

    /// Mean time on a worker, each request alike.
    pub(crate) fn stay_mean(&self) -> Span {
        Span::secs_f64(self.stay.get().unwrap_or(0.0))
    }

    /// Seconds from one token of a request to the next; 0 before any was measured.
    pub(crate) fn token_secs(&self) -> f64 {
        self.token_secs.get().unwrap_or(0.0)
    }

    /// Mean uncached tokens and mean occupancy of an arrival.
    pub(crate) fn arrival_means(&self) -> (f64, f64) {
        (self.uncached.get().unwrap_or(1.0), self.occupancy.get().unwrap_or(0.0))
    }

    /// Time from dispatch to the first token, with so many uncached tokens up to it.
    pub(crate) fn prefill(&self, tokens: Tokens) -> Span {
        match (self.prefill_tokens.get(), self.prefill_secs.get()) {
            (Some(mean), Some(secs)) if mean > 0.0 => Span::secs_f64(secs / mean * tokens.as_f64()),
            _ => Span::ZERO,
        }
    }

    /// Tokens of prefill that are done in so many seconds; none before any was measured.
    pub(crate) fn prefill_in(&self, secs: f64) -> Tokens {
        match (self.prefill_tokens.get(), self.prefill_secs.get()) {
            (Some(tokens), Some(took)) if took > 0.0 => Tokens((secs * tokens / took) as u64),
            _ => Tokens::ZERO,
        }
    }

    /// Time on a worker of a request with so much prefill before and with it and so much output.
    pub(crate) fn stay(&self, prefill: Tokens, output: Tokens) -> Span {
        let decode = Span::secs_f64(self.token_secs() * output.as_f64());
        self.prefill(prefill) + decode
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_ones_that_have_not_finished_are_not_forgotten() {
        let mut pace = Pace::default();
        let at = |secs| Moment::START + Span::secs(secs);
        pace.note_dispatched(Tokens(1000), at(0));
        pace.note_dispatched(Tokens(10), at(0));
        pace.note_landed(Tokens(10), at(0));
        pace.note_finished(Tokens(10), Span::secs(1));
        assert_eq!(pace.residence(at(9)), Span::secs(9));
        (0..FINISHED_MIN).for_each(|_| pace.note_finished(Tokens(10), Span::secs(1)));
        assert_eq!(pace.residence(at(9)), Span::secs(1));
        pace.note_landed(Tokens(1000), at(0));
        assert_eq!(pace.residence(at(90)), Span::secs(1));
    }

    #[test]
    fn residence_is_weighted_by_need() {
        let mut pace = Pace::default();
        pace.note_finished(Tokens(9000), Span::secs(10));
        pace.note_finished(Tokens(1000), Span::ZERO);
        assert_eq!(pace.residence(Moment::START), Span::secs(9));
    }
}
