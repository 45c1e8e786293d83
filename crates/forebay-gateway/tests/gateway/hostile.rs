//! What can be done with bytes alone: each gets a clean refusal that gives nothing away, and costs
//! nobody else anything.

use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Answer, CHAT, chat};
use crate::house::{House, eventually, pool};
use crate::stub::Stub;

/// Asks as somebody else, who must be served all the same.
fn others_are_served(house: &House) {
    let answer = house.client().ask(CHAT, &chat(7, false));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn a_body_of_a_gigabyte_is_refused_announced_or_not_and_is_never_held() {
    let worker = Stub::quick();
    let house = House::pool(&[&worker], "");
    let mut announced = house.client();
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: a\r\ncontent-length: 1073741824\r\n\r\n");
    announced.send(head.as_bytes());
    let answer = announced.answer();
    assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
    let mut streamed = house.client();
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n");
    streamed.send(head.as_bytes());
    let piece = crate::stub::chunk(&vec![b' '; 1 << 20]);
    let mut sent = 0;
    while sent < 1_024 && streamed.send(&piece) {
        sent += 1;
        assert!(house_holds(&house, sent) <= 66 << 20, "it holds too much");
    }
    assert!(sent < 1_024, "all of it was taken");
    if let Some(answer) = streamed.try_answer() {
        assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
    }
    others_are_served(&house);
    assert_eq!(house.count("forebay_requests_refused_total", "body_too_large"), 2);
    house.rests();
    assert_eq!(worker.calls(), 1);
}

/// What is held of bodies, looked at now and then.
fn house_holds(house: &House, nth: usize) -> usize {
    if nth.is_multiple_of(16) { house.metric("forebay_bodies_held_bytes", "") as usize } else { 0 }
}

#[test]
fn all_bodies_together_have_a_bound_too() {
    let worker = Stub::quick();
    let text =
        "body_bytes_max = 1000000\nbodies_bytes_max = 2000000\n".to_owned() + &pool(&[&worker], "");
    let house = House::open(&text);
    let mut holding = Vec::new();
    for _ in 0..2 {
        let mut client = house.client();
        let head = format!("POST {CHAT} HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n");
        client.send(head.as_bytes());
        client.send(&vec![b' '; 999_000]);
        holding.push(client);
    }
    eventually("both are held", || house.metric("forebay_bodies_held_bytes", "") >= 1_998_000.0);
    let body = chat(1, false).replace("mark", &"x".repeat(10_000));
    let refused = house.client().ask(CHAT, &body);
    assert_eq!((refused.status, refused.code().as_str()), (503, "gateway_full"));
    assert!(refused.header("retry-after").is_some());
    drop(holding);
    eventually("they are let go", || house.metric("forebay_bodies_held_bytes", "") == 0.0);
    assert_eq!(house.client().ask(CHAT, &body).status, 200);
    house.rests();
}

#[test]
fn what_is_no_request_is_refused_with_its_place_and_reaches_no_worker() {
    let worker = Stub::quick();
    let house = House::pool(&[&worker], "");
    let deep = |open: &str, close: &str| {
        format!(
            "{{\"model\":\"m\",\"messages\":{}1{}}}",
            open.repeat(200_000),
            close.repeat(200_000)
        )
    };
    let bodies: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"{".to_vec(),
        b"[]".to_vec(),
        b"null".to_vec(),
        b"{\"model\":\"m\",}".to_vec(),
        b"{\"model\":\"m\"} {}".to_vec(),
        b"{\"model\":\"m\",\"messages\":\"\xff\xfe\"}".to_vec(),
        b"\xef\xbb\xbf\x00\x01".to_vec(),
        b"{\"model\":\"\\ud800\"".to_vec(),
        vec![b'['; 1_000_000],
        vec![b' '; 1_000_000],
    ];
    for body in &bodies {
        let mut client = house.client();
        client.post(CHAT, &[], body);
        let answer = client.answer();
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]);
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{shown}");
    }
    assert_eq!(worker.calls(), 0);
    // What nests deeply may be refused or passed on, but takes no stack.
    for body in [deep("[", "]"), deep("{\"a\":", "}")] {
        let answer = house.client().ask(CHAT, &body);
        assert!(matches!(answer.status, 200 | 400), "{}", answer.status);
    }
    others_are_served(&house);
    house.rests();
}

