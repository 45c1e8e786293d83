//! Decides, for every request, whether it may run, when it may run, and where.
//!
//! Nothing here reads a clock, a socket or a random device. Time arrives with each input, and randomness comes
//! from one seed, so the same inputs give the same decisions, live, simulated and replayed.
//!
//! A driver does three things, in this order, for ever:
//!
//! 1. it waits for the next input, or for the moment of the last [`Output::Sleep`];
//! 2. it calls [`Core::handle`] with the time and the input;
//! 3. it calls [`Core::poll`] and does what it says, until it says [`Output::Sleep`].
//!
//! Moments never go back, and every dispatched request is answered by exactly one [`Input::Finished`] or
//! [`Input::Abandoned`], unless its worker [left](Observation::Left).

mod explain;
mod input;
mod output;
mod refusal;
mod request;
mod rng;
mod routing;
mod settings;
#[cfg(test)]
mod strategies;
mod units;
mod why;
mod words;

pub use input::{Input, Load, Observation, WorkerProfile};
pub use output::{Alarm, Output};
pub use refusal::{Refusal, RefusalReason};
pub use request::{Arrival, ClassId, Outcome, PoolId, RequestId, TenantId, Ticket, WorkerId};
pub use rng::{Rng, mixed};
pub use routing::{HoldOrder, KvPreset, Mode, UnknownMode};
pub use settings::{
    Bucket, ClassSettings, GateSettings, Knowledge, Limits, Overload, Settings, TenantSettings,
};
pub use units::{BlockHash, Moment, Span, Tokens};
pub use why::{Candidate, Cause, GateView, Why};
pub use words::{BadWords, WORDS_VERSION};

/// Decides for one pool. See the [crate's documentation](crate) for the calling order.
#[derive(Debug)]
pub struct Core {
    now: Moment,
}

impl Core {
    /// A core with no workers and no requests.
    pub fn new(_settings: Settings, _seed: u64) -> Self {
        Self { now: Moment::START }
    }
    /// Takes one input. Call [`Core::poll`] until it sleeps before the next input.
    pub fn handle(&mut self, now: Moment, _input: Input) {
        self.now = now;
    }
    /// Yields the next thing to do; [`Output::Sleep`] ends the round.
    pub fn poll(&mut self) -> Output {
        Output::Sleep(None)
    }
}
