//! Writes a trace to a file as a whole or not at all.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::{Requests, TraceError, write_request};
use crate::whole_file::{UnwritableFile, WholeFile};

/// Why a trace was not written.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file could not be written.
    #[error(transparent)]
    File(#[from] UnwritableFile),
    /// The reader of the output went away or its disk is full.
    #[error("the output could not be written: {0}\nhint: see that there is room for it")]
    Output(io::Error),
}

impl SaveError {
    /// Whether whoever reads the output has had enough, as `head` does: no failure of ours.
    pub fn is_broken_pipe(&self) -> bool {
        let said = match self {
            Self::Output(said) | Self::File(UnwritableFile { said, .. }) => said,
            Self::Trace(_) => return false,
        };
        said.kind() == io::ErrorKind::BrokenPipe
    }
}

/// Writes all requests as JSON lines, and gives their number.
pub fn write_requests(out: impl Write, requests: Requests) -> Result<u64, SaveError> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let mut written = 0;
    for request in requests {
        match request {
            Ok(request) => write_request(&mut out, &request).map_err(SaveError::Output)?,
            Err(error) => {
                // Lines before the fault stay unwritten where they still can: half a trace
                // misleads.
                let _ = out.into_parts();
                return Err(error.into());
            }
        }
        written += 1;
    }
    out.flush().map_err(SaveError::Output)?;
    Ok(written)
}

/// Writes all requests to a file, which is there in whole afterwards or as it was before. Gives
/// their number.
pub fn save(path: &Path, requests: Requests) -> Result<u64, SaveError> {
    let mut file = WholeFile::create(path)?;
    let written = write_requests(&mut file, requests).map_err(|error| match error {
        SaveError::Output(said) => UnwritableFile { file: path.to_path_buf(), said }.into(),
        other => other,
    })?;
    file.finish()?;
    Ok(written)
}
