//! Holds the client against small inputs that broke other clients.

use std::time::Duration;

use forebay_core::Span;

use super::{
    DONE, HEAD, ROLE, Step, Stub, TOKEN, USAGE, clean, one, one_answer, ran, send, settings,
    stream, whole,
};
use crate::load::{Planned, Retry, Settings};
use crate::results::{Attempt, Fault, Outcome};
use crate::simulate::Client;

const REASONING: &str = "data: {\"choices\":[{\"delta\":{\"reasoning\":\"so\"}}]}\n\n";

fn counted(attempt: &Attempt) -> (Outcome, usize, Option<u64>, bool) {
    let Attempt { outcome, chunks, usage, first_token, .. } = attempt;
    (*outcome, chunks.len(), usage.cached_tokens, first_token.is_some())
}

#[tokio::test]
async fn line_ends_and_a_missing_blank_change_nothing() {
    let pieces = [ROLE, TOKEN, USAGE, DONE];
    let expected = counted(&one_answer(stream(&pieces)).await);
    assert_eq!(expected, (Outcome::Completed, 1, Some(4), true));
    for changed in [
        pieces.map(|piece| piece.replace('\n', "\r\n")),
        pieces.map(|piece| piece.replace("data: ", "data:")),
    ] {
        let changed = changed.each_ref().map(String::as_str);
        assert_eq!(counted(&one_answer(stream(&changed)).await), expected);
    }
}

#[tokio::test]
async fn a_comment_is_a_sign_of_life_and_no_token() {
    let chunk = |piece: &str| format!("{:x}\r\n{piece}\r\n", piece.len()).into_bytes();
    let comment = chunk(": PROCESSING\n\n");
    let mut rest: Vec<u8> = [ROLE, TOKEN, USAGE, DONE].into_iter().flat_map(chunk).collect();
    rest.extend(b"0\r\n\r\n");
    let pause = Duration::from_millis(30);
    let attempt = one(vec![
        Step::Write(HEAD.as_bytes().to_vec()),
        Step::Write(comment.clone()),
        Step::Wait(pause),
        Step::Write(comment),
        Step::Wait(pause),
        Step::Write(rest),
        Step::Close,
    ])
    .await;
    assert_eq!(counted(&attempt), (Outcome::Completed, 1, Some(4), true));
    let waited = attempt.first_token.unwrap() - attempt.first_byte.unwrap();
    assert!(waited >= Span::millis(55), "the first token came {waited} after the head");
}

#[tokio::test]
async fn reasoning_is_a_first_token_and_no_first_answer() {
    for field in ["reasoning", "reasoning_content"] {
        let thought = REASONING.replace("reasoning", field);
        let chunk = |piece: &str| format!("{:x}\r\n{piece}\r\n", piece.len()).into_bytes();
        let attempt = one(vec![
            Step::Write([HEAD.as_bytes().to_vec(), chunk(&thought), chunk(&thought)].concat()),
            Step::Wait(Duration::from_millis(20)),
            Step::Write([chunk(TOKEN), chunk(DONE), b"0\r\n\r\n".to_vec()].concat()),
            Step::Close,
        ])
        .await;
        assert_eq!((attempt.outcome, attempt.chunks.len()), (Outcome::Completed, 3));
        let [first, answer] = [attempt.first_token, attempt.first_answer].map(Option::unwrap);
        assert!(answer - first >= Span::millis(18), "{first} and {answer}");
    }
    // A generation that is cut off within its thinking has tokens, and no answer.
    let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n";
    let attempt = one_answer(stream(&[REASONING, REASONING, end, DONE])).await;
    assert_eq!((attempt.outcome, attempt.chunks.len()), (Outcome::Completed, 2));
    assert!(attempt.first_token.is_some() && attempt.first_answer.is_none());
    assert_eq!(attempt.generated(), 2);
}

#[tokio::test]
async fn an_error_after_tokens_makes_a_failure_that_is_never_fast() {
    let error = "data: {\"error\":{\"message\":\"x\",\"code\":500}}\n\n";
    let inputs = [
        stream(&[TOKEN, TOKEN, TOKEN, error, DONE]),
        stream(&[error, DONE]),
        whole("200 OK", "content-type: application/json\r\n", "{\"error\":{\"message\":\"x\"}}"),
    ];
    for answer in inputs {
        let stub = Stub::start(move |_| vec![Step::Write(answer.clone()), Step::Close]).await;
        let rows = send(&settings(&stub), 1, Span::ZERO).await;
        let last = rows[0].last().unwrap();
        assert_eq!((last.outcome, last.fault), (Outcome::Failed, Some(Fault::ErrorInAnswer)));
        assert_eq!((rows[0].ttft(), rows[0].e2e(), rows[0].itl()), (None, None, None));
    }
}

