//! The body of an answer, as the client's connection polls it: no buffer between worker and client,
//! so that a slow reader slows the worker's connection and nothing else.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use forebay_core::{Moment, Outcome, RefusalReason, Tokens};
use forebay_wire::answer::{BodyScan, Usage};
use forebay_wire::openai::Endpoint;
use forebay_wire::sse::StreamScan;
use forebay_wire::unasked::UnaskedUsage;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::response::Parts;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};

use super::progress::Queued;
use super::{Account, Ending};
use crate::pool::{Remembered, Verdict};
use crate::refuse::Denial;
use crate::rules::Timeouts;
use crate::workers::Worker;
use crate::workers::connect::Connection;
use crate::workers::silence::Owed;

/// Tokens between two reports of how far an answer has come.
const PROGRESS_TOKENS: u64 = 64;

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum ReplyBody {
    /// All of it is here.
    Whole(Option<Bytes>),
    /// It comes from a worker.
    Relay(Box<RelayBody>),
    /// It waits for its worker, and says so.
    Queued(Box<Queued>),
}

/// A body that broke: the connection must not end as if nothing had happened.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the worker broke off its answer")]
pub(crate) struct BrokenOff;

impl ReplyBody {
    /// A body that is here.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
    /// A body that comes from a worker.
    pub(super) fn relay(relay: RelayBody) -> Self {
        Self::Relay(Box::new(relay))
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Relay(relay) => relay.poll(cx).map(|piece| piece.map(|it| it.map(Frame::data))),
            Self::Queued(queued) => {
                queued.poll(cx).map(|piece| piece.map(|it| it.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Relay(relay) => relay.size_hint(),
            Self::Queued(_) => SizeHint::default(),
        }
    }
}

/// Reads an answer on its way, in the form that it has.
#[derive(Debug)]
pub(super) enum Scan {
    /// A stream of events.
    Events(StreamScan),
    /// One JSON document.
    Document(BodyScan),
}

impl Scan {
    /// For an answer with this head.
    pub(super) fn of(endpoint: Endpoint, head: &Parts) -> Self {
        let kind = head.headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes);
        let events = b"text/event-stream";
        let is_events = kind.and_then(|kind| kind.get(..events.len()));
        if is_events.is_some_and(|kind| kind.eq_ignore_ascii_case(events)) {
            Self::Events(StreamScan::new(endpoint.into()))
        } else {
            Self::Document(BodyScan::default())
        }
    }
    /// Reads the next piece.
    pub(super) fn feed(&mut self, piece: &[u8]) {
        match self {
            Self::Events(scan) => scan.feed(piece),
            Self::Document(scan) => scan.feed(piece),
        }
    }
    /// Whether it says that it failed.
    pub(super) fn failed(&self) -> bool {
        match self {
            Self::Events(scan) => scan.failed(),
            Self::Document(scan) => scan.failed(),
        }
    }
    fn usage(&self) -> Option<Usage> {
        match self {
            Self::Events(scan) => scan.usage(),
            Self::Document(scan) => scan.usage(),
        }
    }
}

/// An answer that has begun.
pub(super) struct Begun {
    /// Has read the first piece.
    pub(super) scan: Scan,
    /// Takes out what its client did not ask for.
    pub(super) unasked: Option<UnaskedUsage>,
    pub(super) status: StatusCode,
    pub(super) first: Option<Bytes>,
    pub(super) rest: Incoming,
    pub(super) connection: Connection,
    pub(super) worker: Arc<Worker>,
    pub(super) timeouts: Timeouts,
}

/// Passes a worker's answer on, and closes the request's account at its end.
pub(crate) struct RelayBody {
    /// Gone once the account is closed.
    account: Option<Account>,
    scan: Scan,
    unasked: Option<UnaskedUsage>,
    status: StatusCode,
    first: Option<Bytes>,
    rest: Incoming,
    connection: Option<Connection>,
    worker: Arc<Worker>,
    /// Whether the next piece of a stream is the worker's to give, and not the client's to take.
    owed: Owed,
    timeouts: Timeouts,
    reported: u64,
    last_piece: Instant,
    /// When the last piece with tokens came.
    last_token: Option<Moment>,
    /// Rings when the answer has stalled, or taken too long in all.
    bell: Pin<Box<Sleep>>,
    ends_by: Instant,
}

impl std::fmt::Debug for RelayBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayBody").field("worker", &self.worker.name).finish_non_exhaustive()
    }
}

