//! Reads objectives that somebody has already: files of `OpenSLO` and of Sloth.
//!
//! An objective says which share of requests must be good over a month, and a drill lasts minutes.
//! What maps becomes criteria, in the words of a file of criteria, so that they can be read, signed
//! and hashed like any others; what does not map is said, one sentence each, and never guessed.
//!
//! | objective | criterion |
//! |---|---|
//! | a ratio of good or bad requests | `completed_share_min`: served to the end, of all offered |
//! | a ratio below a latency that its query, value or annotation names | a quantile of it |
//!
//! Formats: <https://github.com/OpenSLO/OpenSLO> (`openslo/v1`), <https://sloth.dev>
//! (`prometheus/v1`).

mod burn;
mod held;
mod openslo;
mod query;
mod sloth;
#[cfg(test)]
mod tests;
mod yaml;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use forebay_service::reader::Gathered;
use forebay_service::{Fault, Faults};

pub use burn::Burn;
pub use held::{Held, HeldError};

/// The window of a budget where a file says none, in days: both formats call it the usual one.
pub const WINDOW_DAYS: f64 = 30.0;

/// Which latency an objective limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Latency {
    /// To the first token.
    Ttft,
    /// To the last token.
    E2e,
}

impl Latency {
    /// Its key in a file of criteria.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Ttft => "ttft_ms_max",
            Self::E2e => "e2e_ms_max",
        }
    }
}

/// One objective, as far as it could be understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// Its name in the file.
    pub name: String,
    /// Its line there, from 1.
    pub line: usize,
    /// The share of requests that must be good, above 0 and below 1.
    pub target: f64,
    /// A good request is one that keeps within this, in milliseconds; `None` where any that is
    /// served is good.
    pub latency: Option<(Latency, f64)>,
    /// The window of its budget, in days.
    pub window_days: f64,
}

/// What a file of objectives says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objectives {
    /// Each objective that was understood, in the order of the file.
    pub list: Vec<Objective>,
    /// What was not taken over, one sentence each.
    pub unmapped: Vec<String>,
}

impl Objectives {
    /// Reads a file of either format, or says all that is wrong with it.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Faults> {
        let documents = yaml::read(text)
            .map_err(|fault| Faults { file: file.to_owned(), faults: vec![fault] })?;
        let mut found = Gathered::new(text);
        let mut objectives = Self::default();
        for document in &documents {
            let kind = document.get("apiVersion").and_then(yaml::Node::text);
            match kind {
                Some(version) if version.starts_with("openslo/") => {
                    openslo::read(document, version, &mut objectives, &mut found);
                }
                Some(version) if version.starts_with("sloth.slok.dev/") => {
                    match document.get("spec") {
                        Some(spec) => sloth::read(spec, &mut objectives, &mut found),
                        None => found.add(document.line, "it has no `spec`", "give the objectives"),
                    }
                }
                _ if document.get("slos").is_some() => {
                    sloth::read(document, &mut objectives, &mut found);
                }
                _ => found.add(
                    document.line,
                    "it is neither OpenSLO (`apiVersion: openslo/v1`) nor Sloth (`slos:`)",
                    "name a file of either, or a TOML file of criteria",
                ),
            }
        }
        if documents.is_empty() {
            found.add(1, "it is empty", "name a file of objectives");
        }
        let faults = found.into_sorted();
        if !faults.is_empty() {
            return Err(Faults { file: file.to_owned(), faults });
        }
        if objectives.list.is_empty() {
            let why = objectives.unmapped.join("; ");
            let what = if why.is_empty() {
                "no objective is in it".to_owned()
            } else {
                format!("no objective of it can be held against a run: {why}")
            };
            let remedy = "write the criteria as TOML".to_owned();
            let faults = vec![Fault { line: 1, what, remedy }];
            return Err(Faults { file: file.to_owned(), faults });
        }
        objectives.note_what_never_maps();
        Ok(objectives)
    }

    /// The criteria as the text of a file of criteria: of several objectives on one thing the
    /// strictest.
    pub fn criteria_toml(&self) -> String {
        let mut text = String::new();
        let served = self.list.iter().filter(|one| one.latency.is_none());
        if let Some(target) = served.map(|one| one.target).max_by(f64::total_cmp) {
            let _ = writeln!(text, "completed_share_min = {target}");
        }
        let mut limits: BTreeMap<Latency, BTreeMap<&str, f64>> = BTreeMap::new();
        for one in &self.list {
            let Some((latency, ms)) = one.latency else { continue };
            let Some(statistic) = statistic(one.target) else { continue };
            let limit = limits.entry(latency).or_default().entry(statistic).or_insert(ms);
            *limit = limit.min(ms);
        }
        for (latency, limits) in limits {
            let limits: Vec<String> =
                limits.iter().map(|(statistic, ms)| format!("{statistic} = {ms}")).collect();
            let _ = writeln!(text, "{} = {{ {} }}", latency.key(), limits.join(", "));
        }
        text
    }

    /// What neither format can say of a run of minutes.
    fn note_what_never_maps(&mut self) {
        self.unmapped.push(
            "a budget over days: a run of minutes is held to the objective itself, and how fast \
             it would burn the budget is shown beside it"
                .to_owned(),
        );
        self.unmapped.push(
            "which requests count: here all that were offered do, those refused with 429 or 503 \
             included, whatever the query leaves out"
                .to_owned(),
        );
    }
}

/// The statistic that says the same as a share of requests below a limit: at least 99 % of the
/// offered are below it if and only if their p99 is.
fn statistic(target: f64) -> Option<&'static str> {
    let known = [(0.5, "p50"), (0.75, "p75"), (0.9, "p90"), (0.99, "p99")];
    known.into_iter().find(|(share, _)| (share - target).abs() < 1e-9).map(|(_, name)| name)
}

/// A share of requests from a percentage or a share, where it can be one.
fn target(percent: bool, number: f64) -> Option<f64> {
    // A percentage as a share has binary dust: 99.9 / 100 is no 0.999.
    let share = if percent { (number * 1e7).round() / 1e9 } else { number };
    (share > 0.0 && share < 1.0).then_some(share)
}

/// A length of time such as `30d`, `4w`, `720h` or `1M`, in days.
fn days(text: &str) -> Option<f64> {
    let split = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (digits, unit) = text.split_at(split);
    let each = match unit {
        "m" => 1.0 / 1440.0,
        "h" => 1.0 / 24.0,
        "d" => 1.0,
        "w" => 7.0,
        "M" => 30.0,
        "Q" => 90.0,
        "Y" => 365.0,
        _ => return None,
    };
    let days = digits.parse::<f64>().ok()? * each;
    (days > 0.0).then_some(days)
}
