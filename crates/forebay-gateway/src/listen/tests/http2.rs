//! HTTP/2, with a client that keeps the rules and with frames that do not.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::super::Listening;
use super::{Gate, LAST, listening, open, statuses, until};

type Sender = http2::SendRequest<Full<Bytes>>;

async fn connect(gate: &Gate) -> Sender {
    let socket = tokio::net::TcpStream::connect(gate.addr).await.unwrap();
    let (sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn post(path: &str, body: &str) -> Request<Full<Bytes>> {
    let body = Full::from(Bytes::from(body.to_owned()));
    Request::post(format!("http://localhost{path}")).body(body).unwrap()
}

#[tokio::test]
async fn streams_share_a_connection() {
    let gate = open(listening());
    let mut sender = connect(&gate).await;
    let asked = (0..50).map(|nth| sender.send_request(post("/", &format!("b{nth}"))));
    for (nth, answer) in asked.collect::<Vec<_>>().into_iter().enumerate() {
        let body = answer.await.unwrap().into_body().collect().await.unwrap().to_bytes();
        assert!(body.ends_with(format!("b{nth}]").as_bytes()), "{body:?}");
    }
    assert_eq!(gate.counts.accepted_total.load(SeqCst), 1);
    drop(sender);
    tokio::task::spawn_blocking(|| gate.close()).await.unwrap();
}

#[tokio::test]
async fn a_stream_that_is_reset_ends_its_request_only() {
    let gate = open(listening());
    let mut sender = connect(&gate).await;
    let first = tokio::spawn(sender.send_request(post("/wait", "")));
    let second = tokio::spawn(sender.send_request(post("/wait", "")));
    until_async(|| gate.echo.waiting.load(SeqCst) == 2).await;
    first.abort();
    until_async(|| gate.echo.gone.load(SeqCst) == 1).await;
    gate.echo.go.add_permits(1);
    assert_eq!(second.await.unwrap().unwrap().status(), 200);
    drop(sender);
    tokio::task::spawn_blocking(|| gate.close()).await.unwrap();
}

#[tokio::test]
async fn a_stop_answers_open_streams_and_opens_no_more() {
    let gate = open(listening());
    let mut sender = connect(&gate).await;
    let waits = tokio::spawn(sender.send_request(post("/wait", "")));
    until_async(|| gate.echo.waiting.load(SeqCst) == 1).await;
    gate.stop.ask();
    // What is asked before the goodbye has arrived is still answered.
    while let Ok(answer) = sender.send_request(post("/", "")).await {
        assert_eq!(answer.status(), 200);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    gate.echo.go.add_permits(1);
    assert_eq!(waits.await.unwrap().unwrap().status(), 200);
    drop(sender);
    let served = tokio::task::spawn_blocking(|| gate.thread.join().unwrap().unwrap());
    assert_eq!(served.await.unwrap().cut, 0);
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_a_busy_one_is_not() {
    let gate = open(Listening { idle_time_max: Duration::from_millis(50), ..listening() });
    let mut busy = connect(&gate).await;
    let waits = tokio::spawn(busy.send_request(post("/wait", "")));
    let mut idle = connect(&gate).await;
    while idle.ready().await.is_ok() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    gate.echo.go.add_permits(1);
    assert_eq!(waits.await.unwrap().unwrap().status(), 200);
    tokio::task::spawn_blocking(|| gate.close()).await.unwrap();
}

async fn until_async(mut is: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !is() {
        assert!(began.elapsed() < super::FOREVER, "it never came");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `GET / http://a` by the static table of RFC 7541, with the authority spelt out.
const REQUEST: &[u8] = &[0x82, 0x84, 0x86, 0x01, 1, b'a'];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn greet(gate: &Gate) -> TcpStream {
    let mut client = gate.client();
    client.write_all(PREFACE).unwrap();
    client.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    client
}

/// The kinds of the frames that come until the connection closes, with their payloads.
fn frames(client: &mut TcpStream) -> Vec<(u8, Vec<u8>)> {
    let mut came = Vec::new();
    let mut head = [0; 9];
    while client.read_exact(&mut head).is_ok() {
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        if client.read_exact(&mut payload).is_err() {
            break;
        }
        came.push((head[3], payload));
    }
    came
}

/// Sends the same again and again until the connection takes no more.
fn flood(client: &mut TcpStream, mut next: impl FnMut(u32) -> Vec<u8>) {
    for nth in 0..200_000 {
        if client.write_all(&next(nth)).is_err() {
            return;
        }
    }
    panic!("the flood was let in");
}

/// h2 ends a connection for resets that come before it has looked at their streams. What it looks
/// at in time is a request like any other, and leaves nothing behind.
#[test]
fn streams_opened_and_reset_at_once_cost_others_nothing() {
    const WAIT: &[u8] = &[0x82, 0x04, 5, b'/', b'w', b'a', b'i', b't', 0x86, 0x01, 1, b'a'];
    let gate = open(Listening { lanes: Some(1), ..listening() });
    let mut client = greet(&gate);
    let flood = std::thread::spawn(move || {
        for stream in (0..20_000).map(|nth| 2 * nth + 1) {
            let mut both = frame(HEADERS, END_STREAM | END_HEADERS, stream, WAIT);
            both.extend(frame(RESET, 0, stream, &8_u32.to_be_bytes()));
            if client.write_all(&both).is_err() {
                return;
            }
        }
    });
    while !flood.is_finished() {
        assert_eq!(statuses(&gate.talk(LAST)), [200]);
    }
    flood.join().unwrap();
    until("nothing left", || gate.counts.open.load(SeqCst) == 0);
    assert_eq!(gate.echo.gone.load(SeqCst), gate.echo.waiting.load(SeqCst));
    gate.close();
}

#[test]
fn headers_without_end_end_the_connection() {
    let gate = open(listening());
    let mut client = greet(&gate);
    client.write_all(&frame(HEADERS, END_STREAM, 1, REQUEST)).unwrap();
    // A literal of a kilobyte each, never indexed.
    let mut field = vec![0, 1, b'x', 0x7f, 0x81, 0x07];
    field.extend(vec![b'y'; 1024]);
    flood(&mut client, |_| frame(CONTINUATION, 0, 1, &field));
    until("its end", || gate.counts.open.load(SeqCst) == 0);
    gate.close();
}

#[test]
fn a_connection_that_breaks_the_frame_rules_hears_goodbye() {
    let gate = open(listening());
    for wrong in [
        frame(HEADERS, END_STREAM | END_HEADERS, 2, REQUEST),
        frame(SETTINGS, 0, 0, &[1, 2, 3]),
        frame(CONTINUATION, END_HEADERS, 1, REQUEST),
        frame(HEADERS, END_STREAM | END_HEADERS, 1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
    ] {
        let mut client = greet(&gate);
        client.write_all(&wrong).unwrap();
        let heard = frames(&mut client);
        assert!(heard.iter().any(|(kind, _)| *kind == GOAWAY), "{wrong:?}: {heard:?}");
    }
    until("all are counted", || gate.counts.bad_requests_total.load(SeqCst) == 4);
    drop(greet(&gate));
    until("nothing left", || gate.counts.open.load(SeqCst) == 0);
    assert_eq!(gate.counts.bad_requests_total.load(SeqCst), 4, "to go is no fault");
    gate.close();
}

/// One stream's answer: its headers, a reset, or a goodbye to all.
fn answer_to(gate: &Gate, block: &[u8]) -> (u8, Vec<u8>) {
    let mut client = greet(gate);
    client.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 1, block)).unwrap();
    let mut head = [0; 9];
    loop {
        client.read_exact(&mut head).unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        client.read_exact(&mut payload).unwrap();
        if (head[8] == 1 && (head[3] == HEADERS || head[3] == RESET)) || head[3] == GOAWAY {
            return (head[3], payload);
        }
    }
}

fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0, u8::try_from(name.len()).unwrap()];
    field.extend(name.as_bytes());
    field.push(u8::try_from(value.len()).unwrap());
    field.extend(value.as_bytes());
    field
}

#[test]
fn headers_that_belong_to_http1_reach_nobody() {
    let gate = open(listening());
    for (name, value) in [
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("Host", "a"),
        (":path", "/b"),
        ("content-length", "5"),
        ("x\r\ny", "z"),
        ("x", "a\r\nb: c"),
    ] {
        let block = [REQUEST, &literal(name, value)].concat();
        assert_ne!(answer_to(&gate, &block).0, HEADERS, "{name}");
    }
    gate.close();
}

#[test]
fn authorities_that_differ_or_miss_are_refused() {
    let gate = open(listening());
    // 0x8c is `:status: 400` in the static table, 0x88 is 200.
    let refused = |block: &[u8]| answer_to(&gate, block).1.first() == Some(&0x8c);
    assert!(!refused(REQUEST));
    assert!(!refused(&[REQUEST, &literal("host", "a")].concat()));
    assert!(refused(&[REQUEST, &literal("host", "b")].concat()));
    assert!(refused(&[0x82, 0x84, 0x86]));
    gate.close();
}
