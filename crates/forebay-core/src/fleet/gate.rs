//! Decides how much of a worker's KV capacity may be committed, and learns it from preemptions.
//!
//! The question: may this request be added to this worker without the engine running out of KV
//! memory later? Committed is what the worker's requests hold and will hold *on average*; a
//! fraction f of the capacity may be. Evidence (`docs/concepts/evidence.md`): f from 0.9 to 1.0 is
//! a plateau, 1.1 doubles the mean TTFT, and reserving each request's worst case costs throughput
//! and the tail. So a preemption is a cost to weigh, not a fault to avoid: a preempted request
//! repeats about its whole work, so a share p of preempted requests costs about p of the drain
//! rate, and lowering f by x costs about x of it. f goes down when p is above one in twenty, up
//! when it is below one in a hundred and the gate was what held requests back, and stays between.

use crate::settings::GateSettings;
use crate::units::{Moment, Span};

/// Above this share of preempted among finished requests, f is lowered.
const PREEMPTED_SHARE_MAX: f64 = 0.05;
/// Below this share, f may be raised.
const PREEMPTED_SHARE_LOW: f64 = 0.01;
/// How much f is lowered at once: about what a wrong capacity of 10 % needs two or three times.
const STEP_DOWN: f64 = 0.04;
/// How much it is lowered at most, in proportion to how far the share is above the limit: a
/// capacity that is wrong by a quarter shows in a fifth of all requests.
const STEP_DOWN_MAX: f64 = 0.12;
/// How much f is raised at once: slowly, since a cliff lies above.
const STEP_UP: f64 = 0.005;
/// A window is at least this part of a mean residence, which is how long a change takes to show.
const WINDOW_PART: f64 = 1.0;
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
    /// enough finished requests in it; says whether f was raised, so that more may fit now.
    pub(crate) fn observe(
        &mut self,
        now: Moment,
        preemptions_total: u64,
        residence: Span,
        settings: &GateSettings,
    ) -> bool {
        // A counter that went back belongs to an engine that was restarted: it counts from 0 again.
        let before = self.preemptions_total.replace(preemptions_total).unwrap_or(preemptions_total);
        self.preempted += preemptions_total.checked_sub(before).unwrap_or(preemptions_total);
        if now.since(self.window_start) < residence.scaled(WINDOW_PART)
            || self.finished < FINISHED_MIN
        {
            return false;
        }
        let share = self.preempted as f64 / f64::from(self.finished);
        let raised = share < PREEMPTED_SHARE_LOW && self.held_back;
        if share > PREEMPTED_SHARE_MAX {
            self.fraction -= (STEP_DOWN * share / PREEMPTED_SHARE_MAX).min(STEP_DOWN_MAX);
        } else if raised {
            self.fraction += STEP_UP;
        }
        self.fraction = self.fraction.clamp(settings.fraction_min, settings.fraction_max);
        self.window_start = now;
        self.preempted = 0;
        self.finished = 0;
        self.held_back = false;
        raised
    }

    /// Takes new settings: keeps what was learned, within the new bounds.
    pub(crate) fn reconfigure(&mut self, settings: &GateSettings) {
        self.fraction = self.fraction.clamp(settings.fraction_min, settings.fraction_max);
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
        gate.observe(Moment::START, 7, Span::secs(1), &SETTINGS);
        (0..100).for_each(|_| gate.note_finished());
        if held_back {
            gate.note_held_back();
        }
        gate.observe(Moment::START + Span::secs(2), 7 + preempted, Span::secs(1), &SETTINGS);
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
        gate.observe(Moment::START, 1000, Span::secs(1), &SETTINGS);
        (0..100).for_each(|_| gate.note_finished());
        gate.observe(Moment::START + Span::secs(2), 50, Span::secs(1), &SETTINGS);
        assert!((gate.fraction() - 0.83).abs() < 1e-9);
    }
}
