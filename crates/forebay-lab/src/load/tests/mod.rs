//! Tests the client against a stub on a raw socket.

mod driver;
mod reports;
mod stub;
mod sums;
mod transport;

use std::future::pending;
use std::sync::Arc;

use bytes::Bytes;
use forebay_core::Span;
use http::{HeaderMap, HeaderValue, Request};
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::connect::{Dialer, Line};
use super::outgoing::{Noted, Outgoing};
use super::{Ended, Planned, Settings, Target, Transport, run};
use crate::results::{Attempt, Fault, Outcome, Row, Usage};
use stub::{Step, Stub};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                    transfer-encoding: chunked\r\n\r\n";
const ROLE: &str =
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const TOKEN: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\" é\"},\"finish_reason\":\"length\"}]}\n\n";
const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1,\
                     \"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// Pieces of a stream, each as a chunk, and the end of the answer.
fn stream(pieces: &[&str]) -> Vec<u8> {
    let chunk = |piece: &&str| format!("{:x}\r\n{piece}\r\n", piece.len());
    format!("{HEAD}{}0\r\n\r\n", pieces.iter().map(chunk).collect::<String>()).into_bytes()
}

fn clean() -> Vec<u8> {
    stream(&[ROLE, TOKEN, USAGE, DONE])
}

fn whole(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {len}\r\n\r\n{body}").into_bytes()
}

fn settings(stub: &Stub) -> Settings {
    let target: Target = stub.url("/v1/completions").parse().unwrap();
    Settings { patience: Span::secs(30), ..Settings::for_targets(vec![target]) }
}

/// Sends so many requests, `gap` apart, and returns their rows in the order of the plan.
async fn send(settings: &Settings, len: u64, gap: Span) -> Vec<Row> {
    let plan = (0..len).map(|nth| Planned {
        at: Span(nth * gap.0),
        body: Bytes::from(format!("{{\"nth\":{nth}}}")),
        ..Planned::default()
    });
    planned(settings, plan).await
}

async fn planned(settings: &Settings, plan: impl Iterator<Item = Planned>) -> Vec<Row> {
    ran(settings, plan).await.0
}

/// The rows in the order of the plan, and what the generator says of itself.
async fn ran(settings: &Settings, plan: impl Iterator<Item = Planned>) -> (Vec<Row>, Ended) {
    let mut rows = Vec::new();
    let ended = run(plan, settings, |row| rows.push(row), pending()).await;
    rows.sort_by_key(|row| row.request);
    (rows, ended)
}

/// What comes of one request that is answered by these steps.
async fn one(steps: Vec<Step>) -> Attempt {
    let stub = Stub::start(move |_| steps.clone()).await;
    let rows = send(&settings(&stub), 1, Span::ZERO).await;
    assert_eq!((rows[0].attempts.len(), rows[0].outcome), (1, rows[0].attempts[0].outcome));
    rows[0].attempts[0].clone()
}

async fn one_answer(answer: Vec<u8>) -> Attempt {
    one(vec![Step::Write(answer), Step::Close]).await
}

#[tokio::test]
async fn a_stream_is_recorded_from_its_head_to_its_end() {
    let record = one_answer(clean()).await;
    assert_eq!(record.outcome, Outcome::Completed, "{record:?}");
    assert_eq!((record.status, record.chunks.len()), (Some(200), 1));
    let Usage { prompt_tokens, output_tokens, cached_tokens } = record.usage;
    assert_eq!([prompt_tokens, output_tokens, cached_tokens], [9, 1, 4].map(Some));
    let Attempt { dequeued, connected, written, first_byte, first_token, .. } = record;
    let moments = [dequeued, connected, written, first_byte, first_token, Some(record.end)];
    assert!(moments.is_sorted() && moments[0].is_some(), "{moments:?}");
    assert_eq!((record.first_answer, record.is_reused), (first_token, false));
}

#[tokio::test]
async fn a_stream_is_the_same_where_every_byte_comes_alone() {
    let bytes = clean().into_iter().map(|byte| Step::Write(vec![byte]));
    let record = one(bytes.collect()).await;
    assert_eq!((record.outcome, record.chunks.len()), (Outcome::Completed, 1));
    assert_eq!(record.usage.cached_tokens, Some(4));
}

#[tokio::test]
async fn a_stream_that_is_cut_at_any_byte_is_never_completed() {
    let answer = clean();
    let head = HEAD.len();
    let bytes = answer.clone();
    let stub = Stub::start(move |nth| vec![Step::Write(bytes[..nth].to_vec()), Step::Close]).await;
    let records = send(&settings(&stub), answer.len() as u64, Span::ZERO).await;
    // Connections are accepted in the order in which they were made, not in that of the plan.
    let fault = |row: &Row| row.last().and_then(|last| last.fault);
    let mut faults: Vec<_> = records.iter().map(fault).collect();
    faults.sort_by_key(|fault| *fault == Some(Fault::Cut));
    assert_eq!(faults.len(), answer.len());
    assert_eq!(faults[..head], vec![Some(Fault::NoAnswer); head]);
    assert_eq!(faults[head..], vec![Some(Fault::Cut); answer.len() - head]);
}