impl RelayBody {
    /// Takes over the account of a request whose answer has begun.
    pub(super) fn new(account: Account, begun: Begun) -> Self {
        let now = Instant::now();
        let clock = account.gateway.clock;
        let since = clock.now().since(account.record.arrived);
        let spent = std::time::Duration::from_nanos(since.0);
        let ends_by = now + begun.timeouts.total.saturating_sub(spent);
        let bell = Box::pin(sleep_until(ends_by.min(now + begun.timeouts.idle)));
        Self {
            account: Some(account),
            scan: begun.scan,
            unasked: begun.unasked,
            status: begun.status,
            first: begun.first,
            rest: begun.rest,
            connection: Some(begun.connection),
            owed: Owed::by(&begun.worker),
            worker: begun.worker,
            timeouts: begun.timeouts,
            reported: 0,
            last_piece: now,
            last_token: None,
            bell,
            ends_by,
        }
    }

    /// The next piece.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        let Some(account) = &mut self.account else { return Poll::Ready(None) };
        if account.seat().poll_news(cx).is_ready() {
            return Poll::Ready(Some(self.overtaken(cx)));
        }
        if let Some(first) = self.first.take()
            && let Some(piece) = self.pass(first)
        {
            return Poll::Ready(Some(Ok(piece)));
        }
        loop {
            let Poll::Ready(frame) = Pin::new(&mut self.rest).poll_frame(cx) else {
                self.owed.set(self.has_first_token());
                return self.poll_bell(cx);
            };
            match frame {
                Some(Ok(frame)) => {
                    let Ok(piece) = frame.into_data() else { continue };
                    self.scan.feed(&piece);
                    if let Some(piece) = self.pass(piece) {
                        return Poll::Ready(Some(Ok(piece)));
                    }
                }
                Some(Err(_)) => {
                    return Poll::Ready(Some(self.break_off(RefusalReason::UpstreamFailed)));
                }
                None => return Poll::Ready(self.end()),
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.as_ref().map_or(0, |first| first.len() as u64);
        match self.rest.size_hint().exact() {
            Some(rest) if matches!(self.scan, Scan::Document(_)) => {
                SizeHint::with_exact(first + rest)
            }
            _ => SizeHint::default(),
        }
    }

    /// Passes a piece on, or what its client should see of it. Whoever knows the length does not
    /// ask for more after the last one, so the end is taken note of with it.
    fn pass(&mut self, piece: Bytes) -> Option<Bytes> {
        self.owed.set(false);
        self.note();
        if self.rest.is_end_stream() && !self.ends_too_soon() {
            self.close();
        } else if let (Scan::Document(_), 0, Some(account)) =
            (&self.scan, self.reported, &mut self.account)
        {
            // A part of it has gone out, so that it can't be repeated any more.
            self.reported = 1;
            account.seat().first_token();
        }
        let Some(unasked) = &mut self.unasked else { return Some(piece) };
        let mut seen = unasked.feed(&piece);
        if self.account.is_none() {
            seen.extend(unasked.finish());
        }
        Some(Bytes::from(seen)).filter(|seen| !seen.is_empty())
    }

    /// Takes note of a piece that was read and is about to be passed on.
    fn note(&mut self) {
        let Some(account) = &mut self.account else { return };
        let clock = account.gateway.clock;
        let now = clock.now();
        self.worker.alive(now);
        self.last_piece = Instant::from_std(clock.instant(now));
        let Scan::Events(scan) = &self.scan else { return };
        if !scan.first_token_seen() {
            return;
        }
        match self.last_token.replace(now) {
            None => account.first_token(now),
            Some(before) => account.gap(now.since(before)),
        }
        let tokens = scan.tokens_out();
        if tokens >= self.reported + PROGRESS_TOKENS {
            self.reported = tokens;
            account.seat().progress(tokens);
        }
    }

    /// Whether it is a stream that has begun in earnest.
    fn has_first_token(&self) -> bool {
        matches!(&self.scan, Scan::Events(scan) if scan.first_token_seen())
    }

    /// Looks whether the answer has stalled.
    fn poll_bell(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        loop {
            ready!(self.bell.as_mut().poll(cx));
            let stalls_at = self.last_piece + self.timeouts.idle;
            let at = stalls_at.min(self.ends_by);
            if Instant::now() >= at {
                return Poll::Ready(Some(self.break_off(RefusalReason::UpstreamTimeout)));
            }
            self.bell.as_mut().reset(at);
        }
    }

    /// The worker has ended its answer.
    fn end(&mut self) -> Option<Result<Bytes, BrokenOff>> {
        if self.ends_too_soon() {
            return Some(self.break_off(RefusalReason::UpstreamFailed));
        }
        self.close();
        let held = self.unasked.as_mut().map(UnaskedUsage::finish).unwrap_or_default();
        (!held.is_empty()).then(|| Ok(Bytes::from(held)))
    }

    /// Whether what looks like an end is none: some workers close the connection when they die.
    fn ends_too_soon(&mut self) -> bool {
        let Scan::Events(scan) = &mut self.scan else { return false };
        scan.end();
        self.status.is_success() && !(scan.done() || scan.finish_reason_seen() || scan.failed())
    }

    /// Closes the account of an answer that is complete.
    fn close(&mut self) {
        self.owed.set(false);
        if let Some(connection) = self.connection.take() {
            self.worker.keep(connection);
        }
        let Some(mut account) = self.account.take() else { return };
        account.record.usage = self.scan.usage();
        let counted = match &self.scan {
            Scan::Events(scan) => scan.tokens_out(),
            Scan::Document(_) => 0,
        };
        let output = account.record.usage.and_then(|usage| usage.completion).unwrap_or(counted);
        account.record.output = Tokens(output);
        let failed = RefusalReason::UpstreamFailed;
        if self.status.is_client_error() || self.status.is_redirection() {
            // What it says in its body is no news: the request is at fault.
            account.close(Some(Outcome::ClientFault), Ending::ClientFault);
        } else if self.status.is_server_error() {
            account.close(Some(Outcome::ClientFault), Ending::Denied(failed));
        } else if self.scan.failed() {
            account.close(Some(Outcome::BrokeMidStream), Ending::Denied(failed));
        } else {
            account.close(Some(Outcome::Completed { output: Tokens(output) }), Ending::Completed);
        }
    }

    /// The core has spoken again while the answer runs: its worker is lost, or the gateway ends. If
    /// there is another worker for it, that one has done nothing wrong.
    fn overtaken(&mut self, cx: &mut Context<'_>) -> Result<Bytes, BrokenOff> {
        let spoken = self.account.as_mut().map(|account| account.seat().poll_decision(cx));
        let reason = match spoken {
            Some(Poll::Ready(Remembered { what: Verdict::Refused(refusal), .. })) => refusal.reason,
            _ => RefusalReason::UpstreamFailed,
        };
        self.cut(reason, None)
    }

    /// The worker has broken its answer off.
    fn break_off(&mut self, reason: RefusalReason) -> Result<Bytes, BrokenOff> {
        self.cut(reason, Some(Outcome::BrokeMidStream))
    }

    /// Ends an answer before its end: a stream says so in its own words, and anything else must not
    /// look whole.
    fn cut(&mut self, reason: RefusalReason, outcome: Option<Outcome>) -> Result<Bytes, BrokenOff> {
        self.connection = None;
        self.owed.set(false);
        let endpoint = self.account.as_ref().and_then(|account| account.record.endpoint);
        if let Some(account) = self.account.take() {
            account.close(outcome, Ending::Denied(reason));
        }
        match &self.scan {
            Scan::Events(_) => {
                let body = Denial::plain(reason).body(endpoint);
                // What was begun of an event before is ended first, so that this one stands alone.
                Ok(Bytes::from(if endpoint == Some(Endpoint::Messages) {
                    format!("\n\nevent: error\ndata: {body}\n\n")
                } else {
                    format!("\n\ndata: {body}\n\ndata: [DONE]\n\n")
                }))
            }
            Scan::Document(_) => Err(BrokenOff),
        }
    }
}
