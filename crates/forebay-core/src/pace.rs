//! Measures how fast the fleet works: residence, prefill and decode, each as a running mean.

use crate::means::RunningMean;
use crate::units::{Span, Tokens};

/// The residence assumed before any request has finished.
const RESIDENCE_START: Span = Span::secs(1);

/// How fast the fleet works.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    need: RunningMean,
    need_secs: RunningMean,
    prefill_secs: RunningMean,
    prefill_tokens: RunningMean,
    token_secs: RunningMean,
    uncached: RunningMean,
}

impl Pace {
    /// A request that needed so many KV tokens was on its worker for so long.
    pub(crate) fn note_finished(&mut self, need: Tokens, residence: Span) {
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

    /// An arrival had so many uncached tokens on the worker that holds most of it.
    pub(crate) fn note_arrival(&mut self, uncached: Tokens) {
        self.uncached.add(uncached.as_f64());
    }

    /// Mean time on a worker, weighted by KV need: with it, need in flight ÷ residence is the rate
    /// at which room is freed (Little's law in KV tokens).
    pub(crate) fn residence(&self) -> Span {
        match (self.need.get(), self.need_secs.get()) {
            (Some(need), Some(need_secs)) if need > 0.0 => Span::secs_f64(need_secs / need),
            _ => RESIDENCE_START,
        }
    }

    /// Mean uncached tokens of an arrival, at least 1.
    pub(crate) fn uncached_mean(&self) -> f64 {
        self.uncached.get().unwrap_or(1.0).max(1.0)
    }

    /// Time from dispatch to the first token, with so many uncached tokens up to it.
    pub(crate) fn prefill(&self, tokens: Tokens) -> Span {
        match (self.prefill_tokens.get(), self.prefill_secs.get()) {
            (Some(mean), Some(secs)) if mean > 0.0 => Span::secs_f64(secs / mean * tokens.as_f64()),
            _ => Span::ZERO,
        }
    }

    /// Time on a worker of a request with so much prefill before and with it and so much output.
    pub(crate) fn stay(&self, prefill: Tokens, output: Tokens) -> Span {
        let decode = Span::secs_f64(self.token_secs.get().unwrap_or(0.0) * output.as_f64());
        self.prefill(prefill) + decode
    }
}
