//! Reads arms from the words that name them: one way for every command that takes results.
//!
//! | word | is |
//! |---|---|
//! | `PATH` | an arm of one run, ours or another tool's; a folder of `block-*` is a run for each |
//! | `PATH,PATH` | an arm with a run for each |
//! | `NAME=…` | the same under this name; words with one name are runs of one arm |
//! | `DRILL/CELL` | all arms of a cell of a live drill, see [`super::drilled`] |

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::drilled::{self, Found};
use super::{Arm, Block, Options};
use crate::live::simulated;
use crate::results::{self, ResultsError};

/// How the folders of blocks of one arm begin.
const BLOCK: &str = "block-";
/// What stands beside the folder of a block of a live drill, and how it ends.
const SERVERS: &str = ".servers.json";

/// What words named.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The arms in the order of the words.
    pub arms: Vec<Arm>,
    /// Every file that was read.
    pub files: Vec<PathBuf>,
    /// What the servers of a live drill counted, by label.
    pub counted: BTreeMap<String, ServerCount>,
    /// What the simulation beside a live drill came to, by label.
    pub simulated: BTreeMap<String, simulated::Figures>,
    /// What the looks of a live drill have left of the confidence.
    pub confidence: Option<f64>,
    /// What a reader should know of how they were read.
    pub notes: Vec<String>,
}

/// Refused attempts as the server of an arm counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCount {
    /// How many, over all valid runs.
    pub refused: u64,
    /// In each run as many as its clients saw; `None` where nobody looked at runs one by one.
    pub agrees: Option<bool>,
}

impl Given {
    /// Reads what words name. `labels` name the arms of the first words, in their order. Without a
    /// name an arm has that of its first run, or else of its path.
    pub fn read(words: &[String], labels: &[String]) -> Result<Self, ResultsError> {
        let mut given = Self::default();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (nth, word) in words.iter().enumerate() {
            let (said, named) = split(word);
            let label = labels.get(nth).map(String::as_str);
            if let (Some(said), Some(label)) = (said, label) {
                let what = format!("is named twice, {said} and {label}");
                return Err(fault(word, what, "leave --label out"));
            }
            if let Some(found) = drilled::find(Path::new(named))? {
                given.take(found, said.or(label))?;
                continue;
            }
            let place = said.and_then(|said| places.get(said).copied());
            let mut runs = Vec::new();
            for path in paths(named) {
                runs.extend(blocks(path)?);
            }
            given.add(&runs, said.or(label), named, place)?;
            let last = given.arms.len() - 1;
            places.extend(said.map(|said| (said.to_owned(), place.unwrap_or(last))));
        }
        Ok(given)
    }

    /// How to compare: with the confidence that is left, where looks have cost some.
    pub fn options(&self, seed: u64, resamples: u32) -> Options {
        let confidence = self.confidence.unwrap_or(Options::default().confidence);
        Options { seed, resamples, confidence }
    }

    /// Reads runs as one arm, or as more of the one at a place.
    fn add(
        &mut self,
        paths: &[PathBuf],
        label: Option<&str>,
        named: &str,
        place: Option<usize>,
    ) -> Result<(), ResultsError> {
        let mut runs = Vec::new();
        let mut counts = Vec::new();
        for path in paths {
            self.files.extend(results::files(path)?);
            let results = results::open(path)?;
            if results.about().is_valid() {
                counts.push(count(path, &mut self.files));
            }
            runs.push(Block { from: path.display().to_string(), results });
        }
        let own = runs.first().map(|run: &Block| run.results.about().label.clone());
        let own = own.filter(|label| !label.is_empty());
        let label = label.map(str::to_owned).or(own).unwrap_or_else(|| shortened(named));
        // Only where each run was counted is the sum one of all.
        let counts: Option<Vec<ServerCount>> = counts.into_iter().collect();
        match (place, counts.filter(|all| !all.is_empty())) {
            (None, Some(counts)) => {
                self.counted.insert(label.clone(), ServerCount::of(&counts));
            }
            (Some(_), Some(more)) => {
                let sum = self.counted.get(&label).map(|sum| [&[*sum], &more[..]].concat());
                self.counted.extend(sum.map(|all| (label.clone(), ServerCount::of(&all))));
            }
            (_, None) => drop(self.counted.remove(&label)),
        }
        match place {
            Some(place) => self.arms[place].runs.extend(runs),
            None => self.arms.push(Arm { label, runs }),
        }
        Ok(())
    }

