//! Reads bytes that real engines wrote, where a folder of captures lies beside the repository.

use std::path::{Path, PathBuf};

use forebay_wire::answer::{Usage, error_of, usage_of};
use forebay_wire::engine_metrics;
use forebay_wire::openai::{Endpoint, scan};
use forebay_wire::sse::{StreamKind, StreamScan};
use forebay_wire::unasked::UnaskedUsage;

/// The folder of captures of one engine, or `None` and a word about it.
fn captures(engine: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("FOREBAY_SHARED").map_or(beside, PathBuf::from);
    let folder = folder.join("captures").join(engine);
    if !folder.is_dir() {
        #[expect(clippy::print_stdout, reason = "a test that did nothing says so")]
        {
            println!("skipped: {} isn't there", folder.display());
        }
        return None;
    }
    Some(folder)
}

/// The body of a response or request, its chunks put together.
fn body(file: &Path) -> Vec<u8> {
    let message = std::fs::read(file).expect("the capture can be read");
    let end = memchr::memmem::find(&message, b"\r\n\r\n").expect("a head ends");
    let (head, body) = (&message[..end], &message[end + 4..]);
    if !head.to_ascii_lowercase().windows(7).any(|word| word == b"chunked") {
        return body.to_vec();
    }
    let mut whole = Vec::new();
    let mut rest = body;
    while let Some(end) = memchr::memmem::find(rest, b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).expect("a size is text");
        let size = usize::from_str_radix(size, 16).expect("a size is hexadecimal");
        let chunk = &rest[end + 2..];
        if size == 0 || chunk.len() < size + 2 {
            break; // the end, or a stream that was cut
        }
        whole.extend_from_slice(&chunk[..size]);
        rest = &chunk[size + 2..];
    }
    whole
}

/// Scans a stream whole, and cut at every byte.
fn stream(kind: StreamKind, file: &Path) -> StreamScan {
    let bytes = body(file);
    let mut whole = StreamScan::new(kind);
    whole.feed(&bytes);
    let mut cut = StreamScan::new(kind);
    bytes.chunks(1).for_each(|byte| cut.feed(byte));
    let facts = |scan: &StreamScan| {
        let ending = (scan.usage(), scan.done(), scan.failed(), scan.finish_reason_seen());
        (scan.tokens_out(), scan.first_answer_seen(), ending)
    };
    assert_eq!(facts(&cut), facts(&whole), "{}", file.display());
    whole
}

const ENGINES: [&str; 3] = ["vllm-0.32.0", "vllm-0.23.0", "llama-server-b11434"];

#[test]
fn every_stream_of_a_real_engine_is_seen_to_its_end() {
    for folder in ENGINES.iter().filter_map(|engine| captures(engine)) {
        for (name, kind, tokens) in [
            ("chat_stream", StreamKind::Chat, 8),
            ("chat_n2_stream", StreamKind::Chat, 8),
            ("chat_long_decode", StreamKind::Chat, 100),
            ("completion_stream", StreamKind::Completions, 6),
        ] {
            let seen = stream(kind, &folder.join(format!("{name}.response.http")));
            let line = format!("{}: {name}: {:?}", folder.display(), seen.tokens_out());
            assert!(seen.done() && !seen.failed() && seen.finish_reason_seen(), "{line}");
            // Half a letter gives an empty event, and some events carry several tokens.
            assert!((tokens / 2..=tokens).contains(&seen.tokens_out()), "{line}");
            let usage = seen.usage().expect("each of them asked for usage");
            // llama-server counts the last of two outputs alone.
            let outputs = if name == "chat_n2_stream" { 2 } else { 1 };
            assert!(usage.completion >= Some(tokens / outputs), "{line}");
            assert!(usage.prompt > Some(0), "{line}");
        }
        let logprobs = folder.join("chat_logprobs_stream.response.http");
        let seen = stream(StreamKind::Chat, &logprobs);
        assert!(seen.done() && seen.first_answer_seen() && seen.usage().is_none());
    }
}

#[test]
fn a_real_engine_that_dies_mid_stream_is_a_failure() {
    let Some(folder) = captures("vllm-0.32.0") else { return };
    let died = |name| stream(StreamKind::Chat, &folder.join(name));
    let killed = died("engine_core_sigkill_midstream.response.http");
    assert!(killed.failed() && killed.done() && killed.first_token_seen());
    let cut = died("sigterm_midstream.response.http");
    assert!(!cut.failed() && !cut.done() && cut.first_token_seen());
}

