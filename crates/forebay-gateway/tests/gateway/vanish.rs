//! Clients that vanish at every stage: nothing may be left of them, and their workers must hear of
//! it at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::client::{CHAT, Client, chat, request};
use crate::house::{House, eventually, pool, say};
use crate::stub::{Asked, FOREVER, Line, STREAM_HEAD, Stub, TOKEN, event};

/// Requests that the worker takes at once.
const SEATS: usize = 64;
/// The longest that a worker may work for nobody. On a machine with nothing else to do it is a
/// few milliseconds.
const NOTICE_MAX: Duration = Duration::from_secs(2);

/// A worker that never ends its answers: it streams a token and stops, or says nothing at all.
fn endless(asked: &Asked, line: &mut Line) {
    if asked.wants_stream() {
        line.write(STREAM_HEAD.as_bytes());
        line.write(&event(TOKEN));
    }
    line.until_left(FOREVER);
}

/// The clients of one wave, each with its mark.
#[derive(Default)]
struct Wave {
    streaming: Vec<(usize, Client)>,
    in_prefill: Vec<(usize, Client)>,
    queued: Vec<(usize, Client)>,
    sending: Vec<(usize, Client)>,
}

impl Wave {
    /// Brings as many clients into each stage.
    fn begin(house: &House, first_mark: usize) -> Self {
        let mut wave = Self::default();
        let mut mark = first_mark;
        let mut asking = |stream: bool| {
            mark += 1;
            let mut client = house.client();
            client.post(CHAT, &[], chat(mark, stream).as_bytes());
            (mark, client)
        };
        for _ in 0..SEATS / 2 {
            wave.streaming.push(asking(true));
            wave.in_prefill.push(asking(false));
        }
        for (_, client) in &mut wave.streaming {
            client.hear(TOKEN.as_bytes());
        }
        eventually("all seats are taken", || house.load().1 == SEATS);
        for nth in 0..SEATS / 2 {
            wave.queued.push(asking(nth.is_multiple_of(2)));
        }
        eventually("the others wait", || house.load().0 == SEATS / 2);
        for nth in 0..SEATS / 2 {
            let mut client = house.client();
            let bytes = request(CHAT, &[], chat(0, true).as_bytes());
            client.send(&bytes[..bytes.len() - 1 - nth]);
            wave.sending.push((0, client));
        }
        wave
    }

    fn vanish(self, queue_first: bool) -> BTreeMap<usize, Instant> {
        let mut stages = vec![self.sending, self.streaming, self.in_prefill];
        stages.insert(if queue_first { 0 } else { 3 }, self.queued);
        let mut gone = BTreeMap::new();
        for (nth, (mark, client)) in stages.into_iter().flatten().enumerate() {
            gone.insert(mark, client.vanish(nth.is_multiple_of(2)));
        }
        gone
    }
}

/// Lets so many clients vanish, and says how long workers worked for nobody.
fn vanished(clients: usize) {
    let worker = Stub::start(endless);
    let keys = format!("seqs_max = {SEATS}");
    let house = House::recorded(&pool(&[&worker], &keys));
    let of_a_wave = SEATS * 2;
    let waves = clients.div_ceil(of_a_wave);
    let mut gone = BTreeMap::new();
    for nth in 0..waves {
        let wave = Wave::begin(&house, nth * of_a_wave);
        gone.extend(wave.vanish(nth.is_multiple_of(2)));
        eventually("no worker works for nobody", || worker.running() == 0);
        house.rests();
    }
    let left = worker.left();
    let late = left.iter().filter_map(|(mark, at)| Some(at.duration_since(*gone.get(mark)?)));
    let mut late: Vec<Duration> = late.collect();
    late.sort_unstable();
    let (median, last) = (late[late.len() / 2], late[late.len() - 1]);
    let count = waves * of_a_wave;
    say(&format!("{count} clients vanished; workers heard after {median:?}, at most {last:?}"));
    assert!(late.len() >= waves * SEATS, "the worker saw {} of them go", late.len());
    assert!(last < NOTICE_MAX, "a worker worked for nobody for {last:?}");
    let abandoned = house.metric("forebay_requests_abandoned_total", "");
    let taken_in = waves * (SEATS + SEATS / 2);
    assert_eq!(abandoned as usize, taken_in, "all whose body had come count as abandoned");
    let decisions = house.stop().replays();
    say(&format!("{decisions} decisions were the same again"));
}

#[test]
fn nothing_is_left_of_ten_thousand_clients_that_vanish_and_workers_hear_of_it() {
    vanished(10_000);
}

#[test]
fn a_client_that_reads_nothing_holds_its_worker_back_and_its_going_ends_the_answer() {
    let worker = Stub::start(|asked, line| {
        let _ = asked;
        line.write(STREAM_HEAD.as_bytes());
        let token = event(&TOKEN.replace("\"x\"", &format!("\"{}\"", "x".repeat(60_000))));
        // Sixty megabytes are more than sockets hold.
        for _ in 0..1_000 {
            if !line.write(&token) {
                return;
            }
        }
        line.write(b"0\r\n\r\n");
    });
    let house = House::pool(&[&worker], "");
    let mut client = house.client();
    client.post(CHAT, &[], chat(1, true).as_bytes());
    client.hear(b"data: ");
    eventually("the worker is asked", || worker.running() == 1);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(worker.running(), 1, "it can't have sent all of it");
    client.vanish(false);
    eventually("the worker has stopped", || worker.running() == 0);
    house.rests();
}
