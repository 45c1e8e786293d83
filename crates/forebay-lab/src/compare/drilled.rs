//! Reads the folder of a live drill: the arms of one cell with all of their blocks.
//!
//! `DRILL` has a folder for each cell of the sweep, that one for each arm, and that one for each
//! block. Which arm is under test is said by the order in `drill.toml`, and by nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::arms::{blocks_within, fault};
use crate::drill::notation::listed;
use crate::live::hold::{COMPARISON_FILE, DESIGN_FILE};
use crate::live::simulated;
use crate::results::ResultsError;

/// A cell of a drill.
pub(super) struct Found {
    /// Its folder.
    pub(super) folder: PathBuf,
    /// Its arms in the order of the drill, each with its blocks.
    pub(super) arms: Vec<(String, Vec<PathBuf>)>,
    /// What looking repeatedly has left of the confidence; `None` of a drill without an end.
    pub(super) confidence: Option<f64>,
    /// What the simulation beside it came to, by name of the arm.
    pub(super) simulated: BTreeMap<String, simulated::Figures>,
    /// What was read of the drill itself.
    pub(super) files: Vec<PathBuf>,
    /// What was left out.
    pub(super) notes: Vec<String>,
}

impl Found {
    /// The names of its arms.
    pub(super) fn names(&self) -> String {
        listed(&self.arms.iter().map(|(name, _)| name).collect::<Vec<_>>())
    }

    /// The folder of the last arm.
    pub(super) fn last(&self) -> String {
        let last = self.arms.last().map_or("", |(name, _)| name);
        self.folder.join(last).display().to_string()
    }
}

/// The cell that a folder is, or the only one of a drill; `None` of anything else.
pub(super) fn find(named: &Path) -> Result<Option<Found>, ResultsError> {
    if !named.is_dir() || !blocks_within(named)?.is_empty() {
        return Ok(None);
    }
    if !arms(named)?.is_empty() {
        return cell_of(named).map(Some);
    }
    let mut cells = Vec::new();
    for folder in folders(named) {
        if !arms(&folder)?.is_empty() {
            cells.push(folder);
        }
    }
    match cells.as_slice() {
        [] => Ok(None),
        [only] => cell_of(only).map(Some),
        several => {
            let many = several.len();
            let all: Vec<String> = several.iter().map(|it| it.display().to_string()).collect();
            let what = format!("is a drill of {many} cells, and one is read");
            let remedy = format!("name one: {}", all.join(", "));
            Err(fault(&named.display().to_string(), what, remedy))
        }
    }
}

/// The folders in a folder, by name.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// The folders of blocks in a folder, by name.
fn arms(folder: &Path) -> Result<Vec<(String, Vec<PathBuf>)>, ResultsError> {
    let mut arms = Vec::new();
    for arm in folders(folder) {
        let blocks = blocks_within(&arm)?;
        let name = arm.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Some(name) = name.filter(|_| !blocks.is_empty()) {
            arms.push((name, blocks));
        }
    }
    Ok(arms)
}

fn cell_of(folder: &Path) -> Result<Found, ResultsError> {
    let mut arms = arms(folder)?;
    // `DRILL/CELL/..` and a link have parents too, those that the system knows.
    let parent = fs::canonicalize(folder).ok().and_then(|at| at.parent().map(Path::to_owned));
    let drill = parent.unwrap_or_default();
    let design = drill.join(DESIGN_FILE);
    let order = fs::read_to_string(&design).ok().map(|text| order(&text)).unwrap_or_default();
    let place = |name: &str| order.iter().position(|arm| arm == name);
    if let Some((unknown, _)) = arms.iter().find(|(name, _)| place(name).is_none()) {
        let what = format!("holds several arms, and no {DESIGN_FILE} above it names {unknown}");
        let remedy = format!(
            "name the arms one by one, the baseline first, such as {}",
            folder.join(unknown).display()
        );
        return Err(fault(&folder.display().to_string(), what, remedy));
    }
    arms.sort_by_key(|(name, _)| place(name));
    let rounds = arms.iter().map(|(_, blocks)| blocks.len()).min().unwrap_or(0);
    let mut notes = Vec::new();
    let absent: Vec<&String> =
        order.iter().filter(|name| arms.iter().all(|(arm, _)| arm != *name)).collect();
    if !absent.is_empty() || arms.iter().any(|(_, blocks)| blocks.len() > rounds) {
        notes.push(format!(
            "{}: the drill was stopped: only the {rounds} complete rounds are read",
            folder.display()
        ));
    }
    if !absent.is_empty() {
        let what = format!("no round is complete: {} never ran", listed(&absent));
        let remedy = "name the arms that did run one by one, or hold the drill again";
        return Err(fault(&folder.display().to_string(), what, remedy));
    }
    arms.iter_mut().for_each(|(_, blocks)| blocks.truncate(rounds));
    let ended = ended(&drill.join(COMPARISON_FILE), folder);
    let files = [Some(design), ended.is_some().then(|| drill.join(COMPARISON_FILE))];
    let files = files.into_iter().flatten().collect();
    let Ended { confidence, simulated } = ended.unwrap_or_default();
    Ok(Found { folder: folder.to_owned(), arms, confidence, simulated, files, notes })
}

/// The names of arms as a drill's file has them.
fn order(text: &str) -> Vec<String> {
    let Ok(table) = text.parse::<toml::Table>() else { return Vec::new() };
    let arms = table.get("arm").and_then(toml::Value::as_array);
    let name = |arm: &toml::Value| arm.get("name")?.as_str().map(str::to_owned);
    arms.into_iter().flatten().filter_map(name).collect()
}

/// What a drill that came to its end says of a cell.
#[derive(Default)]
struct Ended {
    /// The confidence that its verdicts were reached at.
    confidence: Option<f64>,
    simulated: BTreeMap<String, simulated::Figures>,
}

fn ended(comparison: &Path, folder: &Path) -> Option<Ended> {
    let text = fs::read(comparison).ok()?;
    let cells: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let name = fs::canonicalize(folder).ok()?.file_name()?.to_str()?.to_owned();
    let cell = cells.as_array()?.iter().find(|cell| cell["cell"] == name.as_str())?;
    let confidence = cell["comparison"]["confidence"].as_f64();
    Some(Ended {
        confidence: confidence.filter(|it| (0.5..1.0).contains(it)),
        // A drill of an older version has not written them.
        simulated: BTreeMap::deserialize(&cell["simulated"]).unwrap_or_default(),
    })
}
