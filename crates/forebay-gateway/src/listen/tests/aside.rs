//! Requests that wait, on connections that hyper does not hold in the meantime.

use std::io::Write;
use std::sync::atomic::Ordering::SeqCst;

use super::{Gate, LAST, answer, listening, open, rest, statuses, until};

/// What is heard of a request to this path and of one that follows it on the same connection, at
/// once or a little later. Without the time of day, and with the path left out.
fn heard(gate: &Gate, request: &str, path: &str, at_once: bool) -> String {
    let waiting = gate.echo.waiting.load(SeqCst);
    let mut client = gate.client();
    let first = request.replace("PATH", path);
    client.write_all(first.as_bytes()).unwrap();
    let mut follow = |now: bool| {
        if now {
            // It may be closed already.
            let _ = client.write_all(LAST.as_bytes());
        }
    };
    follow(at_once);
    if path == "/wait" {
        until("the request", || gate.echo.waiting.load(SeqCst) > waiting);
        follow(!at_once);
        gate.echo.go.add_permits(1);
    } else {
        follow(!at_once);
    }
    let heard = rest(&mut client);
    let lines = heard.split_inclusive("\r\n").filter(|line| !line.starts_with("date: "));
    lines.collect::<String>().replace(path, "PATH")
}

#[test]
fn a_request_that_waits_is_answered_like_one_that_does_not() {
    let gate = open(listening());
    let with = |header: &str| format!("GET PATH HTTP/1.1\r\nhost: a\r\n{header}\r\n\r\n");
    let chunks = "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let forms = [
        "GET PATH HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
        "HEAD PATH HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
        "POST PATH HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc".to_owned(),
        format!("POST PATH HTTP/1.1\r\nhost: a\r\n{chunks}"),
        format!("POST PATH HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n{chunks}"),
        with("connection: close"),
        with("connection: Keep-Alive, Close"),
        with("connection: close\r\nconnection: keep-alive"),
        with("connection: x-other"),
        "GET PATH HTTP/1.0\r\n\r\n".to_owned(),
        "GET PATH HTTP/1.0\r\nconnection: Keep-Alive\r\n\r\n".to_owned(),
    ];
    for form in &forms {
        for at_once in [true, false] {
            let wanted = heard(&gate, form, "/walk", at_once);
            assert!(!statuses(&wanted).is_empty(), "{form}");
            assert_eq!(heard(&gate, form, "/wait", at_once), wanted, "{form}");
        }
    }
    gate.close();
}

#[test]
fn a_connection_may_wait_again_and_again() {
    let gate = open(listening());
    let mut client = gate.client();
    for nth in 1..=3 {
        client.write_all(b"POST /wait HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nz").unwrap();
        until("the request", || gate.echo.waiting.load(SeqCst) == nth);
        gate.echo.go.add_permits(1);
        assert!(answer(&mut client).ends_with("[POST /wait z]"));
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        assert!(answer(&mut client).ends_with("[GET / ]"));
    }
    drop(client);
    gate.close();
}

#[test]
fn whoever_goes_while_he_waits_is_missed() {
    let gate = open(listening());
    for nth in 1..=2 {
        let mut client = gate.client();
        client.write_all(b"POST /wait HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nz").unwrap();
        until("the request", || gate.echo.waiting.load(SeqCst) == nth);
        drop(client);
        until("its end", || gate.echo.gone.load(SeqCst) == nth);
    }
    gate.close();
}
