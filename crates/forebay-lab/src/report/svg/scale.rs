//! Maps values to places, and picks the ticks that a reader would pick.

use crate::drill::notation;

/// Room at the end of a scale for what is infinite, in pixels.
const INFINITE_LANE: f64 = 40.0;

/// How values grow along a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// Equal steps are equal distances.
    Linear,
    /// Equal factors are equal distances. Values at or below the start lie at the start.
    Logarithmic,
}

/// A mark on an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Where, in pixels.
    pub at: f64,
    /// What it says; empty for a minor tick.
    pub label: String,
}

/// Maps values from `start..end` to pixels; the infinite gets a lane of its own beyond the end, so
/// that it is seen and never mistaken for a large value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    growth: Growth,
    start: f64,
    end: f64,
    from: f64,
    to: f64,
    infinite: bool,
}

impl Scale {
    /// A linear scale from zero that ends at a round figure at or above the largest finite value.
    pub fn linear_to(values: impl IntoIterator<Item = f64>) -> Self {
        let largest = values.into_iter().filter(|value| value.is_finite()).fold(0.0, f64::max);
        let step = round_step(largest / 4.0);
        let end = if largest > 0.0 { (largest / step - 1e-9).ceil() * step } else { 1.0 };
        Self::linear(0.0, end)
    }

    /// A linear scale.
    pub const fn linear(start: f64, end: f64) -> Self {
        Self { growth: Growth::Linear, start, end, from: 0.0, to: 1.0, infinite: false }
    }

    /// A logarithmic scale around the positive finite values, from a 1, 2 or 5 to another, at least
    /// a decade long. It has a lane for the infinite if one of the values is.
    pub fn logarithmic_around(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().filter(|value| *value > 0.0).collect();
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let (low, high) = (finite().fold(f64::MAX, f64::min), finite().fold(0.0, f64::max));
        let (low, high) = if high > 0.0 { (low, high) } else { (1.0, 10.0) };
        let start = steps_125(low).rev().find(|step| *step <= low).unwrap_or(low);
        let high = high.max(start * 10.0);
        let end = steps_125(high).find(|step| *step >= high * 0.9999).unwrap_or(high);
        Self {
            growth: Growth::Logarithmic,
            start,
            end,
            from: 0.0,
            to: 1.0,
            infinite: values.iter().any(|value| value.is_infinite()),
        }
    }

    /// The same scale drawn between two places in pixels; `from` may lie beyond `to`, as on an
    /// upward axis.
    #[must_use]
    pub const fn between(self, from: f64, to: f64) -> Self {
        Self { from, to, ..self }
    }

    /// The place of a value in pixels. What lies outside is drawn at the nearer end.
    pub fn place(&self, value: f64) -> f64 {
        if value.is_infinite() && value > 0.0 && self.infinite {
            return self.to - self.direction() * INFINITE_LANE / 5.0;
        }
        let part = match self.growth {
            Growth::Linear => (value - self.start) / (self.end - self.start),
            Growth::Logarithmic => {
                (value.max(self.start) / self.start).ln() / (self.end / self.start).ln()
            }
        };
        self.from + part.clamp(0.0, 1.0) * (self.finite_end() - self.from)
    }

    /// Where the finite values end and the lane of the infinite begins; `None` where there is no
    /// lane.
    pub fn lane(&self) -> Option<f64> {
        self.infinite.then(|| self.finite_end() + self.direction() * INFINITE_LANE / 2.0)
    }

    /// The end of the scale in pixels, lane included.
    pub const fn to(&self) -> f64 {
        self.to
    }

    /// The start of the scale in pixels.
    pub const fn from(&self) -> f64 {
        self.from
    }

    /// The ticks, labelled by `label`, with `∞` in the lane.
    pub fn ticks(&self, label: &dyn Fn(f64) -> String) -> Vec<Tick> {
        let mut ticks = match self.growth {
            Growth::Linear => self.linear_ticks(label),
            Growth::Logarithmic => self.logarithmic_ticks(label),
        };
        if self.infinite {
            let label = notation::INFINITE.to_owned();
            ticks.push(Tick { at: self.place(f64::INFINITY), label });
        }
        ticks
    }

