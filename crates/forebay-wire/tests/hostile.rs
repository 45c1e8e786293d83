//! Changes sound bytes at random, and asks of every reader that it stays whole and consistent.

use forebay_wire::answer::BodyScan;
use forebay_wire::blocks::chain;
use forebay_wire::engine_metrics;
use forebay_wire::openai::{Endpoint, scan};
use forebay_wire::sse::{StreamKind, StreamScan};
use proptest::prelude::*;
use proptest::sample::Index;

/// What the changes begin with: one of each thing that is read, and what has broken such readers.
const SEEDS: [&str; 14] = [
    r#"{"model":"m","messages":[{"role":"user","content":"a \"b\" \\"}],"stream":true,
        "stream_options":{"include_usage":false},"max_tokens":5,"n":2,"tools":[{}]}"#,
    r#"{"model":"m","prompt":[[1,2,3],[4]],"max_tokens":18446744073709551615}"#,
    r#"{"model":"\u00e9\ud83d\ude00\/","mod\u0065l":"x","input":["a","b"],"user":null}"#,
    r#"{"query":"q","documents":["a",{"text":"b"}],"x":{"a":1.0,"b":12345678901234567890}}"#,
    "{\"prompt\":\"a\u{e9}\u{65e5}\u{1f600}\",\"x\":[[[[[[[[[[]]]]]]]]]],\"y\":-1.5e-300}",
    "\u{feff}data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n",
    "data:{\"choices\":[{\"text\":\"a\"}],\"usage\":{\"prompt_tokens\":3}}\r\n\r\ndata:[DONE]\r\n",
    ": PROCESSING\n\ndata: {\"error\":{\"message\":\"x\",\"code\":500}}\n\ndata: [DONE]\n\n",
    "event: message_delta\rdata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"x\"},\
        \"usage\":{\"output_tokens\":15}}\r\revent: message_stop\rdata: {}\r\r",
    "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n\
        data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":1}}}\n\n",
    "{\"choices\":[{\"message\":{\"reasoning\":\"r\",\"content\":\"}\"}}],\
        \"usage\":{\"prompt_tokens\":1,\"prompt_tokens_details\":{\"cached_tokens\":1}}}",
    "# HELP x y\nvllm:num_requests_running{engine=\"0\"} 1.0\nsglang:token_usage NaN\n\
        vllm:cache_config_info{block_size=\"16\",a=\"}\\\"\",num_gpu_blocks=\"9\"} 1.0\n",
    "llamacpp:requests_processing 1e400\nllamacpp:kv_cache_usage_ratio -nan\nx +Inf 12 # {} 1\n",
    "",
];

/// Pieces that are put into the bytes: whatever has a meaning somewhere.
const PIECES: [&[u8]; 24] = [
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"\r",
    b" ",
    b"\0",
    b"\xff",
    b"\xe9",
    b"null",
    b"true",
    b"\"delta\":{",
    b"\"usage\":{",
    b"\"error\":",
    b"data:",
    b"data: ",
    b"NaN",
    b"\xef\xbb\xbf",
    b"\"text\":\"",
];

/// A change at a place: put in, take out, repeat, or cut off.
#[derive(Clone, Debug)]
enum Change {
    Put(Index, Index),
    Take(Index, usize),
    Repeat(Index, usize),
    Cut(Index),
    Set(Index, u8),
}

fn any_change() -> impl Strategy<Value = Change> {
    let place = any::<Index>;
    prop_oneof![
        6 => (place(), place()).prop_map(|(at, piece)| Change::Put(at, piece)),
        3 => (place(), 1..9_usize).prop_map(|(at, count)| Change::Take(at, count)),
        2 => (place(), 1..40_usize).prop_map(|(at, count)| Change::Repeat(at, count)),
        1 => place().prop_map(Change::Cut),
        2 => (place(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
    ]
}

fn changed(bytes: &mut Vec<u8>, change: &Change) {
    let within = |at: &Index, count: usize| {
        let from = at.index(bytes.len() + 1);
        from..(from + count).min(bytes.len())
    };
    match change {
        Change::Put(at, piece) => {
            let range = within(at, 0);
            bytes.splice(range, piece.get(&PIECES).iter().copied());
        }
        Change::Take(at, count) => drop(bytes.drain(within(at, *count))),
        Change::Repeat(at, count) => {
            let range = within(at, *count);
            let copy = bytes[range.clone()].to_vec();
            bytes.splice(range.start..range.start, copy);
        }
        Change::Cut(at) => bytes.truncate(at.index(bytes.len() + 1)),
        Change::Set(at, byte) => {
            let range = within(at, 1);
            bytes[range].fill(*byte);
        }
    }
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let seeds = prop::collection::vec(any::<Index>(), 1..3);
    let changes = prop::collection::vec(any_change(), 0..8);
    (seeds, changes).prop_map(|(seeds, changes)| {
        let mut bytes = Vec::new();
        seeds.iter().for_each(|seed| bytes.extend(seed.get(&SEEDS).bytes()));
        changes.iter().for_each(|change| changed(&mut bytes, change));
        bytes
    })
}

fn stream_facts(kind: StreamKind, pieces: &[&[u8]]) -> String {
    let mut scan = StreamScan::new(kind);
    pieces.iter().for_each(|piece| scan.feed(piece));
    scan.end();
    let flags = (scan.done(), scan.failed(), scan.finish_reason_seen(), scan.first_answer_seen());
    format!("{:?} {flags:?} {:?} {}", scan.tokens_out(), scan.usage(), scan.comments())
}

fn answer_facts(pieces: &[&[u8]]) -> String {
    let mut scan = BodyScan::default();
    pieces.iter().for_each(|piece| scan.feed(piece));
    format!("{:?} {} {}", scan.usage(), scan.failed(), scan.complete())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_reader_stays_whole_on_changed_bytes(bytes in any_bytes(), cut: Index) {
        for endpoint in Endpoint::ALL {
            let Ok(scanned) = scan(endpoint, &bytes) else { continue };
            prop_assert!(scanned.prompt.spans.len() <= 3);
            prop_assert!(scanned.prompt.bytes() <= bytes.len() as u64);
            for span in &scanned.prompt.spans {
                prop_assert!(bytes.as_ptr_range().contains(&span.as_ptr()), "a span is borrowed");
            }
            prop_assert!(scanned.prompt.tokens.is_none_or(|tokens| tokens <= bytes.len() as u64));
            let _ = chain(&scanned.prompt.spans, 8, 1);
            if let Some(splice) = scanned.ask_usage {
                let spliced = splice.apply(&bytes);
                let again = scan(endpoint, &spliced);
                prop_assert!(again.is_ok_and(|again| again.include_usage && again.stream));
            }
        }
        let (left, right) = bytes.split_at(cut.index(bytes.len() + 1));
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        for kind in Endpoint::ALL.map(StreamKind::from) {
            let whole = stream_facts(kind, &[&bytes]);
            prop_assert_eq!(&stream_facts(kind, &[left, right]), &whole);
            prop_assert_eq!(&stream_facts(kind, &single), &whole);
        }
        let whole = answer_facts(&[&bytes]);
        prop_assert_eq!(&answer_facts(&[left, right]), &whole);
        prop_assert_eq!(&answer_facts(&single), &whole);
        let figures = engine_metrics::read(&bytes);
        prop_assert!(figures.kv_usage.is_none_or(|usage| (0.0..=1.0).contains(&usage)));
    }
}
