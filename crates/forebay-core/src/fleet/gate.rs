//! Decides how much of a worker's KV capacity may be committed, and learns it from preemptions.
//!
//! The question: may this request be added to this worker without the engine running out of KV
//! memory later? What the worker's requests will hold at the worst moment to come is projected from
//! *mean* outputs; a fraction f of the capacity may be. Evidence (`docs/concepts/evidence.md`): f
//! from 0.9 to 1.0 is a plateau, 1.1 doubles the mean TTFT, and reserving each request's worst case
//! costs throughput and the tail. So a preemption is a cost to weigh, not a fault to avoid: f goes
//! down when the share of preempted among finished requests is above a limit, up when it is far
//! below and the gate was what held requests back, and stays between.
//!
//! What a preemption costs is the prefill that is done again, against the time that the request
//! stays. Where prompts are long it is a few percent of the stay; where answers are long it is next
//! to nothing, and KV left free for fear of it is the larger loss. The *cheapness* of preemptions,
//! from 0 to 1, moves the limits between the two.

use crate::settings::GateSettings;
use crate::units::{Moment, Span};

/// Above this share of preempted among finished requests, f is lowered: where they are dear, and
/// what is added where they are cheap.
const SHARE_MAX: (f64, f64) = (0.05, 1.0);
/// Below this share, f may be raised, likewise.
const SHARE_LOW: (f64, f64) = (0.01, 0.2);
/// How much f is raised at once, likewise: slowly where a cliff lies above.
const STEP_UP: (f64, f64) = (0.005, 0.045);
/// How far above the settings' bound f may go where preemptions are cheap.
const CHEAP_FRACTION: f64 = 0.5;
/// How much f is lowered at once: about what a wrong capacity of 10 % needs two or three times.
const STEP_DOWN: f64 = 0.04;
/// How much it is lowered at most, in proportion to how far the share is above the limit: a
/// capacity that is wrong by a quarter shows in a fifth of all requests.
const STEP_DOWN_MAX: f64 = 0.12;
/// A preemption that costs this part of a request's stay is dear, ...
const DEAR_COST: f64 = 0.02;
/// ... and one that costs this part is as cheap as can be.
const CHEAP_COST: f64 = 0.002;
/// A window is at least a mean residence where preemptions are dear, and this part of it where they
/// are cheap.
const CHEAP_WINDOW: f64 = 0.25;
/// Fewest finished requests that a window is judged by.
const FINISHED_MIN: u32 = 20;

/// The gate of one worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    fraction: f64,
    /// What the engine's counter showed last; `None` before the first scrape, and after a restart.
    preemptions_total: Option<u64>,
    window_start: Moment,
    preempted: u64,
    finished: u32,
    held_back: bool,
}

impl Gate {
    pub(crate) fn new(settings: &GateSettings, now: Moment) -> Self {
        Self {
            fraction: settings.fraction_start,
            preemptions_total: None,
            window_start: now,
            preempted: 0,
            finished: 0,
            held_back: false,
        }
    }

    /// The fraction of the capacity that may be committed.
    pub(crate) fn fraction(&self) -> f64 {
        self.fraction
    }

    /// Notes that a request finished on the worker.
    pub(crate) fn note_finished(&mut self) {
        self.finished = self.finished.saturating_add(1);
    }

    /// Notes that a request did not fit.
    pub(crate) fn note_held_back(&mut self) {
        self.held_back = true;
    }

