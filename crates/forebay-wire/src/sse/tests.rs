//! Says what is seen of a stream, wherever its bytes are cut.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

/// Scans in one piece, in all pairs of pieces and byte by byte; all must see the same.
#[track_caller]
fn scan(kind: StreamKind, stream: impl AsRef<[u8]>) -> StreamScan {
    let stream = stream.as_ref();
    let whole = scan_pieces(kind, &[stream]);
    for cut in 0..=stream.len() {
        let (left, right) = stream.split_at(cut);
        assert_eq!(scan_pieces(kind, &[left, right]).seen, whole.seen, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(scan_pieces(kind, &bytes).seen, whole.seen, "byte by byte");
    whole
}

fn scan_pieces(kind: StreamKind, pieces: &[&[u8]]) -> StreamScan {
    let mut scan = StreamScan::new(kind);
    pieces.iter().for_each(|piece| scan.feed(piece));
    scan.end();
    scan
}

/// An event of a chat in vLLM's form.
fn chat_event(delta: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-8ef0\",\"object\":\"chat.completion.chunk\",\"created\":17,\
         \"model\":\"tiny\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\
         \"finish_reason\":null,\"token_ids\":null}}]}}\n\n"
    )
}

const ROLE: &str = r#"{"role":"assistant","content":""}"#;
const USAGE: &str = "data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":336,\
     \"total_tokens\":344,\"completion_tokens\":2,\
     \"prompt_tokens_details\":{\"cached_tokens\":320}}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn chat_stream() -> String {
    let [first, second] = [r#"{"content":" tb"}"#, r#"{"content":" \"\"\""}"#].map(chat_event);
    let last = chat_event("{}").replace("\"finish_reason\":null", "\"finish_reason\":\"stop\"");
    [&chat_event(ROLE), &first, &second, &last, USAGE, DONE].concat()
}

fn told(prompt: u64, completion: u64, cached: u64) -> Usage {
    Usage { prompt: Some(prompt), completion: Some(completion), cached: Some(cached) }
}

#[test]
fn a_chat_is_seen_from_its_first_token_to_its_end() {
    let seen = scan(StreamKind::Chat, chat_stream());
    assert_eq!(seen.tokens_out(), 2);
    assert_eq!(seen.usage(), Some(told(336, 2, 320)));
    assert!(seen.finish_reason_seen() && seen.done() && !seen.failed());
    assert!(seen.first_token_seen() && seen.first_answer_seen());
}

#[test]
fn line_ends_spaces_and_a_byte_order_mark_make_no_difference() {
    // A1
    let wanted = scan(StreamKind::Chat, chat_stream()).seen;
    for stream in [
        chat_stream().replace('\n', "\r\n"),
        chat_stream().replace('\n', "\r"),
        chat_stream().replace("data: ", "data:"),
        chat_stream().replace("data: ", "data:").replace('\n', "\r\n"),
        chat_stream().replace("\":", "\" : "),
        format!("\u{feff}{}", chat_stream()),
        format!("\n\u{feff}ignored: a mark in the middle is none\n{}", chat_stream()),
        chat_stream().trim_end().to_owned(),
    ] {
        assert_eq!(scan(StreamKind::Chat, &stream).seen, wanted, "{stream:?}");
    }
    let marked = scan(StreamKind::Chat, format!("\n\u{feff}{}", chat_event("{\"content\":\"a\"}")));
    assert!(!marked.first_token_seen(), "a mark behind the first line is a part of the field");
}

#[test]
fn a_comment_is_life_and_no_token() {
    // A2
    let mut scan = StreamScan::new(StreamKind::Chat);
    scan.feed(b": PROCESSING\n\n");
    assert_eq!((scan.comments(), scan.first_token_seen()), (1, false));
    scan.feed(b":\n\n");
    scan.feed(chat_event(ROLE).as_bytes());
    assert_eq!((scan.comments(), scan.first_token_seen()), (2, false));
    scan.feed(chat_event(r#"{"content":"a"}"#).as_bytes());
    assert!(scan.first_token_seen());
}

#[test]
fn reasoning_is_a_token_but_no_answer() {
    // A3
    for name in ["reasoning", "reasoning_content"] {
        let thought = chat_event(&format!(r#"{{"content":null,"{name}":"hm"}}"#));
        let mut stream = chat_event(ROLE) + &thought.repeat(20);
        let thinking = scan(StreamKind::Chat, &stream);
        assert_eq!((thinking.tokens_out(), thinking.first_answer_seen()), (20, false));
        stream += &chat_event(r#"{"content":"so"}"#);
        let answering = scan(StreamKind::Chat, &stream);
        assert_eq!((answering.tokens_out(), answering.first_answer_seen()), (21, true));
    }
}

#[test]
fn what_a_delta_carries_counts_if_it_is_not_empty() {
    for delta in [
        r#"{"tool_calls":[{"index":0,"function":{"arguments":""}}]}"#,
        r#"{"role":"assistant","content":[{"type":"text"}]}"#,
        r#"{"content":"\"delta\":{}"}"#,
        r#"{"function_call":{"name":"f"}}"#,
        r#"{"refusal":"no"}"#,
        r#"{"content":"","reasoning":"x"}"#,
    ] {
        assert_eq!(scan(StreamKind::Chat, chat_event(delta)).tokens_out(), 1, "{delta}");
    }
    for delta in [
        r#"{"content":null}"#,
        r#"{"content":"","tool_calls":[ ],"function_call":{}}"#,
        r#"{"role":"x","future":"\"content\":\"x\"","delta":[1]}"#,
        "null",
    ] {
        assert_eq!(scan(StreamKind::Chat, chat_event(delta)).tokens_out(), 0, "{delta}");
    }
    let two =
        "data: {\"choices\":[{\"delta\":{\"content\":\"\"}},{\"delta\":{\"content\":\"b\"}}]}\n\n";
    assert_eq!(scan(StreamKind::Chat, two).tokens_out(), 1);
}

#[test]
fn a_completion_carries_text() {
    let event = |text: &str, rest: &str| {
        format!(
            "data: {{\"id\":\"c\",\"choices\":[{{\"type\":\"text\",\"text\":\"{text}\",\
             \"finish_reason\":null}}]{rest}}}\n\n"
        )
    };
    let stream = event("a", "") + &event("", "") + &event("\\\"", "") + USAGE + DONE;
    let seen = scan(StreamKind::Completions, stream);
    assert_eq!((seen.tokens_out(), seen.usage()), (2, Some(told(336, 2, 320))));
    let last = event("b", r#","usage":{"completion_tokens":6,"prompt_tokens":8}"#);
    let seen = scan(StreamKind::Completions, last);
    assert_eq!(seen.usage(), Some(Usage { prompt: Some(8), completion: Some(6), cached: None }));
    assert_eq!(seen.tokens_out(), 1);
}

#[test]
fn an_error_in_a_stream_of_status_200_is_a_failure() {
    // A4
    let error = "data: {\"error\":{\"message\":\"x\",\"code\":500}}\n\n";
    let token = chat_event(r#"{"content":"a"}"#);
    for stream in [
        format!("{token}{token}{token}{error}{DONE}"),
        format!("{error}{DONE}"),
        format!(
            "{token}data:{{\"choices\":[{{\"delta\":{{\"content\":\"b\"}}}}],\"error\":1}}\n\n"
        ),
        format!("{token}event: error\ndata: x\n\n"),
        format!("{token}error: {{\"code\":500}}\n\n"),
        format!("{token}data: {{\"type\":\"error\"}}\n\n"),
    ] {
        let seen = scan(StreamKind::Chat, &stream);
        assert!(seen.failed(), "{stream}");
        assert_eq!(seen.done(), stream.contains("[DONE]"));
    }
    for sound in [
        r#"{"choices":[{"delta":{"content":"the \"error\":{} in a text"}}]}"#,
        r#"{"choices":[{"delta":{"content":"a"},"error":{"x":1}}],"error":null}"#,
        r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"error"}]}"#,
        r#"{"error":{"cut":"#,
        r#"{"error":{}}"#,
    ] {
        assert!(!scan(StreamKind::Chat, format!("data: {sound}\n\n")).failed(), "{sound}");
    }
}

#[test]
fn long_lines_are_read_up_to_the_bound_and_counted_beyond_it() {
    // A5
    let cut = |text_bytes: usize, bytes: usize| {
        let delta = format!("{{\"content\":\"{}\"}}", "x".repeat(text_bytes));
        let stream = chat_event(ROLE) + &chat_event(&delta) + USAGE + DONE;
        let pieces: Vec<&[u8]> = stream.as_bytes().chunks(bytes).collect();
        let scan = scan_pieces(StreamKind::Chat, &pieces);
        assert!(scan.pending.capacity() <= KEPT_BYTES_MAX);
        scan.seen
    };
    for (text_bytes, over) in [(200_000, 0), (2_000_000, 1)] {
        let seen = cut(text_bytes, usize::MAX);
        assert_eq!((seen.tokens, seen.lines_over, seen.done), (1, over, true));
        assert_eq!(seen.usage, Some(told(336, 2, 320)));
        assert_eq!(cut(text_bytes, 1_400), seen);
    }
    let comment = format!(": {}\n", "x".repeat(LINE_BYTES_MAX));
    let seen = scan_pieces(StreamKind::Chat, &[comment.as_bytes()]);
    assert_eq!((seen.tokens_out(), seen.lines_over()), (0, 1));
}

#[test]
fn the_bound_on_a_line_is_exact_however_it_is_cut() {
    for (extra, over) in [(0, 0), (1, 1)] {
        let mut line = "data: ".to_owned();
        line += &"x".repeat(LINE_BYTES_MAX + extra - line.len());
        line += "\n";
        for cut in [0, 1, 5, 6, LINE_BYTES_MAX / 2, LINE_BYTES_MAX, line.len()] {
            let (left, right) = line.as_bytes().split_at(cut);
            let seen = scan_pieces(StreamKind::Chat, &[left, right]);
            assert_eq!((seen.lines_over(), seen.tokens_out()), (over, over), "cut at {cut}");
        }
    }
}

#[test]
fn a_line_without_end_takes_bounded_memory() {
    let mut scan = StreamScan::new(StreamKind::Chat);
    for _ in 0..10_000 {
        scan.feed(&[b'x'; 1024]);
        assert!(scan.pending.capacity() <= 2 * LINE_BYTES_MAX);
    }
}

#[test]
fn usage_is_a_member_of_the_top_level_and_the_last_one_counts() {
    // A6
    let seen = scan(StreamKind::Chat, USAGE);
    assert_eq!((seen.usage(), seen.tokens_out()), (Some(told(336, 2, 320)), 0));
    for other in [
        r#"{"choices":[{"delta":{"content":"a \"usage\":{\"prompt_tokens\":9}"}}]}"#,
        r#"{"choices":[{"delta":{"content":"a"},"usage":{"prompt_tokens":9}}]}"#,
        r#"{"choices":[{"delta":{"content":"a"}}],"usage":null}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":"9","completion_tokens":1.5}}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":9}"#,
    ] {
        assert_eq!(scan(StreamKind::Chat, format!("data: {other}\n\n")).usage(), None, "{other}");
    }
    let mut growing = String::new();
    for tokens in 1..4 {
        let usage = format!(r#""usage":{{"prompt_tokens":5,"completion_tokens":{tokens}}}"#);
        let event = chat_event(r#"{"content":"a"}"#).replace("\"created\":17", &usage);
        write!(growing, "{event}").unwrap();
    }
    let seen = scan(StreamKind::Chat, growing);
    assert_eq!(seen.usage(), Some(Usage { prompt: Some(5), completion: Some(3), cached: None }));
}

#[test]
fn a_message_is_seen_in_the_form_of_anthropic() {
    let stream = "event: message_start\n\
        data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[],\
        \"usage\":{\"input_tokens\":25,\"cache_read_input_tokens\":10,\
        \"cache_creation_input_tokens\":5,\"output_tokens\":1}}}\n\n\
        event: content_block_start\n\
        data: {\"type\":\"content_block_start\",\"index\":0,\
        \"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
        event: ping\ndata: {\"type\": \"ping\"}\n\n\
        event: content_block_delta\n\
        data: {\"type\":\"content_block_delta\",\"index\":0,\
        \"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n";
    let thinking = scan(StreamKind::Messages, stream);
    assert_eq!((thinking.tokens_out(), thinking.first_answer_seen()), (1, false));
    assert_eq!(thinking.usage(), Some(told(40, 1, 10)));
    assert!(!thinking.done() && !thinking.finish_reason_seen());
    let stream = stream.to_owned()
        + "event: content_block_delta\n\
        data: {\"type\":\"content_block_delta\",\"index\":1,\
        \"delta\":{\"type\":\"text_delta\",\"text\":\"Hello\"}}\n\n\
        event: message_delta\n\
        data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\
        \"usage\":{\"output_tokens\":15}}\n\n";
    let unended = scan(StreamKind::Messages, &stream);
    assert!(!unended.done() && unended.finish_reason_seen() && unended.first_answer_seen());
    let seen = scan(
        StreamKind::Messages,
        stream + "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    );
    assert_eq!((seen.tokens_out(), seen.usage()), (2, Some(told(40, 15, 10))));
    assert!(seen.done() && !seen.failed());
    let failed = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded\"}}\n\n";
    assert!(scan(StreamKind::Messages, failed).failed());
}

#[test]
fn a_response_is_seen_in_the_form_of_openai() {
    let event = |name: &str, rest: &str| {
        format!("event: {name}\ndata: {{\"type\":\"{name}\",\"sequence_number\":1{rest}}}\n\n")
    };
    let mut stream = event("response.created", r#","response":{"error":null,"usage":null}"#)
        + &event("response.reasoning_text.delta", r#","delta":"hm""#);
    let thinking = scan(StreamKind::Responses, &stream);
    assert_eq!((thinking.tokens_out(), thinking.first_answer_seen()), (1, false));
    assert!(!thinking.failed() && !thinking.done());
    stream += &event("response.output_text.delta", r#","delta":"a","logprobs":[]"#);
    stream += &event("response.output_text.done", r#","text":"a""#);
    let ending = r#","response":{"status":"completed","error":null,"output":[{"text":"\"usage\""}],
        "usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":8},"output_tokens":7}}"#
        .replace('\n', "");
    let seen = scan(StreamKind::Responses, stream.clone() + &event("response.completed", &ending));
    assert_eq!((seen.tokens_out(), seen.usage()), (2, Some(told(9, 7, 8))));
    assert!(seen.done() && seen.first_answer_seen() && !seen.failed());
    let failed = scan(StreamKind::Responses, stream + &event("response.failed", &ending));
    assert!(failed.failed() && !failed.done());
}

#[test]
fn lines_that_invite_quadratic_work_are_linear() {
    let line =
        |part: &str| format!("data: {{{}}}\n\n", part.repeat((LINE_BYTES_MAX - 64) / part.len()));
    for part in [
        "\"delta\":{",
        "\"delta\":{\"a\":[",
        "\"delta\":{\"a\":[]},",
        "\"delta\":",
        "\"usage\":{",
        "\"error\"",
        "\\\"",
        "\"text\" ",
    ] {
        let line = line(part);
        for kind in [StreamKind::Chat, StreamKind::Completions, StreamKind::Responses] {
            for _ in 0..20 {
                let _ = scan_pieces(kind, &[line.as_bytes()]);
            }
        }
    }
}

fn any_kind() -> impl Strategy<Value = StreamKind> {
    let kinds =
        [StreamKind::Chat, StreamKind::Completions, StreamKind::Responses, StreamKind::Messages];
    prop::sample::select(kinds.to_vec())
}

/// Something that streams are made of, or anything else.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        r"(data: |data:|event: |error|: x|\[DONE\]|\n|\r|\r\n|[ -~])",
        r#"("delta":\{|"content":"a"|"text":"b"|"usage":\{|"prompt_tokens":3|"error":|[{},])"#,
        r#"(data: \{"type":"message_stop"\}\n|data: \{"usage":\{"prompt_tokens":3\}\}\n)"#,
    ]
}

proptest! {
    #[test]
    fn cuts_make_no_difference_to_any_bytes(
        parts in prop::collection::vec(part(), 0..60),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        kind in any_kind(),
    ) {
        let stream = parts.concat();
        let stream = stream.as_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
        prop_assert_eq!(scan_pieces(kind, &pieces).seen, scan_pieces(kind, &[stream]).seen);
    }

    #[test]
    fn no_bytes_break_the_scan(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..10),
        kind in any_kind(),
    ) {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let whole = pieces.concat();
        prop_assert_eq!(scan_pieces(kind, &pieces).seen, scan_pieces(kind, &[&whole]).seen);
    }

    #[test]
    fn no_text_in_a_token_is_taken_for_a_sign(text in any::<String>(), kind in any_kind()) {
        let text = serde_json::to_string(&text).unwrap();
        let plain = |text: &str| format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":{text}}},\"text\":{text}}}]}}\n\n"
        );
        let wanted = scan_pieces(kind, &[plain("\"a\"").as_bytes()]).seen;
        let seen = scan_pieces(kind, &[plain(&text).as_bytes()]).seen;
        prop_assert!(seen == wanted || text == "\"\"");
    }
}
