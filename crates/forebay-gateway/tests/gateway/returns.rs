//! Refusals that say when to come back, and the places that are kept until then.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Answer, CHAT, Client, chat};
use crate::house::{House, eventually, pool};
use crate::stub::Stub;

/// A worker that ends an answer only when it is let.
fn gated() -> (Stub, Sender<()>) {
    let (let_go, gate): (Sender<()>, Receiver<()>) = channel();
    let gate = Mutex::new(gate);
    let stub = Stub::start(move |asked, line| {
        let gate = gate.lock().expect("nobody panics with it");
        if gate.recv_timeout(Duration::from_secs(30)).is_ok() {
            line.answer(asked);
        } else {
            line.hang_up();
        }
    });
    (stub, let_go)
}

/// One class, with these rules.
fn class(rules: &str) -> String {
    format!("[[class]]\nname = \"a\"\n{rules}\n")
}

/// Sends a chat without waiting for its answer.
fn sent(house: &House, mark: usize) -> Client {
    let mut client = house.client();
    client.post(CHAT, &[], chat(mark, false).as_bytes());
    client
}

/// Checks what every refusal for want of room must say, and says when to come back.
fn promise(answer: &Answer) -> u64 {
    let told = |name| answer.header(name).and_then(|it| it.parse::<u64>().ok());
    let secs = told("retry-after").unwrap_or_else(|| panic!("no Retry-After: {}", answer.head));
    assert!((1..=60).contains(&secs), "{secs}");
    assert_eq!(told("retry-after-ms"), Some(secs * 1_000), "both headers agree");
    let ticket = answer.header("x-forebay-ticket").expect("a place is kept");
    assert!(ticket.len() > 32 && ticket.bytes().all(|it| it.is_ascii_hexdigit()), "{ticket}");
    secs
}

#[test]
fn whoever_finds_the_queue_full_is_told_when_to_come_back_and_is_served_then() {
    let (worker, let_go) = gated();
    let text = pool(&[&worker], "seqs_max = 1") + &class("overload = \"queue\"\nqueue_len_max = 1");
    let house = House::recorded(&text);
    let mut runs = sent(&house, 1);
    eventually("one runs", || worker.running() == 1);
    let mut waits = sent(&house, 2);
    eventually("one waits", || house.load() == (1, 1));
    // As the official clients do: the same bytes again, after as long as was told.
    let (mut client, body) = (house.client(), chat(3, false));
    let refused = client.ask(CHAT, &body);
    assert_eq!((refused.status, refused.code().as_str()), (503, "queue_full"));
    assert!(refused.text().contains("\"limit\":1"), "{}", refused.text());
    let secs = promise(&refused);
    let_go.send(()).expect("the worker waits");
    let_go.send(()).expect("the worker waits");
    assert_eq!((runs.answer().status, waits.answer().status), (200, 200));
    thread::sleep(Duration::from_secs(secs));
    let_go.send(()).expect("the worker waits");
    assert_eq!(client.ask(CHAT, &body).status, 200);
    assert_eq!(house.count("forebay_retry_after_returned_total", ""), 1);
    assert_eq!(house.count("forebay_retry_after_broken_total", ""), 0);
    house.rests();
    house.stop().replays();
}

/// Refuses one, lets a newcomer wait, lets the refused one come back by `header` or by its body
/// alone, and says in which order both ran.
fn order_of_return(by_ticket: bool) -> Vec<usize> {
    let (worker, let_go) = gated();
    let keys = "seqs_max = 1\nmode = \"hold:first-come\"";
    let text = pool(&[&worker], keys) + &class("overload = \"queue\"\nqueue_len_max = 2");
    let house = House::open(&text);
    let mut clients = vec![sent(&house, 1)];
    eventually("one runs", || worker.running() == 1);
    clients.push(sent(&house, 2));
    eventually("one waits", || house.load() == (1, 1));
    clients.push(sent(&house, 3));
    eventually("two wait", || house.load() == (2, 1));
    let body = chat(4, false);
    let refused = house.client().ask(CHAT, &body);
    let told_at = Instant::now();
    let secs = promise(&refused);
    let_go.send(()).expect("the worker waits");
    eventually("there is room for one", || house.load() == (1, 1));
    clients.push(sent(&house, 5));
    let_go.send(()).expect("the worker waits");
    eventually("there is room again", || worker.calls() == 3 && house.load() == (1, 1));
    thread::sleep(Duration::from_secs(secs).saturating_sub(told_at.elapsed()));
    let mut returning = house.client();
    let ticket = refused.header("x-forebay-ticket").expect("it was checked").to_owned();
    // A ticket holds for a prompt that was shortened, too.
    let (headers, body) = if by_ticket {
        (vec![("x-forebay-ticket", ticket.as_str())], chat(4, false) + " ")
    } else {
        (Vec::new(), body)
    };
    returning.post(CHAT, &headers, body.as_bytes());
    clients.push(returning);
    eventually("both wait", || house.load() == (2, 1));
    (0..3).for_each(|_| let_go.send(()).expect("the worker waits"));
    assert!(clients.iter_mut().all(|client| client.answer().status == 200));
    house.rests();
    assert_eq!(house.count("forebay_retry_after_returned_total", ""), 1);
    worker.asked().iter().map(crate::stub::Asked::mark).collect()
}

