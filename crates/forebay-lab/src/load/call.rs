//! Makes one attempt at a request and reads its answer to the end.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::Span;
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::answer::{self, Said};
use super::connect::{Broken, Dialer};
use super::events::Events;
use super::outgoing::{Noted, Outgoing};
use super::secrets::Secrets;
use super::witness::Witness;
use super::{Planned, Settings};
use crate::results::{Attempt, Fault, Outcome, Row, STOPPED};

/// The header that carries a ticket, both ways.
const TICKET: HeaderName = HeaderName::from_static("x-forebay-ticket");
/// The header that asks for a wait in milliseconds, which the official SDKs read first.
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
/// The header by which a server decides for the official SDKs whether they try again.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Chunks of one answer at most: more than any model's context, and few enough that a row of them
/// can be read again.
const CHUNKS_MAX: usize = 1 << 18;

/// What all calls of a run share.
pub(super) struct Run {
    pub(super) settings: Settings,
    pub(super) dialers: Vec<Dialer>,
    pub(super) secrets: Secrets,
    pub(super) start: Instant,
    pub(super) witness: Witness,
    /// Whether the run was told to stop.
    pub(super) is_stopping: watch::Sender<bool>,
}

impl Run {
    /// How long the run has lasted.
    pub(super) fn elapsed(&self) -> Span {
        Span(self.start.elapsed().as_nanos() as u64)
    }

    /// That moment of the run.
    pub(super) fn moment(&self, at: Span) -> Instant {
        // A moment that no clock can tell is as good as never.
        let far = Duration::from_secs(1 << 32);
        self.start + Duration::from_nanos(at.0).min(far)
    }

    async fn stopped(&self) {
        let mut told = self.is_stopping.subscribe();
        // The sender lives as long as the run.
        drop(told.wait_for(|is_stopping| *is_stopping).await);
    }
}

/// A request with what became of it so far.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) planned: Planned,
    pub(super) row: Row,
    /// When the next attempt is due.
    pub(super) due: Span,
    /// Who waits for it in a closed loop.
    pub(super) user: Option<u32>,
    /// What the last answer said besides its row, and whether its ticket is to be shown.
    pub(super) told: Told,
    pub(super) shows_ticket: bool,
    /// Its client went before the next attempt.
    pub(super) is_given_up: bool,
}

/// What the head of an answer says to a client that may try again.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The ticket that a refusal came with.
    pub(super) ticket: Option<HeaderValue>,
    /// Whether the server says to try again, or not to.
    pub(super) should_retry: Option<bool>,
    /// A stream has begun, which no client asks for again.
    pub(super) is_stream: bool,
}

impl Told {
    fn by(head: &Parts) -> Self {
        let should_retry =
            head.headers.get(SHOULD_RETRY).and_then(|value| match value.as_bytes() {
                b"true" => Some(true),
                b"false" => Some(false),
                _ => None,
            });
        let is_stream = head.status.is_success() && is_stream(&head.headers);
        Self { ticket: head.headers.get(TICKET).cloned(), should_retry, is_stream }
    }
}

