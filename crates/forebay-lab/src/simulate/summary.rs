//! Sums up a run: the object that `forebay simulate --json` prints.
//!
//! Latency counts from the first scheduled attempt. Every distribution is over all that were
//! offered, with what was never served as infinitely late; beside it stands the one over the
//! served, and is labelled so.

use forebay_core::{Moment, RefusalReason, Span};
use indexmap::IndexMap;
use serde::Serialize;

use super::figures::{Fixed, Latency, Millis, Ratio};
use super::{Fate, RequestRecord, RunRecord};

/// How many times what first-come would have cost a request may wait: what the default promise
/// says.
const PROMISE_FACTOR: f64 = 2.0;

/// What a request must keep to count as good. The default is the largest TTFT that the default
/// criteria of a drill allow at p99.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// The longest time to first token.
    pub ttft_max: Span,
    /// The largest mean gap between tokens.
    pub itl_max: Option<Span>,
    /// The longest time to the last token.
    pub e2e_max: Option<Span>,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { ttft_max: Span::secs(60), itl_max: None, e2e_max: None }
    }
}

impl Thresholds {
    fn are_kept(&self, times: &Times) -> bool {
        let within = |nanos: Option<u64>, most: Option<Span>| {
            most.is_none_or(|most| nanos.is_none_or(|nanos| nanos <= most.0))
        };
        times.ttft <= self.ttft_max.0
            && within(times.itl, self.itl_max)
            && within(Some(times.e2e), self.e2e_max)
    }
}

/// A run, summed up. The order of the fields is the order of the keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The trace's name.
    pub trace: String,
    /// The mode's name.
    pub mode: String,
    /// Number of workers.
    pub workers: u32,
    /// The seed.
    pub seed: u64,
    /// The engine preset's name; several are joined by `+`.
    pub engine: String,
    /// All requests.
    #[serde(flatten)]
    pub all: Group,
    /// The most requests that ever waited in the core of one pool.
    pub queue_len_max_seen: u64,
    /// The requests of each class.
    pub classes: IndexMap<String, Group>,
    /// The requests of each tenant.
    pub tenants: IndexMap<String, Group>,
}

/// Some requests of a run, summed up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// Logical requests: `completed + refused + abandoned + failed`.
    pub offered: u64,
    /// Served to the last token.
    pub completed: u64,
    /// Refused for good.
    pub refused: u64,
    /// Given up by their clients.
    pub abandoned: u64,
    /// Failed by a worker.
    pub failed: u64,
    /// Refused for good, by the last reason.
    pub refused_by: IndexMap<&'static str, u64>,
    /// Attempts: the requests that the core saw.
    pub attempts: u64,
    /// Attempts for each request.
    pub amplification: Ratio,
    /// Scheduled to first token.
    pub ttft_ms: Latency,
    /// The mean gap between tokens of each request with at least two.
    pub itl_ms: Latency,
    /// Scheduled to last token.
    pub e2e_ms: Latency,
    /// Last arrival to dispatch.
    pub queue_ms: Latency,
    /// The same over the served only: not to be compared between runs that serve different
    /// requests.
    pub completed_only: CompletedOnly,
    /// First scheduled to last end.
    pub makespan_s: Millis,
    /// Prompt tokens found in the cache at first admission, as a share of those admitted.
    pub prefix_hit_share: Ratio,
    /// Preemptions.
    pub preemptions: u64,
    /// Output tokens of the served, over the makespan.
    pub output_tokens_per_s: Millis,
    /// Served within the thresholds, as a share of the offered.
    pub goodput_share: Ratio,
    /// Waited more than twice what first-come was predicted to cost, as a share of the offered.
    pub waited_beyond_promise_share: Ratio,
    /// What became of the Retry-Afters that were sent.
    pub promises: PromiseFigures,
}

/// Latencies over the served only.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompletedOnly {
    /// Scheduled to first token.
    pub ttft_ms: Latency,
    /// The mean gap between tokens of each request with at least two.
    pub itl_ms: Latency,
    /// Scheduled to last token.
    pub e2e_ms: Latency,
    /// Last arrival to dispatch.
    pub queue_ms: Latency,
}

/// What became of the Retry-Afters that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PromiseFigures {
    /// Refusals that named one.
    pub given: u64,
    /// Those cut by the cap, which nobody could keep.
    pub cut_by_cap: u64,
    /// Those not cut whose client came back when told.
    pub followed: u64,
    /// Of the followed, those whose client was served then.
    pub kept: u64,
    /// Kept over followed.
    pub kept_share: Ratio,
}

impl Summary {
    /// Sums up a run.
    pub fn of(run: &RunRecord, thresholds: &Thresholds) -> Self {
        let mut all = Gather::default();
        run.requests.iter().for_each(|record| all.add(record, thresholds));
        Self {
            trace: run.trace.clone(),
            mode: run.mode.clone(),
            workers: run.workers,
            seed: run.seed,
            engine: run.engine.clone(),
            all: all.into_group(),
            queue_len_max_seen: run.queue_len_max_seen,
            classes: grouped(run, &run.classes, thresholds, |one| usize::from(one.class)),
            tenants: grouped(run, &run.tenants, thresholds, |one| one.tenant as usize),
        }
    }
}

impl Summary {
    /// One JSON object on one line, without a line break.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("names, counts and numbers are all JSON")
    }
}

