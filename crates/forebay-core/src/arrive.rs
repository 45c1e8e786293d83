//! Takes a request in: limits, class policy, and the way into a worker or into the queue.

use crate::Core;
use crate::output::Output;
use crate::queue::{Place, Waiting};
use crate::refusal::{Refusal, RefusalReason};
use crate::request::{Arrival, ClassId, PoolId, RequestId};
use crate::routing::hold::{self, Choice};
use crate::routing::{HoldOrder, Mode, kv};
use crate::settings::{ClassSettings, Overload};
use crate::tenants::LimitHit;
use crate::units::{Span, Tokens};
use crate::why::{Cause, Why};

/// Open workers whose account is looked at to estimate what a queued request will need.
const ESTIMATE_WORKERS: usize = 4;
/// How many times the class's longest wait a client may be predicted that returns as told.
const RETURNED_FACTOR: f64 = 2.0;
/// The unit of Retry-After.
const SECOND: Span = Span::secs(1);
/// Older requests that are counted before one that returns; more of them is a refusal in any case.
const OLDER_MAX: usize = 256;
/// A client that comes back this much before its time is on time: clocks and timers differ.
const EARLY: Span = Span::millis(50);

impl Core {
    pub(crate) fn arrived(&mut self, mut arrival: Arrival) {
        let request = arrival.request;
        if self.queue.get(request).is_some() || self.flights.contains_key(&request) {
            debug_assert!(false, "a request arrived twice");
            return;
        }
        arrival.class.0 = arrival.class.0.min(self.settings.classes.len() as u16 - 1);
        arrival.tenant = self.tenants.accounted(arrival.tenant, &self.settings);
        if !self.settings.accepting {
            return self.refuse_unopened(&arrival, RefusalReason::Draining, None);
        }
        if self.is_too_long(&arrival) {
            return self.refuse_unopened(&arrival, RefusalReason::TooLong, None);
        }
        if let Err(hit) = self.tenants.open(self.now, &arrival, &self.settings) {
            return self.refuse_unopened(&arrival, hit.reason, Some(hit));
        }
        let waiting = self.taken_in(arrival);
        if self.flights.len() >= self.settings.limits.running_max as usize {
            return self.refuse(&waiting, RefusalReason::QueueFull);
        }
        match self.settings.mode {
            Mode::Hold(order) => self.hold_or_refuse(waiting, order),
            Mode::Kv(preset) if kv::is_gated(preset, &self.fleet) => {
                if self.queue_has_room(waiting.arrival.class) {
                    self.parked.park(preset, waiting.arrival.request, waiting.uncached);
                    self.queue.insert(waiting);
                } else {
                    self.refuse(&waiting, RefusalReason::QueueFull);
                }
            }
            _ => self.push(waiting, Cause::Pushed),
        }
    }

    /// Estimates what the request needs and will wait.
    fn taken_in(&mut self, arrival: Arrival) -> Waiting {
        let output = self.settings.expected_output.map_or_else(
            || self.means.expect(&arrival, self.fleet.capacity_min()),
            |fixed| Tokens(fixed.0.min(arrival.output_max.map_or(u64::MAX, |max| max.0))),
        );
        let uncached = self.fleet.uncached_best(&arrival, self.settings.block_size);
        let fraction = self.fraction(arrival.class, arrival.tenant);
        self.promises[usize::from(arrival.class.0)].note_fraction(fraction);
        let need = self.estimated_need(&arrival, output);
        let occupancy = self.occupancy(need, uncached, output);
        self.pace.note_arrival(uncached, occupancy);
        let (class, tenant) = (arrival.class, arrival.tenant);
        let predicted = self.pace.is_known().then(|| self.first_come_wait(class, tenant));
        let settings = self.settings.class(class);
        // A client that returns as told keeps its age; one that returns early gains nothing by it.
        let returned = arrival.ticket.filter(|ticket| ticket.promised <= self.now + EARLY);
        let arrived = returned.map_or(self.now, |ticket| ticket.first_arrived.min(self.now));
        let deadline = wait_limit(settings).map(|max| self.now + max);
        let promise = self.promise_moment((class, tenant), need);
        Waiting {
            offered: self.now,
            uncached,
            occupancy,
            output,
            place: Place { key: 0.0, promise, arrived, need, work: uncached },
            predicted,
            deadline,
            attempts: 0,
            arrival,
        }
    }

