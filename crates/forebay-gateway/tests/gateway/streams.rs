//! Streams, cut wherever a network may cut them: the bytes pass, and what is counted does not
//! depend on the cuts.

use std::thread;
use std::time::{Duration, Instant};

use crate::client::{CHAT, Client, chat};
use crate::house::{House, eventually};
use crate::stub::{LAST, STREAM_HEAD, Stub, TOKEN, chunk, event, stream, stream_of, whole};

/// Long enough for the gateway to read what came before.
const PAUSE: Duration = Duration::from_micros(400);

/// A worker whose `mark` says at which byte its answer is cut; mark 0 is written byte by byte.
fn cutting(response: Vec<u8>) -> Stub {
    Stub::start(move |asked, line| match asked.mark() {
        0 => {
            line.write_cut(&response, 1, Duration::from_micros(50));
        }
        cut => {
            let cut = cut.min(response.len());
            line.write(&response[..cut]);
            thread::sleep(PAUSE);
            line.write(&response[cut..]);
        }
    })
}

/// Asks once for every byte of the response, and says how many answers there were.
fn cut_everywhere(house: &House, response: &[u8], body: &[u8]) -> usize {
    let mut client = house.client();
    for cut in 0..response.len() {
        let answer = client.ask(CHAT, &chat(cut, true));
        assert_eq!((answer.status, answer.is_whole), (200, true), "cut at {cut}");
        assert_eq!(answer.body, body, "cut at {cut}");
    }
    response.len()
}

/// Two tokens, the end, and usage, in a form that some worker has.
fn forms() -> [(&'static str, String); 4] {
    let token = r#"{"choices":[{"delta":{"content":"x"}}]}"#;
    let usage = r#""usage":{"prompt_tokens":4,"completion_tokens":1}"#;
    let last = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"stop"}}],{usage}}}"#);
    let lf = format!("data: {token}\n\ndata: {last}\n\ndata: [DONE]\n\n");
    let tight = lf.replace("data: ", "data:");
    let commented = format!(": PROCESSING\n\n: PROCESSING\n\n{lf}");
    [
        ("line feeds", lf.clone()),
        ("carriage returns too", lf.replace('\n', "\r\n")),
        ("no space", tight),
        ("comments", commented),
    ]
}

#[test]
fn a_stream_is_read_the_same_wherever_it_is_cut_and_in_every_form() {
    for (name, body) in forms() {
        let response = stream_of(body.as_bytes());
        let worker = cutting(response.clone());
        let house = House::pool(&[&worker], "");
        let count = cut_everywhere(&house, &response, body.as_bytes());
        house.rests();
        let metric = |metric| house.count(metric, "");
        assert_eq!(metric("forebay_requests_completed_total"), count, "{name}");
        // Each was seen to give its first token.
        assert_eq!(metric("forebay_time_to_first_token_seconds_count"), count, "{name}");
        assert_eq!(metric("forebay_requests_failed_total"), 0, "{name}");
    }
}

#[test]
fn an_error_in_a_stream_is_relayed_and_counted_as_a_failure_wherever_it_is_cut() {
    let error = r#"{"error":{"message":"x","code":500}}"#;
    let rest = [event(error), event("[DONE]"), b"0\r\n\r\n".to_vec()].concat();
    let cuts = rest.len();
    let worker = Stub::start(move |asked, line| {
        // Once bytes have been sent on, nothing is tried elsewhere.
        line.write(&[STREAM_HEAD.as_bytes(), &event(TOKEN)].concat());
        thread::sleep(PAUSE * 5);
        line.write(&rest[..asked.mark()]);
        thread::sleep(PAUSE);
        line.write(&rest[asked.mark()..]);
    });
    // Each failure closes its worker for a moment, which here would be all of them.
    let house = House::open(&(crate::house::pool(&[&worker], "") + "[limits]\nmark_ms = 1\n"));
    let body = format!("data: {TOKEN}\n\ndata: {error}\n\ndata: [DONE]\n\n");
    let mut client = house.client();
    for cut in 0..cuts {
        let answer = client.ask(CHAT, &chat(cut, true));
        assert_eq!((answer.status, answer.is_whole), (200, true), "cut at {cut}");
        assert_eq!(answer.text(), body, "cut at {cut}");
    }
    house.rests();
    assert_eq!(house.count("forebay_requests_completed_total", ""), 0);
    let failed = house.metric("forebay_requests_failed_total", "upstream_failed");
    assert_eq!(failed as usize, cuts);
    assert_eq!(house.count("forebay_request_retries_total", ""), 0, "bytes were sent");
}

