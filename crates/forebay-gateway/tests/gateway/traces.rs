//! What a collector hears of requests, what their workers are told, and that no collector, however
//! bad, costs a request anything.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::client::{CHAT, chat};
use crate::collector::{Collector, Span};
use crate::house::{House, SOON, eventually, pool};
use crate::stub::{Asked, FOREVER, Line, Stub, whole};

/// A client's own span.
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// `SpanKind` of the protocol.
const INTERNAL: u64 = 1;
const SERVER: u64 = 2;
const CLIENT: u64 = 3;

fn house(worker: &Stub, otel: &str) -> House {
    House::open(&format!("{}{otel}", pool(&[worker], "")))
}

/// The span of the request itself, those below it checked to be so.
#[track_caller]
fn whole_of(spans: &[Span]) -> &Span {
    let roots: Vec<&Span> = spans.iter().filter(|span| span.kind == SERVER).collect();
    let [root] = roots[..] else { panic!("one span of a server: {spans:#?}") };
    for span in spans.iter().filter(|span| span.kind != SERVER) {
        assert_eq!((&span.parent, &span.trace), (&root.id, &root.trace), "{span:#?}");
        assert!(root.begun <= span.begun && span.ended <= root.ended, "{span:#?}");
        assert!(span.begun <= span.ended && span.flags == 0x101, "{span:#?}");
    }
    root
}

/// Names and outcomes of the parts, in order.
fn parts(spans: &[Span]) -> Vec<(&str, &str)> {
    let parts = spans.iter().filter(|span| span.kind != SERVER);
    parts.map(|span| (span.name.as_str(), span.get("forebay.outcome"))).collect()
}

#[test]
fn a_request_is_a_span_below_its_clients_with_its_wait_and_its_worker_below_it() {
    let (worker, collector) = (Stub::quick(), Collector::open());
    let house = house(&worker, &collector.table("service_name = \"door\""));
    let headers = [("traceparent", PARENT), ("tracestate", "a=1,b=2"), ("x-request-id", "mine")];
    let mut client = house.client();
    client.post(CHAT, &headers, chat(7, true).as_bytes());
    assert_eq!(client.answer().status, 200);
    let spans = collector.wait(3);
    let root = whole_of(&spans);
    assert_eq!((root.name.as_str(), root.service.as_str()), ("POST /v1/chat/completions", "door"));
    assert_eq!(format!("00-{}-{}-01", root.trace, root.parent), PARENT);
    assert_eq!((root.state.as_str(), root.flags, root.status), ("a=1,b=2", 0x301, 0));
    let events: Vec<&str> = root.events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(events, ["dispatched", "first_token"]);
    assert!(root.events.iter().all(|(_, at)| (root.begun..=root.ended).contains(at)));
    for (name, value) in [
        ("http.request.method", "POST"),
        ("http.route", CHAT),
        ("http.response.status_code", "200"),
        ("url.scheme", "http"),
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.request.model", "m"),
        ("gen_ai.usage.output_tokens", "2"),
        ("forebay.outcome", "completed"),
        ("forebay.request_id", "mine"),
        ("forebay.pool", "main"),
        ("forebay.class", "default"),
        ("forebay.attempts", "1"),
        ("forebay.stream", "true"),
        ("forebay.cached_tokens", "0"),
        ("forebay.worker", &worker.url()),
    ] {
        assert_eq!(root.get(name), value, "{name} of {root:#?}");
    }
    assert!(root.get("forebay.queue_wait_s").parse::<f64>().is_ok(), "{root:#?}");
    assert_eq!(root.get("forebay.refusal"), "");
    assert_eq!(parts(&spans), [("queue", "dispatched"), ("upstream", "completed")]);
    let [queue, upstream] = &spans[1..] else { panic!("two parts") };
    assert_eq!((queue.kind, upstream.kind, queue.get("forebay.pool")), (INTERNAL, CLIENT, "main"));
    assert!(queue.ended <= upstream.begun);
    assert_eq!(upstream.get("server.port"), worker.addr.port().to_string());
    assert_eq!(upstream.get("http.response.status_code"), "200");
    // The engine's own spans go below the one of its attempt.
    let asked = worker.asked().pop().expect("it was asked");
    assert_eq!(asked.header("traceparent"), Some(upstream.traceparent().as_str()));
    assert_eq!(asked.header("tracestate"), Some("a=1,b=2"));
    house.rests();
    assert_eq!(house.count("forebay_spans_exported_total", ""), 3);
    assert_eq!(house.count("forebay_spans_dropped_total", ""), 0);
}