/// Makes an attempt, and says what came of it.
pub(super) async fn call(run: Arc<Run>, mut job: Box<Job>) -> Box<Job> {
    let dequeued = run.elapsed();
    let leaves = job.planned.leaves_after.map(|after| job.row.scheduled + after);
    let patience = job.due + run.settings.patience;
    let until = leaves.map_or(patience, |leaves| leaves.min(patience));
    if dequeued >= until {
        // Its client has gone before it could be sent.
        job.is_given_up = true;
        return job;
    }
    let is_first = job.row.attempts.is_empty();
    if is_first {
        run.settings.pulse.sends(dequeued - job.due);
    }
    let turn = job.row.request + job.row.attempts.len() as u64;
    let target = (turn % run.dialers.len() as u64) as usize;
    let mut attempt = Attempt::new(job.due, target as u32);
    attempt.dequeued = Some(dequeued);
    let taken = Noted::new(run.start);
    let request = request(&run, &job, target, taken.clone());
    let mut told = Told::default();
    let over = {
        let told = (&mut attempt, &mut told);
        let exchange = pin!(exchange(&run, &run.dialers[target], request, told));
        within(&run, until, leaves, exchange).await
    };
    attempt.end = run.elapsed();
    attempt.written = attempt.written.or(taken.get());
    match over {
        Ok(outcome) => {
            attempt.outcome = outcome;
            let left = leaves.is_some_and(|leaves| attempt.end >= leaves);
            if outcome == Outcome::Cancelled && !left {
                attempt.error = Some(STOPPED.into());
            }
        }
        Err(broken) => {
            broken.shortage.into_iter().for_each(|shortage| run.witness.lacks(shortage));
            attempt.outcome = Outcome::Failed;
            attempt.fault = Some(broken.fault);
            attempt.error = Some(broken.said.into());
        }
    }
    if let Some(said) = &attempt.error {
        let own = run.secrets.and(&job.planned.headers);
        attempt.error = Some(own.line(said.as_bytes()).into());
    }
    job.row.outcome = attempt.outcome;
    job.row.attempts.push(attempt);
    job.told = told;
    job
}

/// How an exchange ends: by an outcome, or broken off.
type Over = Result<Outcome, Broken>;

/// Waits for the exchange for as long as its client does, and the run goes on.
async fn within(
    run: &Run,
    until: Span,
    leaves: Option<Span>,
    exchange: Pin<&mut impl Future<Output = Over>>,
) -> Over {
    tokio::select! {
        biased;
        over = timeout_at(run.moment(until), exchange) => match over {
            Ok(over) => over,
            Err(_) if leaves == Some(until) => Ok(Outcome::Cancelled),
            Err(_) => Ok(Outcome::TimedOut),
        },
        () = run.stopped() => Ok(Outcome::Cancelled),
    }
}

fn request(run: &Run, job: &Job, target: usize, taken: Noted) -> Request<Outgoing> {
    let target = &run.dialers[target].target;
    let mut request = Request::new(Outgoing::new(job.planned.body.clone(), taken));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = target.path.clone();
    let mut headers = run.settings.headers.clone();
    for (name, value) in &job.planned.headers {
        headers.insert(name, value.clone());
    }
    if let Some(ticket) = job.told.ticket.as_ref().filter(|_| job.shows_ticket) {
        headers.insert(TICKET, ticket.clone());
    }
    headers.insert(HOST, target.authority.clone());
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    *request.headers_mut() = headers;
    request
}

async fn exchange(
    run: &Run,
    dialer: &Dialer,
    request: Request<Outgoing>,
    (attempt, told): (&mut Attempt, &mut Told),
) -> Over {
    let (response, line) = dialer.send(request, attempt).await?;
    attempt.first_byte = Some(run.elapsed());
    attempt.written = line.written(attempt.due);
    let (head, body) = response.into_parts();
    attempt.status = Some(head.status.as_u16());
    attempt.retry_after = retry_after(&head.headers);
    *told = Told::by(&head);
    let over = if told.is_stream {
        read_stream(run, body, attempt).await?
    } else {
        let whole = read_whole(run, body).await?;
        judge(run, head.status, &whole, attempt)
    };
    dialer.keep(line);
    over
}

/// Reads a stream of events. The outer error means that the connection is not fit to be used again.
async fn read_stream(run: &Run, mut body: Incoming, attempt: &mut Attempt) -> Result<Over, Broken> {
    let mut events = Events::new(run.settings.answer_bytes_max);
    let mut ending = Ending::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Broken::new(Fault::Cut, error.to_string()))?;
        let Ok(bytes) = frame.into_data() else { continue };
        let now = run.elapsed();
        let fed = events.feed(&bytes, |data| ending.take(data, now, attempt));
        fed.map_err(|_| Broken::new(Fault::TooLong, "an event is too long"))?;
        if attempt.chunks.len() > CHUNKS_MAX {
            return Err(Broken::new(Fault::TooLong, "the answer has too many chunks"));
        }
    }
    let now = run.elapsed();
    events.finish(|data| ending.take(data, now, attempt));
    Ok(match ending {
        Ending { broken: Some(broken), .. } => Err(broken),
        Ending { is_done: true, .. } if attempt.generated() == 0 => Err(empty()),
        Ending { is_done: true, .. } => Ok(Outcome::Completed),
        Ending { is_done: false, .. } => {
            Err(Broken::new(Fault::Unfinished, "the stream ended without `[DONE]`"))
        }
    })
}

