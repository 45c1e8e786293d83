//! Predicts waits from KV tokens: what is queued, what is in flight, and how fast room is freed.
//!
//! Room is freed at the rate limit ÷ residence, where the limit is the KV that may be committed
//! over the fleet and residence is the mean stay of a request weighted by its KV need (Little's law
//! in KV tokens). A flow, which is one tenant of one class, gets the fraction of it that its shares
//! give it against those that wait too.

use crate::Core;
use crate::fleet::{Flight, Leg, Projection};
use crate::request::{ClassId, TenantId};
use crate::routing::Mode;
use crate::units::{Moment, Span, Tokens};

/// Tenants whose weights are summed exactly; beyond it their mean stands for the rest.
const WEIGHED_MAX: usize = 64;

impl Core {
    /// A request as the projection of a worker sees it.
    pub(crate) fn leg(&self, (own, output): (Tokens, Tokens), prefill: Tokens) -> Leg {
        let prefill = self.pace.prefill(prefill).as_secs_f64();
        Leg::new((own, output), self.now, None, prefill, self.pace.token_secs())
    }

    /// What a request costs the others by holding KV: its part of a worker's room times its stay,
    /// in tokens of prefill that could be done in that time.
    pub(crate) fn occupancy(&self, need: Tokens, uncached: Tokens, output: Tokens) -> Tokens {
        let room = self.fleet.limit().as_f64() / self.fleet.usable().len().max(1) as f64;
        let stay = self.pace.stay(uncached, output).as_secs_f64();
        self.pace.prefill_in(stay * (need.as_f64() / room.max(1.0)).min(1.0))
    }

    /// Projects anew what the worker's requests will hold, after they have changed.
    /// Only the modes that hold look at it.
    pub(crate) fn project(&mut self, slot: u32) {
        if !matches!(self.settings.mode, Mode::Hold(_)) {
            return;
        }
        let Self { fleet, flights, pace, now, settings, .. } = self;
        let token_secs = pace.token_secs();
        fleet.change(slot, *now, settings, |worker| {
            let leg = |flight: &Flight| {
                let prefill = pace.prefill(flight.prefill);
                let left = prefill.as_secs_f64() - now.since(flight.dispatched).as_secs_f64();
                let sizes = (flight.own, flight.reserve);
                Leg::new(sizes, *now, flight.first_token, left.max(0.0), token_secs)
            };
            let running = worker.running.iter().filter_map(|request| flights.get(request));
            let legs = running.map(leg).collect();
            let prompts = worker.prompts(settings.block_size);
            worker.projection = Projection::new(legs, prompts, *now, token_secs);
        });
    }

    /// The fraction of the fleet that the flow gets, in competition with all that wait.
    pub(crate) fn fraction(&self, class: ClassId, tenant: TenantId) -> f64 {
        let settings = &self.settings;
        let own = f64::from(settings.class(class).share);
        let others = self.queue.competing.iter().filter(|other| *other != class);
        let shares: f64 = others.map(|other| f64::from(settings.class(other).share)).sum();
        let tenants = &self.queue.class(class).tenants;
        let weight = f64::from(settings.tenant(tenant).weight);
        let (mut sum, mut counted) = (0.0, 0_usize);
        for other in tenants.iter().filter(|other| *other != tenant).take(WEIGHED_MAX) {
            sum += f64::from(settings.tenant(other).weight);
            counted += 1;
        }
        if tenants.len() > WEIGHED_MAX {
            sum *= tenants.len() as f64 / counted as f64;
        }
        own / (own + shares) * weight / (weight + sum)
    }

    /// KV tokens a second that the fleet frees when it is full.
    pub(crate) fn drain_rate(&self) -> f64 {
        self.fleet.limit().as_f64() / self.pace.residence(self.now).as_secs_f64().max(1e-6)
    }

    /// The time until so much need has run, at this fraction of the fleet. A fleet without room
    /// takes for ever.
    pub(crate) fn time_to_run(&self, need: f64, fraction: f64) -> Span {
        let rate = self.drain_rate() * fraction;
        if need <= 0.0 {
            Span::ZERO
        } else if rate > 0.0 {
            Span::secs_f64(need / rate)
        } else {
            Span::MAX
        }
    }

