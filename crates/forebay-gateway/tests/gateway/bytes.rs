//! What passes through: the same bytes both ways, with the worker's own host on the way in.

use std::net::{Ipv6Addr, SocketAddr};

use crate::client::{CHAT, chat};
use crate::house::{House, pool};
use crate::stub::{LAST, Stub, TOKEN, stream, whole};

/// Every mode that can be configured.
const MODES: [&str; 11] = [
    "hold",
    "hold:first-come",
    "round-robin",
    "random",
    "power-of-two",
    "least-loaded",
    "least-work",
    "session",
    "kv:dynamo-1.2",
    "kv:dynamo-1.2-wspt",
    "kv:dynamo-1.6",
];

/// A body that no type of ours would write again like this.
const STRANGE: &str = "{ \"z\":1,  \"model\" : \"m\",\t\"messages\":[{\"role\":\"user\",\
    \"content\":\"h\\u00e9\\ud83d\\ude00\"}],\n \"x_future\":{\"a\":1.0,\"b\":12345678901234567890,\
    \"b\":1e400},\"chat_template_kwargs\":{\"thinking\":false},\"max_completion_tokens\":7,\
    \"max_tokens\":9,\"top_k\":-1,\"stream_options\":{\"include_usage\":false,\"x\":[]},\
    \"logit_bias\":{\"50256\":-100}}  ";