#[test]
fn an_error_before_the_first_token_runs_elsewhere_once_and_a_second_is_relayed() {
    let error = r#"{"error":{"message":"x","code":500}}"#;
    let failing = stream(&[error, "[DONE]"]);
    let document = whole(200, "application/json", error);
    let failing = move |asked: &crate::stub::Asked, line: &mut crate::stub::Line| {
        line.write(if asked.wants_stream() { &failing } else { &document });
    };
    let (first, second) = (Stub::start(failing.clone()), Stub::quick());
    let house = House::pool(&[&first, &second], "mode = \"round-robin\"");
    for nth in 0..4 {
        let answer = house.client().ask(CHAT, &chat(nth, nth.is_multiple_of(2)));
        assert!(!answer.text().contains("error"), "{nth}: {}", answer.text());
    }
    assert!(first.calls() > 0);
    house.rests();
    let (first, second) = (Stub::start(failing.clone()), Stub::start(failing));
    let text = crate::house::pool(&[&first, &second], "mode = \"round-robin\"");
    let house = House::open(&(text + "[limits]\nmark_ms = 1\n"));
    for nth in 0..2 {
        let answer = house.client().ask(CHAT, &chat(nth, nth.is_multiple_of(2)));
        assert!(answer.text().contains(error), "{nth}: {}", answer.text());
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(first.calls() + second.calls(), 4);
    house.rests();
    assert_eq!(house.count("forebay_requests_failed_total", "upstream_failed"), 2);
}

#[test]
fn a_comment_passes_as_a_comment_and_counts_as_life_but_not_as_a_token() {
    let worker = Stub::start(|_, line| {
        line.write(STREAM_HEAD.as_bytes());
        // Longer together than the gateway waits for a sign of life.
        for _ in 0..6 {
            line.write(&chunk(b": PROCESSING\n\n"));
            thread::sleep(Duration::from_millis(250));
        }
        line.write(&[event(TOKEN), event(LAST), event("[DONE]"), b"0\r\n\r\n".to_vec()].concat());
    });
    let text = crate::house::pool(&[&worker], "") + "[timeouts]\nidle_ms_max = 1000\n";
    let house = House::open(&text);
    let answer = house.client().ask(CHAT, &chat(1, true));
    let text = answer.text();
    assert!(text.starts_with(": PROCESSING\n\n: PROCESSING\n\n"), "{text}");
    assert!(!text.contains("data: :") && text.ends_with("data: [DONE]\n\n"), "{text}");
    house.rests();
    assert_eq!(house.count("forebay_requests_completed_total", ""), 1);
    let ttft = house.metric("forebay_time_to_first_token_seconds_sum", "");
    assert!(ttft > 1.0, "a comment is no token: {ttft}");
}

#[test]
fn a_thinking_model_gives_its_first_token_when_it_begins_to_think() {
    for field in ["reasoning", "reasoning_content"] {
        let thought = format!(r#"{{"choices":[{{"delta":{{"{field}":"x"}}}}]}}"#);
        let worker = Stub::start(move |asked, line| {
            line.write(&[STREAM_HEAD.as_bytes(), &event(&thought)].concat());
            thread::sleep(Duration::from_millis(700));
            let last = if asked.mark() == 1 { LAST.replace("stop", "length") } else { LAST.into() };
            let answer = if asked.mark() == 1 { Vec::new() } else { event(TOKEN) };
            let end = b"0\r\n\r\n".to_vec();
            line.write(&[answer, event(&last), event("[DONE]"), end].concat());
        });
        let house = House::pool(&[&worker], "");
        for mark in [1, 2] {
            assert_eq!(house.client().ask(CHAT, &chat(mark, true)).status, 200);
        }
        house.rests();
        assert_eq!(house.count("forebay_time_to_first_token_seconds_count", ""), 2);
        let ttft = house.metric("forebay_time_to_first_token_seconds_sum", "");
        assert!(ttft < 1.2, "{field}: the thinking was overlooked: {ttft}");
    }
}

#[test]
fn one_line_of_two_megabytes_passes_in_small_pieces() {
    let long = TOKEN.replace("\"x\"", &format!("\"{}\"", "y".repeat(2 << 20)));
    let response = stream(&[TOKEN, &long, LAST, "[DONE]"]);
    let body = format!("data: {TOKEN}\n\ndata: {long}\n\ndata: {LAST}\n\ndata: [DONE]\n\n");
    let worker = Stub::start(move |_, line| {
        line.write_cut(&response, 1_400, Duration::ZERO);
    });
    let house = House::pool(&[&worker], "");
    let begun = Instant::now();
    let answer = house.client().ask(CHAT, &chat(1, true));
    assert!(answer.body == body.as_bytes(), "{} bytes", answer.body.len());
    assert!(begun.elapsed() < Duration::from_secs(20), "it takes more than linear time");
    house.rests();
    assert_eq!(house.count("forebay_requests_completed_total", ""), 1);
}

#[test]
fn a_stream_that_ends_before_its_end_gets_an_error_and_done() {
    type Way = fn(&mut crate::stub::Line);
    let ways: [(&str, Way); 4] = [
        ("a reset", crate::stub::Line::reset),
        ("a close", crate::stub::Line::hang_up),
        ("a half close", crate::stub::Line::half_close),
        ("an end of the body", |line| {
            line.write(b"0\r\n\r\n");
        }),
    ];
    for (name, way) in ways {
        let worker = Stub::start(move |asked, line| {
            let bytes = [STREAM_HEAD.as_bytes(), &event(TOKEN), &event(TOKEN)].concat();
            // Perhaps within an event, but never before the first whole one.
            line.write(&bytes[..bytes.len() - asked.mark()]);
            thread::sleep(Duration::from_millis(5));
            if asked.mark() == 0 || name != "an end of the body" {
                way(line);
            } else {
                line.hang_up();
            }
        });
        let text = crate::house::pool(&[&worker], "") + "[limits]\nmark_ms = 1\n";
        let house = House::open(&text);
        for cut in 0..40 {
            let answer = house.client().ask(CHAT, &chat(cut, true));
            let text = answer.text();
            assert!(answer.status == 200 && answer.is_whole, "{name} {cut}: {text}");
            let code = answer.code_in_band();
            assert_eq!(code.as_deref(), Some("upstream_failed"), "{name} {cut}: {text}");
        }
        house.rests();
        assert_eq!(house.count("forebay_requests_failed_total", "upstream_failed"), 40);
    }
}

#[test]
fn a_stream_of_a_known_length_that_breaks_off_does_not_look_whole() {
    let worker = Stub::start(|_, line| {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 400\r\n\r\n";
        line.write(format!("{head}data: {TOKEN}\n\n").as_bytes());
        thread::sleep(Duration::from_millis(20));
        line.reset();
    });
    let house = House::pool(&[&worker], "");
    let answer = house.client().ask(CHAT, &chat(1, true));
    let code = answer.code_in_band();
    assert!(!answer.is_whole || code.is_some(), "{}: {}", answer.head, answer.text());
    house.rests();
}

#[test]
fn a_stall_ends_in_an_error_and_not_in_silence() {
    let worker = Stub::start(|_, line| {
        line.write(&[STREAM_HEAD.as_bytes(), &event(TOKEN)].concat());
        line.until_left(Duration::from_secs(30));
    });
    let text = crate::house::pool(&[&worker], "") + "[timeouts]\nidle_ms_max = 300\n";
    let house = House::open(&text);
    let answer = house.client().ask(CHAT, &chat(1, true));
    assert_eq!(answer.code_in_band().as_deref(), Some("upstream_timeout"), "{}", answer.text());
    eventually("the worker hears of it", || worker.running() == 0);
    house.rests();
}

#[test]
fn pieces_reach_the_client_as_they_come() {
    let worker = Stub::start(|_, line| {
        line.write(STREAM_HEAD.as_bytes());
        line.write(&event(TOKEN));
        // The rest comes only once the client has heard this, or never.
        line.until_left(Duration::from_secs(30));
    });
    let house = House::pool(&[&worker], "");
    let mut client = Client::open(house.addr);
    client.post(CHAT, &[], chat(1, true).as_bytes());
    let heard = client.hear(TOKEN.as_bytes());
    assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    client.vanish(false);
    house.rests();
}

#[test]
fn usage_that_only_the_gateway_asked_for_reaches_no_client_wherever_the_stream_is_cut() {
    let token = r#"data: {"choices":[{"delta":{"content":"x"}}]}"#;
    let last = r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":99,"completion_tokens":1}}"#;
    let body = format!("{token}\n\n{last}\n\n{usage}\n\ndata: [DONE]\n\n");
    let seen = body.replace(&format!("{usage}\n\n"), "");
    let response = stream_of(body.as_bytes());
    let worker = cutting(response.clone());
    let house = House::pool(&[&worker], "ask_usage = true");
    let count = cut_everywhere(&house, &response, seen.as_bytes());
    let asks = "\"stream_options\":{\"include_usage\":true},";
    for (cut, asked) in worker.asked().iter().enumerate() {
        let text = String::from_utf8_lossy(&asked.body);
        assert!(text.contains(asks), "{text}");
        assert_eq!(text.replace(asks, ""), chat(cut, true), "all else is as it was sent");
    }
    let own = chat(1, true).replacen('{', &format!("{{{asks}"), 1);
    assert_eq!(house.client().ask(CHAT, &own).text(), body, "who asks sees it");
    let whole = chat(1, false);
    house.client().ask(CHAT, &whole);
    let asked = worker.asked();
    assert_eq!(String::from_utf8_lossy(&asked[count + 1].body), whole, "no stream is asked so");
    let long = chat(1, true).replace("mark 1", &format!("mark 1 {}", "x".repeat(800)));
    assert_eq!(house.client().ask(CHAT, &long).text(), seen);
    house.rests();
    assert_eq!(house.count("forebay_requests_completed_total", ""), count + 3);
    assert!(house.metric("forebay_token_bytes", "") > 8.0, "what is told is learned from");
}

#[test]
fn a_proxy_is_asked_to_pass_streams_on_as_they_come_unless_the_worker_says_otherwise() {
    let worker = Stub::start(|asked, line| {
        let (token, done) = (event(TOKEN), event("[DONE]"));
        let own = STREAM_HEAD.replacen("\r\n", "\r\nx-accel-buffering: yes\r\n", 1);
        match asked.mark() {
            7 => {
                line.write(&[own.as_bytes(), &token, &event(LAST), &done, b"0\r\n\r\n"].concat());
            }
            _ => line.answer(asked),
        }
    });
    let house = House::pool(&[&worker], "");
    let asks = |mark, stream| {
        let answer = house.client().ask(CHAT, &chat(mark, stream));
        answer.header("x-accel-buffering").map(str::to_owned)
    };
    assert_eq!(asks(1, true).as_deref(), Some("no"));
    assert_eq!(asks(7, true).as_deref(), Some("yes"));
    assert_eq!(asks(1, false), None, "an answer in one piece has nothing to wait for");
}
