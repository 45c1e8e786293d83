//! Holds the summary of a run to its rows.

use forebay_core::Span;

use super::super::gather::Gather;
use super::super::{
    About, Attempt, Fault, GROUPS_MAX, Generator, OTHERS, Outcome, Row, Summary, Usage,
};
use super::{about, failed, refused, row, served, with};
use crate::simulate::Fixed;

fn summary(rows: &[Row]) -> Summary {
    let mut gather = Gather::default();
    rows.iter().for_each(|row| gather.add(row));
    gather.into_summary(&about())
}

#[test]
fn quantiles_over_all_offered_are_undefined_where_the_unserved_lie() {
    let mut rows: Vec<Row> = (0..6).map(|nth| served(nth, nth * 100, 10 * (nth + 1))).collect();
    rows.push(refused(6, 600, 4));
    let all = summary(&rows).all;
    assert_eq!(all.offered, 7);
    assert_eq!((all.by_outcome[&Outcome::Completed], all.by_outcome[&Outcome::Refused]), (6, 1));
    assert_eq!((all.ttft_ms.p50, all.ttft_ms.p75), (Fixed::some(40.0), Fixed::some(60.0)));
    assert_eq!([all.ttft_ms.mean, all.ttft_ms.p90, all.e2e_ms.p99], [Fixed(None); 3]);
    assert_eq!(all.completed_only.ttft_ms.p99, Fixed::some(60.0));
    assert_eq!(all.completed_only.ttft_ms.mean, Fixed::some(35.0));
    assert_eq!((all.itl_ms.p50, all.itl_ms.p90), (Fixed::some(10.0), Fixed(None)));
}

#[test]
fn refusals_keep_how_long_they_took_and_what_they_asked_to_wait() {
    let all = summary(&[refused(0, 0, 4), refused(1, 50, 8)]).all;
    assert_eq!(all.time_to_refuse_ms.max, Fixed::some(8.0));
    assert_eq!((all.retry_after.refusals, all.retry_after.given), (2, 2));
    assert_eq!(all.retry_after.wait_ms.p50, Fixed::some(2_000.0));
    assert_eq!(all.unserved_by_status[&503], 2);
    assert_eq!(all.makespan_s, Fixed::some(0.058));
}

#[test]
fn attempts_make_amplification_and_a_request_never_sent_has_none() {
    let retried = with(refused(0, 0, 4), served(0, 0, 90).attempts.remove(0));
    let all = summary(&[retried, row(1, 10)]).all;
    assert_eq!((all.offered, all.attempts, all.amplification), (2, 2, Fixed::some(1.0)));
    assert_eq!(all.attempts_by_outcome[&Outcome::Refused], 1);
    assert_eq!((all.by_outcome[&Outcome::Completed], all.by_outcome[&Outcome::NotSent]), (1, 1));
    // It was refused in between, and that took no longer than it took.
    assert_eq!((all.retry_after.refusals, all.time_to_refuse_ms.max), (1, Fixed(None)));
}

#[test]
fn why_requests_failed_is_counted_and_a_fault_that_is_not_said_is_unknown() {
    let unsaid = {
        let mut row = failed(1, 0);
        row.attempts[0].fault = None;
        row
    };
    let all = summary(&[failed(0, 0), unsaid]).all;
    assert_eq!(all.failed_by[&Fault::Cut], 1);
    assert_eq!(all.failed_by[&Fault::Unknown], 1);
}

#[test]
fn warm_up_is_counted_apart_and_nowhere_else() {
    let warm = Row { is_warmup: true, ..served(0, 0, 5_000) };
    let summary = summary(&[warm, served(1, 10, 40)]);
    assert_eq!(summary.warmup[&Outcome::Completed], 1);
    assert_eq!((summary.all.offered, summary.all.attempts), (1, 1));
    assert_eq!(summary.all.ttft_ms.max, Fixed::some(40.0));
    assert_eq!(summary.classes["public"].offered, 1);
    assert!(summary.conservation.holds);
    assert_eq!(summary.conservation.rows, 2);
}

