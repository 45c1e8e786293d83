//! What the core asks of the world.

use crate::refusal::Refusal;
use crate::request::{PoolId, RequestId, WorkerId};
use crate::units::Moment;
use crate::why::Why;

/// What the core asks of the world.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an output left undone is a request left hanging"]
pub enum Output {
    /// Send the request to the worker.
    Dispatch(RequestId, WorkerId, Box<Why>),
    /// Hand the request to another pool's core.
    Spill(RequestId, PoolId, Box<Why>),
    /// Answer the client with a refusal, or with a failure that no retry can mend.
    Refuse(RequestId, Refusal),
    /// Tell the worker to stop working on the request: nobody waits for it any more.
    Cancel(RequestId, WorkerId),
    /// Nothing more to do before this moment (and why then), or before the next input if `None`.
    Sleep(Option<(Moment, Alarm)>),
}

/// Why the core wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// A waiting request reaches the longest wait of its class.
    WaitedTooLong,
    /// A mark on a worker expires and it is tried again.
    Mark,
}
