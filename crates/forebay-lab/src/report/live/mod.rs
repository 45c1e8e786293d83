//! Puts live results on paper: one page for whoever decides, a summary for a ticket, and raw files.
//!
//! | file | holds |
//! |---|---|
//! | `index.html` | the whole report, with its figures inside; no script, nothing fetched |
//! | `summary.md` | one page for a ticket |
//! | `*.svg` | each figure as a file of its own |
//! | `comparison.json` | every figure, for programs |
//! | `criteria.toml` | what the arms were held to, in canonical form |
//! | `report.json` | verdicts, versions, hashes of all other files; marks the folder as a report |
//!
//! The same results give the same bytes.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use super::figures::Figure;
use super::folder::{self, FolderError, KIND_LIVE};
use super::{Origin, SignOff, hashes};
use crate::compare::comparison::ArmFigures;
use crate::compare::{Arm, Comparison, ServerCount};
use crate::drill::notation::listed;
use crate::drill::verdict::Outcome;
use crate::live::simulated;
use crate::results::{Results, Row, Run};
use crate::slo::Held;

mod beside;
mod burn;
pub mod drill;
mod figures;
#[cfg(test)]
mod fixture;
mod limits;
pub(in crate::report) mod page;
pub(in crate::report) mod sections;
mod server;
mod summary;
#[cfg(test)]
mod tests;

/// What a report of live results is made of.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// What the arms came to.
    pub comparison: &'a Comparison,
    /// The arms with their runs, in the same order.
    pub arms: &'a [Arm],
    /// What the arms were held to.
    pub held: &'a Held,
    /// Who decides, if anybody said.
    pub sign_off: Option<&'a SignOff>,
    /// How many attempts the server itself counts as refused, by the label of the arm.
    pub counted_by_server: &'a BTreeMap<String, ServerCount>,
    /// What the same requests came to in a simulation, by the label of the arm.
    pub simulated: &'a BTreeMap<String, simulated::Figures>,
    /// What else limits what it shows, a sentence each.
    pub notes: &'a [String],
    /// The drill was stopped before its end, so that nothing is GO.
    pub is_stopped: bool,
    /// The command and what it read.
    pub origin: &'a Origin,
}

impl<'a> Live<'a> {
    /// The arm under test: the last.
    fn tested(&self) -> Option<&'a ArmFigures> {
        self.comparison.arms.last()
    }

    /// The verdict: that on the arm under test, where no server contradicts its clients, and where
    /// nobody stopped before the end.
    pub fn outcome(&self) -> Outcome {
        let outcome = self.comparison.outcome();
        let is_open = self.is_stopped && outcome == Outcome::Go;
        if is_open || self.contradiction().is_some() { Outcome::Inconclusive } else { outcome }
    }

    /// Why no verdict holds, where servers counted other refusals than their clients saw.
    pub fn contradiction(&self) -> Option<String> {
        let arms = self.comparison.arms.iter();
        let contradicted = arms.filter(|arm| server::agrees(self, arm) == Some(false));
        let labels: Vec<&str> = contradicted.map(|arm| arm.label.as_str()).collect();
        (!labels.is_empty()).then(|| {
            format!(
                "the server of {} counted other refusals than its clients saw, so no verdict holds",
                listed(&labels)
            )
        })
    }

    /// Why the verdict is what it is.
    fn reason(&self) -> String {
        let tested = || self.tested().map_or(String::new(), |arm| arm.reason.clone());
        let stopped = self.is_stopped && self.comparison.outcome() == Outcome::Go;
        let stopped = stopped.then(|| "it was stopped before its end".to_owned());
        self.contradiction().or(stopped).unwrap_or_else(tested)
    }

    /// The runs of an arm with every request, those that may be used.
    fn runs(&self, nth: usize) -> impl Iterator<Item = &'a Run> {
        let blocks = self.arms.get(nth).map_or(&[][..], |arm| &arm.runs);
        blocks.iter().filter_map(|block| match &block.results {
            Results::Run(run) if run.about.is_valid() => Some(run.as_ref()),
            _ => None,
        })
    }

    /// The requests of an arm that count: of valid runs, without those that warmed up.
    fn rows(&self, nth: usize) -> impl Iterator<Item = &'a Row> {
        self.runs(nth).flat_map(|run| run.rows.iter().filter(|row| !row.is_warmup))
    }
}

/// Writes the report to a folder, all of it or nothing, and answers with its seal: the SHA-256 of
/// its manifest.
pub fn write(live: &Live<'_>, folder: &Path) -> Result<String, FolderError> {
    let files = files(live);
    folder::write(folder, &files)?;
    Ok(crate::drill::digest::of_bytes(files[folder::MARKER].as_bytes()))
}

/// The files of a report by name.
pub fn files(live: &Live<'_>) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let comparison = serde_json::to_string_pretty(live.comparison);
    let comparison = comparison.expect("strings and numbers are always JSON") + "\n";
    files.insert("comparison.json".to_owned(), comparison);
    files.insert("criteria.toml".to_owned(), live.held.criteria.canonical());
    let raw = hashes(&files);
    let figures: Vec<Figure> = figures::all(live);
    for figure in &figures {
        let svg = figure.drawing.file(figure.id, &figure.heading, &figure.caption);
        files.insert(format!("{}.svg", figure.id), svg);
    }
    files.insert("summary.md".to_owned(), summary::markdown(live));
    files.insert("index.html".to_owned(), page::page(live, &figures, &raw));
    let manifest = manifest(live, &hashes(&files));
    files.insert(folder::MARKER.to_owned(), manifest);
    files
}

/// The manifest: what it is of, and the hash of each other file.
fn manifest(live: &Live<'_>, files: &[(String, String)]) -> String {
    let named = |pairs: &[(String, String)]| -> Vec<serde_json::Value> {
        pairs.iter().map(|(name, sha256)| json!({ "name": name, "sha256": sha256 })).collect()
    };
    let arms = live.comparison.arms.iter();
    let verdicts: Vec<serde_json::Value> = arms
        .map(|arm| json!({ "arm": arm.label, "outcome": arm.outcome, "reason": arm.reason }))
        .collect();
    let manifest = json!({
        "kind": KIND_LIVE,
        "outcome": live.outcome().name(),
        "exit_code": live.outcome().exit_code(),
        "verdicts": verdicts,
        "criteria_sha256": live.held.criteria.hash(),
        "service": live.sign_off.map(|sign_off| sign_off.service.as_str()),
        "version": live.origin.version,
        "command": live.origin.command(),
        "inputs": named(&live.origin.inputs),
        "files": named(files),
    });
    let json = serde_json::to_string_pretty(&manifest);
    json.expect("strings and numbers are always JSON") + "\n"
}