#[tokio::test]
async fn a_stream_that_ends_in_good_order_without_its_mark_is_unfinished() {
    let record = one_answer(stream(&[ROLE, TOKEN])).await;
    assert_eq!(record.fault, Some(Fault::Unfinished));
    assert!(record.first_token.is_some());
    let open_ended = HEAD.replace("transfer-encoding: chunked", "connection: close");
    let record = one_answer(format!("{open_ended}{ROLE}{TOKEN}").into_bytes()).await;
    assert_eq!(record.fault, Some(Fault::Unfinished));
    let record = one_answer(format!("{open_ended}{ROLE}{TOKEN}{DONE}").into_bytes()).await;
    assert_eq!(record.outcome, Outcome::Completed);
}

#[tokio::test]
async fn an_error_within_a_success_is_a_failure_with_its_text() {
    let error = "data: {\"error\":{\"message\":\"engine died\",\"code\":500}}\n\n";
    let record = one_answer(stream(&[ROLE, TOKEN, error, DONE])).await;
    assert_eq!(record.fault, Some(Fault::ErrorInAnswer));
    assert_eq!(record.error.as_deref(), Some("{\"message\":\"engine died\",\"code\":500}"));
    let record = one_answer(whole("200 OK", "", "{\"error\":\"no\"}")).await;
    assert_eq!(record.fault, Some(Fault::ErrorInAnswer));
}

#[tokio::test]
async fn what_is_not_json_is_garbled_and_what_is_endless_is_too_long() {
    let record = one_answer(stream(&["data: {\"choices\":\n\n", DONE])).await;
    assert_eq!(record.fault, Some(Fault::Garbled));
    assert_eq!(one_answer(whole("200 OK", "", "ok")).await.fault, record.fault);
    for answer in [stream(&["data: ", &"x".repeat(5_000)]), whole("200 OK", "", &"x".repeat(5_000))]
    {
        let stub = Stub::start(move |_| vec![Step::Write(answer.clone()), Step::Stall]).await;
        let settings = Settings { answer_bytes_max: 4_096, ..settings(&stub) };
        let records = send(&settings, 1, Span::ZERO).await;
        assert_eq!(records[0].attempts[0].fault, Some(Fault::TooLong));
    }
}

#[tokio::test]
async fn an_answer_without_a_stream_has_its_first_token_when_it_is_whole() {
    let body = "{\"choices\":[{\"message\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":3}}";
    let record = one_answer(whole("200 OK", "content-type: application/json\r\n", body)).await;
    assert_eq!((record.outcome, record.chunks.len()), (Outcome::Completed, 0));
    assert!(record.first_token.is_some() && record.first_answer == record.first_token);
    assert_eq!((record.usage.prompt_tokens, record.usage.cached_tokens), (Some(3), None));
}

#[tokio::test]
async fn busy_statuses_are_refusals_and_others_are_failures() {
    for status in ["429 Too Many Requests", "503 Service Unavailable", "529 Overloaded"] {
        let record = one_answer(whole(status, "Retry-After: 2\r\n", "{\"error\": {}}")).await;
        assert_eq!(record.outcome, Outcome::Refused, "{status}");
        assert_eq!(record.retry_after, Some(Span::secs(2)));
        assert_eq!(record.error.as_deref(), Some("{\"error\": {}}"));
    }
    for status in ["400 Bad Request", "500 Oops", "302 Found"] {
        let record = one_answer(whole(status, "retry-after: soon\r\n", "no")).await;
        assert_eq!(record.fault, Some(Fault::Status), "{status}");
        assert_eq!((record.retry_after, record.error.as_deref()), (None, Some("no")));
    }
}

