//! Draws what live results show, one figure a file, each with the same figures as a table.

mod differences;
mod population;
pub(super) mod sweep;
mod timeline;
mod ttft;
mod who;

use super::Live;
use crate::report::figures::Figure;
use crate::report::svg::{Shape, Style};

/// How wide every figure is, in pixels.
const WIDTH: f64 = 960.0;

/// What distinguishes arms: a class of `figure.css` and a shape, in the order of the arms. The arm
/// under test is not among them, and always drawn alike.
const SERIES: [(&str, Shape); 9] = [
    ("rr", Shape::Square),
    ("kv12", Shape::Up),
    ("work", Shape::Diamond),
    ("kv12w", Shape::Down),
    ("load", Shape::OpenDiamond),
    ("kv16", Shape::OpenUp),
    ("two", Shape::OpenSquare),
    ("random", Shape::Cross),
    ("session", Shape::Bar),
];

/// Every figure that there is something to show in, in the order of the report.
pub(super) fn all(live: &Live<'_>) -> Vec<Figure> {
    let figures = [
        Some(population::figure(live)),
        ttft::figure(live),
        timeline::figure(live),
        who::figure(live),
        differences::figure(live),
    ];
    figures.into_iter().flatten().collect()
}

/// The style of the n-th arm.
fn style(live: &Live<'_>, nth: usize) -> Style {
    style_of(nth, live.comparison.arms.len())
}

/// The style of the n-th of so many arms: the last is under test.
fn style_of(nth: usize, arms: usize) -> Style {
    if nth + 1 == arms {
        return Style { series: "hold", shape: Shape::Circle, tested: true };
    }
    let (series, shape) = SERIES[nth % SERIES.len()];
    Style { series, shape, tested: false }
}

/// A name cut to what fits beside a figure.
fn cut(name: &str) -> String {
    const LETTERS_MAX: usize = 22;
    if name.chars().count() <= LETTERS_MAX {
        return name.to_owned();
    }
    name.chars().take(LETTERS_MAX - 1).chain(['…']).collect()
}
