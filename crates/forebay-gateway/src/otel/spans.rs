//! Makes spans of requests that are over: one for the request as its client saw it, and below it
//! one for each time that it waited and for each worker that had it.
//!
//! Names are those of OpenTelemetry's semantic conventions for HTTP and for generative AI where
//! they have one, and begin with `forebay.` where they have none. Nothing here has seen a body, a
//! key or a tenant's name.

use std::str::FromStr;
use std::sync::Arc;

use forebay_core::{Moment, Span};
use forebay_wire::openai::Endpoint;

use super::context::Context;
use super::protobuf::Message;
use super::trace::{OTHER, Part, Traced, What};
use crate::clock::Clock;
use crate::config::WorkerUrl;
use crate::observe::endpoint_path;
use crate::request::{Ending, Record};

/// What is the same for all spans.
#[derive(Debug)]
pub(super) struct About {
    /// What the gateway is called.
    pub(super) service_name: String,
    /// How its clients speak to it: `http` or `https`.
    pub(super) scheme: &'static str,
    /// The names of its pools, by number.
    pub(super) pools: Vec<String>,
    /// Its time.
    pub(super) clock: Clock,
}

/// A request that is over, with the names of its pool and class.
#[derive(Debug)]
pub(super) struct Noted {
    pub(super) record: Record,
    pub(super) names: [Option<Arc<str>>; 2],
}

impl Noted {
    /// How many spans are made of it.
    pub(super) fn len(&self) -> u64 {
        self.record.trace.kept().map_or(0, |traced| traced.parts.len() as u64 + 1)
    }
}

/// `SpanKind` of the protocol: within the program, of a server, of a client.
const INTERNAL: u64 = 1;
const SERVER: u64 = 2;
const CLIENT: u64 = 3;
/// `StatusCode` of the protocol.
const ERROR: u64 = 2;
/// `SpanFlags` of the protocol: it is said whether the parent is elsewhere, and it is.
const REMOTE_IS_SAID: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// The message that a collector takes: an `ExportTraceServiceRequest`.
pub(super) fn request(batch: &[Noted], about: &About) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let mut request = Message::default();
    request.message(1, |resource_spans| {
        resource_spans.message(1, |resource| {
            let mut attributes = Attributes(resource, 1);
            attributes.text("service.name", &about.service_name);
            attributes.text("service.version", version);
        });
        resource_spans.message(2, |scope_spans| {
            scope_spans.message(1, |scope| {
                scope.bytes(1, "forebay");
                scope.bytes(2, version);
            });
            for noted in batch {
                spans(scope_spans, noted, about);
            }
        });
    });
    request.into_bytes()
}

/// The spans of one request.
fn spans(scope_spans: &mut Message, noted: &Noted, about: &About) {
    let Some(traced) = noted.record.trace.kept() else { return };
    scope_spans.message(2, |span| whole(span, traced, noted, about));
    for (nth, part) in traced.parts.iter().enumerate() {
        scope_spans.message(2, |span| part_of(span, (nth, part), (traced, &noted.record), about));
    }
}

/// What every span begins with.
fn begin(span: &mut Message, at: &Context, parent: Option<&[u8; 8]>, name: &str) {
    span.bytes(1, at.trace);
    span.bytes(2, at.span);
    if let Some(parent) = parent {
        span.bytes(4, parent);
    }
    span.bytes(5, name);
}

fn times(span: &mut Message, (begun, ended): (Moment, Moment), clock: &Clock) {
    span.fixed_64(7, clock.unix_nanos(begun));
    span.fixed_64(8, clock.unix_nanos(ended.max(begun)));
}

/// The request as its client saw it.
fn whole(span: &mut Message, traced: &Traced, noted: &Noted, about: &About) {
    let record = &noted.record;
    let route = record.endpoint.map_or("", endpoint_path);
    let method = if traced.method == OTHER { "HTTP" } else { traced.method };
    let name = format!("{method} {route}");
    begin(span, &traced.context, traced.parent.as_ref(), name.trim_end());
    if let Some(state) = &traced.state {
        span.bytes(3, state.as_bytes());
    }
    span.number(6, SERVER);
    times(span, (record.arrived, record.ended), &about.clock);
    let mut attributes = Attributes(span, 9);
    attributes.text("http.request.method", traced.method);
    attributes.text("url.scheme", about.scheme);
    if record.endpoint.is_some() {
        attributes.text("http.route", route);
        attributes.text("url.path", route);
    }
    if record.status > 0 {
        attributes.count("http.response.status_code", u64::from(record.status));
    }
    generated(&mut attributes, traced, record);
    decided(&mut attributes, noted);
    let events = [("dispatched", record.dispatched), ("first_token", record.first_token)];
    for (name, at) in events {
        let Some(at) = at else { continue };
        span.message(11, |event| {
            event.fixed_64(1, about.clock.unix_nanos(at));
            event.bytes(2, name);
        });
    }
    if let Ending::Denied(reason) = record.ending
        && reason.status() >= 500
    {
        Attributes(span, 9).text("error.type", reason.label());
        failed(span, reason.label());
    }
    let remote = if traced.parent.is_some() { IS_REMOTE } else { 0 };
    span.fixed_32(16, u32::from(traced.context.flags) | REMOTE_IS_SAID | remote);
}

