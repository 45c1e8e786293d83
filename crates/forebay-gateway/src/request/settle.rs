//! Keeps a request's account from its arrival to its end, and closes it exactly once, whatever
//! happens: by its own words, or by going out of scope when its client has gone.

use std::sync::Arc;

use forebay_core::{ClassId, Moment, Outcome, PoolId, RefusalReason, Span, TenantId, Tokens};
use forebay_wire::answer::Usage;
use forebay_wire::openai::Endpoint;
use http::Response;
use http::request::Parts;

use super::{ReplyBody, head};
use crate::gateway::{Gateway, Load};
use crate::otel::Trace;
use crate::pool::Seat;
use crate::refuse::Denial;

/// How a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its client went away before it ended otherwise.
    #[default]
    Abandoned,
    /// A worker answered it to the end.
    Completed,
    /// A worker said that the request itself was at fault.
    ClientFault,
    /// It was refused, or failed, for this reason.
    Denied(RefusalReason),
}

impl Ending {
    /// Its name in logs and traces, and the label of the reason if there is one.
    pub(crate) fn words(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Completed => ("completed", None),
            Self::ClientFault => ("client_fault", None),
            Self::Abandoned => ("abandoned", None),
            Self::Denied(reason) if reason.is_failure() => ("failed", Some(reason.label())),
            Self::Denied(reason) => ("refused", Some(reason.label())),
        }
    }
}

/// What is known of a request once it is over: sizes and times, never its text.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Its name for its client.
    pub(crate) name: Arc<str>,
    /// What it asked for.
    pub(crate) endpoint: Option<Endpoint>,
    /// Where it was decided.
    pub(crate) pool: Option<PoolId>,
    /// Its class of service.
    pub(crate) class: Option<ClassId>,
    /// Whom it is accounted to.
    pub(crate) tenant: Option<TenantId>,
    /// Whether it asked for a stream.
    pub(crate) stream: bool,
    /// Length of its body.
    pub(crate) body_bytes: u64,
    /// Length of its prompt, estimated.
    pub(crate) prompt: Tokens,
    /// Tokens of it that its worker was believed to hold.
    pub(crate) cached: Tokens,
    /// The wait that was predicted for it at its arrival, under first-come; of one that was refused
    /// undispatched, the wait that its class judged by.
    pub(crate) predicted_wait: Option<Span>,
    /// The worker that it was sent to last, by its URL.
    pub(crate) worker: Option<Arc<str>>,
    /// How often it was sent to a worker.
    pub(crate) attempts: u32,
    /// When it came.
    pub(crate) arrived: Moment,
    /// When it was first sent to a worker.
    pub(crate) dispatched: Option<Moment>,
    /// When the first byte of its answer came.
    pub(crate) first_byte: Option<Moment>,
    /// When the first token of its answer came, as far as that can be seen.
    pub(crate) first_token: Option<Moment>,
    /// When it was over.
    pub(crate) ended: Moment,
    /// The status that its client saw.
    pub(crate) status: u16,
    /// Tokens of its answer, counted or told.
    pub(crate) output: Tokens,
    /// What the worker says that it cost.
    pub(crate) usage: Option<Usage>,
    /// Whether it came back with a place that was kept for it, and when it was told to.
    pub(crate) promised: Option<Moment>,
    /// The Retry-After that it was told.
    pub(crate) retry_after: Option<Span>,
    /// How it ended.
    pub(crate) ending: Ending,
    /// What its trace needs besides.
    pub(crate) trace: Trace,
}

impl Record {
    /// A record of a request that has come.
    pub(crate) fn new(arrived: Moment, name: Arc<str>) -> Self {
        Self {
            name,
            endpoint: None,
            pool: None,
            class: None,
            tenant: None,
            stream: false,
            body_bytes: 0,
            prompt: Tokens(0),
            cached: Tokens(0),
            predicted_wait: None,
            worker: None,
            attempts: 0,
            arrived,
            dispatched: None,
            first_byte: None,
            first_token: None,
            ended: arrived,
            status: 0,
            output: Tokens(0),
            usage: None,
            promised: None,
            retry_after: None,
            ending: Ending::Abandoned,
            trace: Trace::default(),
        }
    }
}

/// A request that no core knows of yet, and perhaps none ever will. Whatever becomes of it before
/// one does is counted, once; also that its client goes away while it sends.
pub(super) struct Visitor {
    pub(super) gateway: Arc<Gateway>,
    pub(super) name: Arc<str>,
    pub(super) record: Record,
    /// A core is about to know of it.
    seated: bool,
}

