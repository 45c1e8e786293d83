//! Held until a worker has room: the product's heart, with its evidence in
//! `docs/concepts/hold.md`.
//!
//! Binding a request to a worker on arrival is the mistake that everything else follows from: the
//! engine then queues it first-come behind whatever is there, runs out of KV memory, and preempts.
//! Here all requests wait in one place, a worker is *open* while it has little prefill before it,
//! and a request *fits* while what is committed on the worker, with it, stays within the gate's
//! fraction of the KV capacity.
//!
//! Order and placement are one minimum over pairs of request and worker:
//!
//! ```text
//! (backlog(w) + uncached(r, w) + c × occupancy(r)) / mean cost  −  K × waited(r) / drain
//! ```
//!
//! The cheapest first: what a request costs the others is the prefill that a worker does for it,
//! and the part of a worker's KV that it takes for as long as it stays. The *occupancy* puts the
//! second into tokens of prefill that could be done meanwhile. By prefill alone a long answer
//! would pass a short one whose prompt is a little longer, and keep the room from ten like it
//! (`docs/concepts/evidence.md`). That matters the more the longer the queue is, so c grows from 0
//! to 1 with it; a mean cost is the mean of the sum. Aged without a scale: a wait counts in units
//! of the queue's own drain time, so the same K serves a fleet ten times as fast. A request past
//! its promise (γ times what first-come would have made it wait) goes first; if it fits nowhere, a
//! worker is reserved for it, and others pass it there only if they fit beside it or end before its
//! turn (EASY backfilling: Lifka, JSSPP 1995). When several classes or tenants compete, the most
//! entitled one's first request reserves at once, since a fair order is worth nothing to a long
//! request that short ones keep passing.
//!
//! `first-come` is the same gate with the order of arrival, strictly: what the order is worth.
//!
//! A worker that runs half again more than its part of the fleet's requests is passed over while
//! another has room, whatever it has cached: a popular prompt must not sink the worker that got it
//! first.
//!
//! Work per input is bounded. An arrival is tried on the holders of its prefix and the emptiest
//! workers; every other input looks at the workers whose room may have grown, and there at most
//! [`LOOKED_AT_MAX`] candidates.

use crate::Core;
use crate::fleet::{Flight, Group, Slots, tail};
use crate::output::Output;
use crate::queue::{Held, Ordered, Scale, Waiting};
use crate::request::{ClassId, RequestId, TenantId};
use crate::routing::{HoldOrder, Mode, least};
use crate::units::Tokens;
use crate::why::{Candidate, Cause, GateView};

/// Most candidates looked at for one worker, and most workers for one arrival and depth of prefix.
const LOOKED_AT_MAX: usize = 64;
/// Holders of a prefix that are looked at one by one before the emptiest workers are walked
/// instead.
const HOLDERS_MAX: usize = 8;
/// Most requests past their promise that are tried on one worker before the order has its say.
const PROMISED_MAX: usize = 8;
/// Crowded workers that are looked at again in one go.
const CROWDED_MAX: usize = 8;
/// How far requests that were passed are counted, for explanations.
pub(crate) const PASSED_MAX: usize = 100;
/// Candidates kept for explanations.
const CANDIDATES_MAX: usize = 3;

/// Where a request shall go, and why.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) slot: u32,
    pub(crate) cause: Cause,
    /// The chosen worker first, then the best of the others.
    pub(crate) candidates: Vec<Candidate>,
}

/// A worker that looks for a request.
#[derive(Clone, Copy, Debug)]
struct Offer {
    slot: u32,
    /// Room that a request of the flow in question must leave on it.
    leave: Tokens,
}

/// The best workers found for one request so far.
#[derive(Debug, Default)]
struct Best {
    /// Room that the request must leave on its worker.
    leave: Tokens,
    found: Vec<((Tokens, Tokens, crate::WorkerId), u32)>,
    looked_at: Vec<u32>,
}

