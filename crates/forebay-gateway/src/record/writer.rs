//! Takes records from under a pool's lock to the disk: the lock's holder copies words into memory,
//! and a thread of its own does the rest.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use forebay_core::Moment;
use forebay_wire::recording::{Header, Kind, RecordingError, Writer};

/// Most words that wait for the disk: 32 MiB. A disk that is that far behind ends the recording.
const WORDS_MAX: usize = 4 << 20;
/// The writer is woken at once when so many words wait.
const WORDS_MANY: usize = 128 << 10;
/// Otherwise records wait this long at most: what a crash can lose.
const WAIT: Duration = Duration::from_millis(200);

/// What the holder of a pool's lock and the recording's writer share.
#[derive(Debug)]
pub(crate) struct Recording {
    waiting: Mutex<Batch>,
    changed: Condvar,
    /// Everything that comes is still recorded.
    goes_on: AtomicBool,
    bytes: AtomicU64,
}

/// Records that wait for the disk.
#[derive(Debug, Default)]
struct Batch {
    /// What each is, when it was, and how many words it has.
    records: Vec<(Kind, Moment, usize)>,
    words: Vec<u64>,
    /// Nothing more will come.
    closed: bool,
    /// Something is missing after the last record.
    is_cut: bool,
}

impl Recording {
    fn new() -> Self {
        Self {
            waiting: Mutex::default(),
            changed: Condvar::new(),
            goes_on: AtomicBool::new(true),
            bytes: AtomicU64::new(0),
        }
    }

    /// Whether everything that comes is still recorded.
    pub(crate) fn goes_on(&self) -> bool {
        self.goes_on.load(Ordering::Relaxed)
    }

    /// Bytes of the file so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes a record in. The lock is free but for the moments in which the writer takes the batch
    /// away, which is the swap of a few pointers.
    pub(super) fn note(&self, kind: Kind, at: Moment, words: &[u64]) {
        let mut waiting = self.lock();
        if waiting.closed {
            return;
        }
        if waiting.words.len() + words.len() > WORDS_MAX {
            (waiting.closed, waiting.is_cut) = (true, true);
            drop(waiting);
            self.goes_on.store(false, Ordering::Relaxed);
            self.changed.notify_one();
            return;
        }
        let before = waiting.words.len();
        waiting.records.push((kind, at, words.len()));
        waiting.words.extend_from_slice(words);
        let is_many = before < WORDS_MANY && waiting.words.len() >= WORDS_MANY;
        drop(waiting);
        if is_many {
            self.changed.notify_one();
        }
    }

    /// Ends the recording after what came so far.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.goes_on.store(false, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Waits for records, and exchanges them for an empty batch.
    fn take(&self, empty: Batch) -> Batch {
        let waiting = self.lock();
        let is_few = |batch: &mut Batch| !batch.closed && batch.words.len() < WORDS_MANY;
        let waited = self.changed.wait_timeout_while(waiting, WAIT, is_few);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let closed = waiting.closed;
        let batch = std::mem::replace(&mut *waiting, empty);
        waiting.closed = closed;
        batch
    }

    fn lock(&self) -> MutexGuard<'_, Batch> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Begins a recording, with a thread that writes it.
pub(super) fn begin(
    file: &Path,
    header: &Header,
    bytes_max: u64,
) -> Result<(Arc<Recording>, JoinHandle<()>), RecordingError> {
    let recording = Arc::new(Recording::new());
    let mut draft = file.as_os_str().to_owned();
    draft.push(".part");
    let draft = PathBuf::from(draft);
    let out = Counted {
        out: BufWriter::new(File::create_new(&draft)?),
        recording: Arc::clone(&recording),
    };
    let begun = Writer::new(out, header, bytes_max).and_then(|mut writer| {
        writer.flush()?;
        Ok(writer)
    });
    let writer = match begun {
        Ok(writer) => writer,
        Err(error) => {
            // A file without a header is of no use; that the first fault is told is.
            let _ = fs::remove_file(&draft);
            return Err(error);
        }
    };
    let file = file.to_owned();
    let shared = Arc::clone(&recording);
    let name = "forebay-recorder".to_owned();
    let thread = thread::Builder::new().name(name).spawn(move || {
        let written = write_all(&shared, writer).and_then(|()| Ok(fs::rename(&draft, &file)?));
        shared.close();
        if let Err(error) = written {
            let file = draft.display();
            tracing::error!(%file, %error, "a recording has ended early: it can't be written");
        }
    })?;
    Ok((recording, thread))
}

/// Writes until the recording is closed, or has reached its bound.
fn write_all(shared: &Recording, mut writer: Writer<Counted>) -> Result<(), RecordingError> {
    let mut batch = Batch::default();
    loop {
        batch.records.clear();
        batch.words.clear();
        batch = shared.take(batch);
        let mut words = batch.words.as_slice();
        for (kind, at, len) in &batch.records {
            let (its, rest) = words.split_at(*len);
            words = rest;
            writer.write(*kind, at.0, its)?;
        }
        if batch.is_cut {
            writer.cut();
        }
        if writer.is_cut() {
            shared.close();
            let why = if batch.is_cut { "the disk is too slow" } else { "it reached its bound" };
            tracing::warn!(
                bytes = shared.bytes(),
                why,
                "a recording ends here; what is decided from now on is not recorded"
            );
        }
        if batch.closed || writer.is_cut() {
            writer.finish()?;
            return Ok(());
        }
        writer.flush()?;
    }
}

/// A file whose bytes are counted where metrics see them.
#[derive(Debug)]
struct Counted {
    out: BufWriter<File>,
    recording: Arc<Recording>,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.recording.bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
