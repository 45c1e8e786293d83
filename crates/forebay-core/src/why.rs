//! Why a request was dispatched, or spilled, the way it was: everything `forebay explain` needs for
//! a paragraph.

use crate::request::{RequestId, WorkerId};
use crate::units::{Span, Tokens};

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A pushing mode chose at arrival.
    Pushed,
    /// It was the best pair of request and worker by the order.
    Order,
    /// It had waited past its promise and went first.
    Promise,
    /// It took the worker that was reserved for it.
    Reserved,
    /// Its worker was lost, broke or was full before the first byte, and it runs again.
    Again,
    /// Its class spills, and the predicted wait was above the class's limit.
    Spilled,
}

/// What the gate saw of the chosen worker, before the request was committed to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateView {
    /// Tokens that its requests will hold at the worst moment to come.
    pub committed: Tokens,
    /// What the request adds to that: new unique blocks, its tail, and its expected output, as far
    /// as others are still there by then.
    pub need: Tokens,
    /// The worker's KV capacity, known or learned.
    pub capacity: Tokens,
    /// The fraction of it that may be committed.
    pub fraction: f64,
}

/// One worker as a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Which worker.
    pub worker: WorkerId,
    /// Its score for this request; the lowest wins.
    pub score: f64,
    /// Tokens of the prompt that it holds.
    pub cached: Tokens,
    /// Uncached tokens dispatched to it whose first token has not come.
    pub backlog: Tokens,
}

/// Why a request was dispatched, or spilled, the way it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// What decided.
    pub cause: Cause,
    /// The mode in force.
    pub mode: &'static str,
    /// Length of the prompt.
    pub prompt: Tokens,
    /// The output that was reserved for it.
    pub expected_output: Tokens,
    /// What its KV was weighed at where the cheapest goes first: tokens of prefill that could be
    /// done while it holds its part of a worker.
    pub occupancy: Tokens,
    /// How long it waited.
    pub waited: Span,
    /// The wait that first-come would have cost it, predicted at its arrival; `None` while nothing
    /// has been measured to predict from.
    pub predicted_wait: Option<Span>,
    /// The best few candidates, the chosen one first.
    pub candidates: Vec<Candidate>,
    /// How many workers were open and how many were looked at in all.
    pub workers_open: u32,
    /// What the gate saw, in a mode that has one.
    pub gate: Option<GateView>,
    /// Requests still waiting in the pool once it had left.
    pub queue_len: u32,
    /// Requests that came before it and were waiting still.
    pub passed: u32,
    /// The request that went last before it, if it waited.
    pub behind: Option<RequestId>,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}
