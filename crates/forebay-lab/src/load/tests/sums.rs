//! Tests the figures over all offered.

use forebay_core::Span;

use crate::load::Tally;
use crate::results::{Attempt, Outcome, Row, Usage};

fn row(at_ms: u64, first_token_ms: Option<u64>, outcome: Outcome) -> Row {
    let at = Span::millis(at_ms);
    let attempt = Attempt {
        dequeued: Some(Span::millis(at_ms + 1)),
        first_token: first_token_ms.map(Span::millis),
        end: Span::millis(first_token_ms.unwrap_or(at_ms) + 100),
        outcome,
        usage: Usage { prompt_tokens: Some(100), cached_tokens: Some(at_ms), ..Usage::default() },
        ..Attempt::new(at, 0)
    };
    Row { attempts: vec![attempt], ..Row::new(0, at, outcome) }
}

#[test]
fn the_unserved_are_infinitely_late_and_latency_counts_from_the_schedule() {
    let mut tally = Tally::default();
    tally.add(&row(10, Some(15), Outcome::Completed));
    tally.add(&row(20, Some(40), Outcome::Completed));
    let summary = tally.summary();
    assert_eq!((summary.offered, summary.completed), (2, 2));
    assert_eq!([summary.ttft_ms.p50.0, summary.ttft_ms.mean.0], [Some(5.0), Some(12.5)]);
    assert!((summary.makespan_s - 0.13).abs() < 1e-9);
    assert!((summary.cached_share.unwrap() - 0.15).abs() < 1e-9);
    // A first token that was followed by a fault serves nobody.
    tally.add(&row(30, Some(31), Outcome::Failed));
    let summary = tally.summary();
    assert_eq!((summary.failed, summary.ttft_ms.p50.0), (1, Some(20.0)));
    assert_eq!([summary.ttft_ms.mean.0, summary.ttft_ms.p99.0], [None, None]);
    assert_eq!(summary.lag_ms.max.0, Some(1.0));
}

#[test]
fn every_outcome_is_counted_once() {
    let mut tally = Tally::default();
    let outcomes = [
        Outcome::Completed,
        Outcome::Refused,
        Outcome::Failed,
        Outcome::TimedOut,
        Outcome::Cancelled,
        Outcome::NotSent,
    ];
    for outcome in outcomes {
        tally.add(&row(0, None, outcome));
    }
    let sum = tally.summary();
    let counts =
        [sum.completed, sum.refused, sum.failed, sum.timed_out, sum.cancelled, sum.not_sent];
    assert_eq!((sum.offered, counts), (6, [1; 6]));
    // It was served without a token: it has waited until its end.
    assert_eq!(sum.ttft_ms.p50.0, None);
    let mut tokenless = Tally::default();
    tokenless.add(&row(0, None, Outcome::Completed));
    assert_eq!(tokenless.summary().ttft_ms.max.0, Some(100.0));
}

#[test]
fn of_nothing_there_are_no_figures() {
    let summary = Tally::default().summary();
    assert_eq!((summary.offered, summary.ttft_ms.p50.0, summary.cached_share), (0, None, None));
}
