//! Draws where requests wait while the run goes on, and how full the fleet's KV cache is.

use super::super::html::Table;
use super::super::svg::{Anchor, Canvas, Panel, Scale, Style};
use super::{Figure, WIDTH, style};
use crate::drill::notation::percent;
use crate::drill::{Drill, Run};
use crate::simulate::TimelinePoint;

const HEIGHT: f64 = 72.0;
const BLOCK: f64 = 104.0;
const LEFT: f64 = 40.0;
const GAP: f64 = 60.0;

/// Queues and KV use over time, in the first seed's run at the smallest number of workers.
pub(super) fn figure(drill: &Drill) -> Option<Figure> {
    let runs: Vec<&Run> = drill
        .design
        .arms
        .iter()
        .filter_map(|arm| drill.at(drill.smallest(), *arm).next())
        .filter(|run| run.measured.timeline.len() > 1)
        .collect();
    let seed = runs.first()?.cell.seed;
    let points = || runs.iter().flat_map(|run| &run.measured.timeline);
    let end = points().map(|point| point.at.0 as f64 / 1e9).fold(1.0, f64::max);
    let time = Scale::linear(0.0, end);
    let counts = Scale::linear_to(points().map(|point| f64::from(point.queued.max(point.waiting))));
    let mut canvas = Canvas::new(WIDTH, 40.0 + BLOCK * runs.len() as f64 + 12.0);
    let width = (WIDTH - LEFT - GAP) / 2.0;
    canvas.text("name", (LEFT, 12.0), Anchor::Start, "Requests that wait");
    canvas.text(
        "note",
        (LEFT, 27.0),
        Anchor::Start,
        "strong: held in the gateway; pale: inside the engines",
    );
    canvas.text("name", (LEFT + width + GAP, 12.0), Anchor::Start, "KV blocks in use");
    canvas.text(
        "note",
        (LEFT + width + GAP, 27.0),
        Anchor::Start,
        "share of all blocks of the fleet",
    );
    for (nth, run) in runs.iter().enumerate() {
        let top = 58.0 + nth as f64 * BLOCK;
        let style = style(drill, run.cell.arm);
        let axis = nth + 1 == runs.len();
        canvas.text("name", (LEFT, top - 6.0), Anchor::Start, run.cell.arm.name());
        let left = Panel::new((LEFT, top), (width, HEIGHT), time, counts);
        queues(&mut canvas, &left, style, &run.measured.timeline);
        let corner = (LEFT + width + GAP, top);
        let right = Panel::new(corner, (width, HEIGHT), time, Scale::linear(0.0, 1.0));
        right.y_axis(&mut canvas, &percent, true);
        let used = series(&run.measured.timeline, |point| point.kv_used);
        right.steps(&mut canvas, &style.class("area used"), &used);
        for panel in [left, right] {
            panel.ground(&mut canvas);
            panel.x_axis(&mut canvas, &|secs| format!("{secs:.0} s"), axis);
        }
    }
    Some(Figure {
        id: "over-time",
        heading: format!("Queues and KV cache over time, N = {}, seed {seed}", drill.smallest()),
        caption: "What waits inside an engine is bound to it, and can neither overtake nor go \
                  elsewhere; what waits in the gateway goes wherever room appears first."
            .to_owned(),
        drawing: canvas,
        table: table(&runs),
    })
}

fn queues(canvas: &mut Canvas, panel: &Panel, style: Style, timeline: &[TimelinePoint]) {
    panel.y_axis(canvas, &|count| format!("{count:.0}"), true);
    let waiting = series(timeline, |point| f64::from(point.waiting));
    panel.steps(canvas, &style.class("area second"), &waiting);
    let queued = series(timeline, |point| f64::from(point.queued));
    panel.steps(canvas, &style.class("area"), &queued);
}

fn series(timeline: &[TimelinePoint], of: fn(&TimelinePoint) -> f64) -> Vec<(f64, f64)> {
    timeline.iter().map(|point| (point.at.0 as f64 / 1e9, of(point))).collect()
}

fn table(runs: &[&Run]) -> Table {
    let mut table = Table::new(
        "Most and mean requests held and waiting, and KV use, over the points of the figure.",
        &[
            "arm",
            "held, most",
            "held, mean",
            "in engines, most",
            "in engines, mean",
            "KV, most",
            "KV, mean",
        ],
    );
    for run in runs {
        let figures = |of: fn(&TimelinePoint) -> f64| {
            let values = || run.measured.timeline.iter().map(of);
            let mean = values().sum::<f64>() / run.measured.timeline.len() as f64;
            (values().fold(0.0, f64::max), mean)
        };
        let (held, waiting, kv) = (
            figures(|point| f64::from(point.queued)),
            figures(|point| f64::from(point.waiting)),
            figures(|point| point.kv_used),
        );
        table.row([
            run.cell.arm.name().to_owned(),
            format!("{:.0}", held.0),
            format!("{:.1}", held.1),
            format!("{:.0}", waiting.0),
            format!("{:.1}", waiting.1),
            percent((kv.0 * 1000.0).round() / 1000.0),
            percent((kv.1 * 1000.0).round() / 1000.0),
        ]);
    }
    table
}
