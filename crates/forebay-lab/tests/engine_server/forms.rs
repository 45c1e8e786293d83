//! Compares the forms of answers with captured ones, and what they say with each other.

use serde_json::{Value, json};

use crate::client::{Engines, ask, exchange, read_events};

/// A chat of one message.
fn chat(more: &str) -> String {
    format!(r#"{{"messages": [{{"role": "user", "content": "how full is the basin?"}}]{more}}}"#)
}

/// A text in which every string that is no key and every number is replaced, so that the form is
/// left: fields, their order, and what is null.
fn form(text: &str) -> String {
    let mut form = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let mut end = 1;
            while !rest[end..].starts_with('"') {
                end += if rest[end..].starts_with('\\') { 2 } else { 1 };
                while !rest.is_char_boundary(end) {
                    end += 1;
                }
            }
            let (string, after) = rest.split_at(end + 1);
            form.push_str(if after.starts_with(':') { string } else { "S" });
            rest = after;
        } else if first.is_ascii_digit() {
            let digits = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
            form.push('N');
            rest = digits;
        } else {
            form.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    while form.contains("N,N") {
        form = form.replace("N,N", "N");
    }
    form
}

/// The forms of a stream's events, each once for however many there are in a row.
fn forms(text: &str) -> Vec<String> {
    let mut forms: Vec<_> = text.split("\n\n").map(form).collect();
    forms.dedup();
    forms
}

#[test]
fn whole_answers_have_the_captured_form() {
    let engines = Engines::start(|_| {});
    let answer = engines.post("/v1/chat/completions", &chat(r#", "max_tokens": 8"#));
    let captured = include_str!("../../src/engine_server/captured/chat.json");
    assert_eq!(form(&answer.body), form(captured.trim_end()));
    let ids = chat(r#", "max_tokens": 8, "return_token_ids": true"#);
    let answer = engines.post("/v1/chat/completions", &ids);
    let captured = include_str!("../../src/engine_server/captured/chat_token_ids.json");
    assert_eq!(form(&answer.body), form(captured.trim_end()));
    let body = r#"{"prompt": [1, 2, 3], "max_tokens": 4, "ignore_eos": true}"#;
    let answer = engines.post("/v1/completions", body);
    let captured = include_str!("../../src/engine_server/captured/completion.json");
    assert_eq!(form(&answer.body), form(captured.trim_end()));
    let head: Vec<_> = answer.head.lines().collect();
    for line in ["HTTP/1.1 200 OK", "server: uvicorn", "content-type: application/json"] {
        assert!(head.contains(&line), "{head:?}");
    }
}

#[test]
fn streams_have_the_captured_form() {
    // In real time, so that a busy machine does not put all tokens into one event.
    let engines = Engines::start(|options| options.speed = 1.0);
    let long = r#", "max_tokens": 10, "ignore_eos": true, "stream": true"#;
    let with_usage = r#", "stream_options": {"include_usage": true}"#;
    let always = r#", "stream_options": {"include_usage": true, "continuous_usage_stats": true}"#;
    for (more, captured) in [
        ("", include_str!("../../src/engine_server/captured/chat_stream_no_usage.txt")),
        (with_usage, include_str!("../../src/engine_server/captured/chat_stream.txt")),
        (always, include_str!("../../src/engine_server/captured/chat_stream_continuous_usage.txt")),
    ] {
        let answer = engines.post("/v1/chat/completions", &chat(&format!("{long}{more}")));
        assert!(answer.is_whole);
        assert!(answer.head.contains("content-type: text/event-stream; charset=utf-8"));
        assert_eq!(forms(&answer.body), forms(captured));
    }
    let body = format!(r#"{{"prompt": "a b c"{long}{with_usage}}}"#);
    let answer = engines.post("/v1/completions", &body);
    let captured = include_str!("../../src/engine_server/captured/completion_stream.txt");
    assert_eq!(forms(&answer.body), forms(captured));
}

#[test]
fn the_other_paths_have_the_captured_form() {
    let engines = Engines::start(|_| {});
    let captured = include_str!("../../src/engine_server/captured/models.json");
    assert_eq!(form(&engines.get("/v1/models").body), form(captured.trim_end()));
    let body = r#"{"prompt": "hello wide world", "return_token_strs": true}"#;
    let answer = engines.post("/tokenize", body).body;
    assert!(answer.contains(r#""token_strs":["hello","Ġwide","Ġworld"]"#), "{answer}");
    let tokens: Value = serde_json::from_str(&answer).expect("it is JSON");
    let body = json!({ "tokens": tokens["tokens"] }).to_string();
    assert_eq!(engines.post("/detokenize", &body).body, r#"{"prompt":"hello wide world"}"#);
    assert_eq!(engines.get("/version").body, r#"{"version":"0.32.0"}"#);
    assert_eq!(engines.get("/load").body, r#"{"server_load":0}"#);
    for path in ["/health", "/ping"] {
        let answer = engines.get(path);
        assert_eq!((answer.status, answer.body.as_str(), answer.is_whole), (200, "", true));
    }
    let answer = engines.get("/v1/nope");
    assert_eq!((answer.status, answer.body.as_str()), (404, r#"{"detail":"Not Found"}"#));
    let answer = engines.get("/v1/completions");
    assert_eq!((answer.status, answer.head.contains("allow: POST")), (405, true));
}

#[test]
fn usage_counts_what_tokenize_counts_and_a_prompt_sent_again_is_cached() {
    let engines = Engines::start(|_| {});
    let prompt = (0..1_000).map(|nth| format!(" token{nth}")).collect::<Vec<_>>().concat();
    let body = json!({ "prompt": prompt, "max_tokens": 5, "ignore_eos": true }).to_string();
    let usage = || {
        let answer = engines.post("/v1/completions", &body);
        let answer: Value = serde_json::from_str(&answer.body).expect("it is JSON");
        answer["usage"].clone()
    };
    let first = usage();
    assert_eq!((&first["prompt_tokens"], &first["completion_tokens"]), (&json!(1_000), &json!(5)));
    assert_eq!(first["prompt_tokens_details"]["cached_tokens"], json!(0));
    assert_eq!(usage()["prompt_tokens_details"]["cached_tokens"], json!(15 * 64));
    let answer = engines.post("/tokenize", &json!({ "prompt": prompt }).to_string());
    assert!(answer.body.contains(r#""count":1000,"max_model_len":112576"#), "{}", answer.body);
    assert_eq!(engines.post("/reset_prefix_cache", "").body, r#"{"success":true}"#);
    assert_eq!(usage()["prompt_tokens_details"]["cached_tokens"], json!(0));
}

#[test]
fn every_worker_gives_the_same_answer_to_the_same_prompt_and_seed() {
    let engines = Engines::start(|options| options.workers = 2);
    let other = Engines::start(|options| options.seed = 2);
    let text = |addr, more: &str| {
        let body = chat(&format!(r#", "max_tokens": 30{more}"#));
        let answer = exchange(addr, "POST", "/v1/chat/completions", body.as_bytes());
        let answer: Value = serde_json::from_str(&answer.body).expect("it is JSON");
        answer["choices"][0]["message"]["content"].as_str().expect("it is a text").to_owned()
    };
    let [one, two] = engines.server().addrs() else { panic!("there are two") };
    assert_eq!(text(*one, ""), text(*two, ""));
    assert_ne!(text(*one, ""), text(*one, r#", "seed": 9"#));
    assert_ne!(text(*one, ""), text(other.addr(), ""));
}

#[test]
fn a_stream_says_what_a_whole_answer_says() {
    let engines = Engines::start(|_| {});
    let whole = engines.post("/v1/chat/completions", &chat(r#", "n": 2"#));
    let whole: Value = serde_json::from_str(&whole.body).expect("it is JSON");
    let streamed = engines.post("/v1/chat/completions", &chat(r#", "n": 2, "stream": true"#));
    for nth in 0..2 {
        let mut text = String::new();
        for event in streamed.events() {
            let event: Value = serde_json::from_str(event).unwrap_or_default();
            let choice = &event["choices"][0];
            if choice["index"] == json!(nth) {
                text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
            }
        }
        assert_eq!(json!(text), whole["choices"][nth]["message"]["content"]);
    }
}

#[test]
fn several_prompts_get_an_answer_each_in_their_order() {
    let engines = Engines::start(|_| {});
    let body = r#"{"prompt": [[1, 2], [3]], "n": 2, "max_tokens": 3, "ignore_eos": true}"#;
    let answer: Value =
        serde_json::from_str(&engines.post("/v1/completions", body).body).expect("it is JSON");
    let choices = answer["choices"].as_array().expect("it is a list");
    let places: Vec<_> = choices.iter().map(|choice| choice["index"].as_u64()).collect();
    assert_eq!(places, [0, 1, 2, 3].map(Some));
    assert_eq!(answer["usage"]["prompt_tokens"], json!(3));
    assert_eq!(answer["usage"]["completion_tokens"], json!(12));
}

#[test]
fn embeddings_come_as_numbers_or_as_the_clients_want_them() {
    let engines = Engines::start(|_| {});
    let answer = engines.post("/v1/embeddings", r#"{"input": ["a b", "c"], "dimensions": 3}"#);
    let answer: Value = serde_json::from_str(&answer.body).expect("it is JSON");
    assert_eq!(answer["data"][1]["embedding"].as_array().map(Vec::len), Some(3));
    assert_eq!(answer["usage"]["prompt_tokens"], json!(3));
    let body = r#"{"input": "a b", "dimensions": 3, "encoding_format": "base64"}"#;
    let answer: Value =
        serde_json::from_str(&engines.post("/v1/embeddings", body).body).expect("it is JSON");
    assert_eq!(answer["data"][0]["embedding"].as_str().map(str::len), Some(16));
}

#[test]
fn a_slow_reader_gets_in_one_event_what_it_missed() {
    let engines = Engines::start(|options| options.speed = 20_000.0);
    let body = chat(r#", "max_tokens": 20000, "ignore_eos": true, "stream": true"#);
    let mut stream = ask(engines.addr(), "POST", "/v1/chat/completions", body.as_bytes());
    read_events(&mut stream, 1);
    engines.wait_until_idle();
    let text = String::from_utf8(crate::client::read_all(stream)).expect("it is text");
    assert!(text.ends_with("0\r\n\r\n"));
    assert!(text.matches("data: ").count() < 20_000, "every token was kept");
}

#[test]
fn hundreds_at_once_are_all_served() {
    let engines = Engines::start(|_| {});
    let addr = engines.addr();
    let threads: Vec<_> = (0..300)
        .map(|nth| {
            std::thread::spawn(move || {
                let body = format!(
                    r#"{{"prompt": [{nth}, 1, 2], "max_tokens": 50, "ignore_eos": true,
                         "stream": {}}}"#,
                    nth % 2 == 0
                );
                exchange(addr, "POST", "/v1/completions", body.as_bytes())
            })
        })
        .collect();
    for thread in threads {
        let answer = thread.join().expect("it answers");
        assert!(answer.status == 200 && answer.is_whole, "{answer:?}");
    }
    assert!((engines.metric("vllm:generation_tokens_total") - 15_000.0).abs() < 0.5);
    assert_eq!(engines.get("/load").body, r#"{"server_load":0}"#);
}
