//! Draws series between two axes.

use super::{Anchor, Canvas, Scale, Style};

/// A rectangle with a scale along each side.
#[derive(Clone, Copy, Debug)]
pub struct Panel {
    /// Left to right.
    pub x: Scale,
    /// Bottom to top: its scale runs upward.
    pub y: Scale,
}

impl Panel {
    /// A panel with its corner at the top left, of this size.
    pub fn new(corner: (f64, f64), size: (f64, f64), x: Scale, y: Scale) -> Self {
        let ((left, top), (width, height)) = (corner, size);
        Self { x: x.between(left, left + width), y: y.between(top + height, top) }
    }

    /// The left side in pixels.
    pub const fn left(&self) -> f64 {
        self.x.from()
    }
    /// The right side in pixels.
    pub const fn right(&self) -> f64 {
        self.x.to()
    }
    /// The upper side in pixels.
    pub const fn top(&self) -> f64 {
        self.y.to()
    }
    /// The lower side in pixels.
    pub const fn bottom(&self) -> f64 {
        self.y.from()
    }

    /// The place of a pair of values.
    pub fn place(&self, x: f64, y: f64) -> (f64, f64) {
        (self.x.place(x), self.y.place(y))
    }

    /// Lines across at each tick of the upward axis, and its labels at the left unless they are
    /// left out.
    pub fn y_axis(&self, canvas: &mut Canvas, label: &dyn Fn(f64) -> String, labelled: bool) {
        for tick in self.y.ticks(label) {
            let class = if tick.label.is_empty() { "grid minor" } else { "grid" };
            canvas.line(class, (self.left(), tick.at), (self.right(), tick.at));
            if labelled && !tick.label.is_empty() {
                let place = (self.left() - 6.0, tick.at + 4.0);
                canvas.text("tick", place, Anchor::End, &tick.label);
            }
        }
        if let Some(lane) = self.y.lane() {
            canvas.line("lane", (self.left(), lane), (self.right(), lane));
        }
    }

    /// Lines upward at each tick of the other axis, and its labels below unless they are left out.
    pub fn x_axis(&self, canvas: &mut Canvas, label: &dyn Fn(f64) -> String, labelled: bool) {
        for tick in self.x.ticks(label) {
            let class = if tick.label.is_empty() { "grid minor" } else { "grid" };
            canvas.line(class, (tick.at, self.top()), (tick.at, self.bottom()));
            if labelled && !tick.label.is_empty() {
                let place = (tick.at, self.bottom() + 16.0);
                canvas.text("tick", place, Anchor::Middle, &tick.label);
            }
        }
        if let Some(lane) = self.x.lane() {
            canvas.line("lane", (lane, self.top()), (lane, self.bottom()));
        }
    }

    /// The line that bars and areas stand on.
    pub fn ground(&self, canvas: &mut Canvas) {
        canvas.line("ground", (self.left(), self.bottom()), (self.right(), self.bottom()));
    }

    /// A line through points, with arrows where a value is infinite.
    pub fn line(&self, canvas: &mut Canvas, style: Style, points: &[(f64, f64)]) {
        let places: Vec<(f64, f64)> = points.iter().map(|(x, y)| self.place(*x, *y)).collect();
        canvas.path(&style.class("line"), &places, false);
        for ((_, y), place) in points.iter().zip(&places) {
            if y.is_infinite() {
                canvas.arrow(style.series, (place.0, place.1 - 5.0), (0.0, -1.0));
            }
        }
    }

    /// A mark at each finite point.
    pub fn marks(&self, canvas: &mut Canvas, style: Style, points: &[(f64, f64)]) {
        for (x, y) in points.iter().filter(|(_, y)| y.is_finite()) {
            canvas.mark(style, self.place(*x, *y));
        }
    }

    /// An area below values that hold until the next point, as a step.
    pub fn steps(&self, canvas: &mut Canvas, class: &str, points: &[(f64, f64)]) {
        let Some(((first, _), (last, _))) = points.first().zip(points.last()) else { return };
        let mut outline = vec![self.place(*first, 0.0)];
        for pair in points.windows(2) {
            outline.push(self.place(pair[0].0, pair[0].1));
            outline.push(self.place(pair[1].0, pair[0].1));
        }
        outline.push(self.place(*last, points[points.len() - 1].1));
        outline.push(self.place(*last, 0.0));
        canvas.path(class, &outline, true);
    }

    /// An area between two values at each point: `(x, low, high)`.
    pub fn band(&self, canvas: &mut Canvas, style: Style, points: &[(f64, f64, f64)]) {
        let upper = points.iter().map(|(x, _, high)| self.place(*x, *high));
        let lower = points.iter().rev().map(|(x, low, _)| self.place(*x, *low));
        let outline: Vec<(f64, f64)> = upper.chain(lower).collect();
        canvas.path(&style.class("band"), &outline, true);
    }
}
