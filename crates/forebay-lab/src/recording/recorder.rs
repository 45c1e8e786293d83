//! Writes a run down while it happens.

use std::path::{Path, PathBuf};

use forebay_core::{Input, Moment, Output};
use forebay_service::Start;
use forebay_wire::recording::{Ending, Kind, RecordingError, Writer};

use super::RecordingFault;
use crate::whole_file::{UnwritableFile, WholeFile};

/// Most bytes of one recording: hours of a busy pool, and less than a disk of today notices.
pub const RECORDING_BYTES_MAX: u64 = 2 << 30;

/// Writes a run to a file that appears under its name once it is whole.
///
/// A run is not interrupted when the disk is full: what goes wrong is kept, and said by
/// [`Recorder::finish`].
#[derive(Debug)]
pub struct Recorder {
    file: PathBuf,
    /// What is written so far, or what went wrong.
    writer: Result<Writer<WholeFile>, RecordingError>,
    words: Vec<u64>,
}

impl Recorder {
    /// Begins a recording of at most `bytes_max` bytes.
    pub fn create(file: &Path, start: &Start<'_>, bytes_max: u64) -> Result<Self, RecordingFault> {
        let out = WholeFile::create(file)?;
        let writer = Writer::new(out, &start.header(), bytes_max);
        let writer = writer.map_err(|error| fault(file, &error))?;
        Ok(Self { file: file.to_owned(), writer: Ok(writer), words: Vec::new() })
    }

    /// Writes down what the core is told.
    pub fn input(&mut self, at: Moment, input: &Input) {
        self.words.clear();
        input.to_words(&mut self.words);
        self.write(Kind::Input, at);
    }

    /// Writes down what the core said, sleep included.
    pub fn output(&mut self, at: Moment, output: &Output) {
        self.words.clear();
        output.to_words(&mut self.words);
        self.write(Kind::Output, at);
    }

    fn write(&mut self, kind: Kind, at: Moment) {
        if let Ok(writer) = &mut self.writer
            && let Err(error) = writer.write(kind, at.0, &self.words)
        {
            self.writer = Err(error);
        }
    }

    /// Gives the file its name. False when the recording was cut at its bound.
    pub fn finish(self) -> Result<bool, RecordingFault> {
        let finished = self.writer.and_then(Writer::finish);
        let (out, ending) = finished.map_err(|error| fault(&self.file, &error))?;
        out.finish()?;
        Ok(ending == Ending::Complete)
    }
}

impl From<UnwritableFile> for RecordingFault {
    fn from(error: UnwritableFile) -> Self {
        fault(&error.file, &error.said.into())
    }
}

fn fault(file: &Path, error: &RecordingError) -> RecordingFault {
    let remedy = match error {
        RecordingError::Io(_) => "name a file in a folder that exists, may be written and has room",
        RecordingError::TooLong { .. } => "allow the recording more bytes",
        _ => "report this as a fault of the program, with the command that led here",
    };
    RecordingFault {
        file: file.to_owned(),
        what: format!("the recording can't be written: {error}"),
        remedy: remedy.to_owned(),
    }
}
