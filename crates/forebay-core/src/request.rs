//! A request as the core sees it: sizes, prefix, class and tenant; never its text.

use std::fmt;
use std::sync::Arc;

use crate::units::{BlockHash, Moment, Tokens};

/// Names one request for as long as the core knows it. The driver chooses it; arrivals carry
/// growing ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Names one worker of the pool. The driver chooses it; small and dense is best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u32);

/// Names one pool: the workers that serve one model. Each pool has a core of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u16);

/// Names one class of service: its place in [`Settings::classes`](crate::Settings::classes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u16);

/// Names one tenant: whoever the requests are accounted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u32);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.0)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.0)
    }
}

/// A place kept for a client that was refused and told when to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// When the request was first offered: its age counts from here.
    pub first_arrived: Moment,
    /// When it was told to come back. An earlier return gains nothing.
    pub promised: Moment,
}

/// A request that asks to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its name, never used before.
    pub request: RequestId,
    /// Its class of service.
    pub class: ClassId,
    /// Whom it is accounted to.
    pub tenant: TenantId,
    /// The conversation it belongs to, hashed; only the `session` mode looks at it.
    pub session: Option<u64>,
    /// Length of the prompt.
    pub prompt: Tokens,
    /// The most tokens it may generate (`max_tokens`), where the client said so.
    pub output_max: Option<Tokens>,
    /// Chained hashes of the prompt's full blocks, in order. May be shorter than the prompt (what
    /// is not hashed counts as private to the request), never longer.
    pub blocks: Arc<[BlockHash]>,
    /// The place kept for it, when it was refused before.
    pub ticket: Option<Ticket>,
}

/// How a dispatched request left its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran to its end and produced this many tokens.
    Completed {
        /// Tokens generated.
        output: Tokens,
    },
    /// The worker would not take it now (its 429 or 503): backpressure, not a fault. No byte was
    /// sent.
    Backpressure,
    /// The worker broke before the first byte: it may run elsewhere.
    Broke,
    /// The worker broke or fell silent after the first byte: it can't be repeated.
    BrokeMidStream,
    /// The worker said that the request itself is at fault (a 4xx). It is finished, and no fault of
    /// the worker.
    ClientFault,
}