impl Best {
    fn work(&self) -> Option<Tokens> {
        self.found.first().map(|((work, _, _), _)| *work)
    }
}

impl Core {
    /// Lets whatever can run now run.
    pub(crate) fn schedule(&mut self) {
        match self.settings.mode {
            Mode::Hold(order) => self.fill(order),
            Mode::Kv(_) => {
                self.dirty.clear();
                self.unpark();
            }
            _ => self.dirty.clear(),
        }
    }

    /// Fills the workers whose room may have grown, the emptiest first.
    fn fill(&mut self, order: HoldOrder) {
        loop {
            let Some(slot) = self.emptiest_dirty().or_else(|| self.crowded_no_more()) else {
                return;
            };
            if self.queue.len() == 0 {
                self.dirty.clear();
                self.crowded.clear();
                return;
            }
            if self.fleet.is_crowded(slot) {
                self.dirty.remove(&slot);
                self.crowded.insert(slot);
                continue;
            }
            let Some((request, cause)) = self.best_for(slot, order) else {
                self.dirty.remove(&slot);
                continue;
            };
            let Some(waiting) = self.queue.remove(request) else { continue };
            self.unreserve(request);
            let candidates = vec![self.candidate(&waiting.arrival, slot)];
            self.dispatch(waiting, Choice { slot, cause, candidates });
            self.reserve_if_closed(slot, order);
        }
    }

    /// Reserves for whoever is long overdue, if the worker takes no more. One that still takes some
    /// is looked at until nothing fits, and reserves then.
    fn reserve_if_closed(&mut self, slot: u32, order: HoldOrder) {
        if order != HoldOrder::Aged || self.fleet.at(slot).is_open(self.now, &self.settings.gate) {
            return;
        }
        let mut overdue = self.waiting_flows();
        overdue.retain(|flow| self.is_long_overdue(*flow));
        if overdue.is_empty() {
            return;
        }
        let entitlements = self.entitlements();
        for (class, tenant) in overdue {
            let leave = self.room_to_leave(&entitlements, class, tenant);
            self.reserve_if_due((class, tenant), leave, false);
        }
    }

    /// The flows of which something waits, in the order of their turn; as many as are looked at.
    fn waiting_flows(&self) -> Vec<(ClassId, TenantId)> {
        let of_class = |class| {
            let tenants = self.queue.class(class).tenants.iter();
            tenants.take(LOOKED_AT_MAX).map(move |tenant| (class, tenant))
        };
        self.queue.competing.iter().flat_map(of_class).take(LOOKED_AT_MAX).collect()
    }

    /// A worker that was passed over as crowded and is so no longer, since others have taken more.
    fn crowded_no_more(&mut self) -> Option<u32> {
        let Self { crowded, fleet, .. } = self;
        crowded.retain(|slot| fleet.get(*slot).is_some());
        let found =
            crowded.iter().take(CROWDED_MAX).copied().find(|slot| !fleet.is_crowded(*slot))?;
        crowded.remove(&found);
        self.dirty.insert(found);
        self.emptiest_dirty()
    }

    fn emptiest_dirty(&mut self) -> Option<u32> {
        let Self { dirty, fleet, settings, now, .. } = self;
        dirty.retain(|slot| fleet.get(*slot).is_some_and(|w| w.is_open(*now, &settings.gate)));
        dirty.iter().copied().min_by_key(|slot| {
            let worker = fleet.at(*slot);
            (worker.backlog, worker.committed(settings.block_size), worker.id)
        })
    }

