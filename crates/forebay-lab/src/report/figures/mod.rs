//! Draws what a drill shows, one figure a file, each with the same figures as a table beside it.

use forebay_core::Mode;

use super::html::Table;
use super::svg::{Canvas, Style};
use crate::drill::Drill;
use crate::drill::notation::aligned_ms;

mod classes;
mod completion;
mod deciles;
mod published;
mod quantiles;
mod sensitivity;
mod timeline;

/// How wide every figure is, in pixels.
pub(in crate::report) const WIDTH: f64 = 960.0;

/// A figure of the report.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its name in addresses and of its file.
    pub id: &'static str,
    /// Its heading.
    pub heading: String,
    /// What to see in it, in plain sentences.
    pub caption: String,
    /// The drawing.
    pub drawing: Canvas,
    /// The same as figures.
    pub table: Table,
}

/// Every figure that a drill has something to show in, in the order of the report.
pub fn all(drill: &Drill) -> Vec<Figure> {
    let figures = [
        Some(quantiles::figure(drill)),
        Some(completion::figure(drill)),
        Some(deciles::figure(drill)),
        timeline::figure(drill),
        Some(classes::figure(drill)),
        sensitivity::figure(drill),
        published::figure(drill),
    ];
    figures.into_iter().flatten().collect()
}

/// The style of an arm of a drill.
fn style(drill: &Drill, arm: Mode) -> Style {
    Style::of(arm, drill.under_test().is_some_and(|(tested, _)| tested == arm))
}

/// A key entry for each arm.
fn arms_key(drill: &Drill) -> Vec<(Style, &'static str)> {
    drill.design.arms.iter().map(|arm| (style(drill, *arm), arm.name())).collect()
}

/// Milliseconds, or a dash where there are none.
fn shown_ms(ms: Option<f64>) -> String {
    ms.map_or("–".to_owned(), aligned_ms)
}