#[test]
fn usage_is_told_as_the_worker_tells_it() {
    let (worker, collector) = (Stub::quick(), Collector::open());
    let house = house(&worker, &collector.table(""));
    assert_eq!(house.client().ask(CHAT, &chat(1, false)).status, 200);
    let spans = collector.wait(3);
    let root = whole_of(&spans);
    assert_eq!(root.get("gen_ai.usage.input_tokens"), "5");
    assert_eq!(root.get("gen_ai.usage.output_tokens"), "1");
    assert_eq!(root.service, std::env::var("OTEL_SERVICE_NAME").unwrap_or("forebay".to_owned()));
}

#[test]
fn a_broken_traceparent_is_ignored_and_a_trace_begins_here() {
    let (worker, collector) = (Stub::quick(), Collector::open());
    let house = house(&worker, &collector.table(""));
    let broken = PARENT.replace("-01", "-0g");
    let cases = [vec![], vec![("traceparent", broken.as_str()), ("tracestate", "a=1")]];
    for (nth, headers) in cases.iter().enumerate() {
        let mut client = house.client();
        client.post(CHAT, headers, chat(nth, false).as_bytes());
        assert_eq!(client.answer().status, 200);
        let spans = collector.wait(3 * (nth + 1));
        let spans = &spans[3 * nth..];
        let root = whole_of(spans);
        assert_eq!((root.parent.as_str(), root.state.as_str(), root.flags), ("", "", 0x101));
        assert!(!PARENT.contains(&root.trace));
        let asked = worker.asked().pop().expect("it was asked");
        assert_eq!(asked.header("traceparent"), Some(spans[2].traceparent().as_str()));
        assert_eq!(asked.header("tracestate"), None, "it was of no trace");
    }
}

#[test]
fn what_the_client_or_the_ratio_leaves_out_is_not_sent_and_its_worker_hears_of_that() {
    let (worker, collector) = (Stub::quick(), Collector::open());
    let house = house(&worker, &collector.table("sample_ratio = 0"));
    let told = |headers: &[(&str, &str)]| {
        let mut client = house.client();
        client.post(CHAT, headers, chat(1, false).as_bytes());
        assert_eq!(client.answer().status, 200);
        let asked = worker.asked().pop().expect("it was asked");
        asked.header("traceparent").map(str::to_owned)
    };
    let off = PARENT.replace("-01", "-00");
    assert_eq!(told(&[("traceparent", &off)]), Some(off), "it passes as it came");
    let own = told(&[]).expect("the worker is told that this one is not kept");
    assert!(own.len() == PARENT.len() && own.ends_with("-00"), "{own}");
    // The client has decided for this one, whatever the ratio; it comes last.
    told(&[("traceparent", PARENT)]);
    let spans = collector.wait(3);
    assert!(PARENT.contains(&whole_of(&spans).trace));
}

#[test]
fn each_attempt_has_a_span_and_each_worker_is_told_its_own() {
    let full = |_: &Asked, line: &mut Line| {
        line.write(&whole(503, "text/plain", "full"));
    };
    let (busy, free, collector) = (Stub::start(full), Stub::quick(), Collector::open());
    let text = pool(&[&busy, &free], "mode = \"round-robin\"");
    let house = House::open(&format!("{text}{}", collector.table("")));
    let mut client = house.client();
    for mark in 0..2 {
        assert_eq!(client.ask(CHAT, &chat(mark, false)).status, 200);
    }
    eventually("the second attempt is told", || collector.spans().len() >= 8);
    let all = collector.spans();
    let refused = all.iter().find(|span| span.get("forebay.outcome") == "backpressure");
    let trace = &refused.expect("one was sent to the busy worker").trace;
    let spans: Vec<Span> = all.iter().filter(|span| span.trace == *trace).cloned().collect();
    let root = whole_of(&spans);
    assert_eq!((root.get("forebay.attempts"), root.status), ("2", 0));
    let expected = [
        ("queue", "dispatched"),
        ("upstream", "backpressure"),
        ("queue", "dispatched"),
        ("upstream", "completed"),
    ];
    assert_eq!(parts(&spans), expected);
    assert_eq!(spans[4].get("http.request.resend_count"), "1");
    let told = |worker: &Stub| worker.asked().pop()?.header("traceparent").map(str::to_owned);
    assert_eq!(told(&busy), Some(spans[2].traceparent()));
    assert!(
        free.asked()
            .iter()
            .any(|asked| { asked.header("traceparent") == Some(spans[4].traceparent().as_str()) })
    );
}

