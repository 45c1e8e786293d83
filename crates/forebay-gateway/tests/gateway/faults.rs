//! Workers that are killed, that stall, and that come back: whatever had sent no byte runs
//! elsewhere, and whatever had ends in an error.

use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Answer, CHAT, chat};
use crate::house::{House, SOON, eventually, pool, say};
use crate::stub::{Asked, FOREVER, LAST, Line, STREAM_HEAD, Stub, TOKEN, event, whole};

/// The longest until a worker that is well again is used.
const BACK_MAX: Duration = Duration::from_secs(10);
/// Probes that find out soon.
const QUICK_PROBES: &str = "\n[health]\ninterval_ms = 100\ntimeout_ms = 400\nfailures = 2\n\
    [scrape]\ninterval_ms = 100\n";

/// Half a second of work: a stream of ten tokens, or an answer in one piece.
fn half_a_second(asked: &Asked, line: &mut Line) {
    if !asked.wants_stream() {
        thread::sleep(Duration::from_millis(500));
        line.answer(asked);
        return;
    }
    let mut alive = line.write(STREAM_HEAD.as_bytes());
    for _ in 0..10 {
        alive = alive && line.write(&event(TOKEN));
        thread::sleep(Duration::from_millis(50));
    }
    if alive {
        line.write(&[event(LAST), event("[DONE]"), b"0\r\n\r\n".to_vec()].concat());
    }
}

/// Asks from so many clients at once, every second one for a stream, does something meanwhile, and
/// says what each was answered.
fn under_load(house: &House, clients: usize, meanwhile: impl FnOnce()) -> Vec<Answer> {
    let addr = house.addr;
    let asking = |mark: usize| {
        thread::spawn(move || {
            let mut client = crate::client::Client::open(addr);
            client.ask(CHAT, &chat(mark, mark.is_multiple_of(2)))
        })
    };
    let asking: Vec<_> = (0..clients).map(asking).collect();
    meanwhile();
    asking.into_iter().map(|it| it.join().expect("a client does not panic")).collect()
}

/// Every answer is whole; one that is no success is a stream that ends in an error. How many were
/// broken off.
fn broken_off(answers: &[Answer]) -> usize {
    let mut broken = 0;
    for (mark, answer) in answers.iter().enumerate() {
        let text = answer.text();
        assert!(answer.status == 200 && answer.is_whole, "{mark}: {} {text}", answer.status);
        if !mark.is_multiple_of(2) {
            assert_eq!(text, crate::stub::DOCUMENT, "{mark}: it had sent no byte");
        } else if text.contains("\"stop\"") {
            assert!(text.ends_with("data: [DONE]\n\n"), "{mark}: {text}");
        } else {
            let code = answer.code_in_band();
            assert!(
                matches!(code.as_deref(), Some("upstream_failed" | "upstream_timeout")),
                "{mark}: {text}"
            );
            broken += 1;
        }
    }
    broken
}

/// Asks until a worker is asked again; how long that took.
fn used_again(house: &House, worker: &Stub) -> Duration {
    let (begun, before) = (Instant::now(), worker.calls());
    while worker.calls() == before {
        assert!(begun.elapsed() < SOON, "the worker is not used again");
        let addr = house.addr;
        // Two at once, so that there is something for either worker.
        let one = thread::spawn(move || {
            crate::client::Client::open(addr).ask(CHAT, &chat(1, true)).status
        });
        assert_eq!(house.client().ask(CHAT, &chat(2, true)).status, 200);
        assert_eq!(one.join().expect("a client does not panic"), 200);
    }
    begun.elapsed()
}

#[test]
fn a_killed_worker_costs_only_the_streams_that_it_had_begun_and_is_used_again() {
    let mut first = Stub::start(half_a_second);
    let second = Stub::start(half_a_second);
    let text = pool(&[&first, &second], "seqs_max = 16") + QUICK_PROBES;
    let house = House::recorded(&text);
    let answers = under_load(&house, 60, || {
        eventually("both workers are busy", || first.running() > 5 && second.running() > 5);
        thread::sleep(Duration::from_millis(100));
        first.kill();
    });
    let broken = broken_off(&answers);
    assert!(broken > 0, "the killed worker had begun streams");
    house.rests();
    let first = Stub::on(first.addr, half_a_second);
    let took = used_again(&house, &first);
    say(&format!("of 60 requests a killed worker broke {broken}; used again after {took:?}"));
    assert!(took < BACK_MAX, "it took {took:?}");
    house.rests();
    house.stop().replays();
}

