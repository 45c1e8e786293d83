//! Holds comparisons to what a run is: one, whole, and ended by itself.

use super::*;
use crate::results::STOPPED;

/// One that was cancelled: as planned after its first token or before it, or by the run's stop.
fn cancelled(request: u64, due_s: f64, first_s: Option<f64>, is_stop: bool) -> Row {
    let mut row = row(request, due_s, None);
    let attempt = &mut row.attempts[0];
    attempt.outcome = Outcome::Cancelled;
    attempt.first_token = first_s.map(Span::secs_f64);
    attempt.end = Span::secs_f64(due_s + 1.0);
    attempt.error = is_stop.then(|| STOPPED.into());
    row.outcome = Outcome::Cancelled;
    row
}

/// So many that were served within a second each, ten a second.
fn calm(count: u64) -> Vec<Row> {
    let due = |request: u64| request as f64 / 10.0;
    let served =
        |request| row(request, due(request), Some((due(request) + 0.2, due(request) + 0.9)));
    (0..count).map(served).collect()
}

fn stopped(rows: Vec<Row>) -> Block {
    let mut run = run_of(rows, None);
    if let Results::Run(run) = &mut run.results {
        run.about.was_interrupted = true;
    }
    run
}

fn told(arms: &[Arm], text: &str) -> String {
    let options = Options { resamples: 200, ..Options::default() };
    compare(arms, &criteria(text), &options).unwrap_err().to_string()
}

#[test]
fn a_run_that_is_given_twice_in_an_arm_is_refused_wherever_it_lies() {
    let at = |from: &str| Block { from: from.to_owned(), ..run_of(calm(100), None) };
    let twice = arm("a", vec![at("o/A"), at("copy/of/A")]);
    let said = told(&[twice], "refused_share_max = 0.01");
    assert!(said.starts_with("a: o/A and copy/of/A are the same run\nhint: "), "{said}");
    // Rows that somebody changed are still those of one start.
    let started = |rows| {
        let mut run = run_of(rows, Some(3));
        if let Results::Run(run) = &mut run.results {
            run.about.started_unix_ms = 1_700_000_000_000;
        }
        run
    };
    let changed = arm("a", vec![started(calm(100)), started(calm(99))]);
    assert!(told(&[changed], "refused_share_max = 0.01").contains("are the same run"));
}

#[test]
fn a_run_in_two_arms_is_compared_and_told() {
    let arms = [arm("a", vec![run_of(calm(200), None)]), arm("b", vec![run_of(calm(200), None)])];
    let comparison = quick(&arms, "refused_share_max = 0.5");
    let note = comparison.notes.iter().find(|note| note.starts_with("a and b share a run: "));
    assert!(note.is_some(), "{:?}", comparison.notes);
}

#[test]
fn what_the_stop_of_a_run_ended_counts_nowhere_and_is_told() {
    let mut rows = calm(3_000);
    rows.push(cancelled(3_000, 300.0, None, true));
    rows.extend(
        (3_001..4_000).map(|request| {
            Row::new(request, Span::secs_f64(request as f64 / 10.0), Outcome::NotSent)
        }),
    );
    let arms = [arm("int", vec![stopped(rows)])];
    let comparison = quick(&arms, "completed_share_min = 0.98");
    let int = &comparison.arms[0];
    assert_eq!((int.all.buckets.offered, int.runs[0].stopped), (3_000, 1_000));
    assert_eq!(int.outcome.0, Verdict::Go, "{}", int.reason);
    assert!((int.makespan_s.unwrap() - 300.8).abs() < 1e-6, "{:?}", int.makespan_s);
    let note = "of 4000 requests 1000 were not sent or not over by then, and count nowhere";
    assert!(comparison.notes.iter().any(|said| said.contains(note)), "{:?}", comparison.notes);
}

#[test]
fn a_go_that_hangs_on_what_a_stop_cut_off_is_none() {
    // A target that hangs on every twentieth request looks fine once it is stopped.
    let mut rows = calm(3_000);
    rows.extend((3_000..3_150).map(|nth| cancelled(nth, nth as f64 / 10.0, None, true)));
    let comparison = quick(&[arm("hangs", vec![stopped(rows)])], "completed_share_min = 0.98");
    assert_eq!(comparison.exit_code(), 3);
    let reason = &comparison.arms[0].reason;
    assert!(reason.starts_with("150 requests under way when the run was stopped"), "{reason}");
}

