//! Holds comparisons to what they claim.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_core::{Rng, Span};

use super::{Arm, Block, CompareError, Comparison, Options, compare};
use crate::drill::criteria::Criteria;
use crate::drill::verdict::Outcome as Verdict;
use crate::results::{About, Attempt, Figures, Invalid, Outcome, Results, Row, Run, Spread, Usage};

mod given;
mod traps;

/// Criteria from the text of a file.
fn criteria(text: &str) -> Criteria {
    Criteria::parse(Path::new("criteria.toml"), text).unwrap()
}

/// What a target does: how many it serves at once, and how many wait before it refuses.
#[derive(Clone, Copy)]
struct Target {
    /// Seconds that one request takes, on average.
    service_s: f64,
    /// Requests that wait at most; the next is refused.
    waiting_max: usize,
}

/// Requests that come in bursts at a target with one place, as rows. The plan decides when they
/// come; the seed of the run what serving them takes.
fn rows(target: Target, count: u64, plan: u64, seed: u64) -> Vec<Row> {
    let (mut arrivals, mut draws) = (Rng::new(plan).fork("arrivals"), Rng::new(seed));
    let exponential = |rng: &mut Rng, mean: f64| -mean * (1.0 - rng.unit()).ln();
    let (mut now, mut busy) = (0.0_f64, false);
    let (mut until, mut free) = (0.0_f64, 0.0_f64);
    let mut leaving: Vec<f64> = Vec::new();
    (0..count)
        .map(|request| {
            // Calm and busy stretches of 5 s on average, the busy ones three times as busy.
            if now >= until {
                busy = !busy;
                until = now + exponential(&mut arrivals, 5.0);
            }
            now += exponential(&mut arrivals, if busy { 0.05 } else { 0.15 });
            let lasts = exponential(&mut draws, target.service_s);
            leaving.retain(|end| *end > now);
            if leaving.len() > target.waiting_max {
                return row(request, now, None);
            }
            let first = free.max(now) + lasts;
            free = first;
            leaving.push(first);
            row(request, now, Some((first, first + 0.2 + 0.1 * draws.unit())))
        })
        .collect()
}

/// A row that was served at these moments, or refused at once.
fn row(request: u64, due_s: f64, served: Option<(f64, f64)>) -> Row {
    let due = Span::secs_f64(due_s);
    let outcome = if served.is_some() { Outcome::Completed } else { Outcome::Refused };
    let (first, end) = served.unwrap_or((due_s, due_s + 0.002));
    let attempt = Attempt {
        first_token: served.map(|_| Span::secs_f64(first)),
        end: Span::secs_f64(end),
        usage: Usage { output_tokens: served.map(|_| 11), ..Usage::default() },
        outcome,
        ..Attempt::new(due, 0)
    };
    Row {
        request,
        scheduled: due,
        is_warmup: false,
        session: None,
        turn: 0,
        class: None,
        tenant: Some(["a", "b", "c"][request as usize % 3].into()),
        prompt_tokens: Some(100 + request % 400),
        output_tokens: Some(11),
        outcome,
        attempts: vec![attempt],
    }
}

fn about(plan: Option<u64>) -> About {
    About { tool: "test".to_owned(), plan: plan.map(|it| it.to_string()), ..About::default() }
}

fn run_of(rows: Vec<Row>, plan: Option<u64>) -> Block {
    let run = Run { about: about(plan), rows };
    Block { from: "run".to_owned(), results: Results::Run(Box::new(run)) }
}

fn arm(label: &str, runs: Vec<Block>) -> Arm {
    Arm { label: label.to_owned(), runs }
}

fn quick(arms: &[Arm], text: &str) -> Comparison {
    let options = Options { resamples: 300, ..Options::default() };
    compare(arms, &criteria(text), &options).unwrap()
}

/// Serves three quarters of its capacity on average, and nearly all of it in busy stretches.
const STEADY: Target = Target { service_s: 0.07, waiting_max: 60 };
/// Refuses in busy stretches, and is faster for the rest.
const REFUSING: Target = Target { service_s: 0.07, waiting_max: 9 };

