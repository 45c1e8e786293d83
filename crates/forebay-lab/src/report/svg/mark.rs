//! Gives each series a colour, a dash and a shape, always the same for the same way of routing.

use forebay_core::{HoldOrder, KvPreset, Mode};

use super::Canvas;

/// Half the extent of a mark, in pixels.
pub(super) const SIZE: f64 = 4.5;

/// The shape of a mark. Open ones have the paper's colour inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A disc.
    Circle,
    /// A ring.
    OpenCircle,
    /// A square.
    Square,
    /// The outline of a square.
    OpenSquare,
    /// A triangle that points up.
    Up,
    /// A triangle that points down.
    Down,
    /// A square on its corner.
    Diamond,
    /// The outline of one.
    OpenDiamond,
    /// A cross of two strokes.
    Cross,
    /// A stroke across the axis.
    Bar,
    /// The outline of a triangle that points up.
    OpenUp,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The class of its colour and dash in `figure.css`.
    pub series: &'static str,
    /// The shape of its marks.
    pub shape: Shape,
    /// It is the arm under test, and drawn stronger.
    pub tested: bool,
}

impl Style {
    /// The style of a way of routing.
    pub const fn of(arm: Mode, tested: bool) -> Self {
        let (series, shape) = match arm {
            Mode::Hold(HoldOrder::Aged) => ("hold", Shape::Circle),
            Mode::Hold(HoldOrder::FirstCome) => ("hold-fc", Shape::OpenCircle),
            Mode::RoundRobin => ("rr", Shape::Square),
            Mode::Kv(KvPreset::Dynamo12) => ("kv12", Shape::Up),
            Mode::Kv(KvPreset::Dynamo12Wspt) => ("kv12w", Shape::Down),
            Mode::Kv(KvPreset::Dynamo16) => ("kv16", Shape::OpenUp),
            Mode::LeastWork => ("work", Shape::Diamond),
            Mode::LeastLoaded => ("load", Shape::OpenDiamond),
            Mode::PowerOfTwo => ("two", Shape::OpenSquare),
            Mode::Random => ("random", Shape::Cross),
            Mode::Session => ("session", Shape::Bar),
        };
        Self { series, shape, tested }
    }

    /// A mark in the colour of plain text, for keys to shapes.
    pub const fn plain(shape: Shape) -> Self {
        Self { series: "plain", shape, tested: false }
    }

    /// The same colour with another shape.
    #[must_use]
    pub const fn shaped(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }

    /// The classes of an element of this kind in this style.
    pub fn class(self, kind: &str) -> String {
        format!("{kind} {}{}", self.series, if self.tested { " tested" } else { "" })
    }
}

/// Draws a mark.
pub(super) fn draw(canvas: &mut Canvas, style: Style, (x, y): (f64, f64), size: f64) {
    let at = |dx: f64, dy: f64| (x + dx * size, y + dy * size);
    let filled = style.class("mark");
    let open = style.class("mark open");
    match style.shape {
        Shape::Circle | Shape::OpenCircle => {
            let class = if style.shape == Shape::Circle { filled } else { open };
            // Two half circles as polygons would do, but a path of sixteen points is round enough
            // at this size.
            let points: Vec<(f64, f64)> = (0..16)
                .map(|nth| {
                    let (sin, cos) = (f64::from(nth) * std::f64::consts::PI / 8.0).sin_cos();
                    at(cos, sin)
                })
                .collect();
            canvas.path(&class, &points, true);
        }
        Shape::Square => canvas.path(&filled, &corners(at), true),
        Shape::OpenSquare => canvas.path(&open, &corners(at), true),
        Shape::Up => canvas.path(&filled, &[at(0.0, -1.1), at(1.1, 0.9), at(-1.1, 0.9)], true),
        Shape::OpenUp => canvas.path(&open, &[at(0.0, -1.1), at(1.1, 0.9), at(-1.1, 0.9)], true),
        Shape::Down => canvas.path(&filled, &[at(0.0, 1.1), at(1.1, -0.9), at(-1.1, -0.9)], true),
        Shape::Diamond => canvas.path(&filled, &diamond(at), true),
        Shape::OpenDiamond => canvas.path(&open, &diamond(at), true),
        Shape::Cross => {
            canvas.line(&style.class("stroke"), at(-0.9, -0.9), at(0.9, 0.9));
            canvas.line(&style.class("stroke"), at(-0.9, 0.9), at(0.9, -0.9));
        }
        Shape::Bar => canvas.line(&style.class("stroke"), at(0.0, -1.3), at(0.0, 1.3)),
    }
}

fn corners(at: impl Fn(f64, f64) -> (f64, f64)) -> [(f64, f64); 4] {
    [at(-0.9, -0.9), at(0.9, -0.9), at(0.9, 0.9), at(-0.9, 0.9)]
}

fn diamond(at: impl Fn(f64, f64) -> (f64, f64)) -> [(f64, f64); 4] {
    [at(0.0, -1.25), at(1.25, 0.0), at(0.0, 1.25), at(-1.25, 0.0)]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use forebay_core::Mode;

    use super::{super::CSS, Style};

    #[test]
    fn every_way_of_routing_has_a_colour_and_a_shape_of_its_own() {
        let styles = Mode::ALL.map(|arm| Style::of(arm, false));
        let shapes: BTreeSet<String> =
            styles.iter().map(|style| format!("{:?}", style.shape)).collect();
        let series: BTreeSet<&str> = styles.iter().map(|style| style.series).collect();
        assert_eq!((shapes.len(), series.len()), (Mode::ALL.len(), Mode::ALL.len()));
        for name in series {
            assert_eq!(
                CSS.matches(&format!("\n.figure .{name}{{")).count(),
                2,
                "{name}, light and dark"
            );
        }
    }
}