/// How a stream ends, as far as it has been read.
#[derive(Default)]
struct Ending {
    is_done: bool,
    /// The first fault.
    broken: Option<Broken>,
}

impl Ending {
    fn take(&mut self, data: &[u8], now: Span, attempt: &mut Attempt) {
        if data == b"[DONE]" {
            self.is_done = true;
            return;
        }
        let Some(said) = answer::read(data) else {
            self.broken.get_or_insert_with(|| Broken::new(Fault::Garbled, text(data)));
            return;
        };
        if said.has_token {
            attempt.first_token.get_or_insert(now);
            attempt.chunks.push(now);
        }
        if said.has_answer {
            attempt.first_answer.get_or_insert(now);
        }
        note_usage(&said, attempt);
        if let Some(error) = said.error {
            self.broken.get_or_insert_with(|| Broken::new(Fault::ErrorInAnswer, error));
        }
    }
}

/// Reads an answer that is no stream.
async fn read_whole(run: &Run, mut body: Incoming) -> Result<Bytes, Broken> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Broken::new(Fault::Cut, error.to_string()))?;
        let Ok(bytes) = frame.into_data() else { continue };
        if whole.len() + bytes.len() > run.settings.answer_bytes_max {
            return Err(Broken::new(Fault::TooLong, "the answer is too long"));
        }
        whole.extend_from_slice(&bytes);
    }
    Ok(whole.into())
}

/// Says what an answer that is no stream means.
fn judge(run: &Run, status: StatusCode, whole: &[u8], attempt: &mut Attempt) -> Over {
    if matches!(status.as_u16(), 429 | 503 | 529) {
        attempt.error = Some(text(whole).into());
        return Ok(Outcome::Refused);
    }
    if !status.is_success() {
        return Err(Broken::new(Fault::Status, text(whole)));
    }
    let Some(said) = answer::read(whole) else {
        return Err(Broken::new(Fault::Garbled, text(whole)));
    };
    note_usage(&said, attempt);
    if let Some(error) = said.error {
        return Err(Broken::new(Fault::ErrorInAnswer, error));
    }
    if !said.has_token && attempt.generated() == 0 {
        return Err(empty());
    }
    let now = run.elapsed();
    (attempt.first_token, attempt.first_answer) = (Some(now), Some(now));
    Ok(Outcome::Completed)
}

/// What an answer is that ends well and says nothing: nobody was served by it.
fn empty() -> Broken {
    Broken::new(Fault::Empty, "the answer has no token, and says that none was made")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Keeps the last usage that was said: a stream may say it with every chunk.
fn note_usage(said: &Said, attempt: &mut Attempt) {
    let usage = &mut attempt.usage;
    usage.prompt_tokens = said.usage.prompt_tokens.or(usage.prompt_tokens);
    usage.output_tokens = said.usage.output_tokens.or(usage.output_tokens);
    usage.cached_tokens = said.usage.cached_tokens.or(usage.cached_tokens);
}

fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

/// What a refusal asks to wait: `retry-after-ms` where it is there, else the seconds of
/// `Retry-After`. A date, which no known router sends, is none.
fn retry_after(headers: &HeaderMap) -> Option<Span> {
    let number = |name: HeaderName| -> Option<f64> {
        let text = headers.get(name)?.to_str().ok()?;
        text.trim().parse().ok().filter(|number: &f64| *number >= 0.0 && number.is_finite())
    };
    let millis = number(RETRY_AFTER_MS).map(|millis| millis / 1e3);
    millis.or_else(|| number(RETRY_AFTER)).map(Span::secs_f64)
}