/// Of 40 drills of the same target twice, how many claim a difference in the primary figure, and
/// in any of the others.
fn false_claims(blocks: usize, target: Target, paired: bool, start: u64) -> (u32, u32) {
    let mut claims = (0, 0);
    for drill in 0..40 {
        let seed = start + 1000 * drill;
        let side = |offset: u64| {
            let plan = |nth: u64| seed + nth + if paired { 0 } else { offset };
            let count = if blocks == 1 { 800 } else { 100 };
            (0..blocks as u64)
                .map(|nth| {
                    let rows = rows(target, count, plan(nth), seed + offset + nth + 7);
                    run_of(rows, paired.then(|| plan(nth)))
                })
                .collect()
        };
        let arms = [arm("one", side(300)), arm("two", side(600))];
        let options = Options { resamples: 200, ..Options::default() };
        let told = compare(&arms, &criteria("refused_share_max = 0.2"), &options).unwrap();
        let difference = &told.differences[0];
        assert_eq!(difference.is_paired, paired);
        claims.0 += u32::from(difference.primary.differs);
        claims.1 += u32::from(difference.secondary.iter().any(|contrast| contrast.differs));
    }
    claims
}

#[test]
fn the_same_target_twice_differs_in_at_most_five_of_forty_drills() {
    for (start, target) in [(1, REFUSING), (2, REFUSING), (3, STEADY)] {
        for (blocks, paired) in [(1, true), (1, false), (10, true), (10, false), (4, true)] {
            let claims = false_claims(blocks, target, paired, start);
            assert!(claims.0 <= 5, "seed {start}, {blocks} blocks, {paired}: {claims:?}");
            assert!(claims.1 <= 5, "seed {start}, {blocks} blocks, {paired}: {claims:?}");
        }
    }
}

#[test]
fn a_difference_that_is_there_is_found() {
    let mut found = 0;
    for drill in 0..10 {
        let plan = 5000 + drill;
        let arms = [
            arm("steady", vec![run_of(rows(STEADY, 1500, plan, 1 + drill), Some(plan))]),
            arm("refusing", vec![run_of(rows(REFUSING, 1500, plan, 77 + drill), Some(plan))]),
        ];
        let told = quick(&arms, "refused_share_max = 0.01");
        let primary = &told.differences[0].primary;
        found += u32::from(primary.differs && primary.is_better == Some(false));
    }
    assert!(found >= 9, "{found} of 10");
}

#[test]
fn who_refuses_in_bursts_is_no_go_with_p90_undefined_and_survivorship_named() {
    let plan = Some(9);
    let arms = [
        arm("steady", vec![run_of(rows(STEADY, 3000, 9, 1), plan)]),
        arm("refusing", vec![run_of(rows(REFUSING, 3000, 9, 2), plan)]),
    ];
    let told = quick(&arms, "refused_share_max = 0.01");
    let refusing = &told.arms[1];
    let share = refusing.all.refused_share.value.unwrap();
    assert!((0.10..0.20).contains(&share), "{share}");
    assert!(refusing.all.design_effect.unwrap() > 2.0, "{:?}", refusing.all.design_effect);
    assert_eq!((told.outcome(), told.exit_code()), (Verdict::NoGo, 1));
    let ttft = &refusing.all.latencies[0];
    assert!(ttft.offered.p90.said.starts_with("undefined: "), "{}", ttft.offered.p90.said);
    assert!(ttft.offered.p90.said.ends_with("refused"), "{}", ttft.offered.p90.said);
    assert!(ttft.survivors.p90.value.unwrap().is_finite());
    let named = told.summary.iter().find(|it| it.starts_with("Survivorship: refusing"));
    let named = named.expect("it is named in the summary");
    assert!(named.contains("TTFT p90") && named.contains("undefined"), "{named}");
}

#[test]
fn blocks_more_would_decide_what_is_open() {
    // No refusal among 300 is no proof of 1 %.
    let calm = Target { service_s: 0.001, waiting_max: 60 };
    let told = quick(
        &[arm("calm", vec![run_of(rows(calm, 300, 1, 1), None)])],
        "refused_share_max = 0.01",
    );
    assert_eq!(told.exit_code(), 3);
    let more = told.arms[0].findings[0].blocks_more.unwrap();
    let share = 300 / told.arms[0].blocks.count as u64;
    // About 2.7 × 11 effective per cent of the offered are wanted.
    assert!((2000..4000).contains(&(300 + more * share)), "{more}");
    let told = quick(
        &[arm("calm", vec![run_of(rows(calm, 4000, 1, 1), None)])],
        "refused_share_max = 0.01\nttft_ms_max = { p50 = 5000, p99 = 9000, max = 9000 }",
    );
    assert_eq!(told.exit_code(), 0, "{}", told.arms[0].reason);
}

