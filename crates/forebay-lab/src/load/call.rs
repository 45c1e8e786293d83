//! Sends one request and reads its answer to the end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::Span;
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use super::answer::{self, Said};
use super::connect::{self, Idle};
use super::events::Events;
use super::record::{Fault, Outcome, Record};
use super::{Planned, Settings};

/// What all calls of a run share.
pub(super) struct Run {
    pub(super) settings: Settings,
    /// The idle connections of each target.
    pub(super) idle: Vec<Idle>,
    pub(super) start: Instant,
}

impl Run {
    fn elapsed(&self) -> Span {
        Span(self.start.elapsed().as_nanos() as u64)
    }
}

/// Sends a request and says what came of it.
pub(super) async fn call(run: Arc<Run>, planned: Planned, mut record: Record) -> Record {
    let sent = run.elapsed();
    record.sent = Some(sent);
    let patience = run.settings.patience;
    let leaves = planned.leaves_after.filter(|after| *after < patience);
    let limit = leaves.unwrap_or(patience);
    let until = run.start + Duration::from_nanos(sent.0) + Duration::from_nanos(limit.0);
    let over = match timeout_at(until, exchange(&run, planned, &mut record)).await {
        Ok(over) => over,
        Err(_) if leaves.is_some() => Ok(Outcome::Left),
        Err(_) => Ok(Outcome::TimedOut),
    };
    record.end = run.elapsed();
    match over {
        Ok(outcome) => record.outcome = outcome,
        Err((fault, error)) => {
            record.outcome = Outcome::Failed(fault);
            record.error = Some(error);
        }
    }
    record
}

/// How an exchange ends: by an outcome, or by a fault and what was said of it.
type Over = Result<Outcome, (Fault, String)>;

async fn exchange(run: &Run, planned: Planned, record: &mut Record) -> Over {
    let target = &run.settings.targets[record.target];
    let idle = &run.idle[record.target];
    let mut request = Request::new(Full::new(planned.body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = target.path.clone();
    *request.headers_mut() = planned.headers;
    let headers = request.headers_mut();
    headers.insert(HOST, target.authority.clone());
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    let (response, connection) = connect::send(target, idle, request).await?;
    record.first_byte = Some(run.elapsed());
    let (head, body) = response.into_parts();
    record.status = Some(head.status.as_u16());
    record.retry_after = retry_after(&head.headers);
    let over = if head.status.is_success() && is_stream(&head.headers) {
        read_stream(run, body, record).await?
    } else {
        let whole = read_whole(run, body).await?;
        judge(run, head.status, &whole, record)
    };
    if run.settings.reuse {
        idle.keep(connection);
    }
    over
}

/// Reads a stream of events. The outer error means that the connection is not fit to be used again.
async fn read_stream(
    run: &Run,
    mut body: Incoming,
    record: &mut Record,
) -> Result<Over, (Fault, String)> {
    let mut events = Events::new(run.settings.answer_bytes_max);
    let mut ending = Ending::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| (Fault::Cut, error.to_string()))?;
        let Ok(bytes) = frame.into_data() else { continue };
        let now = run.elapsed();
        let fed = events.feed(&bytes, |data| ending.take(data, now, record));
        fed.map_err(|_| (Fault::TooLong, "an event is too long".to_owned()))?;
    }
    let now = run.elapsed();
    events.finish(|data| ending.take(data, now, record));
    Ok(match ending {
        Ending { fault: Some(fault), .. } => Err(fault),
        Ending { is_done: true, .. } => Ok(Outcome::Completed),
        Ending { is_done: false, .. } => {
            Err((Fault::Unfinished, "the stream ended without `[DONE]`".to_owned()))
        }
    })
}

/// How a stream ends, as far as it has been read.
#[derive(Default)]
struct Ending {
    is_done: bool,
    /// The first fault.
    fault: Option<(Fault, String)>,
}

impl Ending {
    fn take(&mut self, data: &[u8], now: Span, record: &mut Record) {
        if data == b"[DONE]" {
            self.is_done = true;
            return;
        }
        record.chunks = record.chunks.saturating_add(1);
        let Some(said) = answer::read(data) else {
            self.fault.get_or_insert((Fault::Garbled, answer::excerpt(data)));
            return;
        };
        if said.has_token {
            record.first_token.get_or_insert(now);
        }
        note_usage(&said, record);
        if let Some(error) = said.error {
            self.fault.get_or_insert((Fault::ErrorInAnswer, error));
        }
    }
}

/// Reads an answer that is no stream.
async fn read_whole(run: &Run, mut body: Incoming) -> Result<Bytes, (Fault, String)> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| (Fault::Cut, error.to_string()))?;
        let Ok(bytes) = frame.into_data() else { continue };
        if whole.len() + bytes.len() > run.settings.answer_bytes_max {
            return Err((Fault::TooLong, "the answer is too long".to_owned()));
        }
        whole.extend_from_slice(&bytes);
    }
    Ok(whole.into())
}

/// Says what an answer that is no stream means.
fn judge(run: &Run, status: StatusCode, whole: &[u8], record: &mut Record) -> Over {
    if matches!(status.as_u16(), 429 | 503 | 529) {
        record.error = Some(answer::excerpt(whole));
        return Ok(Outcome::Refused);
    }
    if !status.is_success() {
        return Err((Fault::Status, answer::excerpt(whole)));
    }
    let Some(said) = answer::read(whole) else {
        return Err((Fault::Garbled, answer::excerpt(whole)));
    };
    note_usage(&said, record);
    if let Some(error) = said.error {
        return Err((Fault::ErrorInAnswer, error));
    }
    record.first_token = Some(run.elapsed());
    Ok(Outcome::Completed)
}

/// Keeps the last usage that was said: a stream may say it with every chunk.
fn note_usage(said: &Said, record: &mut Record) {
    record.prompt_tokens = said.prompt_tokens.or(record.prompt_tokens);
    record.output_tokens = said.output_tokens.or(record.output_tokens);
    record.cached_tokens = said.cached_tokens.or(record.cached_tokens);
}

fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

/// The seconds of a `Retry-After`. A date, which no known router sends, is none.
fn retry_after(headers: &HeaderMap) -> Option<Span> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().filter(|secs: &f64| *secs >= 0.0).map(Span::secs_f64)
}
