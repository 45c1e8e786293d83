//! Writes a run down while it happens.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use forebay_core::{Input, Moment, Output, Settings, WORDS_VERSION};
use forebay_wire::recording::{Ending, Header, Kind, RecordingError, Writer};

use super::RecordingFault;

/// Most bytes of one recording: hours of a busy pool, and less than a disk of today notices.
pub const RECORDING_BYTES_MAX: u64 = 2 << 30;

/// What a core began with.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// Its settings.
    pub settings: &'a Settings,
    /// Its seed.
    pub seed: u64,
    /// The names of the classes, in the order of their numbers.
    pub classes: &'a [String],
    /// The names of the tenants, in the order of their numbers.
    pub tenants: &'a [String],
}

/// Writes a run to a file that appears under its name once it is whole.
///
/// A run is not interrupted when the disk is full: what goes wrong is kept, and said by
/// [`Recorder::finish`].
#[derive(Debug)]
pub struct Recorder {
    file: PathBuf,
    draft: PathBuf,
    /// `None` once something went wrong.
    writer: Option<Writer<BufWriter<File>>>,
    failed: Option<RecordingError>,
    words: Vec<u64>,
}

impl Recorder {
    /// Begins a recording of at most `bytes_max` bytes.
    pub fn create(file: &Path, start: &Start<'_>, bytes_max: u64) -> Result<Self, RecordingFault> {
        let (draft, out) = create_draft(file)?;
        let mut settings = Vec::new();
        start.settings.to_words(&mut settings);
        let header = Header {
            words_version: WORDS_VERSION,
            program: concat!("forebay ", env!("CARGO_PKG_VERSION")).to_owned(),
            seed: start.seed,
            settings,
            classes: start.classes.to_vec(),
            tenants: start.tenants.to_vec(),
        };
        let mut recorder =
            Self { file: file.to_owned(), draft, writer: None, failed: None, words: Vec::new() };
        let writer = Writer::new(BufWriter::new(out), &header, bytes_max)
            .map_err(|error| fault(file, &error))?;
        recorder.writer = Some(writer);
        Ok(recorder)
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
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.write(kind, at.0, &self.words)
        {
            self.failed = Some(error);
            self.writer = None;
        }
    }

    /// Gives the file its name. False when the recording was cut at its bound.
    pub fn finish(mut self) -> Result<bool, RecordingFault> {
        if let Some(error) = self.failed.take() {
            return Err(fault(&self.file, &error));
        }
        let writer = self.writer.take().expect("a recorder without a writer has failed");
        let (_, ending) = writer.finish().map_err(|error| fault(&self.file, &error))?;
        std::fs::rename(&self.draft, &self.file)
            .map_err(|error| fault(&self.file, &error.into()))?;
        Ok(ending == Ending::Complete)
    }
}

impl Drop for Recorder {
    /// Takes the draft away when the run did not come to its end. After [`Recorder::finish`] there
    /// is none.
    fn drop(&mut self) {
        drop(self.writer.take());
        // Nothing can be done, and nobody told, when even this fails.
        let _ = std::fs::remove_file(&self.draft);
    }
}

/// The file that a recording is written to until it is whole, in the same folder.
pub(super) fn create_draft(file: &Path) -> Result<(PathBuf, File), RecordingFault> {
    let Some(name) = file.file_name().filter(|_| !file.is_dir()) else {
        return Err(RecordingFault {
            file: file.to_owned(),
            what: "a recording can't be written to a folder".to_owned(),
            remedy: "name a file inside it".to_owned(),
        });
    };
    let mut name = name.to_owned();
    name.push(".part");
    let draft = file.with_file_name(name);
    let out = File::create(&draft).map_err(|error| fault(file, &error.into()))?;
    Ok((draft, out))
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
