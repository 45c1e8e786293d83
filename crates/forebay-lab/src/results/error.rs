//! Says what is wrong with the files of a run: which file, which line, and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// What is wrong with the results of a run, or with the place they should be written to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}{}: {what}\nhint: {remedy}",
    file.display(),
    line.map(|line| format!(":{line}")).unwrap_or_default()
)]
pub struct ResultsError {
    /// The file or folder.
    pub file: PathBuf,
    /// The line, from 1, where one is at fault.
    pub line: Option<u64>,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl ResultsError {
    /// About a whole file or folder.
    pub(super) fn of(file: &Path, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, what: what.into(), remedy: remedy.into() }
    }

    /// A file or folder that can't be written.
    pub(super) fn unwritable(file: &Path) -> impl FnOnce(io::Error) -> Self {
        |said| {
            let remedy = "name a folder that can be written, on a disk with room";
            Self::of(file, said.to_string(), remedy)
        }
    }

    /// A file that can't be read.
    pub(super) fn unreadable(file: &Path) -> impl FnOnce(io::Error) -> Self {
        |said| Self::of(file, said.to_string(), "name a file or folder that exists and may be read")
    }
}
