//! Sends requests to live endpoints at their scheduled moments, and records what came of each.
//!
//! Open-loop: nothing that an endpoint does moves the moment at which the next request goes out, so
//! a slow endpoint meets the queue that real clients would make. Every latency counts from the
//! scheduled moment, and the lag of the client itself is recorded beside it. HTTP/1.1 is spoken
//! through hyper directly: a pool that waits for a free connection would close the loop again.
//!
//! | file | does |
//! |---|---|
//! | [`Target`] | where requests go |
//! | [`arrivals`] | says when requests come where no trace does |
//! | [`Bodies`] | makes prompts of traces, so that equal prefixes are equal text |
//! | [`Words`], [`Calibration`] | what prompts are made of, and how many tokens that is |
//! | [`Tokenizer`] | chooses words of one token each for a model |
//! | [`Sent`] | input tokens of a trace beside those of the prompts |
//! | [`run`] | sends each request when it is due, and never waits for an answer |
//! | [`Record`], [`Outcome`] | what came of one request |
//! | [`Tally`], [`Summary`] | figures over all that were offered |

mod answer;
pub mod arrivals;
mod body;
mod calibration;
mod call;
mod connect;
mod drive;
mod events;
mod fetch;
mod record;
mod sent;
mod summary;
mod target;
mod tokenizer;
mod words;

use bytes::Bytes;
use forebay_core::Span;
use http::HeaderMap;

pub use body::{Ask, Bodies, Form};
pub use calibration::{Calibration, CalibrationError, calibrate};
pub use drive::run;
pub(crate) use fetch::fetch;
pub use record::{Fault, Outcome, Record};
pub use sent::Sent;
pub use summary::{Summary, Tally};
pub use target::{Target, TargetError};
pub use tokenizer::{Tokenizer, TokenizerError};
pub use words::{WORDS_MAX, WORDS_MIN, Words};

/// One request that is to be sent.
#[derive(Clone, Debug, Default)]
pub struct Planned {
    /// When it is due, counted from the start of the run.
    pub at: Span,
    /// The body, sent as it is.
    pub body: Bytes,
    /// Headers besides `host`, `content-type` and `content-length`.
    pub headers: HeaderMap,
    /// The client closes its connection this long after it began to send, whatever has come by
    /// then. `None`: it stays to the end.
    pub leaves_after: Option<Span>,
}

/// How requests are sent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where they go, in turn. None at all sends nothing.
    pub targets: Vec<Target>,
    /// Whether a connection serves one request after another.
    pub reuse: bool,
    /// So many may be under way at once; one that is due beyond them is not sent, and counted.
    pub in_flight_max: usize,
    /// How long a request may take from when it began to be sent.
    pub patience: Span,
    /// How many bytes an answer that is no stream, or one event of a stream, may have.
    pub answer_bytes_max: usize,
}

impl Settings {
    /// Settings for these targets: connections used again, 4,096 requests under way, ten minutes of
    /// patience (as OpenAI's own clients have), 8 MiB an answer.
    pub fn for_targets(targets: Vec<Target>) -> Self {
        Self {
            targets,
            reuse: true,
            in_flight_max: 4_096,
            patience: Span::secs(600),
            answer_bytes_max: 8 << 20,
        }
    }
}

#[cfg(test)]
mod tests;