#[test]
fn a_limit_of_nothing_is_about_these_runs() {
    let calm = Target { service_s: 0.001, waiting_max: 60 };
    let of = |target: Target| {
        let runs = vec![run_of(rows(target, 400, 1, 1), None)];
        quick(&[arm("arm", runs)], "refused_share_max = 0\ncompleted_share_min = 1")
    };
    assert_eq!(of(calm).exit_code(), 0);
    assert_eq!(of(REFUSING).exit_code(), 1);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let arms = || {
        [
            arm("one", vec![run_of(rows(STEADY, 600, 3, 1), Some(3))]),
            arm("two", vec![run_of(rows(REFUSING, 600, 3, 2), Some(3))]),
        ]
    };
    let bytes = || {
        let told = quick(&arms(), "refused_share_max = 0.01");
        (serde_json::to_string(&told).unwrap(), super::table::render(&told))
    };
    assert_eq!(bytes(), bytes());
}

#[test]
fn no_line_of_the_table_is_wider_than_a_terminal() {
    let long = "a name that is far too long for any column of a table";
    let arms = [
        arm(long, vec![run_of(rows(STEADY, 600, 3, 1), Some(3))]),
        arm("two", vec![run_of(rows(REFUSING, 600, 3, 2), Some(3))]),
    ];
    let text = super::table::render(&quick(&arms, "refused_share_max = 0.01"));
    for line in text.lines() {
        assert!(line.chars().count() <= super::table::WIDTH, "{line}");
    }
}

/// What an `AIPerf` summary says, as far as a comparison needs it.
fn aiperf(file: &Path) -> Option<Block> {
    let text = std::fs::read_to_string(file).ok()?;
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let number = |tag: &str| json[tag]["avg"].as_f64();
    let spread = |tag: &str| {
        let of = |key: &str| json[tag][key].as_f64().unwrap();
        let percentile = |p: u8| json[tag][format!("p{p}")].as_f64().map(|value| (p, value));
        Spread {
            count: of("count") as u64,
            mean: of("avg"),
            std: None,
            range: Some((of("min"), of("max"))),
            percentiles: (1..100).filter_map(percentile).collect(),
        }
    };
    let counts = BTreeMap::from([
        (Outcome::Completed, number("request_count").unwrap() as u64),
        (Outcome::Refused, number("error_request_count").unwrap_or(0.0) as u64),
    ]);
    let figures = Figures {
        about: about(None),
        counts,
        ttft_ms: Some(spread("time_to_first_token")),
        itl_ms: Some(spread("inter_token_latency")),
        e2e_ms: Some(spread("request_latency")),
        duration_s: number("benchmark_duration"),
        ..Figures::default()
    };
    let from = file.display().to_string();
    Some(Block { from, results: Results::Figures(Box::new(figures)) })
}

#[test]
fn the_summaries_of_the_evidence_tell_its_story() {
    let shared = std::env::var_os("FOREBAY_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        std::path::PathBuf::from,
    );
    let read = |arm: &str| -> Option<Vec<Block>> {
        let file = |nth| shared.join(format!("data/aiperf-0.8/N2-{arm}-{nth}.json"));
        (1..=3).map(|nth| aiperf(&file(nth))).collect()
    };
    let (Some(off), Some(on)) = (read("off"), read("on")) else {
        println!("skipped: there is no data/aiperf-0.8 in {}", shared.display());
        return;
    };
    let told = quick(&[arm("round-robin", off), arm("kv", on)], "refused_share_max = 0.01");
    let (base, kv) = (&told.arms[0], &told.arms[1]);
    assert_eq!((base.all.buckets.completed, kv.all.buckets.completed), (3000, 2571));
    assert_eq!((kv.all.buckets.refused, kv.all.refused_share.said.as_str()), (429, "14.3 %"));
    assert!((11.0..12.0).contains(&kv.all.design_effect.unwrap()));
    // Three runs are enough to say that 14 % is more than 1 %.
    assert_eq!((kv.outcome.0, told.exit_code()), (Verdict::NoGo, 1), "{}", kv.reason);
    // Both complete as many a second.
    let rate = told.differences[0].secondary.iter().find(|it| it.metric == "completed_per_s");
    assert!(!rate.unwrap().differs && (3.6..3.8).contains(&kv.completed_per_s.value.unwrap()));
    let ttft = &kv.all.latencies[0];
    assert_eq!(ttft.offered.p90.said, "undefined: 14.3 % refused");
    assert!(ttft.survivors_mean.value.unwrap() < 4600.0 && ttft.offered.p50.value.is_none());
    let named = &told.differences[0].survivorship[0];
    assert!(named.contains("TTFT p90") && named.contains("2571"), "{named}");
}
