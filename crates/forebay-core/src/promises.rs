//! Keeps the places of clients that were told when to come back.
//!
//! A Retry-After is honest only if the capacity it promises is not given away meanwhile. So each
//! promise is remembered with its KV need until its client returns or fails to; newcomers of a
//! shedding class are judged as if the promised ones were waiting before them, and a new promise is
//! made for the time after all of them. A factor tracks how often returning clients find room: it
//! moves the promises so that seven in eight do, and with them at least the four in five that the
//! contract names (stochastic quantile tracking: up by η·7/8 on a miss, down by η/8 on a hit, in
//! logarithms).
//!
//! Clients that do not come back must not idle the fleet: what is owed counts only as far as
//! promises were taken up lately.

use std::collections::BTreeSet;

use crate::means::RunningMean;
use crate::units::{Moment, Span, Tokens};

/// How fast the factor follows.
const ETA: f64 = 0.05;
/// The share of returning clients that may find no room.
const MISS_SHARE: f64 = 0.125;
/// How long after its moment a promise is still kept for its client.
const GRACE: Span = Span::secs(5);

/// Promises after which the share that was taken up forgets.
const TAKEN_UP_WINDOW: u32 = 16;

/// Outstanding promises of one class.
#[derive(Debug)]
pub(crate) struct Promises {
    /// (promised, sequence, need).
    open: BTreeSet<(Moment, u64, Tokens)>,
    owed: Tokens,
    sequence: u64,
    factor: f64,
    /// Share of promises whose clients came back.
    taken_up: RunningMean<TAKEN_UP_WINDOW>,
    open_max: usize,
}

impl Promises {
    pub(crate) fn new(promises_max: u32) -> Self {
        let open = BTreeSet::new();
        let taken_up = RunningMean::default();
        let open_max = promises_max as usize;
        Self { open, owed: Tokens::ZERO, sequence: 0, factor: 1.0, taken_up, open_max }
    }

    /// KV need of the outstanding promises, as far as clients take them up.
    pub(crate) fn owed(&self) -> Tokens {
        // Until any promise has fallen due, all are believed.
        Tokens((self.owed.as_f64() * self.taken_up.get().unwrap_or(1.0)).round() as u64)
    }

    /// What a predicted wait is multiplied by to make a promise.
    pub(crate) fn factor(&self) -> f64 {
        self.factor
    }

    /// Remembers a promise. Beyond the bound it is made but not kept: the client may find no room.
    pub(crate) fn make(&mut self, promised: Moment, need: Tokens) {
        if self.open.len() < self.open_max {
            self.open.insert((promised, self.sequence, need));
            self.sequence += 1;
            self.owed += need;
        }
    }

    /// A client came back for its promise: its place is no longer owed. Says whether it was still
    /// kept.
    pub(crate) fn redeem(&mut self, promised: Moment, need: Tokens) -> bool {
        let first = (promised, 0, Tokens::ZERO);
        let last = (promised, u64::MAX, Tokens::ZERO);
        let same_need = self.open.range(first..last).find(|(_, _, kept)| *kept == need);
        let found = same_need.or_else(|| self.open.range(first..last).next()).copied();
        if let Some(promise) = found {
            self.open.remove(&promise);
            self.owed -= promise.2;
            self.taken_up.add(1.0);
        }
        found.is_some()
    }

    /// A client that returned as told found room, or not.
    pub(crate) fn note_return(&mut self, found_room: bool) {
        let step = if found_room { -ETA * MISS_SHARE } else { ETA * (1.0 - MISS_SHARE) };
        self.factor = (self.factor * step.exp()).clamp(0.5, 4.0);
    }

    /// Forgets promises whose clients did not come.
    pub(crate) fn expire(&mut self, now: Moment) {
        while let Some(promise) = self.open.first().copied().filter(|first| first.0 + GRACE < now) {
            self.open.remove(&promise);
            self.owed -= promise.2;
            self.taken_up.add(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_owed_is_what_was_promised_and_neither_kept_nor_given_up() {
        let mut promises = Promises::new(3);
        let at = |secs| Moment::START + Span::secs(secs);
        promises.make(at(10), Tokens(100));
        promises.make(at(10), Tokens(200));
        promises.make(at(20), Tokens(300));
        promises.make(at(30), Tokens(400));
        assert_eq!(promises.owed(), Tokens(600), "the fourth is beyond the bound");
        assert!(promises.redeem(at(10), Tokens(200)));
        assert!(!promises.redeem(at(11), Tokens(200)));
        assert_eq!(promises.owed(), Tokens(400));
        promises.expire(at(10) + Span::secs(6));
        assert_eq!(promises.owed(), Tokens(150), "one of two was taken up, so half of 300 counts");
    }

    #[test]
    fn clients_that_never_come_back_are_owed_nothing_in_the_end() {
        let mut promises = Promises::new(1000);
        for nth in 0..200 {
            promises.make(Moment::START + Span::secs(nth), Tokens(100));
            promises.expire(Moment::START + Span::secs(nth));
        }
        assert_eq!(promises.owed(), Tokens::ZERO);
    }

    #[test]
    fn the_factor_settles_where_seven_in_eight_find_room() {
        let mut promises = Promises::new(1);
        for nth in 0..1000 {
            promises.note_return(nth % 8 != 0);
        }
        assert!((0.9..1.1).contains(&promises.factor()));
        (0..200).for_each(|_| promises.note_return(false));
        assert!(promises.factor() > 3.9);
    }
}
