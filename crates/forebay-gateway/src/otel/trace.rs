//! Notes what a request's trace needs and its record does not have: where it belongs, which model
//! it asks for, and when it waited and was with which worker.

use std::sync::Arc;

use forebay_core::{Moment, PoolId};
use http::header::{HeaderMap, HeaderValue};
use http::request::Parts;

use super::Tracer;
use super::context::{Context, TRACEPARENT, TRACESTATE};
use crate::clock::Clock;

/// Most parts of one request that are noted: an attempt has two.
const PARTS_MAX: usize = 64;
/// Longest name of a model that is noted, in bytes: a client can write anything there.
const MODEL_BYTES_MAX: usize = 256;
/// Longest `tracestate` that is noted, in bytes: as long as W3C asks for. It is passed on whatever
/// its length.
const STATE_BYTES_MAX: usize = 512;

/// The methods that traces name: those of RFC 9110 and RFC 5789.
const METHODS: [&str; 9] =
    ["POST", "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE"];
/// Any other, as the conventions for HTTP call it: a client can write anything there, too.
pub(super) const OTHER: &str = "_OTHER";

/// What is known of a request's trace. Nothing where requests are not traced, and where the
/// client has decided that this one is not: its header is then passed on as it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Option<Box<Traced>>);

/// A request with a place in a trace.
#[derive(Clone, Debug)]
pub(super) struct Traced {
    /// The request's own span.
    pub(super) context: Context,
    /// The client's span, if it told one.
    pub(super) parent: Option<[u8; 8]>,
    /// What the client's `tracestate` says.
    pub(super) state: Option<Box<str>>,
    /// The request's method, or that it is none that is known.
    pub(super) method: &'static str,
    /// The model that it asks for.
    pub(super) model: Option<Box<str>>,
    /// When it waited and was with workers, in order.
    pub(super) parts: Vec<Part>,
    /// Parts that were not noted.
    pub(super) parts_dropped: u32,
}

/// A part of a request's way, with a span of its own.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) what: What,
    pub(super) begun: Moment,
    /// When it ended, and how; with the request if it does not say.
    pub(super) ended: Option<(Moment, &'static str)>,
}

/// What happened in that part.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// It waited for this pool's word.
    Queue(PoolId),
    /// A worker of this name had it.
    Upstream(Arc<str>),
}

/// What a worker is told of the trace.
#[derive(Debug)]
pub(crate) struct Sent {
    parent: Option<HeaderValue>,
    /// Whether the trace began here: what came in its name is not of it.
    is_new: bool,
}

impl Trace {
    /// The trace of a request with this head.
    pub(crate) fn begin(tracer: Option<&Tracer>, head: &Parts) -> Self {
        let Some(tracer) = tracer else { return Self(None) };
        let client = Context::of(&head.headers);
        let context = match &client {
            Some(client) if !client.is_sampled() => return Self(None),
            Some(client) => tracer.ids.below(client),
            None => tracer.ids.root(),
        };
        let state = client.is_some().then(|| state(&head.headers)).flatten();
        Self(Some(Box::new(Traced {
            context,
            parent: client.map(|client| client.span),
            state,
            method: METHODS.iter().find(|known| **known == head.method).unwrap_or(&OTHER),
            model: None,
            parts: Vec::new(),
            parts_dropped: 0,
        })))
    }

    /// What is to be told of it, if it is kept.
    pub(super) fn kept(&self) -> Option<&Traced> {
        self.0.as_deref().filter(|traced| traced.context.is_sampled())
    }

    fn kept_mut(&mut self) -> Option<&mut Traced> {
        self.0.as_deref_mut().filter(|traced| traced.context.is_sampled())
    }

    /// It asks for this model.
    pub(crate) fn asks_for(&mut self, model: Option<&str>) {
        if let Some(traced) = self.kept_mut() {
            traced.model = model.map(|model| {
                let end = model.floor_char_boundary(MODEL_BYTES_MAX);
                Box::from(&model[..end])
            });
        }
    }

    /// It begins to wait for a pool's word. Whatever waited until now has been handed over.
    pub(crate) fn queued(&mut self, clock: &Clock, pool: PoolId) {
        if let Some(traced) = self.kept_mut() {
            traced.turn(clock.now(), "spilled", What::Queue(pool));
        }
    }

    /// It is sent to a worker, which is told this.
    pub(crate) fn sent(&mut self, clock: &Clock, worker: &Arc<str>) -> Sent {
        if let Some(traced) = self.kept_mut() {
            traced.turn(clock.now(), "dispatched", What::Upstream(Arc::clone(worker)));
        }
        let Some(traced) = self.0.as_deref() else { return Sent { parent: None, is_new: false } };
        let above = match traced.parts.len() {
            0 => traced.context,
            parts => traced.context.child(parts - 1),
        };
        Sent { parent: Some(above.header()), is_new: traced.parent.is_none() }
    }