    /// The time until the flow's queue is empty.
    pub(crate) fn drain(&self, class: ClassId, tenant: TenantId) -> Span {
        let need = self.queue.flow(class, tenant).map_or(Tokens::ZERO, |flow| flow.need);
        self.time_to_run(need.as_f64(), self.fraction(class, tenant))
    }

    /// What first-come would make a request wait that arrives in the flow now: for the KV room, for
    /// the prefill, or for the sequences of everything of the flow that waits and everything that
    /// runs, whichever takes longest.
    pub(crate) fn first_come_wait(&self, class: ClassId, tenant: TenantId) -> Span {
        self.queue_wait(class, tenant) + self.in_flight_wait()
    }

    fn queue_wait(&self, class: ClassId, tenant: TenantId) -> Span {
        let Some(flow) = self.queue.flow(class, tenant) else { return Span::ZERO };
        let fraction = self.fraction(class, tenant);
        let prefill = self.prefill_time(flow.work.as_f64() / fraction);
        let seqs = self.seqs_time(flow.len() as f64 / fraction);
        self.drain(class, tenant).max(prefill).max(seqs)
    }

    /// The time in which so many requests get a sequence of an engine.
    fn seqs_time(&self, requests: f64) -> Span {
        let seqs_max = self.fleet.seqs_max().max(1) as f64;
        self.pace.stay_mean().scaled(requests / seqs_max)
    }

    fn in_flight_wait(&self) -> Span {
        let room = self.time_to_run(self.fleet.committed().as_f64(), 1.0);
        let seqs = self.seqs_time(self.flights.len() as f64);
        room.max(self.prefill_time(self.fleet.backlog().as_f64())).max(seqs)
    }

    /// The time that the fleet takes to compute so many uncached tokens.
    fn prefill_time(&self, tokens: f64) -> Span {
        let workers = self.fleet.usable().len().max(1) as f64;
        self.pace.prefill(Tokens((tokens / workers) as u64))
    }

    /// When a request that arrives in its flow now goes first, to wait no longer than γ times what
    /// first-come would have made it wait.
    ///
    /// What runs is counted once and not γ times: it is gone after one residence whatever the
    /// order. And the request goes first a little before, by twice the time in which one worker
    /// frees its need, so that a long one has its room when the promise falls due.
    pub(crate) fn promise_moment(
        &self,
        (class, tenant): (ClassId, TenantId),
        need: Tokens,
    ) -> Moment {
        let gamma = self.settings.class(class).promise;
        if gamma.is_infinite() || !self.pace.is_known() {
            return Moment::MAX;
        }
        let promise = self.queue_wait(class, tenant).scaled(gamma) + self.in_flight_wait();
        let workers = self.fleet.usable().len() as f64;
        let lead = self.time_to_run(2.0 * need.as_f64() * workers, 1.0);
        self.now + promise - lead.min(promise.scaled(0.25))
    }

    /// When a retry of a request of the flow would be served: after all that wait, and after those
    /// who were promised a place, at the fraction of the fleet that the class usually has.
    pub(crate) fn wait_of_retry(&self, (class, tenant): (ClassId, TenantId), need: Tokens) -> Span {
        let promises = &self.promises[usize::from(class.0)];
        let queued = self.queue.flow(class, tenant).map_or(Tokens::ZERO, |flow| flow.need);
        let fraction = promises.usual_fraction().min(self.fraction(class, tenant));
        let room = self.time_to_run((queued + promises.owed() + need).as_f64(), fraction);
        room.max(self.queue_wait(class, tenant))
    }

    /// How long a request of the flow with this need will wait, once `owed` has run before it.
    /// Nothing when there is room for it, and for what is owed, and nobody waits.
    pub(crate) fn wait_to_come(
        &self,
        (class, tenant): (ClassId, TenantId),
        need: Tokens,
        owed: Tokens,
    ) -> Span {
        let free = self.fleet.limit().saturating_sub(self.fleet.committed());
        let has_seqs = (self.flights.len() as u64) < self.fleet.seqs_max();
        if self.queue.len() == 0 && need + owed <= free && has_seqs {
            return Span::ZERO;
        }
        let queued = self.queue.flow(class, tenant).map_or(Tokens::ZERO, |flow| flow.need);
        let fraction = self.fraction(class, tenant);
        let room = self.time_to_run((queued + owed + need).as_f64(), fraction);
        room.max(self.queue_wait(class, tenant))
    }
}
