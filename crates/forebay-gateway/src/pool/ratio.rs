//! Learns how many bytes of a prompt are one token of a model, from what the engines say they read.
//!
//! Prompts are routed by their bytes, engines account in tokens. Each answer with `usage` tells
//! both. Two figures follow from that, and they move differently: the *estimate* of a prompt's
//! length follows every answer, and the *block*, in bytes, on which prefix hashes rest, only moves
//! when it is clearly wrong, since moving it forgets what is known of every cache.

use std::sync::{Mutex, PoisonError};

/// The least and the most that is believed. Below it are images and ids, above it is an engine that
/// does not count.
const BELIEVED: (f64, f64) = (1.0, 16.0);
/// Answers that are needed before the block moves.
const EVIDENCE_MIN: u32 = 16;
/// The block moves when it is off by more than this factor.
const OFF: f64 = 1.15;
/// The newest answer's weight, once there are many.
const NEWEST: f64 = 1.0 / 64.0;
/// Prompts shorter than this, in tokens, say more of the chat template than of the text.
const PROMPT_MIN: u64 = 32;

/// The learned ratio of a model.
#[derive(Debug)]
pub(crate) struct Ratio(Mutex<Learned>);

#[derive(Clone, Copy, Debug)]
struct Learned {
    bytes: f64,
    tokens: f64,
    answers: u32,
    estimate: f64,
    block: f64,
}

impl Ratio {
    /// Starts from a configured or assumed ratio.
    pub(crate) fn new(start: f64) -> Self {
        let start = start.clamp(BELIEVED.0, BELIEVED.1);
        let nothing =
            Learned { bytes: 0.0, tokens: 0.0, answers: 0, estimate: start, block: start };
        Self(Mutex::new(nothing))
    }

    /// Takes note of an answer: a prompt of so many bytes was so many tokens.
    pub(crate) fn learn(&self, bytes: u64, tokens: u64) {
        let ratio = bytes as f64 / tokens.max(1) as f64;
        if tokens < PROMPT_MIN || ratio < BELIEVED.0 || ratio > BELIEVED.1 {
            return;
        }
        let mut learned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        learned.answers = learned.answers.saturating_add(1);
        // A weighted mean at first, then one that follows the traffic.
        let keep = if f64::from(learned.answers) * NEWEST < 1.0 { 1.0 } else { 1.0 - NEWEST };
        learned.bytes = learned.bytes * keep + bytes as f64;
        learned.tokens = learned.tokens * keep + tokens as f64;
        learned.estimate = learned.bytes / learned.tokens;
        let off = (learned.estimate / learned.block).max(learned.block / learned.estimate);
        if learned.answers >= EVIDENCE_MIN && off > OFF {
            learned.block = learned.estimate;
            learned.answers = 0;
        }
    }

    /// How long a prompt of so many bytes is, in tokens, at least 1.
    pub(crate) fn tokens(&self, bytes: u64) -> u64 {
        ((bytes as f64 / self.learned().estimate).round() as u64).max(1)
    }

    /// Bytes in a block of so many tokens, at least 1.
    pub(crate) fn block_bytes(&self, block_size: u32) -> usize {
        ((f64::from(block_size) * self.learned().block).round() as usize).max(1)
    }

    /// Bytes in a token, as learned.
    pub(crate) fn bytes_per_token(&self) -> f64 {
        self.learned().estimate
    }

    fn learned(&self) -> Learned {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Ratio;

    #[test]
    fn the_estimate_follows_at_once_and_the_block_only_when_it_is_clearly_off() {
        let ratio = Ratio::new(4.0);
        ratio.learn(6_000, 1_000);
        assert_eq!(ratio.tokens(6_000), 1_000);
        assert_eq!(ratio.block_bytes(64), 256);
        (0..15).for_each(|_| ratio.learn(6_000, 1_000));
        assert_eq!(ratio.block_bytes(64), 384);
        (0..200).for_each(|_| ratio.learn(6_300, 1_000));
        assert_eq!(ratio.block_bytes(64), 384, "5 % off is not worth forgetting every cache");
        assert!((ratio.bytes_per_token() - 6.3).abs() < 0.1);
    }

    #[test]
    fn an_engine_that_does_not_count_is_not_believed() {
        let ratio = Ratio::new(4.0);
        (0..100).for_each(|_| ratio.learn(220_000, 10));
        (0..100).for_each(|_| ratio.learn(220_000, 0));
        (0..100).for_each(|_| ratio.learn(10, 1_000));
        assert_eq!(ratio.tokens(4_000), 1_000);
        assert_eq!(ratio.tokens(0), 1);
        assert_eq!(ratio.block_bytes(16), 64);
    }
}
