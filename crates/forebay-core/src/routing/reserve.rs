//! Keeps a worker for a request that fits nowhere yet.
//!
//! A long request could be passed by short ones for ever: each of them fits into the room that the
//! long one waits for. So it reserves a worker when it is past its promise, or, when several flows
//! compete, when it is the first of the most entitled one. Others may pass it there only if they
//! fit beside it or end before its turn (EASY backfilling: Lifka, JSSPP 1995).
//!
//! A flow above its share may reserve, too, so that its own short requests do not starve its long
//! ones, but its reservation binds nobody who is below, and gives way to theirs.

use crate::Core;
use crate::queue::Waiting;
use crate::request::{ClassId, RequestId, TenantId};
use crate::units::{Moment, Span, Tokens};

/// Workers among which a reservation is placed.
const RESERVABLE_MAX: usize = 16;

/// A worker that is kept for a request that fits nowhere yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reservation {
    pub(crate) request: RequestId,
    pub(crate) flow: (ClassId, TenantId),
    /// When it is expected to fit.
    pub(crate) starts: Moment,
    /// What it will need there.
    pub(crate) need: Tokens,
    /// Its flow was above its share when it reserved.
    pub(crate) is_above: bool,
}

impl Reservation {
    /// Whether it keeps this request, which must leave so much room, from its worker.
    pub(crate) fn binds(&self, waiting: &Waiting, leave: Tokens) -> bool {
        let own = self.request == waiting.arrival.request;
        let other_flow = self.flow != (waiting.arrival.class, waiting.arrival.tenant);
        let gives_way = self.is_above && leave == Tokens::ZERO && other_flow;
        !own && !gives_way
    }
}

impl Core {
    /// Reserves a worker for a request of the flow that fits nowhere, if it is past its promise, or
    /// if the flow is the most entitled of several.
    pub(crate) fn reserve_if_due(
        &mut self,
        flow: (ClassId, TenantId),
        leave: Tokens,
        most_entitled: bool,
    ) {
        let Some(request) = self.due(flow, most_entitled) else { return };
        let is_above = leave > Tokens::ZERO;
        // One worker for each flow, and no more than half of the fleet for flows of one standing.
        let of_flow = self.reservations.values().any(|reservation| reservation.flow == flow);
        let alike = |reservation: &&Reservation| reservation.is_above == is_above;
        let reserved = self.reservations.values().filter(alike).count();
        if of_flow || reserved >= self.fleet.len().div_ceil(2) {
            return;
        }
        let Some(waiting) = self.queue.get(request) else { return };
        let is_free =
            |slot: &u32| self.reservations.get(slot).is_none_or(|kept| kept.is_above && !is_above);
        let usable = self.fleet.usable().iter().copied().filter(is_free).take(RESERVABLE_MAX);
        let best = usable.map(|slot| (self.fit_moment(waiting, slot), slot)).min();
        if let Some((starts, slot)) = best {
            let block_size = self.settings.block_size;
            let need = self.fleet.at(slot).need(&waiting.arrival, waiting.output, block_size);
            let reservation = Reservation { request, flow, starts, need, is_above };
            self.reservations.insert(slot, reservation);
        }
    }

    /// Whether a request of the flow has waited twice what it was promised.
    pub(crate) fn is_long_overdue(&self, (class, tenant): (ClassId, TenantId)) -> bool {
        let first = self.queue.flow(class, tenant).and_then(|flow| flow.by_promise.first());
        first.is_some_and(|(promise, request)| {
            let waiting = self.queue.get(*request);
            let promised = waiting.map(|waiting| promise.since(waiting.place.arrived));
            promised.is_some_and(|promised| self.now.since(*promise) >= promised)
        })
    }

    /// The request of the flow for which a worker should be reserved, if there is one.
    fn due(&self, (class, tenant): (ClassId, TenantId), most_entitled: bool) -> Option<RequestId> {
        let flow = self.queue.flow(class, tenant)?;
        let promised = flow.by_promise.first().filter(|(promise, _)| *promise <= self.now);
        let entitled = flow.by_key.first().filter(|_| most_entitled && self.queue.flows_len() > 1);
        promised.map(|(_, request)| *request).or(entitled.map(|(_, request)| *request))
    }

    /// When the request is expected to fit on the worker, as its requests end one after the other.
    fn fit_moment(&self, waiting: &Waiting, slot: u32) -> Moment {
        let worker = self.fleet.at(slot);
        let block_size = self.settings.block_size;
        let need = worker.need(&waiting.arrival, waiting.output, block_size);
        let mut ends: Vec<(Moment, Tokens)> = worker
            .running
            .iter()
            .filter_map(|request| self.flights.get(request))
            .map(|flight| {
                let stay = self.pace.stay(flight.prefill, flight.reserve);
                ((flight.dispatched + stay).max(self.now), flight.need)
            })
            .collect();
        ends.sort_unstable();
        let mut room = worker.room();
        for &(end, freed) in &ends {
            room += freed;
            if need <= room {
                return end;
            }
        }
        // More than the gate allows: once all have ended.
        ends.last().map_or(self.now + Span(1), |(end, _)| *end)
    }

    /// Gives a request's reservation back, if it has one.
    pub(crate) fn unreserve(&mut self, request: RequestId) {
        let of_request = |(slot, reservation): (&u32, &Reservation)| {
            (reservation.request == request).then_some(*slot)
        };
        if let Some(slot) = self.reservations.iter().find_map(of_request) {
            self.reservations.remove(&slot);
            self.dirty.insert(slot);
        }
    }
}
