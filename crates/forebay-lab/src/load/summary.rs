//! Sums up a run over all that were offered.

use forebay_core::Span;

use crate::results::{Outcome, Row};
use crate::simulate::Latency;

/// Takes rows one by one, 16 bytes of memory for each.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    offered: u64,
    refused: u64,
    failed: u64,
    timed_out: u64,
    cancelled: u64,
    not_sent: u64,
    ttft: Vec<u64>,
    lag: Vec<u64>,
    first: Option<Span>,
    last: Span,
    cached_tokens: u64,
    prompt_tokens: u64,
}

/// A run in figures. Unserved requests count as infinitely late.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Summary {
    /// All requests of the plan.
    pub offered: u64,
    /// Those served to their end.
    pub completed: u64,
    /// Those refused for want of room.
    pub refused: u64,
    /// Those that were not served for another reason.
    pub failed: u64,
    /// Those that took longer than the client's patience.
    pub timed_out: u64,
    /// Those whose client left.
    pub cancelled: u64,
    /// Those that were never sent.
    pub not_sent: u64,
    /// From the scheduled moment to the first token, over all offered.
    pub ttft_ms: Latency,
    /// How late the client itself was, over all that it sent.
    pub lag_ms: Latency,
    /// From the first scheduled moment to the last end, in seconds.
    pub makespan_s: f64,
    /// Share of the prompt tokens that the engines found in their caches, by their own count.
    pub cached_share: Option<f64>,
}

impl Tally {
    /// Counts one request, unless it was to warm the target up.
    pub fn add(&mut self, row: &Row) {
        if row.is_warmup {
            return;
        }
        self.offered += 1;
        match row.outcome {
            Outcome::Completed => {}
            Outcome::Refused => self.refused += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::TimedOut => self.timed_out += 1,
            Outcome::Cancelled => self.cancelled += 1,
            Outcome::NotSent => self.not_sent += 1,
        }
        self.ttft.extend(row.ttft().map(|ttft| ttft.0));
        self.lag.extend(row.lag().map(|lag| lag.0));
        let first = self.first.get_or_insert(row.scheduled);
        *first = (*first).min(row.scheduled);
        self.last = self.last.max(row.last().map_or(row.scheduled, |last| last.end));
        let usage = row.last().map(|last| last.usage).unwrap_or_default();
        self.prompt_tokens += usage.prompt_tokens.unwrap_or(0);
        self.cached_tokens += usage.cached_tokens.unwrap_or(0);
    }

    /// From the scheduled moment to the first token, over those that were completed only.
    pub fn completed_ttft_ms(&self) -> Latency {
        Latency::of(&sorted(&self.ttft), 0)
    }

    /// How many were refused for want of room so far.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// The figures so far.
    pub fn summary(&self) -> Summary {
        let completed = self.ttft.len() as u64;
        let share = self.cached_tokens as f64 / self.prompt_tokens as f64;
        Summary {
            offered: self.offered,
            completed,
            refused: self.refused,
            failed: self.failed,
            timed_out: self.timed_out,
            cancelled: self.cancelled,
            not_sent: self.not_sent,
            ttft_ms: Latency::of(&sorted(&self.ttft), self.offered - completed),
            lag_ms: Latency::of(&sorted(&self.lag), 0),
            makespan_s: (self.last - self.first.unwrap_or(self.last)).as_secs_f64(),
            cached_share: (self.prompt_tokens > 0).then_some(share),
        }
    }
}

fn sorted(values: &[u64]) -> Vec<u64> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values
}
