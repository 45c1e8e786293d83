//! Draws how long the requests of each class wait at the door and for their first token.

use forebay_core::Mode;

use super::super::html::Table;
use super::super::svg::{Anchor, Canvas, Panel, Scale, Shape, Style};
use super::{Figure, WIDTH, shown_ms, style};
use crate::drill::Drill;
use crate::drill::measure::{Group, Latency};
use crate::drill::notation::{duration_ms, percent};
use crate::drill::row::{mean, over_seeds};

const ROW: f64 = 22.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 110.0;
/// A wait below this is drawn as none: a millisecond is far below anything a client can notice.
const LEAST_MS: f64 = 1.0;

struct Class {
    name: String,
    arm: Mode,
    queue: Option<Latency>,
    ttft: Option<Latency>,
    refused_share: f64,
}

/// Waiting by class and arm, at the smallest number of workers.
pub(super) fn figure(drill: &Drill) -> Figure {
    let classes = classes(drill);
    let names: Vec<&str> = {
        let mut names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
        names.dedup();
        names
    };
    let block = ROW * drill.design.arms.len() as f64 + 34.0;
    let mut canvas = Canvas::new(WIDTH, 30.0 + names.len() as f64 * block + 22.0);
    let key = [
        (Style::plain(Shape::OpenCircle), "held at the door, p50"),
        (Style::plain(Shape::OpenSquare), "held at the door, p90"),
        (Style::plain(Shape::Circle), "first token, p50"),
        (Style::plain(Shape::Square), "first token, p90"),
    ];
    let mut top = canvas.key(0.0, &key) + 4.0;
    let figures = classes.iter().flat_map(|class| [class.queue, class.ttft]).flatten();
    let shown = figures.flat_map(|latency| [latency.p50, latency.p90]);
    let scale = Scale::logarithmic_around(shown.map(|ms| ms.max(LEAST_MS)));
    for (nth, name) in names.iter().enumerate() {
        canvas.text("name", (0.0, top + 14.0), Anchor::Start, &format!("class {name}"));
        canvas.text("note", (WIDTH, top + 14.0), Anchor::End, "refused");
        let size = (WIDTH - LEFT - RIGHT, ROW * drill.design.arms.len() as f64);
        let panel = Panel::new((LEFT, top + 22.0), size, scale, Scale::linear(0.0, 1.0));
        panel.x_axis(&mut canvas, &duration_ms, nth + 1 == names.len());
        let mut y = panel.top() + ROW / 2.0;
        for class in classes.iter().filter(|class| class.name == *name) {
            one(&mut canvas, &panel, y, style(drill, class.arm), class);
            y += ROW;
        }
        top += block;
    }
    Figure {
        id: "waiting-by-class",
        heading: format!("Waiting by class, N = {}", drill.smallest()),
        caption: "Held at the door is arrival to dispatch; first token counts from arrival. Over \
                  all offered requests, means over the seeds; below a millisecond is drawn as a \
                  millisecond. Arms that push hold nothing at the door: their requests wait \
                  inside the engines."
            .to_owned(),
        drawing: canvas,
        table: table(&classes),
    }
}

fn classes(drill: &Drill) -> Vec<Class> {
    let names = drill.runs.first().map(|run| run.measured.classes.keys().cloned());
    let mut classes = Vec::new();
    for name in names.into_iter().flatten() {
        for &arm in &drill.design.arms {
            let of = |of: fn(&Group) -> Option<Latency>| {
                let runs = drill.at(drill.smallest(), arm);
                over_seeds(runs.map(|run| of(run.measured.classes.get(&name)?)))
            };
            let refused = |group: &Group| Some(group.refused_share());
            let runs = drill.at(drill.smallest(), arm);
            let refused_share =
                mean(runs.map(|run| refused(run.measured.classes.get(&name)?))).unwrap_or(0.0);
            let (queue, ttft) = (of(|group| group.queue), of(|group| group.ttft));
            classes.push(Class { name: name.clone(), arm, queue, ttft, refused_share });
        }
    }
    classes
}

fn one(canvas: &mut Canvas, panel: &Panel, y: f64, style: Style, class: &Class) {
    let label = if style.tested { "name" } else { "label" };
    canvas.text(label, (LEFT - 10.0, y + 4.0), Anchor::End, class.arm.name());
    canvas.text("value", (WIDTH, y + 4.0), Anchor::End, &percent(class.refused_share));
    let shapes = [
        (class.queue, -4.0, Shape::OpenCircle, Shape::OpenSquare),
        (class.ttft, 4.0, Shape::Circle, Shape::Square),
    ];
    for (latency, shift, p50, p90) in shapes {
        let Some(latency) = latency else { continue };
        let place = |ms: f64| (panel.x.place(ms), y + shift);
        canvas.line(&style.class("reach"), place(latency.p50), place(latency.p90));
        for (ms, shape) in [(latency.p90, p90), (latency.p50, p50)] {
            if ms.is_finite() {
                canvas.mark(style.shaped(shape), place(ms));
            } else {
                canvas.arrow(style.series, (panel.right() - 1.0, y + shift), (1.0, 0.0));
            }
        }
    }
}

fn table(classes: &[Class]) -> Table {
    let mut table = Table::new(
        "Waiting by class and arm over all offered requests.",
        &[
            "class",
            "arm",
            "held p50",
            "held p90",
            "held max",
            "first token p50",
            "first token p90",
            "first token max",
            "refused",
        ],
    );
    for class in classes {
        let figures = |latency: Option<Latency>| {
            let figure = |of: fn(&Latency) -> f64| shown_ms(latency.as_ref().map(of));
            [figure(|one| one.p50), figure(|one| one.p90), figure(|one| one.max)]
        };
        let head = [class.name.clone(), class.arm.name().to_owned()];
        let cells = head.into_iter().chain(figures(class.queue)).chain(figures(class.ttft));
        table.row(cells.chain([percent(class.refused_share)]));
    }
    table
}
