//! Learns how much KV a worker holds when its engine does not tell.
//!
//! What can be seen from outside: a request whose first token comes much later than its prefill
//! should take was kept waiting inside the engine, so the engine had no room for it. As in TCP's
//! slow start, the guess begins small and grows by half each time a request that was dispatched to
//! a nearly full guess starts in time, until one starts late; from then on it grows by a sixteenth.
//! It shrinks to seven eighths of what was committed when one starts late, at most once per mean
//! residence since late starts come in groups.

use crate::units::{Moment, Span, Tokens};

/// The first guess: what the smallest usable engine holds.
const GUESS_START: Tokens = Tokens(16_384);
/// A first token is late when it takes this many times the predicted prefill, and [`LATE_SLACK`]
/// besides.
const LATE_FACTOR: f64 = 3.0;
/// What a first token may always take beyond the factor: scheduling and network of a healthy
/// engine.
const LATE_SLACK: Span = Span::millis(250);

/// A worker's KV capacity, known or learned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    known: Option<Tokens>,
    guess: Tokens,
    shrunk_at: Option<Moment>,
}

impl Capacity {
    pub(crate) fn new(known: Option<Tokens>) -> Self {
        Self { known, guess: GUESS_START, shrunk_at: None }
    }

    /// The capacity to decide with.
    pub(crate) fn tokens(&self) -> Tokens {
        self.known.unwrap_or(self.guess)
    }

    /// The capacity, if the engine told it.
    pub(crate) fn known(&self) -> Option<Tokens> {
        self.known
    }

    /// The engine told its capacity.
    pub(crate) fn learn(&mut self, capacity: Tokens) {
        self.known = Some(capacity);
    }

    /// A first token came `took` after its dispatch, `predicted` by its prefill alone, with
    /// `committed` tokens on the worker. Says whether the guess grew.
    pub(crate) fn observe(
        &mut self,
        now: Moment,
        (took, predicted): (Span, Span),
        committed: Tokens,
        residence: Span,
    ) -> bool {
        if self.known.is_some() {
            return false;
        }
        if took > predicted.scaled(LATE_FACTOR) + LATE_SLACK {
            if self.shrunk_at.is_none_or(|at| now.since(at) >= residence) {
                self.guess = Tokens(committed.0.min(self.guess.0) / 8 * 7).max(GUESS_START);
                self.shrunk_at = Some(now);
            }
            return false;
        }
        if committed.0 >= self.guess.0 / 4 * 3 {
            let part = if self.shrunk_at.is_none() { 2 } else { 16 };
            self.guess = Tokens(self.guess.0.saturating_add(self.guess.0 / part));
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: (Span, Span) = (Span::millis(100), Span::millis(100));
    const LATE: (Span, Span) = (Span::secs(3), Span::millis(100));

    #[test]
    fn the_guess_grows_while_full_workers_start_in_time_and_shrinks_when_they_do_not() {
        let mut capacity = Capacity::new(None);
        let start = capacity.tokens();
        assert!(!capacity.observe(Moment(1), QUICK, Tokens(100), Span::secs(1)));
        assert_eq!(capacity.tokens(), start);
        for _ in 0..8 {
            assert!(capacity.observe(Moment(1), QUICK, capacity.tokens(), Span::secs(1)));
        }
        let grown = capacity.tokens();
        assert!(grown > Tokens(start.0 * 2));
        capacity.observe(Moment(2), LATE, grown, Span::secs(1));
        let shrunk = capacity.tokens();
        assert!(shrunk < grown);
        capacity.observe(Moment(3), LATE, grown, Span::secs(1));
        assert_eq!(capacity.tokens(), shrunk, "one group of late starts shrinks it once");
    }

    #[test]
    fn what_the_engine_tells_ends_the_guessing() {
        let mut capacity = Capacity::new(None);
        capacity.learn(Tokens(130_000));
        assert!(!capacity.observe(Moment(1), QUICK, Tokens(130_000), Span::secs(1)));
        assert_eq!(capacity.tokens(), Tokens(130_000));
    }
}
