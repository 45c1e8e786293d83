//! Makes live results in code: a target that refuses in bursts and is faster for the rest, and a
//! calm one.

use std::collections::BTreeMap;

use forebay_core::{Rng, Span};

use crate::compare::comparison::{
    ArmFigures, Blocks, Buckets, Contrast, Difference, Estimate, Finding, Group, LatencyFigures,
    Part, Quantiles, RunSeen, SCHEMA, Wasted, Who, Word,
};
use crate::compare::{Arm, Block, Comparison, ServerCount};
use crate::drill::criteria::Criteria;
use crate::drill::notation::{duration_ms, percent};
use crate::drill::verdict::Outcome as Verdict;
use crate::live::simulated;
use crate::report::{Origin, SignOff};
use crate::results::{About, Attempt, Generator, Outcome, Results, Row, Run};
use crate::slo::Held;

/// Requests of a run.
const REQUESTS: u64 = 600;

/// The files of a report are made of these.
pub(super) struct Stage {
    pub(super) comparison: Comparison,
    pub(super) arms: Vec<Arm>,
    pub(super) held: Held,
    pub(super) sign_off: SignOff,
    pub(super) origin: Origin,
    pub(super) counted: BTreeMap<String, ServerCount>,
    pub(super) simulated: BTreeMap<String, simulated::Figures>,
}

impl Stage {
    /// A calm arm as the baseline, and one that refuses in bursts under test.
    pub(super) fn bursts() -> Self {
        let arms = vec![arm("calm", false), arm("bursts", true)];
        let criteria = "refused_share_max = 0.01\n[good]\nttft_ms_max = 4000\n";
        let criteria = Criteria::parse("criteria.toml".as_ref(), criteria).unwrap();
        let sign_off = "service = \"Chat\"\ndecision = \"Open it\"\n[[decides]]\nrole = \"owner\"\n\
                        [[agreed]]\nrefused_share_max = 0.01\n";
        let refused = rows(&arms[1]).iter().filter(|row| row.outcome == Outcome::Refused).count();
        let counted = ServerCount { refused: refused as u64, agrees: None };
        let words = ["forebay", "report", "calm", "bursts", "--out", "report"];
        Self {
            comparison: comparison(&arms, &criteria),
            arms,
            held: Held { criteria, objectives: None, file: None },
            sign_off: SignOff::parse("sign-off.toml".as_ref(), sign_off).unwrap(),
            origin: Origin {
                words: words.map(str::to_owned).to_vec(),
                version: "forebay 0.1.0".to_owned(),
                inputs: vec![("calm/requests.jsonl".to_owned(), "00ff".to_owned())],
            },
            counted: BTreeMap::from([("bursts".to_owned(), counted)]),
            simulated: BTreeMap::new(),
        }
    }

    pub(super) fn live(&self) -> super::Live<'_> {
        super::Live {
            comparison: &self.comparison,
            arms: &self.arms,
            held: &self.held,
            sign_off: Some(&self.sign_off),
            counted_by_server: &self.counted,
            simulated: &self.simulated,
            notes: &[],
            is_stopped: false,
            origin: &self.origin,
        }
    }
}

fn arm(label: &str, refuses: bool) -> Arm {
    let mut rng = Rng::new(7).fork(label);
    let rows = (0..REQUESTS).map(|nth| row(nth, refuses, &mut rng)).collect();
    let about = About {
        label: label.to_owned(),
        tool: "forebay 0.1.0".to_owned(),
        targets: vec![format!("https://{label}.example")],
        workload: "poisson at 5/s for 120 s".to_owned(),
        seed: 7,
        generator: Some(Generator {
            lag_ms_p50: 0.2,
            lag_ms_p99: 1.4,
            lag_ms_max: 6.0,
            ..Generator::default()
        }),
        ..About::default()
    };
    let results = Results::Run(Box::new(Run { about, rows }));
    Arm { label: label.to_owned(), runs: vec![Block { from: format!("{label}/"), results }] }
}

/// One request: in every fifth stretch of ten seconds most are refused, where the arm refuses.
fn row(nth: u64, refuses: bool, rng: &mut Rng) -> Row {
    let scheduled = Span::millis(nth * 200);
    let in_burst = (nth * 200 / 10_000) % 5 == 2;
    let is_refused = refuses && in_burst && rng.unit() < 0.7;
    let ttft = if refuses { 300.0 } else { 900.0 } * (0.5 + rng.unit() * 2.0);
    let mut attempt = Attempt::new(scheduled, 0);
    attempt.dequeued = Some(scheduled + Span::millis(1));
    if is_refused {
        attempt.end = scheduled + Span::millis(30);
        attempt.status = Some(503);
        attempt.outcome = Outcome::Refused;
    } else {
        attempt.first_token = Some(scheduled + Span::millis(ttft as u64));
        attempt.end = scheduled + Span::millis(ttft as u64 + 2_000);
        attempt.status = Some(200);
        attempt.outcome = Outcome::Completed;
    }
    Row {
        request: nth,
        scheduled,
        is_warmup: false,
        session: None,
        turn: 0,
        class: Some(if nth.is_multiple_of(3) { "public".into() } else { "research".into() }),
        tenant: None,
        prompt_tokens: Some(100 + nth % 1000),
        output_tokens: Some(100),
        outcome: attempt.outcome,
        attempts: vec![attempt],
    }
}

fn rows(arm: &Arm) -> &[Row] {
    let Results::Run(run) = &arm.runs[0].results else { panic!("rows are known") };
    &run.rows
}