#[tokio::test]
async fn one_long_line_in_many_writes_is_one_token() {
    for len in [200_000, 2_000_000] {
        let text = "x".repeat(len);
        let long = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
        let answer = stream(&[&long, USAGE, DONE]);
        let mut steps: Vec<Step> =
            answer.chunks(1_400).map(|piece| Step::Write(piece.to_vec())).collect();
        steps.push(Step::Close);
        assert_eq!(counted(&one(steps).await), (Outcome::Completed, 1, Some(4), true));
    }
}

#[tokio::test]
async fn a_usage_that_lies_or_lacks_is_kept_as_it_is_and_not_believed() {
    let few = USAGE.replace("\"completion_tokens\":1", "\"completion_tokens\":0");
    let attempt = one_answer(stream(&[TOKEN, TOKEN, &few, DONE])).await;
    assert_eq!((attempt.usage.output_tokens, attempt.generated()), (Some(0), 2));
    let attempt = one_answer(stream(&[TOKEN, TOKEN, DONE])).await;
    assert_eq!((attempt.outcome, attempt.generated()), (Outcome::Completed, 2));
    assert!(attempt.usage.is_silent());
}

#[tokio::test]
async fn a_refusal_keeps_its_time_and_what_it_asked_for() {
    let refusal = whole(
        "429 Too Many Requests",
        "Retry-After: 61\r\nretry-after-ms: 1500\r\n",
        "{\"error\":{\"message\":\"full\"}}",
    );
    let steps = vec![Step::Wait(Duration::from_millis(20)), Step::Write(refusal), Step::Close];
    let stub = Stub::start(move |_| steps.clone()).await;
    let rows = send(&settings(&stub), 1, Span::ZERO).await;
    assert!(rows[0].time_to_refuse().unwrap() >= Span::millis(18));
    let last = rows[0].last().unwrap();
    // The official SDKs read the milliseconds first.
    assert_eq!((last.status, last.retry_after), (Some(429), Some(Span::millis(1_500))));
}

#[tokio::test]
async fn a_backlog_of_the_generator_is_in_every_latency_and_makes_the_run_invalid() {
    let served = Duration::from_millis(190);
    let stub = Stub::start(move |_| vec![Step::Wait(served), Step::Write(clean())]).await;
    let settings = Settings { in_flight_max: 4, ..settings(&stub) };
    let plan = (0..24).map(|nth| Planned { at: Span::millis(10 * nth), ..Planned::default() });
    let (rows, ended) = ran(&settings, plan).await;
    assert!(rows.iter().all(|row| row.outcome == Outcome::Completed));
    // Six rounds of four take 1.14 s, and the last request was due after 0.23 s.
    let last = rows.last().unwrap();
    assert!(last.ttft().unwrap() >= Span::millis(900), "{:?}", last.ttft());
    assert!(last.lag().unwrap() >= Span::millis(700));
    let reasons: Vec<_> = ended.invalid.iter().map(|it| it.reason.as_str()).collect();
    assert_eq!(reasons, ["lag", "in_flight_max"]);
    let by = format!("{:.1} ms at most", ended.generator.lag_ms_max);
    assert!(ended.invalid[0].what.contains(&by), "{:?}", ended.invalid);
    assert!(ended.generator.lag_ms_max >= 700.0);
}

#[tokio::test]
async fn an_answer_that_ends_well_and_holds_nothing_serves_nobody() {
    let none_chosen = "data: {\"choices\":[]}\n\n";
    for pieces in [&[DONE][..], &[ROLE, DONE], &[none_chosen, DONE]] {
        let attempt = one_answer(stream(pieces)).await;
        assert_eq!((attempt.outcome, attempt.fault), (Outcome::Failed, Some(Fault::Empty)));
    }
    for body in [r#"{"choices":[]}"#, r#"{"choices":[{"message":{"content":null}}]}"#] {
        let attempt = one_answer(whole("200 OK", "", body)).await;
        assert_eq!((attempt.outcome, attempt.fault), (Outcome::Failed, Some(Fault::Empty)));
    }
    // Tokens that are no text, such as one that ends an answer, are told by the usage.
    let attempt = one_answer(stream(&[ROLE, USAGE, DONE])).await;
    assert_eq!(attempt.outcome, Outcome::Completed);
}

#[tokio::test]
async fn whoever_is_told_to_wait_longer_than_for_an_answer_goes_away() {
    for told in ["99999999999999999999999", "1e300", "601", "inf"] {
        let headers = format!("retry-after: {told}\r\n");
        let refusal = whole("503 Service Unavailable", &headers, "");
        let stub = Stub::start(move |_| vec![Step::Write(refusal.clone()), Step::Close]).await;
        let retry = Retry { client: Client::RetryAfter, budget: None };
        let (rows, _) =
            ran(&Settings { retry, ..settings(&stub) }, std::iter::once(Planned::default())).await;
        assert_eq!((rows[0].outcome, rows[0].attempts.len()), (Outcome::Refused, 1), "{told}");
    }
}