#[test]
fn a_chunked_body_that_lies_ends_its_own_connection_only() {
    let worker = Stub::quick();
    let house = House::pool(&[&worker], "");
    let lies: [&[u8]; 6] = [
        b"ffffffffffffffff1\r\nx\r\n0\r\n\r\n",
        b"-1\r\nx\r\n0\r\n\r\n",
        b"5\r\nabcdefghij\r\n0\r\n\r\n",
        b"zz\r\n",
        b"3\nabc\n0\n\n",
        b"5;ext=\"\r\n\r\nabcde\r\n0\r\n\r\n",
    ];
    for lie in lies {
        let mut client = house.client();
        let head = format!("POST {CHAT} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n");
        client.send(&[head.as_bytes(), lie].concat());
        let shown = String::from_utf8_lossy(lie);
        if let Some(answer) = client.try_answer() {
            assert!((400..500).contains(&answer.status), "{shown}: {}", answer.status);
        }
        assert!(client.is_over(), "{shown}: its connection goes on");
    }
    assert_eq!(worker.calls(), 0);
    others_are_served(&house);
    house.rests();
}

#[test]
fn a_body_that_comes_too_slowly_is_refused_in_time() {
    let worker = Stub::quick();
    let house = House::open(&("body_ms_max = 400\n".to_owned() + &pool(&[&worker], "")));
    let mut client = house.client();
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\n");
    client.send(head.as_bytes());
    let begun = Instant::now();
    // A byte now and then is not enough.
    for _ in 0..8 {
        client.send(b" ");
        thread::sleep(Duration::from_millis(100));
    }
    let answer = client.answer();
    assert_eq!((answer.status, answer.code().as_str()), (408, "body_timeout"));
    assert!(begun.elapsed() < Duration::from_secs(10));
    others_are_served(&house);
    house.rests();
}

/// Every refusal that bytes alone can bring about, and some that workers do.
fn refusals(house: &House) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut raw = |bytes: &str| {
        let mut client = house.client();
        client.send(bytes.as_bytes());
        answers.extend(client.try_answer());
    };
    raw("GET /v1/chat/completions HTTP/1.1\r\nhost: a\r\n\r\n");
    raw("POST /nothing HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
    raw("GET /etc/passwd HTTP/1.1\r\nhost: a\r\n\r\n");
    raw("POST /admin/fleet HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
    raw("DELETE / HTTP/1.1\r\nhost: a\r\n\r\n");
    raw("nonsense\r\n\r\n");
    raw("GET / HTTP/9.9\r\n\r\n");
    raw("POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\
         transfer-encoding: chunked\r\n\r\n0\r\n\r\n");
    raw(&format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "y".repeat(100_000)));
    raw(&format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "y".repeat(100_000)));
    raw(&format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(1_000)));
    for body in ["", "{", "{\"model\":\"unknown\"}", "{}"] {
        answers.push(house.client().ask(CHAT, body));
    }
    for path in [CHAT, "/v1/messages", "/v1/completions", "/v1/embeddings"] {
        answers.push(house.client().ask(path, &chat(1, false)));
        answers.push(house.client().ask(path, &chat(1, true)));
    }
    answers
}

#[test]
fn no_refusal_names_a_worker_a_path_a_flag_or_a_version() {
    let dying = Stub::start(|asked, line| {
        if asked.wants_stream() {
            line.write(crate::stub::STREAM_HEAD.as_bytes());
            line.write(&crate::stub::event(crate::stub::TOKEN));
        }
        line.hang_up();
    });
    let text = "body_bytes_max = 1000000\n".to_owned()
        + &pool(&[&dying], "name = \"main\"\nmodels = [\"m\"]")
        + "[limits]\nmark_ms = 1\nattempts_max = 1\n";
    let house = House::open(&text);
    let answers = refusals(&house);
    assert!(answers.len() > 12, "{} were answered", answers.len());
    let authority = dying.addr.to_string();
    let port = dying.addr.port().to_string();
    let telling = [
        authority.as_str(),
        port.as_str(),
        "127.0.0.1",
        "worker",
        "forebay",
        env!("CARGO_PKG_VERSION"),
        "hyper",
        "--",
        ".toml",
        "src/",
        "/etc",
        "mark_ms",
    ];
    for answer in answers {
        let text = answer.text();
        let shown = format!("{} {text}", answer.head);
        assert!(answer.status >= 400 || answer.code_in_band().is_some(), "{shown}");
        assert!(answer.header("server").is_none(), "{shown}");
        for word in telling {
            assert!(!text.to_lowercase().contains(word), "`{word}` in {shown}");
        }
    }
    house.rests();
}

