//! Draws a live drill over its loads: how much was completed, and how late first tokens came.

use std::collections::BTreeMap;

use super::{Figure, WIDTH, cut};
use crate::compare::Comparison;
use crate::compare::comparison::{ArmFigures, Estimate};
use crate::drill::notation::{duration_ms, percent, trimmed};
use crate::live::design::Cell;
use crate::live::simulated;
use crate::report::html::Table;
use crate::report::svg::{Anchor, Canvas, Panel, Scale, Shape, Style};

const HEIGHT: f64 = 190.0;
const LEFT: f64 = 54.0;
const GAP: f64 = 62.0;
/// A row of panels with its heading and what stands below.
const BLOCK: f64 = HEIGHT + 60.0;

/// What one cell came to.
pub(in crate::report::live) struct Point<'a> {
    /// Which.
    pub(in crate::report::live) cell: Cell,
    /// What its arms came to.
    pub(in crate::report::live) comparison: &'a Comparison,
    /// What the simulation came to.
    pub(in crate::report::live) simulated: &'a BTreeMap<String, simulated::Figures>,
}

/// What is drawn, a panel each.
#[derive(Clone, Copy, PartialEq)]
enum Measure {
    Completed,
    Ttft50,
    Ttft90,
}

const MEASURES: [Measure; 3] = [Measure::Completed, Measure::Ttft50, Measure::Ttft90];

impl Measure {
    const fn title(self) -> &'static str {
        match self {
            Self::Completed => "Completed of the offered",
            Self::Ttft50 => "TTFT p50 over the offered",
            Self::Ttft90 => "TTFT p90 over the offered",
        }
    }

    fn measured(self, arm: &ArmFigures) -> Option<&Estimate> {
        let ttft = || arm.all.latencies.iter().find(|latency| latency.metric == "ttft_ms");
        match self {
            Self::Completed => Some(&arm.all.completed_share),
            Self::Ttft50 => Some(&ttft()?.offered.p50),
            Self::Ttft90 => Some(&ttft()?.offered.p90),
        }
    }

    fn simulated(self, figures: &simulated::Figures) -> f64 {
        match self {
            Self::Completed => figures.completed_share,
            Self::Ttft50 => figures.ttft_ms_p50.unwrap_or(f64::INFINITY),
            Self::Ttft90 => figures.ttft_ms_p90.unwrap_or(f64::INFINITY),
        }
    }
}

/// Along which of both the cells differ.
#[derive(Clone, Copy, PartialEq)]
enum Along {
    Load,
    Workers,
}

impl Along {
    fn of(self, cell: Cell) -> f64 {
        match self {
            Self::Load => cell.load,
            Self::Workers => f64::from(cell.workers),
        }
    }
}

/// The sweep; `None` of one cell, or of none. `load` says what loads are multiples of.
pub(in crate::report::live) fn figure(points: &[Point<'_>], load: &str) -> Option<Figure> {
    let first = points.first()?;
    let by_load = points.iter().any(|one| {
        points.iter().any(|two| {
            one.cell.workers == two.cell.workers
                && one.cell.load.to_bits() != two.cell.load.to_bits()
        })
    });
    let along = if by_load { Along::Load } else { Along::Workers };
    let mut rows: Vec<Vec<&Point<'_>>> = Vec::new();
    for point in points {
        let is_same = |row: &&mut Vec<&Point<'_>>| {
            !by_load || row.iter().any(|other| other.cell.workers == point.cell.workers)
        };
        match rows.iter_mut().find(is_same) {
            Some(row) => row.push(point),
            None => rows.push(vec![point]),
        }
    }
    rows.iter_mut().for_each(|row| {
        row.sort_by(|one, two| along.of(one.cell).total_cmp(&along.of(two.cell)));
    });
    let labels: Vec<&str> = first.comparison.arms.iter().map(|arm| arm.label.as_str()).collect();
    (points.len() > 1).then(|| Figure {
        id: "sweep",
        heading: match along {
            Along::Load => "Over the load".to_owned(),
            Along::Workers => "Over the number of workers".to_owned(),
        },
        caption: caption(points, along, load),
        drawing: draw(&rows, along, &labels),
        table: table(points),
    })
}

