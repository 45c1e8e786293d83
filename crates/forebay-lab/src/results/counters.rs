//! Counts what a summary says of some requests.

use std::collections::BTreeMap;

use forebay_core::Span;

use super::quantiles::Quantiles;
use super::summary::{CompletedOnly, Counts, Group, RetryAfter, TokenFigures};
use super::{Attempt, Fault, Outcome, Row};
use crate::simulate::{Fixed, Ratio};

/// The times of a completed request, in microseconds.
#[derive(Clone, Copy)]
pub(super) struct Served {
    pub(super) ttft: u64,
    pub(super) itl: Option<u64>,
    pub(super) e2e: u64,
}

/// What a group's quantiles are of, each with a key that is of no interest here.
pub(super) struct Parts<'a, K> {
    pub(super) served: &'a [(K, Served)],
    pub(super) refused: &'a [(K, u64)],
    pub(super) waits: &'a [(K, u64)],
}

/// Counts of some requests.
#[derive(Default)]
pub(super) struct Counters {
    by_outcome: Counts,
    unserved_by_status: BTreeMap<u16, u64>,
    failed_by: BTreeMap<Fault, u64>,
    attempts: u64,
    attempts_by_outcome: Counts,
    /// Requests that were not completed and may have had two tokens.
    unserved_of_two: u64,
    tokens: Tokens,
    span: Option<(Span, Span)>,
}

/// Counts of tokens of completed requests.
#[derive(Default)]
struct Tokens {
    prompt: u64,
    output: u64,
    asked: u64,
    short: u64,
    output_asked: u64,
    output_got: u64,
    usage_missing: u64,
    usage_too_low: u64,
    cached_known: u64,
    cached: u64,
    cached_of: u64,
}

impl Counters {
    pub(super) fn add(&mut self, row: &Row) {
        *self.by_outcome.entry(row.outcome).or_default() += 1;
        for attempt in &row.attempts {
            *self.attempts_by_outcome.entry(attempt.outcome).or_default() += 1;
        }
        self.attempts += row.attempts.len() as u64;
        // What was never sent has no end: its moment in the plan may lie beyond that of the run.
        let end = row.last().map_or(Span::ZERO, |last| last.end);
        let (first, last) = self.span.unwrap_or((row.scheduled, end.max(row.scheduled)));
        self.span = Some((first.min(row.scheduled), last.max(end)));
        match row.last().filter(|_| row.outcome == Outcome::Completed) {
            Some(last) => self.tokens.add(row, last),
            None => self.add_unserved(row),
        }
    }

    fn add_unserved(&mut self, row: &Row) {
        self.unserved_of_two += u64::from(row.output_tokens.is_none_or(|asked| asked >= 2));
        if let Some(status) = row.last().and_then(|last| last.status) {
            *self.unserved_by_status.entry(status).or_default() += 1;
        }
        if row.outcome == Outcome::Failed {
            let fault = row.last().and_then(|last| last.fault).unwrap_or(Fault::Unknown);
            *self.failed_by.entry(fault).or_default() += 1;
        }
    }

    pub(super) fn group<K>(&self, parts: &Parts<'_, K>) -> Group {
        let by_outcome = whole(&self.by_outcome);
        let offered: u64 = by_outcome.values().sum();
        let completed = by_outcome[&Outcome::Completed];
        let share = |part: u64| Ratio::ratio(part as f64, offered as f64);
        let sorted = |time: fn(&Served) -> Option<u64>| {
            sorted(parts.served.iter().filter_map(|(_, it)| time(it)))
        };
        let ttft = sorted(|it| Some(it.ttft));
        let itl = sorted(|it| it.itl);
        let e2e = sorted(|it| Some(it.e2e));
        let unserved = offered - completed;
        let makespan = self.span.map_or(0.0, |(first, last)| (last - first).as_secs_f64());
        Group {
            offered,
            completed_share: share(completed),
            refused_share: share(by_outcome[&Outcome::Refused]),
            unserved_by_status: self.unserved_by_status.clone(),
            failed_by: self.failed_by.clone(),
            attempts: self.attempts,
            attempts_by_outcome: whole(&self.attempts_by_outcome),
            amplification: share(self.attempts),
            ttft_ms: Quantiles::of(&ttft, unserved),
            itl_ms: Quantiles::of(&itl, self.unserved_of_two),
            e2e_ms: Quantiles::of(&e2e, unserved),
            completed_only: CompletedOnly {
                ttft_ms: Quantiles::of(&ttft, 0),
                itl_ms: Quantiles::of(&itl, 0),
                e2e_ms: Quantiles::of(&e2e, 0),
            },
            time_to_refuse_ms: Quantiles::of(&values(parts.refused), 0),
            retry_after: RetryAfter {
                refusals: self.attempts_by_outcome.get(&Outcome::Refused).copied().unwrap_or(0),
                given: parts.waits.len() as u64,
                wait_ms: Quantiles::of(&values(parts.waits), 0),
            },
            tokens: self.tokens.figures(),
            makespan_s: Fixed::some(makespan),
            completed_per_s: Fixed::ratio(completed as f64, makespan),
            output_tokens_per_s: Fixed::ratio(self.tokens.output as f64, makespan),
            by_outcome,
        }
    }
}

impl Tokens {
    fn add(&mut self, row: &Row, last: &Attempt) {
        let (usage, chunks) = (last.usage, last.chunks.len() as u64);
        let prompt = usage.prompt_tokens.or(row.prompt_tokens).unwrap_or(0);
        let output = last.generated();
        self.prompt = self.prompt.saturating_add(prompt);
        self.output = self.output.saturating_add(output);
        if let Some(asked) = row.output_tokens {
            self.asked += 1;
            self.short += u64::from(output < asked);
            self.output_asked = self.output_asked.saturating_add(asked);
            self.output_got = self.output_got.saturating_add(output);
        }
        self.usage_missing += u64::from(usage.output_tokens.is_none());
        self.usage_too_low += u64::from(usage.output_tokens.is_some_and(|said| said < chunks));
        if let (Some(cached), Some(of)) = (usage.cached_tokens, usage.prompt_tokens) {
            self.cached_known += 1;
            self.cached = self.cached.saturating_add(cached.min(of));
            self.cached_of = self.cached_of.saturating_add(of);
        }
    }

    fn figures(&self) -> TokenFigures {
        TokenFigures {
            prompt: self.prompt,
            output: self.output,
            asked: self.asked,
            short: self.short,
            short_share: Ratio::ratio(self.short as f64, self.asked as f64),
            output_asked: self.output_asked,
            output_got: self.output_got,
            usage_missing: self.usage_missing,
            usage_too_low: self.usage_too_low,
            cached_known: self.cached_known,
            cached_share: Ratio::ratio(self.cached as f64, self.cached_of as f64),
        }
    }
}

/// Counts with every outcome in them.
pub(super) fn whole(counts: &Counts) -> Counts {
    let count = |outcome| (outcome, counts.get(&outcome).copied().unwrap_or(0));
    Outcome::ALL.into_iter().map(count).collect()
}

fn values<K>(parts: &[(K, u64)]) -> Vec<u64> {
    sorted(parts.iter().map(|(_, value)| *value))
}

fn sorted(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values
}