#[test]
fn the_same_request_again_keeps_its_age_without_any_ticket() {
    assert_eq!(order_of_return(false), [1, 2, 3, 4, 5]);
}

#[test]
fn a_ticket_keeps_the_age_of_a_request_that_was_changed() {
    assert_eq!(order_of_return(true), [1, 2, 3, 4, 5]);
}

#[test]
fn a_forged_ticket_is_worth_nothing_and_costs_nothing() {
    let worker = Stub::quick();
    let house = House::pool(&[&worker], "");
    for ticket in ["", "x", &"0".repeat(80), &"é".repeat(40)] {
        let mut client = house.client();
        client.post(CHAT, &[("x-forebay-ticket", ticket)], chat(1, false).as_bytes());
        assert_eq!(client.answer().status, 200, "{ticket}");
    }
    assert_eq!(house.count("forebay_retry_after_returned_total", ""), 0);
    assert!(worker.asked().iter().all(|asked| asked.header("x-forebay-ticket").is_none()));
}

#[test]
fn a_class_that_sheds_refuses_what_would_wait_too_long_and_names_itself() {
    let worker = Stub::start(|asked, line| {
        thread::sleep(Duration::from_millis(200));
        line.answer(asked);
    });
    let rules = "overload = \"shed\"\nwait_ms_max = 300";
    let house = House::open(&(pool(&[&worker], "seqs_max = 1") + &class(rules)));
    // It must have seen how long requests take.
    for mark in 0..8 {
        assert_eq!(house.client().ask(CHAT, &chat(mark, false)).status, 200);
    }
    let mut clients: Vec<Client> = (10..30).map(|mark| sent(&house, mark)).collect();
    let answers: Vec<Answer> = clients.iter_mut().map(Client::answer).collect();
    let refused: Vec<&Answer> = answers.iter().filter(|answer| answer.status != 200).collect();
    assert!(!refused.is_empty() && refused.len() < 20, "{} of 20", refused.len());
    for answer in refused {
        assert_eq!((answer.status, answer.code().as_str()), (503, "shed"));
        assert!(answer.text().contains("\"class\":\"a\""), "{}", answer.text());
        promise(answer);
    }
    house.rests();
}

#[test]
fn a_stream_that_waits_is_kept_alive_and_then_refused_in_band() {
    let (worker, let_go) = gated();
    let rules = "overload = \"queue\"\nwait_ms_max = 2500";
    let text =
        pool(&[&worker], "seqs_max = 1") + &class(rules) + "[progress]\ninterval_ms = 1000\n";
    let house = House::open(&text);
    let mut runs = sent(&house, 1);
    eventually("one runs", || worker.running() == 1);
    let mut stays_silent = sent(&house, 2);
    let streamed = house.client().ask(CHAT, &chat(3, true));
    let text = streamed.text();
    assert_eq!(streamed.status, 200);
    assert_eq!(streamed.header("x-accel-buffering"), Some("no"), "{}", streamed.head);
    assert!(text.starts_with(": queued"), "{text}");
    assert!(text.matches(": queued").count() >= 2, "{text}");
    assert_eq!(streamed.code_in_band().as_deref(), Some("waited_too_long"), "{text}");
    let whole = stays_silent.answer();
    assert_eq!((whole.status, whole.code().as_str()), (503, "waited_too_long"));
    let refused = house.count("forebay_requests_refused_total", "waited_too_long");
    assert_eq!(refused, 2, "both count as refused");
    let_go.send(()).expect("the worker waits");
    assert_eq!(runs.answer().status, 200);
    house.rests();
}

