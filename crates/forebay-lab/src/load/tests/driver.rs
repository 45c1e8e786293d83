//! Tests who asks when: turns, users, retries, and a run that is stopped.

use std::sync::Arc;

use forebay_core::Span;
use tokio::task::yield_now;

use super::{Step, Stub, clean, planned, ran, send, settings, whole};
use crate::load::arrivals::Think;
use crate::load::{Planned, Pulse, Retry, Settings, Users, run};
use crate::results::{Fault, Outcome, Row};
use crate::simulate::Client;

fn end(row: &Row) -> Span {
    row.last().unwrap().end
}

fn refusal(headers: &str) -> Vec<Step> {
    vec![Step::Write(whole("503 Service Unavailable", headers, "{}")), Step::Close]
}

#[tokio::test]
async fn a_turn_is_due_when_the_one_before_it_has_ended_and_its_delay_is_over() {
    let stub = Stub::start(|_| vec![Step::Write(clean())]).await;
    let delay = Span::millis(15);
    let turn = |turn| Planned {
        session: Some(7),
        turn,
        delay: (turn > 0).then_some(delay),
        ..Planned::default()
    };
    let plan = (0..3).map(turn).chain([Planned { at: Span::millis(1), ..Planned::default() }]);
    let rows = planned(&settings(&stub), plan).await;
    assert!(rows.iter().all(|row| row.outcome == Outcome::Completed));
    for (before, after) in [(0, 1), (1, 2)] {
        assert_eq!(rows[after].scheduled, end(&rows[before]) + delay);
    }
    assert_eq!((rows[2].session, rows[2].turn), (Some(7), 2));
    assert_eq!(rows[3].scheduled, Span::millis(1));
}

#[tokio::test]
async fn a_user_asks_again_when_he_has_read_and_thought() {
    let stub = Stub::start(|_| vec![Step::Write(clean())]).await;
    let think = Think::Fixed(Span::millis(5));
    let users = Some(Users { count: 3, think, until: None });
    let settings = Settings { users, ..settings(&stub) };
    let rows = send(&settings, 9, Span::secs(1_000)).await;
    assert_eq!(rows.len(), 9);
    for user in 0..3 {
        let mut own: Vec<&Row> = rows.iter().filter(|row| row.session == Some(user)).collect();
        own.sort_by_key(|row| row.turn);
        assert!(!own.is_empty());
        for pair in own.windows(2) {
            assert_eq!(pair[1].scheduled, end(pair[0]) + Span::millis(5));
        }
    }
    // Nobody asks from the end of the run on, whatever the plan still holds.
    let users = Some(Users { count: 2, think, until: Some(Span::ZERO) });
    let none = send(&Settings { users, ..settings }, 9, Span::ZERO).await;
    assert_eq!(none, []);
}

#[tokio::test]
async fn an_obedient_client_comes_back_when_told_with_its_ticket() {
    let headers = "retry-after: 1\r\nretry-after-ms: 20\r\nx-forebay-ticket: abc\r\n";
    let stub = Stub::start(move |nth| match nth {
        0 => refusal(headers),
        _ => vec![Step::Write(clean())],
    })
    .await;
    let retry = Retry { client: Client::RetryAfter, budget: None };
    let rows = send(&Settings { retry, ..settings(&stub) }, 1, Span::ZERO).await;
    let [first, second] = &rows[0].attempts[..] else { panic!("{rows:?}") };
    assert_eq!((first.outcome, second.outcome), (Outcome::Refused, Outcome::Completed));
    assert_eq!(second.due, first.end + Span::millis(20));
    assert!(rows[0].ttft().unwrap() >= Span::millis(20));
    assert!(stub.last_request().contains("x-forebay-ticket: abc\r\n"));
    // The others do not know tickets.
    let stub = Stub::start(move |nth| match nth {
        0 => refusal(headers),
        _ => vec![Step::Write(clean())],
    })
    .await;
    let retry = Retry { client: Client::OpenAiPython, budget: None };
    let rows = send(&Settings { retry, ..settings(&stub) }, 1, Span::ZERO).await;
    assert_eq!((rows[0].attempts.len(), rows[0].outcome), (2, Outcome::Completed));
    assert!(!stub.last_request().contains("ticket"));
}

