//! Writes one JSON line for each request at its end: sizes and times, never text or keys.
//!
//! A thread of its own writes, so that a slow disk or a slow reader costs lines and no time of any
//! request: what does not fit into its queue is dropped and counted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::{self, JoinHandle};

use forebay_core::{Moment, Span};
use serde::Serialize;

use crate::clock::Clock;
use crate::request::Record;

/// Most requests that wait to be written down, each of about half a kilobyte.
const QUEUE_LEN_MAX: usize = 16_384;
/// Lines between two looks at whether the file still has its name.
const LOOK_EVERY: u32 = 256;

/// Where the log is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogTo {
    /// The standard error stream.
    Stderr,
    /// The end of a file. Once it is renamed or removed, a new one is begun under its name.
    File(PathBuf),
}

/// A request that is over, with the names of its pool, class and tenant.
type Noted = Box<(Record, [Option<Arc<str>>; 3])>;

/// The log.
#[derive(Debug)]
pub(crate) struct AccessLog {
    /// Gone once the log is closed.
    queue: RwLock<Option<SyncSender<Noted>>>,
    dropped: AtomicU64,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl AccessLog {
    /// Begins to write.
    pub(crate) fn open(to: LogTo, clock: Clock) -> io::Result<Self> {
        let out = Out::open(to)?;
        let (sender, receiver) = sync_channel(QUEUE_LEN_MAX);
        let name = "forebay-access-log".to_owned();
        let writer = thread::Builder::new().name(name).spawn(move || {
            write_all(out, &receiver, &clock);
        })?;
        Ok(Self {
            queue: RwLock::new(Some(sender)),
            dropped: AtomicU64::new(0),
            writer: Mutex::new(Some(writer)),
        })
    }

    /// Has a request written down, or counts it as dropped.
    pub(super) fn note(&self, record: &Record, names: [Option<Arc<str>>; 3]) {
        let noted = Box::new((record.clone(), names));
        let queue = self.queue.read().unwrap_or_else(PoisonError::into_inner);
        let taken = queue.as_ref().is_some_and(|queue| queue.try_send(noted).is_ok());
        drop(queue);
        if !taken {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lines that were dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Writes what waits, and ends. Waits for the disk.
    pub(crate) fn close(&self) {
        *self.queue.write().unwrap_or_else(PoisonError::into_inner) = None;
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // A writer that panicked has said so itself.
            drop(writer.join());
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.close();
    }
}

/// What the lines go to.
enum Out {
    Stderr,
    File { path: PathBuf, file: BufWriter<File> },
}

impl Out {
    fn open(to: LogTo) -> io::Result<Self> {
        Ok(match to {
            LogTo::Stderr => Self::Stderr,
            LogTo::File(path) => Self::File { file: appended(&path)?, path },
        })
    }

    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::Stderr => io::stderr().lock().write_all(line),
            Self::File { file, .. } => file.write_all(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stderr => Ok(()),
            Self::File { file, .. } => file.flush(),
        }
    }

    /// Begins a new file where the old one has lost its name.
    fn look(&mut self) {
        use std::os::unix::fs::MetadataExt as _;
        let Self::File { path, file } = self else { return };
        let there = fs::metadata(&*path).map(|meta| (meta.dev(), meta.ino()));
        let ours = file.get_ref().metadata().map(|meta| (meta.dev(), meta.ino()));
        if there.ok() != ours.ok()
            && let Ok(newer) = appended(path)
        {
            *file = newer;
        }
    }
}

fn appended(path: &Path) -> io::Result<BufWriter<File>> {
    Ok(BufWriter::new(OpenOptions::new().append(true).create(true).open(path)?))
}

/// Writes lines until nobody sends any more. Flushes whenever nothing waits.
fn write_all(mut out: Out, queue: &Receiver<Noted>, clock: &Clock) {
    let (mut line, mut lines, mut failed) = (Vec::new(), 0_u32, false);
    while let Ok(first) = queue.recv() {
        let mut next = Some(first);
        while let Some(noted) = next {
            if lines.is_multiple_of(LOOK_EVERY) {
                out.look();
            }
            lines = lines.wrapping_add(1);
            line.clear();
            let (record, names) = &*noted;
            let written = serde_json::to_writer(&mut line, &Line::new(record, names, clock));
            line.push(b'\n');
            let written = written.map_err(io::Error::from).and_then(|()| out.line(&line));
            say_once(written, &mut failed);
            next = queue.try_recv().ok();
        }
        say_once(out.flush(), &mut failed);
        lines = 0;
    }
}

/// Says that the log can't be written, once until it can be written again.
fn say_once(written: io::Result<()>, failed: &mut bool) {
    match written {
        Ok(()) => *failed = false,
        Err(error) if !*failed => {
            *failed = true;
            tracing::warn!(%error, "the access log can't be written; lines are lost");
        }
        Err(_) => {}
    }
}

/// The fields of a line, in their order. Names never change; new ones may come.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    request: &'a str,
    endpoint: Option<&'static str>,
    pool: Option<&'a str>,
    class: Option<&'a str>,
    tenant: Option<Tenant<'a>>,
    ending: &'static str,
    reason: Option<&'static str>,
    status: Option<u16>,
    stream: bool,
    body_bytes: u64,
    prompt_tokens: u64,
    cached_tokens: u64,
    output_tokens: u64,
    /// As the worker says, where it does.
    usage_prompt_tokens: Option<u64>,
    usage_cached_tokens: Option<u64>,
    worker: Option<&'a str>,
    attempts: u32,
    wait_s: Option<f64>,
    predicted_wait_s: Option<f64>,
    first_byte_s: Option<f64>,
    first_token_s: Option<f64>,
    duration_s: f64,
    retry_after_s: Option<f64>,
    /// It came back with the place that was kept for it.
    returned: bool,
}

/// A tenant by its name, or by its number where it has none.
#[derive(Serialize)]
#[serde(untagged)]
enum Tenant<'a> {
    Name(&'a str),
    Number(u32),
}

impl<'a> Line<'a> {
    fn new(record: &'a Record, names: &'a [Option<Arc<str>>; 3], clock: &Clock) -> Self {
        let [pool, class, tenant] = names.each_ref().map(Option::as_deref);
        let since = |at: Option<Moment>| at.map(|at| seconds(at.since(record.arrived)));
        let (ending, reason) = record.ending.words();
        let number = record.tenant.map(|tenant| Tenant::Number(tenant.0));
        Self {
            time: rfc3339(clock.unix_millis(record.arrived)),
            request: &record.name,
            endpoint: record.endpoint.map(super::endpoint_path),
            pool,
            class,
            tenant: tenant.map(Tenant::Name).or(number),
            ending,
            reason,
            status: Some(record.status).filter(|status| *status > 0),
            stream: record.stream,
            body_bytes: record.body_bytes,
            prompt_tokens: record.prompt.0,
            cached_tokens: record.cached.0,
            output_tokens: record.output.0,
            usage_prompt_tokens: record.usage.and_then(|usage| usage.prompt),
            usage_cached_tokens: record.usage.as_ref().and_then(|usage| usage.cached),
            worker: record.worker.as_deref(),
            attempts: record.attempts,
            wait_s: since(record.dispatched),
            predicted_wait_s: record.predicted_wait.map(seconds),
            first_byte_s: since(record.first_byte),
            first_token_s: since(record.first_token),
            duration_s: seconds(record.ended.since(record.arrived)),
            retry_after_s: record.retry_after.map(seconds),
            returned: record.promised.is_some(),
        }
    }
}

/// Seconds to the microsecond: more digits only make the log longer.
fn seconds(span: Span) -> f64 {
    (span.0 / 1_000) as f64 / 1e6
}

/// A wall-clock time in UTC as RFC 3339 writes it, to the millisecond.
///
/// The date follows from the days since 1970 by the arithmetic of the Gregorian calendar: 400 years
/// have 146,097 days, and years that begin in March have their odd day at the end.
pub(crate) fn rfc3339(unix_millis: u64) -> String {
    let (days, millis) = (unix_millis / 86_400_000, unix_millis % 86_400_000);
    // Days since 1 March of the year 0.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let (year, secs) = (era * 400 + year + next, millis / 1_000);
    format!(
        "{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}.{:03}Z",
        secs / 3_600,
        secs / 60 % 60,
        secs % 60,
        millis % 1_000
    )
}
