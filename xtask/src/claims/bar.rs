//! Holds figures against bars, and says how far they are from them.

use std::fmt;

/// What every value of a figure must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bar {
    /// At most this.
    AtMost(f64),
    /// Less than this.
    Below(f64),
    /// At least this.
    AtLeast(f64),
    /// At least the first and at most the second.
    Between(f64, f64),
}

impl Bar {
    /// Whether a value keeps it. What isn't a number keeps none.
    pub(crate) fn is_kept_by(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::Below(limit) => value < limit,
            Self::AtLeast(least) => value >= least,
            Self::Between(least, most) => (least..=most).contains(&value),
        }
    }

    /// How far a value is on the wrong side; negative on the right one.
    fn excess(self, value: f64) -> f64 {
        let excess = match self {
            Self::AtMost(limit) | Self::Below(limit) => value - limit,
            Self::AtLeast(least) => least - value,
            Self::Between(least, most) => (value - most).max(least - value),
        };
        if excess.is_nan() { f64::INFINITY } else { excess }
    }

    fn shown(self, unit: Unit) -> String {
        match self {
            Self::AtMost(most) => format!("≤ {}", unit.shown(most)),
            Self::Below(limit) => format!("< {}", unit.shown(limit)),
            Self::AtLeast(least) => format!("≥ {}", unit.shown(least)),
            Self::Between(least, most) if least.to_bits() == most.to_bits() => unit.shown(least),
            Self::Between(least, most) if (least + most).abs() < f64::EPSILON => {
                format!("within ±{}", unit.shown(most))
            }
            Self::Between(least, most) => {
                format!("{} to {}", unit.shown(least), unit.shown(most))
            }
        }
    }
}

/// What a value is a number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A ratio.
    Times,
    /// A share, from 0 to 1.
    Share,
    /// Milliseconds.
    Millis,
    /// Milliseconds of the machine that measures, not of the modelled one.
    Wall,
    /// Microseconds of the machine that measures.
    Micros,
    /// Bytes.
    Bytes,
    /// Things.
    Count,
}

impl Unit {
    fn shown(self, value: f64) -> String {
        if value.is_nan() {
            return "none".to_owned();
        }
        if value.is_infinite() {
            return "infinite".to_owned();
        }
        match self {
            Self::Times => format!("{value:.3} ×"),
            Self::Share => format!("{:.1} %", value * 100.0),
            Self::Millis | Self::Wall => format!("{:.3} s", value / 1e3),
            Self::Micros => format!("{value:.1} µs"),
            Self::Bytes => format!("{:.0} MB", value / 1e6),
            Self::Count if value.fract() == 0.0 => format!("{value:.0}"),
            Self::Count => format!("{value:.1}"),
        }
    }

    /// Another machine measures another value of it, so that it means little without its bar.
    const fn is_of_the_machine(self) -> bool {
        matches!(self, Self::Wall | Self::Micros | Self::Bytes)
    }
}

/// One figure against its bar.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    /// What the figure is of.
    pub(crate) what: String,
    /// Every value keeps the bar, and there is one.
    pub(crate) held: bool,
    /// The values in words: their mean, the worst with its place, and how many fall short.
    pub(crate) figure: String,
    /// The bar in words.
    pub(crate) bar: String,
    /// The worst value over the bar, where the value itself says more of the machine than of us.
    pub(crate) of_bar: Option<f64>,
}

impl Line {
    /// Holds values, each with where it was measured, against a bar.
    pub(crate) fn of(what: String, unit: Unit, values: &[(String, f64)], bar: Bar) -> Self {
        let worst = values.iter().max_by(|a, b| bar.excess(a.1).total_cmp(&bar.excess(b.1)));
        let limit = match bar {
            Bar::AtMost(limit) | Bar::Below(limit) => Some(limit),
            Bar::AtLeast(_) | Bar::Between(..) => None,
        };
        let of_bar = worst.zip(limit).map(|(worst, limit)| worst.1 / limit);
        Self {
            what,
            held: worst.is_some_and(|(_, worst)| bar.is_kept_by(*worst)),
            figure: worst.map_or("none".to_owned(), |worst| figure(unit, values, worst, bar)),
            bar: bar.shown(unit),
            of_bar: of_bar.filter(|_| unit.is_of_the_machine()),
        }
    }

    /// The verdict in one word.
    pub(crate) const fn verdict(&self) -> &'static str {
        if self.held { "held" } else { "short" }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, figure, bar, .. } = self;
        write!(f, "{:<5}  {what}: {figure}; bar {bar}", self.verdict())
    }
}

