//! Checks summaries against figures computed by hand.

use forebay_core::{Moment, RefusalReason, Span};

use super::{Summary, Thresholds};
use crate::simulate::{Fate, Promises, RequestRecord, RunRecord, table};

fn served(id: u64, at_ms: u64, ttft_ms: u64, e2e_ms: u64, output: u64) -> RequestRecord {
    let at = Moment(at_ms * 1_000_000);
    RequestRecord {
        id,
        scheduled: at,
        class: (id % 2) as u16,
        tenant: 0,
        prompt: 100,
        output,
        cached: Some(25),
        fate: Fate::Completed,
        attempts: 1,
        core_requests: vec![0],
        worker: Some(0),
        queue: Some(Span::millis(ttft_ms / 2)),
        dispatched: Some(at + Span::millis(ttft_ms / 2)),
        first_token: Some(at + Span::millis(ttft_ms)),
        ended: at + Span::millis(e2e_ms),
        predicted_wait: Some(Span::millis(ttft_ms / 2)),
        retry_after: None,
        promises: Promises::default(),
        preemptions: 1,
    }
}

fn unserved(id: u64, fate: Fate) -> RequestRecord {
    RequestRecord {
        fate,
        cached: None,
        worker: None,
        queue: None,
        dispatched: None,
        first_token: None,
        ..served(id, 0, 0, 0, 10)
    }
}

fn run(requests: Vec<RequestRecord>) -> RunRecord {
    RunRecord {
        trace: "hand".to_owned(),
        mode: "hold".to_owned(),
        workers: 2,
        seed: 7,
        engine: "a/b".to_owned(),
        classes: vec!["public".to_owned(), "research".to_owned()],
        tenants: vec!["all".to_owned()],
        preemptions: requests.iter().map(|one| u64::from(one.preemptions)).sum(),
        requests,
        timeline: Vec::new(),
        queue_len_max_seen: 0,
    }
}

fn json(run: &RunRecord) -> serde_json::Value {
    let summary = Summary::of(run, &Thresholds::default());
    serde_json::from_str(&serde_json::to_string(&summary).unwrap()).unwrap()
}

#[test]
fn figures_are_those_computed_by_hand() {
    let requests = vec![
        served(0, 0, 100, 1000, 10),
        served(1, 500, 300, 1300, 1),
        unserved(2, Fate::Refused(RefusalReason::Shed)),
        unserved(3, Fate::Failed(RefusalReason::UpstreamFailed)),
    ];
    let shown = json(&run(requests));
    assert_eq!(shown["offered"], 4);
    assert_eq!([&shown["completed"], &shown["refused"], &shown["failed"]], [2, 1, 1]);
    assert_eq!(shown["refused_by"], serde_json::json!({ "shed": 1 }));
    // Of four, p50 is the second and p75 the third, which was never served.
    assert_eq!(shown["ttft_ms"]["p50"], 300.0);
    assert!(shown["ttft_ms"]["p75"].is_null() && shown["ttft_ms"]["mean"].is_null());
    assert_eq!(shown["completed_only"]["ttft_ms"]["mean"], 200.0);
    // Only the first served has gaps: 900 ms over nine. The two unserved would have had some.
    assert_eq!(shown["completed_only"]["itl_ms"]["max"], 100.0);
    assert!(shown["itl_ms"]["p50"].is_null());
    assert_eq!(shown["makespan_s"], 1.8);
    assert_eq!(shown["prefix_hit_share"], 0.25);
    assert_eq!(shown["goodput_share"], 0.5);
    assert_eq!(shown["output_tokens_per_s"], 6.111);
    assert_eq!(shown["classes"]["public"]["offered"], 2);
    assert_eq!(shown["classes"]["research"]["failed"], 1);
    assert_eq!(shown["tenants"]["all"]["offered"], 4);
    assert_eq!(shown["classes"]["public"]["preemptions"], 2);
}

#[test]
fn keys_come_in_the_order_of_the_reference() {
    let summary = Summary::of(&run(vec![served(0, 0, 1, 2, 2)]), &Thresholds::default());
    let text = serde_json::to_string(&summary).unwrap();
    let keys = [
        "trace",
        "mode",
        "workers",
        "seed",
        "engine",
        "offered",
        "completed",
        "refused",
        "abandoned",
        "failed",
        "refused_by",
        "attempts",
        "amplification",
        "ttft_ms",
        "itl_ms",
        "e2e_ms",
        "queue_ms",
        "completed_only",
        "makespan_s",
        "prefix_hit_share",
        "preemptions",
        "output_tokens_per_s",
        "goodput_share",
        "queue_len_max_seen",
        "classes",
        "tenants",
    ];
    let places: Vec<_> = keys.iter().map(|key| text.find(&format!("\"{key}\":"))).collect();
    assert!(places.iter().all(Option::is_some), "{text}");
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn a_run_of_nothing_has_no_latency_and_no_shares() {
    let shown = json(&run(Vec::new()));
    assert_eq!(shown["offered"], 0);
    assert!(shown["ttft_ms"]["p50"].is_null() && shown["goodput_share"].is_null());
    assert_eq!(shown["makespan_s"], 0.0);
}

#[test]
fn a_slow_request_is_served_but_not_good() {
    let requests = vec![served(0, 0, 60_000, 61_000, 2), served(1, 0, 60_001, 61_000, 2)];
    let shown = json(&run(requests));
    assert_eq!(
        [&shown["completed"], &shown["goodput_share"]],
        [&serde_json::json!(2), &serde_json::json!(0.5)]
    );
}

#[test]
fn a_wait_of_more_than_twice_the_predicted_one_is_counted() {
    let mut requests = vec![served(0, 0, 100, 200, 2), served(1, 0, 100, 200, 2)];
    requests[0].predicted_wait = Some(Span::millis(25));
    requests[1].predicted_wait = Some(Span::millis(24));
    assert_eq!(json(&run(requests))["waited_beyond_promise_share"], 0.5);
}

#[test]
fn the_table_keeps_to_a_hundred_columns() {
    let mut record = run(vec![
        served(0, 0, 100, 1_000_000, 10),
        unserved(1, Fate::Refused(RefusalReason::TenantConcurrency)),
    ]);
    record.trace = "a-very-long-name-of-a-trace-that-somebody-once-recorded.jsonl".to_owned();
    record.classes[1] = "a-class-with-quite-a-long-name".to_owned();
    let shown = table(&Summary::of(&record, &Thresholds::default()));
    for line in shown.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    assert!(shown.contains("completed 1 (50.00 %)") && shown.contains('∞'), "{shown}");
}
