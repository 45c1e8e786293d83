//! Reads the folders that `forebay load` leaves behind, as arms to compare.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::compare::{Arm, Block};
use crate::results::{About, ROWS_FILE, Results, ResultsError, Row, Run, SUMMARY_FILE};

/// The most bytes of one row: hundreds of thousands of chunks.
const ROW_BYTES_MAX: u64 = 64 << 20;

/// What of a summary is read: the figures are made anew from the rows.
#[derive(Deserialize)]
struct Head {
    schema: String,
    about: About,
}

/// Arms from words such as `hold=runs/1` or `runs/1`: a label and the folder of a run. Words with
/// one label are runs of one arm. Without a label it is the run's own, else the folder's name.
pub fn arms(words: &[String]) -> Result<(Vec<Arm>, Vec<PathBuf>), ResultsError> {
    let mut arms: Vec<Arm> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut files = Vec::new();
    for word in words {
        let (label, folder) = match word.split_once('=') {
            Some((label, folder)) if !Path::new(word).exists() => (Some(label), Path::new(folder)),
            _ => (None, Path::new(word.as_str())),
        };
        let run = run(folder)?;
        files.extend([folder.join(ROWS_FILE), folder.join(SUMMARY_FILE)]);
        let named = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let own = Some(run.about.label.clone()).filter(|label| !label.is_empty());
        let label = label.map(str::to_owned).or(own).or(named).unwrap_or_else(|| word.clone());
        let place = *places.entry(label.clone()).or_insert(arms.len());
        if place == arms.len() {
            arms.push(Arm { label, runs: Vec::new() });
        }
        let results = Results::Run(Box::new(run));
        arms[place].runs.push(Block { from: folder.display().to_string(), results });
    }
    Ok((arms, files))
}

/// The run in a folder.
pub fn run(folder: &Path) -> Result<Run, ResultsError> {
    let fault = |file: &Path, line: Option<u64>, what: String| ResultsError {
        file: file.to_owned(),
        line,
        what,
        remedy: "name a folder that `forebay load` wrote".to_owned(),
    };
    let summary = folder.join(SUMMARY_FILE);
    let text = std::fs::read(&summary).map_err(|said| fault(&summary, None, said.to_string()))?;
    let head: Head = serde_json::from_slice(&text)
        .map_err(|error| fault(&summary, Some(error.line() as u64), error.to_string()))?;
    if head.schema != crate::results::SCHEMA {
        return Err(fault(&summary, None, format!("its schema is {:?}", head.schema)));
    }
    let file = folder.join(ROWS_FILE);
    let opened = File::open(&file).map_err(|said| fault(&file, None, said.to_string()))?;
    let mut lines = BufReader::new(opened);
    let mut rows: Vec<Row> = Vec::new();
    let mut line = Vec::new();
    for nth in 1.. {
        line.clear();
        let mut bounded = std::io::Read::take(&mut lines, ROW_BYTES_MAX);
        let length = bounded
            .read_until(b'\n', &mut line)
            .map_err(|said| fault(&file, Some(nth), said.to_string()))?;
        if length == 0 {
            break;
        }
        let row = serde_json::from_slice(&line)
            .map_err(|error| fault(&file, Some(nth), format!("no row: {error}")))?;
        rows.push(row);
    }
    Ok(Run { about: head.about, rows })
}

#[cfg(test)]
mod tests {
    use super::arms;
    use crate::report::live::fixture::Stage;
    use crate::results::{FolderOptions, Results, RunFolder};

    #[test]
    fn folders_become_arms_and_equal_labels_one_arm() {
        let root = std::env::temp_dir().join(format!("forebay-{}-read", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let stage = Stage::bursts();
        let Results::Run(run) = &stage.arms[0].runs[0].results else { panic!("rows are known") };
        let write = |name: &str| {
            let options = FolderOptions { started_unix_ms: 0, aiperf: false };
            let folder = root.join(name);
            let mut out = RunFolder::create(&folder, options).unwrap();
            run.rows.iter().for_each(|row| out.push(row).unwrap());
            out.finish(&run.about).unwrap();
            folder.display().to_string()
        };
        let (one, other) = (write("one"), write("other"));
        let words = [one.clone(), format!("x={other}"), format!("x={one}")];
        let (arms, files) = arms(&words).unwrap();
        assert_eq!((arms[0].label.as_str(), arms[1].label.as_str()), ("calm", "x"));
        assert_eq!((arms.len(), arms[1].runs.len(), files.len()), (2, 2, 6));
        let Results::Run(read) = &arms[0].runs[0].results else { panic!("rows are known") };
        assert_eq!(read.rows.len(), run.rows.len());
        let told = super::arms(&["/no/such".to_owned()]).unwrap_err().to_string();
        assert!(told.contains("summary.json") && told.contains("hint: "), "{told}");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