#[test]
fn a_refusal_a_failure_and_a_client_that_goes_are_told_apart() {
    let (mut worker, collector) = (
        Stub::start(|_: &Asked, line: &mut Line| {
            line.until_left(FOREVER);
        }),
        Collector::open(),
    );
    let house = house(&worker, &collector.table(""));
    let mut client = house.client();
    assert_eq!(client.ask(CHAT, "{").status, 400);
    let spans = collector.wait(1);
    let root = whole_of(&spans);
    assert_eq!(
        (root.get("forebay.outcome"), root.get("forebay.refusal")),
        ("refused", "invalid_request")
    );
    assert_eq!((root.get("http.response.status_code"), root.status), ("400", 0));
    client.post(CHAT, &[], chat(1, false).as_bytes());
    eventually("the worker has it", || worker.running() == 1);
    drop(client);
    let spans = collector.wait(4);
    let spans = &spans[1..];
    let root = whole_of(spans);
    assert_eq!((root.get("forebay.outcome"), root.status), ("abandoned", 0));
    assert_eq!(root.get("http.response.status_code"), "", "its client saw none");
    assert_eq!(parts(spans), [("queue", "dispatched"), ("upstream", "abandoned")]);
    let mut client = house.client();
    client.post(CHAT, &[], chat(2, false).as_bytes());
    eventually("the worker has it", || worker.calls() == 2);
    worker.kill();
    let status = client.answer().status;
    assert!(status >= 500, "{status}");
    eventually("its span is here", || {
        collector.spans()[4..].iter().any(|span| span.kind == SERVER)
    });
    let spans = collector.spans().split_off(4);
    let root = whole_of(&spans);
    assert_eq!(
        (root.status, root.get("http.response.status_code")),
        (2, status.to_string().as_str())
    );
    assert_eq!(root.get("error.type"), root.get("forebay.refusal"));
    assert!(
        parts(&spans).contains(&("upstream", "broke"))
            || parts(&spans).contains(&("upstream", "lost")),
        "{spans:#?}"
    );
}

