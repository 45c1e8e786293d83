//! Bodies within bytes and time.

use std::io::Write;
use std::time::Duration;

use super::super::body::BodyLimits;
use super::{Echo, FOREVER, LAST, answer, listening, open_with, rest, statuses};

fn limited(limits: BodyLimits) -> Echo {
    Echo { limits, ..Echo::default() }
}

#[test]
fn a_body_that_says_it_is_too_large_is_refused_before_it_comes() {
    let gate =
        open_with(listening(), limited(BodyLimits { bytes_max: 10, ..BodyLimits::default() }));
    let mut client = gate.client();
    client.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\n").unwrap();
    assert_eq!(statuses(&rest(&mut client)), [413]);
    let exactly = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n0123456789";
    assert_eq!(statuses(&gate.talk(format!("{exactly}{LAST}"))), [200, 200]);
    gate.close();
}

#[test]
fn a_chunked_body_is_refused_once_it_is_too_large() {
    let gate =
        open_with(listening(), limited(BodyLimits { bytes_max: 10, ..BodyLimits::default() }));
    let sent = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n\
                6\r\n012345\r\n5\r\n01234\r\n0\r\n\r\n";
    assert_eq!(statuses(&gate.talk(sent)), [413]);
    gate.close();
}

#[test]
fn a_body_that_stops_or_drips_is_refused() {
    let limits = BodyLimits {
        grace: Duration::from_millis(50),
        bytes_per_second_min: 1000,
        ..BodyLimits::default()
    };
    let gate = open_with(listening(), limited(limits));
    for chunked in [false, true] {
        let mut client = gate.client();
        let framing = if chunked { "transfer-encoding: chunked" } else { "content-length: 100000" };
        write!(client, "POST / HTTP/1.1\r\nhost: a\r\n{framing}\r\n\r\n").unwrap();
        assert_eq!(statuses(&rest(&mut client)), [408], "{framing}");
    }
    let mut client = gate.client();
    let began = std::time::Instant::now();
    client.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n").unwrap();
    while client.write_all(b"x").is_ok() && began.elapsed() < FOREVER {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(began.elapsed() < FOREVER, "a byte every 20 ms was fast enough");
    gate.close();
}

#[test]
fn a_body_that_comes_in_pieces_is_whole() {
    let gate = open_with(listening(), Echo::default());
    for size in [1, 70_000, 600_000] {
        let body = "z".repeat(size);
        let mut client = gate.client();
        write!(client, "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {size}\r\n\r\n").unwrap();
        for piece in body.as_bytes().chunks(9_999) {
            client.write_all(piece).unwrap();
        }
        assert!(answer(&mut client).ends_with(&format!("[POST / {body}]")));
    }
    gate.close();
}

#[test]
fn whoever_asks_whether_to_go_on_hears_yes_or_the_refusal() {
    let gate =
        open_with(listening(), limited(BodyLimits { bytes_max: 10, ..BodyLimits::default() }));
    let ask = |length: usize| {
        let mut client = gate.client();
        write!(
            client,
            "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\nconnection: close\r\n"
        )
        .unwrap();
        write!(client, "content-length: {length}\r\n\r\n").unwrap();
        client
    };
    let mut client = ask(3);
    client.write_all(b"abc").unwrap();
    assert_eq!(statuses(&rest(&mut client)), [100, 200]);
    assert_eq!(statuses(&rest(&mut ask(11))), [413]);
    gate.close();
}
