//! Reads what an arm is held to, and holds runs to it.
//!
//! ```toml
//! completed_share_min = 0.999       # share of the offered, 0 to 1
//! refused_share_max = 0.001
//! ttft_ms_max = { p50 = 5000, p99 = 60000 }
//! itl_ms_max = { p99 = 250 }        # also e2e_ms_max and queue_ms_max
//!
//! good_share_min = 0.99             # also failed_share_max: failed, or not over in time
//!
//! [good]                            # what a completed request must keep to be good, not slow
//! ttft_ms_max = 2000                # also itl_ms_max and e2e_ms_max
//!
//! [class.research]                  # the same keys, for the requests of one class
//! refused_share_max = 0.15
//! ```
//!
//! Criteria are written down before the runs: their canonical form, one sorted line each, is hashed
//! into the report, so that a changed limit is a changed hash whatever the file looks like.

use std::fmt;
use std::path::{Path, PathBuf};

use forebay_service::Service;

use super::measure::{Group, Latency, Measured, Statistic};
use super::{digest, notation};

mod document;
mod good;
#[cfg(test)]
mod tests;

pub use good::{Good, GoodLimit};

/// The criteria that hold where no file gives others.
pub const DEFAULT: &str = include_str!("criteria.toml");

/// Which latency a criterion looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Time to first token.
    Ttft,
    /// Mean gap between tokens of a request.
    Itl,
    /// Time to the last token.
    E2e,
    /// Arrival to dispatch.
    Queue,
}

impl Metric {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Ttft, Self::Itl, Self::E2e, Self::Queue];

    /// Its key in a file of criteria.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Ttft => "ttft_ms_max",
            Self::Itl => "itl_ms_max",
            Self::E2e => "e2e_ms_max",
            Self::Queue => "queue_ms_max",
        }
    }

    /// Its name in prose.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ttft => "TTFT",
            Self::Itl => "ITL",
            Self::E2e => "whole latency",
            Self::Queue => "wait before dispatch",
        }
    }

    /// Its distribution over all offered requests of a group.
    pub const fn of(self, group: &Group) -> Option<Latency> {
        match self {
            Self::Ttft => group.ttft,
            Self::Itl => group.itl,
            Self::E2e => group.e2e,
            Self::Queue => group.queue,
        }
    }
}

/// What a criterion looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// The share of the offered that was served to the last token: at least the limit.
    CompletedShare,
    /// The share of the offered that was refused for good: at most the limit.
    RefusedShare,
    /// The share of the offered that was completed within the limits of `[good]`: at least the
    /// limit.
    GoodShare,
    /// The share of the offered that failed, or was not over within its client's patience: at most
    /// the limit.
    FailedShare,
    /// A latency in milliseconds: at most the limit.
    Latency(Metric, Statistic),
}

/// One thing that an arm is held to, at every number of workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Criterion {
    /// The class it is about; `None` is all requests.
    pub class: Option<String>,
    /// What it looks at.
    pub measure: Measure,
    /// The least or the most that passes: a share from 0 to 1, or milliseconds.
    pub limit: f64,
}

impl Criterion {
    /// What this run has to show for it; `None` where it has no request to show it on.
    pub fn value(&self, measured: &Measured) -> Option<f64> {
        let group = match &self.class {
            None => &measured.all,
            Some(class) => measured.classes.get(class)?,
        };
        match self.measure {
            _ if group.offered == 0 => None,
            Measure::CompletedShare => Some(group.completed_share()),
            Measure::RefusedShare => Some(group.refused_share()),
            Measure::GoodShare => Some(group.good_share),
            Measure::FailedShare => Some(group.failed_share()),
            Measure::Latency(metric, statistic) => {
                metric.of(group).map(|latency| latency.get(statistic))
            }
        }
    }

    /// Whether a value passes.
    pub fn passes(&self, value: f64) -> bool {
        if self.at_least() { value >= self.limit } else { value <= self.limit }
    }

    /// Of two values, whichever is further on the wrong side.
    pub fn worse(&self, one: f64, other: f64) -> f64 {
        if self.at_least() { one.min(other) } else { one.max(other) }
    }

    /// Of two values, whichever is less far on the wrong side.
    pub fn milder(&self, one: f64, other: f64) -> f64 {
        if self.at_least() { one.max(other) } else { one.min(other) }
    }

    /// A value in the unit of this criterion.
    pub fn shown(&self, value: f64) -> String {
        match self.measure {
            Measure::Latency(..) => notation::duration_ms(value),
            _ => notation::percent(value),
        }
    }

    /// What it looks at, in words.
    pub fn subject(&self) -> String {
        let subject = match self.measure {
            Measure::CompletedShare => "completed".to_owned(),
            Measure::RefusedShare => "refused".to_owned(),
            Measure::GoodShare => "good".to_owned(),
            Measure::FailedShare => "failed".to_owned(),
            Measure::Latency(metric, statistic) => {
                format!("{} {}", metric.title(), statistic.name())
            }
        };
        match &self.class {
            None => subject,
            Some(class) => format!("{subject} of class {class}"),
        }
    }

    /// Whether the limit is the least that passes, and not the most.
    pub const fn at_least(&self) -> bool {
        matches!(self.measure, Measure::CompletedShare | Measure::GoodShare)
    }