    /// The waiting request that the worker shall take next.
    fn best_for(&mut self, slot: u32, order: HoldOrder) -> Option<(RequestId, Cause)> {
        if let Some(reservation) = self.reservations.get(&slot).copied() {
            let waiting = self.queue.get(reservation.request)?;
            if self.fits(waiting, slot, Tokens::ZERO) {
                return Some((reservation.request, Cause::Reserved));
            }
        }
        let mut looked_at = 0;
        let mut first_blocked = true;
        let entitlements = self.entitlements();
        for (class, tenant) in self.waiting_flows() {
            if looked_at >= LOOKED_AT_MAX {
                return None;
            }
            let leave = self.room_to_leave(&entitlements, class, tenant);
            let offer = Offer { slot, leave };
            let found = match order {
                HoldOrder::FirstCome => self.first_come(offer, class, tenant, &mut looked_at),
                HoldOrder::Aged => self.best_of_flow(offer, class, tenant, &mut looked_at),
            };
            if found.is_some() {
                return found;
            }
            if order == HoldOrder::Aged {
                self.reserve_if_due((class, tenant), leave, first_blocked);
            }
            first_blocked = false;
        }
        self.fleet.change(slot, self.now, &self.settings, |worker| worker.gate.note_held_back());
        None
    }

    /// The flow's oldest request, if it fits: in strict order of arrival nobody passes it.
    fn first_come(
        &self,
        offer: Offer,
        class: ClassId,
        tenant: TenantId,
        looked_at: &mut usize,
    ) -> Option<(RequestId, Cause)> {
        *looked_at += 1;
        let (_, request) = *self.queue.flow(class, tenant)?.by_age.first()?;
        let waiting = self.queue.get(request)?;
        self.fits(waiting, offer.slot, offer.leave).then_some((request, Cause::Order))
    }

    /// The flow's best request for the worker: one past its promise, else the minimum of the score.
    fn best_of_flow(
        &mut self,
        Offer { slot, leave }: Offer,
        class: ClassId,
        tenant: TenantId,
        looked_at: &mut usize,
    ) -> Option<(RequestId, Cause)> {
        self.rescale(class, tenant);
        let flow = self.queue.flow(class, tenant)?;
        let past = flow.by_promise.iter().take_while(|(promise, _)| *promise <= self.now);
        for (_, request) in past.take(PROMISED_MAX) {
            *looked_at += 1;
            if self.queue.get(*request).is_some_and(|waiting| self.fits(waiting, slot, leave)) {
                return Some((*request, Cause::Promise));
            }
        }
        let backlog = self.fleet.at(slot).backlog;
        let block_size = self.settings.block_size;
        let mut best: Option<(f64, RequestId)> = None;
        let mut stale: Vec<(RequestId, Tokens)> = Vec::new();
        for (Ordered(key), request) in &flow.by_key {
            if *looked_at >= LOOKED_AT_MAX {
                break;
            }
            *looked_at += 1;
            // A key counts the prefill on the best worker, so with this worker's backlog it bounds
            // the score.
            let bound = key + backlog.as_f64() / flow.scale.mean;
            if best.is_some_and(|(score, _)| bound >= score) {
                break;
            }
            let Some(waiting) = self.queue.get(*request) else { continue };
            if !self.fits(waiting, slot, leave) {
                continue;
            }
            // Hits change while a request waits; only those that could go are worth another look.
            let uncached = self.fleet.uncached_best(&waiting.arrival, block_size);
            if uncached != waiting.uncached {
                stale.push((*request, uncached));
            }
            let work = least::work_on(&self.fleet, &waiting.arrival, slot, block_size);
            let score = flow.scale.key(work, waiting.occupancy, waiting.place.arrived);
            if best.is_none_or(|(lowest, _)| score < lowest) {
                best = Some((score, *request));
            }
        }
        for (request, uncached) in stale {
            self.queue.rekey(request, uncached);
        }
        best.map(|(_, request)| (request, Cause::Order))
    }