    /// What the request would add to the best of a few workers.
    fn estimated_need(&self, arrival: &Arrival, output: Tokens) -> Tokens {
        let block_size = self.settings.block_size;
        self.fleet
            .usable()
            .iter()
            .take(ESTIMATE_WORKERS)
            .map(|slot| self.fleet.at(*slot).need(arrival, output, block_size))
            .min()
            .unwrap_or(arrival.prompt + output)
    }

    fn hold_or_refuse(&mut self, mut waiting: Waiting, order: HoldOrder) {
        let class = waiting.arrival.class;
        let settings = *self.settings.class(class);
        let nowhere = self.fleet.usable().is_empty();
        if nowhere && settings.overload == Overload::Shed {
            return self.refuse(&waiting, RefusalReason::NoWorker);
        }
        let returned = self.redeem(&waiting);
        if let Some(wait_max) = settings.wait_max {
            let wait = self.policy_wait(&waiting, returned);
            // Whoever was told when to come back, and does, is owed more than a newcomer.
            let wait_max = if returned { wait_max.scaled(RETURNED_FACTOR) } else { wait_max };
            match settings.overload {
                Overload::Shed if wait > wait_max => {
                    self.note_return(class, returned, false);
                    return self.refuse(&waiting, RefusalReason::Shed);
                }
                Overload::Spill(pool) if wait > wait_max => {
                    return self.spill(&waiting, pool);
                }
                Overload::Queue | Overload::Shed | Overload::Spill(_) => {}
            }
        }
        self.note_return(class, returned, true);
        if let Some(choice) = self.place(&waiting, order) {
            return self.dispatch(waiting, choice);
        }
        if !self.queue_has_room(class) {
            return self.refuse(&waiting, RefusalReason::QueueFull);
        }
        self.rescale(class, waiting.arrival.tenant);
        let flow = self.queue.flow(class, waiting.arrival.tenant);
        let scale =
            flow.map_or_else(|| self.scale(class, waiting.arrival.tenant), |flow| flow.scale);
        waiting.place.key = waiting.key(&scale);
        self.queue.insert(waiting);
    }

    /// Whether the client comes back as it was told, for a place that was kept for it.
    fn redeem(&mut self, waiting: &Waiting) -> bool {
        let Some(ticket) = waiting.arrival.ticket else { return false };
        let promises = &mut self.promises[usize::from(waiting.arrival.class.0)];
        promises.redeem(ticket.promised, waiting.place.need) && ticket.promised <= self.now + EARLY
    }

    fn note_return(&mut self, class: ClassId, returned: bool, found_room: bool) {
        if returned {
            self.promises[usize::from(class.0)].note_return(found_room);
        }
    }

    /// The wait that the class's policy judges by: a newcomer comes after all that wait and after
    /// those who were promised a place; one that returns as told only after those that are older.
    fn policy_wait(&self, waiting: &Waiting, returned: bool) -> Span {
        let key = (waiting.arrival.class, waiting.arrival.tenant);
        let stay = self.pace.residence(self.now);
        let patience = self.settings.class(key.0).wait_max.unwrap_or_default();
        let owed = self.promises[usize::from(key.0.0)].owed_until(self.now + stay + patience);
        let Some(flow) = self.queue.flow(key.0, key.1).filter(|_| returned) else {
            return self.wait_to_come(key, waiting.place.need, owed);
        };
        let older = flow.by_age.range(..(waiting.place.arrived, waiting.arrival.request));
        let need = |request: RequestId| self.queue.get(request).map_or(0, |w| w.place.need.0);
        let before: u64 = older.take(OLDER_MAX).map(|(_, request)| need(*request)).sum();
        let free = self.fleet.limit().saturating_sub(self.fleet.committed());
        if before == 0 && waiting.place.need <= free {
            return Span::ZERO;
        }
        let ahead = Tokens(before) + waiting.place.need;
        self.time_to_run(ahead.as_f64(), self.fraction(key.0, key.1))
    }

