//! Keeps the record of each logical request, and those that are still under way.

use std::sync::Arc;

use foldhash::fast::FixedState;
use forebay_core::{BlockHash, Moment, Refusal, RefusalReason, RequestId, Ticket};
use hashbrown::HashMap;

use super::source::Pulled;
use super::{Fate, Promises, RequestRecord};

/// A request that is in a core or at a worker.
#[derive(Clone, Debug)]
pub(super) struct Open {
    /// The logical request.
    pub(super) pulled: Pulled,
    /// Hashes of the prompt's full blocks, at the block size of its pool.
    pub(super) blocks: Arc<[BlockHash]>,
    /// When this attempt came.
    pub(super) arrived: Moment,
    /// The place kept for this attempt.
    pub(super) ticket: Option<Ticket>,
    /// This attempt came exactly when an uncut Retry-After told it to.
    pub(super) as_promised: bool,
    /// The pool it is in.
    pub(super) pool: u16,
    /// Its worker; `None` while the core holds it.
    pub(super) worker: Option<u32>,
    /// Its first token has come.
    pub(super) is_answered: bool,
}

/// A client that was refused and will come back.
#[derive(Clone, Debug)]
pub(super) struct Away {
    /// What it will offer again.
    pub(super) open: Open,
    /// Why it was refused last.
    pub(super) reason: RefusalReason,
}

/// All records, and all requests under way.
#[derive(Debug)]
pub(super) struct Books {
    /// One record a request, by its place in the trace.
    pub(super) records: Vec<RequestRecord>,
    /// Requests in a core or at a worker. Never iterated but to close the books, in order of name.
    pub(super) open: HashMap<RequestId, Open, FixedState>,
    /// Clients that will come back, by place in the trace.
    pub(super) away: HashMap<u64, Away, FixedState>,
    /// The present name of each open request, where clients may run out of patience.
    pub(super) names: Option<HashMap<u64, RequestId, FixedState>>,
    /// Requests held in cores.
    pub(super) held: u32,
    /// Requests pulled from the trace and not closed yet.
    pub(super) outstanding: u64,
    /// Preemptions so far.
    pub(super) preemptions: u64,
    named: u64,
}

impl Books {
    /// Empty books; `by_name` keeps the index that impatient clients need.
    pub(super) fn new(by_name: bool) -> Self {
        let map = || HashMap::with_hasher(FixedState::default());
        Self {
            records: Vec::new(),
            open: HashMap::with_hasher(FixedState::default()),
            away: HashMap::with_hasher(FixedState::default()),
            names: by_name.then(map),
            held: 0,
            outstanding: 0,
            preemptions: 0,
            named: 0,
        }
    }

    /// A request was pulled from the trace: it has a record from now on.
    pub(super) fn pulled(&mut self, pulled: &Pulled) {
        self.outstanding += 1;
        self.records.push(RequestRecord {
            id: pulled.id,
            scheduled: Moment::START,
            class: pulled.class.0,
            tenant: pulled.tenant.0,
            prompt: pulled.request.prompt.0,
            output: pulled.request.output.0,
            cached: None,
            // Overwritten when it ends, and every request ends.
            fate: Fate::Abandoned,
            attempts: 0,
            core_requests: Vec::new(),
            worker: None,
            queue: None,
            dispatched: None,
            first_token: None,
            ended: Moment::START,
            predicted_wait: None,
            retry_after: None,
            promises: Promises::default(),
            preemptions: 0,
        });
    }

    /// The record of this request.
    pub(super) fn record(&mut self, id: u64) -> &mut RequestRecord {
        &mut self.records[id as usize]
    }

    /// The record of an open request.
    pub(super) fn record_of(
        &mut self,
        request: RequestId,
    ) -> Option<(&mut Open, &mut RequestRecord)> {
        let open = self.open.get_mut(&request)?;
        let record = &mut self.records[open.pulled.id as usize];
        Some((open, record))
    }

    /// A request enters a core under a new name.
    pub(super) fn enters(&mut self, open: Open) -> RequestId {
        let name = RequestId(self.named);
        self.named += 1;
        self.held += 1;
        if let Some(names) = &mut self.names {
            names.insert(open.pulled.id, name);
        }
        self.record(open.pulled.id).core_requests.push(name.0);
        self.open.insert(name, open);
        name
    }

    /// A request leaves the core or the worker that has it.
    pub(super) fn leaves(&mut self, request: RequestId) -> Option<Open> {
        let open = self.open.remove(&request)?;
        self.held -= u32::from(open.worker.is_none());
        if let Some(names) = &mut self.names {
            names.remove(&open.pulled.id);
        }
        Some(open)
    }

    /// A request goes back from its worker to the core.
    pub(super) fn returns_to_core(&mut self, request: RequestId) {
        if let Some(open) = self.open.get_mut(&request)
            && open.worker.take().is_some()
        {
            self.held += 1;
        }
    }

    /// Notes what a refusal says.
    pub(super) fn refused(&mut self, id: u64, refusal: &Refusal) {
        let record = self.record(id);
        record.predicted_wait = refusal.predicted_wait.or(record.predicted_wait);
        let Some(after) = refusal.retry_after else { return };
        record.retry_after = Some((after, refusal.sustained));
        record.promises.given = record.promises.given.saturating_add(1);
        record.promises.cut = record.promises.cut.saturating_add(u16::from(refusal.sustained));
    }

    /// A request has ended.
    pub(super) fn ends(&mut self, open: &Open, fate: Fate, now: Moment) {
        self.outstanding -= 1;
        let record = self.record(open.pulled.id);
        record.fate = fate;
        record.ended = now;
        record.promises.kept = open.as_promised && fate == Fate::Completed;
    }
}
