//! Says how a run goes while it goes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use forebay_core::Span;
use tokio::time::Instant;

/// Counts of a run that somebody may look at at any time, from any thread.
#[derive(Debug, Default)]
pub struct Pulse {
    started: OnceLock<Instant>,
    sent: AtomicU64,
    in_flight: AtomicU64,
    lag_max: AtomicU64,
    is_stopping: AtomicBool,
}

impl Pulse {
    /// When the run started: the moments of its rows count from there.
    pub fn started(&self) -> Option<Instant> {
        self.started.get().copied()
    }

    /// First attempts so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Requests that are under way now.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// The largest lag of the generator since this was asked last.
    pub fn take_lag_max(&self) -> Span {
        Span(self.lag_max.swap(0, Ordering::Relaxed))
    }

    /// The run was told to stop: whatever is still taken from the plan is not sent, and needs no
    /// body.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    pub(super) fn start(&self, at: Instant) {
        // One pulse is of one run; a second one would count on from the first.
        let _ = self.started.set(at);
    }

    pub(super) fn sends(&self, lag: Span) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.lag_max.fetch_max(lag.0, Ordering::Relaxed);
    }

    pub(super) fn set_in_flight(&self, count: usize) {
        self.in_flight.store(count as u64, Ordering::Relaxed);
    }

    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }
}