/// What the conventions for generative AI have names for.
fn generated(attributes: &mut Attributes<'_>, traced: &Traced, record: &Record) {
    let operation = match record.endpoint {
        Some(Endpoint::ChatCompletions | Endpoint::Responses | Endpoint::Messages) => "chat",
        Some(Endpoint::Completions) => "text_completion",
        Some(Endpoint::Embeddings) => "embeddings",
        _ => "",
    };
    attributes.text_if("gen_ai.operation.name", Some(operation).filter(|name| !name.is_empty()));
    attributes.text_if("gen_ai.request.model", traced.model.as_deref());
    let usage = record.usage.unwrap_or_default();
    attributes.count_if("gen_ai.usage.input_tokens", usage.prompt);
    attributes.count_if("gen_ai.usage.cache_read.input_tokens", usage.cached);
    let output = Some(record.output.0).filter(|output| *output > 0);
    attributes.count_if("gen_ai.usage.output_tokens", output);
}

/// What was decided about it, and how it ended.
fn decided(attributes: &mut Attributes<'_>, noted: &Noted) {
    let Noted { record, names: [pool, class] } = noted;
    let (outcome, reason) = record.ending.words();
    let since = |at: Moment| at.since(record.arrived);
    attributes.text("forebay.request_id", &record.name);
    attributes.text_if("forebay.pool", pool.as_deref());
    attributes.text_if("forebay.class", class.as_deref());
    attributes.text("forebay.outcome", outcome);
    attributes.text_if("forebay.refusal", reason);
    if record.pool.is_some() {
        attributes.flag("forebay.stream", record.stream);
        attributes.count("forebay.prompt_tokens", record.prompt.0);
    }
    attributes.text_if("forebay.worker", record.worker.as_deref());
    if record.dispatched.is_some() {
        attributes.count("forebay.cached_tokens", record.cached.0);
        attributes.count("forebay.attempts", u64::from(record.attempts));
    }
    attributes.seconds_if("forebay.queue_wait_s", record.dispatched.map(since));
    attributes.seconds_if("forebay.predicted_wait_s", record.predicted_wait);
    attributes.seconds_if("forebay.first_token_s", record.first_token.map(since));
    attributes.seconds_if("forebay.retry_after_s", record.retry_after);
    if record.promised.is_some() {
        attributes.flag("forebay.returned", true);
    }
}

/// A wait, or a worker's attempt.
fn part_of(
    span: &mut Message,
    (nth, part): (usize, &Part),
    (traced, record): (&Traced, &Record),
    about: &About,
) {
    let at = traced.context.child(nth);
    let is_upstream = matches!(part.what, What::Upstream(_));
    let name = if is_upstream { "upstream" } else { "queue" };
    begin(span, &at, Some(&traced.context.span), name);
    span.number(6, if is_upstream { CLIENT } else { INTERNAL });
    let (ended, outcome) = part.ended.unwrap_or((record.ended, record.ending.words().0));
    times(span, (part.begun, ended), &about.clock);
    let mut attributes = Attributes(span, 9);
    attributes.text("forebay.outcome", outcome);
    match &part.what {
        What::Queue(pool) => {
            let pool = about.pools.get(usize::from(pool.0));
            attributes.text_if("forebay.pool", pool.map(String::as_str));
        }
        What::Upstream(worker) => {
            let is_upstream = |part: &&Part| matches!(part.what, What::Upstream(_));
            let before = traced.parts[..nth].iter().filter(is_upstream).count() as u64;
            attributes.text("http.request.method", traced.method);
            if let Ok(url) = WorkerUrl::from_str(worker) {
                attributes.text("server.address", &url.host);
                attributes.count("server.port", u64::from(url.port));
            }
            attributes.text("forebay.worker", worker);
            attributes.count_if("http.request.resend_count", Some(before).filter(|it| *it > 0));
            if part.ended.is_none() && record.first_byte.is_some() {
                attributes.count("http.response.status_code", u64::from(record.status));
            }
        }
    }
    if is_upstream && ["broke", "silent", "lost", "failed"].contains(&outcome) {
        Attributes(span, 9).text("error.type", outcome);
        failed(span, outcome);
    }
    span.fixed_32(16, u32::from(at.flags) | REMOTE_IS_SAID);
}

/// The status of a span that failed.
fn failed(span: &mut Message, why: &str) {
    span.message(15, |status| {
        status.bytes(2, why);
        status.number(3, ERROR);
    });
}

/// Writes attributes into a field of a message.
struct Attributes<'m>(&'m mut Message, u64);

impl Attributes<'_> {
    /// A `KeyValue`, whose value is written into an `AnyValue`.
    fn put(&mut self, name: &str, write: impl FnOnce(&mut Message)) {
        self.0.message(self.1, |pair| {
            pair.bytes(1, name);
            pair.message(2, write);
        });
    }

    fn text(&mut self, name: &str, value: &str) {
        self.put(name, |any| any.bytes(1, value));
    }

    fn text_if(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.put(name, |any| any.number(2, u64::from(value)));
    }

    fn count(&mut self, name: &str, value: u64) {
        self.put(name, |any| any.number(3, value));
    }

    fn count_if(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.count(name, value);
        }
    }

    fn seconds_if(&mut self, name: &str, value: Option<Span>) {
        if let Some(value) = value {
            self.put(name, |any| any.float(4, value.as_secs_f64()));
        }
    }
}
