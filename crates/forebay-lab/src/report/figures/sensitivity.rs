//! Draws whether the ranking of the arms survives a fleet that differs from the preset.

use forebay_core::Mode;

use super::super::html::Table;
use super::super::svg::{Anchor, Canvas, Panel, Scale};
use super::{Figure, WIDTH, arms_key, shown_ms, style};
use crate::drill::matrix::Variation;
use crate::drill::measure::Latency;
use crate::drill::notation::{counted, duration_ms};
use crate::drill::row::over_seeds;
use crate::drill::{Drill, SENSITIVITY_PCT};

const HEIGHT: f64 = 180.0;
const LEFT: f64 = 48.0;
const GAP: f64 = 22.0;

/// What is varied: a title, what it is exactly, and the variation by that much.
struct Knob {
    title: &'static str,
    exactly: &'static str,
    by: fn(i32) -> Variation,
}

const KNOBS: [Knob; 3] = [
    Knob {
        title: "true KV capacity",
        exactly: "each worker's KV tokens are scaled, and the core is told",
        by: |pct| Variation { kv_pct: pct, ..Variation::NONE },
    },
    Knob {
        title: "engine speed",
        exactly: "each constant of the engine's step time is divided by 1 + the change",
        by: |pct| Variation { speed_pct: pct, ..Variation::NONE },
    },
    Knob {
        title: "believed KV capacity",
        exactly: "the core believes KV tokens that are wrong by that much, and the fleet stays \
                  as it is",
        by: |pct| Variation { belief_pct: pct, ..Variation::NONE },
    },
];

/// A figure of a distribution.
type Pick = fn(&Latency) -> f64;

const QUANTILES: [(&str, Pick); 2] = [("p50", |ttft| ttft.p50), ("p99", |ttft| ttft.p99)];

/// TTFT p50 and p99 against the change of one property, or nothing where no fleet was varied.
pub(super) fn figure(drill: &Drill) -> Option<Figure> {
    if drill.varied.is_empty() {
        return None;
    }
    let mut canvas = Canvas::new(WIDTH, 2.0 * (HEIGHT + 44.0) + 40.0);
    let mut top = canvas.legend(0.0, &arms_key(drill)) + 28.0;
    let width = (WIDTH - LEFT - 2.0 * GAP) / 3.0;
    for (row, (name, quantile)) in QUANTILES.into_iter().enumerate() {
        let values = KNOBS.iter().flat_map(|knob| {
            let arms = drill.design.arms.iter();
            arms.flat_map(|arm| series(drill, knob, *arm, quantile)).map(|(_, ms)| ms)
        });
        let scale = Scale::logarithmic_around(values);
        for (column, knob) in KNOBS.iter().enumerate() {
            let corner = (LEFT + column as f64 * (width + GAP), top);
            let x = Scale::linear(-30.0, 30.0);
            let panel = Panel::new(corner, (width, HEIGHT), x, scale);
            panel.y_axis(&mut canvas, &duration_ms, column == 0);
            let title = format!("{}: TTFT {name}", knob.title);
            canvas.text("name", (corner.0, top - 8.0), Anchor::Start, &title);
            axis(&mut canvas, &panel, row + 1 == QUANTILES.len());
            for &arm in &drill.design.arms {
                let points = series(drill, knob, arm, quantile);
                panel.line(&mut canvas, style(drill, arm), &points);
                panel.marks(&mut canvas, style(drill, arm), &points);
            }
        }
        top += HEIGHT + 44.0;
    }
    let exactly: Vec<String> =
        KNOBS.iter().map(|knob| format!("In {}, {}", knob.title, knob.exactly)).collect();
    Some(Figure {
        id: "sensitivity",
        heading: format!("Does the ranking hold on another fleet? N = {}", drill.smallest()),
        caption: format!(
            "One property is changed by ±10 and ±25 %, everything else stays. {}. TTFT over all \
             offered, means over the seeds. {}",
            exactly.join(". "),
            ranking(drill)
        ),
        drawing: canvas,
        table: table(drill),
    })
}

fn axis(canvas: &mut Canvas, panel: &Panel, labelled: bool) {
    for pct in changes() {
        let x = panel.x.place(f64::from(pct));
        canvas.line("grid", (x, panel.top()), (x, panel.bottom()));
        if labelled {
            canvas.text("tick", (x, panel.bottom() + 16.0), Anchor::Middle, &signed(pct));
        }
    }
}

/// The changes, with none at all in its place among them.
fn changes() -> Vec<i32> {
    let mut changes = SENSITIVITY_PCT.to_vec();
    changes.push(0);
    changes.sort_unstable();
    changes
}

fn signed(pct: i32) -> String {
    match pct {
        0 => "as is".to_owned(),
        _ if pct < 0 => format!("−{} %", -pct),
        _ => format!("+{pct} %"),
    }
}

fn ttft(drill: &Drill, knob: &Knob, arm: Mode, pct: i32) -> Option<Latency> {
    over_seeds(drill.varied(arm, (knob.by)(pct)).map(|run| run.measured.all.ttft))
}

fn series(drill: &Drill, knob: &Knob, arm: Mode, of: Pick) -> Vec<(f64, f64)> {
    let point = |pct: i32| Some((f64::from(pct), of(&ttft(drill, knob, arm, pct)?)));
    changes().into_iter().filter_map(point).collect()
}

/// How often the arm under test is the best, in words.
fn ranking(drill: &Drill) -> String {
    let Some((tested, _)) = drill.under_test() else { return String::new() };
    let mut fleets = vec![(&KNOBS[0], 0)];
    fleets.extend(KNOBS.iter().flat_map(|knob| SENSITIVITY_PCT.map(|pct| (knob, pct))));
    let first = |of: Pick| {
        let best = |(knob, pct): &&(&Knob, i32)| {
            let value = |arm| ttft(drill, knob, arm, *pct).map_or(f64::INFINITY, |ttft| of(&ttft));
            let own = value(tested);
            own.is_finite()
                && drill.design.arms.iter().all(|arm| *arm == tested || own < value(*arm))
        };
        fleets.iter().filter(best).count()
    };
    let (p50, mean, p99) =
        (first(|ttft| ttft.p50), first(|ttft| ttft.mean), first(|ttft| ttft.p99));
    format!(
        "Of {}, {tested} has the lowest p50 on {p50}, the lowest mean on {mean} and the lowest \
         p99 on {p99}.",
        counted(fleets.len(), "fleet")
    )
}

fn table(drill: &Drill) -> Table {
    let mut head = vec!["varied".to_owned(), "arm".to_owned(), "TTFT".to_owned()];
    head.extend(changes().into_iter().map(signed));
    let caption =
        "Time to first token over all offered requests when one property of the fleet changes.";
    let mut table = Table { caption: caption.to_owned(), head, rows: Vec::new() };
    for knob in &KNOBS {
        for &arm in &drill.design.arms {
            for (name, of) in QUANTILES {
                let cells = changes()
                    .into_iter()
                    .map(|pct| shown_ms(ttft(drill, knob, arm, pct).as_ref().map(of)));
                let row = [knob.title.to_owned(), arm.name().to_owned(), name.to_owned()];
                table.row(row.into_iter().chain(cells));
            }
        }
    }
    table
}