fn grouped(
    run: &RunRecord,
    names: &[String],
    thresholds: &Thresholds,
    place: impl Fn(&RequestRecord) -> usize,
) -> IndexMap<String, Group> {
    let mut gathers: Vec<Gather> = names.iter().map(|_| Gather::default()).collect();
    for record in &run.requests {
        if let Some(gather) = gathers.get_mut(place(record)) {
            gather.add(record, thresholds);
        }
    }
    names.iter().cloned().zip(gathers.into_iter().map(Gather::into_group)).collect()
}

/// The times of one served request, in nanoseconds.
struct Times {
    ttft: u64,
    itl: Option<u64>,
    e2e: u64,
    queue: u64,
}

impl Times {
    /// None of a request that was not served.
    fn of(record: &RequestRecord) -> Option<Self> {
        let first_token = record.first_token.filter(|_| record.fate == Fate::Completed)?;
        let ttft = first_token.since(record.scheduled).0;
        let e2e = record.ended.since(record.scheduled).0;
        let gaps = record.output.checked_sub(1).filter(|gaps| *gaps > 0);
        let itl = gaps.map(|gaps| (e2e - ttft) / gaps);
        Some(Self { ttft, itl, e2e, queue: record.queue?.0 })
    }
}

/// What is gathered of some requests, one after the other.
#[derive(Default)]
struct Gather {
    ttft: Vec<u64>,
    itl: Vec<u64>,
    e2e: Vec<u64>,
    queue: Vec<u64>,
    completed: u64,
    unserved: u64,
    unserved_of_two: u64,
    abandoned: u64,
    failed: u64,
    refused_by: [u64; RefusalReason::ALL.len()],
    attempts: u64,
    span: Option<(Moment, Moment)>,
    admitted_prompt: u64,
    cached: u64,
    preemptions: u64,
    output: u64,
    good: u64,
    beyond: u64,
    given: u64,
    cut: u64,
    followed: u64,
    kept: u64,
}

impl Gather {
    fn add(&mut self, record: &RequestRecord, thresholds: &Thresholds) {
        match record.fate {
            Fate::Completed => self.completed += 1,
            Fate::Abandoned => self.abandoned += 1,
            Fate::Failed(_) => self.failed += 1,
            Fate::Refused(reason) => {
                let place = RefusalReason::ALL.iter().position(|other| *other == reason);
                self.refused_by[place.expect("every reason is in the list of all")] += 1;
            }
        }
        if let Some(times) = Times::of(record) {
            self.good += u64::from(thresholds.are_kept(&times));
            self.output += record.output;
            self.ttft.push(times.ttft);
            self.itl.extend(times.itl);
            self.e2e.push(times.e2e);
            self.queue.push(times.queue);
        } else {
            self.unserved += 1;
            self.unserved_of_two += u64::from(record.output >= 2);
        }
        let (first, last) = self.span.unwrap_or((record.scheduled, record.ended));
        self.span = Some((first.min(record.scheduled), last.max(record.ended)));
        if let Some(cached) = record.cached {
            self.admitted_prompt += record.prompt;
            self.cached += cached;
        }
        if let (Some(queue), Some(predicted)) = (record.queue, record.predicted_wait) {
            self.beyond += u64::from(queue > predicted.scaled(PROMISE_FACTOR));
        }
        self.attempts += u64::from(record.attempts);
        self.preemptions += u64::from(record.preemptions);
        self.given += u64::from(record.promises.given);
        self.cut += u64::from(record.promises.cut);
        self.followed += u64::from(record.promises.followed);
        self.kept += u64::from(record.promises.kept);
    }

    fn into_group(mut self) -> Group {
        for times in [&mut self.ttft, &mut self.itl, &mut self.e2e, &mut self.queue] {
            times.sort_unstable();
        }
        let refused: u64 = self.refused_by.iter().sum();
        let offered = self.completed + refused + self.abandoned + self.failed;
        let reasons = RefusalReason::ALL.iter().zip(self.refused_by);
        let makespan = self.span.map_or(Span::ZERO, |(first, last)| last.since(first));
        let share = |part: u64| Ratio::ratio(part as f64, offered as f64);
        Group {
            offered,
            completed: self.completed,
            refused,
            abandoned: self.abandoned,
            failed: self.failed,
            refused_by: reasons
                .filter(|(_, count)| *count > 0)
                .map(|(reason, count)| (reason.label(), count))
                .collect(),
            attempts: self.attempts,
            amplification: share(self.attempts),
            ttft_ms: Latency::of(&self.ttft, self.unserved),
            itl_ms: Latency::of(&self.itl, self.unserved_of_two),
            e2e_ms: Latency::of(&self.e2e, self.unserved),
            queue_ms: Latency::of(&self.queue, self.unserved),
            completed_only: CompletedOnly {
                ttft_ms: Latency::of(&self.ttft, 0),
                itl_ms: Latency::of(&self.itl, 0),
                e2e_ms: Latency::of(&self.e2e, 0),
                queue_ms: Latency::of(&self.queue, 0),
            },
            makespan_s: Fixed::some(makespan.as_secs_f64()),
            prefix_hit_share: Ratio::ratio(self.cached as f64, self.admitted_prompt as f64),
            preemptions: self.preemptions,
            output_tokens_per_s: Fixed::ratio(self.output as f64, makespan.as_secs_f64()),
            goodput_share: share(self.good),
            waited_beyond_promise_share: share(self.beyond),
            promises: PromiseFigures {
                given: self.given,
                cut_by_cap: self.cut,
                followed: self.followed,
                kept: self.kept,
                kept_share: Ratio::ratio(self.kept as f64, self.followed as f64),
            },
        }
    }
}

#[cfg(test)]
mod tests;
