//! Draws how the time to first token grows while the run goes on: where a queue builds up, it
//! climbs.

use forebay_core::Mode;

use super::super::html::Table;
use super::super::svg::{Anchor, Canvas, Panel, Scale};
use super::{Figure, WIDTH, shown_ms, style};
use crate::drill::Drill;
use crate::drill::measure::{DECILES, Latency};
use crate::drill::notation::duration_ms;
use crate::drill::row::over_seeds;

const COLUMNS: usize = 3;
const HEIGHT: f64 = 150.0;
const BLOCK: f64 = HEIGHT + 60.0;
const LEFT: f64 = 48.0;
const GAP: f64 = 18.0;

/// TTFT by tenth of the arrivals, at the smallest number of workers.
pub(super) fn figure(drill: &Drill) -> Figure {
    let of_arms: Vec<(Mode, Vec<Option<Latency>>)> =
        drill.design.arms.iter().map(|arm| (*arm, deciles(drill, *arm))).collect();
    let figures = of_arms.iter().flat_map(|(_, tenths)| tenths.iter().flatten());
    let scale = Scale::logarithmic_around(figures.flat_map(|ttft| [ttft.p50, ttft.p90]));
    let columns = COLUMNS.min(drill.design.arms.len().max(1));
    let lines = drill.design.arms.len().div_ceil(columns);
    let mut canvas = Canvas::new(WIDTH, lines as f64 * BLOCK + 16.0);
    let width = (WIDTH - LEFT - GAP * (columns - 1) as f64) / columns as f64;
    let base = of_arms.iter().find(|(arm, _)| *arm == Mode::RoundRobin);
    for (nth, (arm, tenths)) in of_arms.iter().enumerate() {
        let (column, line) = (nth % columns, nth / columns);
        let corner = (LEFT + column as f64 * (width + GAP), 24.0 + line as f64 * BLOCK);
        let x = Scale::linear(0.5, DECILES as f64 + 0.5);
        let panel = Panel::new(corner, (width, HEIGHT), x, scale);
        panel.y_axis(&mut canvas, &duration_ms, column == 0);
        panel.ground(&mut canvas);
        panel.x_axis(&mut canvas, &|tenth| format!("{tenth:.0}"), true);
        if line + 1 == lines || nth + columns >= of_arms.len() {
            let place = (f64::midpoint(panel.left(), panel.right()), panel.bottom() + 32.0);
            canvas.text("note", place, Anchor::Middle, "tenth of the arrivals");
        }
        let style = style(drill, *arm);
        canvas.text("name", (corner.0, corner.1 - 9.0), Anchor::Start, arm.name());
        if let Some((_, base)) = base.filter(|(base, _)| base != arm) {
            let ghost: Vec<(f64, f64)> =
                points(base).map(|(x, p50, _)| panel.place(x, p50)).collect();
            canvas.path("ghost", &ghost, false);
        }
        let band: Vec<(f64, f64, f64)> = points(tenths).collect();
        panel.band(&mut canvas, style, &band);
        let p90: Vec<(f64, f64)> = band.iter().map(|(x, _, p90)| (*x, *p90)).collect();
        for (x, _) in p90.iter().filter(|(_, p90)| p90.is_infinite()) {
            let (x, y) = panel.place(*x, f64::INFINITY);
            canvas.arrow(style.series, (x, y - 5.0), (0.0, -1.0));
        }
        let p50: Vec<(f64, f64)> = band.iter().map(|(x, p50, _)| (*x, *p50)).collect();
        panel.line(&mut canvas, style, &p50);
        panel.marks(&mut canvas, style, &p50);
    }
    Figure {
        id: "ttft-by-arrival",
        heading: format!("Time to first token by tenth of the arrivals, N = {}", drill.smallest()),
        caption: "Line: the median of each tenth of the requests, in order of arrival, mean over \
                  the seeds. Band: up to the 90th percentile; an arrow where refusals make it \
                  infinite. Dotted, for comparison: round-robin's median. Where the line climbs, \
                  a queue is building up."
            .to_owned(),
        drawing: canvas,
        table: table(&of_arms),
    }
}

fn points(tenths: &[Option<Latency>]) -> impl Iterator<Item = (f64, f64, f64)> {
    let numbered = tenths.iter().enumerate();
    numbered.filter_map(|(nth, ttft)| ttft.map(|ttft| ((nth + 1) as f64, ttft.p50, ttft.p90)))
}

fn deciles(drill: &Drill, arm: Mode) -> Vec<Option<Latency>> {
    let runs = || drill.at(drill.smallest(), arm);
    (0..DECILES).map(|nth| over_seeds(runs().map(|run| run.measured.deciles[nth]))).collect()
}

fn table(of_arms: &[(Mode, Vec<Option<Latency>>)]) -> Table {
    let mut head = vec!["arm".to_owned(), "quantile".to_owned()];
    head.extend((1..=DECILES).map(|tenth| tenth.to_string()));
    let caption =
        "Time to first token over all offered requests, by tenth of the arrivals.".to_owned();
    let mut table = Table { caption, head, rows: Vec::new() };
    for (arm, tenths) in of_arms {
        let mut add = |name: &str, of: fn(&Latency) -> f64| {
            let figures = tenths.iter().map(|ttft| shown_ms(ttft.as_ref().map(of)));
            table.row([arm.name().to_owned(), name.to_owned()].into_iter().chain(figures));
        };
        add("p50", |ttft| ttft.p50);
        add("p90", |ttft| ttft.p90);
    }
    table
}
