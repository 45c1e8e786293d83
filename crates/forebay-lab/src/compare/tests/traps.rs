//! Holds comparisons to the traps that other labs fell into.

use super::*;

#[test]
fn goodput_is_over_all_offered_and_shedding_does_not_improve_it() {
    // All served, half of them slow; or the slow half refused.
    let served = (0..200).map(|nth| {
        let due = nth as f64 * 0.1;
        row(nth, due, Some((due + if nth % 2 == 0 { 0.1 } else { 5.0 }, due + 6.0)))
    });
    let shed = (0..200).map(|nth| {
        let due = nth as f64 * 0.1;
        row(nth, due, (nth % 2 == 0).then_some((due + 0.1, due + 6.0)))
    });
    let arms = [
        arm("served", vec![run_of(served.collect(), Some(1))]),
        arm("shed", vec![run_of(shed.collect(), Some(1))]),
    ];
    let told = quick(&arms, "good_share_min = 0.9\n[good]\nttft_ms_max = 1000");
    for arm in &told.arms {
        assert!((arm.all.good_share.value.unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(arm.outcome.0, Verdict::NoGo, "{}", arm.reason);
    }
    assert_eq!(
        (told.arms[0].all.buckets.slow, told.arms[1].all.buckets.slow),
        (Some(100), Some(0))
    );
    assert!(!told.differences[0].primary.differs);
}

#[test]
fn requests_that_were_never_sent_count_against_the_arm() {
    let mut all = rows(STEADY, 400, 1, 1);
    for row in all.iter_mut().skip(300) {
        row.outcome = Outcome::NotSent;
        row.attempts.clear();
    }
    let told = quick(&[arm("arm", vec![run_of(all, None)])], "completed_share_min = 0.9");
    assert_eq!(told.arms[0].all.buckets.not_sent, 100);
    assert_ne!(told.exit_code(), 0);
    let said = &told.arms[0].all.latencies[0].offered.p99.said;
    assert!(said.starts_with("undefined: 25 % not sent"), "{said}");
}

#[test]
fn warm_up_counts_nowhere() {
    let mut all = rows(STEADY, 400, 1, 1);
    all.iter_mut().take(50).for_each(|row| row.is_warmup = true);
    let told = quick(&[arm("arm", vec![run_of(all, None)])], "completed_share_min = 0.9");
    assert_eq!(told.arms[0].all.buckets.offered, 350);
}

#[test]
fn an_invalid_run_is_listed_and_never_averaged_in() {
    let mut bad = run_of(rows(REFUSING, 400, 1, 1), None);
    let Results::Run(run) = &mut bad.results else { panic!("it is a run") };
    let what = "schedule lag p99 of 300 ms".to_owned();
    run.about.invalid.push(Invalid { reason: "lag".to_owned(), what });
    let good = run_of(rows(STEADY, 400, 1, 1), None);
    let told = quick(
        &[arm("arm", vec![good.clone(), bad.clone()]), arm("bad", vec![bad])],
        "completed_share_min = 0.9",
    );
    assert_eq!(told.arms[0].all.buckets.offered, 400);
    assert!(told.notes.iter().any(|note| note.contains("INVALID") && note.contains("300 ms")));
    assert_eq!((told.outcome(), told.exit_code()), (Verdict::Inconclusive, 3));
    assert!(told.arms[1].reason.contains("300 ms"), "{}", told.arms[1].reason);
    assert!(told.differences.is_empty());
}

#[test]
fn rows_that_contradict_themselves_are_an_error() {
    let mut twice = rows(STEADY, 20, 1, 1);
    twice[3].request = 4;
    let mut unsent = rows(STEADY, 20, 1, 1);
    unsent[3].attempts.clear();
    for (rows, what) in [(twice, "request 4 is there twice"), (unsent, "never sent")] {
        let arms = [arm("arm", vec![run_of(rows, None)])];
        let error = compare(&arms, &Criteria::built_in(), &Options::default()).unwrap_err();
        assert!(
            error.to_string().contains(what) && error.to_string().contains("hint: "),
            "{error}"
        );
    }
}

#[test]
fn arms_that_cannot_be_told_apart_or_are_empty_are_misuse() {
    let error = |arms: &[Arm]| compare(arms, &Criteria::built_in(), &Options::default());
    assert_eq!(error(&[]).unwrap_err(), CompareError::NoArm);
    let empty = arm("a", Vec::new());
    assert_eq!(error(&[empty]).unwrap_err(), CompareError::NoRun("a".to_owned()));
    let one = arm("a", vec![run_of(rows(STEADY, 40, 1, 1), None)]);
    let twice = error(&[one.clone(), one]).unwrap_err();
    assert_eq!(twice, CompareError::SameLabel("a".to_owned()));
}

#[test]
fn a_closed_loop_is_said_to_hide_queueing() {
    let mut closed = run_of(rows(STEADY, 100, 1, 1), None);
    let Results::Run(run) = &mut closed.results else { panic!("it is a run") };
    run.about.is_closed_loop = true;
    let told = quick(&[arm("arm", vec![closed])], "completed_share_min = 0.9");
    assert!(told.notes.iter().any(|note| note.contains("hides queueing")), "{:?}", told.notes);
}

#[test]
fn who_was_refused_is_told_by_tenant_prompt_and_retry() {
    let mut all: Vec<Row> = (0..300)
        .map(|nth| {
            let due = nth as f64 * 0.1;
            row(nth, due, (nth % 3 != 0).then_some((due + 0.1, due + 1.0)))
        })
        .collect();
    // One that was refused twice before it was served.
    let refused = all[0].attempts[0].clone();
    all[1].attempts.splice(0..0, [refused.clone(), refused]);
    let told = quick(&[arm("arm", vec![run_of(all, None)])], "completed_share_min = 0.5");
    let who = told.arms[0].who.as_ref().unwrap();
    let a = who.by.iter().find(|part| part.kind == "tenant" && part.name == "a").unwrap();
    assert!((a.refused_share - 1.0).abs() < 1e-12);
    // Two tenants have everything and one nothing.
    assert!((who.jain_tenants.unwrap() - 2.0 / 3.0).abs() < 1e-9);
    assert_eq!(who.by.iter().filter(|part| part.kind == "prompt_tokens").count(), 4);
    let wasted = told.arms[0].wasted.unwrap();
    assert_eq!(wasted.refused_attempts, 102);
    assert!((told.arms[0].amplification.unwrap() - 302.0 / 300.0).abs() < 1e-9);
    assert!(told.summary.iter().any(|it| it.contains("refused 100 % of tenant a")));
}

#[test]
fn recovery_lasts_until_what_the_overload_left_is_over() {
    // 100 requests within a second, then one a second for 20 s; each takes 0.1 s, one at a time.
    let mut free = 0.0_f64;
    let dues = (0..100).map(|nth| f64::from(nth) * 0.01).chain((1..=20).map(f64::from));
    let all = dues.zip(0..).map(|(due, nth)| {
        free = free.max(due) + 0.1;
        row(nth, due, Some((free, free)))
    });
    let told = quick(&[arm("arm", vec![run_of(all.collect(), None)])], "completed_share_min = 0.5");
    let recovery = told.arms[0].recovery.as_ref().unwrap();
    assert!((recovery.overload_end_s - 1.0).abs() < 1e-6, "{recovery:?}");
    let after = recovery.after_s.unwrap();
    assert!((9.0..9.2).contains(&after), "{recovery:?}");
}

/// A summary of a run as another tool prints it.
fn summary(completed: u64, refused: u64, ttft: [f64; 5]) -> Block {
    let percentiles = [25, 50, 75, 90, 99].into_iter().zip(ttft).collect::<BTreeMap<u8, f64>>();
    let spread = Spread {
        count: completed,
        mean: ttft[2],
        std: None,
        range: Some((0.0, 2.0 * ttft[4])),
        percentiles,
    };
    let figures = Figures {
        about: about(None),
        counts: BTreeMap::from([(Outcome::Completed, completed), (Outcome::Refused, refused)]),
        ttft_ms: Some(spread),
        duration_s: Some(250.0),
        ..Figures::default()
    };
    Block { from: "summary".to_owned(), results: Results::Figures(Box::new(figures)) }
}

#[test]
fn summaries_give_bounds_and_never_a_figure_that_nobody_measured() {
    let fast = [1.0, 3000.0, 6000.0, 9000.0, 18_000.0];
    // Three runs, and not one that is given three times.
    let slow = |least| [least, 12_000.0, 30_000.0, 40_000.0, 50_000.0];
    let arms = [
        arm("off", [2.0, 3.0, 4.0].map(|least| summary(1000, 0, slow(least))).to_vec()),
        arm("on", [103, 149, 177].map(|lost| summary(1000 - lost, lost, fast)).to_vec()),
    ];
    let told = quick(&arms, "refused_share_max = 0.01\nttft_ms_max = { p90 = 60000 }");
    let on = &told.arms[1];
    assert!(on.is_figures_only && told.exit_code() == 1, "{}", on.reason);
    assert_eq!(on.all.latencies[0].offered.p50.said, "3 s to 6 s");
    assert_eq!(on.all.latencies[0].offered.p90.said, "undefined: 14.3 % refused");
    assert_eq!(told.arms[0].all.latencies[0].offered.p50.value, Some(12_000.0));
    let survivorship = &told.differences[0].survivorship;
    assert!(survivorship[0].contains("TTFT p90 is 9 s over the 2571 it completed"));
    assert!(
        told.differences[0]
            .secondary
            .iter()
            .all(|contrast| { !contrast.metric.starts_with("ttft") || contrast.p_value.is_none() })
    );
}

#[test]
fn a_summary_of_more_latencies_than_requests_is_an_error() {
    let mut wrong = summary(10, 0, [1.0, 2.0, 3.0, 4.0, 5.0]);
    let Results::Figures(figures) = &mut wrong.results else { panic!("they are figures") };
    figures.ttft_ms.as_mut().unwrap().count = 11;
    let error = compare(&[arm("a", vec![wrong])], &Criteria::built_in(), &Options::default());
    assert!(matches!(error, Err(CompareError::Unbalanced { .. })));
}

#[test]
fn what_is_infinite_is_a_word_in_json() {
    let told = quick(
        &[arm("arm", vec![run_of(rows(REFUSING, 600, 3, 2), None)])],
        "refused_share_max = 0.5",
    );
    let json = serde_json::to_value(&told).unwrap();
    let p99 = &json["arms"][0]["all"]["latencies"][0]["offered"]["p99"];
    assert_eq!(p99["value"], "infinite");
    assert_eq!(json["arms"][0]["outcome"], "GO");
    assert_eq!(json["schema"], "forebay.comparison/1");
}
