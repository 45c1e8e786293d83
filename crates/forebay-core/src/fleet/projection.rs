//! Projects how much KV a worker's requests will hold at the worst moment to come.
//!
//! The question of the gate is not what all requests will hold when each has reached its mean
//! output, but what they will hold together at any one moment: those that end soon have gone before
//! the others have grown. With short answers to long prompts the two are alike; with long answers
//! the sum of the final sizes is up to twice the truth, and would keep half of the fleet empty
//! (600 requests of 300 prompt and about 1,500 output tokens waited 24 s where none had to).
//!
//! A request holds its own part of the prompt from its dispatch and grows by one token each decode
//! step until its expected end, so the worst moment is one of the ends: with the ends in descending
//! order one pass finds it. One that has outlived its mean is expected to run for another quarter
//! of what it has run. Until a decode step has been measured, final sizes are summed.

use crate::units::{Moment, Tokens};

/// How much longer one is expected to run that has outlived its mean, as a part of its age.
const OVERDUE_PART: f64 = 0.25;

/// One request, as the projection sees it. Times are seconds since the driver's epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Leg {
    /// Tokens of the prompt that it alone holds, or was the first to hold.
    own: f64,
    /// When its output began to grow.
    starts: f64,
    /// When it is expected to end.
    ends: f64,
    /// Prompt and expected output.
    whole: f64,
}

impl Leg {
    /// A request with this own part and expected output, that takes so many seconds from now to
    /// its first token, or has had it at `first_token`; a token takes `token_secs`.
    pub(crate) fn new(
        (own, output): (Tokens, Tokens),
        now: Moment,
        first_token: Option<Moment>,
        prefill_secs: f64,
        token_secs: f64,
    ) -> Self {
        let now = now.since(Moment::START).as_secs_f64();
        let started = first_token.map(|first| first.since(Moment::START).as_secs_f64());
        let starts = started.unwrap_or(now);
        let ends = match started {
            Some(start) => {
                let expected = start + output.as_f64() * token_secs;
                expected.max(now + OVERDUE_PART * (now - start)).max(now + token_secs)
            }
            None => now + prefill_secs + output.as_f64() * token_secs,
        };
        Self { own: own.as_f64(), starts, ends, whole: (own + output).as_f64() }
    }
}

/// What a worker's requests will hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Projection {
    /// In descending order of their ends.
    legs: Vec<Leg>,
    /// Blocks that a request holds which another brought, and left.
    excess: f64,
    token_secs: f64,
    peak: Tokens,
    held: Tokens,
}

impl Projection {
    /// The projection of these requests, which hold `prompts` tokens of prompts by now.
    pub(crate) fn new(mut legs: Vec<Leg>, prompts: Tokens, now: Moment, token_secs: f64) -> Self {
        legs.sort_unstable_by(|a, b| b.ends.total_cmp(&a.ends));
        let own: f64 = legs.iter().map(|leg| leg.own).sum();
        let excess = (prompts.as_f64() - own).max(0.0);
        let now = now.since(Moment::START).as_secs_f64();
        let grown =
            |leg: &Leg| if token_secs > 0.0 { (now - leg.starts) / token_secs } else { 0.0 };
        let output: f64 = legs.iter().map(grown).sum();
        let held = Tokens((prompts.as_f64() + output) as u64);
        let mut projection = Self { legs, excess, token_secs, peak: Tokens::ZERO, held };
        projection.peak = projection.peak_with(None).max(held);
        projection
    }

    /// The most that is held at one moment to come.
    pub(crate) fn peak(&self) -> Tokens {
        self.peak
    }

    /// What is held now.
    pub(crate) fn held(&self) -> Tokens {
        self.held
    }

    /// The most that is held at one moment to come if this request is added.
    pub(crate) fn peak_with(&self, added: Option<&Leg>) -> Tokens {
        if self.token_secs <= 0.0 {
            let whole: f64 = self.legs.iter().chain(added).map(|leg| leg.whole).sum();
            return Tokens((self.excess + whole) as u64);
        }
        let (mut count, mut own, mut starts, mut peak) = (0.0, 0.0, 0.0, 0.0_f64);
        let mut pass = |leg: &Leg| {
            count += 1.0;
            own += leg.own;
            starts += leg.starts;
            peak = peak.max(own + (count * leg.ends - starts) / self.token_secs);
        };
        let before =
            added.map_or(0, |added| self.legs.partition_point(|leg| leg.ends >= added.ends));
        self.legs[..before].iter().for_each(&mut pass);
        added.into_iter().for_each(&mut pass);
        self.legs[before..].iter().for_each(&mut pass);
        Tokens((self.excess + peak).max(0.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN_SECS: f64 = 0.1;

    fn at(secs: u64) -> Moment {
        Moment(secs * 1_000_000_000)
    }

    fn leg(own: u64, output: u64, started: u64, now: u64) -> Leg {
        Leg::new((Tokens(own), Tokens(output)), at(now), Some(at(started)), 0.0, TOKEN_SECS)
    }

    #[test]
    fn requests_that_end_one_after_the_other_never_hold_all_they_will() {
        // 100 s each, begun 50 s apart: one ends when the other is half through.
        let legs = vec![leg(10, 1000, 0, 50), leg(10, 1000, 50, 50)];
        let projection = Projection::new(legs, Tokens(20), at(50), TOKEN_SECS);
        assert_eq!(projection.held(), Tokens(520));
        assert_eq!(projection.peak(), Tokens(10 + 1000 + 10 + 500));
    }

    #[test]
    fn a_short_one_fits_beside_those_that_will_grow_after_it_has_gone() {
        let projection =
            Projection::new(vec![leg(100, 10_000, 0, 0)], Tokens(100), at(0), TOKEN_SECS);
        let short = leg(5000, 10, 0, 0);
        assert_eq!(projection.peak(), Tokens(10_100));
        assert_eq!(projection.peak_with(Some(&short)), Tokens(10_100));
        let long = leg(5000, 10_000, 0, 0);
        assert_eq!(projection.peak_with(Some(&long)), Tokens(25_100));
    }

    #[test]
    fn before_a_step_was_measured_final_sizes_are_summed() {
        let unmeasured =
            |own, output| Leg::new((Tokens(own), Tokens(output)), at(0), None, 0.0, 0.0);
        let projection = Projection::new(vec![unmeasured(10, 90)], Tokens(15), at(0), 0.0);
        assert_eq!(projection.peak_with(Some(&unmeasured(20, 80))), Tokens(205));
    }

    #[test]
    fn one_that_outlives_its_mean_is_not_taken_for_gone() {
        let projection =
            Projection::new(vec![leg(100, 10, 0, 100)], Tokens(100), at(100), TOKEN_SECS);
        assert_eq!(projection.held(), Tokens(1100));
        assert_eq!(projection.peak(), Tokens(1350));
    }
}
