//! Counts and logs what happens.
//!
//! | module | answers |
//! |---|---|
//! | `catalogue` | which metrics are there, and what to do when one moves? |
//! | `series` | what is counted of one class in one pool? |
//! | `table` | where are the counts of a request? |
//! | `histogram` | how are values counted by size, without a lock? |
//! | `page` | what does a scrape see? |
//! | `access_log` | what is written down of each request? |
//!
//! A request is counted where it is offered, where it is first sent to a worker, and at its end,
//! each time without hashing, allocating or waiting for anybody.

mod access_log;
pub(crate) mod catalogue;
pub(crate) mod histogram;
mod page;
mod series;
mod table;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use forebay_core::{ClassId, PoolId, Span};
use forebay_wire::openai::Endpoint;

use crate::listen::ConnectionCounts;
use crate::otel::Tracer;
use crate::record::Recording;
use crate::request::Record;
use crate::rules::Rules;
pub(crate) use access_log::{AccessLog, LogTo, rfc3339};
use histogram::{GAPS, Histogram};
pub(crate) use page::CONTENT_TYPE;
use table::Table;

/// What is counted and logged.
#[derive(Debug)]
pub(crate) struct Observe {
    pools: Vec<PoolCounts>,
    table: RwLock<Arc<Table>>,
    log: Option<AccessLog>,
    tracer: Option<Tracer>,
    /// The state of each pool's recording, by pool; empty where nothing is recorded.
    recordings: Vec<Arc<Recording>>,
    /// What the listener counts, once there is one.
    connections: OnceLock<Arc<ConnectionCounts>>,
}

/// What is counted of a pool whatever the class.
#[derive(Debug)]
struct PoolCounts {
    name: Arc<str>,
    gaps: Histogram,
}

impl Observe {
    /// Counts for pools of these names, and for the classes of the rules.
    pub(crate) fn new<'a>(pools: impl IntoIterator<Item = &'a str>, rules: &Rules) -> Self {
        let counts = |name| PoolCounts { name: Arc::from(name), gaps: Histogram::new(&GAPS) };
        let pools: Vec<PoolCounts> = pools.into_iter().map(counts).collect();
        let table = Table::new(pools.len(), rules, None);
        Self {
            pools,
            table: RwLock::new(Arc::new(table)),
            log: None,
            tracer: None,
            recordings: Vec::new(),
            connections: OnceLock::new(),
        }
    }

    /// Writes a line for each request as well.
    #[must_use]
    pub(crate) fn with_access_log(mut self, log: AccessLog) -> Self {
        self.log = Some(log);
        self
    }

    /// Traces each request as well, if there is what does that.
    #[must_use]
    pub(crate) fn with_tracer(mut self, tracer: Option<Tracer>) -> Self {
        self.tracer = tracer;
        self
    }

    /// What traces requests, if they are traced.
    pub(crate) fn tracer(&self) -> Option<&Tracer> {
        self.tracer.as_ref()
    }

    /// Shows the state of these recordings, one for each pool, as well.
    #[must_use]
    pub(crate) fn with_recordings(mut self, recordings: Vec<Arc<Recording>>) -> Self {
        self.recordings = recordings;
        self
    }

    /// Shows these counts of connections as well.
    pub(crate) fn show_connections(&self, counts: Arc<ConnectionCounts>) {
        // Whoever comes second has the same ones: there is one listener.
        let _ = self.connections.set(counts);
    }

    /// Counts for other classes from now on. Those whose names stay keep their counts; those that
    /// are gone disappear.
    pub(crate) fn reconfigure(&self, rules: &Rules) {
        let newer = Table::new(self.pools.len(), rules, Some(&self.table()));
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(newer);
    }

    /// A pool's core is about to be asked about a request.
    pub(crate) fn offered(&self, record: &Record) {
        self.table().of(record.pool, record.class).offered.add(1);
    }

    /// A pool handed a request to another one: it has ended in the first, and begins in the second.
    pub(crate) fn spilled(&self, class: Option<ClassId>, from: PoolId, to: PoolId) {
        let table = self.table();
        table.of(Some(from), class).spilled.add(1);
        table.of(Some(to), class).offered.add(1);
    }

    /// A request was sent to a worker for the first time.
    pub(crate) fn dispatched(&self, record: &Record) {
        let waited = record.dispatched.map_or(Span::ZERO, |at| at.since(record.arrived));
        self.table().of(record.pool, record.class).dispatch(record, waited);
    }

    /// So much time lay between two pieces of an answer.
    pub(crate) fn gap(&self, pool: PoolId, gap: Span) {
        if let Some(gaps) = self.gaps(pool) {
            gaps.record(gap.0);
        }
    }

    /// A request is over.
    pub(crate) fn ended(&self, record: &Record) {
        let table = self.table();
        let series = table.of(record.pool, record.class);
        if record.pool.is_none() {
            // No pool's core was ever asked about it.
            series.offered.add(1);
        }
        series.end(record);
        if self.log.is_none() && self.tracer.is_none() {
            return;
        }
        let pool = record.pool.and_then(|pool| self.pools.get(usize::from(pool.0)));
        let pool = pool.map(|pool| &pool.name);
        let class = record.class.and_then(|class| table.classes.get(usize::from(class.0)));
        if let Some(tracer) = &self.tracer {
            tracer.note(record, [pool, class].map(Option::<&_>::cloned));
        }
        if let Some(log) = &self.log {
            let tenant = record.tenant.and_then(|tenant| table.tenants.get(tenant.0 as usize));
            let names = [pool, class, tenant].map(Option::<&_>::cloned);
            log.note(record, names);
        }
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn gaps(&self, pool: PoolId) -> Option<&Histogram> {
        self.pools.get(usize::from(pool.0)).map(|pool| &pool.gaps)
    }

    fn log_dropped(&self) -> u64 {
        self.log.as_ref().map_or(0, AccessLog::dropped)
    }
}

/// The path of an endpoint, as its name in logs and traces.
pub(crate) fn endpoint_path(endpoint: Endpoint) -> &'static str {
    match endpoint {
        Endpoint::ChatCompletions => "/v1/chat/completions",
        Endpoint::Completions => "/v1/completions",
        Endpoint::Embeddings => "/v1/embeddings",
        Endpoint::Responses => "/v1/responses",
        Endpoint::Messages => "/v1/messages",
        Endpoint::Rerank => "/v1/rerank",
        Endpoint::Tokenize => "/tokenize",
        Endpoint::Detokenize => "/detokenize",
    }
}
