//! Reduces a run to what a comparison looks at, and counts how its requests ended.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_core::Span;

use super::comparison::Buckets;
use super::{Block, CompareError};
use crate::drill::criteria::{Criteria, Metric};
use crate::results::{Figures, Outcome, Results, Row, Run};

/// One request that was offered. Latencies are milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    /// Its place in the plan.
    pub(super) place: u64,
    pub(super) scheduled: Span,
    pub(super) end: Span,
    pub(super) outcome: Outcome,
    pub(super) is_good: bool,
    /// Its client left as planned, when its first token had come.
    pub(super) has_left: bool,
    /// Infinite where it was not completed, and its client did not leave in the answer either.
    pub(super) ttft: f64,
    /// The same, and no number where its client left, or it was completed and has no gap.
    pub(super) itl: f64,
    /// The same, and no number where its client left.
    pub(super) e2e: f64,
    pub(super) class: Option<Arc<str>>,
    pub(super) tenant: Option<Arc<str>>,
    pub(super) prompt_tokens: Option<u64>,
    pub(super) turn: u32,
    pub(super) attempts: u64,
    pub(super) attempts_refused: u64,
    /// Tokens that were generated for it, over all attempts.
    pub(super) generated: u64,
    /// What its client waited for attempts that were not completed.
    pub(super) waited_in_vain: Span,
}

impl Request {
    fn of(row: &Row, criteria: &Criteria) -> Self {
        let ms = |span: Option<Span>| span.map(|span| span.0 as f64 / 1e6);
        let (ttft, itl, e2e) = (ms(row.ttft()), ms(row.itl()), ms(row.e2e()));
        // It waited for its first token to the end, and the rest is nobody's fault.
        let left = row.last().filter(|_| row.outcome == Outcome::Cancelled && !row.is_cut_off());
        let left = ms(left.and_then(|last| last.first_token).map(|at| at - row.scheduled));
        let unknown = if left.is_some() { f64::NAN } else { f64::INFINITY };
        let is_good = ttft.zip(e2e).is_some_and(|(ttft, e2e)| {
            criteria.good_of(row.class.as_deref()).is_kept(ttft, itl, e2e)
        });
        let vain = row.attempts.iter().filter(|attempt| attempt.outcome != Outcome::Completed);
        Self {
            place: row.request,
            scheduled: row.scheduled,
            end: row.last().map_or(row.scheduled, |last| last.end),
            outcome: row.outcome,
            is_good,
            has_left: left.is_some(),
            ttft: ttft.or(left).unwrap_or(f64::INFINITY),
            itl: itl.unwrap_or(if e2e.is_some() { f64::NAN } else { unknown }),
            e2e: e2e.unwrap_or(unknown),
            class: row.class.clone(),
            tenant: row.tenant.clone(),
            prompt_tokens: row.last().and_then(|it| it.usage.prompt_tokens).or(row.prompt_tokens),
            turn: row.turn,
            attempts: row.attempts.len() as u64,
            attempts_refused: row
                .attempts
                .iter()
                .filter(|attempt| attempt.outcome == Outcome::Refused)
                .count() as u64,
            generated: row.attempts.iter().map(crate::results::Attempt::generated).sum(),
            waited_in_vain: Span(vain.map(|attempt| (attempt.end - attempt.due).0).sum()),
        }
    }

    /// One of its latencies; no number where a client cannot see it.
    pub(super) fn latency(&self, metric: Metric) -> f64 {
        match metric {
            Metric::Ttft => self.ttft,
            Metric::Itl => self.itl,
            Metric::E2e => self.e2e,
            Metric::Queue => f64::NAN,
        }
    }

    /// Whether it is of this class; every request is of no class.
    pub(super) fn is_of(&self, class: Option<&str>) -> bool {
        class.is_none() || self.class.as_deref() == class
    }
}

/// One independent piece of an arm.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Unit {
    /// With every request.
    Requests(Vec<Request>),
    /// With figures only.
    Figures(Box<Figures>),
}

impl Unit {
    /// A valid run as one piece; an error where it contradicts itself.
    pub(super) fn of(block: &Block, criteria: &Criteria) -> Result<Self, CompareError> {
        let unbalanced =
            |what: String| Err(CompareError::Unbalanced { from: block.from.clone(), what });
        match &block.results {
            Results::Figures(figures) => {
                let completed = figures.counts.get(&Outcome::Completed).copied().unwrap_or(0);
                let told = figures.e2e_ms.as_ref().or(figures.ttft_ms.as_ref());
                match told.map(|spread| spread.count) {
                    Some(count) if count > completed => unbalanced(format!(
                        "latencies of {count} requests, where {completed} were completed"
                    )),
                    _ => Ok(Self::Figures(figures.clone())),
                }
            }
            Results::Run(run) => {
                let mut seen = BTreeSet::new();
                for row in &run.rows {
                    if !seen.insert(row.request) {
                        return unbalanced(format!("request {} is there twice", row.request));
                    }
                    let sent = !row.attempts.is_empty();
                    if !sent && matches!(row.outcome, Outcome::Completed | Outcome::Refused) {
                        return unbalanced(format!(
                            "request {} was {}, but never sent",
                            row.request,
                            row.outcome.name()
                        ));
                    }
                }
                let rows = run.rows.iter().filter(|row| !row.is_warmup && !is_outside(run, row));
                let requests: Vec<Request> = rows.map(|row| Request::of(row, criteria)).collect();
                let buckets = buckets(requests.iter());
                if !buckets.is_balanced() || buckets.offered != requests.len() as u64 {
                    return unbalanced(format!("its buckets do not add up: {buckets:?}"));
                }
                Ok(Self::Requests(requests))
            }
        }
    }

