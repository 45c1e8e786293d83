//! Records every pool's core, so that a replay decides the same again.
//!
//! | module | answers |
//! |---|---|
//! | `writer` | how do the records get to the disk, without anybody waiting for it? |
//! | `folder` | which recordings stay, and for how long? |
//!
//! A core can't be started in its midst, and a recording must have no holes. So a recording begins
//! with the process, one file for each pool, and ends at its bound: it says so loudly, and is whole
//! up to there. What was decided lately is at `/admin/explain` all the same. As many bytes as a run
//! may record are kept of the runs before it, the latest of them: whoever restarts after an
//! incident still has it.
//!
//! A run's files are called `….rec.part` until it ends. After a crash they keep that name, and can
//! be replayed up to their last whole record.

mod folder;
#[cfg(test)]
mod tests;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use forebay_core::{Input, Moment, Output};
use forebay_service::Start;
use forebay_wire::recording::{Kind, RecordingError};

use crate::clock::Clock;
use crate::pool::Diary;
pub(crate) use writer::Recording;

/// A recording that can't be begun: where, what, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}\nhint: {remedy}", file.display())]
pub struct UnwritableRecording {
    file: PathBuf,
    what: String,
    remedy: &'static str,
}

impl UnwritableRecording {
    /// A folder that can't be used.
    pub(crate) fn new(folder: &Path, error: &io::Error) -> Self {
        Self {
            file: folder.to_owned(),
            what: format!("recordings can't be kept there: {error}"),
            remedy: "name a folder that may be written",
        }
    }
}

/// The recordings of one run.
#[derive(Debug)]
pub(crate) struct Recordings {
    folder: PathBuf,
    /// When the run began, in milliseconds since 1970: the beginning of its files' names.
    began: u64,
    bytes_max: u64,
    states: Vec<Arc<Recording>>,
    writers: Vec<JoinHandle<()>>,
}

impl Recordings {
    /// Makes room in a folder, which is made if it is not there, for recordings of so many pools,
    /// of at most so many bytes each.
    pub(crate) fn prepare(
        folder: &Path,
        bytes_max: u64,
        pools: usize,
        clock: &Clock,
    ) -> Result<Self, UnwritableRecording> {
        let before = bytes_max.saturating_mul(pools as u64);
        folder::prune(folder, before).map_err(|error| UnwritableRecording::new(folder, &error))?;
        Ok(Self {
            folder: folder.to_owned(),
            began: clock.unix_millis(clock.now()),
            bytes_max,
            states: Vec::new(),
            writers: Vec::new(),
        })
    }

    /// Begins the recording of the next pool, in the order of their numbers.
    pub(crate) fn begin(
        &mut self,
        pool: &str,
        start: &Start<'_>,
    ) -> Result<Box<dyn Diary>, UnwritableRecording> {
        let name = folder::file_name(self.began, self.states.len(), pool);
        let file = self.folder.join(name);
        let begun = writer::begin(&file, &start.header(), self.bytes_max);
        let (recording, writer) = begun.map_err(|error| UnwritableRecording {
            file,
            what: format!("the recording can't be begun: {error}"),
            remedy: match error {
                RecordingError::TooLong { .. } => "allow the recordings more bytes",
                _ => "name a folder that may be written and has room",
            },
        })?;
        self.states.push(Arc::clone(&recording));
        self.writers.push(writer);
        Ok(Box::new(Recorder { recording, words: Vec::new() }))
    }

    /// The recordings' states, by pool, for metrics.
    pub(crate) fn states(&self) -> Vec<Arc<Recording>> {
        self.states.clone()
    }

    /// Ends all recordings and gives the files their names. Whatever a core is told after that is
    /// not recorded any more.
    pub(crate) fn finish(self) {
        self.states.iter().for_each(|recording| recording.close());
        for writer in self.writers {
            // A writer that panicked has said so itself.
            drop(writer.join());
        }
    }
}

/// Records one core.
struct Recorder {
    recording: Arc<Recording>,
    words: Vec<u64>,
}

impl Recorder {
    fn note(&mut self, kind: Kind, now: Moment, put: impl FnOnce(&mut Vec<u64>)) {
        if !self.recording.goes_on() {
            return;
        }
        self.words.clear();
        put(&mut self.words);
        self.recording.note(kind, now, &self.words);
    }
}

impl Diary for Recorder {
    fn told(&mut self, now: Moment, input: &Input) {
        self.note(Kind::Input, now, |words| input.to_words(words));
    }
    fn said(&mut self, now: Moment, output: &Output) {
        self.note(Kind::Output, now, |words| output.to_words(words));
    }
}