#[test]
fn no_text_no_key_and_no_tenant_reaches_the_collector() {
    // `printf %s sk-hunter2 | sha256sum`
    let digest = "af859d6b590634760fbc8e94c80561de87229c84263cf8730e824402a6021716";
    let (worker, collector) = (Stub::quick(), Collector::open());
    let tenant = "[[tenant]]\nname = \"secret-agency\"\n";
    let key = format!("[[key]]\nsha256 = \"{digest}\"\ntenant = \"secret-agency\"\n");
    let house = house(&worker, &format!("{tenant}{key}{}", collector.table("")));
    let body = chat(1, false).replace("mark 1", "hunter1 mark 1");
    assert!(body.contains("hunter1"));
    for (bearer, status, spans) in [("sk-hunter2", 200, 3), ("hunter3", 401, 4)] {
        let bearer = format!("Bearer {bearer}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("x-session-id", "hunter4"),
            ("user-agent", "hunter5"),
        ];
        let mut client = house.client();
        client.post(CHAT, &headers, body.as_bytes());
        assert_eq!(client.answer().status, status);
        collector.wait(spans);
    }
    for asked in collector.0.asked() {
        let text = String::from_utf8_lossy(&asked.body).into_owned() + &asked.head;
        for secret in ["hunter", "secret-agency", digest, "anonymous", "\"x\""] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
    let allowed = ["error.", "forebay.", "gen_ai.", "http.", "server.", "url."];
    for span in collector.spans() {
        for name in span.names() {
            assert!(allowed.iter().any(|start| name.starts_with(start)), "{name}");
        }
    }
}

#[test]
fn headers_for_the_collector_are_sent_along() {
    let (worker, collector) = (Stub::quick(), Collector::open());
    let file = crate::house::folder("otel").join("headers");
    std::fs::write(&file, "authorization: Bearer sk-collector\n").expect("it is ours");
    let table = collector.table(&format!("headers_file = \"{}\"", file.display()));
    let house = house(&worker, &table);
    assert_eq!(house.client().ask(CHAT, &chat(1, false)).status, 200);
    collector.wait(3);
    let asked = collector.0.asked().pop().expect("it was posted to");
    assert_eq!(asked.header("authorization"), Some("Bearer sk-collector"));
    assert_eq!(asked.header("host"), Some(collector.0.addr.to_string().as_str()));
    assert_eq!(worker.asked().pop().expect("it was asked").header("authorization"), None);
}

#[test]
fn what_waits_to_be_sent_is_sent_when_the_gateway_stops() {
    let (worker, collector) = (Stub::quick(), Collector::open());
    let table = collector.table("").replace("interval_ms = 5", "interval_ms = 60000");
    let house = house(&worker, &table);
    let mut client = house.client();
    for mark in 0..20 {
        assert_eq!(client.ask(CHAT, &chat(mark, false)).status, 200);
    }
    assert_eq!(collector.0.calls(), 0, "the interval is not over");
    drop(client);
    house.stop();
    assert_eq!(collector.spans().len(), 60);
}

#[test]
fn a_collector_that_is_not_there_costs_spans_and_no_request() {
    // A port where nobody listens: bound, and given back.
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let addr = nobody.local_addr().expect("it is bound");
    drop(nobody);
    let worker = Stub::quick();
    let table = "interval_ms = 1\nqueue_len_max = 4\nbatch_len_max = 2\n";
    let house = house(&worker, &format!("[otel]\nendpoint = \"http://{addr}\"\n{table}"));
    let mut client = house.client();
    for mark in 0..30 {
        assert_eq!(client.ask(CHAT, &chat(mark, false)).status, 200);
    }
    house.rests();
    // At most two are in the batch that is tried, and four in the queue.
    let dropped = house.count("forebay_spans_dropped_total", "");
    assert!(dropped >= 3 * (30 - 2 - 4), "{dropped}");
    assert_eq!(house.count("forebay_spans_exported_total", ""), 0);
    drop(client);
    assert!(house.stop().took < SOON);
}

#[test]
fn a_collector_that_stalls_costs_spans_and_no_request_and_the_stop_does_not_wait_for_it() {
    let worker = Stub::quick();
    let collector = Collector(Stub::start(|_: &Asked, line: &mut Line| {
        line.until_left(FOREVER);
    }));
    let keys = "timeout_ms = 60000\nqueue_len_max = 4\nbatch_len_max = 1";
    let house = house(&worker, &collector.table(keys));
    let mut client = house.client();
    assert_eq!(client.ask(CHAT, &chat(0, false)).status, 200);
    eventually("the collector has the first", || collector.0.running() == 1);
    for mark in 1..20 {
        assert_eq!(client.ask(CHAT, &chat(mark, false)).status, 200);
    }
    house.rests();
    let dropped = house.count("forebay_spans_dropped_total", "queue_full");
    assert_eq!(dropped, 3 * (19 - 4), "four wait, and one is with the collector");
    drop(client);
    assert!(house.stop().took < SOON, "it does not wait for the bound of a batch");
}

#[test]
fn what_is_refused_for_now_is_sent_again_and_what_is_refused_for_good_is_not() {
    let worker = Stub::quick();
    for (first, calls) in [(503, 2), (429, 2), (400, 1), (401, 1)] {
        let nth = AtomicUsize::new(0);
        let collector = Collector(Stub::start(move |_: &Asked, line: &mut Line| {
            let status = if nth.fetch_add(1, Ordering::SeqCst) == 0 { first } else { 200 };
            line.write(&whole(status, "text/plain", "no"));
        }));
        let house = house(&worker, &collector.table(""));
        assert_eq!(house.client().ask(CHAT, &chat(1, false)).status, 200);
        let metric = if calls == 2 { "exported_total" } else { "dropped_total" };
        eventually("it is counted", || house.count(&format!("forebay_spans_{metric}"), "") == 3);
        let asked = collector.0.asked();
        assert_eq!(asked.len(), calls, "{first}");
        assert!(asked.iter().all(|it| it.body == asked[0].body), "{first}");
        house.stop();
    }
}
