//! Requests that mean to be misunderstood.
//!
//! Each is followed by a plain one on the same connection. Where the first was refused, the second
//! must not be looked at: it may be part of what was refused.

use super::{LAST, listening, open, statuses};

/// What is sent, what has to be answered, and why.
type Case = (&'static str, &'static str, &'static [u16]);

fn check(cases: &[Case]) {
    let gate = open(listening());
    let mut wrong = Vec::new();
    for (why, sent, expected) in cases {
        let heard = gate.talk(format!("{sent}{LAST}"));
        let got = statuses(&heard);
        if got != *expected {
            wrong.push(format!("{why}: {got:?} instead of {expected:?}"));
        }
        if expected.len() < 2 && heard.contains("/last") {
            wrong.push(format!("{why}: what follows was served: {heard}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    gate.close();
}

#[test]
fn lengths_that_disagree_are_refused() {
    check(&[
        (
            "length and chunks: the chunks count, and the connection closes (RFC 9112 6.1)",
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\ntransfer-encoding: chunked\r\n\r\n\
             0\r\n\r\nG",
            &[200],
        ),
        (
            "chunks and length, in the other order",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 6\r\n\r\n\
             0\r\n\r\nG",
            &[200],
        ),
        (
            "two lengths that differ",
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            &[400],
        ),
        (
            "two lengths that agree are one (RFC 9110 8.6)",
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nab",
            &[200, 200],
        ),
        (
            "a list of lengths",
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2, 2\r\n\r\nab",
            &[400],
        ),
        ("a signed length", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +2\r\n\r\nab", &[400]),
        ("a negative length", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -2\r\n\r\nab", &[400]),
        ("a length in hex", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0x2\r\n\r\nab", &[400]),
        ("an empty length", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length:\r\n\r\n", &[400]),
        ("two numbers", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2 2\r\n\r\nab", &[400]),
        (
            "a length beyond 64 bits",
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 18446744073709551617\r\n\r\nab",
            &[400],
        ),
        (
            "a length that hyper has another use for; the status is its own",
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 18446744073709551615\r\n\r\nab",
            &[431],
        ),
    ]);
}

#[test]
fn transfer_encodings_are_one_chunked_or_refused() {
    check(&[
        (
            "any case",
            "POST / HTTP/1.1\r\nhost: a\r\nTransfer-Encoding: CHUNKED\r\n\r\n1\r\na\r\n0\r\n\r\n",
            &[200, 200],
        ),
        (
            "chunked twice, one header",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
            &[501],
        ),
        (
            "chunked twice, two headers",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\
             transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            &[501],
        ),
        (
            "identity before chunked",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity\r\n\
             transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            &[501],
        ),
        (
            "identity after chunked",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\
             transfer-encoding: identity\r\n\r\n0\r\n\r\n",
            &[400],
        ),
        (
            "compressed",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            &[501],
        ),
        (
            "misspelt",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
            &[400],
        ),
        (
            "with a vertical tab",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: \u{b}chunked\r\n\r\n0\r\n\r\n",
            &[400],
        ),
        (
            "quoted",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
            &[400],
        ),
        (
            "with a parameter",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked;x=y\r\n\r\n0\r\n\r\n",
            &[400],
        ),
        (
            "a space before the colon",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding : chunked\r\n\r\n0\r\n\r\n",
            &[400],
        ),
        (
            "in HTTP/1.0",
            "POST / HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            &[400],
        ),
    ]);
}

#[test]
fn headers_that_parsers_read_differently_are_refused() {
    check(&[
        ("a folded line", "GET / HTTP/1.1\r\nhost: a\r\nx: y\r\n z\r\n\r\n", &[400]),
        ("a folded first line", "GET / HTTP/1.1\r\n x: y\r\nhost: a\r\n\r\n", &[400]),
        ("NUL in a value", "GET / HTTP/1.1\r\nhost: a\r\nx: y\0z\r\n\r\n", &[400]),
        ("NUL in a name", "GET / HTTP/1.1\r\nhost: a\r\nx\0: y\r\n\r\n", &[400]),
        ("a bare CR in a value", "GET / HTTP/1.1\r\nhost: a\r\nx: y\rz: 1\r\n\r\n", &[400]),
        ("a space before a colon", "GET / HTTP/1.1\r\nhost: a\r\nx : y\r\n\r\n", &[400]),
        ("no colon", "GET / HTTP/1.1\r\nhost: a\r\nx\r\n\r\n", &[400]),
        ("no name", "GET / HTTP/1.1\r\nhost: a\r\n: y\r\n\r\n", &[400]),
        ("a space in a name", "GET / HTTP/1.1\r\nhost: a\r\nx y: z\r\n\r\n", &[400]),
        (
            "bare line feeds end lines, as RFC 9112 2.2 allows",
            "GET / HTTP/1.1\nhost: a\n\n",
            &[200, 200],
        ),
    ]);
}

#[test]
fn hosts_are_one_and_agree() {
    check(&[
        ("none", "GET / HTTP/1.1\r\n\r\n", &[400]),
        ("none in HTTP/1.0, which closes", "GET / HTTP/1.0\r\n\r\n", &[200]),
        ("two", "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", &[400]),
        ("two that agree", "GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n", &[400]),
        ("a path", "GET / HTTP/1.1\r\nhost: a/b\r\n\r\n", &[400]),
        ("another than the target's", "GET http://b/ HTTP/1.1\r\nhost: a\r\n\r\n", &[400]),
        ("the target's", "GET http://a/ HTTP/1.1\r\nhost: a\r\n\r\n", &[200, 200]),
    ]);
}

#[test]
fn request_lines_that_are_none_are_refused() {
    check(&[
        ("CONNECT", "CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n", &[405]),
        ("TRACE", "TRACE / HTTP/1.1\r\nhost: a\r\n\r\n", &[405]),
        ("a method of its own", "BREW / HTTP/1.1\r\nhost: a\r\n\r\n", &[501]),
        ("a method in lower case is another", "get / HTTP/1.1\r\nhost: a\r\n\r\n", &[501]),
        ("no path", "GET  HTTP/1.1\r\nhost: a\r\n\r\n", &[400]),
        ("two spaces", "GET  / HTTP/1.1\r\nhost: a\r\n\r\n", &[400]),
        ("a relative path", "GET x HTTP/1.1\r\nhost: x\r\n\r\n", &[400]),
        ("another scheme", "GET ftp://a/ HTTP/1.1\r\nhost: a\r\n\r\n", &[400]),
        ("HTTP/0.9", "GET /\r\n\r\n", &[400]),
        ("HTTP/1.2", "GET / HTTP/1.2\r\nhost: a\r\n\r\n", &[400]),
        ("HTTP/2 by name", "GET / HTTP/2.0\r\nhost: a\r\n\r\n", &[400]),
        ("NUL", "GET /\0 HTTP/1.1\r\nhost: a\r\n\r\n", &[400]),
        ("TLS on a port without", "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0", &[400]),
        ("empty lines before it", "\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n", &[200, 200]),
        (
            "an upgrade is not taken up",
            "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
            &[200, 200],
        ),
        (
            "nor one to HTTP/2",
            "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\n\
             http2-settings: AAMAAABkAAQAAP__\r\n\r\n",
            &[200, 200],
        ),
        (
            "an expectation that nobody meets",
            "POST / HTTP/1.1\r\nhost: a\r\nexpect: cake\r\ncontent-length: 1\r\n\r\na",
            &[417],
        ),
    ]);
}

#[test]
fn chunks_that_lie_are_refused() {
    fn chunked(body: &str) -> &'static str {
        let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        Box::leak(format!("{head}{body}").into_boxed_str())
    }
    check(&[
        ("an extension is dropped", chunked("1;x=y\r\na\r\n0\r\n\r\n"), &[200, 200]),
        ("trailers are dropped", chunked("1\r\na\r\n0\r\nx: y\r\n\r\n"), &[200, 200]),
        ("a size beyond 64 bits", chunked("10000000000000001\r\na\r\n0\r\n\r\n"), &[400]),
        ("a size that is none", chunked("g\r\na\r\n0\r\n\r\n"), &[400]),
        ("no size", chunked("\r\na\r\n0\r\n\r\n"), &[400]),
        ("a negative size", chunked("-1\r\na\r\n0\r\n\r\n"), &[400]),
        ("a size in C", chunked("0x1\r\na\r\n0\r\n\r\n"), &[400]),
        ("less than there is", chunked("1\r\nab\r\n0\r\n\r\n"), &[400]),
        ("more than there is", chunked("3\r\na\r\n0\r\n\r\n"), &[400]),
        ("bare line feeds", chunked("1\na\n0\n\n"), &[400]),
        ("a line feed in an extension", chunked("1;x\ny\r\na\r\n0\r\n\r\n"), &[400]),
        ("extensions without end", chunked(&format!("1;{}", "x".repeat(20_000))), &[400]),
        ("extensions on every byte", chunked(&"1;xxxxxxxxxxxxxxx\r\na\r\n".repeat(2000)), &[400]),
        (
            "trailers without end",
            chunked(&format!("0\r\n{}", "x: yyyyyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(2000))),
            &[400],
        ),
    ]);
}
