//! Opens a recording and turns its words into inputs and outputs.

use std::fs::File;
use std::path::{Path, PathBuf};

use forebay_core::{BadWords, Input, Moment, Output, Settings, WORDS_VERSION};
use forebay_wire::recording::{Ending, Header, Kind, Reader, RecordingError};

use super::RecordingFault;

/// What one record says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// The core was told this.
    Input(Input),
    /// The core said this.
    Output(Output),
}

/// A recording that is being read.
pub(crate) struct Opened {
    file: PathBuf,
    reader: Reader<File>,
    /// The settings the core began with.
    pub(crate) settings: Settings,
}

impl Opened {
    pub(crate) fn open(file: &Path) -> Result<Self, RecordingFault> {
        let bytes = File::open(file).map_err(|error| RecordingFault {
            file: file.to_owned(),
            what: format!("the recording can't be read: {error}"),
            remedy: "name a file that `--record` has written".to_owned(),
        })?;
        let reader = Reader::new(bytes).map_err(|error| fault(file, &error))?;
        let header = reader.header();
        if header.words_version != WORDS_VERSION {
            return Err(RecordingFault {
                file: file.to_owned(),
                what: format!(
                    "its decisions are written in layout {}, and this program reads layout \
                     {WORDS_VERSION}",
                    header.words_version
                ),
                remedy: format!("use the program that wrote it: {}", header.program),
            });
        }
        let settings = Settings::from_words(&header.settings)
            .map_err(|error| bad_words(file, "the settings in its header", error))?;
        usable(file, "the settings in its header", &settings)?;
        Ok(Self { file: file.to_owned(), reader, settings })
    }

    pub(crate) fn header(&self) -> &Header {
        self.reader.header()
    }

    /// How many records were read so far.
    pub(crate) fn records(&self) -> u64 {
        self.reader.records()
    }

    /// How it ends, once everything was read.
    pub(crate) fn ending(&self) -> Ending {
        self.reader.ending().unwrap_or(Ending::Torn)
    }

    /// The next record; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(Moment, Event)>, RecordingFault> {
        let Some(record) = self.reader.next() else { return Ok(None) };
        let record = record.map_err(|error| fault(&self.file, &error))?;
        let event = match record.kind {
            Kind::Input => Input::from_words(&record.words).map(Event::Input),
            Kind::Output => Output::from_words(&record.words).map(Event::Output),
        };
        let event = event.map_err(|error| {
            bad_words(&self.file, &format!("record {}", self.reader.records()), error)
        })?;
        if let Event::Input(Input::Reconfigured(settings)) = &event {
            usable(&self.file, &format!("record {}", self.reader.records()), settings)?;
        }
        Ok(Some((Moment(record.at), event)))
    }
}

/// Refuses settings that no core takes: no program of ours has written them.
fn usable(file: &Path, place: &str, settings: &Settings) -> Result<(), RecordingFault> {
    settings.faults().first().map_or(Ok(()), |first| {
        Err(RecordingFault {
            file: file.to_owned(),
            what: format!("{place} can't be used: {}: {}", first.place, first.what),
            remedy: "record the run again".to_owned(),
        })
    })
}

fn bad_words(file: &Path, place: &str, error: BadWords) -> RecordingFault {
    RecordingFault {
        file: file.to_owned(),
        what: format!("{place} can't be understood: {error}"),
        remedy: "use the program that wrote it, or record the run again".to_owned(),
    }
}

fn fault(file: &Path, error: &RecordingError) -> RecordingFault {
    let remedy = match error {
        RecordingError::Foreign => "name a file that `--record` has written",
        RecordingError::Version { .. } => "use the program that wrote it, or record the run again",
        RecordingError::Trailing => "take off what was appended, or copy the file again",
        RecordingError::Io(_) => "look after the disk, or copy the file again",
        _ => "copy the file again, in binary mode, or record the run again",
    };
    RecordingFault { file: file.to_owned(), what: error.to_string(), remedy: remedy.to_owned() }
}
