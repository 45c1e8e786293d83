//! Draws what came and went over time, for each arm, with the generator's own lateness.

use forebay_core::Span;

use super::{Figure, Live, WIDTH, cut};
use crate::drill::notation::{aligned_ms, duration_ms, three_digits};
use crate::report::html::Table;
use crate::report::svg::{Anchor, Canvas, Panel, Scale, Shape, Style};
use crate::results::{Outcome, Row, Run};

/// Pieces of time that a run is cut into, at most.
const BINS_MAX: u64 = 60;
const LEFT: f64 = 52.0;
const HEIGHT: f64 = 130.0;
const BLOCK: f64 = HEIGHT + 62.0;

const OFFERED: Style = Style { series: "plain", shape: Shape::Square, tested: false };
const COMPLETED: Style = Style { series: "work", shape: Shape::Circle, tested: true };
const REFUSED: Style = Style { series: "rr", shape: Shape::Up, tested: false };
const MEDIAN: Style = Style { series: "hold", shape: Shape::Circle, tested: true };
const NINETY: Style = Style { series: "kv12w", shape: Shape::Diamond, tested: false };
const LAG: Style = Style { series: "random", shape: Shape::Cross, tested: false };

/// A piece of time.
#[derive(Default)]
struct Bin {
    offered: u64,
    completed: u64,
    refused: u64,
    /// First tokens of those that were due in it, in milliseconds, infinite for the unserved.
    ttft: Vec<f64>,
    lag: Vec<f64>,
}

/// A run cut into pieces.
struct Course<'a> {
    label: &'a str,
    /// Seconds in a piece.
    each: u64,
    bins: Vec<Bin>,
}

impl<'a> Course<'a> {
    fn of(label: &'a str, run: &Run) -> Option<Self> {
        let rows = || run.rows.iter().filter(|row| !row.is_warmup);
        let end_of = |row: &Row| row.last().map_or(row.scheduled, |last| last.end);
        let end = rows().map(end_of).max()?;
        let seconds = end.0.div_ceil(Span::secs(1).0).max(1);
        let each = seconds.div_ceil(BINS_MAX);
        let place = |at: Span| (at.0 / Span::secs(each).0) as usize;
        let mut bins: Vec<Bin> = Vec::new();
        bins.resize_with(place(end) + 1, Bin::default);
        for row in rows() {
            let due = &mut bins[place(row.scheduled)];
            due.offered += 1;
            due.ttft.push(row.ttft().map_or(f64::INFINITY, Span::as_millis_f64));
            due.lag.extend(row.lag().map(Span::as_millis_f64));
            let ended = &mut bins[place(end_of(row))];
            ended.completed += u64::from(row.outcome == Outcome::Completed);
            ended.refused += u64::from(row.outcome == Outcome::Refused);
        }
        Some(Self { label, each, bins })
    }

    fn series(&self, of: impl Fn(&Bin) -> Option<f64>) -> Vec<(f64, f64)> {
        let middle = |nth: usize| (nth as f64 + 0.5) * self.each as f64;
        let bins = self.bins.iter().enumerate();
        bins.filter_map(|(nth, bin)| Some((middle(nth), of(bin)?))).collect()
    }

    fn rate(&self, of: impl Fn(&Bin) -> u64) -> Vec<(f64, f64)> {
        self.series(|bin| Some(of(bin) as f64 / self.each as f64))
    }
}

/// Rates and latencies over time; `None` where no request is known.
pub(super) fn figure(live: &Live<'_>) -> Option<Figure> {
    let arms = live.comparison.arms.iter().enumerate();
    let courses: Vec<Course<'_>> =
        arms.filter_map(|(nth, arm)| Course::of(&arm.label, live.runs(nth).next()?)).collect();
    if courses.is_empty() {
        return None;
    }
    let several = (0..live.comparison.arms.len()).any(|nth| live.runs(nth).count() > 1);
    let of = if several { "The first valid run of each arm. " } else { "" };
    Some(Figure {
        id: "over-time",
        heading: "Over time".to_owned(),
        caption: format!(
            "{of}Left: requests a second that were offered, completed and refused; the first by \
             when they were due, the others by when they ended. Right: time to first token of \
             those that were due then, over all of them (∞ where the unserved reach the quantile), \
             and how late the generator itself was."
        ),
        drawing: draw(&courses),
        table: table(&courses),
    })
}