/// What is counted of requests that no pool ever saw, under one of these reasons.
fn outside(house: &House, name: &str, reason: &str) -> usize {
    let labels = format!("{{pool=\"\",class=\"\"{reason}}}");
    house.count(&format!("forebay_requests_{name}_total"), &labels)
}

#[test]
fn what_reaches_no_pool_is_counted_under_a_fixed_reason_and_never_by_its_own_words() {
    let worker = Stub::quick();
    let house = House::open(&("header_ms_max = 300\n".to_owned() + &pool(&[&worker], "")));
    let raw = |bytes: &str| {
        let mut client = house.client();
        client.send(bytes.as_bytes());
        client.try_answer().map_or(0, |answer| answer.status)
    };
    let ask = |line: &str| raw(&format!("{line} HTTP/1.1\r\nhost: a\r\n\r\n"));
    for line in ["GET /my-own/path", "DELETE /other", "GET /admin/workers", "PUT /v1/nothing"] {
        assert_eq!(ask(line), 404, "{line}");
    }
    assert_eq!(ask("POST /healthz"), 404, "a page is only read");
    assert_eq!(ask(&format!("GET {CHAT}")), 404, "and this is only posted");
    let unknown = r#",reason="unknown_endpoint""#;
    eventually("unknown paths are counted", || outside(&house, "refused", unknown) == 6);
    let faults = |reason: &str| {
        let label = format!("reason=\"{reason}\"");
        house.count("forebay_connection_faults_total", &label)
    };
    assert_eq!(ask("TRACE /"), 405);
    assert_eq!(raw("GET / HTTP/9.9\r\n\r\n"), 400);
    assert_eq!(raw(&format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n", "y".repeat(70_000))), 431);
    eventually("what is no request is counted", || faults("bad_request") == 3);
    assert_eq!(raw("GET / HTTP/1.1\r\nhost:"), 408);
    eventually("slow headers are counted", || faults("header_timeout") == 1);
    let mut vanishes = house.client();
    vanishes.send(
        format!("POST {CHAT} HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhalf").as_bytes(),
    );
    thread::sleep(Duration::from_millis(50));
    drop(vanishes);
    let gone = || {
        let broken_off = outside(&house, "refused", r#",reason="invalid_request""#);
        broken_off + outside(&house, "abandoned", "")
    };
    eventually("who goes while he sends is counted", || gone() == 1);
    assert_eq!(outside(&house, "offered", ""), 7);
    let page = house.get("/metrics");
    assert!(!page.contains("my-own") && !page.contains("/other"));
    others_are_served(&house);
    house.rests();
}

#[test]
fn clients_that_ask_in_one_write_are_answered_in_order() {
    let worker = Stub::start(|asked, line| {
        let body = format!("{{\"mark\":{}}}", asked.mark());
        // The later ones would be quicker.
        thread::sleep(Duration::from_millis(40_u64.saturating_sub(asked.mark() as u64 * 10)));
        line.write(&crate::stub::whole(200, "application/json", &body));
    });
    let house = House::pool(&[&worker], "");
    let mut client = house.client();
    let ask = |mark| crate::client::request(CHAT, &[], chat(mark, false).as_bytes());
    client.send(&(0..4).flat_map(ask).collect::<Vec<u8>>());
    for mark in 0..4 {
        assert_eq!(client.answer().text(), format!("{{\"mark\":{mark}}}"));
    }
    house.rests();
}
