//! Writes a run as `AIPerf` 0.13 does, so that what reads its files reads ours.
//!
//! Its form has no place for what a refusal asked to wait, for several attempts at a request, for
//! classes or for requests that were never sent: those are only in our own files. Times count from
//! the moment a request was due, which is written as the credit's and as the start: what `AIPerf`
//! would count from the send is shorter by the lag.

mod line;

use std::collections::BTreeMap;
use std::io::{self, Write};

use forebay_core::Span;
use serde_json::{Map, Value, json};

use self::line::{Details, Line};
use super::{About, Attempt, Outcome, Row};

/// The version of `AIPerf`'s summary that is written.
const SCHEMA_VERSION: &str = "1.4";
/// The percentiles of a summary.
const PERCENTILES: [u8; 9] = [1, 5, 10, 25, 50, 75, 90, 95, 99];
/// Tags of times and rates of each completed request, and their units.
const TAGS: [(&str, &str); 6] = [
    ("time_to_first_token", "ms"),
    ("inter_token_latency", "ms"),
    ("request_latency", "ms"),
    ("output_sequence_length", "tokens"),
    ("input_sequence_length", "tokens"),
    ("output_token_throughput_per_user", "tokens/sec/user"),
];

/// What `AIPerf`'s files say of a run, gathered row by row in some tens of bytes for each.
#[derive(Default)]
pub(super) struct Export {
    values: [Vec<f32>; TAGS.len()],
    errors: BTreeMap<(u16, &'static str), u64>,
    span: Option<(Span, Span)>,
}

impl Export {
    /// Writes one row, if it was sent.
    pub(super) fn push(
        &mut self,
        row: &Row,
        started_unix_ms: u64,
        to: &mut impl Write,
    ) -> io::Result<()> {
        let Some(last) = row.last() else { return Ok(()) };
        let metrics = metrics(row, last);
        if !row.is_warmup {
            self.count(row, last, &metrics);
        }
        let line = Line::new(row, last, metrics, started_unix_ms);
        serde_json::to_writer(&mut *to, &line)?;
        to.write_all(b"\n")
    }

    fn count(&mut self, row: &Row, last: &Attempt, metrics: &[Option<f64>; TAGS.len()]) {
        let (first, end) = self.span.unwrap_or((row.scheduled, last.end));
        self.span = Some((first.min(row.scheduled), end.max(last.end)));
        if row.outcome == Outcome::Completed {
            for (values, value) in self.values.iter_mut().zip(metrics) {
                values.extend(value.map(|it| it as f32));
            }
        } else {
            let key = (last.status.unwrap_or(0), row.outcome.name());
            *self.errors.entry(key).or_default() += 1;
        }
    }

    /// The object of `profile_export_aiperf.json`.
    pub(super) fn summary(mut self, about: &About) -> Value {
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
        put("schema_version", json!(SCHEMA_VERSION));
        let count = self.values[2].len();
        let seconds = self.span.map_or(0.0, |(first, end)| (end - first).as_secs_f64());
        let sum = |values: &[f32]| values.iter().map(|it| f64::from(*it)).sum::<f64>();
        let (output, prompt) = (sum(&self.values[3]), sum(&self.values[4]));
        for ((tag, unit), values) in TAGS.iter().zip(&mut self.values) {
            if let Some(figures) = figures(values, unit) {
                put(tag, figures);
            }
        }
        let mut one = |tag: &str, unit: &str, avg: f64| {
            put(tag, json!({"unit": unit, "avg": avg}));
        };
        one("request_count", "requests", count as f64);
        one("benchmark_duration", "sec", seconds);
        one("total_osl", "tokens", output);
        one("total_isl", "tokens", prompt);
        if seconds > 0.0 {
            one("request_throughput", "requests/sec", count as f64 / seconds);
            one("output_token_throughput", "tokens/sec", output / seconds);
        }
        let failed: u64 = self.errors.values().sum();
        // Absent where there was none, as there.
        if failed > 0 {
            one("error_request_count", "requests", failed as f64);
        }
        let errors = self.errors.iter().map(|((code, kind), count)| {
            json!({"error_details": Details::new(*code, kind, None), "count": count})
        });
        put("error_summary", errors.collect());
        put("was_cancelled", json!(about.was_interrupted));
        Value::Object(object)
    }
}

/// The figures of one request, in the order of [`TAGS`].
fn metrics(row: &Row, last: &Attempt) -> [Option<f64>; TAGS.len()] {
    if row.outcome != Outcome::Completed {
        return [None; TAGS.len()];
    }
    let millis = |span: Span| span.0 as f64 / 1e6;
    let itl = row.itl().map(millis);
    let prompt = last.usage.prompt_tokens.or(row.prompt_tokens);
    [
        row.ttft().map(millis),
        itl,
        row.e2e().map(millis),
        Some(last.generated() as f64),
        prompt.map(|tokens| tokens as f64),
        itl.filter(|it| *it > 0.0).map(|it| 1e3 / it),
    ]
}

/// Mean, deviation, range and percentiles of some values; linear between ranks, as there.
fn figures(values: &mut [f32], unit: &str) -> Option<Value> {
    values.sort_unstable_by(f32::total_cmp);
    let (smallest, largest) = (*values.first()?, *values.last()?);
    let count = values.len() as f64;
    let sum: f64 = values.iter().map(|it| f64::from(*it)).sum();
    let mean = sum / count;
    let square = |it: &f32| (f64::from(*it) - mean).powi(2);
    let deviation = (values.iter().map(square).sum::<f64>() / count).sqrt();
    let mut object = json!({
        "unit": unit, "avg": mean, "min": smallest, "max": largest, "std": deviation,
        "count": values.len(), "sum": sum,
    });
    for percent in PERCENTILES {
        let place = f64::from(percent) / 100.0 * (count - 1.0);
        let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
        let value = f64::from(below) + f64::from(above - below) * place.fract();
        object[format!("p{percent}")] = json!(value);
    }
    Some(object)
}
