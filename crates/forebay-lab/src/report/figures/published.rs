//! Draws predictions against what was published of real engines.

use super::super::html::Table;
use super::super::svg::{Anchor, Canvas, Panel, Scale, Shape};
use super::{Figure, WIDTH, style};
use crate::drill::Drill;
use crate::drill::notation::change;
use crate::drill::published::{CELLS, Cell, Figure as Published};
use crate::drill::row::mean;

const ROW: f64 = 19.0;
const LEFT: f64 = 150.0;
const GAP: f64 = 16.0;
/// The largest error that is drawn to scale; what is beyond gets an arrow and its figure.
const REACH: f64 = 0.5;
/// The error that the project holds its engine model to for TTFT at N = 4 and 8.
const TOLERANCE: f64 = 0.2;

/// What is drawn; the table has all.
const DRAWN: [Published; 4] =
    [Published::TtftP50, Published::TtftMean, Published::TtftP99, Published::ItlMean];

/// Predicted against published figures, where the drill has the published engine and workload.
pub(super) fn figure(drill: &Drill) -> Option<Figure> {
    if !drill.design.published {
        return None;
    }
    let cells: Vec<&Cell> = CELLS.iter().filter(|cell| covers(drill, cell)).collect();
    if cells.is_empty() {
        return None;
    }
    let height = ROW * cells.len() as f64;
    let mut canvas = Canvas::new(WIDTH, height + 52.0);
    let width = (WIDTH - LEFT - GAP * (DRAWN.len() - 1) as f64) / DRAWN.len() as f64;
    for (nth, cell) in cells.iter().enumerate() {
        let y = 26.0 + ROW * (nth as f64 + 0.5);
        let label = format!("N = {}, {}", cell.workers, cell.arm);
        canvas.text("label", (LEFT - 12.0, y + 4.0), Anchor::End, &label);
    }
    for (nth, published) in DRAWN.into_iter().enumerate() {
        let corner = (LEFT + nth as f64 * (width + GAP), 26.0);
        let x = Scale::linear(-REACH, REACH);
        let panel = Panel::new(corner, (width, height), x, Scale::linear(0.0, 1.0));
        canvas.text("name", (corner.0, 14.0), Anchor::Start, published.title());
        let (from, to) = (panel.x.place(-TOLERANCE), panel.x.place(TOLERANCE));
        canvas.rect("tolerance", (from, panel.top()), (to - from, height));
        let label = |error: f64| {
            // The ends are left out: those of two panels would run into each other.
            if error.abs() < REACH * 0.9 { change(1.0 + error) } else { String::new() }
        };
        panel.x_axis(&mut canvas, &label, true);
        let zero = panel.x.place(0.0);
        canvas.line("ground", (zero, panel.top()), (zero, panel.bottom()));
        for (nth, cell) in cells.iter().enumerate() {
            let y = panel.top() + ROW * (nth as f64 + 0.5);
            one(&mut canvas, &panel, y, drill, cell, published);
        }
    }
    Some(Figure {
        id: "published",
        heading: "Predicted against published".to_owned(),
        caption: "Relative error of the prediction; the shaded band is ±20 %, an arrow is an \
                  error beyond ±50 %. Published: an independent A/B test, June 2026, \
                  8×A100-40GB, Qwen3-8B, vLLM 0.20.1, Dynamo 1.2.0, three measured runs, \
                  latencies over completed requests. Predicted: means over the seeds, over \
                  completed requests as well, so that like is held against like. The workload is \
                  a synthetic one of the same lengths, prefix classes and bursts, not the same \
                  requests; the engine model was fitted to the round-robin cells, and the kv \
                  cells are predictions."
            .to_owned(),
        drawing: canvas,
        table: table(drill, &cells),
    })
}

fn covers(drill: &Drill, cell: &Cell) -> bool {
    drill.design.workers.contains(&cell.workers) && drill.design.arms.contains(&cell.arm)
}

fn predicted(drill: &Drill, cell: &Cell, published: Published) -> Option<f64> {
    mean(drill.at(cell.workers, cell.arm).map(|run| published.of(&run.measured)))
}

fn measured(cell: &Cell, published: Published) -> f64 {
    let place = Published::ALL.iter().position(|one| *one == published);
    cell.figures[place.expect("ALL has every figure")]
}

fn one(canvas: &mut Canvas, panel: &Panel, y: f64, drill: &Drill, cell: &Cell, figure: Published) {
    let Some(predicted) = predicted(drill, cell, figure) else { return };
    let error = predicted / measured(cell, figure) - 1.0;
    let style = style(drill, cell.arm);
    let (zero, x) = (panel.x.place(0.0), panel.x.place(error));
    canvas.line(&style.class("reach"), (zero, y), (x, y));
    if error.abs() <= REACH {
        canvas.mark(style.shaped(Shape::Circle), (x, y));
        return;
    }
    let side = error.signum();
    canvas.arrow(style.series, (x, y), (side, 0.0));
    let anchor = if side > 0.0 { Anchor::End } else { Anchor::Start };
    canvas.text("value", (zero - side * 5.0, y + 4.0), anchor, &change(1.0 + error));
}

fn table(drill: &Drill, cells: &[&Cell]) -> Table {
    let mut table = Table::new(
        "Published figure, predicted figure and relative error, cell by cell.",
        &["N", "router", "figure", "published", "predicted", "error"],
    );
    for cell in cells {
        for figure in Published::ALL {
            let published = measured(cell, figure);
            let predicted = predicted(drill, cell, figure);
            table.row([
                cell.workers.to_string(),
                cell.arm.name().to_owned(),
                figure.title().to_owned(),
                figure.shown(published),
                predicted.map_or("–".to_owned(), |value| figure.shown(value)),
                predicted.map_or("–".to_owned(), |value| change(value / published)),
            ]);
        }
    }
    table
}
