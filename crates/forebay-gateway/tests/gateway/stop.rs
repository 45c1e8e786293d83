//! A gateway that is told to stop under load: readiness goes down, what was accepted is answered,
//! and what still waits at the limit hears why.

use std::thread;
use std::time::Duration;

use crate::client::{Answer, CHAT, Client, chat};
use crate::house::{House, eventually, pool, say};
use crate::stub::{Asked, FOREVER, LAST, Line, STREAM_HEAD, Stub, TOKEN, event};

/// The last stage of a stop may take a second, and a busy machine a little more.
const SLACK: Duration = Duration::from_secs(6);

fn some_work(asked: &Asked, line: &mut Line) {
    if !asked.wants_stream() {
        thread::sleep(Duration::from_millis(200));
        line.answer(asked);
        return;
    }
    line.write(STREAM_HEAD.as_bytes());
    for _ in 0..4 {
        line.write(&event(TOKEN));
        thread::sleep(Duration::from_millis(50));
    }
    line.write(&[event(LAST), event("[DONE]"), b"0\r\n\r\n".to_vec()].concat());
}

/// So many clients that have asked, two of every four for a stream. Every second one would be all
/// of one lane and none of the other, and either lane may be the first with all of its clients.
fn asking(house: &House, clients: usize) -> Vec<Client> {
    let ask = |mark: usize| {
        let mut client = house.client();
        client.post(CHAT, &[], chat(mark, mark % 4 < 2).as_bytes());
        client
    };
    (0..clients).map(ask).collect()
}

#[test]
fn no_request_that_was_accepted_is_lost_and_readiness_goes_down_first() {
    let worker = Stub::start(some_work);
    let text = pool(&[&worker], "seqs_max = 8") + "[timeouts]\ndrain_ms_max = 20000\n";
    let house = House::recorded(&text);
    let mut clients = asking(&house, 80);
    eventually("some wait and some run", || {
        let (waiting, running) = house.load();
        waiting > 20 && running > 4
    });
    // This one has begun to ask before, and hears what holds after.
    let mut prober = house.client();
    prober.send(b"GET /readyz HTTP/1.1\r\n");
    let stopping = thread::spawn(move || house.stop());
    thread::sleep(Duration::from_millis(100));
    prober.send(b"host: a\r\n\r\n");
    assert_eq!(prober.answer().status, 503, "it is not ready any more");
    for (mark, client) in clients.iter_mut().enumerate() {
        let Answer { status, is_whole, .. } = client.answer();
        assert_eq!((status, is_whole), (200, true), "{mark}");
    }
    drop(clients);
    let stopped = stopping.join().expect("it stops");
    say(&format!("80 requests were answered, and the gateway ended after {:?}", stopped.took));
    assert!(stopped.took < Duration::from_secs(20) + SLACK);
    stopped.replays();
}

#[test]
fn what_still_waits_at_the_limit_is_refused_as_draining_and_streams_end_in_an_error() {
    let worker = Stub::start(|asked: &Asked, line: &mut Line| {
        if asked.wants_stream() {
            line.write(&[STREAM_HEAD.as_bytes(), &event(TOKEN)].concat());
        }
        line.until_left(FOREVER);
    });
    let text = pool(&[&worker], "seqs_max = 8") + "[timeouts]\ndrain_ms_max = 500\n";
    let house = House::recorded(&text);
    let mut clients = asking(&house, 24);
    eventually("some wait and some run", || house.load() == (16, 8));
    let stopping = thread::spawn(move || house.stop());
    let answers: Vec<Answer> = clients.iter_mut().map(Client::answer).collect();
    for (mark, answer) in answers.iter().enumerate() {
        let text = answer.text();
        assert!(answer.is_whole, "{mark}: {} {text}", answer.status);
        if answer.status == 200 {
            assert_eq!(answer.code_in_band().as_deref(), Some("draining"), "{mark}: {text}");
        } else {
            assert_eq!((answer.status, answer.code().as_str()), (503, "draining"), "{mark}");
            let secs = answer.header("retry-after").map(|it| it.parse::<u64>().unwrap_or(0));
            assert!(secs >= Some(1), "{mark}: {secs:?}");
        }
    }
    let begun = answers.iter().filter(|it| it.status == 200).count();
    let streams = worker.asked().iter().filter(|asked| asked.wants_stream()).count();
    assert!(begun == streams && begun > 0, "{begun} of {streams} streams");
    drop(clients);
    let stopped = stopping.join().expect("it stops");
    say(&format!("with a limit of 500 ms the gateway ended after {:?}", stopped.took));
    assert!(stopped.took < Duration::from_millis(500) + SLACK);
    eventually("the worker works for nobody", || worker.running() == 0);
    stopped.replays();
}

#[test]
fn who_asks_while_it_drains_is_refused_and_told_when_to_come_back() {
    let worker = Stub::start(|_: &Asked, line: &mut Line| {
        line.until_left(FOREVER);
    });
    let text = pool(&[&worker], "") + "[timeouts]\ndrain_ms_max = 1000\n";
    let house = House::open(&text);
    let mut runs = asking(&house, 1);
    eventually("it runs", || house.load().1 == 1);
    let mut late = house.client();
    late.send(b"POST /v1/chat/completions HTTP/1.1\r\n");
    let stopping = thread::spawn(move || house.stop());
    thread::sleep(Duration::from_millis(100));
    let body = chat(2, false);
    let rest = format!("host: a\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    late.send(rest.as_bytes());
    let answer = late.answer();
    assert_eq!((answer.status, answer.code().as_str()), (503, "draining"));
    assert!(answer.header("retry-after").is_some());
    let answer = runs[0].answer();
    assert_eq!((answer.status, answer.code().as_str()), (503, "draining"), "{}", answer.text());
    drop((late, runs));
    stopping.join().expect("it stops");
}

#[test]
fn to_wait_for_a_stop_that_was_asked_for_does_not_hurry_it() {
    let worker = Stub::start(|asked: &Asked, line: &mut Line| {
        // Longer than a second signal would let it work.
        thread::sleep(Duration::from_millis(3_500));
        line.answer(asked);
    });
    let house = House::open(&(pool(&[&worker], "") + "[timeouts]\ndrain_ms_max = 20000\n"));
    let mut clients = asking(&house, 2);
    eventually("both run", || worker.running() == 2);
    house.ask_to_stop();
    let stopping = thread::spawn(move || house.stop());
    for client in &mut clients {
        let answer = client.answer();
        assert_eq!((answer.status, answer.is_whole), (200, true), "{}", answer.text());
        assert_eq!(answer.code_in_band(), None, "{}", answer.text());
    }
    drop(clients);
    stopping.join().expect("it stops");
}
