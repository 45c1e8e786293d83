//! Draws how arms differ from the first, each figure with its interval.

use super::{Figure, Live, WIDTH, style};
use crate::compare::comparison::{Contrast, Difference};
use crate::drill::notation::{percent, three_digits, trimmed};
use crate::report::html::Table;
use crate::report::svg::{Anchor, Canvas, Panel, Scale, Style};

const LEFT: f64 = 230.0;
const RIGHT: f64 = 270.0;
const ROW: f64 = 22.0;

/// The units in the order of the panels, and what stands above each.
const UNITS: [(&str, &str); 4] = [
    ("share", "Shares of the offered, percentage points"),
    ("ms", "Latencies, milliseconds"),
    ("per_s", "Requests a second"),
    ("s", "Seconds"),
];

/// The forest; `None` of one arm alone.
pub(super) fn figure(live: &Live<'_>) -> Option<Figure> {
    let differences = &live.comparison.differences;
    if differences.is_empty() {
        return None;
    }
    let blocks: Vec<Block<'_>> = differences.iter().flat_map(|one| blocks(live, one)).collect();
    let height: f64 = blocks.iter().map(Block::height).sum();
    let mut canvas = Canvas::new(WIDTH, height + 8.0);
    let mut top = 4.0;
    for block in &blocks {
        block.draw(&mut canvas, top);
        top += block.height();
    }
    // What stands among the verdicts already is not said again.
    let said = |one: &&Difference| !live.comparison.summary.contains(&one.sentence);
    let sentences: Vec<&str> =
        differences.iter().filter(said).map(|one| one.sentence.as_str()).collect();
    let confidence = percent(live.comparison.confidence);
    Some(Figure {
        id: "differences",
        heading: "How the arms differ".to_owned(),
        caption: format!(
            "An arm's figure less the baseline's, with an interval of {confidence}. What touches \
             the line at zero may be no difference. An arrow is an interval without an end on that \
             side: a quantile that the unserved reach is infinite. \"Better\" is how probable it \
             is that the arm is the better one. {}",
            sentences.join(" ")
        ),
        drawing: canvas,
        table: table(differences),
    })
}

/// Contrasts of one difference in one unit.
struct Block<'a> {
    title: String,
    style: Style,
    contrasts: Vec<&'a Contrast>,
    /// How many of its unit are one of what is drawn: percentage points for shares.
    times: f64,
}

fn blocks<'a>(live: &Live<'_>, difference: &'a Difference) -> Vec<Block<'a>> {
    let nth = live.comparison.arms.iter().position(|arm| arm.label == difference.arm);
    let style = style(live, nth.unwrap_or(0));
    let all = || std::iter::once(&difference.primary).chain(&difference.secondary);
    let block = |(unit, title): (&str, &str)| {
        let contrasts: Vec<&Contrast> = all().filter(|one| one.unit == unit).collect();
        let title = format!("{} less {}: {title}", difference.arm, difference.baseline);
        let times = if unit == "share" { 100.0 } else { 1.0 };
        (!contrasts.is_empty()).then_some(Block { title, style, contrasts, times })
    };
    UNITS.into_iter().filter_map(block).collect()
}

impl Block<'_> {
    fn height(&self) -> f64 {
        ROW * self.contrasts.len() as f64 + 58.0
    }

    fn draw(&self, canvas: &mut Canvas, top: f64) {
        canvas.text("name", (0.0, top + 14.0), Anchor::Start, &self.title);
        let ends = self.contrasts.iter().flat_map(|one| {
            let of = &one.difference;
            [of.low, of.value, of.high].into_iter().flatten()
        });
        let widest = ends.map(|end| end.abs() * self.times).filter(|end| end.is_finite());
        let widest = widest.fold(0.0, f64::max);
        let widest = if widest > 0.0 { widest * 1.05 } else { 1.0 };
        let size = (WIDTH - LEFT - RIGHT, ROW * self.contrasts.len() as f64);
        let scale = Scale::linear(-widest, widest);
        let panel = Panel::new((LEFT, top + 24.0), size, scale, Scale::linear(0.0, 1.0));
        let signed = |value: f64| {
            let text = trimmed(value);
            if value > 0.0 && text != "0" { format!("+{text}") } else { text }
        };
        panel.x_axis(canvas, &signed, true);
        let zero = panel.x.place(0.0);
        canvas.line("ground", (zero, panel.top()), (zero, panel.bottom()));
        for (nth, contrast) in self.contrasts.iter().enumerate() {
            self.one(canvas, &panel, panel.top() + ROW * (nth as f64 + 0.5), contrast);
        }
    }

    fn one(&self, canvas: &mut Canvas, panel: &Panel, y: f64, contrast: &Contrast) {
        let class = if contrast.differs { "name" } else { "label" };
        canvas.text(class, (LEFT - 10.0, y + 4.0), Anchor::End, &contrast.title);
        let difference = &contrast.difference;
        canvas.text("value", (panel.right() + 12.0, y + 4.0), Anchor::Start, &said(contrast));
        let place = |end: f64| panel.x.place(end * self.times);
        if let (Some(low), Some(high)) = (difference.low, difference.high) {
            // Both ends may be infinite on the same side.
            let at = |end: f64| match end {
                f64::INFINITY => panel.right(),
                f64::NEG_INFINITY => panel.left(),
                end => place(end),
            };
            canvas.line(&self.style.class("stroke"), (at(low), y), (at(high), y));
            if low == f64::NEG_INFINITY {
                canvas.arrow(self.style.series, (panel.left(), y), (-1.0, 0.0));
            }
            if high == f64::INFINITY {
                canvas.arrow(self.style.series, (panel.right(), y), (1.0, 0.0));
            }
        }
        if let Some(value) = difference.value.filter(|value| value.is_finite()) {
            canvas.mark(self.style, (place(value), y));
        }
    }
}

/// The difference in figures, and how sure it is that the arm is better.
fn said(contrast: &Contrast) -> String {
    let better = contrast.p_better.map_or(String::new(), |p| format!("; better: {}", percent(p)));
    format!("{}{better}", contrast.difference.said)
}

fn table(differences: &[Difference]) -> Table {
    let mut table = Table::new(
        "Each figure of an arm and of its baseline. p is two-sided, after Holm for all but the \
         first of each pair.",
        &["arm", "figure", "baseline", "arm's", "difference", "better", "p", "differs"],
    );
    let p = |p: Option<f64>| p.map_or("–".to_owned(), three_digits);
    for difference in differences {
        for one in std::iter::once(&difference.primary).chain(&difference.secondary) {
            let differs = match (one.differs, one.is_better) {
                (true, Some(true)) => "yes, better",
                (true, Some(false)) => "yes, worse",
                (true, None) => "yes",
                (false, _) => "no",
            };
            table.row([
                difference.arm.clone(),
                one.title.clone(),
                one.baseline.said.clone(),
                one.arm.said.clone(),
                one.difference.said.clone(),
                one.p_better.map_or("–".to_owned(), percent),
                p(one.p_holm.or(one.p_value)),
                differs.to_owned(),
            ]);
        }
    }
    table
}
