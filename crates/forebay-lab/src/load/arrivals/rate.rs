//! Reads how many requests are due a second over a run, and finds when their sum reaches a number.

use std::fmt;
use std::str::FromStr;

use forebay_core::Span;

use super::NotationError;

/// The highest rate, in requests a second.
const PER_S_MAX: f64 = 1e6;
/// The longest part, in seconds: 31 years.
const LASTS_S_MAX: f64 = 1e9;
/// The most parts.
const PARTS_MAX: usize = 10_000;
const FORMS: &str = "write a number a second (5), a ramp (1..20 or 1..20x60, over seconds), or \
                     parts with their seconds (2x30,10x60,2x30)";

/// How many requests are due a second, part after part. Within a part the rate is a straight line.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    /// Requests a second at its start.
    from: f64,
    /// Requests a second at its end.
    to: f64,
    /// Seconds; `None`, in the last part only, for as long as the run.
    lasts_s: Option<f64>,
}

impl Rate {
    /// One rate for as long as the run lasts, in requests a second. It must lie above 0.
    pub fn constant(per_s: f64) -> Result<Self, NotationError> {
        let rate = Self { parts: vec![Part { from: per_s, to: per_s, lasts_s: None }] };
        rate.checked()
    }

    /// How long the parts last together; `None` where the last one has no end.
    pub fn lasts(&self) -> Option<Span> {
        let lasts_s = self.parts.iter().map(|part| part.lasts_s).sum::<Option<f64>>();
        lasts_s.map(Span::secs_f64)
    }

    /// The rate for a run of this length: the last part lasts to its end, and a ramp without
    /// seconds goes over the whole of it. `None` for a run that ends with its requests, not with
    /// time.
    ///
    /// Fails for a ramp that would have no end, and for a run that ends before the last part
    /// begins.
    pub fn over(mut self, run: Option<Span>) -> Result<Self, NotationError> {
        let last = self.parts.len() - 1;
        let Part { from, to, lasts_s } = self.parts[last];
        if lasts_s.is_some() {
            return Ok(self);
        }
        let Some(run) = run else {
            if (from - to).abs() > 0.0 {
                let what = format!("the ramp {from}..{to} has no end");
                let remedy = "give its seconds, as in 1..20x60, or say how long the run lasts";
                return Err(NotationError::new(what, remedy));
            }
            return Ok(self);
        };
        let before: f64 = self.parts.iter().filter_map(|part| part.lasts_s).sum();
        let left = run.as_secs_f64() - before;
        if left <= 0.0 {
            let run_s = run.as_secs_f64();
            let what = format!("the run ends after {run_s} s, before the last part of the rate");
            return Err(NotationError::new(what, "let the run last longer, or shorten the parts"));
        }
        self.parts[last].lasts_s = Some(left);
        Ok(self)
    }

    /// Requests that are due over the whole; `None` where it has no end.
    pub fn expected(&self) -> Option<f64> {
        self.parts.iter().map(|part| Some(part.area(part.lasts_s?))).sum()
    }

    fn checked(self) -> Result<Self, NotationError> {
        let wrong = |what: String| Err(NotationError::new(what, FORMS));
        if self.parts.len() > PARTS_MAX {
            return wrong(format!("a rate has at most {PARTS_MAX} parts"));
        }
        for Part { from, to, lasts_s } in &self.parts {
            for per_s in [from, to] {
                if !(0.0..=PER_S_MAX).contains(per_s) {
                    return wrong(format!("a rate lies in 0..={PER_S_MAX}, not at {per_s}"));
                }
            }
            if lasts_s.is_some_and(|lasts_s| !(lasts_s > 0.0 && lasts_s <= LASTS_S_MAX)) {
                return wrong("a part of a rate lasts longer than 0 seconds".to_owned());
            }
        }
        let is_idle = |part: &Part| part.from + part.to <= 0.0;
        let ends_idle = self.parts.last().is_none_or(|p| is_idle(p) && p.lasts_s.is_none());
        if ends_idle || self.parts.iter().all(is_idle) {
            return wrong("at a rate of 0 nothing ever comes".to_owned());
        }
        Ok(self)
    }

    pub(super) fn into_place(self) -> Place {
        Place { parts: self.parts.into_iter(), part: None, starts_s: 0.0, before: 0.0 }
    }
}

impl Part {
    /// Requests due in its first `x_s` seconds.
    fn area(&self, x_s: f64) -> f64 {
        self.from * x_s + self.slope() * x_s * x_s / 2.0
    }

    fn slope(&self) -> f64 {
        // A ramp without an end is made to end, or refused, before it is walked.
        self.lasts_s.map_or(0.0, |lasts_s| (self.to - self.from) / lasts_s)
    }

    /// Seconds from its start to where `area` requests have been due. The root of the quadratic in
    /// the form that does not subtract nearly equal numbers; a square root is exact everywhere.
    fn when(&self, area: f64) -> f64 {
        if area <= 0.0 {
            return 0.0;
        }
        let root = (self.from * self.from + 2.0 * self.slope() * area).max(0.0).sqrt();
        2.0 * area / (self.from + root)
    }
}

/// Walks along a rate.
pub(super) struct Place {
    parts: std::vec::IntoIter<Part>,
    part: Option<Part>,
    /// Seconds before this part.
    starts_s: f64,
    /// Requests due before this part.
    before: f64,
}

impl Place {
    /// Seconds from the start to where so many requests have been due; `None` behind the end. The
    /// number must not fall from one call to the next.
    pub(super) fn when(&mut self, requests: f64) -> Option<f64> {
        loop {
            let part = match self.part {
                Some(part) => part,
                None => *self.part.insert(self.parts.next()?),
            };
            let left = requests - self.before;
            let Some(lasts_s) = part.lasts_s else {
                return Some(self.starts_s + part.when(left));
            };
            let area = part.area(lasts_s);
            if left < area {
                return Some(self.starts_s + part.when(left).min(lasts_s));
            }
            self.before += area;
            self.starts_s += lasts_s;
            self.part = None;
        }
    }
}

impl FromStr for Rate {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, NotationError> {
        let wrong = |part: &str| NotationError::new(format!("{part:?} is no rate"), FORMS);
        let number = |figure: &str, part: &str| figure.trim().parse().map_err(|_| wrong(part));
        let mut parts = Vec::new();
        for part in text.split(',') {
            if parts.last().is_some_and(|before: &Part| before.lasts_s.is_none()) {
                let what = "only the last part of a rate may be without seconds";
                return Err(NotationError::new(what, FORMS));
            }
            let (rates, lasts) = match part.split_once('x') {
                Some((rates, lasts)) => (rates, Some(number(lasts, part)?)),
                None => (part, None),
            };
            let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
            let (from, to) = (number(from, part)?, number(to, part)?);
            parts.push(Part { from, to, lasts_s: lasts });
        }
        Self { parts }.checked()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, Part { from, to, lasts_s }) in self.parts.iter().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            write!(f, "{comma}{from}")?;
            if (from - to).abs() > 0.0 {
                write!(f, "..{to}")?;
            }
            if let Some(lasts_s) = lasts_s {
                write!(f, "x{lasts_s}")?;
            }
        }
        Ok(())
    }
}