#[tokio::test]
async fn retries_end_with_the_model_or_with_the_budget() {
    let stub = Stub::start(|_| refusal("")).await;
    let attempts = |rows: &[Row]| rows.iter().map(|row| row.attempts.len()).sum::<usize>();
    let naive = |budget| Retry { client: Client::Naive, budget };
    let rows = send(&Settings { retry: naive(None), ..settings(&stub) }, 4, Span::ZERO).await;
    assert!(rows.iter().all(|row| row.attempts.len() == 10 && row.outcome == Outcome::Refused));
    let bounded = Settings { retry: naive(Some(0.2)), ..settings(&stub) };
    let rows = send(&bounded, 10, Span::ZERO).await;
    assert_eq!(attempts(&rows), 12);
    // A client that has left by then does not come back.
    let plan = (0..3).map(|_| Planned { leaves_after: Some(Span(1)), ..Planned::default() });
    let rows = planned(&Settings { retry: naive(None), ..settings(&stub) }, plan).await;
    assert!(attempts(&rows) <= 3);
}

/// How attempts ended where a client tries again at once, and the first answer is this.
async fn after(first: Vec<Step>) -> Vec<Outcome> {
    let stub = Stub::start(move |nth| match nth {
        0 => first.clone(),
        _ => vec![Step::Write(clean()), Step::Close],
    })
    .await;
    let retry = Retry { client: Client::Naive, budget: None };
    let (rows, ended) =
        ran(&Settings { retry, ..settings(&stub) }, std::iter::once(Planned::default())).await;
    // A request is one row whatever came before its end, and each attempt is in it once.
    assert_eq!((rows.len(), rows[0].attempts.len()), (1, stub.connections()));
    assert_eq!(ended.generator.connections, stub.connections() as u64);
    assert_eq!(rows[0].outcome, rows[0].last().unwrap().outcome);
    rows[0].attempts.iter().map(|attempt| attempt.outcome).collect()
}

#[tokio::test]
async fn what_the_official_sdks_retry_is_tried_again_and_nothing_else() {
    use Outcome::{Completed, Failed, Refused};
    let answered = |status: &str| vec![Step::Write(whole(status, "", "{}")), Step::Close];
    for status in ["408 Request Timeout", "409 Conflict", "500 Oops", "502 Bad Gateway"] {
        assert_eq!(after(answered(status)).await, [Failed, Completed], "{status}");
    }
    for status in ["429 Too Many Requests", "503 Service Unavailable", "529 Overloaded"] {
        assert_eq!(after(answered(status)).await, [Refused, Completed], "{status}");
    }
    for status in ["400 Bad Request", "401 Unauthorized", "404 Not Found", "422 No", "302 Found"] {
        assert_eq!(after(answered(status)).await, [Failed], "{status}");
    }
}

#[tokio::test]
async fn a_lost_connection_is_tried_again_before_a_stream_has_begun_and_never_after() {
    use Outcome::{Completed, Failed};
    let cut = |bytes: &[u8]| vec![Step::Write(bytes.to_vec()), Step::Close];
    assert_eq!(after(vec![Step::Close]).await, [Failed, Completed]);
    assert_eq!(after(cut(b"HTTP/1.1 200 OK\r\n")).await, [Failed, Completed]);
    let (stream, head) = (clean(), super::HEAD.len());
    assert_eq!(after(cut(&stream[..head])).await, [Failed]);
    assert_eq!(after(cut(&stream[..stream.len() - 9])).await, [Failed]);
    assert_eq!(after(cut(&super::stream(&[super::TOKEN]))).await, [Failed]);
    // The SDKs read an answer in one piece before they hand it on.
    let piece = whole("200 OK", "content-type: application/json\r\n", "{\"choices\":[]}");
    assert_eq!(after(cut(&piece[..piece.len() - 3])).await, [Failed, Completed]);
    assert_eq!(after(cut(&whole("200 OK", "", "no json"))).await, [Failed]);
}

