//! Remembers who came and what was decided lately, for whoever asks why.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_core::{
    Arrival, ClassId, Moment, PoolId, Refusal, RequestId, TenantId, Tokens, Why, WorkerId,
};

/// Most arrivals, and most decisions, that are remembered in a pool; the oldest go first.
const RECENT_MAX: usize = 8192;

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    /// When.
    pub(crate) at: Moment,
    /// What its client calls it.
    pub(crate) name: Arc<str>,
    /// Its class of service.
    pub(crate) class: ClassId,
    /// Whom it is accounted to.
    pub(crate) tenant: TenantId,
    /// Length of its prompt, estimated.
    pub(crate) prompt: Tokens,
}

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

/// The latest arrivals and decisions, each in order.
#[derive(Debug, Default)]
pub(super) struct Recent {
    arrived: VecDeque<(RequestId, Arrived)>,
    decided: VecDeque<(RequestId, Remembered)>,
}

impl Arrived {
    /// What is remembered of an arrival.
    pub(super) fn new(arrival: &Arrival, at: Moment, name: Arc<str>) -> Self {
        let Arrival { class, tenant, prompt, .. } = arrival;
        Self { at, name, class: *class, tenant: *tenant, prompt: *prompt }
    }
}

impl Recent {
    /// Remembers one more arrival, and forgets the oldest where there are too many.
    pub(super) fn arrive(&mut self, request: RequestId, arrived: Arrived) {
        push(&mut self.arrived, (request, arrived));
    }

    /// Remembers one more decision, and forgets the oldest where there are too many.
    pub(super) fn note(&mut self, request: RequestId, decision: Remembered) {
        push(&mut self.decided, (request, decision));
    }

    /// What was decided for a request, the oldest first; nothing if it is too long ago.
    pub(super) fn of(&self, request: RequestId) -> Vec<Remembered> {
        let its = self.decided.iter().filter(|(noted, _)| *noted == request);
        its.map(|(_, remembered)| remembered.clone()).collect()
    }

    /// The requests of this name, the oldest first: a client may use one twice.
    pub(super) fn named(&self, name: &str) -> Vec<(RequestId, Arrived)> {
        self.arrived.iter().filter(|(_, arrived)| &*arrived.name == name).cloned().collect()
    }
}

fn push<T>(queue: &mut VecDeque<T>, newest: T) {
    if queue.len() == RECENT_MAX {
        queue.pop_front();
    }
    queue.push_back(newest);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_core::{ClassId, Moment, RequestId, TenantId, Tokens};

    use super::{Arrived, RECENT_MAX, Recent};

    fn arrived(name: &str) -> Arrived {
        let (class, tenant) = (ClassId(0), TenantId(0));
        Arrived { at: Moment(1), name: Arc::from(name), class, tenant, prompt: Tokens(1) }
    }

    #[test]
    fn a_name_finds_all_its_requests_until_newer_ones_have_taken_their_place() {
        let mut recent = Recent::default();
        recent.arrive(RequestId(1), arrived("a"));
        recent.arrive(RequestId(2), arrived("b"));
        recent.arrive(RequestId(3), arrived("a"));
        let ids = |recent: &Recent, name: &str| -> Vec<u64> {
            recent.named(name).iter().map(|(id, _)| id.0).collect()
        };
        assert_eq!(ids(&recent, "a"), [1, 3]);
        assert_eq!(ids(&recent, "c"), [0; 0]);
        (4..4 + RECENT_MAX as u64 - 2).for_each(|id| recent.arrive(RequestId(id), arrived("c")));
        assert_eq!(ids(&recent, "a"), [3]);
        assert_eq!(recent.arrived.len(), RECENT_MAX);
    }
}