    fn spill(&mut self, waiting: &Waiting, pool: PoolId) {
        self.tenants.close(waiting.arrival.tenant);
        let why = self.why(waiting, Cause::Spilled, Vec::new());
        self.outputs.push_back(Output::Spill(waiting.arrival.request, pool, Box::new(why)));
    }

    /// Sends a request to the worker that a pushing mode chooses, at once.
    pub(crate) fn push(&mut self, waiting: Waiting, cause: Cause) {
        if let Mode::Kv(preset) = self.settings.mode
            && !self.fleet.usable().is_empty()
            && kv::is_busy(preset, &self.fleet, self.settings.block_size)
        {
            return self.refuse(&waiting, RefusalReason::WorkersBusy);
        }
        let Some(slot) = self.route(&waiting.arrival) else {
            // A worker that only asked not to be sent more is backpressure; no worker at all is
            // something else.
            let marked = self.fleet.iter().any(|(_, worker)| worker.marked_until.is_some());
            let reason = if marked { RefusalReason::WorkersBusy } else { RefusalReason::NoWorker };
            return self.refuse(&waiting, reason);
        };
        let mut candidates = vec![self.candidate(&waiting.arrival, slot)];
        let others = self.fleet.usable().iter().filter(|other| **other != slot);
        candidates.extend(others.take(2).map(|other| self.candidate(&waiting.arrival, *other)));
        self.dispatch(waiting, Choice { slot, cause, candidates });
    }

    /// Lets parked requests go for as long as the preset's gate is open.
    pub(crate) fn unpark(&mut self) {
        while let Mode::Kv(preset) = self.settings.mode {
            let Some(request) = self.parked.first() else { return };
            if self.fleet.usable().is_empty() || kv::is_gated(preset, &self.fleet) {
                return;
            }
            self.parked.remove(request);
            if let Some(waiting) = self.queue.remove(request) {
                self.push(waiting, Cause::Order);
            }
        }
    }

    fn queue_has_room(&self, class: ClassId) -> bool {
        self.queue.len() < self.settings.limits.queue_len_max as usize
            && self.queue.class(class).len < self.settings.class(class).queue_len_max
    }

    /// Whether no worker, empty, could hold the prompt and one token more.
    fn is_too_long(&self, arrival: &Arrival) -> bool {
        let fits =
            |capacity: Option<Tokens>| capacity.is_none_or(|capacity| arrival.prompt < capacity);
        self.fleet.len() > 0 && !self.fleet.iter().any(|(_, worker)| fits(worker.capacity.known()))
    }

    /// Everything that explains a decision about the request.
    pub(crate) fn why(
        &self,
        waiting: &Waiting,
        cause: Cause,
        candidates: Vec<crate::Candidate>,
    ) -> Why {
        let flow = self.queue.flow(waiting.arrival.class, waiting.arrival.tenant);
        let before = (waiting.place.arrived, waiting.arrival.request);
        let earlier =
            flow.map_or(0, |flow| flow.by_age.range(..before).take(hold::PASSED_MAX).count());
        let weighed = flow.filter(|_| self.settings.mode == Mode::Hold(HoldOrder::Aged));
        Why {
            cause,
            mode: self.settings.mode.name(),
            prompt: waiting.arrival.prompt,
            expected_output: waiting.output,
            occupancy: weighed.map_or(Tokens::ZERO, |flow| flow.scale.counted(waiting.occupancy)),
            waited: self.now.since(waiting.offered),
            predicted_wait: waiting.predicted,
            candidates,
            workers_open: self.fleet.open_len() as u32,
            gate: None,
            queue_len: self.queue.len() as u32,
            passed: earlier as u32,
            behind: self.went_last.filter(|_| self.now > waiting.offered),
            attempt: waiting.attempts + 1,
        }
    }

    /// Refuses a request that has not been opened on its tenant's account.
    fn refuse_unopened(&mut self, arrival: &Arrival, reason: RefusalReason, hit: Option<LimitHit>) {
        let refusal = Refusal {
            reason,
            class: arrival.class,
            retry_after: None,
            predicted_wait: hit.and_then(|hit| hit.wait),
            waited: Span::ZERO,
            limit: hit.map_or_else(|| self.capacity_max(reason), |hit| hit.limit),
            sustained: false,
        };
        let probe = (reason == RefusalReason::Draining).then_some(self.settings.limits.mark);
        let concurrency =
            (reason == RefusalReason::TenantConcurrency).then(|| self.pace.residence(self.now));
        let wait = refusal.predicted_wait.or(probe).or(concurrency);
        let refusal = self.with_retry_after(refusal, wait);
        self.outputs.push_back(Output::Refuse(arrival.request, refusal));
    }

