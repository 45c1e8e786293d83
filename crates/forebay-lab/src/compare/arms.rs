//! Reads the results of an arm: one run, several, or a folder of blocks.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Arm, Block};
use crate::results::{self, ResultsError};

/// How the folders of blocks of one arm begin.
const BLOCK: &str = "block-";

/// Reads an arm: paths with commas between them, of which each is a run, or a folder of `block-*`
/// folders. `label` names it; without one its first run does, or its path.
pub fn read(named: &str, label: Option<&str>) -> Result<Arm, ResultsError> {
    let mut runs = Vec::new();
    for path in named.split(',').filter(|path| !path.is_empty()) {
        for path in blocks(Path::new(path))? {
            let results = results::open(&path)?;
            runs.push(Block { from: path.display().to_string(), results });
        }
    }
    let own = runs.first().map(|run| run.results.about().label.clone());
    let label = label.map(str::to_owned).or(own.filter(|label| !label.is_empty()));
    Ok(Arm { label: label.unwrap_or_else(|| shortened(named)), runs })
}

/// The last part of the first path.
fn shortened(named: &str) -> String {
    let first = named.split(',').next().unwrap_or(named);
    let name = Path::new(first).file_stem().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| first.to_owned())
}

/// The folders of blocks within a folder by their number, or the path itself.
fn blocks(path: &Path) -> Result<Vec<PathBuf>, ResultsError> {
    let Ok(entries) = fs::read_dir(path) else { return Ok(vec![path.to_owned()]) };
    let mut blocks: Vec<(u64, PathBuf)> = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|said| unreadable(path, &said))?;
        let name = entry.file_name();
        if let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(BLOCK)) {
            let number = rest.split(|letter: char| !letter.is_ascii_digit()).next();
            let number = number.and_then(|number| number.parse().ok()).unwrap_or(u64::MAX);
            blocks.push((number, entry.path()));
        }
    }
    blocks.sort();
    let blocks: Vec<PathBuf> = blocks.into_iter().map(|(_, block)| block).collect();
    Ok(if blocks.is_empty() { vec![path.to_owned()] } else { blocks })
}

fn unreadable(folder: &Path, said: &std::io::Error) -> ResultsError {
    let remedy = "name a folder that may be read".to_owned();
    ResultsError { file: folder.to_owned(), line: None, what: said.to_string(), remedy }
}