#[test]
fn a_client_that_leaves_as_planned_counts_in_what_it_saw() {
    let with = |first: fn(f64) -> Option<f64>| {
        let mut rows = calm(3_000);
        for request in (0..3_000_u64).step_by(4) {
            let due = request as f64 / 10.0;
            rows[request as usize] = cancelled(request, due, first(due), false);
        }
        let text = "completed_share_min = 0.98\nttft_ms_max = { p90 = 500 }";
        quick(&[arm("cancel", vec![run_of(rows, None)])], text)
    };
    let left = with(|due| Some(due + 0.2));
    assert_eq!(left.exit_code(), 0, "{}", left.arms[0].reason);
    assert_eq!(left.arms[0].all.buckets.left, 750);
    assert!(left.notes.iter().any(|note| note.contains("750 requests left as planned")));
    // Who leaves without a token has waited in vain.
    let waited = with(|_| None);
    assert_eq!(waited.exit_code(), 1, "{}", waited.arms[0].reason);
    assert_eq!(waited.arms[0].all.buckets.left, 0);
}

#[test]
fn no_verdict_stands_beside_a_bound_that_contradicts_it() {
    for (count, refused) in
        [(300, 0), (2_950, 0), (3_000, 3), (5_000, 12), (5_000, 60), (5_000, 900)]
    {
        let mut rows = calm(count);
        for nth in 0..refused {
            let request = nth * count / refused;
            rows[request as usize] = row(request, request as f64 / 10.0, None);
        }
        let text = "refused_share_max = 0.01\ncompleted_share_min = 0.99\n\
                    ttft_ms_max = { p90 = 300, p50 = 100 }";
        let comparison = quick(&[arm("arm", vec![run_of(rows, None)])], text);
        for finding in &comparison.arms[0].findings {
            let (seen, ends) =
                (finding.share.value.unwrap(), (&finding.share.low, &finding.share.high));
            let (low, high) = (ends.0.unwrap(), ends.1.unwrap());
            assert!(low <= seen && seen <= high, "{finding:?}");
            let limit = match finding.criterion.as_str() {
                it if it.contains("p90") => 0.1,
                it if it.contains("p50") => 0.5,
                _ => 0.01 + 1e-12,
            };
            match finding.state {
                "holds" => assert!(high <= limit, "{finding:?}"),
                "fails" => assert!(low > limit - 2e-12, "{finding:?}"),
                _ => assert!(low <= limit && limit <= high, "{finding:?}"),
            }
        }
    }
}

#[test]
fn what_is_missing_is_told_in_requests_runs_and_time() {
    let comparison =
        quick(&[arm("calm", vec![run_of(calm(300), None)])], "refused_share_max = 0.01");
    let arm = &comparison.arms[0];
    let expected = "refused ≤ 1 % (seen 0 %, at least 0 % and at most ";
    assert!(arm.reason.starts_with(expected), "{}", arm.reason);
    let more = arm.findings[0].requests_more.unwrap();
    assert!((2_300..2_600).contains(&more), "{more}");
    let seconds = arm.findings[0].seconds_more.unwrap();
    assert!((seconds / more as f64 - 0.1).abs() < 0.01, "{seconds}");
    assert!(arm.reason.contains(" more requests would decide: "), "{}", arm.reason);
    assert!(arm.reason.ends_with(" more runs like these, 5 minutes"), "{}", arm.reason);
    // The same requests in three runs want as many more.
    let part = |from: u64| {
        run_of(calm(300).split_off(from as usize).into_iter().take(100).collect(), None)
    };
    let thirds = quick(
        &[super::arm("calm", vec![part(0), part(100), part(200)])],
        "refused_share_max = 0.01",
    );
    let other = thirds.arms[0].findings[0].requests_more.unwrap();
    assert!(other.abs_diff(more) * 5 < more, "{other} against {more}");
}
