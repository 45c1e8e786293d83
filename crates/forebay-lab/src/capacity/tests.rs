//! Holds the search for a capacity to a target whose capacity is known.

use std::sync::Arc;

use forebay_core::{Rng, Span};

use super::{Ended, Growth, Hunt, Taken, headroom, told};
use crate::drill::criteria::Criteria;
use crate::results::{About, Attempt, Fault, Invalid, Outcome, Row, Run};
use crate::stats::search::{Bounds, Looks};

const BOUNDS: Bounds =
    Bounds { start: 4.0, rate_min: 1.0, rate_max: 256.0, ratio: 1.1, runs_max: 3 };
/// Seconds of a run that count, and that it settles before.
const LASTS: (f64, f64) = (60.0, 20.0);

fn criteria() -> Criteria {
    let text = "[ttft_ms_max]\np90 = 1000\n";
    Criteria::parse("criteria.toml".as_ref(), text).unwrap()
}

/// A run against a queue that serves so many a second, one after the other.
fn run(rate: f64, seed: u64, capacity: f64, (lasts, settle): (f64, f64)) -> Run {
    let mut rng = Rng::new(seed);
    let (mut at, mut free) = (0.0, 0.0_f64);
    let mut rows = Vec::new();
    while at < settle + lasts {
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
            is_warmup: at < settle,
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

/// A search to its end, of runs as `offered` makes them.
fn hunted(bounds: Bounds, seed: u64, mut offered: impl FnMut(f64, u64) -> Run) -> Hunt {
    let mut hunt = Hunt::new(bounds, criteria(), seed, 0.05);
    let mut runs = 0;
    while let Some((rate, seed)) = hunt.next() {
        runs += 1;
        hunt.take(offered(rate, seed), &format!("run-{runs:03}")).unwrap();
        assert!(runs < 100, "the search has no end");
    }
    hunt
}

/// The rate at which nine in ten have their first token within a second, of a queue that is left to
/// run for hours: from below, where runs of a minute may still be well.
fn truth(capacity: f64) -> f64 {
    let p90 = |rate: f64| {
        let run = run(rate, 99, capacity, (20_000.0, 500.0));
        let counts = run.rows.iter().filter(|row| !row.is_warmup);
        let mut ttft: Vec<f64> =
            counts.filter_map(|row| Some(row.ttft()?.as_millis_f64())).collect();
        ttft.sort_by(f64::total_cmp);
        ttft[ttft.len() * 9 / 10]
    };
    let (mut low, mut high) = (0.5 * capacity, 1.1 * capacity);
    for _ in 0..8 {
        let middle = f64::midpoint(low, high);
        if p90(middle) <= 1000.0 { low = middle } else { high = middle }
    }
    low
}

#[test]
fn the_interval_holds_the_true_capacity_as_often_as_it_says() {
    let (capacity, hunts) = (20.0, 20_u32);
    let truth = truth(capacity);
    let (mut within, mut settled, mut width) = (0, 0, 0.0);
    let mut knees = Vec::new();
    for nth in 0..hunts {
        // Rates that are tried depend on where a search begins.
        let bounds = Bounds { start: 2.0 + 0.1 * f64::from(nth), ..BOUNDS };
        let offered = |rate, seed| run(rate, seed, capacity, LASTS);
        let found = hunted(bounds, 1000 * u64::from(nth), offered).capacity(Ended::Searched);
        let (low, high) = (found.answer.low, found.answer.high);
        within += u32::from(low <= truth && truth <= high);
        settled += u32::from(found.answer.is_settled && found.exit_code() == 0);
        knees.extend(found.knee.map(|knee| knee.at / capacity));
        width += (high / low).min(10.0).ln() / f64::from(hunts);
        let runs: usize = found.trials.iter().map(|trial| trial.runs.len()).sum();
        assert!(runs <= 16, "{runs} runs");
    }
    assert!(within >= 18, "{within} of {hunts} hold {truth}");
    // Beyond what it serves nothing more comes out.
    let near = knees.iter().filter(|knee| (0.9..1.1).contains(*knee)).count();
    assert!(knees.len() >= 18 && near + 1 >= knees.len(), "{knees:?}");
    assert!(settled >= 18 && width < 0.25, "{settled} settled, {width} wide");
}

#[test]
fn requests_that_count_nowhere_keep_a_short_run_from_looking_better_than_a_long_one() {
    // 3 % above what it serves, a queue is well for a while: its backlog is a second after 33.
    let long = run(206.0, 1, 200.0, (400.0, 0.0));
    let held = |run: &Run| {
        let judged = super::judge::judge(&[run], &criteria(), 1, 0.05).unwrap();
        judged.looks == Looks::Well
    };
    assert!(!held(&long));
    let short = |settle| {
        let seeds = 1..=20;
        seeds.filter(|seed| held(&run(206.0, *seed, 200.0, (30.0, settle)))).count()
    };
    let (cold, settled) = (short(0.0), short(30.0));
    assert!(settled < cold, "{settled} of 20 settled runs look well, {cold} of 20 cold ones");
}

#[test]
fn a_clean_run_that_is_too_short_to_prove_anything_does_not_send_the_search_down() {
    let strict = "completed_share_min = 0.999\n[ttft_ms_max]\np99 = 1000\n";
    let strict = Criteria::parse("criteria.toml".as_ref(), strict).unwrap();
    let mut hunt = Hunt::new(BOUNDS, strict, 1, 0.05);
    while let Some((rate, seed)) = hunt.next() {
        hunt.take(run(rate, seed, 20.0, (10.0, 3.0)), "run").unwrap();
    }
    let found = hunt.capacity(Ended::Searched);
    assert!(found.trials.iter().all(|trial| trial.per_s >= 4.0), "{:?}", found.trials);
    assert!((15.0..22.0).contains(&found.answer.looks_low), "{:?}", found.answer);
    assert_eq!((found.answer.rate, found.exit_code()), (None, 3));
    let text = told(&found, None);
    assert!(text.contains("no rate was shown to hold the criteria") && text.contains("--runs"));
}

#[test]
fn a_target_that_never_holds_ends_in_no() {
    let offered = |rate, seed| run(rate, seed, 0.1, LASTS);
    let found = hunted(BOUNDS, 1, offered).capacity(Ended::Searched);
    assert_eq!((found.answer.rate, found.exit_code()), (None, 1));
    assert!(told(&found, None).contains("no rate was shown to hold"));
}

#[test]
fn a_generator_that_cannot_keep_up_bounds_the_answer_and_says_so() {
    let mut hunt = Hunt::new(BOUNDS, criteria(), 1, 0.05);
    let mut runs = 0;
    while let Some((rate, seed)) = hunt.next() {
        let mut run = run(rate, seed, 100.0, LASTS);
        runs += 1;
        // At first the machine was busy for a moment; from 30/s on it can't.
        if rate > 30.0 || runs == 1 {
            let (reason, what) = ("lag".to_owned(), "late by 70 ms".to_owned());
            run.about.invalid.push(Invalid { reason, what });
        }
        let taken = hunt.take(run, "run").unwrap();
        assert!(runs > 1 || taken == Taken::Again);
        assert!(runs < 60, "the search has no end");
    }
    let found = hunt.capacity(Ended::Searched);
    let low = found.answer.rate.unwrap();
    assert!((25.0..=30.0).contains(&low) && found.answer.high.is_infinite(), "{:?}", found.answer);
    assert_eq!(found.exit_code(), 3);
    let text = told(&found, None);
    assert!(text.contains("capacity: at least") && text.contains("The generator is the limit"));
    assert!(found.trials.last().unwrap().reason.contains("late by 70 ms"), "{:?}", found.trials);
}

/// A run whose requests end like this.
fn answered(status: Option<u16>, fault: Option<Fault>, outcome: Outcome, from: usize) -> Run {
    let mut run = run(10.0, 1, 20.0, (10.0, 0.0));
    for row in run.rows.iter_mut().skip(from) {
        let last = row.attempts.last_mut().unwrap();
        (last.status, last.fault, last.outcome) = (status, fault, outcome);
        last.error = Some("no such key".into());
        row.outcome = outcome;
    }
    run
}

#[test]
fn a_target_that_is_broken_ends_the_search_and_is_no_capacity() {
    let told = |run: Run| {
        let mut hunt = Hunt::new(BOUNDS, criteria(), 1, 0.05);
        hunt.take(run, "run-001").unwrap_err().to_string()
    };
    let key = told(answered(Some(401), Some(Fault::Status), Outcome::Failed, 0));
    assert!(key.contains("turned away for what they are; most often: 401: no such key"), "{key}");
    let all = told(answered(Some(503), None, Outcome::Refused, 0));
    assert!(all.contains("not one of") && all.contains("503: no such key"), "{all}");
    let dead = told(answered(None, Some(Fault::Connect), Outcome::Failed, 60));
    assert!(dead.contains("the target went away"), "{dead}");
    for said in [key, all, dead] {
        assert!(said.contains("\nhint: "), "{said}");
    }
    let text = "[class.vip.ttft_ms_max]\np90 = 1000\n";
    let of_vip = Criteria::parse("criteria.toml".as_ref(), text).unwrap();
    let mut hunt = Hunt::new(BOUNDS, of_vip, 1, 0.05);
    let said = hunt.take(run(4.0, 1, 20.0, LASTS), "run-001").unwrap_err().to_string();
    assert!(said.contains("class `vip`"), "{said}");
}

#[test]
fn a_target_that_is_full_is_not_called_broken() {
    let mut hunt = Hunt::new(BOUNDS, criteria(), 1, 0.05);
    let full = answered(Some(503), None, Outcome::Refused, 5);
    assert!(matches!(hunt.take(full, "run-001"), Ok(Taken::Counted(Looks::Ill, _))));
    let mut hunt = Hunt::new(BOUNDS, criteria(), 1, 0.05);
    let slow = answered(None, None, Outcome::TimedOut, 0);
    assert!(matches!(hunt.take(slow, "run-001"), Ok(Taken::Counted(Looks::Ill, _))));
}

#[test]
fn headroom_is_told_with_the_months_that_are_left() {
    let offered = |rate, seed| run(rate, seed, 20.0, LASTS);
    let found = hunted(BOUNDS, 1, offered).capacity(Ended::Searched);
    let growth = Growth { now_per_s: found.answer.rate.unwrap() / 2.0, a_month: 1.0 };
    let text = told(&found, Some(growth));
    assert!(text.contains("headroom: 2.00 times"), "{text}");
    assert!(text.contains("(409500 % a year) it is used up in 1.00 to 1."), "{text}");
    let json: serde_json::Value = serde_json::from_str(&found.json(Some(growth))).unwrap();
    assert_eq!(json["headroom"]["months"], 1.0);
    assert_eq!(json["ended"], "searched");
}

#[test]
fn headroom_is_used_up_only_where_a_rate_was_shown_to_fail() {
    let said = |now_per_s, a_month| {
        let growth = Growth { now_per_s, a_month };
        [Some(12.0), None].map(|high| headroom(10.0, high, growth))
    };
    let [between, at_least] = said(5.0, 0.02);
    assert!(
        between.ends_with("(26.82 % a year) it is used up in 35.0 to 44.2 months"),
        "{between}"
    );
    assert!(at_least.ends_with("used up in 35.0 months at the earliest"), "{at_least}");
    let [within, unknown] = said(11.0, 0.02);
    assert!(within == unknown && within.ends_with("any is left is not known"), "{within}");
    assert!(said(13.0, 0.02)[0].ends_with("it is used up already"));
    assert_eq!(said(5.0, 0.0)[0], "headroom: 2.00 times what is asked today was shown to hold");
}