impl Visitor {
    /// One that has come now, under its client's name or a new one.
    pub(super) fn new(
        gateway: &Arc<Gateway>,
        head: &mut Parts,
        endpoint: Option<Endpoint>,
    ) -> Self {
        let name: Arc<str> = Arc::from(head::name(&mut head.headers, gateway));
        let record = Record::new(gateway.clock.now(), Arc::clone(&name));
        let record = Record { endpoint, ..record };
        Self { gateway: Arc::clone(gateway), name, record, seated: false }
    }

    /// Its record, for the account that a core opens for it.
    pub(super) fn seated(&mut self) -> Record {
        self.seated = true;
        let nothing = Record::new(self.record.arrived, Arc::clone(&self.name));
        std::mem::replace(&mut self.record, nothing)
    }

    /// It is answered with a denial.
    pub(super) fn deny(mut self, denial: &Denial) -> Response<ReplyBody> {
        self.record.status = denial.reason.status();
        self.record.retry_after = denial.retry_after;
        self.record.ending = Ending::Denied(denial.reason);
        denial.response(self.record.endpoint)
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        if !self.seated {
            self.record.ended = self.gateway.clock.now();
            self.gateway.observe.ended(&self.record);
        }
    }
}

/// A request that the core knows of.
pub(crate) struct Account {
    pub(super) gateway: Arc<Gateway>,
    /// Gone once it is closed.
    seat: Option<Seat>,
    pub(super) record: Record,
    /// Bytes of its prompt, where they say something of the model's tokens.
    text_bytes: Option<u64>,
    /// What it holds of the gateway's room for bodies.
    load: Option<Load>,
}

impl Account {
    /// Opens the account of a request that has got a seat.
    pub(super) fn open(
        gateway: Arc<Gateway>,
        seat: Seat,
        record: Record,
        (text_bytes, load): (Option<u64>, Load),
    ) -> Self {
        gateway.observe.offered(&record);
        Self { gateway, seat: Some(seat), record, text_bytes, load: Some(load) }
    }

    /// Its seat, as long as it is open.
    pub(super) fn seat(&mut self) -> &mut Seat {
        self.seat.as_mut().expect("an account that is closed is not used any more")
    }

    /// Moves to a seat in another pool.
    pub(super) fn reseat(&mut self, seat: Seat, text_bytes: Option<u64>) {
        let to = seat.pool().id;
        if let Some(from) = self.record.pool.replace(to) {
            self.gateway.observe.spilled(self.record.class, from, to);
        }
        self.record.trace.queued(&self.gateway.clock, to);
        self.seat = Some(seat);
        self.text_bytes = text_bytes;
    }

    /// The body has been passed on for good.
    pub(super) fn unload(&mut self) {
        self.load = None;
    }

    /// The first token has come.
    pub(super) fn first_token(&mut self, now: Moment) {
        if self.record.first_token.is_none() {
            self.record.first_token = Some(now);
            self.seat().first_token();
        }
    }

    /// So much time lay between two pieces with tokens.
    pub(super) fn gap(&self, gap: Span) {
        if let Some(pool) = self.record.pool {
            self.gateway.observe.gap(pool, gap);
        }
    }

    /// It was sent to a worker.
    pub(super) fn dispatched(&mut self, now: Moment) {
        if self.record.dispatched.is_none() {
            self.record.dispatched = Some(now);
            self.gateway.observe.dispatched(&self.record);
        }
    }

    /// Teaches the pool how long its model's tokens are.
    fn calibrate(&mut self) {
        let tokens = self.record.usage.as_ref().and_then(|usage| usage.prompt);
        if let (Some(bytes), Some(tokens), Some(seat)) = (self.text_bytes, tokens, &self.seat) {
            seat.pool().ratio.learn(bytes, tokens);
        }
    }

    /// Closes it. Without an outcome its worker is told to stop, if it still has one.
    pub(super) fn close(mut self, outcome: Option<Outcome>, ending: Ending) {
        if ending == Ending::Completed {
            self.calibrate();
        }
        self.record.ending = ending;
        if let Some((seat, outcome)) = self.seat.take().zip(outcome) {
            seat.settle(outcome);
        }
        self.report();
    }

    /// Closes it with a denial. Where a worker had the request, the outcome says what became of it
    /// there; where the core has spoken already, nothing is left to tell it.
    pub(super) fn deny(mut self, denial: &Denial, outcome: Option<Outcome>) {
        self.record.status = denial.reason.status();
        self.record.retry_after = denial.retry_after;
        self.record.predicted_wait = self.record.predicted_wait.or(denial.predicted_wait);
        self.close(outcome, Ending::Denied(denial.reason));
    }

    fn report(&mut self) {
        self.record.ended = self.gateway.clock.now();
        self.gateway.observe.ended(&self.record);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // A seat that goes tells the core that the client has gone.
        if self.seat.take().is_some() {
            self.report();
        }
    }
}
