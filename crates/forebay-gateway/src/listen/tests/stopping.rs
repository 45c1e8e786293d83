//! Stops that lose nothing.

use std::io::Write;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::super::Listening;
use super::super::door::Served;
use super::super::stop::{Phase, StopTimes};
use super::{FOREVER, LAST, answer, listening, open, rest, statuses, until};

const WAIT: &[u8] = b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n";

#[test]
fn requests_at_work_are_answered_and_idle_connections_close() {
    let gate = open(listening());
    let mut busy = gate.client();
    busy.write_all(WAIT).unwrap();
    let mut idle = gate.client();
    idle.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    answer(&mut idle);
    until("the request", || gate.echo.waiting.load(SeqCst) == 1);
    gate.stop.ask();
    assert_eq!(rest(&mut idle), "");
    assert_eq!(gate.stop.phase(), Phase::Draining);
    let late = std::net::TcpStream::connect(gate.addr).map_err(|error| error.kind());
    assert_eq!(late.err(), Some(std::io::ErrorKind::ConnectionRefused), "and not left to hang");
    gate.echo.go.add_permits(1);
    let heard = rest(&mut busy);
    assert_eq!(statuses(&heard), [200]);
    assert!(heard.contains("connection: close\r\n"));
    assert_eq!(gate.thread.join().unwrap().unwrap(), Served { cut: 0 });
}

#[test]
fn a_connection_that_waits_to_be_taken_in_is_still_served() {
    // Nobody serves yet: these stand in the backlog when the stop is asked for.
    let bound = listening().bind().unwrap();
    let mut early: Vec<_> = (0..20)
        .map(|_| {
            let mut client = std::net::TcpStream::connect(bound.local_addr()).unwrap();
            client.set_read_timeout(Some(FOREVER)).unwrap();
            client.write_all(LAST.as_bytes()).unwrap();
            client
        })
        .collect();
    let stop = super::Stop::default();
    stop.ask();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let served = runtime.block_on(bound.serve(
        std::sync::Arc::new(super::Echo::default()),
        std::sync::Arc::default(),
        stop,
    ));
    assert_eq!(served.unwrap(), Served { cut: 0 });
    for client in &mut early {
        assert_eq!(statuses(&rest(client)), [200]);
    }
}

#[test]
fn while_unready_everything_is_served_but_connections_close() {
    let times = StopTimes { notice: FOREVER, ..listening().stop };
    let gate = open(Listening { stop: times, ..listening() });
    let mut old = gate.client();
    old.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    assert!(!answer(&mut old).contains("connection: close"));
    gate.stop.ask();
    // A lane hears of it a little later.
    until("unready", || {
        let mut new = gate.client();
        new.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        answer(&mut new).contains("connection: close")
    });
    assert_eq!(gate.stop.phase(), Phase::Unready);
    old.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let _ = rest(&mut old);
    // The second signal does not wait for the notice.
    gate.stop.ask();
    gate.thread.join().unwrap().unwrap();
}

#[test]
fn what_is_not_answered_in_time_is_cut_and_counted() {
    let short = Duration::from_millis(50);
    let times = StopTimes { drain_max: short, ending_max: short, ..listening().stop };
    let gate = open(Listening { stop: times, ..listening() });
    let mut busy = gate.client();
    busy.write_all(WAIT).unwrap();
    until("the request", || gate.echo.waiting.load(SeqCst) == 1);
    let echo = std::sync::Arc::clone(&gate.echo);
    assert_eq!(gate.close(), Served { cut: 1 });
    assert_eq!(rest(&mut busy), "");
    assert_eq!(echo.gone.load(SeqCst), 1);
}

#[test]
fn a_third_signal_ends_it_at_once() {
    let gate = open(listening());
    let mut busy = gate.client();
    busy.write_all(WAIT).unwrap();
    until("the request", || gate.echo.waiting.load(SeqCst) == 1);
    gate.stop.ask();
    gate.stop.ask();
    gate.stop.ask();
    assert_eq!(gate.thread.join().unwrap().unwrap(), Served { cut: 1 });
}

#[test]
fn no_request_under_way_is_lost() {
    let gate = open(listening());
    let addr = gate.addr;
    let clients: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                let mut answered = 0;
                // Each connection sends one request at once, and must hear an answer to it.
                while let Ok(mut client) = std::net::TcpStream::connect(addr) {
                    client.set_read_timeout(Some(FOREVER)).unwrap();
                    if client.write_all(LAST.as_bytes()).is_err() {
                        break; // It came as the door closed, and nobody has read it.
                    }
                    match statuses(&rest(&mut client))[..] {
                        [200] => answered += 1,
                        [] => break, // The same.
                        ref other => panic!("{other:?}"),
                    }
                }
                answered
            })
        })
        .collect();
    until("some traffic", || gate.counts.accepted_total.load(SeqCst) > 200);
    let counts = std::sync::Arc::clone(&gate.counts);
    assert_eq!(gate.close(), Served { cut: 0 });
    let answered: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    assert_eq!(answered, counts.accepted_total.load(SeqCst));
}