#[tokio::test]
async fn a_stall_ends_with_the_clients_patience_and_closes_the_connection() {
    for steps in [vec![Step::Stall], vec![Step::Write(clean()[..200].to_vec()), Step::Stall]] {
        let stub = Stub::start(move |_| steps.clone()).await;
        let settings = Settings { patience: Span::millis(40), ..settings(&stub) };
        let records = send(&settings, 1, Span::ZERO).await;
        assert_eq!(records[0].outcome, Outcome::TimedOut);
        stub.has_seen_a_client_leave().await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_as_planned_closes_its_connection() {
    let stub = Stub::start(|_| vec![Step::Write(clean()[..200].to_vec()), Step::Stall]).await;
    let leaves_after = Some(Span::millis(400));
    let plan = [Planned { leaves_after, ..Planned::default() }];
    let records = planned(&settings(&stub), plan.into_iter()).await;
    assert_eq!(
        (records[0].outcome, records[0].attempts[0].status),
        (Outcome::Cancelled, Some(200))
    );
    stub.has_seen_a_client_leave().await;
}

#[tokio::test]
async fn nobody_there_is_a_fault_of_connecting() {
    let url = Stub::start(|_| Vec::new()).await.url("/");
    let settings = Settings::for_targets(vec![url.parse().unwrap()]);
    let records = send(&settings, 1, Span::ZERO).await;
    assert_eq!(records[0].attempts[0].fault, Some(Fault::Connect));
    assert!(send(&Settings::for_targets(Vec::new()), 3, Span::ZERO).await.is_empty());
}

fn dialer(stub: &Stub) -> Dialer {
    let target = stub.url("/").parse().unwrap();
    Dialer::new(target, (&Transport::default(), true), Instant::now(), Arc::default())
}

/// Sends a request over an idle connection or a new one, reads its answer, and gives back the
/// connection.
async fn exchange(dialer: &Dialer) -> Line {
    let body = Outgoing::new(Bytes::new(), Noted::new(Instant::now()));
    let request = Request::post("/").header("host", "a").body(body).unwrap();
    let mut attempt = Attempt::new(Span::ZERO, 0);
    let (response, line) = dialer.send(request, &mut attempt).await.unwrap();
    response.into_body().collect().await.unwrap();
    line
}

#[tokio::test]
async fn a_connection_is_used_again_unless_it_may_not_be() {
    let stub = Stub::start(|_| vec![Step::Write(clean())]).await;
    let dialer = dialer(&stub);
    for _ in 0..3 {
        dialer.keep(exchange(&dialer).await);
    }
    assert_eq!(stub.connections(), 1);
    let settings = Settings { reuse: false, ..settings(&stub) };
    send(&settings, 3, Span::millis(20)).await;
    assert_eq!(stub.connections(), 4);
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_costs_no_request() {
    let stub = Stub::start(|_| vec![Step::Write(clean()), Step::Close]).await;
    let dialer = dialer(&stub);
    for nth in 1..=3 {
        let connection = exchange(&dialer).await;
        assert_eq!(stub.connections(), nth);
        let Line::Own(own) = &connection else { unreachable!("it is HTTP/1.1") };
        while !own.is_closed() {
            tokio::task::yield_now().await;
        }
        dialer.keep(connection);
    }
}

#[tokio::test]
async fn what_is_due_waits_for_room_and_then_its_client_has_gone() {
    let stub = Stub::start(|_| vec![Step::Stall]).await;
    let settings = Settings { patience: Span::millis(200), in_flight_max: 3, ..settings(&stub) };
    let plan = (0..5).map(|_| Planned::default());
    let (rows, ended) = ran(&settings, plan).await;
    let outcomes: Vec<_> = rows.iter().map(|row| row.outcome).collect();
    let (sent, not_sent) = (Outcome::TimedOut, Outcome::NotSent);
    assert_eq!(outcomes, [sent, sent, sent, not_sent, not_sent]);
    assert!(rows[..3].iter().all(|row| row.lag().is_some()));
    assert_eq!((rows[4].lag(), rows[4].attempts.len()), (None, 0));
    assert_eq!(ended.generator.in_flight_max_seen, 3);
    assert!(ended.invalid.iter().any(|it| it.what.contains("never sent")), "{ended:?}");
}

#[tokio::test]
async fn targets_take_turns() {
    let stubs = [Stub::start(|_| vec![Step::Write(clean())]).await, {
        Stub::start(|_| vec![Step::Write(whole("503 Busy", "", ""))]).await
    }];
    let targets = stubs.iter().map(|stub| stub.url("/").parse().unwrap()).collect();
    let records = send(&Settings::for_targets(targets), 4, Span::ZERO).await;
    let outcomes: Vec<_> =
        records.iter().map(|row| (row.attempts[0].target, row.outcome)).collect();
    let (served, refused) = ((0, Outcome::Completed), (1, Outcome::Refused));
    assert_eq!(outcomes, [served, refused, served, refused]);
}

#[tokio::test]
async fn a_request_arrives_as_it_was_planned() {
    let stub = Stub::start(|_| vec![Step::Write(clean()), Step::Close]).await;
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_static("Bearer k"));
    headers.insert("content-type", HeaderValue::from_static("text/plain"));
    let plan = [Planned { body: Bytes::from("a\r\n\0é"), headers, ..Planned::default() }];
    planned(&settings(&stub), plan.into_iter()).await;
    let seen = stub.last_request();
    let host = stub.url("").replace("http://", "");
    let expected = format!(
        "POST /v1/completions HTTP/1.1\r\nauthorization: Bearer k\r\ncontent-type: text/plain\r\n\
         host: {host}\r\ncontent-length: 6\r\n\r\na\r\n\0é"
    );
    assert_eq!(seen, expected);
}
