//! Draws how late the first token comes, for each arm and number of workers.

use super::super::html::Table;
use super::super::svg::{Anchor, Canvas, Panel, Scale, Shape, Style};
use super::{Figure, WIDTH, shown_ms, style};
use crate::drill::Drill;
use crate::drill::measure::{Latency, Statistic};
use crate::drill::notation::{aligned_ms, counted, duration_ms};
use crate::drill::row::Row;

const ROW: f64 = 22.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 190.0;

/// What is marked of a distribution, and how.
const SHOWN: [(Statistic, Shape); 5] = [
    (Statistic::P50, Shape::Circle),
    (Statistic::Mean, Shape::OpenDiamond),
    (Statistic::P90, Shape::Up),
    (Statistic::P99, Shape::Square),
    (Statistic::Max, Shape::Bar),
];

/// TTFT quantiles by number of workers and arm.
pub(super) fn figure(drill: &Drill) -> Figure {
    let rows = Row::all(drill);
    let panels = drill.design.workers.len() as f64;
    let block = ROW * drill.design.arms.len() as f64 + 34.0;
    let mut canvas = Canvas::new(WIDTH, 30.0 + panels * block + 22.0);
    let key = SHOWN.map(|(statistic, shape)| (Style::plain(shape), statistic.name()));
    let mut top = canvas.key(0.0, &key) + 4.0;
    let figures = rows.iter().filter_map(|row| row.ttft);
    let scale = Scale::logarithmic_around(
        figures.flat_map(|ttft| SHOWN.map(|(statistic, _)| ttft.get(statistic))),
    );
    for (nth, workers) in drill.design.workers.iter().enumerate() {
        let title = format!("N = {workers}");
        canvas.text("name", (0.0, top + 14.0), Anchor::Start, &title);
        canvas.text("note", (WIDTH - 128.0, top + 14.0), Anchor::End, "p50");
        canvas.text("note", (WIDTH - 64.0, top + 14.0), Anchor::End, "mean");
        canvas.text("note", (WIDTH, top + 14.0), Anchor::End, "p99");
        let size = (WIDTH - LEFT - RIGHT, ROW * drill.design.arms.len() as f64);
        let panel = Panel::new((LEFT, top + 22.0), size, scale, Scale::linear(0.0, 1.0));
        panel.x_axis(&mut canvas, &duration_ms, nth + 1 == drill.design.workers.len());
        let mut y = panel.top() + ROW / 2.0;
        for row in rows.iter().filter(|row| row.workers == *workers) {
            one(&mut canvas, &panel, y, style(drill, row.arm), row);
            y += ROW;
        }
        top += block;
    }
    let seeds = counted(drill.design.seeds.len(), "seed");
    Figure {
        id: "ttft-quantiles",
        heading: "Time to first token, over all offered requests".to_owned(),
        caption: format!(
            "Means over {seeds} of each run's quantiles; max is the largest of all. The scale is \
             logarithmic. A request that was never served counts as infinitely late, so an arm \
             that refuses has its upper quantiles and its mean in the lane marked ∞."
        ),
        drawing: canvas,
        table: table(&rows),
    }
}

fn one(canvas: &mut Canvas, panel: &Panel, y: f64, style: Style, row: &Row) {
    let class = if style.tested { "name" } else { "label" };
    canvas.text(class, (LEFT - 10.0, y + 4.0), Anchor::End, row.arm.name());
    let Some(ttft) = row.ttft else { return };
    let place = |statistic| panel.x.place(ttft.get(statistic));
    canvas.line(&style.class("reach"), (place(Statistic::P50), y), (place(Statistic::Max), y));
    for (statistic, shape) in SHOWN.into_iter().rev() {
        if ttft.get(statistic).is_finite() {
            canvas.mark(style.shaped(shape), (place(statistic), y));
        }
    }
    if ttft.max.is_infinite() {
        canvas.arrow(style.series, (panel.right() - 1.0, y), (1.0, 0.0));
    }
    let values = [(128.0, Statistic::P50), (64.0, Statistic::Mean), (0.0, Statistic::P99)];
    for (from_right, statistic) in values {
        let value = aligned_ms(ttft.get(statistic));
        canvas.text("value", (WIDTH - from_right, y + 4.0), Anchor::End, &value);
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Time to first token over all offered requests, by number of workers and arm.",
        &["N", "arm", "mean", "p50", "p75", "p90", "p99", "max"],
    );
    for row in rows {
        let figure =
            |statistic| shown_ms(row.ttft.as_ref().map(|ttft: &Latency| ttft.get(statistic)));
        let head = [row.workers.to_string(), row.arm.name().to_owned()];
        table.row(head.into_iter().chain(Statistic::ALL.map(figure)));
    }
    table
}
