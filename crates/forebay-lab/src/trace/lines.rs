//! Reads a file line by line in bounded memory, and says which line is at fault.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use super::TraceError;

/// The longest line that is read, in bytes. A prompt of a million tokens with an id for every 16
/// takes 1.3 MB; what `AIPerf` rows carry beside that, whole conversations as text, has room in the
/// rest.
pub const LINE_BYTES_MAX: u64 = 16 << 20;

/// The lines of one file, without their ends, and the number of the current one.
pub(super) struct Lines {
    reader: Box<dyn BufRead>,
    file: PathBuf,
    number: u64,
    buffer: Vec<u8>,
    complete: bool,
}

impl Lines {
    pub(super) fn new(reader: Box<dyn BufRead>, file: &Path) -> Self {
        let file = file.to_path_buf();
        Self { reader, file, number: 0, buffer: Vec::new(), complete: true }
    }

    /// Moves on to the next line that is not blank; false at the end of the file.
    pub(super) fn advance(&mut self) -> Result<bool, TraceError> {
        loop {
            self.buffer.clear();
            let mut bounded = (&mut self.reader).take(LINE_BYTES_MAX + 1);
            let read = bounded.read_until(b'\n', &mut self.buffer);
            self.number += 1;
            match read {
                Ok(0) => return Ok(false),
                Ok(read) if read as u64 > LINE_BYTES_MAX => {
                    let what = format!("the line is longer than {} MiB", LINE_BYTES_MAX >> 20);
                    return Err(self.fault(what, "one request a line is expected, as JSON or CSV"));
                }
                Ok(_) => {}
                Err(error) => {
                    return Err(self.fault(error.to_string(), "see whether it reads well"));
                }
            }
            self.complete = self.buffer.last() == Some(&b'\n');
            if self.complete {
                self.buffer.pop();
            }
            if self.buffer.last() == Some(&b'\r') {
                self.buffer.pop();
            }
            if !self.buffer.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    /// The current line.
    pub(super) fn line(&self) -> &[u8] {
        &self.buffer
    }

    /// Its number, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the current line has an end; only a file's last line may lack it.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// An error about the current line.
    pub(super) fn fault(&self, what: impl Into<String>, remedy: impl Into<String>) -> TraceError {
        TraceError {
            file: self.file.clone(),
            line: Some(self.number),
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}
