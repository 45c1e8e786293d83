//! Counts one class's requests in one pool.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay_core::{RefusalReason, Span};

use super::histogram::{Histogram, LENGTHS, RATIOS, WAITS};
use crate::request::{Ending, Record};

/// The least prediction that a wait is divided by: a ratio to almost nothing says nothing.
const PREDICTION_MIN: Span = Span::millis(100);

/// A counter that any thread may add to.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    /// Adds.
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
    /// What was counted so far.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts and histograms of one class in one pool.
///
/// Every request is offered once, and ends once, in each pool that it is in: `offered` is the sum
/// of what has ended and what is open.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) offered: Count,
    pub(super) dispatched: Count,
    pub(super) completed: Count,
    pub(super) client_faults: Count,
    pub(super) abandoned: Count,
    pub(super) spilled: Count,
    /// By the number of the reason.
    denied: [Count; RefusalReason::ALL.len()],
    pub(super) retries: Count,
    pub(super) returned: Count,
    pub(super) returned_refused: Count,
    pub(super) queue_wait: Histogram,
    pub(super) predicted: Histogram,
    pub(super) prediction: Histogram,
    pub(super) ttft: Histogram,
    pub(super) latency: Histogram,
    pub(super) uncached: Histogram,
    pub(super) retry_after: Histogram,
    pub(super) returned_wait: Histogram,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            offered: Count::default(),
            dispatched: Count::default(),
            completed: Count::default(),
            client_faults: Count::default(),
            abandoned: Count::default(),
            spilled: Count::default(),
            denied: Default::default(),
            retries: Count::default(),
            returned: Count::default(),
            returned_refused: Count::default(),
            queue_wait: Histogram::new(&WAITS),
            predicted: Histogram::new(&WAITS),
            prediction: Histogram::new(&RATIOS),
            ttft: Histogram::new(&WAITS),
            latency: Histogram::new(&WAITS),
            uncached: Histogram::new(&LENGTHS),
            retry_after: Histogram::new(&WAITS),
            returned_wait: Histogram::new(&WAITS),
        }
    }
}

impl Series {
    /// How many were denied for a reason.
    pub(super) fn denied(&self, reason: RefusalReason) -> u64 {
        self.denied[reason as usize].get()
    }

    /// How many have ended. Read before [`Series::offered`], so that the difference is never below
    /// zero.
    pub(super) fn ended_len(&self) -> u64 {
        let denied: u64 = self.denied.iter().map(Count::get).sum();
        denied
            + self.completed.get()
            + self.client_faults.get()
            + self.abandoned.get()
            + self.spilled.get()
    }

    /// A request was sent to a worker for the first time.
    pub(super) fn dispatch(&self, record: &Record, waited: Span) {
        self.dispatched.add(1);
        self.queue_wait.record(waited.0);
        self.uncached.record(record.prompt.saturating_sub(record.cached).0);
        if let Some(predicted) = record.predicted_wait {
            self.predicted.record(predicted.0);
            if predicted >= PREDICTION_MIN {
                let ratio = waited.0 as f64 / predicted.0 as f64;
                self.prediction.record((ratio * 1_000.0).round() as u64);
            }
        }
        if record.promised.is_some() {
            self.returned_wait.record(waited.0);
        }
    }

    /// A request is over.
    pub(super) fn end(&self, record: &Record) {
        match record.ending {
            Ending::Completed => {
                self.completed.add(1);
                self.latency.record(record.ended.since(record.arrived).0);
            }
            Ending::ClientFault => self.client_faults.add(1),
            Ending::Abandoned => self.abandoned.add(1),
            Ending::Denied(reason) => self.denied[reason as usize].add(1),
        }
        if record.attempts > 1 {
            self.retries.add(u64::from(record.attempts - 1));
        }
        if let Some(first) = record.first_token {
            self.ttft.record(first.since(record.arrived).0);
        }
        if let Some(promise) = record.retry_after {
            self.retry_after.record(promise.0);
        }
        if record.promised.is_some() {
            self.returned.add(1);
            if matches!(record.ending, Ending::Denied(reason) if !reason.is_failure()) {
                self.returned_refused.add(1);
            }
        }
    }
}