#[test]
fn a_stream_that_was_kept_alive_gets_its_answer_or_its_workers_own_refusal() {
    let (let_go, gate): (Sender<()>, Receiver<()>) = channel();
    let gate = Mutex::new(gate);
    let worker = Stub::start(move |asked, line| {
        let _ = gate.lock().expect("nobody panics").recv_timeout(Duration::from_secs(30));
        if asked.mark() == 3 {
            let refusal = "{\n \"error\": {\"message\": \"too\\nlong\", \"code\": 400}}";
            line.write(&crate::stub::whole(400, "application/json", refusal));
        } else {
            line.answer(asked);
        }
    });
    let text = pool(&[&worker], "seqs_max = 1") + "[progress]\ninterval_ms = 1000\n";
    let house = House::open(&text);
    let mut clients: Vec<Client> = (1..=3)
        .map(|mark| {
            let mut client = house.client();
            client.post(CHAT, &[], chat(mark, mark > 1).as_bytes());
            eventually("it was taken in", || {
                let (waiting, running) = house.load();
                waiting + running == mark
            });
            client
        })
        .collect();
    clients[1].hear(b": queued");
    clients[2].hear(b": queued");
    (0..3).for_each(|_| let_go.send(()).expect("the worker waits"));
    assert_eq!(clients[0].answer().status, 200);
    let text = clients[1].hear(b"[DONE]\n\n");
    assert!(text.contains(crate::stub::TOKEN), "{text}");
    let text = clients[2].hear(b"[DONE]\n\n");
    assert!(text.contains("data: {"), "{text}");
    assert!(text.contains("too\\nlong"), "the worker's own words: {text}");
    house.rests();
    assert_eq!(house.count("forebay_requests_client_faults_total", ""), 1);
    assert_eq!(house.count("forebay_requests_abandoned_total", ""), 0);
}

/// A worker that answers nothing, not even probes, and one client that was told that it waits after
/// that worker was lost; what it reads until the end.
fn lost_while_kept_alive(rules: &str) -> (House, Answer) {
    let worker = Stub::start(|_, line| {
        line.until_left(crate::stub::FOREVER);
    });
    let text = pool(&[&worker], "seqs_max = 1")
        + rules
        + "[progress]\ninterval_ms = 1000\n[limits]\nattempts_max = 9\n\
           [health]\ninterval_ms = 50\ntimeout_ms = 100\nfailures = 1\n";
    let house = House::open(&text);
    let mut client = house.client();
    client.post(CHAT, &[], chat(1, true).as_bytes());
    eventually("it runs", || worker.running() == 1);
    worker.set_well(false);
    eventually("its worker is lost, and it waits again", || house.load() == (1, 0));
    let answer = client.answer();
    (house, answer)
}

#[test]
fn a_stream_that_waits_again_after_its_worker_was_lost_ends_in_band_at_its_classes_limit() {
    let (house, answer) = lost_while_kept_alive(&class("overload = \"queue\"\nwait_ms_max = 2500"));
    assert!(answer.text().matches(": queued").count() >= 2, "{}", answer.text());
    assert_eq!(answer.code_in_band().as_deref(), Some("waited_too_long"), "{}", answer.text());
    assert!(answer.is_whole);
    house.rests();
}

#[test]
fn a_stream_whose_class_has_no_limit_ends_in_band_when_its_time_is_over_in_all() {
    let rules = class("overload = \"queue\"") + "[timeouts]\ntotal_ms_max = 18000\n";
    let (house, answer) = lost_while_kept_alive(&rules);
    assert_eq!(answer.code_in_band().as_deref(), Some("upstream_timeout"), "{}", answer.text());
    assert!(answer.is_whole);
    house.rests();
}

#[test]
fn no_request_takes_longer_than_it_may_in_all_wherever_it_is() {
    let worker = Stub::start(|_, line| {
        line.until_left(crate::stub::FOREVER);
    });
    let total = "[timeouts]\ntotal_ms_max = 700\n";
    let house = House::open(&(pool(&[&worker], "") + total));
    let answer = house.client().ask(CHAT, &chat(1, false));
    assert_eq!((answer.status, answer.code().as_str()), (504, "upstream_timeout"));
    eventually("its worker is told", || worker.running() == 0);
    house.rests();
    let house = House::open(&(pool(&[], "") + total));
    let answer = house.client().ask(CHAT, &chat(2, false));
    assert_eq!((answer.status, answer.code().as_str()), (503, "waited_too_long"));
    house.rests();
}