    /// Whether the request may be committed to the worker, which must be open, and leave so much
    /// room there.
    fn fits(&self, waiting: &Waiting, slot: u32, leave: Tokens) -> bool {
        let worker = self.fleet.at(slot);
        let block_size = self.settings.block_size;
        let reservation =
            self.reservations.get(&slot).filter(|reservation| reservation.binds(waiting, leave));
        if worker.running.is_empty() {
            return reservation.is_none();
        }
        // Room to leave must be there: it is kept below the capacity, wherever the gate has got to.
        let limit = if leave > Tokens::ZERO {
            worker.limit().min(worker.capacity.tokens()).saturating_sub(leave)
        } else {
            worker.limit()
        };
        // What can't be shared must fit now in any case, and is known without a look at the blocks.
        let tail = tail(&waiting.arrival, block_size);
        if tail + worker.projection.held() > limit {
            return false;
        }
        let need = worker.need(&waiting.arrival, waiting.output, block_size);
        let own = need.saturating_sub(waiting.output);
        if own + worker.projection.held() > limit {
            return false;
        }
        let work = least::work_on(&self.fleet, &waiting.arrival, slot, block_size);
        let peak = worker.projection.peak_with(Some(&self.leg((own, waiting.output), work)));
        let Some(reservation) = reservation else { return peak <= limit };
        let ends = self.now + self.pace.stay(work, waiting.output);
        peak <= limit && (peak + reservation.need <= limit || ends <= reservation.starts)
    }

    /// Tries a request that has arrived on the workers that suit it best.
    pub(crate) fn place(&self, waiting: &Waiting, order: HoldOrder) -> Option<Choice> {
        let arrival = &waiting.arrival;
        let flow = self.queue.flow(arrival.class, arrival.tenant);
        let behind = flow.is_some_and(|flow| flow.len() > 0);
        if order == HoldOrder::FirstCome && behind {
            return None;
        }
        // What can't be shared must fit somewhere in any case: most arrivals on a full fleet end
        // here.
        if self.fleet.is_full_for(tail(arrival, self.settings.block_size)) {
            return None;
        }
        let entitlements = self.entitlements();
        let leave = self.room_to_leave(&entitlements, arrival.class, arrival.tenant);
        let mut best = Best { leave, ..Best::default() };
        let mut groups: Vec<Group<'_>> = Vec::new();
        self.fleet.groups(arrival, &mut groups);
        let block_size = u64::from(self.settings.block_size);
        for group in &groups {
            let held = Tokens(group.depth as u64 * block_size);
            let uncached = arrival.prompt.saturating_sub(held).max(Tokens(1));
            if best.work().is_some_and(|work| work <= uncached) {
                break;
            }
            if group.holders.len() as usize <= HOLDERS_MAX {
                group
                    .holders
                    .iter(HOLDERS_MAX)
                    .for_each(|slot| self.consider(&mut best, waiting, slot));
            } else {
                self.walk(&mut best, waiting, uncached, Some(group.holders));
            }
        }
        self.walk(&mut best, waiting, arrival.prompt, None);
        if best.found.is_empty() {
            let roomiest = self.fleet.roomiest().take(LOOKED_AT_MAX);
            roomiest.for_each(|slot| self.consider(&mut best, waiting, slot));
        }
        let slot = best.found.first()?.1;
        let candidates =
            best.found.iter().map(|(_, slot)| self.candidate(arrival, *slot)).collect();
        Some(Choice { slot, cause: Cause::Order, candidates })
    }

    /// Walks the open workers from the emptiest, as far as one of them can still be better than the
    /// best.
    fn walk(&self, best: &mut Best, waiting: &Waiting, uncached: Tokens, holders: Option<&Slots>) {
        for slot in self.fleet.emptiest().take(LOOKED_AT_MAX) {
            let bound = self.fleet.at(slot).backlog + uncached;
            if best.work().is_some_and(|work| work <= bound) && best.found.len() >= CANDIDATES_MAX
                || best.work().is_some_and(|work| work < bound)
            {
                return;
            }
            if holders.is_none_or(|holders| holders.contains(slot)) {
                self.consider(best, waiting, slot);
            }
        }
    }

