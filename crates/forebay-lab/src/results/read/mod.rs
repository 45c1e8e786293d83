//! Reads what a run left behind, ours or another tool's, and tells which it is by its content.

mod aiperf;
mod document;
mod guidellm;
mod lines;
mod own;
mod vllm;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    AIPERF_ROWS_FILE, AIPERF_SUMMARY_FILE, ROWS_FILE, Results, ResultsError, SUMMARY_FILE,
};

/// The largest JSON document of another tool that is read, in bytes: they hold a whole run as one
/// object, which has to be read into memory.
pub const DOCUMENT_BYTES_MAX: u64 = 1 << 30;

/// What can be read, for messages.
const KNOWN: &str = "name the folder or file of a run of forebay load, AIPerf (0.8 to 0.13), \
                     guidellm (benchmarks.json) or vllm bench serve (--save-result)";

/// What a run is read from.
enum Source {
    /// Rows of ours.
    Own(PathBuf),
    /// Rows of `AIPerf`.
    Aiperf(PathBuf),
    /// One JSON object, and the place of a benchmark in it, from 0.
    Document(PathBuf, Option<usize>),
}

/// Reads a run: a folder or a file. Of a file with several benchmarks one is named by `#` and its
/// place, from 1: `benchmarks.json#2`.
pub fn open(named: &Path) -> Result<Results, ResultsError> {
    match source(named)? {
        Source::Own(rows) => own::open(&rows),
        Source::Aiperf(rows) => aiperf::open(&rows),
        Source::Document(path, place) => document(&path, place),
    }
}

/// The files that [`open`] reads of a run, for their hashes.
pub fn files(named: &Path) -> Result<Vec<PathBuf>, ResultsError> {
    let (first, other) = match source(named)? {
        Source::Own(rows) => (rows, SUMMARY_FILE),
        Source::Aiperf(rows) => (rows, AIPERF_SUMMARY_FILE),
        // The summary of a run of ours leads to its rows.
        Source::Document(path, _) if path.ends_with(SUMMARY_FILE) => (path, ROWS_FILE),
        Source::Document(path, _) => return Ok(vec![path]),
    };
    let other = first.with_file_name(other);
    Ok([first, other].into_iter().filter(|file| file.is_file()).collect())
}

fn source(named: &Path) -> Result<Source, ResultsError> {
    let (path, place) = selected(named);
    let there = fs::metadata(&path).map_err(ResultsError::unreadable(&path))?;
    if there.is_dir() {
        return within(&path);
    }
    Ok(match first_object(&path) {
        Some(line) if line.get("scheduled_us").is_some() => Source::Own(path),
        Some(line) if line.get("metadata").is_some_and(Value::is_object) => {
            let is_document = line.get("benchmarks").is_some();
            if is_document { Source::Document(path, place) } else { Source::Aiperf(path) }
        }
        Some(_) | None => Source::Document(path, place),
    })
}

fn within(folder: &Path) -> Result<Source, ResultsError> {
    let has = |name: &str| Some(folder.join(name)).filter(|file| file.is_file());
    has(ROWS_FILE)
        .map(Source::Own)
        .or_else(|| has(AIPERF_ROWS_FILE).map(Source::Aiperf))
        .or_else(|| has(AIPERF_SUMMARY_FILE).map(|file| Source::Document(file, None)))
        .ok_or_else(|| ResultsError::of(folder, "holds no results of a run that is known", KNOWN))
}

/// Reads a file that is one JSON object.
fn document(path: &Path, place: Option<usize>) -> Result<Results, ResultsError> {
    let value = whole(path)?;
    let has = |key: &str| value.get(key).is_some();
    if value["schema"].as_str().is_some_and(|schema| schema.starts_with("forebay.results/")) {
        return own::open(&path.with_file_name(ROWS_FILE));
    }
    if let Some(benchmarks) = value["benchmarks"].as_array() {
        return guidellm::read(path, &value, benchmarks, place);
    }
    if has("aiperf_version") || has("request_latency") || has("error_request_count") {
        return Ok(Results::Figures(Box::new(aiperf::figures(&value))));
    }
    if has("duration") && has("completed") {
        return vllm::read(path, &value);
    }
    Err(ResultsError::of(path, "is no result that is known", KNOWN))
}

/// Reads a whole JSON document.
fn whole(path: &Path) -> Result<Value, ResultsError> {
    let file = File::open(path).map_err(ResultsError::unreadable(path))?;
    let mut text = Vec::new();
    let read = file.take(DOCUMENT_BYTES_MAX + 1).read_to_end(&mut text);
    read.map_err(ResultsError::unreadable(path))?;
    if text.len() as u64 > DOCUMENT_BYTES_MAX {
        let what = format!("is longer than {} MiB", DOCUMENT_BYTES_MAX >> 20);
        return Err(ResultsError::of(path, what, "split the run"));
    }
    serde_json::from_slice(&text).map_err(|error| {
        let line = Some(error.line() as u64);
        ResultsError { line, ..ResultsError::of(path, format!("is no JSON: {error}"), KNOWN) }
    })
}

/// The object on the first line, where that is one. A document on one line may be too long for a
/// line: it is told by what it is parsed as later.
fn first_object(path: &Path) -> Option<Value> {
    let mut lines = lines::Lines::open(path).ok()?;
    let is_there = lines.next_line().ok()?;
    is_there.then(|| serde_json::from_slice(lines.line()).ok()).flatten()
}

/// A file and, where it names one, the place of a benchmark in it, from 0.
fn selected(named: &Path) -> (PathBuf, Option<usize>) {
    let split = named.to_str().filter(|_| !named.exists()).and_then(|name| name.rsplit_once('#'));
    let chosen = split.and_then(|(file, place)| Some((file, place.parse::<usize>().ok()?)));
    match chosen.and_then(|(file, place)| Some((file, place.checked_sub(1)?))) {
        Some((file, place)) => (PathBuf::from(file), Some(place)),
        None => (named.to_owned(), None),
    }
}

/// The summary beside a file of rows, where there is one.
fn beside(rows: &Path, name: &str) -> Result<Option<Value>, ResultsError> {
    let path = rows.with_file_name(name);
    if path.is_file() { whole(&path).map(Some) } else { Ok(None) }
}

/// The summary of a run of ours beside its rows.
fn own_summary(rows: &Path) -> Result<Option<Value>, ResultsError> {
    beside(rows, SUMMARY_FILE)
}
