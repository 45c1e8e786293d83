//! Sends what no honest client sends.

use std::io::Write;
use std::net::TcpStream;

use crate::client::{Engines, answer, exchange, read_all};

/// Sends bytes as they are and reads the answer.
fn raw(engines: &Engines, bytes: &[u8]) -> crate::client::Answer {
    let mut stream = TcpStream::connect(engines.addr()).expect("it listens");
    // The server may have closed before it has read all.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    answer(&read_all(stream))
}

#[test]
fn a_body_of_a_gigabyte_is_refused_before_it_is_read() {
    let engines = Engines::start(|_| {});
    let head = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\n\r\n";
    let mut stream = TcpStream::connect(engines.addr()).expect("it listens");
    stream.write_all(head.as_bytes()).expect("it reads");
    let refused = answer(&read_all(stream));
    assert_eq!(refused.status, 413);
    assert!(refused.body.contains("larger than 16777216 bytes"), "{}", refused.body);
}

#[test]
fn a_body_that_hides_its_length_is_cut_at_the_bound() {
    let engines = Engines::start(|_| {});
    let mut stream = TcpStream::connect(engines.addr()).expect("it listens");
    let head = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("it reads");
    let chunk = [&b"100000\r\n"[..], &vec![b' '; 0x10_0000], b"\r\n"].concat();
    let sent = (0..1_000).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!(sent < 1_000, "all of it was read");
    assert_eq!(engines.get("/health").status, 200);
}

#[test]
fn bodies_that_are_no_requests_are_refused() {
    let engines = Engines::start(|_| {});
    let deep = "[".repeat(1_000_000);
    for body in
        [&b""[..], deep.as_bytes(), b"{\"prompt\": \"\xff\xfe\"}", b"null", b"{\"prompt\"", b"\0"]
    {
        for path in ["/v1/chat/completions", "/v1/completions", "/tokenize", "/v1/embeddings"] {
            let refused = exchange(engines.addr(), "POST", path, body);
            assert_eq!(refused.status, 400, "{path} {refused:?}");
            assert!(refused.body.starts_with(r#"{"error":{"message":""#) && refused.is_whole);
        }
    }
}

#[test]
fn requests_that_are_no_http_cost_nobody_else_anything() {
    let engines = Engines::start(|_| {});
    for bytes in [
        &b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n\r\n"[..],
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{}",
        b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
    ] {
        let refused = raw(&engines, bytes);
        assert!(refused.status == 400 || refused.status == 0, "{refused:?}");
    }
    assert_eq!(engines.get("/health").status, 200);
}

#[test]
fn a_prompt_beyond_the_models_length_is_refused_with_its_count() {
    let engines = Engines::start(|options| options.max_model_len = Some(2_048));
    let prompt: Vec<u32> = vec![1; 2_049];
    let refused = engines.post("/v1/completions", &format!(r#"{{"prompt": {prompt:?}}}"#));
    let captured = include_str!("../../src/engine_server/captured/errors.jsonl");
    assert_eq!(refused.status, 400);
    assert_eq!(Some(refused.body.as_str()), captured.lines().nth(1));
    let taken = format!(r#"{{"prompt": {:?}, "max_tokens": 2000}}"#, &prompt[..2_000]);
    let answer = engines.post("/v1/completions", &taken).body;
    assert!(answer.contains(r#""prompt_tokens":2000"#), "{answer}");
}
