//! Holds verdicts to their rule.

use super::{Observed, Outcome, Verdict};
use crate::drill::criteria::{Criteria, Criterion};

/// Completed at least 99.9 %, TTFT p50 at most 5 s, TTFT p99 at most 60 s.
fn criteria() -> Vec<Criterion> {
    Criteria::built_in().list().to_vec()
}

fn observed(workers: u32, seed: u64, completed: f64, p50: f64, p99: f64) -> Observed {
    Observed { workers, seed, values: vec![Some(completed), Some(p50), Some(p99)] }
}

#[test]
fn every_table_of_two_seeds_two_sizes_and_two_criteria_is_judged_by_the_rule() {
    let criteria = &criteria()[1..];
    for bits in 0_u32..256 {
        let fails =
            |seed: u32, size: u32, place: u32| bits >> (seed * 4 + size * 2 + place) & 1 == 1;
        let mut runs = Vec::new();
        for seed in 0..2 {
            for size in 0..2 {
                let value = |place| Some(if fails(seed, size, place) { 1e9 } else { 1.0 });
                let values = vec![value(0), value(1)];
                runs.push(Observed { workers: 2 + size, seed: u64::from(seed), values });
            }
        }
        let misses = |seed, place| fails(seed, 0, place) || fails(seed, 1, place);
        let by_all = (0..2).any(|place| misses(0, place) && misses(1, place));
        let expected = match bits {
            0 => Outcome::Go,
            _ if by_all => Outcome::NoGo,
            _ => Outcome::Inconclusive,
        };
        let verdict = Verdict::of(criteria, &runs);
        assert_eq!(verdict.outcome, expected, "{bits:08b}: {verdict}");
        assert!(!verdict.reason.is_empty());
    }
}

#[test]
fn a_single_missing_value_keeps_an_arm_from_go_but_not_from_no_go() {
    let criteria = criteria();
    let mut runs = vec![observed(2, 1, 1.0, 10.0, 10.0), observed(2, 2, 1.0, 10.0, 10.0)];
    runs[0].values[1] = None;
    assert_eq!(Verdict::of(&criteria, &runs).outcome, Outcome::Inconclusive);
    runs[0].values[2] = Some(f64::INFINITY);
    runs[1].values[2] = Some(61_000.0);
    assert_eq!(Verdict::of(&criteria, &runs).outcome, Outcome::NoGo);
}

#[test]
fn nothing_to_judge_is_inconclusive() {
    assert_eq!(Verdict::of(&criteria(), &[]).outcome, Outcome::Inconclusive);
    let runs = [Observed { workers: 2, seed: 1, values: vec![] }];
    assert_eq!(Verdict::of(&[], &runs).outcome, Outcome::Inconclusive);
}

#[test]
fn reasons_are_one_sentence_with_figures() {
    let criteria = criteria();
    let go = [observed(2, 1, 1.0, 900.0, 41_000.0), observed(4, 2, 0.9995, 2100.0, 9000.0)];
    assert_eq!(
        Verdict::of(&criteria, &go).to_string(),
        "GO: all 2 seeds pass at N = 2 and 4; the worst run has completed 99.95 %, TTFT p50 2.1 \
         s and TTFT p99 41 s"
    );
    let no_go = [
        observed(2, 1, 0.871, 900.0, f64::INFINITY),
        observed(2, 2, 0.849, 900.0, f64::INFINITY),
        observed(4, 2, 1.0, 900.0, 900.0),
    ];
    assert_eq!(
        Verdict::of(&criteria, &no_go).to_string(),
        "NO-GO: every seed misses completed ≥ 99.9 % (87.1 % to 84.9 % at N = 2) and TTFT p99 ≤ \
         60 s (∞ at N = 2)"
    );
    let split = [observed(2, 1, 1.0, 900.0, 61_240.0), observed(2, 2, 1.0, 900.0, 900.0)];
    assert_eq!(
        Verdict::of(&criteria, &split).to_string(),
        "INCONCLUSIVE: the seeds disagree: 1 of 2 misses TTFT p99 ≤ 60 s (61.2 s at N = 2)"
    );
}

#[test]
fn exit_codes_are_those_of_the_reference() {
    let codes = [Outcome::Go, Outcome::NoGo, Outcome::Inconclusive].map(Outcome::exit_code);
    assert_eq!(codes, [0, 1, 3]);
}
