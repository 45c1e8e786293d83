//! What holds after every input, as predicates that look from outside.
//!
//! Checked in debug builds and tests after every input while the core is small, and every few
//! inputs when it is large, since each check walks everything.
#![cfg(any(test, debug_assertions))]

use std::collections::BTreeSet;

use crate::Core;
use crate::fleet::{ActiveBlocks, Flight, Worker, tail};
use crate::units::{Moment, Tokens};

/// Requests and workers up to which every input is followed by a check.
const EVERY_INPUT_UP_TO: u64 = 64;

impl Core {
    pub(crate) fn check_sometimes(&mut self) {
        self.handled += 1;
        let size = (self.queue.len() + self.flights.len() + self.fleet.len()) as u64;
        if size <= EVERY_INPUT_UP_TO || self.handled.is_multiple_of(size) {
            self.check();
        }
    }

    /// Panics with the name of the invariant that does not hold.
    pub(crate) fn check(&self) {
        self.check_queue();
        self.check_accounts();
        self.check_bounds();
        self.check_reservations();
    }

    fn check_queue(&self) {
        let mut listed = 0;
        for class in &self.queue.classes {
            let of_class: usize = class.flows.values().map(crate::queue::Flow::len).sum();
            assert_eq!(of_class, class.len as usize, "a class counts its waiting requests");
            for flow in class.flows.values() {
                assert_eq!(flow.by_key.len(), flow.len(), "the orders of a flow agree");
                assert_eq!(flow.by_promise.len(), flow.len(), "the orders of a flow agree");
                assert!(!flow.is_idle(), "an idle flow is forgotten");
                listed += flow.len();
            }
        }
        assert_eq!(listed, self.queue.len(), "each waiting request is in one flow");
        for request in self.queue.ids() {
            assert!(!self.flights.contains_key(&request), "no request waits and runs");
        }
        let overdue = self.queue.first_deadline().is_some_and(|(at, _)| at < self.now);
        assert!(!overdue, "nobody waits beyond the longest wait");
    }

    fn check_accounts(&self) {
        let mut on_workers = 0;
        for (slot, worker) in self.fleet.iter() {
            let flights: Vec<&Flight> = worker
                .running
                .iter()
                .map(|request| &self.flights[request])
                .inspect(|flight| assert_eq!(flight.slot, slot, "a flight is on its worker"))
                .collect();
            on_workers += flights.len();
            self.check_account(worker, &flights);
        }
        assert_eq!(on_workers, self.flights.len(), "each flight is on one worker");
        let open = (self.queue.len() + self.flights.len()) as u64;
        assert_eq!(self.tenants.open_len(), open, "tenants count what waits and runs");
    }

    fn check_account(&self, worker: &Worker, flights: &[&Flight]) {
        let block_size = self.settings.block_size;
        let sum = |part: &dyn Fn(&Flight) -> Tokens| {
            Tokens(flights.iter().map(|flight| part(flight).0).sum())
        };
        let unstarted = |flight: &Flight| {
            if flight.first_token.is_none() { flight.uncached } else { Tokens::ZERO }
        };
        assert_eq!(worker.backlog, sum(&unstarted), "backlog is what has not begun");
        assert_eq!(worker.reserved, sum(&|flight| flight.reserve), "reserves add up");
        let tails = sum(&|flight| tail(&flight.arrival, block_size));
        assert_eq!(worker.tails, tails, "tails add up");
        let mut active = ActiveBlocks::default();
        flights.iter().for_each(|flight| active.add(&flight.arrival.blocks));
        assert_eq!(worker.active.len(), active.len(), "unique blocks are counted once");
    }

    fn check_bounds(&self) {
        let limits = &self.settings.limits;
        assert!(self.fleet.len() <= limits.workers_max as usize, "workers are bounded");
        let total: u64 =
            self.fleet.iter().map(|(_, worker)| worker.committed(self.settings.block_size).0).sum();
        assert_eq!(self.fleet.committed(), Tokens(total), "the fleet's sum is its workers'");
        let flows = self.queue.classes.iter().map(|class| class.flows.len()).sum::<usize>();
        assert_eq!(self.queue.flows_len(), flows, "flows are counted");
        let named: BTreeSet<_> =
            self.queue.classes.iter().flat_map(|class| class.flows.keys()).collect();
        assert!(named.len() <= limits.tenants_max as usize + 1, "tenants are bounded");
    }

    fn check_reservations(&self) {
        for (slot, reservation) in &self.reservations {
            assert!(self.fleet.get(*slot).is_some(), "a reserved worker is there");
            assert!(
                self.queue.get(reservation.request).is_some(),
                "a reservation is for one that waits"
            );
            assert!(reservation.starts > Moment::START, "a reservation has a time");
        }
    }
}
