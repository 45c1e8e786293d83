//! Draws what became of requests over the rate: how many were good, and how late first tokens came.

use crate::capacity::{Capacity, Trial, state};
use crate::compare::comparison::Estimate;
use crate::drill::notation::{duration_ms, percent, three_digits};
use crate::report::figures::{Figure, WIDTH};
use crate::report::html::Table;
use crate::report::svg::{Anchor, Canvas, Panel, Scale, Shape, Style};

const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
/// Room above the panels for what the lines across them say.
const WORDS: f64 = 52.0;
const GOOD_HEIGHT: f64 = 150.0;
const TTFT_HEIGHT: f64 = 220.0;
const GAP: f64 = 34.0;
/// The median, and nine in ten.
const P50: Style = Style { series: "work", shape: Shape::Circle, tested: false };
const P90: Style = Style { series: "kv12w", shape: Shape::Circle, tested: false };
const GOOD: Style = Style { series: "hold", shape: Shape::Circle, tested: true };

/// The curve; `now_per_s` is what is asked today, where that is known.
pub(super) fn figure(capacity: &Capacity, now_per_s: Option<f64>) -> Figure {
    Figure {
        id: "curve",
        heading: "What becomes of requests as the rate rises".to_owned(),
        caption: caption(capacity, now_per_s),
        drawing: draw(capacity, now_per_s),
        table: table(capacity),
    }
}

/// The shape of a rate: what is known of it.
fn shape(trial: &Trial) -> Shape {
    match (trial.decided, trial.looks) {
        ("holds", _) => Shape::Circle,
        ("fails", _) => Shape::Cross,
        (_, "ill") => Shape::OpenSquare,
        _ => Shape::OpenCircle,
    }
}

fn draw(capacity: &Capacity, now_per_s: Option<f64>) -> Canvas {
    let counted = || capacity.trials.iter().filter(|trial| trial.offered > 0);
    let mut canvas = Canvas::new(WIDTH, 54.0 + WORDS + GOOD_HEIGHT + GAP + TTFT_HEIGHT + 44.0);
    let below =
        canvas.legend(0.0, &[(GOOD, "good, of all offered"), (P50, "TTFT p50"), (P90, "TTFT p90")]);
    let shapes = [
        (Shape::Circle, "criteria hold"),
        (Shape::Cross, "criteria fail"),
        (Shape::OpenCircle, "looks well, not shown"),
        (Shape::OpenSquare, "looks ill, not shown"),
    ];
    let key = shapes.map(|(shape, said)| (Style::plain(shape), said));
    let top = canvas.key(below + 4.0, &key) + WORDS;
    let rates = capacity.trials.iter().map(|trial| trial.per_s).chain(now_per_s);
    let x = Scale::logarithmic_around(rates);
    let width = WIDTH - LEFT - RIGHT;
    let good = Panel::new((LEFT, top), (width, GOOD_HEIGHT), x, Scale::linear(0.0, 1.0));
    let late = counted().flat_map(|trial| {
        [&trial.ttft_ms_p50, &trial.ttft_ms_p90].map(|it| it.value.unwrap_or(f64::NAN))
    });
    let times = Scale::logarithmic_around(late);
    let ttft_top = top + GOOD_HEIGHT + GAP;
    let ttft = Panel::new((LEFT, ttft_top), (width, TTFT_HEIGHT), x, times);
    let panels = [good, ttft];
    between(&mut canvas, &panels, capacity);
    good.x_axis(&mut canvas, &three_digits, false);
    good.y_axis(&mut canvas, &percent, true);
    ttft.x_axis(&mut canvas, &three_digits, true);
    ttft.y_axis(&mut canvas, &duration_ms, true);
    canvas.text("name", (LEFT, good.top() - 8.0), Anchor::Start, "Good, of all offered");
    canvas.text("name", (LEFT, ttft.top() - 8.0), Anchor::Start, "TTFT over all offered");
    let end = (ttft.right(), ttft.bottom() + 34.0);
    canvas.text("note", end, Anchor::End, "requests offered a second");
    lines(&mut canvas, &panels, capacity, now_per_s);
    let trials: Vec<&Trial> = counted().collect();
    series(&mut canvas, &good, GOOD, &trials, |trial| &trial.good_share);
    series(&mut canvas, &ttft, P50, &trials, |trial| &trial.ttft_ms_p50);
    series(&mut canvas, &ttft, P90, &trials, |trial| &trial.ttft_ms_p90);
    canvas
}

