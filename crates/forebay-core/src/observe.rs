//! Takes in what was observed of workers, and new settings.

use crate::Core;
use crate::arrive::wait_limit;
use crate::fleet::Flight;
use crate::input::{Observation, WorkerProfile};
use crate::refusal::RefusalReason;
use crate::request::{RequestId, WorkerId};
use crate::routing::Mode;
use crate::settings::{Knowledge, Settings};
use crate::why::Cause;

impl Core {
    pub(crate) fn observed(&mut self, id: WorkerId, observation: Observation) {
        if let Observation::Joined(profile) = observation {
            return self.joined(id, profile);
        }
        // A worker that has left may still be spoken of: figures and events overtake each other.
        let Some(slot) = self.fleet.slot(id) else { return };
        let (now, settings) = (self.now, &self.settings);
        let by_events = settings.knowledge == Knowledge::Events;
        match observation {
            Observation::Left => {
                let lost = self.vacate(slot);
                self.fleet.leave(slot, now);
                self.run_all_again(lost);
            }
            Observation::Lost => {
                self.fleet.change(slot, now, settings, |w| {
                    w.healthy = false;
                    w.marked_until = None;
                });
                let lost = self.vacate(slot);
                self.fleet.cleared(slot);
                self.run_all_again(lost);
            }
            Observation::Draining(yes) => {
                self.fleet.change(slot, now, settings, |w| w.draining = yes);
                self.dirty.insert(slot);
            }
            Observation::Healthy(healthy) => {
                self.fleet.change(slot, now, settings, |w| w.healthy = healthy);
                self.dirty.insert(slot);
            }
            Observation::Capacity(capacity) => {
                self.fleet.change(slot, now, settings, |w| w.capacity.learn(capacity));
                self.dirty.insert(slot);
            }
            Observation::Load(load) => {
                let pace = (self.pace.residence(self.now), self.pace.preemption_cost(self.now));
                let total = load.preemptions_total;
                let raised = self.fleet.change(slot, now, settings, |worker| {
                    worker.gate.observe(now, total, pace, &settings.gate)
                });
                if raised {
                    self.dirty.insert(slot);
                }
            }
            Observation::Stored(blocks) if by_events => self.fleet.stored(slot, &blocks),
            Observation::Removed(blocks) if by_events => self.fleet.removed(slot, &blocks),
            Observation::Joined(_) | Observation::Stored(_) | Observation::Removed(_) => {}
            Observation::Cleared => self.fleet.cleared(slot),
        }
    }

    fn joined(&mut self, id: WorkerId, profile: WorkerProfile) {
        if let Some(slot) = self.fleet.slot(id) {
            // Restarted in place: whatever ran there is lost, and its cache is empty.
            let lost = self.vacate(slot);
            self.fleet.leave(slot, self.now);
            self.run_all_again(lost);
        }
        if let Some(slot) = self.fleet.join(id, profile, self.now, &self.settings) {
            self.dirty.insert(slot);
        }
    }

    /// Takes everything off a worker that is lost; what ran there.
    fn vacate(&mut self, slot: u32) -> Vec<Flight> {
        let requests: Vec<RequestId> = self.fleet.at(slot).running.iter().copied().collect();
        let lost: Vec<Flight> = requests
            .iter()
            .filter_map(|request| self.flights.remove(request))
            .inspect(|flight| debug_assert_eq!(flight.slot, slot, "a flight is on its worker"))
            .collect();
        lost.iter().for_each(|flight| self.land(flight));
        self.reservations.remove(&slot);
        self.dirty.remove(&slot);
        self.marks.retain(|(_, marked)| *marked != slot);
        lost
    }

    /// Lets what was lost run again. Only after its worker can't be chosen any more, so that none
    /// of it is placed there.
    fn run_all_again(&mut self, lost: Vec<Flight>) {
        for flight in lost {
            self.run_again(flight, RefusalReason::UpstreamFailed);
        }
    }

    /// Takes new settings. Requests that wait are judged by them at once.
    ///
    /// Panics when they have faults, as at the start.
    pub(crate) fn reconfigure(&mut self, settings: Settings) {
        assert_eq!(settings.faults(), [], "the settings have faults");
        let mode_before = self.settings.mode;
        self.settings = settings;
        self.queue.grow(self.settings.classes.len());
        self.grow_promises();
        let slots: Vec<u32> = self.fleet.iter().map(|(slot, _)| slot).collect();
        for slot in &slots {
            let settings = &self.settings;
            self.fleet.change(*slot, self.now, settings, |w| w.gate.reconfigure(&settings.gate));
        }
        self.fleet.restand(self.now, &self.settings);
        for request in self.queue.ids() {
            let Some(waiting) = self.queue.get(request) else { continue };
            let limit = wait_limit(self.settings.class(waiting.arrival.class));
            let deadline = limit.map(|max| waiting.offered + max);
            self.queue.set_deadline(request, deadline);
        }
        self.expire();
        slots.iter().for_each(|slot| self.project(*slot));
        self.dirty.extend(slots);
        self.change_mode(mode_before);
    }

    /// Hands what waits over from one mode to another.
    fn change_mode(&mut self, before: Mode) {
        let now = self.settings.mode;
        if before == now {
            return;
        }
        let waiting = self.queue.ids();
        self.reservations.clear();
        for request in waiting {
            self.parked.remove(request);
            if let Mode::Kv(preset) = now {
                let uncached = self.queue.get(request).map(|waiting| waiting.uncached);
                self.parked.park(preset, request, uncached.unwrap_or_default());
            } else if !matches!(now, Mode::Hold(_))
                && let Some(waiting) = self.queue.remove(request)
            {
                self.push(waiting, Cause::Pushed);
            }
        }
    }
}