    /// Takes the engine's counter. Closes the window when it is as long as a mean residence and has
    /// enough finished requests in it; says whether f was raised, so that more may fit now. `cost`
    /// is what a preemption does again, as a part of the residence.
    pub(crate) fn observe(
        &mut self,
        now: Moment,
        preemptions_total: u64,
        (residence, cost): (Span, f64),
        settings: &GateSettings,
    ) -> bool {
        // A counter that went back belongs to an engine that was restarted: it counts from 0 again.
        let before = self.preemptions_total.replace(preemptions_total).unwrap_or(preemptions_total);
        self.preempted += preemptions_total.checked_sub(before).unwrap_or(preemptions_total);
        let cheapness = ((DEAR_COST - cost) / (DEAR_COST - CHEAP_COST)).clamp(0.0, 1.0);
        let window = residence.scaled(1.0 - (1.0 - CHEAP_WINDOW) * cheapness);
        if now.since(self.window_start) < window || self.finished < FINISHED_MIN {
            return false;
        }
        let between = |(dear, more): (f64, f64)| dear + more * cheapness;
        let share = self.preempted as f64 / f64::from(self.finished);
        let raised = share < between(SHARE_LOW) && self.held_back;
        if share > between(SHARE_MAX) {
            self.fraction -= (STEP_DOWN * share / between(SHARE_MAX)).min(STEP_DOWN_MAX);
        } else if raised {
            self.fraction += between(STEP_UP);
        }
        let fraction_max = settings.fraction_max + CHEAP_FRACTION * cheapness;
        self.fraction = self.fraction.clamp(settings.fraction_min, fraction_max);
        self.window_start = now;
        self.preempted = 0;
        self.finished = 0;
        self.held_back = false;
        raised
    }

    /// Takes new settings: keeps what was learned, within the new bounds.
    pub(crate) fn reconfigure(&mut self, settings: &GateSettings) {
        let fraction_max = settings.fraction_max + CHEAP_FRACTION;
        self.fraction = self.fraction.clamp(settings.fraction_min, fraction_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: GateSettings = GateSettings {
        fraction_start: 0.95,
        fraction_min: 0.8,
        fraction_max: 1.0,
        backlog_steps_max: 1.5,
    };

    fn after(preempted: u64, held_back: bool) -> f64 {
        let mut gate = Gate::new(&SETTINGS, Moment::START);
        gate.observe(Moment::START, 7, (Span::secs(1), 0.05), &SETTINGS);
        (0..100).for_each(|_| gate.note_finished());
        if held_back {
            gate.note_held_back();
        }
        gate.observe(
            Moment::START + Span::secs(2),
            7 + preempted,
            (Span::secs(1), 0.05),
            &SETTINGS,
        );
        gate.fraction()
    }

    #[test]
    fn preemptions_that_cost_more_than_room_is_worth_lower_the_fraction() {
        assert!((after(6, true) - 0.902).abs() < 1e-9);
        assert!((after(40, true) - 0.83).abs() < 1e-9, "many lower it more, within a bound");
    }

    #[test]
    fn a_few_preemptions_are_weighed_and_borne() {
        assert!((after(3, true) - 0.95).abs() < 1e-9);
    }

    #[test]
    fn the_fraction_rises_only_when_the_gate_was_the_limit() {
        assert!((after(0, true) - 0.955).abs() < 1e-9);
        assert!((after(0, false) - 0.95).abs() < 1e-9);
    }

    #[test]
    fn a_counter_that_starts_again_is_not_a_negative_count() {
        let mut gate = Gate::new(&SETTINGS, Moment::START);
        gate.observe(Moment::START, 1000, (Span::secs(1), 0.05), &SETTINGS);
        (0..100).for_each(|_| gate.note_finished());
        gate.observe(Moment::START + Span::secs(2), 50, (Span::secs(1), 0.05), &SETTINGS);
        assert!((gate.fraction() - 0.83).abs() < 1e-9);
    }

    #[test]
    fn where_preemptions_are_cheap_more_are_borne_and_the_fraction_rises_further() {
        let mut gate = Gate::new(&SETTINGS, Moment::START);
        for round in 1..=20 {
            (0..100).for_each(|_| gate.note_finished());
            gate.note_held_back();
            let now = Moment::START + Span::secs(2 * round);
            gate.observe(now, 10 * round, (Span::secs(1), 0.001), &SETTINGS);
        }
        assert!((gate.fraction() - 1.5).abs() < 1e-9, "a tenth preempted: {}", gate.fraction());
        (0..100).for_each(|_| gate.note_finished());
        gate.observe(Moment::START + Span::secs(60), 600, (Span::secs(1), 0.001), &SETTINGS);
        assert!(gate.fraction() < 1.5, "four preemptions a request are too many all the same");
    }
}