#[test]
fn a_worker_that_is_restarted_in_place_is_used_again() {
    let mut first = Stub::start(half_a_second);
    let second = Stub::start(half_a_second);
    let text = pool(&[&first, &second], "seqs_max = 16") + QUICK_PROBES;
    let house = House::recorded(&text);
    let mut again = None;
    let answers = under_load(&house, 60, || {
        eventually("both workers are busy", || first.running() > 5 && second.running() > 5);
        first.kill();
        again = Some(Stub::on(first.addr, half_a_second));
    });
    broken_off(&answers);
    let again = again.expect("it was started");
    let took = used_again(&house, &again);
    say(&format!("a worker that was restarted in place was used again after {took:?}"));
    assert!(took < BACK_MAX, "it took {took:?}");
    house.rests();
    house.stop().replays();
}

#[test]
fn a_worker_that_stalls_loses_its_requests_to_others_and_never_ends_a_stream_well() {
    let stalling = |asked: &Asked, line: &mut Line| {
        if asked.wants_stream() {
            line.write(&[STREAM_HEAD.as_bytes(), &event(TOKEN)].concat());
        }
        line.until_left(FOREVER);
    };
    let first = Stub::start(stalling);
    let second = Stub::start(half_a_second);
    let text = pool(&[&first, &second], "seqs_max = 16")
        + QUICK_PROBES
        + "[timeouts]\nidle_ms_max = 3000\n";
    let house = House::recorded(&text);
    let answers = under_load(&house, 40, || {
        eventually("both workers are busy", || first.running() > 5 && second.running() > 0);
        first.set_well(false);
    });
    let broken = broken_off(&answers);
    say(&format!("of 40 requests a stalled worker broke {broken}"));
    assert!(broken > 0, "the stalled worker had begun streams");
    house.rests();
    house.stop().replays();
}

#[test]
fn a_worker_that_breaks_before_its_first_byte_is_replaced_whatever_way_it_breaks() {
    type Way = fn(&Asked, &mut Line);
    let ways: [(&str, Way); 6] = [
        ("closes", |_, line| line.hang_up()),
        ("resets", |_, line| line.reset()),
        ("half closes", |_, line| line.half_close()),
        ("breaks its head off", |_, line| {
            line.write(b"HTTP/1.1 200 OK\r\ncontent-ty");
            line.hang_up();
        }),
        ("says only its head", |_, line| {
            line.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n");
            line.reset();
        }),
        ("speaks no HTTP", |_, line| {
            line.write(b"220 mail.test ESMTP\r\n");
            line.hang_up();
        }),
    ];
    for (name, way) in ways {
        let (first, second) = (Stub::start(way), Stub::quick());
        let house = House::pool(&[&first, &second], "mode = \"round-robin\"");
        for nth in 0..4 {
            let answer = house.client().ask(CHAT, &chat(nth, nth.is_multiple_of(2)));
            assert_eq!((answer.status, answer.is_whole), (200, true), "{name}: {}", answer.text());
        }
        assert!(first.calls() > 0, "{name}: the broken worker was tried");
        house.rests();
    }
}

#[test]
fn an_answer_in_one_piece_that_breaks_off_does_not_look_whole() {
    let breaking = |_: &Asked, line: &mut Line| {
        let bytes = whole(200, "application/json", crate::stub::DOCUMENT);
        line.write(&bytes[..bytes.len() - 9]);
        line.hang_up();
    };
    let worker = Stub::start(breaking);
    let house = House::pool(&[&worker], "");
    let answer = house.client().ask(CHAT, &chat(1, false));
    assert!(!answer.is_whole, "{}", answer.text());
    let failed = house.metric("forebay_requests_failed_total", "reason=\"upstream_failed\"");
    assert!(failed >= 1.0, "it counts as failed");
    house.rests();
}