fn share(value: f64) -> Estimate {
    Estimate {
        value: Some(value),
        low: Some((value - 0.03).max(0.0)),
        high: Some((value + 0.03).min(1.0)),
        is_bounded_only: false,
        said: percent(value),
    }
}

fn quantile(sorted: &[f64], of: usize, q: f64) -> Estimate {
    let rank = (q * of as f64).ceil() as usize;
    let value = sorted.get(rank - 1).copied();
    let unserved = percent(1.0 - sorted.len() as f64 / of as f64);
    let said = value.map_or(format!("undefined: {unserved} refused"), duration_ms);
    let value = value.or(Some(f64::INFINITY));
    Estimate { value, low: value, high: value, said, ..Estimate::default() }
}

fn group(arm: &Arm) -> Group {
    let rows = rows(arm);
    let refused = rows.iter().filter(|row| row.outcome == Outcome::Refused).count() as u64;
    let mut ttft: Vec<f64> = rows.iter().filter_map(Row::ttft).map(Span::as_millis_f64).collect();
    ttft.sort_by(f64::total_cmp);
    let completed = ttft.len() as u64;
    let of = |of: usize| Quantiles {
        p50: quantile(&ttft, of, 0.5),
        p90: quantile(&ttft, of, 0.9),
        p99: quantile(&ttft, of, 0.99),
    };
    let offered = rows.len() as u64;
    Group {
        buckets: Buckets {
            offered,
            good: Some(completed),
            slow: Some(0),
            completed,
            refused,
            ..Buckets::default()
        },
        good_share: share(completed as f64 / offered as f64),
        completed_share: share(completed as f64 / offered as f64),
        refused_share: share(refused as f64 / offered as f64),
        design_effect: None,
        latencies: vec![LatencyFigures {
            metric: "ttft_ms",
            offered: of(rows.len()),
            survivors: of(ttft.len()),
            survivors_mean: Estimate::default(),
        }],
    }
}

fn figures(arm: &Arm, criteria: &Criteria) -> ArmFigures {
    let all = group(arm);
    let fails = all.refused_share.value > Some(0.01);
    let part = |name: &str| Part {
        kind: "class",
        name: name.to_owned(),
        buckets: all.buckets,
        refused_share: all.refused_share.value.unwrap(),
        completed_share: all.completed_share.value.unwrap(),
    };
    ArmFigures {
        label: arm.label.clone(),
        runs: vec![RunSeen {
            from: arm.runs[0].from.clone(),
            tool: "forebay 0.1.0".to_owned(),
            workload: String::new(),
            plan: None,
            offered: REQUESTS,
            stopped: 0,
            is_closed_loop: false,
            invalid: Vec::new(),
        }],
        blocks: Blocks { count: 12, is_cut: true, requests_max: 50, autocorrelation: None },
        is_figures_only: false,
        classes: BTreeMap::new(),
        tenants: BTreeMap::new(),
        who: Some(Who { jain_tenants: None, by: vec![part("public"), part("research")] }),
        wasted: Some(Wasted { refused_attempts: all.buckets.refused, ..Wasted::default() }),
        recovery: None,
        amplification: Some(1.0),
        completed_per_s: Estimate { value: Some(5.0), said: "5/s".into(), ..Estimate::default() },
        makespan_s: Some(122.0),
        findings: vec![Finding {
            criterion: criteria.list()[0].to_string(),
            is_least: criteria.list()[0].at_least(),
            seen: all.refused_share.clone(),
            share: Estimate::default(),
            state: if fails { "fails" } else { "holds" },
            blocks_more: None,
            requests_more: None,
            seconds_more: None,
        }],
        outcome: Word(if fails { Verdict::NoGo } else { Verdict::Go }),
        reason: format!("{} refused against 1 %", all.refused_share.said),
        all,
    }
}

fn comparison(arms: &[Arm], criteria: &Criteria) -> Comparison {
    let figures: Vec<ArmFigures> = arms.iter().map(|arm| figures(arm, criteria)).collect();
    let contrast = |unit, title: &str, low: f64, value: f64, high: f64| Contrast {
        metric: title.to_owned(),
        title: title.to_owned(),
        unit,
        baseline: Estimate::default(),
        arm: Estimate::default(),
        difference: Estimate {
            value: Some(value),
            low: Some(low),
            high: Some(high),
            is_bounded_only: false,
            said: format!("{value}"),
        },
        p_better: Some(0.01),
        p_value: Some(0.02),
        p_holm: None,
        differs: true,
        is_better: Some(false),
        shift: None,
    };
    let difference = Difference {
        arm: "bursts".to_owned(),
        baseline: "calm".to_owned(),
        is_paired: false,
        blocks: (12, 12),
        primary: contrast("share", "good", -0.2, -0.14, -0.08),
        secondary: vec![
            contrast("share", "refused", 0.08, 0.14, 0.2),
            contrast("ms", "TTFT p50", -700.0, -600.0, -500.0),
            contrast("ms", "TTFT p99", 1000.0, f64::INFINITY, f64::INFINITY),
        ],
        survivorship: vec!["bursts is faster over survivors only".to_owned()],
        sentence: "bursts serves fewer of the offered than calm.".to_owned(),
    };
    Comparison {
        schema: SCHEMA,
        seed: 1,
        resamples: 2000,
        confidence: 0.95,
        criteria: criteria.canonical(),
        criteria_sha256: criteria.hash(),
        arms: figures,
        differences: vec![difference],
        summary: vec!["One request in seven was refused.".to_owned()],
        notes: Vec::new(),
    }
}