    fn linear_ticks(&self, label: &dyn Fn(f64) -> String) -> Vec<Tick> {
        // About one tick in 45 pixels, and never fewer than two steps.
        let wanted = ((self.to - self.from).abs() / 45.0).clamp(2.0, 8.0);
        let step = round_step((self.end - self.start) / wanted);
        let first = (self.start / step - 1e-9).ceil() as i64;
        let last = (self.end / step + 1e-9).floor() as i64;
        let value = |nth: i64| nth as f64 * step;
        (first..=last)
            .map(|nth| Tick { at: self.place(value(nth)), label: label(value(nth)) })
            .collect()
    }

    /// Decades are labelled, and 2 and 5 as well where there is room for them.
    fn logarithmic_ticks(&self, label: &dyn Fn(f64) -> String) -> Vec<Tick> {
        let decades = (self.end / self.start).log10();
        // Labels are wide and low: along the page they need more room than up it.
        let needed = if self.to < self.from { 60.0 } else { 170.0 };
        let roomy = (self.finite_end() - self.from).abs() / decades > needed;
        steps_125(self.start)
            .filter(|step| (self.start * 0.9999..=self.end * 1.0001).contains(step))
            .map(|step| {
                let decade = (step.log10() - step.log10().round()).abs() < 1e-6;
                let label = if decade || roomy { label(step) } else { String::new() };
                Tick { at: self.place(step), label }
            })
            .collect()
    }

    fn direction(&self) -> f64 {
        (self.to - self.from).signum()
    }

    fn finite_end(&self) -> f64 {
        if self.infinite { self.to - self.direction() * INFINITE_LANE } else { self.to }
    }
}

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that is not below this.
fn round_step(least: f64) -> f64 {
    if least <= 0.0 || !least.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(least.log10().floor());
    let times = [1.0, 2.0, 2.5, 5.0, 10.0];
    times
        .into_iter()
        .map(|times| times * power)
        .find(|step| *step >= least * 0.9999)
        .unwrap_or(power)
}

/// 1, 2 and 5 times the powers of ten, two decades below a value to eight above it.
fn steps_125(around: f64) -> impl DoubleEndedIterator<Item = f64> {
    let decade = around.log10().floor() as i32;
    let step = |power: i32| {
        // Powers below one are quotients: 10^-3 as a float is not the nearest to 0.001, 1 / 1000
        // is.
        [1.0, 2.0, 5.0].map(|times| match power {
            0.. => times * 10_f64.powi(power),
            _ => times / 10_f64.powi(-power),
        })
    };
    (decade - 2..=decade + 8).flat_map(step)
}

#[cfg(test)]
mod tests {
    use super::Scale;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.ticks(&|value| value.to_string()).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn a_linear_scale_starts_at_zero_and_ends_at_a_round_figure() {
        let scale = Scale::linear_to([3.0, 97.0]).between(0.0, 200.0);
        assert_eq!(labels(&scale), ["0", "25", "50", "75", "100"]);
        assert!((scale.place(50.0) - 100.0).abs() < 1e-9);
        assert_eq!(labels(&Scale::linear_to([]).between(0.0, 200.0)).first().unwrap(), "0");
    }

    #[test]
    fn a_logarithmic_scale_has_equal_decades() {
        let scale = Scale::logarithmic_around([0.3, 21.0]).between(0.0, 230.0);
        assert_eq!(
            labels(&scale),
            ["0.2", "0.5", "1", "2", "5", "10", "20", "50"]
                .map(|label| if matches!(label, "1" | "10") { label } else { "" })
        );
        let decade = scale.place(10.0) - scale.place(1.0);
        assert!((scale.place(20.0) - scale.place(2.0) - decade).abs() < 1e-9);
    }

    #[test]
    fn the_infinite_is_beyond_every_finite_value() {
        let scale = Scale::logarithmic_around([1.0, 100.0, f64::INFINITY]).between(300.0, 0.0);
        assert!(scale.place(f64::INFINITY) < scale.lane().unwrap());
        assert!(scale.lane().unwrap() < scale.place(100.0));
        assert_eq!(labels(&scale).last().unwrap(), "∞");
        assert!(scale.place(f64::INFINITY) > scale.to());
    }

    #[test]
    fn what_lies_outside_is_drawn_at_the_nearer_end() {
        let scale = Scale::logarithmic_around([1.0, 100.0]).between(0.0, 100.0);
        assert!(scale.place(0.0).abs() < 1e-9 && (scale.place(1e9) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn only_unusable_values_still_make_a_scale() {
        let all_bad = [0.0, -1.0, f64::INFINITY];
        let scale = Scale::logarithmic_around(all_bad).between(0.0, 300.0);
        assert!(all_bad.iter().all(|value| scale.place(*value).is_finite()));
    }
}
