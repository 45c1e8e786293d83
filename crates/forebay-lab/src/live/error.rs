//! Says why a live drill came to no end.

use std::path::PathBuf;

use super::process::ProcessError;
use crate::compare::CompareError;
use crate::load::{TargetError, TlsError, TokenizerError, WorkloadError};
use crate::results::ResultsError;
use crate::simulate::SimulateError;
use crate::trace::TraceError;

/// Why a live drill came to no end.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// A program does not start, or does not become ready.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// What runs already does not answer.
    #[error("{name} at {url}: {said}\nhint: start it first, or let the drill do so by `command`")]
    Absent {
        /// The arm, or "a worker".
        name: String,
        /// Where it was asked.
        url: String,
        /// What came back.
        said: String,
    },
    /// Somebody answers where an arm is to be started.
    #[error(
        "{name}: something answers at {url} before it is started\nhint: end that first, or let the \
         drill choose with {{port}} in `command` and `url`"
    )]
    Occupied {
        /// The arm.
        name: String,
        /// Where.
        url: String,
    },
    /// A question that must be answered before a block was not.
    #[error(
        "{name} does not {what}: {said}\nhint: mend `reset` in the drill's file, or leave it out"
    )]
    Hook {
        /// Who was asked.
        name: String,
        /// What it was asked.
        what: String,
        /// What came back.
        said: String,
    },
    /// Somewhere nothing can be asked.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Certificates can't be read.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A class or tenant of the trace can't be said.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The tokenizer can't be used.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The trace can't be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A run can't be written.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// Runs can't be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// The simulation beside them can't be made.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
    /// A file can't be written.
    #[error("{}: {said}\nhint: name a folder with --out that can be written", file.display())]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        said: std::io::Error,
    },
    /// The folder holds something else.
    #[error(
        "{}: exists and is not empty\nhint: name a new folder with --out; a drill's runs are never \
         replaced",
        .0.display()
    )]
    Taken(PathBuf),
    /// There is no port that nobody listens on.
    #[error("no free port: {0}\nhint: end programs that hold many sockets")]
    NoPort(std::io::Error),
    /// A key that the file names is not there.
    #[error(
        "the environment has no {0}\nhint: set it to the key, or take `key_env` out of the file"
    )]
    NoKey(String),
}