#[test]
fn a_body_reaches_its_worker_byte_for_byte_whatever_is_in_it() {
    let worker = Stub::quick();
    let house = House::pool(&[&worker], "");
    let streamed = STRANGE.replacen("\"z\":1", "\"stream\":true", 1);
    let off = STRANGE.replacen("\"z\":1", "\"stream\":false", 1);
    let null = STRANGE.replacen("\"z\":1", "\"stream\":null", 1);
    let mut client = house.client();
    for body in [STRANGE, &streamed, &off, &null] {
        let answer = client.ask(CHAT, body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let asked = worker.asked().pop().expect("it was asked");
        assert_eq!(String::from_utf8_lossy(&asked.body), body);
    }
    house.rests();
}

#[test]
fn an_answer_reaches_its_client_byte_for_byte_whatever_is_in_it() {
    let document = "{ \"a\" : 12345678901234567890,\n\t\"choices\":[],  \"usage\":null }\r\n";
    let events =
        format!("data: {TOKEN}\r\n\r\n\u{feff}: x\ndata:{LAST}\n\nid: 7\ndata: [DONE]\n\n");
    let sent = events.clone();
    let worker = Stub::start(move |asked, line| {
        if asked.wants_stream() {
            line.write(&crate::stub::stream_of(sent.as_bytes()));
        } else {
            line.write(&whole(200, "application/json", document));
        }
    });
    let house = House::pool(&[&worker], "");
    let mut client = house.client();
    assert_eq!(client.ask(CHAT, &chat(1, false)).text(), document);
    assert_eq!(client.ask(CHAT, &chat(2, true)).text(), events);
    house.rests();
}

#[test]
fn a_worker_is_called_by_its_own_host_and_the_other_headers_pass() {
    let worker = Stub::quick();
    let house = House::pool(&[&worker], "");
    let mut client = house.client();
    let headers = [
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("x-request-id", "mine-7"),
        ("x-future", "a, b"),
        ("connection", "keep-alive, x-hop"),
        ("x-hop", "1"),
    ];
    client.post("/v1/chat/completions?a=%20b", &headers, chat(1, false).as_bytes());
    let answer = client.answer();
    assert_eq!(answer.header("x-request-id"), Some("mine-7"));
    let asked = worker.asked().pop().expect("it was asked");
    assert_eq!(asked.path, "/v1/chat/completions?a=%20b");
    assert_eq!(asked.header("host"), Some(worker.addr.to_string().as_str()));
    for (name, value) in &headers[..3] {
        assert_eq!(asked.header(name), Some(*value), "{name}");
    }
    assert_eq!(asked.header("x-hop"), None, "it is of the client's connection");
    assert_eq!(asked.header("content-type"), None, "none was given");
}

#[test]
fn a_worker_behind_an_ipv6_address_is_reached_and_named_with_its_brackets() {
    let addr = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    if std::net::TcpListener::bind(addr).is_err() {
        return crate::house::say("nothing: this machine has no IPv6");
    }
    let worker = Stub::on(addr, |asked, line| line.answer(asked));
    let text = pool(&[&worker], "");
    let listening = "[listen]\naddress = \"[::1]:0\"\nthreads = 1\n";
    let file = std::path::Path::new("forebay.toml");
    let config = forebay_gateway::config::Config::parse(file, &format!("{listening}{text}"));
    let house = House::of(config.expect("it is sound"), None);
    assert_eq!(house.client().ask(CHAT, &chat(1, false)).status, 200);
    let asked = worker.asked().pop().expect("it was asked");
    let authority = format!("[::1]:{}", worker.addr.port());
    assert_eq!(asked.header("host"), Some(authority.as_str()));
    let page = house.get("/metrics");
    assert!(page.contains(&format!("worker=\"http://{authority}\"")), "{page}");
}

#[test]
fn a_prompt_is_routed_in_every_form_and_mode_and_never_costs_a_500() {
    let prompts = ["[1,2,3,4]", "[\"a\",\"b\"]", "[[1,2],[3]]", "\"\"", "[]", "\"text\"", "null"];
    for mode in MODES {
        let workers = [Stub::quick(), Stub::quick()];
        let house = House::pool(&[&workers[0], &workers[1]], &format!("mode = \"{mode}\""));
        let mut client = house.client();
        for prompt in prompts {
            for (path, key) in [("/v1/completions", "prompt"), ("/v1/embeddings", "input")] {
                let body = format!("{{\"model\":\"m\",\"{key}\":{prompt},\"max_tokens\":4}}");
                let answer = client.ask(path, &body);
                assert_eq!(answer.status, 200, "{mode} {path} {prompt}: {}", answer.text());
            }
        }
        house.rests();
    }
}

#[test]
fn stream_options_are_the_clients_and_a_400_about_them_is_relayed() {
    let refusal =
        r#"{"error":{"message":"Stream options can only be defined when `stream=True`."}}"#;
    let worker = Stub::start(move |asked, line| {
        let text = String::from_utf8_lossy(&asked.body).into_owned();
        if text.contains("stream_options") && !asked.wants_stream() {
            line.write(&whole(400, "application/json", refusal));
        } else {
            line.answer(asked);
        }
    });
    let house = House::pool(&[&worker], "");
    let mut client = house.client();
    for stream in ["", "\"stream\":false,", "\"stream\":null,"] {
        let body = chat(1, false).replace("\"stream\":false,", stream);
        assert_eq!(client.ask(CHAT, &body).status, 200, "none was added: {stream}");
        let wrong = body.replace("\"model\"", "\"stream_options\":{},\"model\"");
        let answer = client.ask(CHAT, &wrong);
        assert_eq!((answer.status, answer.text().as_str()), (400, refusal));
    }
    let body = chat(1, true).replace("\"model\"", "\"stream_options\":{},\"model\"");
    assert_eq!(client.ask(CHAT, &body).status, 200, "the 400s closed no worker");
    assert_eq!(house.count("forebay_requests_client_faults_total", ""), 3);
    assert_eq!(house.count("forebay_requests_failed_total", ""), 0);
    house.rests();
}

#[test]
fn a_usage_chunk_passes_only_because_the_worker_sent_it() {
    let usage = r#"{"id":"c","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}"#;
    let worker = Stub::start(move |asked, line| {
        let text = String::from_utf8_lossy(&asked.body).into_owned();
        let with_usage = [TOKEN, TOKEN, LAST, usage, "[DONE]"];
        let without = [TOKEN, TOKEN, LAST, "[DONE]"];
        let asks = text.contains("\"include_usage\":true");
        line.write(&if asks { stream(&with_usage) } else { stream(&without) });
    });
    let house = House::pool(&[&worker], "");
    let mut client = house.client();
    let plain = client.ask(CHAT, &chat(1, true)).text();
    assert!(!plain.contains("usage"), "{plain}");
    let body = chat(1, true);
    let body = body.replace("\"model\"", "\"stream_options\":{\"include_usage\":true},\"model\"");
    let told = client.ask(CHAT, &body).text();
    assert!(told.contains(usage), "{told}");
    house.rests();
}

#[test]
fn one_limit_holds_for_bodies_on_every_endpoint_and_what_is_over_it_is_counted() {
    let worker = Stub::quick();
    let text = "body_bytes_max = 4000000\n".to_owned() + &pool(&[&worker], "");
    let house = House::open(&text);
    let body = |length: usize| {
        let around = chat(1, false).len();
        chat(1, false).replace("mark 1", &format!("mark 1{}", "x".repeat(length - around)))
    };
    let paths = [CHAT, "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/rerank"];
    for path in paths {
        for (length, status) in [(1_900_000, 200), (4_000_000, 200), (4_000_001, 413)] {
            let body = body(length);
            assert_eq!(body.len(), length);
            let answer = house.client().ask(path, &body);
            assert_eq!(answer.status, status, "{path} {length}");
            if status == 413 {
                assert_eq!(answer.code(), "body_too_large");
                assert!(answer.text().contains("\"limit\":4000000"), "{}", answer.text());
            }
        }
    }
    let refused = house.metric("forebay_requests_refused_total", "body_too_large");
    assert_eq!(refused as usize, paths.len());
    house.rests();
}
