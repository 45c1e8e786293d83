//! Puts a search for a capacity on paper, in the folder of its runs.
//!
//! | file | holds |
//! |---|---|
//! | `index.html` | the whole report, with its figure inside; no script, nothing fetched |
//! | `curve.svg` | the figure as a file of its own |
//! | `capacity.json` | every figure, for programs |
//! | `criteria.toml` | what rates were held to, in canonical form |
//! | `run-*/` | each run, as `forebay load` writes it |
//! | `report.json` | the answer, versions, hashes of all other files; marks it as a report |

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::folder::{KIND_CAPACITY, MARKER};
use super::live::drill::{hash, put};
use super::{FolderError, Growing, Origin};
use crate::capacity::{Capacity, Growth, sentences};
use crate::drill::digest;
use crate::slo::Held;

mod figure;
mod page;
#[cfg(test)]
mod tests;

/// What a report of a capacity is made of.
#[derive(Clone, Copy, Debug)]
pub struct Paper<'a> {
    /// What the search came to.
    pub capacity: &'a Capacity,
    /// What is asked today, and how it grows.
    pub growth: Option<Growth>,
    /// What rates were held to.
    pub held: &'a Held,
    /// What was offered and how, as pairs of a name and a value.
    pub offered: &'a [(&'static str, String)],
    /// The command and what it read.
    pub origin: &'a Origin,
}

/// Writes the report beside the runs, its manifest last, gives the folder its name, and answers
/// with the seal: the SHA-256 of the manifest.
pub fn write(paper: &Paper<'_>, growing: Growing) -> Result<String, FolderError> {
    let folder = growing.part().to_owned();
    let mut hashes = BTreeMap::new();
    hash(&folder, "", &mut hashes)?;
    let is_rows = |name: &str| name.ends_with(&format!("/{}", crate::results::ROWS_FILE));
    let raw: Vec<(String, String)> =
        hashes.clone().into_iter().filter(|(name, _)| is_rows(name)).collect();
    for (name, text) in files(paper, &raw) {
        put(&folder.join(&name), &text)?;
        hashes.insert(name, digest::of_bytes(text.as_bytes()));
    }
    let manifest = manifest(paper, &hashes);
    put(&folder.join(MARKER), &manifest)?;
    growing.finish()?;
    Ok(digest::of_bytes(manifest.as_bytes()))
}

/// The files by name, but for the manifest; `raw` are the hashes of the rows that figures are made
/// of.
pub fn files(paper: &Paper<'_>, raw: &[(String, String)]) -> BTreeMap<String, String> {
    let figure = figure::figure(paper.capacity, paper.growth.map(|growth| growth.now_per_s));
    let svg = figure.drawing.file(figure.id, &figure.heading, &figure.caption);
    [
        ("capacity.json".to_owned(), paper.capacity.json(paper.growth)),
        ("criteria.toml".to_owned(), paper.held.criteria.canonical()),
        (format!("{}.svg", figure.id), svg),
        ("index.html".to_owned(), page::page(paper, &figure, raw)),
    ]
    .into()
}

fn manifest(paper: &Paper<'_>, files: &BTreeMap<String, String>) -> String {
    let named = |name: &String, sha256: &String| json!({ "name": name, "sha256": sha256 });
    let files: Vec<Value> = files.iter().map(|(name, hash)| named(name, hash)).collect();
    let inputs = paper.origin.inputs.iter();
    let inputs: Vec<Value> = inputs.map(|(name, hash)| named(name, hash)).collect();
    let manifest = json!({
        "kind": KIND_CAPACITY,
        "exit_code": paper.capacity.exit_code(),
        "capacity_per_s": paper.capacity.answer.rate,
        "answer": sentences(paper.capacity, paper.growth),
        "criteria_sha256": paper.held.criteria.hash(),
        "version": paper.origin.version,
        "command": paper.origin.command(),
        "inputs": inputs,
        "files": files,
    });
    let json = serde_json::to_string_pretty(&manifest);
    json.expect("strings and numbers are always JSON") + "\n"
}
