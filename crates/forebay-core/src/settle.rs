//! Settles a request that runs: first token, progress, end, loss.

use crate::Core;
use crate::arrive::wait_limit;
use crate::fleet::Flight;
use crate::output::Output;
use crate::queue::{Place, Waiting};
use crate::refusal::{Refusal, RefusalReason};
use crate::request::{Outcome, RequestId};
use crate::routing::Mode;
use crate::units::{Span, Tokens};
use crate::why::Cause;

impl Core {
    /// A request is past its first token, which was seen or is only believed.
    pub(crate) fn first_token(&mut self, request: RequestId, seen: bool) {
        let Some(flight) = self.flights.get_mut(&request) else { return };
        flight.sent |= seen;
        if flight.first_token.is_some() {
            return;
        }
        let took = self.now.since(flight.dispatched);
        let predicted = self.pace.prefill(flight.prefill);
        flight.first_token = Some(self.now);
        let (slot, uncached, prefill) = (flight.slot, flight.uncached, flight.prefill);
        self.pace.note_prefill(prefill, took);
        let residence = self.pace.residence(self.now);
        self.fleet.change(slot, self.now, &self.settings, |worker| {
            worker.backlog -= uncached;
            let committed = worker.committed(self.settings.block_size);
            // Before anything was measured, the first token itself is the measure.
            let predicted = if predicted == Span::ZERO { took } else { predicted };
            worker.capacity.observe(self.now, (took, predicted), committed, residence);
        });
        self.project(slot);
        self.dirty.insert(slot);
    }

    pub(crate) fn progress(&mut self, request: RequestId, generated: Tokens) {
        let Some(flight) = self.flights.get_mut(&request) else { return };
        // One that outlives its reserve holds what it has generated, whatever the mean says.
        if generated > flight.reserve {
            let more = generated - flight.reserve;
            flight.reserve = generated;
            flight.need += more;
            let slot = flight.slot;
            self.fleet.change(slot, self.now, &self.settings, |worker| worker.reserved += more);
            self.project(slot);
        }
    }

    pub(crate) fn finished(&mut self, request: RequestId, outcome: Outcome) {
        let Some(flight) = self.flights.remove(&request) else {
            // One that was cancelled may end before its worker hears of it. And one whose worker
            // was lost waits for another, while what it had from the first one comes to its end.
            if !matches!(outcome, Outcome::Backpressure | Outcome::Broke) {
                self.abandoned(request);
            }
            return;
        };
        self.land(&flight);
        match outcome {
            Outcome::Completed { output } => self.learn(&flight, output),
            Outcome::ClientFault => {}
            Outcome::Backpressure => {
                self.mark(flight.slot);
                return self.run_again(flight, RefusalReason::WorkersBusy);
            }
            Outcome::Broke => {
                self.mark(flight.slot);
                return self.run_again(flight, RefusalReason::UpstreamFailed);
            }
            Outcome::BrokeMidStream => {
                self.mark(flight.slot);
                return self.fail(&flight, RefusalReason::UpstreamFailed);
            }
        }
        self.tenants.close(flight.arrival.tenant);
    }

    pub(crate) fn abandoned(&mut self, request: RequestId) {
        if let Some(waiting) = self.queue.remove(request) {
            self.parked.remove(request);
            self.unreserve(request);
            self.tenants.close(waiting.arrival.tenant);
        } else if let Some(flight) = self.flights.remove(&request) {
            self.land(&flight);
            self.tenants.close(flight.arrival.tenant);
            let worker = self.fleet.at(flight.slot).id;
            self.outputs.push_back(Output::Cancel(request, worker));
        }
    }

    /// Takes a flight off its worker's and its flow's account: the one counterpart of `dispatch`.
    pub(crate) fn land(&mut self, flight: &Flight) {
        self.fleet.change(flight.slot, self.now, &self.settings, |worker| {
            worker.release(flight, &self.settings);
        });
        self.project(flight.slot);
        self.dirty.insert(flight.slot);
        self.pace.note_landed(flight.need_at_dispatch, flight.dispatched);
        let key = (flight.arrival.class, flight.arrival.tenant);
        self.queue.give_back(key, (flight.held, flight.need_at_dispatch), &self.settings);
    }

    fn learn(&mut self, flight: &Flight, output: Tokens) {
        self.means.observe(&flight.arrival, output);
        self.pace.note_finished(flight.need, self.now.since(flight.dispatched));
        if let Some(first) = flight.first_token {
            self.pace.note_decode(output, self.now.since(first));
        }
        self.fleet.change(flight.slot, self.now, &self.settings, |worker| {
            worker.gate.note_finished();
        });
    }

    /// Lets a request that has sent no byte run once more, with its age, unless it has had its
    /// attempts.
    pub(crate) fn run_again(&mut self, flight: Flight, reason: RefusalReason) {
        let holds = matches!(self.settings.mode, Mode::Hold(_));
        // Backpressure costs a held request nothing but time, which its class bounds.
        let spent = flight.attempt >= self.settings.limits.attempts_max;
        let busy = reason == RefusalReason::WorkersBusy;
        if flight.sent || spent && !(holds && busy) {
            return self.fail(&flight, reason);
        }
        let settings = *self.settings.class(flight.arrival.class);
        // Whoever finds nothing but full workers has waited all the time.
        let anew = wait_limit(&settings).map(|max| self.now + max);
        let deadline = if busy { flight.deadline } else { anew };
        let waiting = Waiting {
            offered: self.now,
            uncached: flight.uncached,
            occupancy: self.occupancy(flight.need, flight.uncached, flight.reserve),
            output: flight.reserve,
            place: Place {
                key: 0.0,
                promise: self.now,
                arrived: flight.arrived,
                need: flight.need,
                work: flight.uncached,
            },
            predicted: None,
            deadline,
            attempts: flight.attempt,
            arrival: flight.arrival,
        };
        let request = waiting.arrival.request;
        match self.settings.mode {
            Mode::Hold(order) => match self.place(&waiting, order) {
                Some(mut choice) => {
                    choice.cause = Cause::Again;
                    self.dispatch(waiting, choice);
                }
                None => self.queue.insert(waiting),
            },
            _ => self.push(waiting, Cause::Again),
        }
        // Its time may have run out while a worker thought about it.
        if deadline.is_some_and(|at| at <= self.now) && self.queue.get(request).is_some() {
            self.waited_too_long(request);
        }
    }

    /// Tells the client that a worker failed it.
    pub(crate) fn fail(&mut self, flight: &Flight, reason: RefusalReason) {
        self.tenants.close(flight.arrival.tenant);
        let probe = (reason == RefusalReason::WorkersBusy).then_some(self.settings.limits.mark);
        let refusal = Refusal {
            reason,
            class: flight.arrival.class,
            retry_after: probe.map(|probe| probe.max(Span::secs(1))),
            predicted_wait: None,
            waited: flight.dispatched.since(flight.arrived),
            limit: 0,
            sustained: false,
        };
        self.outputs.push_back(Output::Refuse(flight.arrival.request, refusal));
    }

    /// Marks a worker that would not take a request, or broke it, for a while: marks expire.
    fn mark(&mut self, slot: u32) {
        let until = self.now + self.settings.limits.mark;
        self.marks.insert((until, slot));
        self.fleet.change(slot, self.now, &self.settings, |worker| {
            worker.marked_until = Some(until);
        });
    }
}
