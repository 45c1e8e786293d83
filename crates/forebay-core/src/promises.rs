//! Keeps the places of clients that were told when to come back.
//!
//! A Retry-After is honest only if the capacity it promises is not given away meanwhile. So each
//! promise is remembered with its KV need until its client returns or fails to; newcomers of a
//! shedding class are judged as if the promised ones were waiting before them, and a new promise is
//! made for the time after all of them. A factor tracks how often returning clients find room
//! and moves the promises so that fifteen in sixteen would; what is kept lags behind it, since a
//! promise is judged only when it falls due, and the contract names four in five (stochastic
//! quantile tracking: up by η·15/16 on a miss, down by η/16 on a hit, in logarithms).
//!
//! Promises must not idle the fleet: what is owed counts only as far as promises were taken up
//! lately, and stands in a newcomer's way only if it falls due before the newcomer would be gone.

use std::collections::BTreeSet;

use crate::means::RunningMean;
use crate::units::{Moment, Span, Tokens};

/// How fast the factor follows.
const ETA: f64 = 0.1;
/// The share of returning clients that may find no room.
const MISS_SHARE: f64 = 0.0625;
/// How long after its moment a promise is still kept for its client.
const GRACE: Span = Span::secs(5);

/// Promises after which the share that was taken up forgets.
const TAKEN_UP_WINDOW: u32 = 16;

/// Arrivals after which the class's usual fraction of the fleet forgets.
const FRACTION_WINDOW: u32 = 64;

/// Outstanding promises of one class.
#[derive(Debug)]
pub(crate) struct Promises {
    /// (promised, sequence, need).
    open: BTreeSet<(Moment, u64, Tokens)>,
    owed: Tokens,
    sequence: u64,
    factor: f64,
    /// Fraction of the fleet that the class had at its arrivals: a promise is for later, when
    /// others compete as they usually do and not as they do now.
    fraction: RunningMean<FRACTION_WINDOW>,
    /// Share of promises whose clients came back.
    taken_up: RunningMean<TAKEN_UP_WINDOW>,
    open_max: usize,
}

impl Promises {
    pub(crate) fn new(promises_max: u32) -> Self {
        let open = BTreeSet::new();
        let taken_up = RunningMean::default();
        let open_max = promises_max as usize;
        let fraction = RunningMean::default();
        Self { open, owed: Tokens::ZERO, sequence: 0, factor: 1.0, fraction, taken_up, open_max }
    }

    /// KV need of all outstanding promises, as far as clients take them up: what a new promise
    /// comes after.
    pub(crate) fn owed(&self) -> Tokens {
        self.believed(self.owed)
    }

    /// The same of those that fall due until `until`: what a newcomer must not stand in the way of.
    /// Later ones find the room free again that it takes now.
    pub(crate) fn owed_until(&self, until: Moment) -> Tokens {
        let due = self.open.iter().take_while(|(promised, _, _)| *promised <= until);
        self.believed(Tokens(due.map(|(_, _, need)| need.0).sum()))
    }

    /// Until any promise has fallen due, all are believed.
    fn believed(&self, owed: Tokens) -> Tokens {
        Tokens((owed.as_f64() * self.taken_up.get().unwrap_or(1.0)).round() as u64)
    }

    /// The class had this fraction of the fleet at an arrival.
    pub(crate) fn note_fraction(&mut self, fraction: f64) {
        self.fraction.add(fraction);
    }

    /// The fraction of the fleet that the class usually has.
    pub(crate) fn usual_fraction(&self) -> f64 {
        self.fraction.get().unwrap_or(1.0)
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
        assert_eq!(promises.owed_until(at(15)), Tokens(300), "the third falls due later");
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
    fn the_factor_settles_where_fifteen_in_sixteen_find_room() {
        let mut promises = Promises::new(1);
        for nth in 0..1000 {
            promises.note_return(nth % 16 != 0);
        }
        assert!((0.9..1.1).contains(&promises.factor()));
        (0..200).for_each(|_| promises.note_return(false));
        assert!(promises.factor() > 3.9);
    }
}