#[tokio::test]
async fn nobody_there_is_tried_again_up_to_the_model_and_within_the_budget() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/completions", listener.local_addr().unwrap());
    drop(listener);
    let settings = |client, budget| Settings {
        retry: Retry { client, budget },
        ..Settings::for_targets(vec![url.parse().unwrap()])
    };
    let rows = send(&settings(Client::Naive, None), 1, Span::ZERO).await;
    assert_eq!((rows[0].attempts.len(), rows[0].outcome), (10, Outcome::Failed));
    assert!(rows[0].attempts.iter().all(|it| it.fault == Some(Fault::Connect)));
    let rows = send(&settings(Client::Naive, Some(0.5)), 4, Span::ZERO).await;
    assert_eq!(rows.iter().map(|row| row.attempts.len()).sum::<usize>(), 6);
    for client in [Client::None, Client::RetryAfter] {
        let rows = send(&settings(client, None), 1, Span::ZERO).await;
        assert_eq!(rows[0].attempts.len(), 1, "{client}");
    }
}

#[tokio::test]
async fn a_server_may_say_whether_an_sdk_comes_back() {
    let stub = Stub::start(|_| {
        vec![Step::Write(whole("503 Service Unavailable", "x-should-retry: false\r\n", "{}"))]
    })
    .await;
    let retry = Retry { client: Client::OpenAiPython, budget: None };
    let rows = send(&Settings { retry, ..settings(&stub) }, 1, Span::ZERO).await;
    assert_eq!((rows[0].attempts.len(), rows[0].outcome), (1, Outcome::Refused));
}

#[tokio::test]
async fn a_run_that_is_stopped_accounts_for_its_whole_plan() {
    let stub = Stub::start(|nth| match nth {
        0 => vec![Step::Write(clean())],
        _ => vec![Step::Stall],
    })
    .await;
    let pulse: Arc<Pulse> = Arc::default();
    let settings = Settings { pulse: Arc::clone(&pulse), reuse: false, ..settings(&stub) };
    let at = |secs| Planned { at: Span::secs(secs), ..Planned::default() };
    let kept = Planned { session: Some(1), turn: 1, delay: Some(Span::ZERO), ..at(0) };
    let plan = vec![at(0), Planned { session: Some(1), ..at(0) }, kept, at(1_000), at(2_000)];
    let mut rows = Vec::new();
    let stop = async {
        while pulse.sent() < 2 || pulse.in_flight() != 1 {
            yield_now().await;
        }
    };
    let ended = run(plan.into_iter(), &settings, |row| rows.push(row), stop).await;
    rows.sort_by_key(|row| row.request);
    let mut outcomes: Vec<_> = rows.iter().map(|row| row.outcome).collect();
    // Which of the first two the stub served is not the plan's to say.
    outcomes[..2].sort_unstable();
    let not_sent = Outcome::NotSent;
    let expected = [Outcome::Completed, Outcome::Cancelled, not_sent, not_sent, not_sent];
    assert!(ended.was_interrupted && pulse.is_stopping());
    assert_eq!(rows.len(), 5);
    // The turn that waited may have been sent when the one before it was served.
    assert!(outcomes == expected || outcomes[2] == Outcome::Cancelled, "{outcomes:?}");
    assert_eq!(ended.invalid, []);
}

#[tokio::test]
async fn a_key_that_a_server_repeats_is_in_no_row() {
    let refused =
        whole("401 Unauthorized", "", "{\"error\":\"bad key sk-123456 of Bearer sk-123456\"}");
    let stub = Stub::start(move |_| vec![Step::Write(refused.clone()), Step::Close]).await;
    let mut settings = settings(&stub);
    let mut key = http::HeaderValue::from_static("Bearer sk-123456");
    key.set_sensitive(true);
    settings.headers.insert("authorization", key);
    let (rows, _) = ran(&settings, std::iter::once(Planned::default())).await;
    let line = serde_json::to_string(&rows[0]).unwrap();
    assert!(line.contains("bad key [hidden] of [hidden]") && !line.contains("sk-1"), "{line}");
    assert!(stub.last_request().contains("sk-123456"));
}