fn has_simulated(points: &[Point<'_>]) -> bool {
    points.iter().any(|point| !point.simulated.is_empty())
}

fn caption(points: &[Point<'_>], along: Along, load: &str) -> String {
    let along = match along {
        Along::Load => format!("The load, from left to right, is in multiples of {load}."),
        Along::Workers => "The number of workers is from left to right.".to_owned(),
    };
    let simulated =
        if has_simulated(points) { " Rings are the same requests, simulated." } else { "" };
    format!(
        "{along} Bars are intervals, at the confidence at which the verdicts were reached. A \
         quantile that the unserved reach is infinite, and stands at ∞. The scale of times is \
         logarithmic.{simulated}"
    )
}

fn draw(rows: &[Vec<&Point<'_>>], along: Along, labels: &[&str]) -> Canvas {
    let styles: Vec<Style> =
        (0..labels.len()).map(|nth| super::style_of(nth, labels.len())).collect();
    let names: Vec<String> = labels.iter().map(|label| cut(label)).collect();
    let key: Vec<(Style, &str)> =
        styles.iter().zip(&names).map(|(style, name)| (*style, name.as_str())).collect();
    let keys = Canvas::legend_height(WIDTH, &key);
    let mut canvas = Canvas::new(WIDTH, keys + BLOCK * rows.len() as f64);
    let mut top = canvas.legend(0.0, &key) + 28.0;
    let all = || rows.iter().flatten();
    let ends = all().map(|point| along.of(point.cell));
    let (low, high) =
        ends.fold((f64::MAX, f64::MIN), |(low, high), at| (low.min(at), high.max(at)));
    let room = ((high - low) * 0.08).max(0.05);
    let places = Scale::linear(low - room, high + room);
    let values = |measure: Measure| {
        let measured = all().flat_map(move |point| {
            let arms = point.comparison.arms.iter();
            let measured = arms.filter_map(move |arm| measure.measured(arm));
            let ends = measured.flat_map(|it| [it.value, it.low, it.high].into_iter().flatten());
            ends.chain(point.simulated.values().map(move |it| measure.simulated(it)))
        });
        measured.collect::<Vec<f64>>()
    };
    // Both quantiles have one scale, so that one can be read against the other.
    let times =
        Scale::logarithmic_around([Measure::Ttft50, Measure::Ttft90].into_iter().flat_map(values));
    let least = values(Measure::Completed).into_iter().fold(1.0, f64::min);
    let shares = Scale::linear(share_from(least), 1.0);
    let width = (WIDTH - LEFT - 2.0 * GAP) / 3.0 - 4.0;
    for row in rows {
        let workers = row.first().map_or(0, |point| point.cell.workers);
        for (nth, measure) in MEASURES.into_iter().enumerate() {
            let left = LEFT + nth as f64 * (width + GAP);
            let title = match (along, workers) {
                (Along::Load, workers) if workers > 0 && rows.len() > 1 => {
                    format!("N = {workers}: {}", measure.title())
                }
                _ => measure.title().to_owned(),
            };
            canvas.text("name", (left, top - 12.0), Anchor::Start, &title);
            let scale = if measure == Measure::Completed { shares } else { times };
            let panel = Panel::new((left, top), (width, HEIGHT), places, scale);
            let say: &dyn Fn(f64) -> String =
                if measure == Measure::Completed { &percent } else { &duration_ms };
            panel.y_axis(&mut canvas, say, true);
            grid(&mut canvas, &panel, row, along);
            for (place, (label, style)) in labels.iter().zip(&styles).enumerate() {
                // Intervals of arms would hide one another at one place.
                let shift = (place as f64 - (labels.len() as f64 - 1.0) / 2.0) * 5.0;
                series(&mut canvas, &panel, (row, along), (label, *style, shift), measure);
            }
        }
        top += BLOCK;
    }
    canvas
}

/// Where an axis of shares begins: at a round figure below the least.
fn share_from(least: f64) -> f64 {
    [0.9, 0.8, 0.5].into_iter().find(|from| least >= from + 0.01).unwrap_or(0.0)
}

/// A line upward at each cell, with its figure below.
fn grid(canvas: &mut Canvas, panel: &Panel, row: &[&Point<'_>], along: Along) {
    let mut last = f64::MIN;
    for point in row {
        let at = panel.x.place(along.of(point.cell));
        canvas.line("grid", (at, panel.top()), (at, panel.bottom()));
        if at - last > 34.0 {
            let said = trimmed(along.of(point.cell));
            canvas.text("tick", (at, panel.bottom() + 16.0), Anchor::Middle, &said);
            last = at;
        }
    }
}

fn series(
    canvas: &mut Canvas,
    panel: &Panel,
    (row, along): (&[&Point<'_>], Along),
    (label, style, shift): (&str, Style, f64),
    measure: Measure,
) {
    let place = |point: &Point<'_>, value: f64| {
        let (x, y) = panel.place(along.of(point.cell), value);
        (x + shift, y)
    };
    // Rings lie below what was measured.
    for point in row {
        let Some(figures) = point.simulated.get(label) else { continue };
        let ring = style.shaped(Shape::OpenCircle);
        canvas.mark(ring, place(point, measure.simulated(figures)));
    }
    let mut line = Vec::new();
    for point in row {
        let arm = point.comparison.arms.iter().find(|arm| arm.label == label);
        let Some(seen) = arm.and_then(|arm| measure.measured(arm)) else { continue };
        if let (Some(low), Some(high)) = (seen.low, seen.high) {
            canvas.line(&style.class("reach"), place(point, low), place(point, high));
        }
        let Some(value) = seen.value else { continue };
        line.push((place(point, value), value));
    }
    let places: Vec<(f64, f64)> = line.iter().map(|(place, _)| *place).collect();
    canvas.path(&style.class("line"), &places, false);
    for ((x, y), value) in line {
        if value.is_infinite() {
            canvas.arrow(style.series, (x, y - 5.0), (0.0, -1.0));
        } else {
            canvas.mark(style, (x, y));
        }
    }
}

fn table(points: &[Point<'_>]) -> Table {
    let heads = ["cell", "arm", "completed", "refused", "TTFT p50", "p90", "p99"];
    let mut table = Table::new("What each arm came to in each cell, over all offered.", &heads);
    for point in points {
        for arm in &point.comparison.arms {
            let ttft = arm.all.latencies.iter().find(|latency| latency.metric == "ttft_ms");
            let quantiles = ttft.map_or([const { String::new() }; 3], |ttft| {
                [&ttft.offered.p50, &ttft.offered.p90, &ttft.offered.p99].map(|it| it.said.clone())
            });
            let shares = [&arm.all.completed_share, &arm.all.refused_share];
            let head = [point.cell.title(), arm.label.clone()].into_iter();
            table.row(head.chain(shares.map(|it| it.said.clone())).chain(quantiles));
        }
    }
    table
}
