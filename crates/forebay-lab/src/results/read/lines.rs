//! Reads a file line by line in bounded memory, and knows which line it is at.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::super::ResultsError;
use crate::trace::LINE_BYTES_MAX;

/// The lines of a file.
pub(super) struct Lines {
    path: PathBuf,
    file: BufReader<File>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self, ResultsError> {
        let file = File::open(path).map_err(ResultsError::unreadable(path))?;
        let (path, file) = (path.to_owned(), BufReader::new(file));
        Ok(Self { path, file, line: Vec::new(), number: 0 })
    }

    /// Moves on to the next line that is not blank; false at the end.
    pub(super) fn next_line(&mut self) -> Result<bool, ResultsError> {
        loop {
            self.line.clear();
            let mut bounded = (&mut self.file).take(LINE_BYTES_MAX + 1);
            let read = bounded.read_until(b'\n', &mut self.line);
            let read = read.map_err(ResultsError::unreadable(&self.path))?;
            self.number += 1;
            if read as u64 > LINE_BYTES_MAX {
                let what = format!("the line is longer than {} MiB", LINE_BYTES_MAX >> 20);
                return Err(self.fault(&what));
            }
            if read == 0 {
                return Ok(false);
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    pub(super) fn line(&self) -> &[u8] {
        &self.line
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Whether the line was cut: only the last one of a file that was not finished is.
    pub(super) fn is_cut(&self) -> bool {
        self.line.last() != Some(&b'\n')
    }

    pub(super) fn fault(&self, what: &str) -> ResultsError {
        let remedy = "one request a line is expected, as the tool wrote it";
        ResultsError { line: Some(self.number), ..ResultsError::of(&self.path, what, remedy) }
    }

    /// A line that is a row, and can't be true.
    fn untrue(&self, what: String) -> ResultsError {
        let remedy = "the file was changed, or what wrote it is at fault; measure it again";
        ResultsError { line: Some(self.number), ..ResultsError::of(&self.path, what, remedy) }
    }

    /// Takes each line apart, as one item each, up to a bound, and checks it. A last line that was
    /// cut is told of instead of failing: a run that was killed leaves one.
    pub(super) fn each<T: serde::de::DeserializeOwned>(
        mut self,
        most: u64,
        check: impl Fn(&T) -> Result<(), String>,
    ) -> Result<(Vec<T>, Option<String>), ResultsError> {
        let mut items = Vec::new();
        while self.next_line()? {
            if items.len() as u64 == most {
                return Err(self.fault(&format!("a run has at most {most} requests")));
            }
            match serde_json::from_slice(&self.line) {
                Ok(item) => {
                    check(&item).map_err(|what| self.untrue(what))?;
                    items.push(item);
                }
                Err(_) if self.is_cut() && !items.is_empty() => {
                    let line = self.number();
                    let note = format!("line {line} is cut: the run was killed; the rest was read");
                    return Ok((items, Some(note)));
                }
                Err(error) => return Err(self.fault(&format!("is no row: {error}"))),
            }
        }
        Ok((items, None))
    }
}
