//! Sends requests to live endpoints at their scheduled moments, and says what came of each.
//!
//! Open-loop: nothing that an endpoint does moves the moment at which the next request goes out, so
//! a slow endpoint meets the queue that real clients would make. Every latency counts from the
//! scheduled moment, and the lag of the client itself is recorded beside it. HTTP is spoken
//! through hyper directly: a pool that waits for a free connection would close the loop again.
//!
//! What is due while as many as may be are under way is late, not left out: it waits in the plan,
//! goes out when there is room, and its lag says so. A client that leaves out what it can't send
//! measures a smaller load than it reports.
//!
//! | file | does |
//! |---|---|
//! | [`Target`] | where requests go |
//! | [`arrivals`] | says when requests come where no trace does |
//! | [`Bodies`] | makes prompts of traces, so that equal prefixes are equal text |
//! | [`Transport`] | in which version of HTTP, and with which certificates |
//! | [`Settings`] | how requests are sent, and how clients take refusals |
//! | [`Words`], [`Calibration`] | what prompts are made of, and how many tokens that is |
//! | [`Workload`] | which requests come, when, and on whose behalf |
//! | [`Tokenizer`] | chooses words of one token each for a model |
//! | [`Sent`] | input tokens of a trace beside those of the prompts |
//! | [`run`] | sends each request when it is due, and never waits for an answer |
//! | [`Pulse`] | how it goes, for whoever watches |
//! | [`Ended`] | what the generator saw of itself, and whether the run's figures may be used |
//! | [`conduct`], [`View`] | a run whose rows are written while somebody watches |
//! | [`Tally`], [`Summary`] | figures over all that were offered |

mod alarm;
mod answer;
pub mod arrivals;
mod body;
mod calibration;
mod call;
mod conduct;
mod connect;
mod drive;
mod due;
mod events;
mod fetch;
mod machine;
mod outgoing;
mod planner;
mod preface;
mod pulse;
mod repeat;
mod secrets;
mod sent;
mod settings;
mod shared;
mod summary;
mod table;
mod target;
mod tokenizer;
mod transport;
mod view;
mod witness;
mod words;
mod workload;

use std::sync::Arc;

use bytes::Bytes;
use forebay_core::Span;
use http::HeaderMap;

pub use body::{Ask, Bodies, Form};
pub use calibration::{Calibration, CalibrationError, calibrate};
pub use conduct::{ProbeError, conduct, probe};
pub use drive::run;
pub use fetch::{ModelError, only_model};
pub(crate) use fetch::{ask, fetch};
pub use machine::raise_descriptors;
pub(crate) use planner::Planner;
pub use pulse::Pulse;
pub use repeat::{is_secret, repeat};
pub use sent::Sent;
pub use settings::{Retry, Settings, Users};
pub use summary::{Summary, Tally};
pub use table::table;
pub use target::{Target, TargetError};
pub use tokenizer::{Tokenizer, TokenizerError};
pub use transport::{Http, Tls, TlsError, Transport};
pub use view::View;
pub use witness::Ended;
pub use words::{WORDS_MAX, WORDS_MIN, Words};
pub use workload::{Names, Survey, What, When, Workload, WorkloadError};

/// One request that is to be sent.
#[derive(Clone, Debug, Default)]
pub struct Planned {
    /// When it is due, counted from the start of the run.
    pub at: Span,
    /// The body, sent as it is.
    pub body: Bytes,
    /// Headers besides those of all requests of the run, `host`, `content-type` and
    /// `content-length`. One that is marked as sensitive is kept out of every result.
    pub headers: HeaderMap,
    /// The client goes away this long after the request was due, whatever has come by then.
    /// `None`: it stays to the end.
    pub leaves_after: Option<Span>,
    /// It warms the target up, and no figure counts it.
    pub is_warmup: bool,
    /// The conversation it belongs to.
    pub session: Option<u64>,
    /// Its place in the conversation, from 0.
    pub turn: u32,
    /// It is due this long after the conversation's previous turn has ended, instead of at `at`.
    pub delay: Option<Span>,
    /// The class of service it asks for. Only told: a header has to say it to the target.
    pub class: Option<Arc<str>>,
    /// Whom it is accounted to. Only told, as well.
    pub tenant: Option<Arc<str>>,
    /// Tokens of its prompt, as planned.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer that it asks for.
    pub output_tokens: Option<u64>,
}

#[cfg(test)]
mod tests;