#[test]
fn a_request_that_is_missing_repeated_or_contradictory_makes_the_run_invalid() {
    for rows in [
        vec![row(0, 0), row(2, 0)],
        vec![row(0, 0), row(0, 0)],
        vec![Row { outcome: Outcome::Completed, ..refused(0, 0, 1) }],
        vec![Row { outcome: Outcome::Refused, ..row(0, 0) }],
    ] {
        let summary = summary(&rows);
        assert!(!summary.conservation.holds, "{rows:?}");
        assert_eq!(summary.about.invalid[0].reason, "conservation");
    }
    assert!(summary(&[row(1, 0), row(0, 0)]).about.is_valid());
}

#[test]
fn groups_are_sorted_and_hold_only_their_own() {
    let of = |mut row: Row, class: Option<&str>, tenant: &str| {
        row.class = class.map(Into::into);
        row.tenant = Some(tenant.into());
        row
    };
    let rows = [
        of(served(0, 0, 30), Some("b"), "y"),
        of(served(1, 0, 20), Some("a"), "x"),
        of(refused(2, 0, 7), Some("a"), "y"),
        of(served(3, 0, 10), None, "y"),
    ];
    let summary = summary(&rows);
    assert_eq!(summary.classes.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(summary.tenants.keys().collect::<Vec<_>>(), ["x", "y"]);
    let (a, y) = (&summary.classes["a"], &summary.tenants["y"]);
    assert_eq!((a.offered, a.ttft_ms.p50, a.ttft_ms.max), (2, Fixed::some(20.0), Fixed(None)));
    assert_eq!(a.time_to_refuse_ms.max, Fixed::some(7.0));
    assert_eq!((y.offered, y.retry_after.given), (3, 1));
    assert_eq!(y.completed_only.ttft_ms.max, Fixed::some(30.0));
    assert_eq!(summary.classes["b"].time_to_refuse_ms.max, Fixed(None));
}

#[test]
fn names_beyond_the_bound_are_summed_up_together() {
    let rows: Vec<Row> = (0..GROUPS_MAX as u64 + 2)
        .map(|nth| Row { tenant: Some(format!("t{nth}").into()), ..served(nth, 0, 10) })
        .collect();
    let summary = summary(&rows);
    assert_eq!(summary.tenants.len(), GROUPS_MAX + 1);
    assert_eq!(summary.tenants[OTHERS].offered, 2);
}

#[test]
fn answers_that_come_short_and_counts_that_lie_are_told() {
    let usage = |request, usage| {
        let mut row = served(request, 0, 10);
        row.attempts[0].usage = usage;
        row
    };
    let lying = Usage { output_tokens: Some(1), ..Usage::default() };
    let short = {
        let mut row = served(2, 0, 10);
        row.attempts[0].chunks.truncate(1);
        row.attempts[0].usage.output_tokens = Some(1);
        row
    };
    let all = summary(&[usage(0, Usage::default()), usage(1, lying), short, served(3, 0, 10)]).all;
    let tokens = all.tokens;
    assert_eq!((tokens.usage_missing, tokens.usage_too_low), (1, 1));
    assert_eq!((tokens.asked, tokens.short, tokens.short_share), (4, 1, Fixed::some(0.25)));
    assert_eq!((tokens.output_asked, tokens.output_got, tokens.output), (12, 10, 10));
    assert_eq!((tokens.cached_known, tokens.cached_share), (2, Fixed::some(0.25)));
    assert_eq!(tokens.prompt, 400);
}

#[test]
fn figures_that_are_no_numbers_never_reach_the_file() {
    let generator = Generator { lag_ms_p99: f64::NAN, ..Generator::default() };
    let about = About { generator: Some(generator), ..about() };
    let folder = super::scratch("nan").join("run");
    let options = super::super::FolderOptions { started_unix_ms: 0, aiperf: false };
    let run = super::super::RunFolder::create(&folder, options).unwrap();
    let summary = run.finish(&about).unwrap();
    assert_eq!(summary.about.generator, None);
    assert!(summary.about.notes[0].contains("no number"));
}

#[test]
fn times_at_the_end_of_the_clock_do_not_overflow() {
    let end = Span(u64::MAX);
    let attempt = Attempt {
        end,
        first_token: Some(end),
        usage: Usage {
            prompt_tokens: Some(u64::MAX),
            output_tokens: Some(u64::MAX),
            ..Usage::default()
        },
        outcome: Outcome::Completed,
        ..Attempt::new(Span::ZERO, 0)
    };
    let rows: Vec<Row> = (0..2).map(|nth| with(row(nth, 0), attempt.clone())).collect();
    assert_eq!(summary(&rows).all.tokens.output, u64::MAX);
}
