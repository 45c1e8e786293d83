//! Draws how much of what was offered was completed, for each arm and number of workers.

use super::super::html::Table;
use super::super::svg::{Anchor, Canvas, Panel, Scale};
use super::{Figure, WIDTH, style};
use crate::drill::Drill;
use crate::drill::notation::percent;
use crate::drill::row::Row;

const ROW: f64 = 20.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 230.0;

/// Completion by number of workers and arm.
pub(super) fn figure(drill: &Drill) -> Figure {
    let rows = Row::all(drill);
    let block = ROW * drill.arms.len() as f64 + 32.0;
    let mut canvas = Canvas::new(WIDTH, drill.workers.len() as f64 * block + 22.0);
    let mut top = 0.0;
    for (nth, workers) in drill.workers.iter().enumerate() {
        canvas.text("name", (0.0, top + 14.0), Anchor::Start, &format!("N = {workers}"));
        let size = (WIDTH - LEFT - RIGHT, ROW * drill.arms.len() as f64);
        let shares = Scale::linear(0.0, 1.0);
        let panel = Panel::new((LEFT, top + 22.0), size, shares, Scale::linear(0.0, 1.0));
        panel.x_axis(&mut canvas, &percent, nth + 1 == drill.workers.len());
        let mut y = panel.top();
        for row in rows.iter().filter(|row| row.workers == *workers) {
            one(&mut canvas, &panel, y, drill, row);
            y += ROW;
        }
        top += block;
    }
    Figure {
        id: "completion",
        heading: "Completed, of all offered requests".to_owned(),
        caption: "Filled: served to the last token. Dashed outline: refused, abandoned or failed. All seeds \
                  together."
            .to_owned(),
        drawing: canvas,
        table: table(&rows),
    }
}

fn one(canvas: &mut Canvas, panel: &Panel, y: f64, drill: &Drill, row: &Row) {
    let style = style(drill, row.arm);
    let class = if style.tested { "name" } else { "label" };
    canvas.text(class, (LEFT - 10.0, y + 14.0), Anchor::End, row.arm.name());
    let (from, to, end) = (panel.left(), panel.x.place(row.completed_share), panel.x.place(1.0));
    canvas.rect(&style.class("bar"), (from, y + 3.0), (to - from, ROW - 6.0));
    canvas.rect(&style.class("refused"), (to, y + 3.0), (end - to, ROW - 6.0));
    let unserved = match (row.refused, row.lost) {
        (0, 0) => String::new(),
        (refused, 0) => format!(", {refused} of {} refused", row.offered),
        (refused, lost) => format!(", {refused} refused, {lost} lost"),
    };
    let label = format!("{}{unserved}", percent(row.completed_share));
    canvas.text("value", (panel.right() + 10.0, y + 14.0), Anchor::Start, &label);
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Completed, refused and lost requests, by number of workers and arm, all seeds together.",
        &["N", "arm", "offered", "completed", "refused", "abandoned or failed"],
    );
    for row in rows {
        table.row([
            row.workers.to_string(),
            row.arm.name().to_owned(),
            row.offered.to_string(),
            percent(row.completed_share),
            row.refused.to_string(),
            row.lost.to_string(),
        ]);
    }
    table
}
