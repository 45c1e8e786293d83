//! Puts a drill on paper: one page that opens anywhere, its figures, and the raw files behind them.
//!
//! | file | holds |
//! |---|---|
//! | `index.html` | the whole report, with its figures inside; no script, nothing fetched |
//! | `*.svg` | each figure as a file of its own |
//! | `runs.jsonl` | one summary a line for each run on the fleet that was asked for |
//! | `varied.jsonl` | the same for the fleets of the sensitivity figure |
//! | `criteria.toml` | what the arms were held to, in canonical form |
//! | `report.json` | the verdicts and the files' hashes; marks the folder as a report |
//!
//! The same drill gives the same bytes: there is no date on the page and no name of a machine.

use std::collections::BTreeMap;
use std::path::Path;

use crate::drill::Drill;
use crate::drill::digest;

pub mod capacity;
pub mod escape;
pub mod figures;
mod folder;
mod frame;
pub mod html;
pub mod live;
mod origin;
mod page;
mod sign_off;
pub mod svg;
#[cfg(test)]
mod tests;
mod verdicts;
mod verify;

pub use folder::{FolderError, Growing, check, refuse_signed};
pub use origin::Origin;
pub use sign_off::{Agreed, Call, Person, SignOff, SignOffError, SignedError, held};
pub use verdicts::verdicts_json;
pub use verify::{Verified, VerifyError, verify};

/// Writes the report of a drill to a folder, all of it or nothing.
pub fn write(drill: &Drill, origin: &Origin, folder: &Path) -> Result<(), FolderError> {
    folder::write(folder, &files(drill, origin))
}

/// The files of a report by name.
pub fn files(drill: &Drill, origin: &Origin) -> BTreeMap<String, String> {
    let lines = |runs: &[crate::drill::Run]| -> String {
        runs.iter().flat_map(|run| [run.summary.as_str(), "\n"]).collect()
    };
    let figures = figures::all(drill);
    let mut files = BTreeMap::new();
    files.insert("runs.jsonl".to_owned(), lines(&drill.runs));
    if !drill.varied.is_empty() {
        files.insert("varied.jsonl".to_owned(), lines(&drill.varied));
    }
    files.insert("criteria.toml".to_owned(), drill.design.criteria.canonical());
    let raw = hashes(&files);
    for figure in &figures {
        let svg = figure.drawing.file(figure.id, &figure.heading, &figure.caption);
        files.insert(format!("{}.svg", figure.id), svg);
    }
    files.insert("index.html".to_owned(), page::page(drill, origin, &figures, &raw));
    let manifest = verdicts::manifest_json(drill, origin, &hashes(&files));
    files.insert(folder::MARKER.to_owned(), manifest);
    files
}

fn hashes(files: &BTreeMap<String, String>) -> Vec<(String, String)> {
    files.iter().map(|(name, text)| (name.clone(), digest::of_bytes(text.as_bytes()))).collect()
}
