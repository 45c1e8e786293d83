//! Sums up a live run: the object in `summary.json`.
//!
//! Latency counts from the moment a request was due. Every distribution is over all that were
//! offered, with what was not served as infinitely late; beside it stands the one over completed
//! requests only, and is named so. Requests that warmed the target up are counted apart.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::Serialize;

use super::quantiles::Quantiles;
use super::{About, Fault, Outcome};
use crate::simulate::{Millis, Ratio};

/// A run, summed up. The order of the fields is the order of the keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// [`SCHEMA`](super::SCHEMA).
    pub schema: &'static str,
    /// What the run was.
    pub about: About,
    /// Whether every request of the plan is accounted for, once.
    pub conservation: Conservation,
    /// How the requests that warmed up ended: nothing else here counts them.
    pub warmup: Counts,
    /// All requests.
    pub all: Group,
    /// Those of each class, by name; requests without one are only in `all`.
    pub classes: IndexMap<String, Group>,
    /// Those of each tenant, by name; requests without one are only in `all`.
    pub tenants: IndexMap<String, Group>,
}

/// Whether every request of the plan is accounted for, once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Conservation {
    /// Whether all of the figures below are as they must be.
    pub holds: bool,
    /// Rows, those that warmed up included.
    pub rows: u64,
    /// Places of the plan up to the last one seen that have no row. Must be 0.
    pub missing: u64,
    /// Rows for a place of the plan that already had one. Must be 0.
    pub repeated: u64,
    /// Rows that ended in another way than their last attempt, or that were sent without an
    /// attempt. Must be 0.
    pub contradictory: u64,
}

/// Requests by how they ended.
pub type Counts = BTreeMap<Outcome, u64>;

/// Some requests of a run, summed up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// Requests that were to be sent: the sum of `by_outcome`.
    pub offered: u64,
    /// How they ended; every outcome is there, also those with none.
    pub by_outcome: Counts,
    /// Completed, as a share of the offered.
    pub completed_share: Ratio,
    /// Refused, as a share of the offered.
    pub refused_share: Ratio,
    /// Last statuses of those that were not completed, where there was one.
    pub unserved_by_status: BTreeMap<u16, u64>,
    /// Why those that failed did.
    pub failed_by: BTreeMap<Fault, u64>,
    /// Times that requests were sent.
    pub attempts: u64,
    /// Attempts by how they ended.
    pub attempts_by_outcome: Counts,
    /// Attempts for each request offered.
    pub amplification: Ratio,
    /// Due to first token.
    pub ttft_ms: Quantiles,
    /// The mean gap between tokens of each request of which two were asked or came.
    pub itl_ms: Quantiles,
    /// Due to the end.
    pub e2e_ms: Quantiles,
    /// The same over completed requests only: not to be compared between runs that complete
    /// different requests.
    pub completed_only: CompletedOnly,
    /// Due until the client knew that it was refused for good, over the refused.
    pub time_to_refuse_ms: Quantiles,
    /// What refusals asked their clients to wait.
    pub retry_after: RetryAfter,
    /// Tokens that were asked for and that came.
    pub tokens: TokenFigures,
    /// First due to last end, in seconds.
    pub makespan_s: Millis,
    /// Completed requests in each second of the makespan.
    pub completed_per_s: Millis,
    /// Output tokens of completed requests in each second of the makespan.
    pub output_tokens_per_s: Millis,
}

/// Latencies over completed requests only.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CompletedOnly {
    /// Due to first token.
    pub ttft_ms: Quantiles,
    /// The mean gap between tokens of each request with two at least.
    pub itl_ms: Quantiles,
    /// Due to the end.
    pub e2e_ms: Quantiles,
}

/// What refusals asked their clients to wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RetryAfter {
    /// Attempts that were refused.
    pub refusals: u64,
    /// Of them, those that named a wait.
    pub given: u64,
    /// The waits that they named.
    pub wait_ms: Quantiles,
}

/// Tokens that were asked for and that came, of completed requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TokenFigures {
    /// Tokens of prompts: as the endpoint counts them, else as planned.
    pub prompt: u64,
    /// Tokens of answers: as the endpoint counts them, but at least one for each event with one.
    pub output: u64,
    /// Answers that were asked to have a number of tokens.
    pub asked: u64,
    /// Of them, those that came short.
    pub short: u64,
    /// The same as a share: an endpoint that answers less looks faster.
    pub short_share: Ratio,
    /// Tokens that answers should have had, over those asked.
    pub output_asked: u64,
    /// Tokens that the same answers had.
    pub output_got: u64,
    /// Answers without any count of tokens from the endpoint.
    pub usage_missing: u64,
    /// Answers whose count of tokens is lower than the events that held one: not believed.
    pub usage_too_low: u64,
    /// Answers that said how many tokens of the prompt were cached.
    pub cached_known: u64,
    /// Of the prompts of those, the share of tokens that were cached.
    pub cached_share: Ratio,
}

impl Summary {
    /// One JSON object, indented, with a line break at its end.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("names, counts and numbers are all JSON") + "\n"
    }
}
