//! Draws what became of everything that was offered: seven buckets, one bar for each arm.

use super::{Figure, Live, WIDTH, cut};
use crate::compare::comparison::Buckets;
use crate::drill::notation::percent;
use crate::report::html::Table;
use crate::report::svg::{Anchor, Canvas, text_width};

const LEFT: f64 = 160.0;
const ROW: f64 = 58.0;
const BAR: f64 = 24.0;

/// The buckets of an arm in the order of the bar: class of the colour, name, requests.
fn parts(buckets: &Buckets) -> Vec<(&'static str, &'static str, u64)> {
    let mut parts = match (buckets.good, buckets.slow) {
        (Some(good), Some(slow)) => vec![("b-good", "good", good), ("b-slow", "slow", slow)],
        _ => vec![("b-good", "completed", buckets.completed)],
    };
    parts.extend([
        ("b-refused", "refused", buckets.refused),
        ("b-failed", "failed", buckets.failed),
        ("b-timed-out", "timed out", buckets.timed_out),
        ("b-cancelled", "cancelled", buckets.cancelled),
        ("b-not-sent", "not sent", buckets.not_sent),
    ]);
    parts
}

/// The offered population by arm.
pub(super) fn figure(live: &Live<'_>) -> Figure {
    let arms = &live.comparison.arms;
    let mut canvas = Canvas::new(WIDTH, ROW * arms.len().max(1) as f64 + 8.0);
    let width = WIDTH - LEFT;
    for (nth, arm) in arms.iter().enumerate() {
        let buckets = &arm.all.buckets;
        let y = ROW * nth as f64 + 4.0;
        let class = if nth + 1 == arms.len() { "name" } else { "label" };
        canvas.text(class, (LEFT - 10.0, y + 16.0), Anchor::End, &cut(&arm.label));
        if buckets.offered == 0 {
            canvas.text("note", (LEFT, y + 16.0), Anchor::Start, "nothing valid was offered");
            continue;
        }
        let (mut x, mut label_x) = (LEFT, LEFT);
        for (class, name, count) in parts(buckets).into_iter().filter(|(.., count)| *count > 0) {
            let share = count as f64 / buckets.offered as f64;
            canvas.rect(&format!("bucket {class}"), (x, y), (width * share, BAR));
            x += width * share;
            // The words stand below the bar, each as near to its piece as those before it allow.
            let said = format!("{name} {}", percent(share));
            let piece = x - width * share;
            let needed = text_width(&said) + 22.0;
            label_x = piece.max(label_x).min((WIDTH - needed).max(label_x));
            canvas.rect(&format!("bucket {class}"), (label_x, y + BAR + 8.0), (9.0, 9.0));
            canvas.text("value", (label_x + 14.0, y + BAR + 17.0), Anchor::Start, &said);
            label_x += needed;
        }
    }
    Figure {
        id: "population",
        heading: "What became of all that was offered".to_owned(),
        caption: caption(live),
        drawing: canvas,
        table: table(live),
    }
}

fn caption(live: &Live<'_>) -> String {
    let limits = live.held.criteria.good();
    let good = if limits.is_empty() {
        "No limit makes a completed request slow here, so all that were completed are good."
    } else {
        "Good: completed within the limits of the criteria. Slow: completed beyond them."
    };
    let bars: Vec<String> = live
        .comparison
        .arms
        .iter()
        .map(|arm| {
            let buckets = &arm.all.buckets;
            let parts = parts(buckets).into_iter().filter(|(.., count)| *count > 0);
            let parts: Vec<String> =
                parts.map(|(_, name, count)| format!("{count} {name}")).collect();
            format!("{} offered {}: {}", arm.label, buckets.offered, parts.join(", "))
        })
        .collect();
    format!("Every request is in one bucket. {good} {}.", bars.join("; "))
}

fn table(live: &Live<'_>) -> Table {
    let heads = [
        "arm",
        "offered",
        "good",
        "slow",
        "refused",
        "failed",
        "timed out",
        "cancelled",
        "not sent",
    ];
    let mut table =
        Table::new("Requests by how they ended; each row adds up to what was offered.", &heads);
    for arm in &live.comparison.arms {
        let buckets = &arm.all.buckets;
        let unknown =
            |count: Option<u64>| count.map_or("–".to_owned(), |count| count.to_string());
        let good = match (buckets.good, buckets.slow) {
            (None, None) => format!("{} completed", buckets.completed),
            (good, _) => unknown(good),
        };
        let rest = [buckets.refused, buckets.failed, buckets.timed_out, buckets.cancelled];
        let mut cells = vec![arm.label.clone(), buckets.offered.to_string(), good];
        cells.push(unknown(buckets.slow));
        cells.extend(rest.map(|count| count.to_string()));
        cells.push(buckets.not_sent.to_string());
        table.row(cells);
    }
    table
}
