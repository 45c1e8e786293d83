//! Draws how much of what was offered was completed, for each arm and number of workers.

use super::super::html::Table;
use super::super::svg::{Anchor, Canvas, Panel, Scale};
use super::{Figure, WIDTH, style};
use crate::drill::Drill;
use crate::drill::notation::{percent, reasons};
use crate::drill::row::Row;
use crate::drill::table::refusals;

const COLUMNS: usize = 3;
const ROW: f64 = 20.0;
const LEFT: f64 = 150.0;
/// Room at the right of each panel for what it says in figures.
const LABEL: f64 = 140.0;

/// Completion by number of workers and arm.
pub(super) fn figure(drill: &Drill) -> Figure {
    let rows = Row::all(drill);
    let columns = COLUMNS.min(drill.design.workers.len().max(1));
    let lines = drill.design.workers.len().div_ceil(columns);
    let block = ROW * drill.design.arms.len() as f64 + 58.0;
    let mut canvas = Canvas::new(WIDTH, lines as f64 * block);
    let width = (WIDTH - LEFT) / columns as f64;
    for (nth, workers) in drill.design.workers.iter().enumerate() {
        let (column, line) = (nth % columns, nth / columns);
        let corner = (LEFT + column as f64 * width, 22.0 + line as f64 * block);
        let title = format!("N = {workers}");
        canvas.text("name", (corner.0, corner.1 - 8.0), Anchor::Start, &title);
        let size = (width - LABEL, ROW * drill.design.arms.len() as f64);
        let shares = Scale::linear(0.0, 1.0);
        let panel = Panel::new(corner, size, shares, Scale::linear(0.0, 1.0));
        panel.x_axis(&mut canvas, &percent, true);
        for (nth, row) in rows.iter().filter(|row| row.workers == *workers).enumerate() {
            let y = panel.top() + ROW * nth as f64;
            if column == 0 {
                let class = if style(drill, row.arm).tested { "name" } else { "label" };
                canvas.text(class, (LEFT - 10.0, y + 14.0), Anchor::End, row.arm.name());
            }
            one(&mut canvas, &panel, y, drill, row);
        }
    }
    Figure {
        id: "completion",
        heading: "Completed, of all offered requests".to_owned(),
        caption: caption(drill),
        drawing: canvas,
        table: table(&rows),
    }
}

/// How the figure is read, and why each arm refused.
fn caption(drill: &Drill) -> String {
    let reading = "Filled: served to the last token. Dashed outline: refused, abandoned or failed. \
                   All seeds together.";
    let refusals = refusals(drill);
    if refusals.is_empty() {
        return reading.to_owned();
    }
    format!("{reading} Over all numbers of workers, {}.", refusals.join("; "))
}

fn one(canvas: &mut Canvas, panel: &Panel, y: f64, drill: &Drill, row: &Row) {
    let style = style(drill, row.arm);
    let (from, to) = (panel.left(), panel.x.place(row.completed_share));
    canvas.rect(&style.class("bar"), (from, y + 3.0), (to - from, ROW - 6.0));
    let rest = panel.x.place(1.0) - to;
    canvas.rect(&style.class("refused"), (to, y + 3.0), (rest, ROW - 6.0));
    let unserved = match (row.refused, row.lost) {
        (0, 0) => String::new(),
        (refused, 0) => format!(", {refused} refused"),
        (0, lost) => format!(", {lost} lost"),
        (refused, lost) => format!(", {} unserved", refused + lost),
    };
    let label = format!("{}{unserved}", percent(row.completed_share));
    canvas.text("value", (panel.right() + 8.0, y + 14.0), Anchor::Start, &label);
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Completed, refused and lost requests, by number of workers and arm, all seeds together.",
        &["N", "arm", "offered", "completed", "refused", "refused by", "abandoned or failed"],
    );
    for row in rows {
        table.row([
            row.workers.to_string(),
            row.arm.name().to_owned(),
            row.offered.to_string(),
            percent(row.completed_share),
            row.refused.to_string(),
            reasons(&row.refused_by),
            row.lost.to_string(),
        ]);
    }
    table
}