fn figure(unit: Unit, values: &[(String, f64)], worst: &(String, f64), bar: Bar) -> String {
    let shown = unit.shown(worst.1);
    match values {
        [_] => shown,
        _ if values.iter().all(|(_, value)| unit.shown(*value) == shown) => {
            format!("{shown} in all {}", values.len())
        }
        _ => {
            let mean = unit.shown(mean(values));
            let short = values.iter().filter(|(_, value)| !bar.is_kept_by(*value)).count();
            let told = match short {
                0 => String::new(),
                _ => format!(", short in {short} of {}", values.len()),
            };
            format!("mean {mean}, worst {shown} ({}){told}", worst.0)
        }
    }
}

/// The mean of values. Of none it isn't a number.
pub(crate) fn mean(values: &[(String, f64)]) -> f64 {
    values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64
}

/// One value over another. What is finite beats what is infinite, and nothing that is infinite is
/// better than anything.
pub(crate) fn ratio(value: f64, base: f64) -> f64 {
    match (value.is_infinite(), base.is_infinite()) {
        (true, _) => f64::INFINITY,
        (false, true) => 0.0,
        (false, false) => value / base,
    }
}

#[cfg(test)]
mod tests {
    use super::{Bar, Line, Unit, mean, ratio};

    fn line(unit: Unit, values: &[f64], bar: Bar) -> Line {
        let values: Vec<_> =
            values.iter().zip(1..).map(|(value, nth)| (format!("seed {nth}"), *value)).collect();
        Line::of("x".to_owned(), unit, &values, bar)
    }

    #[test]
    fn a_bar_is_kept_at_its_edge_or_not_as_it_says() {
        assert!(Bar::AtMost(0.1).is_kept_by(0.1) && !Bar::AtMost(0.1).is_kept_by(0.100_1));
        assert!(Bar::Below(1.0).is_kept_by(0.999) && !Bar::Below(1.0).is_kept_by(1.0));
        assert!(Bar::AtLeast(1.0).is_kept_by(1.0) && !Bar::AtLeast(1.0).is_kept_by(0.999));
        let band = Bar::Between(0.03, 0.20);
        assert!([0.03, 0.20].into_iter().all(|value| band.is_kept_by(value)));
        assert!([0.029, 0.201].into_iter().all(|value| !band.is_kept_by(value)));
    }

    #[test]
    fn what_is_no_number_or_missing_keeps_no_bar() {
        let bars = [Bar::AtMost(1.0), Bar::Below(1.0), Bar::AtLeast(0.0), Bar::Between(-1.0, 1.0)];
        for bar in bars {
            assert!(!line(Unit::Times, &[0.5, f64::NAN], bar).held);
            assert!(!line(Unit::Times, &[], bar).held);
        }
        assert!(!line(Unit::Millis, &[1.0, f64::INFINITY], Bar::AtMost(2.0)).held);
    }

    #[test]
    fn one_value_that_falls_short_is_enough_and_is_the_worst() {
        let above = line(Unit::Times, &[0.05, 0.12, 0.07], Bar::AtMost(0.10));
        assert_eq!(
            above.to_string(),
            "short  x: mean 0.080 ×, worst 0.120 × (seed 2), short in 1 of 3; bar ≤ 0.100 ×"
        );
        let below = line(Unit::Share, &[0.10, 0.02, 0.19], Bar::Between(0.03, 0.20));
        assert!(
            !below.held && below.figure.ends_with("2.0 % (seed 2), short in 1 of 3"),
            "{below}"
        );
    }

    #[test]
    fn figures_are_as_short_as_they_can_be() {
        assert_eq!(line(Unit::Share, &[1.0, 1.0], Bar::AtLeast(1.0)).figure, "100.0 % in all 2");
        assert_eq!(line(Unit::Millis, &[2_345.6], Bar::AtMost(2_600.0)).figure, "2.346 s");
        assert_eq!(line(Unit::Share, &[0.1], Bar::Between(-0.2, 0.2)).bar, "within ±20.0 %");
    }

    #[test]
    fn what_the_machine_decides_is_also_told_in_bars() {
        assert_eq!(line(Unit::Micros, &[25.0], Bar::AtMost(50.0)).of_bar, Some(0.5));
        assert_eq!(line(Unit::Times, &[0.5], Bar::AtMost(1.0)).of_bar, None);
    }

    #[test]
    fn a_ratio_of_what_is_infinite_is_never_flattering() {
        assert!((ratio(1.0, 4.0) - 0.25).abs() < 1e-12);
        assert!(ratio(1.0, f64::INFINITY) == 0.0);
        assert!(ratio(f64::INFINITY, f64::INFINITY).is_infinite());
        assert!(mean(&[]).is_nan());
    }
}
