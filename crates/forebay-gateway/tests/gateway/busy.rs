//! Workers' own refusals and errors: a busy worker is not a dead one, a request's own fault is the
//! client's to hear, and what breaks is tried elsewhere once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::client::{CHAT, chat};
use crate::house::{House, pool};
use crate::stub::{Stub, whole};

/// Says that it is busy for so many requests, and answers those after.
fn busy_for(requests: usize, status: u16) -> Stub {
    let left = Arc::new(AtomicUsize::new(requests));
    Stub::start(move |asked, line| {
        let take = |left: usize| left.checked_sub(1);
        if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
            let busy = format!(
                "HTTP/1.1 {status} X\r\nretry-after: 3600\r\ncontent-length: 4\r\n\r\nbusy"
            );
            line.write(busy.as_bytes());
        } else {
            line.answer(asked);
        }
    })
}

#[test]
fn a_busy_worker_costs_time_and_no_answer_and_stays_in_use() {
    for status in [429, 503] {
        // More often than a request may be broken, since nothing broke.
        let worker = busy_for(5, status);
        let text = pool(&[&worker], "") + "[limits]\nmark_ms = 50\n";
        let house = House::recorded(&text);
        let answer = house.client().ask(CHAT, &chat(1, false));
        assert_eq!(answer.status, 200, "{status}: {}", answer.text());
        assert_eq!(worker.calls(), 6);
        assert_eq!(house.client().ask(CHAT, &chat(2, true)).status, 200);
        assert_eq!(house.count("forebay_requests_failed_total", ""), 0);
        house.rests();
        house.stop().replays();
    }
}

#[test]
fn a_busy_worker_sends_its_requests_to_another_one() {
    let (busy, free) = (busy_for(usize::MAX, 503), Stub::quick());
    let house = House::pool(&[&busy, &free], "mode = \"round-robin\"");
    for nth in 0..6 {
        let answer = house.client().ask(CHAT, &chat(nth, nth.is_multiple_of(2)));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert!(busy.calls() > 0 && free.calls() == 6);
    house.rests();
}

#[test]
fn workers_that_are_all_busy_are_not_asked_in_a_hot_loop() {
    let worker = busy_for(usize::MAX, 503);
    let text = pool(&[&worker], "")
        + "[limits]\nmark_ms = 200\n[[class]]\nname = \"a\"\noverload = \"queue\"\n\
           wait_ms_max = 1500\n";
    let house = House::open(&text);
    let answer = house.client().ask(CHAT, &chat(1, false));
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.header("retry-after").is_some_and(|it| it != "3600"), "{}", answer.head);
    assert!(worker.calls() < 40, "it was asked {} times", worker.calls());
    house.rests();
}

#[test]
fn what_a_worker_says_of_the_request_itself_is_relayed_and_not_tried_again() {
    for status in [400, 401, 404, 413, 415, 422] {
        let body = format!("{{\"error\":{{\"message\":\"{status} of the worker\"}}}}");
        let theirs = body.clone();
        let worker = Stub::start(move |_, line| {
            line.write(&whole(status, "application/json", &theirs));
        });
        let quick = Stub::quick();
        let house = House::pool(&[&worker, &quick], "mode = \"round-robin\"");
        for nth in 0..4 {
            let answer = house.client().ask(CHAT, &chat(nth, nth.is_multiple_of(2)));
            let expected = if answer.status == 200 { answer.text() } else { body.clone() };
            assert_eq!(answer.text(), expected);
        }
        assert_eq!(worker.calls(), 2, "{status} closes no worker and is not repeated");
        assert_eq!(house.count("forebay_requests_client_faults_total", ""), 2);
        house.rests();
    }
}

#[test]
fn an_error_of_a_worker_is_tried_elsewhere_once_and_then_relayed() {
    for status in [500, 502, 504] {
        let failing = move |_: &crate::stub::Asked, line: &mut crate::stub::Line| {
            line.write(&whole(status, "application/json", "{\"error\":{\"message\":\"mine\"}}"));
        };
        let (first, second) = (Stub::start(failing), Stub::quick());
        let house = House::pool(&[&first, &second], "mode = \"round-robin\"");
        let answer = house.client().ask(CHAT, &chat(1, false));
        let again = house.client().ask(CHAT, &chat(2, true));
        assert_eq!((answer.status, again.status), (200, 200), "{status}");
        assert!(first.calls() > 0);
        house.rests();
        let (first, second) = (Stub::start(failing), Stub::start(failing));
        let house = House::pool(&[&first, &second], "mode = \"round-robin\"");
        let answer = house.client().ask(CHAT, &chat(1, false));
        assert_eq!((answer.status, answer.text().contains("mine")), (status, true));
        assert_eq!(first.calls() + second.calls(), 2, "{status}");
        assert_eq!(house.count("forebay_requests_failed_total", "upstream_failed"), 1);
        house.rests();
    }
}

#[test]
fn retries_of_a_tenant_end_with_its_budget() {
    let closing = |_: &crate::stub::Asked, line: &mut crate::stub::Line| line.hang_up();
    let (first, second) = (Stub::start(closing), Stub::start(closing));
    let text = pool(&[&first, &second], "mode = \"round-robin\"")
        + "[retries]\nbudget_floor = 3\nbudget_share = 0\n[limits]\nmark_ms = 1\n";
    let house = House::open(&text);
    for nth in 0..20 {
        let answer = house.client().ask(CHAT, &chat(nth, false));
        assert!(matches!(answer.status, 502 | 503), "{}: {}", answer.status, answer.text());
        thread::sleep(Duration::from_millis(5));
    }
    let retries = house.metric("forebay_request_retries_total", "");
    assert!(retries <= 3.0, "{retries} retries of 3");
    let calls = first.calls() + second.calls();
    assert!(calls <= 23, "20 requests became {calls}");
    house.rests();
}

#[test]
fn an_idle_connection_that_its_worker_has_closed_costs_nothing() {
    let worker = Stub::start(|asked, line| {
        line.answer(asked);
        if asked.mark() % 2 == 0 {
            // As servers do with connections that were idle for too long.
            thread::sleep(Duration::from_millis(30));
            line.hang_up();
        }
    });
    let house = House::pool(&[&worker], "");
    let mut client = house.client();
    for nth in 0..20 {
        let answer = client.ask(CHAT, &chat(nth, false));
        assert_eq!(answer.status, 200, "{nth}: {}", answer.text());
        thread::sleep(Duration::from_millis([0, 20, 30, 40][nth % 4]));
    }
    assert_eq!(house.count("forebay_requests_completed_total", ""), 20);
    house.rests();
}
