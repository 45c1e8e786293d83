//! Lets workers fail in every way they can.

use std::net::TcpStream;

use forebay_lab::engine_server::{Death, Fault};

use crate::client::{
    Engines, answer, ask, exchange, is_listening, read_all, read_events, wait_until,
};

/// A stream that takes a minute.
const LONG: &[u8] =
    br#"{"prompt": [1, 2], "max_tokens": 20000, "ignore_eos": true, "stream": true}"#;
const SHORT: &str = r#"{"prompt": [1, 2], "max_tokens": 3}"#;

/// A worker with a stream that has begun, for which it takes that many seconds a token.
fn streaming(
    change: impl FnOnce(&mut forebay_lab::engine_server::Options),
) -> (Engines, TcpStream) {
    let engines = Engines::start(|options| {
        options.speed = 10.0;
        change(options);
    });
    let mut stream = ask(engines.addr(), "POST", "/v1/completions", LONG);
    read_events(&mut stream, 2);
    (engines, stream)
}

#[test]
fn a_client_that_leaves_is_gone_from_the_engine_at_every_stage() {
    let (engines, stream) = streaming(|options| options.preset.seqs_max = 1);
    let waits = ask(engines.addr(), "POST", "/v1/completions", LONG);
    let whole = br#"{"prompt": [1, 2], "max_tokens": 20000, "ignore_eos": true}"#;
    let whole = ask(engines.addr(), "POST", "/v1/chat/completions", whole);
    drop(whole);
    wait_until("it waits", || engines.metric("vllm:num_requests_waiting") > 0.5);
    drop((stream, waits));
    engines.wait_until_idle();
    assert!(engines.metric("vllm:kv_cache_usage_perc") < 1e-9);
    assert!(engines.metric("vllm:request_success_total") < 0.5);
}

#[test]
fn above_the_limit_a_request_is_refused_as_by_vllm_and_those_inside_go_on() {
    let (engines, stream) = streaming(|options| options.fault.refuse_above = Some(1));
    let refused = engines.post("/v1/completions", SHORT);
    let body = r#"{"error":{"message":"The engine is currently busy and cannot accept new "#;
    assert_eq!(refused.status, 503);
    assert!(refused.body.starts_with(body), "{}", refused.body);
    assert!(engines.metric("vllm:admission_rejections_total") > 0.5);
    engines.fault(Fault { heal: true, ..Fault::default() });
    assert_eq!(engines.post("/v1/completions", SHORT).status, 200);
    drop(stream);
}

#[test]
fn a_dead_engine_ends_streams_in_an_error_event_and_its_server_goes_after_it() {
    let (engines, stream) = streaming(|_| {});
    engines.fault(Fault {
        die: Some(Death::ErrorFrame),
        back_after_ms: Some(0),
        ..Fault::default()
    });
    let ended = answer(&[b"HTTP/1.1 200 OK\r\n\r\n", &read_all(stream)[..]].concat());
    let events: Vec<_> = ended.body.split("data: ").collect();
    let last = &events[events.len() - 2..];
    assert!(last[0].starts_with(r#"{"error": {"message": "EngineCore encountered"#), "{last:?}");
    assert!(last[1].starts_with("[DONE]") && ended.body.ends_with("0\r\n\r\n"), "{last:?}");
    assert_eq!(engines.get("/health").status, 503);
    assert_eq!(engines.get("/v1/models").status, 200);
    let refused = engines.post("/v1/completions", SHORT);
    assert_eq!(refused.status, 500);
    assert!(refused.body.contains("InternalServerError"), "{}", refused.body);
    wait_until("it is back", || engines.is_well());
    assert_eq!(engines.post("/v1/completions", SHORT).status, 200);
}

#[test]
fn a_killed_process_cuts_its_streams_and_refuses_until_it_is_back() {
    let (engines, stream) = streaming(|_| {});
    engines.fault(Fault { die: Some(Death::Cut), ..Fault::default() });
    let rest = String::from_utf8_lossy(&read_all(stream)).into_owned();
    assert!(!rest.contains("[DONE]") && !rest.ends_with("0\r\n\r\n"), "{rest}");
    assert!(!is_listening(engines.addr()));
    engines.fault(Fault { restart: true, ..Fault::default() });
    assert_eq!(engines.post("/v1/completions", SHORT).status, 200);
}

#[test]
fn a_fault_can_wait_for_tokens() {
    let engines = Engines::start(|options| {
        options.fault.die = Some(Death::Cut);
        options.fault.after_tokens = Some(100);
    });
    let cut = exchange(engines.addr(), "POST", "/v1/completions", LONG);
    assert!(cut.status == 200 && !cut.is_whole && !cut.body.contains("[DONE]"), "{cut:?}");
}

#[test]
fn a_stalled_engine_keeps_its_connections_and_goes_on_when_it_is_healed() {
    let engines = Engines::start(|options| options.fault.stall = Some(true));
    let body = br#"{"prompt": [1, 2], "max_tokens": 3, "ignore_eos": true}"#;
    let stream = ask(engines.addr(), "POST", "/v1/completions", body);
    wait_until("it is inside", || engines.metric("vllm:num_requests_running") > 0.5);
    assert_eq!(engines.get("/health").status, 200);
    assert!(engines.metric("vllm:generation_tokens_total") < 0.5);
    engines.fault(Fault { heal: true, ..Fault::default() });
    assert!(answer(&read_all(stream)).is_whole);
}

#[test]
fn a_restart_in_place_cuts_all_and_empties_the_cache_and_the_counters() {
    let (engines, stream) = streaming(|_| {});
    let prompt: Vec<u32> = (0..640).collect();
    let body = format!(r#"{{"prompt": {prompt:?}, "max_tokens": 1}}"#);
    let cached = r#""cached_tokens":576"#;
    assert!(!engines.post("/v1/completions", &body).body.contains(cached));
    assert!(engines.post("/v1/completions", &body).body.contains(cached));
    engines.fault(Fault { restart: true, ..Fault::default() });
    assert!(!String::from_utf8_lossy(&read_all(stream)).contains("[DONE]"));
    assert!(engines.metric("vllm:prompt_tokens_total") < 0.5);
    assert!(!engines.post("/v1/completions", &body).body.contains(cached));
}

#[test]
fn faults_are_ordered_over_http_too() {
    let engines = Engines::start(|options| options.workers = 2);
    let order = |body: &str| engines.post("/faults", body);
    assert_eq!(order(r#"{"refuse_above": 0}"#).body, r#"{"success":true}"#);
    assert_eq!(engines.post("/v1/completions", SHORT).status, 503);
    assert_eq!(order(r#"{"heal": true}"#).status, 200);
    assert_eq!(engines.post("/v1/completions", SHORT).status, 200);
    assert_eq!(order(r#"{"worker": 1, "die": "cut"}"#).status, 200);
    let other = engines.server().addrs()[1];
    wait_until("the other one is gone", || !is_listening(other));
    assert_eq!(order(r#"{"worker": 1, "restart": true}"#).status, 200);
    wait_until("the other one is back", || is_listening(other));
    for wrong in ["", "[]", r#"{"worker": 7}"#, r#"{"slowdown": -1}"#, r#"{"explode": true}"#] {
        assert_eq!(order(wrong).status, 400, "{wrong}");
    }
    // The answer leaves before the life ends.
    assert_eq!(order(r#"{"die": "cut", "back_after_ms": 0}"#).body, r#"{"success":true}"#);
}
