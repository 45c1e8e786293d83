//! Puts a live drill on paper, in the drill's own folder: the same report, over all of its cells.
//!
//! The folder holds the runs already, and its manifest has the hash of every file in it. So a run
//! that somebody has changed since is found, and so is a log.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use serde_json::{Value, json};

use super::figures::sweep::{self, Point};
use super::{Live, figures};
use crate::compare::{Comparison, ServerCount};
use crate::drill::digest;
use crate::drill::notation::trimmed;
use crate::drill::verdict::Outcome;
use crate::live::design::Cell;
use crate::live::hold::CellDone;
use crate::live::{Drill, simulated};
use crate::report::figures::Figure;
use crate::report::folder::{KIND_DRILL, MARKER};
use crate::report::{FolderError, Origin};
use crate::results::ROWS_FILE;
use crate::slo::Held;
use crate::whole_file::WholeFile;

mod page;
mod summary;

/// A drill and what every page of it says.
struct Paper<'a> {
    drill: &'a Drill,
    held: Held,
    origin: &'a Origin,
    /// What limits it beside what its runs tell.
    notes: Vec<String>,
    cells: Vec<CellFigures<'a>>,
}

/// A cell with a complete round.
struct CellFigures<'a> {
    cell: Cell,
    comparison: &'a Comparison,
    counted: BTreeMap<String, ServerCount>,
    simulated: BTreeMap<String, simulated::Figures>,
    /// The verdict, and why, where a server contradicts its clients.
    outcome: Outcome,
    contradiction: Option<String>,
}

/// Writes the report into the drill's folder, its manifest last, and answers with the seal: the
/// SHA-256 of the manifest. `None` where no round of the drill was complete: there is nothing to
/// report.
pub fn write(drill: &Drill, origin: &Origin, folder: &Path) -> Result<Option<String>, FolderError> {
    let paper = Paper::of(drill, origin);
    if paper.cells.is_empty() {
        return Ok(None);
    }
    let mut hashes = BTreeMap::new();
    hash(folder, "", &mut hashes)?;
    let raw: Vec<(String, String)> =
        hashes.clone().into_iter().filter(|(name, _)| is_raw(name)).collect();
    let files = paper.files(&raw);
    for (name, text) in &files {
        put(&folder.join(name), text)?;
        hashes.insert(name.clone(), digest::of_bytes(text.as_bytes()));
    }
    let manifest = paper.manifest(&hashes);
    put(&folder.join(MARKER), &manifest)?;
    Ok(Some(digest::of_bytes(manifest.as_bytes())))
}

/// Whether a file is what figures are made of.
fn is_raw(name: &str) -> bool {
    name.ends_with(&format!("/{ROWS_FILE}")) || !name.contains('/')
}

/// Adds the hash of every file below a folder, by its name from there.
pub(in crate::report) fn hash(
    folder: &Path,
    within: &str,
    hashes: &mut BTreeMap<String, String>,
) -> Result<(), FolderError> {
    let at = folder.join(within);
    let unreadable = |said| FolderError::Unwritable { path: at.clone(), said };
    for entry in fs::read_dir(&at).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = format!("{within}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().map_err(unreadable)?;
        if kind.is_dir() {
            hash(folder, &format!("{name}/"), hashes)?;
        } else if kind.is_file() && name != MARKER {
            hashes.insert(name, digest::of_file(&entry.path()).map_err(unreadable)?);
        }
    }
    Ok(())
}

pub(in crate::report) fn put(file: &Path, text: &str) -> Result<(), FolderError> {
    let unwritable = |said: io::Error| FolderError::Unwritable { path: file.to_owned(), said };
    let mut out = WholeFile::create(file).map_err(|error| unwritable(error.said))?;
    out.write_all(text.as_bytes()).map_err(unwritable)?;
    out.finish().map_err(|error| unwritable(error.said))
}

impl<'a> Paper<'a> {
    fn of(drill: &'a Drill, origin: &'a Origin) -> Self {
        let design = &drill.design;
        let held = Held {
            criteria: design.criteria.clone(),
            objectives: design.objectives.clone(),
            file: design.criteria_file.clone(),
        };
        let mut notes = Vec::new();
        if drill.was_interrupted {
            notes.push("The drill was stopped before its end: only complete rounds count.".into());
        }
        let is_known = |cell: &Cell| {
            drill.cells.iter().any(|done| done.cell == *cell && done.comparison.is_some())
        };
        for cell in design.cells().iter().filter(|cell| !is_known(cell)) {
            let said =
                format!("{}: no round was complete, so nothing is known of it.", cell.title());
            notes.push(said);
        }
        let mut paper = Self { drill, held, origin, notes, cells: Vec::new() };
        let cells = drill.cells.iter().filter_map(|done| CellFigures::of(done, drill));
        let mut cells: Vec<CellFigures<'a>> = cells.collect();
        for cell in &mut cells {
            let live = cell.live(&paper, &[]);
            let (outcome, contradiction) = (live.outcome(), live.contradiction());
            (cell.outcome, cell.contradiction) = (outcome, contradiction);
        }
        paper.cells = cells;
        paper
    }

