//! The line of one request, written without a tree of values: it is written while a run goes on.

use forebay_core::Span;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::super::{Attempt, Outcome, Row};
use super::TAGS;

/// A line of `profile_export.jsonl`.
#[derive(serde::Serialize)]
pub(super) struct Line<'a> {
    metadata: Metadata,
    metrics: Metrics<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Details<'a>>,
}

#[derive(serde::Serialize)]
struct Metadata {
    session_num: u64,
    x_request_id: String,
    turn_index: u32,
    credit_issued_ns: u64,
    request_start_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_ack_ns: Option<u64>,
    request_end_ns: u64,
    worker_id: &'static str,
    record_processor_id: &'static str,
    benchmark_phase: &'static str,
    was_cancelled: bool,
}

struct Metrics<'a> {
    values: [Option<f64>; TAGS.len()],
    chunks: &'a [Span],
}

/// A figure and its unit.
#[derive(serde::Serialize)]
struct Figure<T> {
    value: T,
    unit: &'static str,
}

/// An error, by its status where there is one.
#[derive(serde::Serialize)]
pub(super) struct Details<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
    r#type: &'a str,
    message: &'a str,
}

impl<'a> Details<'a> {
    /// A status of 0 is none.
    pub(super) fn new(code: u16, kind: &'a str, message: Option<&'a str>) -> Self {
        Self { code: (code > 0).then_some(code), r#type: kind, message: message.unwrap_or(kind) }
    }
}

impl<'a> Line<'a> {
    pub(super) fn new(
        row: &Row,
        last: &'a Attempt,
        values: [Option<f64>; TAGS.len()],
        started_unix_ms: u64,
    ) -> Self {
        let wall = |span: Span| started_unix_ms.saturating_mul(1_000_000).saturating_add(span.0);
        let metadata = Metadata {
            session_num: row.session.unwrap_or(row.request),
            x_request_id: row.request.to_string(),
            turn_index: row.turn,
            credit_issued_ns: wall(row.scheduled),
            request_start_ns: wall(row.scheduled),
            request_ack_ns: last.first_byte.map(wall),
            request_end_ns: wall(last.end),
            worker_id: "forebay",
            record_processor_id: "forebay",
            benchmark_phase: if row.is_warmup { "warmup" } else { "profiling" },
            was_cancelled: row.outcome == Outcome::Cancelled,
        };
        let is_completed = row.outcome == Outcome::Completed;
        let chunks = if is_completed { last.chunks.as_slice() } else { &[] };
        let error = (!is_completed).then(|| {
            Details::new(last.status.unwrap_or(0), row.outcome.name(), last.error.as_deref())
        });
        Self { metadata, metrics: Metrics { values, chunks }, error }
    }
}

impl Serialize for Metrics<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for ((tag, unit), value) in TAGS.into_iter().zip(self.values) {
            match value {
                None => {}
                Some(count) if unit == "tokens" => {
                    map.serialize_entry(tag, &Figure { value: count as u64, unit })?;
                }
                Some(value) => map.serialize_entry(tag, &Figure { value, unit })?,
            }
        }
        if self.chunks.len() > 1 {
            let value = Gaps(self.chunks);
            map.serialize_entry("inter_chunk_latency", &Figure { value, unit: "ms" })?;
        }
        map.end()
    }
}

/// The gaps between chunks, in milliseconds.
struct Gaps<'a>(&'a [Span]);

impl Serialize for Gaps<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.windows(2).map(|pair| (pair[1] - pair[0]).0 as f64 / 1e6))
    }
}