    /// Its requests, where they are known.
    pub(super) fn requests(&self) -> &[Request] {
        match self {
            Self::Requests(requests) => requests,
            Self::Figures(_) => &[],
        }
    }

    /// How its requests of a class ended; `None` of figures by class, which nobody knows.
    pub(super) fn buckets(&self, class: Option<&str>, has_limits: bool) -> Option<Buckets> {
        match self {
            Self::Requests(requests) => {
                Some(buckets(requests.iter().filter(|request| request.is_of(class))))
            }
            Self::Figures(_) if class.is_some() => None,
            Self::Figures(figures) => {
                let of = |outcome| figures.counts.get(&outcome).copied().unwrap_or(0);
                let completed = of(Outcome::Completed);
                Some(Buckets {
                    offered: figures.offered(),
                    good: (!has_limits).then_some(completed),
                    slow: (!has_limits).then_some(0),
                    completed,
                    refused: of(Outcome::Refused),
                    failed: of(Outcome::Failed),
                    timed_out: of(Outcome::TimedOut),
                    cancelled: of(Outcome::Cancelled),
                    left: 0,
                    not_sent: of(Outcome::NotSent),
                })
            }
        }
    }

    /// From the first request due to the last end in seconds; `None` of nothing.
    pub(super) fn makespan_s(&self) -> Option<f64> {
        match self {
            Self::Figures(figures) => figures.duration_s,
            Self::Requests(requests) => {
                let first = requests.iter().map(|request| request.scheduled).min()?;
                let sent = requests.iter().filter(|request| request.attempts > 0);
                let last = sent.map(|request| request.end).max()?;
                Some((last - first).0 as f64 / 1e9)
            }
        }
    }
}

/// Requests that the stop of a run ended while they were under way: nobody knows how they would
/// have ended. They count as never served.
pub(super) fn cut_off(block: &Block, criteria: &Criteria) -> Vec<Request> {
    let Results::Run(run) = &block.results else { return Vec::new() };
    let cut = run.rows.iter().filter(|row| !row.is_warmup && row.is_cut_off());
    cut.map(|row| Request::of(row, criteria)).collect()
}

/// Whether the stop of a run decided how a request ended: it says nothing of the target.
pub(super) fn is_outside(run: &Run, row: &Row) -> bool {
    row.is_cut_off() || run.about.was_interrupted && row.outcome == Outcome::NotSent
}

/// How these requests ended.
pub(super) fn buckets<'r>(requests: impl Iterator<Item = &'r Request>) -> Buckets {
    let mut buckets = Buckets { good: Some(0), slow: Some(0), ..Buckets::default() };
    for request in requests {
        buckets.offered += 1;
        let bucket = match request.outcome {
            Outcome::Completed => {
                let half = if request.is_good { &mut buckets.good } else { &mut buckets.slow };
                *half = half.map(|count| count + 1);
                &mut buckets.completed
            }
            Outcome::Refused => &mut buckets.refused,
            Outcome::Failed => &mut buckets.failed,
            Outcome::TimedOut => &mut buckets.timed_out,
            Outcome::Cancelled => {
                buckets.left += u64::from(request.has_left);
                &mut buckets.cancelled
            }
            Outcome::NotSent => &mut buckets.not_sent,
        };
        *bucket += 1;
    }
    buckets
}

impl Buckets {
    /// Whether each request is in one of the seven, and in one only.
    pub fn is_balanced(&self) -> bool {
        let served = self.good.zip(self.slow).map_or(self.completed, |(good, slow)| good + slow);
        let unserved = self.refused + self.failed + self.timed_out + self.cancelled + self.not_sent;
        served == self.completed && served + unserved == self.offered
    }

    /// Those of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let both = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        Self {
            offered: self.offered + other.offered,
            good: both(self.good, other.good),
            slow: both(self.slow, other.slow),
            completed: self.completed + other.completed,
            refused: self.refused + other.refused,
            failed: self.failed + other.failed,
            timed_out: self.timed_out + other.timed_out,
            cancelled: self.cancelled + other.cancelled,
            left: self.left + other.left,
            not_sent: self.not_sent + other.not_sent,
        }
    }

    /// Without those whose client left in the answer, as planned: what is said of serving to the
    /// end is said of the rest.
    #[must_use]
    pub const fn stayed(self) -> Self {
        let (offered, cancelled) = (self.offered - self.left, self.cancelled - self.left);
        Self { offered, cancelled, left: 0, ..self }
    }

    /// A count as a share of the offered; 0 of nothing.
    pub fn share(&self, count: u64) -> f64 {
        if self.offered == 0 { 0.0 } else { count as f64 / self.offered as f64 }
    }

    /// None of anything.
    pub(super) fn none() -> Self {
        Self { good: Some(0), slow: Some(0), ..Self::default() }
    }

    /// Why requests were not served, the largest part first: `14.3 % refused and 0.2 % failed`.
    pub fn unserved(&self) -> String {
        let mut parts = [
            (self.refused, "refused"),
            (self.failed, "failed"),
            (self.timed_out, "timed out"),
            (self.cancelled, "cancelled"),
            (self.not_sent, "not sent"),
        ];
        parts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let told: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| {
                format!("{} {what}", crate::drill::notation::percent(self.share(*count)))
            })
            .collect();
        crate::drill::notation::listed(&told)
    }
}
