//! Writes one JSON object a line for each request of a run.

use std::io::{self, Write};

use forebay_core::{Moment, Span};
use serde::Serialize;

use super::figures::Fixed;
use super::{Fate, RequestRecord, RunRecord};

/// One line. The order of the fields is the order of the keys.
#[derive(Serialize)]
struct Row<'a> {
    trace: &'a str,
    id: u64,
    class: &'a str,
    tenant: &'a str,
    scheduled_ms: Fixed<3>,
    prompt: u64,
    output: u64,
    cached: Option<u64>,
    fate: &'static str,
    reason: Option<&'static str>,
    attempts: u32,
    core_requests: &'a [u64],
    worker: Option<u32>,
    queue_ms: Fixed<3>,
    ttft_ms: Fixed<3>,
    e2e_ms: Fixed<3>,
    predicted_wait_ms: Fixed<3>,
    retry_after_s: Option<u64>,
    retry_after_cut: Option<bool>,
    preemptions: u32,
}

/// Writes every request of a run, in the order of the trace. `e2e_ms` is from the first scheduled
/// attempt to the end, whichever way it ended.
pub fn write_rows(run: &RunRecord, out: &mut impl Write) -> io::Result<()> {
    for record in &run.requests {
        serde_json::to_writer(&mut *out, &row(run, record))?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn row<'a>(run: &'a RunRecord, record: &'a RequestRecord) -> Row<'a> {
    let since = |moment: Moment| moment.since(record.scheduled).as_millis_f64();
    let millis = |span: Option<Span>| Fixed(span.map(Span::as_millis_f64));
    let (fate, reason) = match record.fate {
        Fate::Completed => ("completed", None),
        Fate::Refused(reason) => ("refused", Some(reason.label())),
        Fate::Abandoned => ("abandoned", None),
        Fate::Failed(reason) => ("failed", Some(reason.label())),
    };
    Row {
        trace: &run.trace,
        id: record.id,
        class: run.classes.get(usize::from(record.class)).map_or("", String::as_str),
        tenant: run.tenants.get(record.tenant as usize).map_or("", String::as_str),
        scheduled_ms: Fixed::some(record.scheduled.since(Moment::START).as_millis_f64()),
        prompt: record.prompt,
        output: record.output,
        cached: record.cached,
        fate,
        reason,
        attempts: record.attempts,
        core_requests: &record.core_requests,
        worker: record.worker,
        queue_ms: millis(record.queue),
        ttft_ms: Fixed(record.first_token.map(since)),
        e2e_ms: Fixed::some(since(record.ended)),
        predicted_wait_ms: millis(record.predicted_wait),
        retry_after_s: record.retry_after.map(|(after, _)| after.0 / 1_000_000_000),
        retry_after_cut: record.retry_after.map(|(_, cut)| cut),
        preemptions: record.preemptions,
    }
}
