//! Bodies, and answers that do not wait for them.

use std::io::Write;

use super::{answer, listening, open, rest, statuses};

#[test]
fn a_body_that_is_too_large_is_refused_before_it_comes() {
    let gate = open(listening());
    let mut client = gate.client();
    client
        .write_all(b"POST /unread HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\n")
        .unwrap();
    assert_eq!(statuses(&rest(&mut client)), [413]);
    gate.close();
}

#[test]
fn a_client_that_sends_all_before_it_reads_still_hears_the_refusal() {
    let gate = open(listening());
    let body = vec![b'x'; 8 << 20];
    for path in ["/unread", "/"] {
        let mut client = gate.client();
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n");
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(&body).unwrap();
        assert_eq!(statuses(&rest(&mut client)), [413], "{path}");
    }
    gate.close();
}

#[test]
fn a_chunked_body_is_refused_once_it_is_too_large() {
    let gate = open(listening());
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let start =
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    let heard = gate.talk(format!("{start}{}0\r\n\r\n", chunk.repeat(17)));
    assert_eq!(statuses(&heard), [413]);
    gate.close();
}

#[test]
fn a_body_that_comes_in_pieces_is_whole() {
    let gate = open(listening());
    for size in [1, 70_000, 600_000] {
        let body = "z".repeat(size);
        let mut client = gate.client();
        let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {size}\r\n\r\n");
        client.write_all(head.as_bytes()).unwrap();
        for piece in body.as_bytes().chunks(9_999) {
            client.write_all(piece).unwrap();
        }
        assert!(answer(&mut client).ends_with(&format!("[POST / {body}]")));
    }
    gate.close();
}

#[test]
fn whoever_asks_whether_to_go_on_hears_yes_or_the_refusal() {
    let gate = open(listening());
    let ask = |path: &str| {
        let mut client = gate.client();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\nconnection: close\r\n\
             content-length: 3\r\n\r\n"
        );
        client.write_all(head.as_bytes()).unwrap();
        client
    };
    let mut client = ask("/");
    client.write_all(b"abc").unwrap();
    assert_eq!(statuses(&rest(&mut client)), [100, 200]);
    assert_eq!(statuses(&rest(&mut ask("/unread"))), [413]);
    gate.close();
}