    /// For a prompt that is too long: the most that any worker holds.
    fn capacity_max(&self, reason: RefusalReason) -> u64 {
        let capacities = self.fleet.iter().map(|(_, worker)| worker.capacity.tokens().0);
        if reason == RefusalReason::TooLong { capacities.max().unwrap_or(0) } else { 0 }
    }

    /// Refuses a request that was taken in, and closes its account.
    pub(crate) fn refuse(&mut self, waiting: &Waiting, reason: RefusalReason) {
        let class = waiting.arrival.class;
        let settings = *self.settings.class(class);
        let key = (class, waiting.arrival.tenant);
        self.tenants.close(waiting.arrival.tenant);
        let need = waiting.place.need;
        // A retry after one of these finds its place kept.
        let kept = matches!(
            reason,
            RefusalReason::Shed | RefusalReason::QueueFull | RefusalReason::WaitedTooLong
        );
        let wait = match reason {
            _ if kept => Some(self.wait_of_retry(key, need)),
            RefusalReason::NoWorker => Some(self.settings.limits.mark),
            // Dynamo sends no Retry-After with its refusals.
            RefusalReason::WorkersBusy if !matches!(self.settings.mode, Mode::Kv(_)) => {
                Some(self.settings.limits.mark)
            }
            _ => None,
        };
        let limit = match reason {
            RefusalReason::QueueFull => u64::from(settings.queue_len_max),
            RefusalReason::Shed | RefusalReason::WaitedTooLong => {
                settings.wait_max.map_or(0, |max| max.0 / 1_000_000)
            }
            _ => 0,
        };
        let refusal = Refusal {
            reason,
            class,
            retry_after: None,
            predicted_wait: wait,
            waited: self.now.since(waiting.offered),
            limit,
            sustained: false,
        };
        let factor = if kept { self.promises[usize::from(class.0)].factor() } else { 1.0 };
        let refusal = self.with_retry_after(refusal, wait.map(|wait| wait.scaled(factor)));
        if let (true, false, Some(after)) = (kept, refusal.sustained, refusal.retry_after) {
            self.promises[usize::from(class.0)].make(self.now + after, need);
        }
        self.outputs.push_back(Output::Refuse(waiting.arrival.request, refusal));
    }

    /// Puts the wait into whole seconds, at least 1 and at most the cap. What is cut is spread over
    /// the last quarter before the cap, so that those who are cut do not all come back at once.
    fn with_retry_after(&mut self, mut refusal: Refusal, wait: Option<Span>) -> Refusal {
        let cap = self.settings.limits.retry_after_max;
        if let Some(wait) = wait {
            let secs = Span::secs(wait.0.div_ceil(SECOND.0).max(1));
            refusal.sustained = secs > cap;
            refusal.retry_after = Some(if refusal.sustained {
                let cap_secs = cap.0 / SECOND.0;
                Span::secs(cap_secs - self.rng.below(cap_secs / 4 + 1))
            } else {
                secs
            });
        }
        refusal
    }

    /// A waiting request has reached its class's longest wait.
    pub(crate) fn waited_too_long(&mut self, request: RequestId) {
        self.parked.remove(request);
        if let Some(waiting) = self.queue.remove(request) {
            self.unreserve(request);
            match self.settings.class(waiting.arrival.class).overload {
                Overload::Spill(pool) => self.spill(&waiting, pool),
                Overload::Queue | Overload::Shed => {
                    self.refuse(&waiting, RefusalReason::WaitedTooLong);
                }
            }
        }
    }
}

/// The longest that a request waits before it is refused, or spilled after all. A class that sheds
/// judges at arrival, and what it has let in is served: to be shed after having waited would be the
/// worst of both.
pub(crate) fn wait_limit(settings: &ClassSettings) -> Option<Span> {
    match settings.overload {
        Overload::Queue | Overload::Spill(_) => settings.wait_max,
        Overload::Shed => None,
    }
}
