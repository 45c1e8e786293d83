//! Shares a scarce fleet: by class, and inside a class by tenant, in worker-seconds.
//!
//! Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) twice over: each party has a
//! virtual time, which is the worker-seconds it was charged divided by its share, and the one that
//! is furthest behind goes first. A party that comes back from having nothing to do starts at the
//! time of the others, so idling earns no credit. A worker-second is the fraction of a worker's KV
//! that a request needs, times the time it stays: charging requests, or tokens, would let long
//! answers and cached prompts be paid for by others. The charge is estimated at dispatch, since
//! waiting for the end would let a burst run uncharged, and corrected at the end.

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

/// Parties that compete, the most entitled first. `P` names a party.
#[derive(Debug)]
pub(crate) struct Competition<P> {
    backlogged: BTreeSet<(Ordered, P)>,
    /// The virtual time of the party that was most entitled last: where a newcomer starts.
    floor: f64,
}

impl<P: Ord + Copy> Competition<P> {
    pub(crate) fn new() -> Self {
        Self { backlogged: BTreeSet::new(), floor: 0.0 }
    }

    /// The party has something waiting from now on. Its virtual time may be lifted.
    pub(crate) fn enter(&mut self, party: P, virtual_time: &mut f64) {
        let floor = self.backlogged.first().map_or(self.floor, |(time, _)| time.0);
        *virtual_time = virtual_time.max(floor);
        self.backlogged.insert((Ordered(*virtual_time), party));
    }

    /// The party has nothing waiting any more.
    pub(crate) fn exit(&mut self, party: P, virtual_time: f64) {
        self.backlogged.remove(&(Ordered(virtual_time), party));
        self.floor = self.floor.max(virtual_time);
    }

    /// The party is charged (or, with a negative amount, given back) worker-seconds per share.
    pub(crate) fn charge(&mut self, party: P, virtual_time: &mut f64, amount: f64) {
        let waits = self.backlogged.remove(&(Ordered(*virtual_time), party));
        *virtual_time += amount;
        if waits {
            self.backlogged.insert((Ordered(*virtual_time), party));
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

    /// Serves the most entitled party, each service costing 1, and counts.
    fn served(shares: [f64; 2], rounds: u32) -> [u32; 2] {
        let mut competition = Competition::new();
        let mut times = [0.0, 0.0];
        let mut counts = [0, 0];
        (0..2).for_each(|party| competition.enter(party, &mut times[party]));
        for _ in 0..rounds {
            let party = competition.iter().next().expect("both wait");
            counts[party] += 1;
            competition.charge(party, &mut times[party], 1.0 / shares[party]);
        }
        counts
    }

    #[test]
    fn service_follows_the_shares() {
        assert_eq!(served([4.0, 1.0], 100), [80, 20]);
        assert_eq!(served([1.0, 1.0], 10), [5, 5]);
    }

    #[test]
    fn idling_earns_no_credit() {
        let mut competition = Competition::new();
        let (mut busy, mut idle) = (0.0, 0.0);
        competition.enter(1, &mut busy);
        competition.charge(1, &mut busy, 100.0);
        competition.enter(2, &mut idle);
        assert!((idle - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_party_that_left_is_charged_all_the_same() {
        let mut competition = Competition::new();
        let mut time = 0.0;
        competition.enter(1, &mut time);
        competition.exit(1, time);
        competition.charge(1, &mut time, 5.0);
        assert_eq!(competition.len(), 0);
        assert!((time - 5.0).abs() < 1e-9);
    }
}
