//! Opens a trace: finds out what it is from its first bytes, and streams its requests.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use forebay_wire::recording::MAGIC;

use super::jsonl::JsonRows;
use super::lines::Lines;
use super::order::{ORDER_ROWS_MAX, Ordered};
use super::table::{Columns, TableRows};
use super::{Notes, Requests, TraceError, recording};

/// Bytes that are looked at to find out what a file is. A table's header is far shorter.
const HEAD_BYTES: u64 = 4096;
/// What to do about a file that is none of these.
const KINDS: &str = "Mooncake, AIPerf, Bailian and vLLM timed traces (JSON lines), and the tables \
                     of Azure LLM 2023/2024 and BurstGPT (CSV) are known";

/// Opens a trace and streams its requests in order of time. `-` is standard input.
///
/// Whatever the reader has to say about rows it skipped or sorted is dropped; see [`open_noting`].
pub fn open(path: &Path) -> Result<Requests, TraceError> {
    open_noting(path, &Notes::default())
}

/// The same, with notes about rows that were skipped or put in order.
pub fn open_noting(path: &Path, notes: &Notes) -> Result<Requests, TraceError> {
    opened(path, notes, ORDER_ROWS_MAX)
}

/// The same, but sorts rows however far they are out of order. Holds the whole trace in memory.
pub fn open_sorting(path: &Path, notes: &Notes) -> Result<Requests, TraceError> {
    opened(path, notes, usize::MAX)
}

fn opened(path: &Path, notes: &Notes, held_max: usize) -> Result<Requests, TraceError> {
    let unreadable = |error: io::Error| unreadable(path, &error);
    if path == Path::new("-") {
        return stream(Box::new(io::stdin()), path, notes, held_max);
    }
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.is_dir() {
        return Err(fault(path, "it is a folder", "name the trace's file"));
    }
    if is_recording(path).map_err(unreadable)? {
        return recording::requests(path, notes);
    }
    stream(Box::new(file), path, notes, held_max)
}

/// Whether a file begins as a recording does. Nothing is taken from a pipe to find out.
fn is_recording(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    if path.metadata()?.is_file() {
        File::open(path)?.take(MAGIC.len() as u64).read_to_end(&mut head)?;
    }
    Ok(head == MAGIC)
}

/// Finds out what the bytes are and streams their requests.
pub(super) fn stream(
    mut reader: Box<dyn Read>,
    path: &Path,
    notes: &Notes,
    held_max: usize,
) -> Result<Requests, TraceError> {
    let mut head = Vec::new();
    let read = (&mut reader).take(HEAD_BYTES).read_to_end(&mut head);
    read.map_err(|error| unreadable(path, &error))?;
    if head.starts_with(b"\xef\xbb\xbf") {
        head.drain(..3);
    }
    let kind = kind(&head).map_err(|(what, remedy)| fault(path, &what, remedy))?;
    let reader: Box<dyn BufRead> =
        Box::new(BufReader::with_capacity(1 << 16, Cursor::new(head).chain(reader)));
    let lines = Lines::new(reader, path);
    let file = path.to_path_buf();
    Ok(match kind {
        Kind::Json => Box::new(Ordered::new(JsonRows::new(lines), file, notes, held_max)),
        Kind::Table(columns) => {
            let rows = TableRows::new(lines, columns, notes)?;
            Box::new(Ordered::new(rows, file, notes, held_max).counted_from_first())
        }
    })
}

fn fault(path: &Path, what: &str, remedy: &str) -> TraceError {
    let (what, remedy) = (what.to_owned(), remedy.to_owned());
    TraceError { file: path.to_path_buf(), line: None, what, remedy }
}

fn unreadable(path: &Path, error: &io::Error) -> TraceError {
    fault(path, &error.to_string(), "see that the file is there and may be read")
}

/// What a file is.
enum Kind {
    Json,
    Table(Columns),
}

/// What a file is, by its first bytes; else what is wrong, and the remedy.
fn kind(head: &[u8]) -> Result<Kind, (String, &'static str)> {
    let refused = |what: &str, remedy| Err((what.to_owned(), remedy));
    let text = head.trim_ascii_start();
    match text {
        [] => {
            return refused(
                "the trace is empty",
                "see whether it was written or fetched to its end",
            );
        }
        [0x1f, 0x8b, ..] => return refused("it is a gzip file", "unpack it first: gunzip FILE"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            return refused("it is a zstd file", "unpack it first: unzstd FILE");
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            return refused("it is UTF-16 text", "save it as UTF-8");
        }
        [b'P', b'A', b'R', b'1', ..] => {
            return refused("it is a Parquet file", "convert it to JSON lines or CSV first");
        }
        [b'[', ..] => {
            return refused("it is one JSON array", "write one object a line: jq -c '.[]' FILE");
        }
        [b'{', ..] => return Ok(Kind::Json),
        _ if head.starts_with(&MAGIC) => {
            return refused(
                "it is a recording",
                "name the file itself: a recording is read twice, which a pipe can't be",
            );
        }
        _ => {}
    }
    let header = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let header = String::from_utf8_lossy(header);
    if let Some(columns) = Columns::of(&header) {
        return Ok(Kind::Table(columns));
    }
    let shown: String = header.chars().take(60).collect();
    Err((format!("the first line is no known trace's: {:?}", shown.trim_end()), KINDS))
}
