//! Draws who was refused: by class, tenant, length of the prompt, and turn of the conversation.

use super::{Figure, Live, WIDTH, cut};
use crate::compare::comparison::{ArmFigures, Part, Who};
use crate::drill::notation::{counted, percent, three_digits};
use crate::report::html::Table;
use crate::report::svg::{Anchor, Canvas, Panel, Scale};

const LEFT: f64 = 200.0;
const RIGHT: f64 = 190.0;
const ROW: f64 = 19.0;
/// Parts of one kind that are drawn, those most refused first; the table has all.
const DRAWN_MAX: usize = 8;

/// What a kind of parts is called.
fn title(kind: &str) -> &str {
    match kind {
        "prompt_tokens" => "prompt, tokens",
        other => other,
    }
}

fn of_arms<'a>(live: &Live<'a>) -> Vec<(&'a ArmFigures, &'a Who)> {
    let arms = live.comparison.arms.iter();
    arms.filter_map(|arm| Some((arm, arm.who.as_ref()?))).collect()
}

/// The parts that are drawn, in their order.
fn drawn(who: &Who) -> Vec<&Part> {
    let mut kinds: Vec<&str> = who.by.iter().map(|part| part.kind).collect();
    kinds.dedup();
    let most = |kind: &str| {
        let mut parts: Vec<(usize, &Part)> =
            who.by.iter().enumerate().filter(|(_, part)| part.kind == kind).collect();
        if parts.len() > DRAWN_MAX {
            parts.sort_by(|(a, one), (b, other)| {
                other.refused_share.total_cmp(&one.refused_share).then(a.cmp(b))
            });
            parts.truncate(DRAWN_MAX);
            parts.sort_by_key(|(nth, _)| *nth);
        }
        parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>()
    };
    kinds.into_iter().flat_map(most).collect()
}

/// Refused shares by part; `None` where no request is known or none was refused.
pub(super) fn figure(live: &Live<'_>) -> Option<Figure> {
    let arms = of_arms(live);
    if arms.iter().all(|(arm, who)| who.by.is_empty() || arm.all.buckets.refused == 0) {
        return None;
    }
    let rows: usize = arms.iter().map(|(_, who)| drawn(who).len() + 2).sum();
    let mut canvas = Canvas::new(WIDTH, ROW * rows as f64 + 34.0);
    let parts = arms.iter().flat_map(|(_, who)| who.by.iter());
    let shares = Scale::linear_to(parts.map(|part| part.refused_share));
    let mut top = 4.0;
    for (arm, who) in &arms {
        let drawn = drawn(who);
        canvas.text("name", (0.0, top + 14.0), Anchor::Start, &cut(&arm.label));
        let size = (WIDTH - LEFT - RIGHT, ROW * drawn.len() as f64);
        let panel = Panel::new((LEFT, top + 22.0), size, shares, Scale::linear(0.0, 1.0));
        panel.x_axis(&mut canvas, &percent, true);
        for (nth, part) in drawn.iter().enumerate() {
            let y = panel.top() + ROW * nth as f64;
            let name = format!("{} {}", title(part.kind), cut(&part.name));
            canvas.text("label", (LEFT - 10.0, y + 13.0), Anchor::End, &name);
            let length = panel.x.place(part.refused_share) - panel.left();
            canvas.rect("bucket b-refused", (panel.left(), y + 3.0), (length, ROW - 6.0));
            let said = format!("{} of {}", percent(part.refused_share), part.buckets.offered);
            canvas.text("value", (panel.right() + 8.0, y + 13.0), Anchor::Start, &said);
        }
        top += ROW * (drawn.len() + 2) as f64 + 6.0;
    }
    Some(Figure {
        id: "who-was-refused",
        heading: "Who was refused".to_owned(),
        caption: caption(&arms),
        drawing: canvas,
        table: table(&arms),
    })
}

fn caption(arms: &[(&ArmFigures, &Who)]) -> String {
    let jain: Vec<String> = arms
        .iter()
        .filter_map(|(arm, who)| Some(format!("{} {}", arm.label, three_digits(who.jain_tenants?))))
        .collect();
    let jain = if jain.is_empty() {
        String::new()
    } else {
        format!(
            " Jain's index over the tenants' completed shares (1 is alike): {}.",
            jain.join(", ")
        )
    };
    format!(
        "The share of its own offered requests that was refused, by class, tenant, quarter of \
         prompt length, and turn of the conversation. At most {} of a kind are drawn; the table \
         has all.{jain}",
        counted(DRAWN_MAX, "row")
    )
}

fn table(arms: &[(&ArmFigures, &Who)]) -> Table {
    let mut table = Table::new(
        "Refused and completed shares, of what each part offered.",
        &["arm", "by", "which", "offered", "refused", "completed"],
    );
    for (arm, who) in arms {
        for part in &who.by {
            table.row([
                arm.label.clone(),
                title(part.kind).to_owned(),
                part.name.clone(),
                part.buckets.offered.to_string(),
                percent(part.refused_share),
                percent(part.completed_share),
            ]);
        }
    }
    table
}
