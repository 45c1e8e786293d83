//! Remembers what was decided lately, for whoever asks why.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_core::{Moment, PoolId, Refusal, RequestId, Why, WorkerId};

/// Most decisions that are remembered in a pool; the oldest go first.
const RECENT_MAX: usize = 8192;

/// One decision, and when it was made.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    /// When.
    pub(crate) at: Moment,
    /// What.
    pub(crate) what: Verdict,
}

/// What was decided.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// It was sent to a worker.
    Dispatched(WorkerId, Arc<Why>),
    /// It was handed to another pool.
    Spilled(PoolId, Arc<Why>),
    /// It was refused, or failed.
    Refused(Refusal),
}

/// The latest decisions, in order.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<(RequestId, Remembered)>);

impl Recent {
    /// Remembers one more, and forgets the oldest where there are too many.
    pub(super) fn note(&mut self, request: RequestId, at: Moment, what: Verdict) {
        if self.0.len() == RECENT_MAX {
            self.0.pop_front();
        }
        self.0.push_back((request, Remembered { at, what }));
    }

    /// What is remembered of a request, the oldest first; nothing if it is too long ago.
    pub(super) fn of(&self, request: RequestId) -> Vec<Remembered> {
        let its = self.0.iter().filter(|(noted, _)| *noted == request);
        its.map(|(_, remembered)| remembered.clone()).collect()
    }
}