    /// Looks at one worker for an arrival.
    fn consider(&self, best: &mut Best, waiting: &Waiting, slot: u32) {
        let Some(worker) = self.fleet.get(slot) else { return };
        if best.looked_at.contains(&slot) || !worker.is_open(self.now, &self.settings.gate) {
            return;
        }
        best.looked_at.push(slot);
        if !self.fits(waiting, slot, best.leave) || self.fleet.is_crowded(slot) {
            return;
        }
        let block_size = self.settings.block_size;
        let work = least::work_on(&self.fleet, &waiting.arrival, slot, block_size);
        best.found.push(((work, worker.committed(block_size), worker.id), slot));
        best.found.sort_unstable();
        best.found.truncate(CANDIDATES_MAX);
    }

    /// Sends a request to a worker and takes it onto every account.
    pub(crate) fn dispatch(&mut self, waiting: Waiting, choice: Choice) {
        let Choice { slot, cause, candidates } = choice;
        let block_size = self.settings.block_size;
        let mut why = self.why(&waiting, cause, candidates);
        let worker = self.fleet.at(slot);
        let need = worker.need(&waiting.arrival, waiting.output, block_size);
        if matches!(self.settings.mode, Mode::Hold(_)) {
            let peak = worker.projection.peak();
            let own = need.saturating_sub(waiting.output);
            let leg = self.leg((own, waiting.output), worker.backlog);
            let after = worker.projection.peak_with(Some(&leg));
            why.gate = Some(GateView {
                committed: peak,
                need: after.saturating_sub(peak),
                capacity: worker.capacity.tokens(),
                fraction: worker.gate.fraction(),
            });
        }
        let cached = self.fleet.cached(&waiting.arrival, slot, block_size);
        let uncached = waiting.arrival.prompt.saturating_sub(cached);
        let prefill = worker.backlog + uncached;
        let part = need.as_f64() / worker.capacity.tokens().as_f64().max(1.0);
        let held = Held::fraction(part);
        let id = worker.id;
        if self.now > waiting.offered {
            self.went_last = Some(waiting.arrival.request);
        }
        let flight = Flight {
            arrived: waiting.place.arrived,
            slot,
            dispatched: self.now,
            uncached,
            prefill,
            reserve: waiting.output,
            need,
            need_at_dispatch: need,
            own: need.saturating_sub(waiting.output),
            first_token: None,
            sent: false,
            deadline: waiting.deadline,
            attempt: waiting.attempts + 1,
            held,
            arrival: waiting.arrival,
        };
        self.fleet.change(slot, self.now, &self.settings, |worker| {
            worker.commit(&flight, &self.settings);
        });
        self.fleet.mirror(slot, &flight.arrival.blocks, &self.settings);
        self.pace.note_dispatched(need, self.now);
        let key = (flight.arrival.class, flight.arrival.tenant);
        self.queue.take(key, (held, need), &self.settings);
        let request = flight.arrival.request;
        self.outputs.push_back(Output::Dispatch(request, id, Box::new(why)));
        self.flights.insert(request, flight);
        self.project(slot);
    }

    /// The scale of a flow's keys as of now.
    pub(crate) fn scale(&self, class: ClassId, tenant: TenantId) -> Scale {
        let ageing = self.settings.class(class).ageing;
        let need = self.queue.flow(class, tenant).map_or(Tokens::ZERO, |flow| flow.need);
        let fraction = self.fraction(class, tenant);
        let drain = self.time_to_run(need.as_f64(), fraction);
        let fills = need.as_f64() / (self.fleet.limit().as_f64() * fraction).max(1.0);
        Scale::new(self.pace.arrival_means(), (drain, fills), ageing)
    }

    /// Brings the flow's keys up to date with its scale.
    pub(crate) fn rescale(&mut self, class: ClassId, tenant: TenantId) {
        let scale = self.scale(class, tenant);
        self.queue.rescale(class, tenant, scale);
    }
}
