//! Puts rows in the order of their time, as far as a bounded window reaches.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

use forebay_core::Span;

use super::{Notes, Requests, TraceError, TraceRequest};

/// Rows that are held back to be put in order. Published traces are out of order by a few rows,
/// where several front ends wrote one log; 1,024 rows of a long-context trace still fit in a few
/// megabytes.
pub const ORDER_ROWS_MAX: usize = 1024;

/// A first request later than this makes a run of idle time, most likely by a clock's reading.
const LATE: Span = Span::secs(86_400);

/// The latest request: no trace is of ten years, and a larger time is a date or a mistake of unit.
pub const TIME_MAX: Span = Span::secs(10 * 365 * 86_400);

/// A row and the line it came from.
pub(super) struct Row {
    pub(super) line: u64,
    pub(super) request: TraceRequest,
}

/// A row in the heap: the earliest first, and by line among equals.
pub(super) struct Held(pub(super) Row);

impl Held {
    fn key(&self) -> (Span, u64) {
        (self.0.request.at, self.0.line)
    }
}
impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Held {}
impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Rows in order of time; an error where one comes later than the window can mend, and one where
/// there is none.
pub(super) struct Ordered<I> {
    rows: I,
    file: PathBuf,
    notes: Notes,
    held: BinaryHeap<Held>,
    held_max: usize,
    latest: Span,
    given: Option<Span>,
    /// Times count from the first row's, not from zero.
    from_first: bool,
    base: Span,
    ended: bool,
}

impl<I: Iterator<Item = Result<Row, TraceError>>> Ordered<I> {
    /// `held_max` rows are held back; all of them for `usize::MAX`.
    pub(super) fn new(rows: I, file: PathBuf, notes: &Notes, held_max: usize) -> Self {
        Self {
            rows,
            file,
            notes: notes.clone(),
            held: BinaryHeap::new(),
            held_max,
            latest: Span::ZERO,
            given: None,
            from_first: false,
            base: Span::ZERO,
            ended: false,
        }
    }

    /// Lets times count from the earliest row.
    pub(super) fn counted_from_first(mut self) -> Self {
        self.from_first = true;
        self
    }

    fn fault(&self, line: Option<u64>, what: String, remedy: &str) -> TraceError {
        TraceError { file: self.file.clone(), line, what, remedy: remedy.to_owned() }
    }

    /// Takes rows until enough are held to give the earliest.
    fn fill(&mut self) -> Result<(), TraceError> {
        while !self.ended && self.held.len() <= self.held_max {
            let Some(row) = self.rows.next() else {
                self.ended = true;
                break;
            };
            let row = row?;
            let at = row.request.at;
            if self.given.is_some_and(|given| at < given) {
                let what = format!(
                    "the row belongs more than {ORDER_ROWS_MAX} rows earlier: rows must be \
                     in order of time"
                );
                let remedy = "sort it with `forebay trace convert --sort FILE --out SORTED`";
                return Err(self.fault(Some(row.line), what, remedy));
            }
            if at < self.latest {
                self.notes.add("came out of order and were sorted by time", row.line);
            }
            self.latest = self.latest.max(at);
            self.held.push(Held(row));
        }
        Ok(())
    }
}

impl<I: Iterator<Item = Result<Row, TraceError>>> Iterator for Ordered<I> {
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(error) = self.fill() {
            // Nothing follows an error: what is held comes from a file that can't be trusted.
            self.ended = true;
            self.held.clear();
            self.given = Some(Span::ZERO);
            return Some(Err(error));
        }
        let Some(Held(Row { mut request, line })) = self.held.pop() else {
            if self.given.is_none() {
                self.given = Some(Span::ZERO);
                let what = "the trace holds no requests".to_owned();
                return Some(Err(self.fault(None, what, "see whether it was written to its end")));
            }
            return None;
        };
        if self.given.is_none() {
            if self.from_first {
                self.base = request.at;
            } else if request.at > LATE {
                self.notes
                    .add("comes first but is due a day or more after time 0 (see slice)", line);
            }
        }
        self.given = Some(request.at);
        request.at = request.at - self.base;
        if request.at > TIME_MAX {
            self.ended = true;
            self.held.clear();
            let what = "the row is due more than ten years after the start".to_owned();
            let remedy =
                "count times from the trace's own start, and see that they are in its unit";
            return Some(Err(self.fault(Some(line), what, remedy)));
        }
        Some(Ok(request))
    }
}

/// The same requests, but an error in place of one that is due after [`TIME_MAX`]: what was scaled
/// or made can come to lie there, and no reader would take it.
pub fn bounded(requests: Requests, file: &Path) -> Requests {
    let file = file.to_owned();
    let numbers = 1_u64..;
    Box::new(requests.zip(numbers).map(move |(request, number)| {
        let request = request?;
        if request.at <= TIME_MAX {
            return Ok(request);
        }
        Err(TraceError {
            file: file.clone(),
            line: None,
            what: format!("request {number} would be due more than ten years after the start"),
            remedy: "choose a higher rate, or fewer requests".to_owned(),
        })
    }))
}
