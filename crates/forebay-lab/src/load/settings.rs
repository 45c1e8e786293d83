//! Says how requests are sent: where, within which bounds, and how clients take refusals.

use std::sync::Arc;

use forebay_core::Span;
use http::HeaderMap;

use super::arrivals::Think;
use super::{Pulse, Target, Transport};
use crate::simulate::Client;

/// The largest 99th percentile of its own lag that a generator may have: a tenth of the 100 ms
/// below which people notice no delay, so that it moves no figure that a decision hangs on.
const LAG_MAX: Span = Span::millis(10);

/// How requests are sent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where they go, in turn. None at all sends nothing.
    pub targets: Vec<Target>,
    /// How they are reached.
    pub transport: Transport,
    /// Headers of every request. One that is marked as sensitive is kept out of every result.
    pub headers: HeaderMap,
    /// Whether a connection serves one request after another.
    pub reuse: bool,
    /// So many may be under way at once; what is due beyond them is late.
    pub in_flight_max: usize,
    /// How long an attempt may take from when it was due.
    pub patience: Span,
    /// How many bytes an answer that is no stream, or one event of a stream, may have.
    pub answer_bytes_max: usize,
    /// How clients take refusals.
    pub retry: Retry,
    /// Users who each wait for their answer before they ask again; `None` where requests come when
    /// the plan says, whatever became of others.
    pub users: Option<Users>,
    /// The largest 99th percentile of the generator's own lag that leaves a run valid.
    pub lag_max: Span,
    /// Seed of every draw.
    pub seed: u64,
    /// Where a watcher sees how it goes.
    pub pulse: Arc<Pulse>,
}

/// How clients take refusals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// When they come back.
    pub client: Client,
    /// At most so many retries for each request that was sent so far, 0 to 1; `None` is no bound.
    pub budget: Option<f64>,
}

/// Users in a closed loop. Moments and delays of the plan do not count: whoever is ready takes its
/// next request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Users {
    /// How many there are.
    pub count: u32,
    /// How long each thinks after an answer. The first requests are spread over one mean pause.
    pub think: Think,
    /// No request is made from this moment on.
    pub until: Option<Span>,
}

impl Settings {
    /// Settings for these targets: HTTP/1.1, connections used again, 4,096 requests under way, ten
    /// minutes of patience (as OpenAI's own clients have), 8 MiB an answer, nobody who tries again.
    pub fn for_targets(targets: Vec<Target>) -> Self {
        Self {
            targets,
            transport: Transport::default(),
            headers: HeaderMap::new(),
            reuse: true,
            in_flight_max: 4_096,
            patience: Span::secs(600),
            answer_bytes_max: 8 << 20,
            retry: Retry { client: Client::None, budget: None },
            users: None,
            lag_max: LAG_MAX,
            seed: 1,
            pulse: Arc::default(),
        }
    }
}