fn draw(courses: &[Course<'_>]) -> Canvas {
    let key = [
        (OFFERED, "offered"),
        (COMPLETED, "completed"),
        (REFUSED, "refused"),
        (MEDIAN, "TTFT p50"),
        (NINETY, "TTFT p90"),
        (LAG, "generator lag p99"),
    ];
    let keys = Canvas::legend_height(WIDTH, &key);
    let mut canvas = Canvas::new(WIDTH, keys + BLOCK * courses.len() as f64);
    let mut top = canvas.legend(0.0, &key) + 20.0;
    let seconds = courses.iter().map(|course| course.each as f64 * course.bins.len() as f64);
    let times = Scale::linear(0.0, seconds.fold(1.0, f64::max));
    let rates = Scale::linear_to(courses.iter().flat_map(|course| {
        let rates = [course.rate(|bin| bin.offered), course.rate(|bin| bin.completed)];
        rates.into_iter().chain([course.rate(|bin| bin.refused)]).flatten().map(|(_, rate)| rate)
    }));
    let lates = Scale::logarithmic_around(courses.iter().flat_map(|course| {
        let lates =
            [course.series(|bin| at(&bin.ttft, 0.5)), course.series(|bin| at(&bin.ttft, 0.9))];
        let lag = course.series(|bin| at(&bin.lag, 0.99).filter(|lag| *lag >= 1.0));
        lates.into_iter().chain([lag]).flatten().map(|(_, ms)| ms)
    }));
    let width = (WIDTH - 2.0 * LEFT) / 2.0 - 24.0;
    let in_seconds = |value: f64| format!("{} s", crate::drill::notation::trimmed(value));
    for course in courses {
        canvas.text("name", (LEFT, top - 8.0), Anchor::Start, &cut(course.label));
        let panel = Panel::new((LEFT, top), (width, HEIGHT), times, rates);
        panel.y_axis(
            &mut canvas,
            &|rate| format!("{}/s", crate::drill::notation::trimmed(rate)),
            true,
        );
        panel.x_axis(&mut canvas, &in_seconds, true);
        panel.line(&mut canvas, OFFERED, &course.rate(|bin| bin.offered));
        panel.line(&mut canvas, COMPLETED, &course.rate(|bin| bin.completed));
        panel.line(&mut canvas, REFUSED, &course.rate(|bin| bin.refused));
        let left = LEFT + width + 24.0 + LEFT + 24.0;
        let panel = Panel::new((left, top), (WIDTH - left - 18.0, HEIGHT), times, lates);
        panel.y_axis(&mut canvas, &duration_ms, true);
        panel.x_axis(&mut canvas, &in_seconds, true);
        panel.line(&mut canvas, LAG, &course.series(|bin| at(&bin.lag, 0.99)));
        panel.line(&mut canvas, NINETY, &course.series(|bin| at(&bin.ttft, 0.9)));
        panel.line(&mut canvas, MEDIAN, &course.series(|bin| at(&bin.ttft, 0.5)));
        top += BLOCK;
    }
    canvas
}

/// A quantile: the value that this share of all are at most; `None` of nothing.
fn at(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

fn table(courses: &[Course<'_>]) -> Table {
    let heads =
        ["arm", "from", "offered/s", "completed/s", "refused/s", "TTFT p50", "TTFT p90", "lag p99"];
    let mut table = Table::new("The same by piece of time, ten to an arm at most.", &heads);
    for course in courses {
        let step = course.bins.len().div_ceil(10).max(1);
        for (nth, bins) in course.bins.chunks(step).enumerate() {
            let seconds = (course.each as usize * bins.len()) as f64;
            let rate = |of: &dyn Fn(&Bin) -> u64| -> String {
                three_digits(bins.iter().map(of).sum::<u64>() as f64 / seconds)
            };
            let of = |pick: &dyn Fn(&Bin) -> &Vec<f64>, share: f64| {
                let all: Vec<f64> = bins.iter().flat_map(pick).copied().collect();
                at(&all, share).map_or("–".to_owned(), aligned_ms)
            };
            table.row([
                course.label.to_owned(),
                format!("{} s", nth * step * course.each as usize),
                rate(&|bin| bin.offered),
                rate(&|bin| bin.completed),
                rate(&|bin| bin.refused),
                of(&|bin| &bin.ttft, 0.5),
                of(&|bin| &bin.ttft, 0.9),
                of(&|bin| &bin.lag, 0.99),
            ]);
        }
    }
    table
}
