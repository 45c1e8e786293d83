//! Writes figures as SVG: the same figures give the same bytes, with no script and no fonts of its
//! own.
//!
//! Colours are classes of `figure.css`, light and dark; what colour says is also said by a dash or
//! the shape of a mark, for print and for readers who see colours otherwise.

use std::fmt::Write as _;

use super::escape::Escaped;

mod mark;
mod panel;
mod scale;

pub use mark::{Shape, Style};
pub use panel::Panel;
pub use scale::{Scale, Tick};

/// The colours and strokes of all figures.
pub const CSS: &str = include_str!("figure.css");

/// Where text stands in relation to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

/// A drawing under construction. Places are pixels from the top left.
#[derive(Clone, Debug)]
pub struct Canvas {
    width: f64,
    height: f64,
    body: String,
}

impl Canvas {
    /// An empty drawing.
    pub const fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// A straight line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = ((px(from.0), px(from.1)), (px(to.0), px(to.1)));
        let _ = writeln!(
            self.body,
            r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#
        );
    }

    /// A rectangle; nothing where it has no extent.
    pub fn rect(&mut self, class: &str, corner: (f64, f64), size: (f64, f64)) {
        if size.0 < 0.05 || size.1 < 0.05 {
            return;
        }
        let ((x, y), (w, h)) = ((px(corner.0), px(corner.1)), (px(size.0), px(size.1)));
        let _ = writeln!(
            self.body,
            r#"<rect class="{class}" x="{x}" y="{y}" width="{w}" height="{h}"/>"#
        );
    }

    /// A path through points; closed ones are areas.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)], closed: bool) {
        if points.is_empty() {
            return;
        }
        let mut data = String::new();
        for (nth, (x, y)) in points.iter().enumerate() {
            let _ = write!(data, "{}{} {}", if nth == 0 { 'M' } else { 'L' }, px(*x), px(*y));
        }
        let end = if closed { "Z" } else { "" };
        let _ = writeln!(self.body, r#"<path class="{class}" d="{data}{end}"/>"#);
    }

    /// A line of text; its baseline is at the place.
    pub fn text(&mut self, class: &str, place: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let (x, y, text) = (px(place.0), px(place.1), Escaped(text));
        let _ =
            writeln!(self.body, r#"<text class="{class}" x="{x}" y="{y}"{anchor}>{text}</text>"#);
    }

    /// The mark of a series.
    pub fn mark(&mut self, style: Style, place: (f64, f64)) {
        mark::draw(self, style, place, mark::SIZE);
    }

    /// An arrow for a value beyond the end of an axis; `(dx, dy)` is where it points.
    pub fn arrow(&mut self, class: &str, tip: (f64, f64), direction: (f64, f64)) {
        let ((x, y), (dx, dy)) = (tip, direction);
        let back =
            |along: f64, across: f64| (x - dx * along - dy * across, y - dy * along + dx * across);
        self.path(&format!("arrow {class}"), &[tip, back(8.0, 4.0), back(8.0, -4.0)], true);
    }

    /// A key to the series, in rows that fit the width; returns the place below it.
    pub fn legend(&mut self, top: f64, entries: &[(Style, &str)]) -> f64 {
        let (mut x, mut y) = (0.0, top + 10.0);
        for (style, label) in entries {
            let needed = 34.0 + text_width(label);
            if x > 0.0 && x + needed > self.width {
                (x, y) = (0.0, y + 19.0);
            }
            self.line(&style.class("line"), (x, y - 4.0), (x + 24.0, y - 4.0));
            self.mark(*style, (x + 12.0, y - 4.0));
            self.text("label", (x + 30.0, y), Anchor::Start, label);
            x += needed + 18.0;
        }
        y + 12.0
    }

    /// How much a key takes on a drawing of this width.
    pub fn legend_height(width: f64, entries: &[(Style, &str)]) -> f64 {
        Self::new(width, 0.0).legend(0.0, entries)
    }

    /// A key to shapes without lines, in one row; returns the place below it.
    pub fn key(&mut self, top: f64, entries: &[(Style, &str)]) -> f64 {
        let (mut x, y) = (0.0, top + 10.0);
        for (style, label) in entries {
            self.mark(*style, (x + 6.0, y - 4.0));
            self.text("label", (x + 17.0, y), Anchor::Start, label);
            x += 17.0 + text_width(label) + 20.0;
        }
        y + 12.0
    }

    /// The drawing as an element of a page, named and described for those who don't see it. `id` is
    /// unique on the page.
    pub fn inline(&self, id: &str, title: &str, desc: &str) -> String {
        self.element(id, title, desc, "")
    }

    /// The drawing as a file of its own.
    pub fn file(&self, id: &str, title: &str, desc: &str) -> String {
        self.element(id, title, desc, &format!("<style>\n{CSS}</style>\n"))
    }

    fn element(&self, id: &str, title: &str, desc: &str, style: &str) -> String {
        let (width, height) = (px(self.width), px(self.height));
        let (title, desc, body) = (Escaped(title), Escaped(desc), &self.body);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"figure\" role=\"img\" \
             viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             aria-labelledby=\"{id}-title {id}-desc\">\n\
             <title id=\"{id}-title\">{title}</title>\n<desc id=\"{id}-desc\">{desc}</desc>\n\
             {style}<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n{body}</svg>\n"
        )
    }
}

/// A place with a tenth of a pixel: finer is not seen, and bytes stay the same where the last bits
/// of a float differ.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// About how wide a label is: system fonts differ, and a generous guess keeps labels apart in all
/// of them.
pub fn text_width(text: &str) -> f64 {
    6.6 * text.chars().count() as f64
}