/// A line through what was seen, with intervals and the shape of what is known of each rate.
fn series(
    canvas: &mut Canvas,
    panel: &Panel,
    style: Style,
    trials: &[&Trial],
    of: impl Fn(&Trial) -> &Estimate,
) {
    let known: Vec<(&Trial, f64)> =
        trials.iter().filter_map(|trial| Some((*trial, of(trial).value?))).collect();
    let points: Vec<(f64, f64)> =
        known.iter().map(|(trial, value)| (trial.per_s, *value)).collect();
    panel.line(canvas, style, &points);
    for (trial, value) in known {
        let estimate = of(trial);
        if let (Some(low), Some(high)) = (estimate.low, estimate.high)
            && low < high
        {
            let ends = (panel.place(trial.per_s, low), panel.place(trial.per_s, high));
            canvas.line(&style.class("reach"), ends.0, ends.1);
        }
        if value.is_finite() {
            canvas.mark(style.shaped(shape(trial)), panel.place(trial.per_s, value));
        }
    }
}

/// The stretch in which the capacity lies, shaded.
fn between(canvas: &mut Canvas, panels: &[Panel; 2], capacity: &Capacity) {
    let Some(low) = capacity.answer.rate else { return };
    for panel in panels {
        let from = panel.x.place(low);
        let high = capacity.answer.high;
        let to = if high.is_finite() { panel.x.place(high) } else { panel.right() };
        canvas.rect("tolerance", (from, panel.top()), (to - from, panel.bottom() - panel.top()));
    }
}

/// Lines across both panels at the verdict's rates, with their words above.
fn lines(canvas: &mut Canvas, panels: &[Panel; 2], capacity: &Capacity, now: Option<f64>) {
    let [upper, lower] = panels;
    let mut line = |class: &str, rate: f64, row: f64, anchor: Anchor, said: &str| {
        let at = upper.x.place(rate);
        let top = upper.top() - 26.0 - 14.0 * row;
        canvas.line(class, (at, top + 4.0), (at, lower.bottom()));
        let beside = match anchor {
            Anchor::Start => 4.0,
            Anchor::Middle => 0.0,
            Anchor::End => -4.0,
        };
        canvas.text("value", (at + beside, top + 8.0), anchor, said);
    };
    let answer = &capacity.answer;
    // The two ends stand side by side, the others in rows of their own above.
    if let Some(low) = answer.rate {
        line("limit", low, 0.0, Anchor::End, &format!("holds at {}", three_digits(low)));
    }
    if answer.high.is_finite() {
        let said = format!("fails at {}", three_digits(answer.high));
        line("limit", answer.high, 0.0, Anchor::Start, &said);
    }
    if let Some(knee) = &capacity.knee {
        line("ghost", knee.at, 1.0, Anchor::Start, &format!("knee {}", three_digits(knee.at)));
    }
    if let Some(now) = now {
        line("ghost", now, 1.0, Anchor::End, &format!("now {}", three_digits(now)));
    }
}

fn caption(capacity: &Capacity, now: Option<f64>) -> String {
    let knee = if capacity.knee.is_some() {
        " The dotted line at the knee is where what is completed stops growing."
    } else {
        ""
    };
    let now = if now.is_some() { " Another stands at what is asked today." } else { "" };
    format!(
        "Each mark is a rate that was offered, its shape what is known of it. Strokes are \
         intervals of the confidence that each look at a rate needs. The shaded stretch is where \
         the capacity lies: from the highest rate that was shown to hold to the lowest that was \
         shown to fail.{knee}{now} A quantile that the unserved reach is infinite, and stands at \
         ∞. Both scales of the lower panel are logarithmic."
    )
}

fn table(capacity: &Capacity) -> Table {
    let mut table = Table::new(
        "Each rate that was offered. Shares and latencies are over all offered that count.",
        &[
            "offered/s",
            "runs",
            "requests",
            "completed/s",
            "good",
            "refused",
            "TTFT p50",
            "TTFT p90",
            "criteria",
        ],
    );
    for trial in &capacity.trials {
        let said = |estimate: &Estimate| {
            Some(estimate.said.clone()).filter(|it| !it.is_empty()).unwrap_or("–".to_owned())
        };
        table.row([
            three_digits(trial.per_s),
            (trial.runs.len() + trial.invalid_runs.len()).to_string(),
            trial.offered.to_string(),
            trial.completed_per_s.map_or("–".to_owned(), three_digits),
            said(&trial.good_share),
            said(&trial.refused_share),
            said(&trial.ttft_ms_p50),
            said(&trial.ttft_ms_p90),
            state(trial).to_owned(),
        ]);
    }
    table
}