    /// The worker that had it has not answered, for this reason.
    pub(crate) fn left(&mut self, clock: &Clock, how: &'static str) {
        if let Some(traced) = self.kept_mut() {
            traced.end(clock.now(), how);
        }
    }
}

impl Traced {
    /// Ends the part that goes on, and begins another one.
    fn turn(&mut self, now: Moment, how: &'static str, what: What) {
        self.end(now, how);
        if self.parts.len() < PARTS_MAX {
            self.parts.push(Part { what, begun: now, ended: None });
        } else {
            self.parts_dropped += 1;
        }
    }

    fn end(&mut self, now: Moment, how: &'static str) {
        if let Some(part) = self.parts.last_mut().filter(|part| part.ended.is_none()) {
            part.ended = Some((now, how));
        }
    }
}

impl Sent {
    /// Tells it.
    pub(crate) fn mark(&self, headers: &mut HeaderMap) {
        let Some(parent) = &self.parent else { return };
        headers.insert(TRACEPARENT, parent.clone());
        if self.is_new {
            headers.remove(TRACESTATE);
        }
    }
}

/// The `tracestate` of these headers, whose lines are one list.
fn state(headers: &HeaderMap) -> Option<Box<str>> {
    let lines = headers.get_all(TRACESTATE).iter();
    let lines: Vec<&str> = lines.map(|line| line.to_str().ok()).collect::<Option<_>>()?;
    let whole = lines.join(",");
    (1..=STATE_BYTES_MAX).contains(&whole.len()).then(|| whole.into_boxed_str())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_core::PoolId;
    use http::{HeaderMap, HeaderValue};

    use super::{PARTS_MAX, STATE_BYTES_MAX, Trace, Traced, state};
    use crate::clock::Clock;
    use crate::otel::context::{Context, TRACEPARENT, TRACESTATE};

    fn trace() -> Trace {
        let context = Context { trace: [7; 16], span: [8; 8], flags: 1 };
        Trace(Some(Box::new(Traced {
            context,
            parent: None,
            state: None,
            method: "POST",
            model: None,
            parts: Vec::new(),
            parts_dropped: 0,
        })))
    }

    #[test]
    fn a_request_that_is_tried_for_ever_has_a_bounded_trace_whose_parts_all_end() {
        let (clock, worker) = (Clock::start(), Arc::from("http://a:1"));
        let mut trace = trace();
        for _ in 0..PARTS_MAX {
            trace.queued(&clock, PoolId(0));
            trace.sent(&clock, &worker);
            trace.left(&clock, "broke");
        }
        let traced = trace.kept().unwrap();
        assert_eq!((traced.parts.len(), traced.parts_dropped), (PARTS_MAX, PARTS_MAX as u32));
        assert!(traced.parts.iter().all(|part| part.ended.is_some()));
    }

    #[test]
    fn the_name_of_a_model_is_cut_between_two_letters() {
        let mut trace = trace();
        trace.asks_for(Some(&"ü".repeat(1_000)));
        assert_eq!(trace.kept().unwrap().model.as_deref(), Some("ü".repeat(128).as_str()));
    }

    #[test]
    fn what_is_not_kept_is_not_noted_and_its_worker_is_told_so() {
        let (clock, worker) = (Clock::start(), Arc::from("http://a:1"));
        let mut trace = trace();
        trace.0.as_mut().unwrap().context.flags = 0;
        trace.queued(&clock, PoolId(0));
        let mut headers = HeaderMap::new();
        headers.insert(TRACESTATE, HeaderValue::from_static("a=1"));
        trace.sent(&clock, &worker).mark(&mut headers);
        assert!(trace.kept().is_none() && trace.0.unwrap().parts.is_empty());
        assert!(headers[TRACEPARENT].to_str().unwrap().ends_with("-0808080808080808-00"));
        assert_eq!(headers.get(TRACESTATE), None);
    }

    #[test]
    fn lines_of_a_tracestate_are_one_list_and_a_strange_one_is_left_out() {
        let of = |lines: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(TRACESTATE, HeaderValue::from_bytes(line).unwrap());
            }
            state(&headers)
        };
        assert_eq!(of(&[b"a=1", b"b=2"]).as_deref(), Some("a=1,b=2"));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[b"a=\xff"]), None);
        assert_eq!(of(&[&[b'a'; STATE_BYTES_MAX + 1]]), None);
    }
}
