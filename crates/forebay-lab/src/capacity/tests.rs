//! Holds the search for a capacity to a target whose capacity is known.

use std::sync::Arc;

use forebay_core::{Rng, Span};

use super::{Growth, Hunt, told};
use crate::drill::criteria::Criteria;
use crate::results::{About, Attempt, Outcome, Row, Run};
use crate::stats::search::Bounds;

const BOUNDS: Bounds =
    Bounds { start: 4.0, rate_min: 1.0, rate_max: 256.0, ratio: 1.1, error: 0.05, blocks_max: 3 };

fn criteria() -> Criteria {
    let text = "[ttft_ms_max]\np90 = 1000\n";
    Criteria::parse("criteria.toml".as_ref(), text).unwrap()
}

/// A minute against a queue that serves so many a second, one after the other.
fn run(rate: f64, seed: u64, capacity: f64) -> Run {
    let mut rng = Rng::new(seed);
    let (mut at, mut free) = (0.0, 0.0_f64);
    let mut rows = Vec::new();
    while at < 60.0 {
        at -= (1.0 - rng.unit()).ln() / rate;
        free = free.max(at) + 1.0 / capacity;
        let (due, first) = (Span::secs_f64(at), Span::secs_f64(free));
        let attempt = Attempt {
            dequeued: Some(due),
            first_token: Some(first),
            chunks: vec![first],
            end: first,
            status: Some(200),
            outcome: Outcome::Completed,
            ..Attempt::new(due, 0)
        };
        rows.push(Row {
            request: rows.len() as u64,
            scheduled: due,
            is_warmup: false,
            session: None,
            turn: 0,
            class: Some(Arc::from("public")),
            tenant: None,
            prompt_tokens: Some(100),
            output_tokens: Some(1),
            outcome: Outcome::Completed,
            attempts: vec![attempt],
        });
    }
    let about = About { tool: "forebay".to_owned(), ..About::default() };
    Run { about, rows }
}

#[test]
fn a_queue_of_known_capacity_is_found_between_what_holds_and_what_fails() {
    for capacity in [10.0, 47.0] {
        let mut hunt = Hunt::new(BOUNDS, criteria(), 1);
        let mut runs = 0;
        while let Some((rate, seed)) = hunt.next() {
            hunt.take(run(rate, seed, capacity)).unwrap();
            runs += 1;
            assert!(runs < 200, "the search has no end");
        }
        let found = hunt.capacity();
        let rate = found.answer.rate.unwrap();
        // Within a minute a queue may be loaded a little above what it serves and still be well.
        assert!((0.6 * capacity..1.1 * capacity).contains(&rate), "{rate} of {capacity}");
        assert!(found.answer.high > 0.8 * capacity, "{} of {capacity}", found.answer.high);
    }
}

#[test]
fn a_target_that_never_holds_ends_in_no() {
    let mut hunt = Hunt::new(BOUNDS, criteria(), 1);
    while let Some((rate, seed)) = hunt.next() {
        hunt.take(run(rate, seed, 0.1)).unwrap();
    }
    let found = hunt.capacity();
    assert_eq!((found.answer.rate, found.exit_code()), (None, 1));
    assert!(told(&found, None).contains("no rate was shown to hold"));
}

#[test]
fn headroom_is_told_with_the_months_that_are_left() {
    let mut hunt = Hunt::new(BOUNDS, criteria(), 1);
    while let Some((rate, seed)) = hunt.next() {
        hunt.take(run(rate, seed, 20.0)).unwrap();
    }
    let found = hunt.capacity();
    let growth = Growth { now_per_s: found.answer.rate.unwrap() / 2.0, a_month: 1.0 };
    let text = told(&found, Some(growth));
    assert!(text.contains("headroom: 2.00 times"), "{text}");
    assert!(text.contains("used up in 1.00 months"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&found.json(Some(growth))).unwrap();
    assert_eq!(json["headroom"]["months"], 1.0);
}
