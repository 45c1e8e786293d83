//! Says what is read of an answer, wherever it is cut.

use proptest::prelude::*;

use super::*;

fn scan_pieces(pieces: &[&[u8]]) -> (Option<Usage>, bool, bool) {
    let mut scan = BodyScan::default();
    pieces.iter().for_each(|piece| scan.feed(piece));
    assert!(scan.key.len() <= KEY_BYTES_MAX && scan.value.len() <= VALUE_BYTES_MAX);
    (scan.usage(), scan.failed(), scan.complete())
}

/// Scans in one piece, in all pairs of pieces and byte by byte; all must see the same.
#[track_caller]
fn scan(body: &str) -> (Option<Usage>, bool, bool) {
    let body = body.as_bytes();
    let whole = scan_pieces(&[body]);
    for cut in 0..=body.len() {
        let (left, right) = body.split_at(cut);
        assert_eq!(scan_pieces(&[left, right]), whole, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(scan_pieces(&bytes), whole, "byte by byte");
    assert_eq!((usage_of(body), error_of(body)), (whole.0, whole.1));
    whole
}

const USAGE: &str = r#"{"prompt_tokens":336,"total_tokens":344,"completion_tokens":8,
    "prompt_tokens_details":{"cached_tokens":320}}"#;
const WANTED: Option<Usage> =
    Some(Usage { prompt: Some(336), completion: Some(8), cached: Some(320) });

#[test]
fn usage_is_read_wherever_it_stands() {
    let rest =
        r#""id":"x","choices":[{"message":{"content":"\"usage\":{} }\\"},"a":[{}]}],"n":-1.5"#;
    for body in [
        format!(r#"{{{rest},"usage":{USAGE}}}"#),
        format!(r#"{{ "usage" : {USAGE} , {rest} }}"#),
        format!("\n{{\"service\":null,\"usage\":{USAGE},{rest}}}\n"),
    ] {
        assert_eq!(scan(&body), (WANTED, false, true), "{body}");
    }
}

#[test]
fn usage_of_embeddings_and_messages_is_read_too() {
    let only_prompt = Usage { prompt: Some(4), ..Usage::default() };
    let body = r#"{"data":[{"embedding":[0.1,-2e-3]}],"usage":{"prompt_tokens":4}}"#;
    assert_eq!(scan(body).0, Some(only_prompt));
    let body = r#"{"type":"message","usage":{"input_tokens":1,"cache_read_input_tokens":5,
        "cache_creation_input_tokens":null,"output_tokens":2}}"#;
    let wanted = Usage { prompt: Some(6), completion: Some(2), cached: Some(5) };
    assert_eq!(scan(body), (Some(wanted), false, true));
}

#[test]
fn usage_elsewhere_or_in_another_form_is_none() {
    for body in [
        format!(r#"{{"choices":[{{"usage":{USAGE}}}]}}"#),
        format!(r#"[{{"usage":{USAGE}}}]"#),
        format!(r#"{{"usage":[{USAGE}]}}"#),
        format!(r#"{{"a":1}}{{"usage":{USAGE}}}"#),
        format!(r#"{{"a":"usage","b":{{"usage":{USAGE}"#),
        r#"{"usage":{"prompt_tokens":"4"}}"#.to_owned(),
        r#"{"usage":null}"#.to_owned(),
        r#"{"usage":}"#.to_owned(),
        "usage".to_owned(),
        String::new(),
    ] {
        assert_eq!(scan(&body).0, None, "{body}");
    }
}

#[test]
fn an_error_in_a_body_of_status_200_is_seen() {
    // A4
    for body in [
        r#"{"error":{"message":"x","code":500}}"#,
        r#"{"object":"error","message":"x","code":400}"#,
        r#"{"type":"error","error":{"type":"overloaded_error"}}"#,
        r#"{"choices":[],"error":"x"}"#,
    ] {
        assert!(scan(body).1, "{body}");
    }
    for body in [
        r#"{"object":"chat.completion","choices":[{"error":{"a":1}}]}"#,
        r#"{"status":"completed","error":null,"output":[]}"#,
        r#"{"choices":["\"error\":{\"a\":1}"]}"#,
        r#"{"error":{}}"#,
    ] {
        assert!(!scan(body).1, "{body}");
    }
    let long = format!(r#"{{"error":{{"message":"{}"}}}}"#, "x".repeat(3 * VALUE_BYTES_MAX));
    assert!(error_of(long.as_bytes()), "however long it is");
}

#[test]
fn a_body_cut_short_is_not_complete() {
    let body = format!(r#"{{"choices":[{{"a":"}}"}}],"usage":{USAGE}}}"#);
    for cut in 0..body.len() {
        assert!(!scan_pieces(&[&body.as_bytes()[..cut]]).2, "cut at {cut}");
    }
    assert!(scan(&body).2);
}

#[test]
fn deep_and_long_bodies_take_bounded_memory() {
    for text in
        ["[", "{\"a\":", "\"", "\\", "{\"usage\":{\"a\":\"", "{\"k", "{\"a\":1,\"usage\":[1,"]
    {
        let mut scan = BodyScan::default();
        scan.feed(b"{\"usage\":");
        for _ in 0..100_000 {
            scan.feed(text.as_bytes());
        }
        assert!(scan.key.capacity() <= 4 * KEY_BYTES_MAX);
        assert!(scan.value.capacity() <= 2 * VALUE_BYTES_MAX);
    }
}

proptest! {
    #[test]
    fn cuts_make_no_difference_to_any_bytes(
        body in r#"("usage":|"error":|"type":"error"|"prompt_tokens":3|[{}\[\]",:\\ 1a]){0,40}"#,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let body = format!("{{{body}");
        let body = body.as_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &body[cut[0]..cut[1]]).collect();
        prop_assert_eq!(scan_pieces(&pieces), scan_pieces(&[body]));
    }

    #[test]
    fn no_bytes_break_the_scan(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = scan_pieces(&[&bytes]);
        let _ = scan_pieces(&[b"{\"usage\":", &bytes]);
    }
}