    /// Its key in a file, dotted.
    fn key(&self) -> String {
        let key = match self.measure {
            Measure::CompletedShare => "completed_share_min".to_owned(),
            Measure::RefusedShare => "refused_share_max".to_owned(),
            Measure::GoodShare => "good_share_min".to_owned(),
            Measure::FailedShare => "failed_share_max".to_owned(),
            Measure::Latency(metric, statistic) => {
                format!("{}.{}", metric.key(), statistic.name())
            }
        };
        match &self.class {
            None => key,
            Some(class) => format!("class.{class:?}.{key}"),
        }
    }
}

impl fmt::Display for Criterion {
    /// `TTFT p99 ≤ 60 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.at_least() { '≥' } else { '≤' };
        write!(f, "{} {sign} {}", self.subject(), self.shown(self.limit))
    }
}

/// One thing wrong with a file of criteria.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// All that is wrong with a file of criteria.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct CriteriaError {
    /// The file.
    pub file: PathBuf,
    /// Each fault, in order of lines.
    pub faults: Vec<Fault>,
}

impl fmt::Display for CriteriaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, fault) in self.faults.iter().enumerate() {
            let Fault { line, what, remedy } = fault;
            let end = if nth == 0 { "" } else { "\n" };
            write!(f, "{end}{}:{line}: {what}\nhint: {remedy}", self.file.display())?;
        }
        Ok(())
    }
}

/// What arms are held to.
#[derive(Clone, Debug, PartialEq)]
pub struct Criteria {
    list: Vec<Criterion>,
    good: Vec<GoodLimit>,
    /// The file they were read from.
    file: PathBuf,
    /// The lines on which it names a class.
    class_lines: Vec<(String, usize)>,
}

impl Criteria {
    /// The criteria that hold where no file gives others: they are written down before
    /// the run.
    pub fn built_in() -> Self {
        Self::parse(Path::new("criteria.toml"), DEFAULT)
            .expect("a test reads the embedded criteria")
    }

    /// Reads criteria from the text of a file, or says all that is wrong with it.
    pub fn parse(file: &Path, text: &str) -> Result<Self, CriteriaError> {
        let document::Read { criteria: mut list, mut good, class_lines } = document::read(text)
            .map_err(|faults| CriteriaError { file: file.to_owned(), faults })?;
        sort(&mut list);
        good.sort_by(|one, other| (&one.class, one.metric).cmp(&(&other.class, other.metric)));
        Ok(Self { list, good, file: file.to_owned(), class_lines })
    }

    /// Refuses the classes that are not served, all at once.
    pub fn check_classes(&self, service: &Service) -> Result<(), CriteriaError> {
        let known: Vec<&str> = service.classes.iter().map(|class| class.name.as_str()).collect();
        let unserved = self.class_lines.iter().filter(|(name, _)| !known.contains(&name.as_str()));
        let faults: Vec<Fault> = unserved
            .map(|(name, line)| Fault {
                line: *line,
                what: format!("the class `{name}` is not served"),
                remedy: format!("served are {}; --classes names their file", known.join(", ")),
            })
            .collect();
        if faults.is_empty() {
            Ok(())
        } else {
            Err(CriteriaError { file: self.file.clone(), faults })
        }
    }

    /// The same, with the share of refusals that was agreed for a class where these say nothing of
    /// it: an agreed limit is held against the facts.
    #[must_use]
    pub fn with_agreed(mut self, service: &Service) -> Self {
        for class in &service.classes {
            let name = Some(class.name.clone());
            let is_set = self.list.iter().any(|criterion| {
                criterion.class == name && criterion.measure == Measure::RefusedShare
            });
            if let (Some(limit), false) = (class.reject_share_max, is_set) {
                let measure = Measure::RefusedShare;
                self.list.push(Criterion { class: name, measure, limit });
            }
        }
        sort(&mut self.list);
        self
    }

    /// Each criterion: those on all requests first, then by class, and in one fixed order within
    /// each.
    pub fn list(&self) -> &[Criterion] {
        &self.list
    }

    /// What makes a completed request good: in the order of classes and latencies, those of all
    /// requests first.
    pub fn good(&self) -> &[GoodLimit] {
        &self.good
    }

    /// What makes a completed request of this class good.
    pub fn good_of(&self, class: Option<&str>) -> Good {
        Good::of(&self.good, class)
    }

    /// One line for each criterion, in the order of [`Criteria::list`], whatever the file looked
    /// like, then one for each limit of a good request. It is a file of the same criteria itself.
    pub fn canonical(&self) -> String {
        let line = |criterion: &Criterion| format!("{} = {}\n", criterion.key(), criterion.limit);
        let good = |limit: &GoodLimit| format!("{} = {}\n", limit.key(), limit.ms_max);
        self.list.iter().map(line).chain(self.good.iter().map(good)).collect()
    }

    /// The SHA-256 of the canonical form, in hexadecimal.
    pub fn hash(&self) -> String {
        digest::of_bytes(self.canonical().as_bytes())
    }
}

fn sort(list: &mut [Criterion]) {
    list.sort_by(|one, other| (&one.class, one.measure).cmp(&(&other.class, other.measure)));
}
