//! Draws how late first tokens came: over all that were offered, and beside it over the survivors.

use super::{Figure, Live, WIDTH, cut, style};
use crate::compare::comparison::LatencyFigures;
use crate::drill::notation::{duration_ms, percent};
use crate::report::html::Table;
use crate::report::svg::{Anchor, Canvas, Panel, Scale, Style};

/// Points of a curve: more are not seen at this width.
const POINTS_MAX: usize = 240;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 46.0;
const GAP: f64 = 60.0;

/// The first tokens of one arm.
struct Curve {
    style: Style,
    label: String,
    /// Of the completed, in milliseconds, ascending.
    ttft: Vec<f64>,
    offered: usize,
}

impl Curve {
    /// Points of the empirical distribution: at most this late, and which share of so many.
    fn points(&self, of: usize) -> Vec<(f64, f64)> {
        let count = self.ttft.len();
        let points = count.min(POINTS_MAX);
        let at = |nth: usize| {
            let rank = (nth * count).div_ceil(points.max(1)).max(1);
            (self.ttft[rank - 1], rank as f64 / of as f64)
        };
        (1..=points).map(at).collect()
    }

    fn unserved_share(&self) -> f64 {
        1.0 - self.ttft.len() as f64 / self.offered.max(1) as f64
    }
}

/// The empirical distributions; `None` where no request is known.
pub(super) fn figure(live: &Live<'_>) -> Option<Figure> {
    let curves: Vec<Curve> = (0..live.comparison.arms.len())
        .map(|nth| {
            let offered = live.rows(nth).count();
            let seen = live.rows(nth).filter_map(crate::results::Row::ttft);
            let mut ttft: Vec<f64> = seen.map(forebay_core::Span::as_millis_f64).collect();
            ttft.sort_by(f64::total_cmp);
            let label = live.comparison.arms[nth].label.clone();
            Curve { style: style(live, nth), label, ttft, offered }
        })
        .filter(|curve| curve.offered > 0)
        .collect();
    if curves.is_empty() {
        return None;
    }
    Some(Figure {
        id: "ttft",
        heading: "Time to first token".to_owned(),
        caption: caption(&curves),
        drawing: draw(&curves),
        table: table(live),
    })
}

fn draw(curves: &[Curve]) -> Canvas {
    let unserved = curves.iter().filter(|curve| curve.unserved_share() > 0.0).count();
    let names: Vec<String> = curves.iter().map(|curve| cut(&curve.label)).collect();
    let key: Vec<(Style, &str)> =
        curves.iter().zip(&names).map(|(curve, name)| (curve.style, name.as_str())).collect();
    let keys = Canvas::legend_height(WIDTH, &key);
    let mut canvas = Canvas::new(WIDTH, keys + HEIGHT + 50.0 + 16.0 * unserved as f64);
    let top = canvas.legend(0.0, &key) + 26.0;
    let scale =
        Scale::logarithmic_around(curves.iter().flat_map(|curve| curve.ttft.iter().copied()));
    let width = (WIDTH - 2.0 * LEFT - GAP) / 2.0;
    let panels = [
        (LEFT, "Over all that were offered", true),
        (LEFT + width + GAP + LEFT, "Survivors only: over the completed", false),
    ];
    for (left, title, over_offered) in panels {
        canvas.text("name", (left, top - 10.0), Anchor::Start, title);
        let shares = Scale::linear(0.0, 1.0);
        let panel = Panel::new((left, top), (width - 20.0, HEIGHT), scale, shares);
        panel.y_axis(&mut canvas, &percent, true);
        panel.x_axis(&mut canvas, &duration_ms, true);
        for curve in curves.iter().filter(|curve| !curve.ttft.is_empty()) {
            let of = if over_offered { curve.offered } else { curve.ttft.len() };
            let points = curve.points(of);
            panel.line(&mut canvas, curve.style, &points);
            let (last, share) = points[points.len() - 1];
            if over_offered && curve.unserved_share() > 0.0 {
                // From where the unserved begin there is nothing to draw, to the right edge.
                let end = panel.place(last, share);
                canvas.line("limit", end, (panel.right(), end.1));
                canvas.mark(curve.style, end);
            }
        }
    }
    let mut y = top + HEIGHT + 36.0;
    for curve in curves.iter().filter(|curve| curve.unserved_share() > 0.0) {
        canvas.mark(curve.style, (LEFT + 4.0, y - 4.0));
        let said = format!(
            "{}: undefined beyond {}, since {} of the offered were not served",
            cut(&curve.label),
            percent(1.0 - curve.unserved_share()),
            percent(curve.unserved_share())
        );
        canvas.text("note", (LEFT + 16.0, y), Anchor::Start, &said);
        y += 16.0;
    }
    canvas
}

fn caption(curves: &[Curve]) -> String {
    let unserved: Vec<String> = curves
        .iter()
        .filter(|curve| curve.unserved_share() > 0.0)
        .map(|curve| format!("{} at {}", curve.label, percent(1.0 - curve.unserved_share())))
        .collect();
    let ends = if unserved.is_empty() {
        "All that were offered were served, so both panels show the same.".to_owned()
    } else {
        format!(
            "On the left a curve ends where the unserved begin ({}): no first token ever came \
             beyond. On the right are those that were served only; an arm that refuses more looks \
             faster there, so it is not for comparing.",
            unserved.join(", ")
        )
    };
    format!(
        "The share of requests whose first token came within a time, counted from when they were \
         due. The scale of times is logarithmic. {ends}"
    )
}

fn table(live: &Live<'_>) -> Table {
    let mut table = Table::new(
        "Time to first token, over all that were offered and over survivors only.",
        &["arm", "over", "p50", "p90", "p99"],
    );
    let ttft = |latencies: &[LatencyFigures]| -> Option<LatencyFigures> {
        latencies.iter().find(|latency| latency.metric == "ttft_ms").cloned()
    };
    for arm in &live.comparison.arms {
        let Some(figures) = ttft(&arm.all.latencies) else { continue };
        for (over, of) in
            [("all offered", &figures.offered), ("survivors only", &figures.survivors)]
        {
            let said = [&of.p50, &of.p90, &of.p99].map(|estimate| estimate.said.clone());
            table.row([arm.label.clone(), over.to_owned()].into_iter().chain(said));
        }
    }
    table
}
