//! What the queue of one pool costs another one, and what a waiting request costs in memory.
//!
//! Figures come from the example `waiting`, which has the clients in a process of their own.

use std::time::{Duration, Instant};

use crate::client::{CHAT, Client, chat};
use crate::house::{House, eventually, say};
use crate::stub::{FOREVER, Stub};

/// Bytes of a waiting request's body.
const BODY_BYTES: usize = 1_024;

/// Memory of this process that is in use, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it is there");
    let kilobytes = line.split_whitespace().nth(1).and_then(|it| it.parse::<usize>().ok());
    kilobytes.expect("it is a number") << 10
}

/// Lets so many wait for one pool, and asks the other one.
fn beside(waiting: usize) {
    let stuck = Stub::start(|_, line| {
        line.until_left(FOREVER * 10);
    });
    let free = Stub::quick();
    let text = format!(
        "[[pool]]\nname = \"slow\"\nmodels = [\"slow\"]\nworker = [\"{}\"]\nseqs_max = 1\n\
         [[pool]]\nname = \"quick\"\nmodels = [\"m\"]\nworker = [\"{}\"]\n\
         [[class]]\nname = \"a\"\noverload = \"queue\"\nqueue_len_max = 100000\n",
        stuck.url(),
        free.url()
    );
    let house = House::open(&text);
    let filler = "x".repeat(BODY_BYTES - chat(0, false).len());
    let body = chat(0, false).replace("\"m\"", "\"slow\"").replace("mark", &filler);
    let alone = latency(&mut house.client(), 500);
    let before = resident();
    let idle: Vec<Client> = (0..waiting).map(|_| house.client()).collect();
    assert_eq!(house.client().ask(CHAT, &chat(0, false)).status, 200);
    let each_idle = resident().saturating_sub(before) / waiting;
    drop(idle);
    let ask = |_| {
        let mut client = house.client();
        client.post(CHAT, &[], body.as_bytes());
        client
    };
    let clients: Vec<Client> = (0..=waiting).map(ask).collect();
    eventually("they wait", || house.load().0 == waiting);
    let each = resident().saturating_sub(before) / waiting;
    let beside = latency(&mut house.client(), 500);
    say(&format!(
        "with {waiting} waiting, each of {BODY_BYTES} bytes took {each} of memory, of which its \
         connection alone takes {each_idle}; the other \
         pool's p50 and p99 were {beside:?}, alone {alone:?}"
    ));
    // Twice hyper's buffer, with which it takes more. Other tests run in this process, too.
    assert!(each < BODY_BYTES + (16 << 10), "a waiting request takes {each} bytes");
    assert!(beside.1 < Duration::from_secs(1), "the other pool waits, too: {beside:?}");
    let (begun, count) = (Instant::now(), clients.len());
    drop(clients);
    house.rests();
    say(&format!("{count} clients had vanished after {:?}", begun.elapsed()));
}

/// The median and the 99th percentile of so many requests, one after the other.
fn latency(client: &mut Client, requests: usize) -> (Duration, Duration) {
    let one = |nth: usize| {
        let begun = Instant::now();
        let answer = client.ask(CHAT, &chat(nth, nth.is_multiple_of(2)));
        assert_eq!(answer.status, 200, "{}", answer.text());
        begun.elapsed()
    };
    let mut took: Vec<Duration> = (0..requests).map(one).collect();
    took.sort_unstable();
    (took[requests / 2], took[requests * 99 / 100])
}

/// `FOREBAY_WAITING` may say how many wait, for figures; each takes two descriptors here.
#[test]
fn two_thousand_that_wait_for_one_pool_cost_another_nothing() {
    let told = std::env::var("FOREBAY_WAITING").ok();
    beside(told.map_or(2_000, |told| told.parse().expect("it is a number")));
}
