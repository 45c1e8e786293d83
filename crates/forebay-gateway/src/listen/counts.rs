//! Counts connections and what became of them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What the metrics page says of connections. Totals only grow.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounts {
    /// Connections that are open, those in their TLS handshake included.
    pub(crate) open: AtomicUsize,
    /// Connections taken in.
    pub(crate) accepted_total: AtomicU64,
    /// Connections refused: too many, or too many of one peer.
    pub(crate) refused_total: AtomicU64,
    /// Connections that could not be taken in: no descriptor or no memory was left.
    pub(crate) accept_failed_total: AtomicU64,
    /// TLS handshakes that failed, those that took too long included.
    pub(crate) handshake_failed_total: AtomicU64,
    /// Requests whose headers took too long.
    pub(crate) header_timeouts_total: AtomicU64,
    /// Connections closed because nothing was asked on them.
    pub(crate) idle_timeouts_total: AtomicU64,
    /// Connections cut because the client did not read its answer.
    pub(crate) write_timeouts_total: AtomicU64,
    /// Requests that were not HTTP, broke its rules or its bounds, or asked for what no gateway
    /// does; and HTTP/2 connections that ended for that.
    pub(crate) bad_requests_total: AtomicU64,
    /// Connections cut with a request on them because the time for stopping was over.
    pub(crate) cut_total: AtomicU64,
}

/// Adds one.
pub(super) fn count(total: &AtomicU64) {
    total.fetch_add(1, Ordering::Relaxed);
}
