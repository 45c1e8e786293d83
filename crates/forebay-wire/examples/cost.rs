//! Measures what reading bytes costs: bodies of 220 KB, and events of streams.
//!
//! `cost` prints the median wall time of each, over 300 rounds.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use forebay_wire::answer::BodyScan;
use forebay_wire::blocks::chain;
use forebay_wire::openai::{Endpoint, scan};
use forebay_wire::sse::{StreamKind, StreamScan};

const BODY_BYTES: usize = 220_000;
const ROUNDS: usize = 300;

/// Prints the median time of one call, divided by how many things one call does.
fn measure(name: &str, per_call: u32, mut call: impl FnMut()) {
    let mut nanos: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            call();
            start.elapsed().as_secs_f64() * 1e9 / f64::from(per_call)
        })
        .collect();
    nanos.sort_by(f64::total_cmp);
    #[expect(clippy::print_stdout, reason = "this is the program's output")]
    {
        println!("{name}: {:.0} ns", nanos[ROUNDS / 2]);
    }
}

/// A chat of 220 KB in turns of 2 KB made of this text.
fn chat(text: &str) -> String {
    let mut body = r#"{"model":"m","stream":true,"max_tokens":300,"messages":["#.to_owned();
    let turn = text.repeat(2_000 / text.len());
    while body.len() < BODY_BYTES {
        let _ = write!(body, r#"{{"role":"user","content":"{turn}"}},"#);
    }
    body.pop();
    body + "]}"
}

/// A hundred events of a stream.
fn stream(event: &str) -> Vec<u8> {
    event.repeat(100).into_bytes()
}

fn main() {
    let prose = "Many of the words of this text are short, as they are in most. ";
    for (name, text) in [
        ("prose", prose),
        ("code", r"    let mut total = 0;\n    for x in list {\n        total += x;\n    }\n"),
        ("quotes", r#"{\"name\": \"value\", \"other\": \"thing\"},\n"#),
        ("Chinese", "请用三句话解释一下这个系统是如何工作的。"),
    ] {
        let body = chat(text);
        let of = |endpoint| scan(endpoint, body.as_bytes()).expect("a sound body");
        measure(&format!("scan, 220 KB of {name}"), 1, || {
            black_box(of(Endpoint::ChatCompletions));
        });
    }
    let ids: Vec<usize> = (0..BODY_BYTES / 6).map(|id| id * 7919 % 100_000).collect();
    let body = format!(r#"{{"model":"m","prompt":{ids:?}}}"#).replace(", ", ",");
    measure("scan, 220 KB of token ids", 1, || {
        black_box(scan(Endpoint::Completions, body.as_bytes()).expect("a sound body"));
    });
    let body = chat(prose);
    for block_bytes in [256, 1_024, 4_096] {
        measure(&format!("chain, 220 KB in blocks of {block_bytes}"), 1, || {
            black_box(chain(&[body.as_bytes()], block_bytes, 1));
        });
    }
    measure("answer, 220 KB of prose", 1, || {
        let mut scan = BodyScan::default();
        scan.feed(body.as_bytes());
        black_box(scan.complete());
    });

    let head = r#"data: {"id":"chatcmpl-8ef0b8a6e9b8eb45","object":"chat.completion.chunk","#;
    let chat = format!(
        "{head}\"created\":1796035906,\"model\":\"tiny\",\"choices\":[{{\"index\":0,\"delta\":\
         {{\"content\":\" nodes\"}},\"logprobs\":null,\"finish_reason\":null,\
         \"token_ids\":null}}]}}\n\n"
    );
    let text = "data: {\"id\":\"cmpl-856d8178f4e31e96\",\"object\":\"text_completion\",\
        \"created\":1796035935,\"model\":\"tiny\",\"choices\":[{\"index\":0,\"text\":\"ctools\",\
        \"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null}]}\n\n";
    let with_usage = chat.replace(
        "}\n",
        ",\"usage\":{\"prompt_tokens\":336,\"total_tokens\":344,\"completion_tokens\":8}}\n",
    );
    let empty = chat.replace(" nodes", "");
    for (name, kind, event) in [
        ("chat event", StreamKind::Chat, &chat[..]),
        ("chat event with usage", StreamKind::Chat, &with_usage),
        ("chat event without text", StreamKind::Chat, &empty),
        ("completion event", StreamKind::Completions, text),
    ] {
        let stream = stream(event);
        let mut scan = StreamScan::new(kind);
        measure(&format!("{name} of {} bytes, whole", event.len()), 100, || {
            stream.chunks(event.len()).for_each(|piece| scan.feed(black_box(piece)));
        });
        let mut scan = StreamScan::new(kind);
        measure(&format!("{name} of {} bytes, in two pieces", event.len()), 100, || {
            stream.chunks(event.len().div_ceil(2)).for_each(|piece| scan.feed(black_box(piece)));
        });
        black_box(scan.tokens_out());
    }
}
