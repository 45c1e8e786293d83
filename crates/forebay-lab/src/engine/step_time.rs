//! Says how long a step takes, from what is in it.

use forebay_core::Span;

/// What one step computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Prompt tokens computed.
    pub(super) prefill: u64,
    /// Twice the sum, over the chunks, of chunk × context, where a chunk's mean context is what was
    /// computed before it plus half of itself. Twice, so that it stays whole.
    pub(super) prefill_context_doubled: u64,
    /// Sequences that generate one token each.
    pub(super) decodes: u64,
    /// Tokens that those sequences attend to.
    pub(super) decode_context: u64,
}

/// The time of a step, `base + a·prefill + b·Σ(chunk · context) + c·decodes + d·Σ(context of
/// decoding)`, in nanoseconds. Linear, as measured step times nearly are: weights are read once a
/// step, prompt tokens cost arithmetic, attention costs by context, and a decoding sequence costs
/// its sampling and its KV reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StepTime {
    pub(super) base: f64,
    pub(super) prefill: f64,
    pub(super) prefill_context: f64,
    pub(super) decode: f64,
    pub(super) decode_context: f64,
}

impl StepTime {
    /// How long this work takes on an engine that is `slowdown` times as slow as its preset. Never
    /// zero, so that time always passes.
    pub(super) fn of(&self, work: &Work, slowdown: f64) -> Span {
        let nanos = self.base
            + self.prefill * work.prefill as f64
            + self.prefill_context * (work.prefill_context_doubled as f64 / 2.0)
            + self.decode * work.decodes as f64
            + self.decode_context * work.decode_context as f64;
        Span(((nanos * slowdown).round() as u64).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::{StepTime, Work};
    use forebay_core::Span;

    #[test]
    fn a_step_costs_each_coefficient_times_its_quantity() {
        let time = StepTime {
            base: 1_000.0,
            prefill: 10.0,
            prefill_context: 0.5,
            decode: 7.0,
            decode_context: 0.25,
        };
        // A chunk of 6 tokens after 100 computed ones has a mean context of 103.
        let work =
            Work { prefill: 6, prefill_context_doubled: 6 * 206, decodes: 2, decode_context: 400 };
        assert_eq!(time.of(&work, 1.0), Span(1_000 + 60 + 309 + 14 + 100));
        assert_eq!(time.of(&work, 2.0), Span(2 * 1_483));
        assert_eq!(time.of(&Work::default(), 0.0), Span(1));
    }
}