    /// The files by name; `raw` are the hashes of what they are made of.
    fn files(&self, raw: &[(String, String)]) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        files.insert("criteria.toml".to_owned(), self.held.criteria.canonical());
        if let [cell] = self.cells.as_slice() {
            let arms = self.drill.cells.iter().find(|done| done.cell == cell.cell);
            let arms = arms.map_or_else(Vec::new, |done| done.arms(&self.drill.design));
            let live = cell.live(self, &arms);
            let figures = figures::all(&live);
            draw(&mut files, &figures, "");
            files.insert("summary.md".to_owned(), super::summary::markdown(&live));
            files.insert("index.html".to_owned(), super::page::page(&live, &figures, raw));
            return files;
        }
        let points: Vec<Point<'_>> = self.cells.iter().map(CellFigures::point).collect();
        let load = &self.drill.design.load;
        let unit = load.capacity_per_s.map_or("the trace's own rate".to_owned(), |per_s| {
            let fewest = self.drill.design.engines.as_ref().and_then(|it| it.workers.first());
            let fewest = fewest.map_or(String::new(), |fewest| format!(" at N = {fewest}"));
            format!("{} requests a second{fewest}", trimmed(per_s * load.speed))
        });
        let sweep = sweep::figure(&points, &unit);
        draw(&mut files, sweep.as_slice(), "");
        let mut pages = Vec::new();
        // A cell's runs are at hand one after the other: together they are as large as the drill.
        for cell in &self.cells {
            let done = self.drill.cells.iter().find(|done| done.cell == cell.cell);
            let arms = done.map_or_else(Vec::new, |done| done.arms(&self.drill.design));
            let live = cell.live(self, &arms);
            let figures = figures::all(&live);
            draw(&mut files, &figures, &cell.prefix());
            pages.push(page::CellPage::of(&live, cell, &figures));
        }
        files.insert("summary.md".to_owned(), summary::markdown(self, &pages));
        files.insert("index.html".to_owned(), page::page(self, sweep.as_ref(), &pages, raw));
        files
    }

    fn manifest(&self, files: &BTreeMap<String, String>) -> String {
        let named = |name: &String, sha256: &String| json!({ "name": name, "sha256": sha256 });
        let files: Vec<Value> = files.iter().map(|(name, hash)| named(name, hash)).collect();
        let inputs = &self.origin.inputs;
        let inputs: Vec<Value> = inputs.iter().map(|(name, hash)| named(name, hash)).collect();
        let cells = self.cells.iter().map(|cell| {
            let arms = cell.comparison.arms.iter();
            let verdicts: Vec<Value> = arms
                .map(|arm| json!({"arm": arm.label, "outcome": arm.outcome, "reason": arm.reason}))
                .collect();
            json!({
                "cell": cell.cell.name(),
                "outcome": cell.outcome.name(),
                "contradiction": cell.contradiction,
                "verdicts": verdicts,
            })
        });
        let sign_off = self.drill.design.sign_off.as_ref();
        let manifest = json!({
            "kind": KIND_DRILL,
            "outcome": self.drill.outcome().name(),
            "exit_code": self.drill.exit_code(),
            "cells": cells.collect::<Vec<Value>>(),
            "criteria_sha256": self.held.criteria.hash(),
            "service": sign_off.map(|sign_off| sign_off.service.as_str()),
            "version": self.origin.version,
            "command": self.origin.command(),
            "inputs": inputs,
            "files": files,
        });
        let json = serde_json::to_string_pretty(&manifest);
        json.expect("strings and numbers are always JSON") + "\n"
    }
}

impl<'a> CellFigures<'a> {
    /// `None` of a cell without a complete round.
    fn of(done: &'a CellDone, drill: &Drill) -> Option<Self> {
        Some(Self {
            cell: done.cell,
            comparison: done.comparison.as_ref()?,
            counted: done.counted(&drill.design),
            simulated: done.simulated(&drill.design),
            outcome: Outcome::Inconclusive,
            contradiction: None,
        })
    }

    /// The same as a report of live results has it.
    fn live<'p>(&'p self, paper: &'p Paper<'_>, arms: &'p [crate::compare::Arm]) -> Live<'p> {
        Live {
            comparison: self.comparison,
            arms,
            held: &paper.held,
            sign_off: paper.drill.design.sign_off.as_ref(),
            counted_by_server: &self.counted,
            simulated: &self.simulated,
            notes: &paper.notes,
            is_stopped: paper.drill.was_interrupted && paper.cells.len() == 1,
            origin: paper.origin,
        }
    }

    fn point(&self) -> Point<'_> {
        Point { cell: self.cell, comparison: self.comparison, simulated: &self.simulated }
    }

    /// What begins the names of all that is of this cell.
    fn prefix(&self) -> String {
        format!("{}-", self.cell.name())
    }
}

/// Adds each figure as a file of its own.
fn draw(files: &mut BTreeMap<String, String>, figures: &[Figure], prefix: &str) {
    for figure in figures {
        let svg = figure.drawing.file(figure.id, &figure.heading, &figure.caption);
        files.insert(format!("{prefix}{}.svg", figure.id), svg);
    }
}
