//! Shares a scarce fleet: by class, and inside a class by tenant, in worker-seconds.
//!
//! A worker-second is a whole worker's KV for a second. A party that holds a tenth of a worker uses
//! a tenth of a worker-second each second, so whoever keeps holdings in proportion to shares keeps
//! worker-seconds in proportion: the party that holds least for its share goes first. Charging
//! requests, or tokens, would let long answers and cached prompts be paid for by others.
//!
//! What is held is known, and needs no estimate. A virtual time (start-time fair queueing), charged
//! in advance with a predicted stay and corrected at the end, was tried: the corrections come late
//! and pile up, and a tenant that used a third of its half waited 16 s behind one that flooded,
//! where this rule makes it wait less than 1 s. Idling earns no credit here either, since nothing
//! is remembered.

use std::cmp::Ordering;
use std::collections::BTreeSet;

/// A float with a total order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ordered(pub(crate) f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A millionth of a worker's KV: what parties hold is counted in these, so that what is given back
/// is exactly what was taken.
const UNITS: f64 = 1e6;

/// What a party holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    held: u64,
    /// What it holds for its share: the place at which it competes.
    key: u64,
}

/// A part of a worker that a request holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held(u64);

impl Held {
    /// This fraction of a worker, at least the smallest unit: a request that held nothing would let
    /// its party take the whole fleet.
    pub(crate) fn fraction(part: f64) -> Self {
        Self(((part * UNITS).ceil() as u64).max(1))
    }
}

/// Parties that compete, the most entitled first. `P` names a party.
#[derive(Debug)]
pub(crate) struct Competition<P> {
    backlogged: BTreeSet<(u64, P)>,
}

impl<P: Ord + Copy> Competition<P> {
    pub(crate) fn new() -> Self {
        Self { backlogged: BTreeSet::new() }
    }

    /// The party has something waiting from now on.
    pub(crate) fn enter(&mut self, party: P, account: &Account) {
        self.backlogged.insert((account.key, party));
    }

    /// The party has nothing waiting any more.
    pub(crate) fn exit(&mut self, party: P, account: &Account) {
        self.backlogged.remove(&(account.key, party));
    }

    /// The party holds so much more.
    pub(crate) fn take(&mut self, party: P, account: &mut Account, held: Held, share: u32) {
        self.set(party, account, account.held.saturating_add(held.0), share);
    }

    /// The party holds so much less.
    pub(crate) fn give_back(&mut self, party: P, account: &mut Account, held: Held, share: u32) {
        debug_assert!(held.0 <= account.held, "a party gave back more than it took");
        self.set(party, account, account.held.saturating_sub(held.0), share);
    }

    fn set(&mut self, party: P, account: &mut Account, held: u64, share: u32) {
        let waits = self.backlogged.remove(&(account.key, party));
        account.held = held;
        // The factor keeps small holdings apart at large shares.
        account.key = held.saturating_mul(1_000_000) / u64::from(share.max(1));
        if waits {
            self.backlogged.insert((account.key, party));
        }
    }

    /// Parties with something waiting, the most entitled first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = P> + '_ {
        self.backlogged.iter().map(|(_, party)| *party)
    }

    /// Number of parties with something waiting.
    pub(crate) fn len(&self) -> usize {
        self.backlogged.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: f64 = 0.1;

    /// Gives a free tenth of a worker to the most entitled party, again and again, and counts what
    /// each holds.
    fn held(shares: [u32; 2], tenths: u32) -> [u32; 2] {
        let mut competition = Competition::new();
        let mut accounts = [Account::default(); 2];
        let mut counts = [0, 0];
        (0..2).for_each(|party| competition.enter(party, &accounts[party]));
        for _ in 0..tenths {
            let party = competition.iter().next().expect("both wait");
            counts[party] += 1;
            let held = Held::fraction(TENTH);
            competition.take(party, &mut accounts[party], held, shares[party]);
        }
        counts
    }

    #[test]
    fn holdings_follow_the_shares() {
        assert_eq!(held([4, 1], 100), [80, 20]);
        assert_eq!(held([1, 1], 10), [5, 5]);
    }

    #[test]
    fn who_holds_little_goes_first_however_long_the_other_has_been_served() {
        let mut competition = Competition::new();
        let (mut flood, mut quiet) = (Account::default(), Account::default());
        competition.enter(1, &flood);
        competition.take(1, &mut flood, Held::fraction(0.9), 1);
        competition.enter(2, &quiet);
        competition.take(2, &mut quiet, Held::fraction(0.3), 1);
        assert_eq!(competition.iter().collect::<Vec<_>>(), [2, 1]);
        competition.give_back(1, &mut flood, Held::fraction(0.9), 1);
        assert_eq!(competition.iter().collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn what_is_given_back_is_exactly_what_was_taken() {
        let mut competition = Competition::new();
        let mut account = Account::default();
        let parts = [0.1, 0.2, 0.7, 1.0 / 3.0];
        for part in parts {
            competition.take(1, &mut account, Held::fraction(part), 7);
        }
        for part in parts.into_iter().rev() {
            competition.give_back(1, &mut account, Held::fraction(part), 7);
        }
        assert_eq!((account.held, account.key), (0, 0));
    }
}
