//! Bounds on headers, connections and time, and what hitting one costs others.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::super::Listening;
use super::super::descriptors::raise_descriptors;
use super::{LAST, answer, listening, open, rest, statuses, until};

#[test]
fn too_many_bytes_of_headers_are_refused() {
    let gate = open(listening());
    for headers in ["x: y\r\n".repeat(101), format!("x: {}\r\n", "y".repeat(40_000))] {
        let heard = gate.talk(format!("GET / HTTP/1.1\r\nhost: a\r\n{headers}\r\n{LAST}"));
        assert_eq!(statuses(&heard), [431]);
    }
    // A header without an end is refused once it is too long, not when it ends.
    let heard = gate.talk(format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}", "y".repeat(1 << 20)));
    assert_eq!(statuses(&heard), [431]);
    let heard = gate.talk(format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "y".repeat(1 << 20)));
    assert_eq!(statuses(&heard), [431]);
    let headers = "x: y\r\n".repeat(99);
    let heard = gate.talk(format!("GET / HTTP/1.1\r\n{headers}host: a\r\n\r\n{LAST}"));
    assert_eq!(statuses(&heard), [200, 200]);
    gate.close();
}

#[test]
fn headers_that_take_too_long_are_refused() {
    let gate = open(Listening { header_time_max: Duration::from_millis(50), ..listening() });
    for begun in ["P", "GET / HTTP/1.1\r\nhost: a\r\nx"] {
        let mut client = gate.client();
        client.write_all(begun.as_bytes()).unwrap();
        assert_eq!(statuses(&rest(&mut client)), [408], "{begun}");
    }
    // Bytes that drip in do not make a header any quicker; nor does it help to be the second.
    let mut client = gate.client();
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    answer(&mut client);
    let began = std::time::Instant::now();
    client.write_all(b"GET / HTTP/1.1\r\nx: ").unwrap();
    while client.write_all(b"y").is_ok() && began.elapsed() < super::FOREVER {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(began.elapsed() < super::FOREVER);
    assert_eq!(gate.counts.header_timeouts_total.load(SeqCst), 3);
    gate.close();
}

#[test]
fn idle_connections_are_closed() {
    let gate = open(Listening { idle_time_max: Duration::from_millis(50), ..listening() });
    let mut silent = gate.client();
    let mut served = gate.client();
    served.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    answer(&mut served);
    assert_eq!(rest(&mut silent), "");
    assert_eq!(rest(&mut served), "");
    assert_eq!(gate.counts.idle_timeouts_total.load(SeqCst), 2);
    until("their end", || gate.counts.open.load(SeqCst) == 0);
    gate.close();
}

#[test]
fn a_request_at_work_is_not_idle() {
    let gate = open(Listening { idle_time_max: Duration::from_millis(30), ..listening() });
    let mut client = gate.client();
    client.write_all(b"GET /wait HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    gate.echo.go.add_permits(1);
    assert_eq!(statuses(&rest(&mut client)), [200]);
    gate.close();
}

#[test]
fn a_client_that_does_not_read_is_cut() {
    let gate = open(Listening { write_time_max: Duration::from_millis(100), ..listening() });
    let mut client = gate.client();
    client.write_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    until("the cut", || gate.counts.write_timeouts_total.load(SeqCst) == 1);
    until("its end", || gate.counts.open.load(SeqCst) == 0);
    assert_eq!(gate.counts.write_timeouts_total.load(SeqCst), 1);
    gate.close();
}

#[test]
fn a_client_that_goes_away_ends_its_request() {
    let gate = open(listening());
    let sent = "POST /wait HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc";
    for (nth, half) in [(1, false), (2, true)] {
        let mut client = gate.client();
        client.write_all(sent.as_bytes()).unwrap();
        until("the request", || gate.echo.waiting.load(SeqCst) == nth);
        if half {
            client.shutdown(Shutdown::Write).unwrap();
        } else {
            drop(client);
        }
        until("its end", || gate.echo.gone.load(SeqCst) == nth);
    }
    gate.close();
}

/// Known, and wrong: see [`super::super::Handle`].
#[test]
fn a_client_that_sent_more_than_its_request_is_missed_only_when_it_is_answered() {
    let gate = open(listening());
    let mut client = gate.client();
    client.write_all(b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n\r\n").unwrap();
    until("the request", || gate.echo.waiting.load(SeqCst) == 1);
    drop(client);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(gate.echo.gone.load(SeqCst), 0);
    gate.echo.go.add_permits(1);
    until("its end", || gate.counts.open.load(SeqCst) == 0);
    gate.close();
}

#[test]
fn whoever_finds_no_room_hears_so_and_room_is_made() {
    let gate = open(Listening {
        connections_max: Some(8),
        pressed_time_max: Duration::from_millis(100),
        ..listening()
    });
    // Requests at work are never made room with.
    let mut busy = gate.client();
    busy.write_all(b"GET /wait HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    until("the request", || gate.echo.waiting.load(SeqCst) == 1);
    let idle: Vec<_> = (0..7).map(|_| gate.client()).collect();
    until("full", || gate.counts.accepted_total.load(SeqCst) == 8);
    let heard = gate.talk("");
    assert_eq!(statuses(&heard), [503]);
    assert!(heard.contains("retry-after: 1\r\n"));
    until("room", || gate.counts.open.load(SeqCst) < 7);
    assert_eq!(statuses(&gate.talk(LAST)), [200]);
    gate.echo.go.add_permits(1);
    assert_eq!(statuses(&rest(&mut busy)), [200]);
    drop(idle);
    assert_eq!(gate.counts.refused_total.load(SeqCst), 1);
    gate.close();
}

#[test]
fn one_peer_has_its_share() {
    let gate = open(Listening { connections_per_peer_max: Some(1), ..listening() });
    let held = gate.client();
    until("the first", || gate.counts.open.load(SeqCst) == 1);
    assert_eq!(statuses(&gate.talk(LAST)), [503]);
    drop(held);
    until("its end", || gate.counts.open.load(SeqCst) == 0);
    assert_eq!(statuses(&gate.talk(LAST)), [200]);
    gate.close();
}

#[test]
fn a_thousand_idle_connections_cost_others_nothing() {
    let idle_max = usize::try_from(raise_descriptors().saturating_sub(500) / 4).unwrap().min(2000);
    let gate = open(Listening { connections_max: Some(idle_max + 10), ..listening() });
    let idle: Vec<_> = (0..idle_max).map(|_| gate.client()).collect();
    for _ in 0..100 {
        assert_eq!(statuses(&gate.talk(LAST)), [200]);
    }
    drop(idle);
    gate.close();
}

#[test]
fn accepted_sockets_send_at_once() {
    let bound = listening().bind().unwrap();
    let _client = std::net::TcpStream::connect(bound.local_addr()).unwrap();
    let accepted = loop {
        if let Ok((socket, _)) = bound.socket.accept() {
            break socket;
        }
    };
    assert!(accepted.tcp_nodelay().unwrap());
    assert!(accepted.keepalive().unwrap());
}

#[test]
fn a_connection_serves_many_requests() {
    let gate = open(listening());
    let mut client = gate.client();
    for nth in 0..100 {
        let body = "y".repeat(nth * 100);
        let length = body.len();
        let head = format!("POST /{nth} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n");
        client.write_all((head + &body).as_bytes()).unwrap();
        assert!(answer(&mut client).ends_with(&format!("[POST /{nth} {body}]")));
    }
    drop(client);
    let mut client = gate.client();
    client
        .write_all(format!("{}{LAST}", "GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(40)).as_bytes())
        .unwrap();
    let mut heard = String::new();
    client.read_to_string(&mut heard).unwrap();
    assert_eq!(statuses(&heard).len(), 41);
    gate.close();
}