    /// Reads all arms of a cell of a live drill.
    fn take(&mut self, found: Found, label: Option<&str>) -> Result<(), ResultsError> {
        if let Some(label) = label {
            let arms = found.names();
            let what = format!("can't be called {label}: it is {arms}, which have names");
            let remedy = format!("leave the name out, or name one arm, such as {}", found.last());
            return Err(fault(&found.folder.display().to_string(), what, remedy));
        }
        for (name, blocks) in &found.arms {
            self.add(blocks, Some(name), name, None)?;
        }
        // The most careful of several cells holds for all.
        self.confidence = match (self.confidence, found.confidence) {
            (Some(one), Some(other)) => Some(f64::max(one, other)),
            (one, other) => one.or(other),
        };
        self.simulated.extend(found.simulated);
        self.files.extend(found.files);
        self.notes.extend(found.notes);
        Ok(())
    }
}

impl ServerCount {
    fn of(counts: &[Self]) -> Self {
        let refused = counts.iter().map(|count| count.refused).sum();
        let agrees = counts.iter().map(|count| count.agrees).collect::<Option<Vec<bool>>>();
        Self { refused, agrees: agrees.map(|all| all.into_iter().all(|agrees| agrees)) }
    }
}

/// A name before `=`, and what it names. What is there as it stands is no name.
fn split(word: &str) -> (Option<&str>, &str) {
    let is_there = paths(word).next().is_some_and(|path| Path::new(path).exists());
    match word.split_once('=') {
        Some((name, named)) if !is_there && !name.is_empty() && !name.contains(['/', ',']) => {
            (Some(name), named)
        }
        _ => (None, word),
    }
}

/// Paths with commas between them; one that is there as it stands may have commas in it.
fn paths(named: &str) -> impl Iterator<Item = &str> {
    let whole = Path::new(named).exists();
    let parts = named.split(move |letter| letter == ',' && !whole);
    parts.filter(|path| !path.is_empty())
}

/// The last part of the first path, without the ending of a file.
fn shortened(named: &str) -> String {
    let first = paths(named).next().unwrap_or(named);
    let path = Path::new(first);
    let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
    name.map_or_else(|| first.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The blocks within a folder by their number; none where it has none.
pub(super) fn blocks_within(folder: &Path) -> Result<Vec<PathBuf>, ResultsError> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut blocks: Vec<(u64, PathBuf)> = Vec::new();
    for entry in entries {
        let entry = entry
            .map_err(|said| fault(&folder.display().to_string(), said.to_string(), READABLE))?;
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(BLOCK));
        // What a run under way, or one that was killed, has left is named by whoever wants it.
        let is_block =
            |rest: &&str| ![SERVERS, ".part", ".replaced"].iter().any(|end| rest.ends_with(end));
        if let Some(rest) = rest.filter(is_block) {
            let number = rest.split(|letter: char| !letter.is_ascii_digit()).next();
            let number = number.and_then(|number| number.parse().ok()).unwrap_or(u64::MAX);
            blocks.push((number, entry.path()));
        }
    }
    blocks.sort();
    Ok(blocks.into_iter().map(|(_, block)| block).collect())
}

const READABLE: &str = "name a folder that may be read";

/// The blocks within a folder, or the path itself.
fn blocks(path: &str) -> Result<Vec<PathBuf>, ResultsError> {
    let blocks = blocks_within(Path::new(path))?;
    Ok(if blocks.is_empty() { vec![PathBuf::from(path)] } else { blocks })
}

/// What the server counted during a block of a live drill.
fn count(block: &Path, files: &mut Vec<PathBuf>) -> Option<ServerCount> {
    let mut name = block.file_name()?.to_os_string();
    name.push(SERVERS);
    let file = block.with_file_name(name);
    let text = fs::read(&file).ok()?;
    files.push(file);
    let seen: serde_json::Value = serde_json::from_slice(&text).ok()?;
    if seen["refusals_unreadable"] == true {
        return Some(ServerCount { refused: 0, agrees: Some(false) });
    }
    let refused = seen["refused_by_server"].as_u64()?;
    Some(ServerCount { refused, agrees: Some(seen["refused_by_clients"] == refused) })
}

/// What is wrong with something that was named.
pub(super) fn fault(
    named: &str,
    what: impl Into<String>,
    remedy: impl Into<String>,
) -> ResultsError {
    let (file, what) = (PathBuf::from(named), what.into());
    ResultsError { file, line: None, what, remedy: remedy.into() }
}

#[cfg(test)]
mod tests;