#[test]
fn answers_in_one_body_tell_usage_or_an_error() {
    for folder in ENGINES.iter().filter_map(|engine| captures(engine)) {
        let answer = body(&folder.join("chat_nonstream.response.http"));
        let usage = usage_of(&answer).expect("usage");
        assert!(matches!(usage, Usage { prompt: Some(1..), completion: Some(1..), .. }));
        assert!(!error_of(&answer));
        let refused = body(&folder.join("error_prompt_too_long.response.http"));
        assert!(error_of(&refused) && usage_of(&refused).is_none());
    }
}

#[test]
fn the_pages_of_real_engines_tell_their_load() {
    for (engine, capacity, block_size) in [
        ("vllm-0.32.0", Some(16_384), Some(32)),
        ("vllm-0.23.0", Some(2_240), Some(32)),
        ("llama-server-b11434", None, None),
    ] {
        let Some(folder) = captures(engine) else { continue };
        let figures = engine_metrics::read(&body(&folder.join("metrics_after.response.http")));
        assert_eq!((figures.running, figures.waiting), (Some(0), Some(0)), "{engine}");
        assert_eq!(figures.kv_capacity_tokens, capacity, "{engine}");
        assert_eq!(figures.block_size, block_size, "{engine}");
        assert_eq!(figures.kv_usage, capacity.map(|_| 0.0), "{engine}");
        assert_eq!(figures.preemptions_total.is_some(), capacity.is_some(), "{engine}");
        assert!(figures.prompt_tokens_total > Some(0) && figures.prefix_hits_total > Some(0));
        assert_eq!(figures.skipped, 0, "{engine}");
    }
}

#[test]
fn every_captured_request_is_read() {
    for folder in ENGINES.iter().filter_map(|engine| captures(engine)) {
        for (name, endpoint, stream) in [
            ("chat_stream", Endpoint::ChatCompletions, true),
            ("chat_nonstream", Endpoint::ChatCompletions, false),
            ("completion_stream", Endpoint::Completions, true),
            ("completion_token_ids", Endpoint::Completions, false),
            ("detokenize", Endpoint::Detokenize, false),
        ] {
            let request = body(&folder.join(format!("{name}.request.http")));
            let scanned = scan(endpoint, &request).expect("a sound request");
            assert_eq!((scanned.stream, scanned.prompt.prompts), (stream, 1), "{name}");
            assert_eq!(scanned.include_usage, stream, "{name}");
            assert!(scanned.prompt.bytes() > 0, "{name}");
            assert_eq!(
                scanned.prompt.tokens.is_some(),
                name.ends_with("ids") || name == "detokenize"
            );
        }
        let bad = body(&folder.join("error_bad_json.request.http"));
        assert!(scan(Endpoint::ChatCompletions, &bad).is_err());
    }
}

#[test]
fn what_a_real_engine_says_beside_its_usage_passes_wherever_it_is_cut() {
    for folder in ENGINES.iter().filter_map(|engine| captures(engine)) {
        for name in ["chat_stream", "chat_n2_stream", "completion_stream"] {
            let stream = body(&folder.join(format!("{name}.response.http")));
            // The event with usage, by looking for it in another way.
            let text = std::str::from_utf8(&stream).expect("an engine writes UTF-8");
            let expected: String = text
                .split_inclusive("\n\n")
                .filter(|event| !event.contains("\"choices\":[]"))
                .collect();
            // llama-server tells it with the last text of a completion, asked or not.
            let apart = name != "completion_stream" || !folder.ends_with(ENGINES[2]);
            assert_eq!(expected.len() < text.len(), apart, "{name}: it was asked for usage");
            for piece in 1..stream.len() {
                let mut filter = UnaskedUsage::default();
                let (mut passed, mut heard) = (Vec::new(), 0);
                for piece in stream.chunks(piece) {
                    passed.extend(filter.feed(piece));
                    heard += piece.len();
                    assert!(passed.len() <= heard);
                }
                passed.extend(filter.finish());
                assert_eq!(String::from_utf8_lossy(&passed), expected, "{name} by {piece}");
            }
        }
        // A stream that was not asked passes as it is.
        let stream = body(&folder.join("chat_logprobs_stream.response.http"));
        assert_eq!(UnaskedUsage::default().feed(&stream), stream);
    }
}
