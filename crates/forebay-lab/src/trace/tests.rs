//! Reads what users have, whole and broken, and holds changed traces against the ones they came from.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;

use super::open::stream;
use super::synth::Description;
use super::*;

fn noted(bytes: impl Into<Vec<u8>>, notes: &Notes) -> Result<Vec<TraceRequest>, TraceError> {
    let reader = Box::new(Cursor::new(bytes.into()));
    stream(reader, Path::new("day.jsonl"), notes, ORDER_ROWS_MAX)?.collect()
}

fn read(bytes: impl Into<Vec<u8>>) -> Result<Vec<TraceRequest>, TraceError> {
    noted(bytes, &Notes::default())
}

#[track_caller]
fn refused(bytes: impl Into<Vec<u8>>, line: Option<u64>, says: &str) {
    let error = read(bytes).unwrap_err();
    assert_eq!(error.line, line, "{error}");
    assert!(error.what.contains(says), "{error}");
    assert!(!error.remedy.is_empty() && error.to_string().starts_with("day.jsonl"), "{error}");
    assert!(error.to_string().contains("\nhint: "), "{error}");
}

/// The shared folder, where there is one.
fn shared() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("FOREBAY_SHARED").map_or(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: there is no {}", folder.display());
    None
}

fn times_ms(requests: &[TraceRequest]) -> Vec<f64> {
    requests.iter().map(|request| request.at.as_millis_f64()).collect()
}

const ROW: &str =
    r#"{"timestamp": 5, "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}"#;

#[test]
fn a_row_of_mooncakes_is_read_as_it_stands() {
    let requests = read(ROW).unwrap();
    let request = &requests[0];
    assert_eq!(
        (request.at, request.prompt, request.output),
        (Span::millis(5), Tokens(600), Tokens(3))
    );
    assert_eq!((&*request.ids, request.id_tokens), (&[1, 2][..], 512));
    assert_eq!((request.session, request.delay), (None, None));
}

#[test]
fn a_byte_order_mark_and_line_ends_of_two_bytes_change_nothing() {
    let marked = format!("\u{feff}{ROW}\r\n\r\n{ROW}\r\n");
    assert_eq!(read(marked).unwrap(), read(format!("{ROW}\n{ROW}")).unwrap());
}

#[test]
fn sessions_of_aiperf_wait_for_the_turn_before() {
    let text = r#"{"session_id": "a", "timestamp": 10, "input_length": 9, "output_length": 3, "hash_ids": [1]}
{"session_id": "a", "delay": 1500.5, "input_length": 20, "output_length": 3, "text_input": "hello"}
{"session_id": "b", "timestamp": 11, "input_length": 9, "output_length": 3, "payload": {"x": [1]}}
{"session_id": "b", "input_length": 9, "output_length": 3, "messages": [{"role": "user"}]}"#;
    let requests = read(text).unwrap();
    assert_eq!(times_ms(&requests), [10.0, 10.0, 11.0, 11.0]);
    let delays: Vec<_> = requests.iter().map(|request| request.delay).collect();
    assert_eq!(delays, [None, Some(Span(1_500_500_000)), None, Some(Span::ZERO)]);
    assert_eq!(requests[0].session, requests[1].session);
    assert_ne!(requests[0].session, requests[2].session);
}

/// A13 of the reports: ids cut to 32 bits invent reuse.
#[test]
fn ids_keep_all_of_their_64_bits() {
    let ids = [1, 4_294_967_297, 1 << 63, u64::MAX, u64::MAX - 1];
    let row = |id: &u64| ROW.replace("600", "100").replace("1, 2", &id.to_string()) + "\n";
    let requests = read(ids.iter().map(row).collect::<String>()).unwrap();
    assert_eq!(requests.iter().map(|request| request.ids[0]).collect::<Vec<_>>(), ids);
    let hits = stats(Box::new(requests.into_iter().map(Ok))).unwrap().shared_prefix_share;
    assert!(hits.abs() < f64::EPSILON, "no two of these prompts share anything: {hits}");
}

#[test]
fn ids_that_are_no_such_numbers_are_refused_with_their_line() {
    for (ids, says) in [
        ("-1, 2", "hash_ids holds -1"),
        ("1.0, 2", "hash_ids holds 1.0"),
        ("18446744073709551616, 2", "hash_ids holds 1.8446744073709552e19"),
        ("\"1\", 2", "string \"1\", expected hash_ids"),
        ("null, 2", "null, expected hash_ids"),
    ] {
        refused(format!("{ROW}\n{}", ROW.replace("1, 2", ids)), Some(2), says);
    }
}

#[test]
fn a_broken_row_is_named_with_its_line() {
    for (from, to, says) in [
        ("600", "1025", "hash_ids has 2 ids, but input_length 1025 needs 3 (one for each 512"),
        ("600", "-600", "input_length is -600"),
        ("600", "0", "input_length is 0"),
        ("600", "600.5", "input_length is 600.5"),
        ("600", "\"600\"", "input_length is \"600\""),
        ("600", "99999999999", "input_length is 99999999999"),
        (": 3", ": 0", "output_length is 0"),
        ("\"output_length\": 3, ", "", "output_length is missing"),
        ("\"timestamp\": 5, ", "", "timestamp is missing"),
        (": 5", ": -5", "timestamp is -5"),
        (": 5", ": \"5\"", "timestamp is \"5\""),
        (": 5", ": 1e300", "timestamp is 1e300"),
        ("{", "{\"id_tokens\": 0, ", "id_tokens is 0"),
        ("{", "{\"delay\": -1, ", "delay is -1"),
        ("{", "{\"session_id\": [], ", "session_id is []"),
        ("{", "{\"class\": \"\", ", "class is empty"),
        ("{", "{\"tenant\": 7, ", "invalid type: integer `7`, expected a string"),
        ("{", "{\"timestamp\": 4, ", "duplicate field `timestamp`"),
        ("[1, 2]", "7", "invalid type: integer `7`, expected a sequence"),
        ("[1, 2]}", "[1, 2]} x", "trailing characters"),
        ("{", "[", "key must be a string"),
    ] {
        let broken = if from == "{" && to == "[" {
            "{5: 1}\n".to_owned()
        } else {
            ROW.replacen(from, to, 1) + "\n"
        };
        refused(format!("{ROW}\n\n{broken}"), Some(3), says);
    }
}

#[test]
fn a_line_that_was_cut_off_says_so() {
    for end in [1, 10, 40, ROW.len() - 1] {
        refused(format!("{ROW}\n{}", &ROW[..end]), Some(2), &format!("cut off after {end} bytes"));
    }
    let table = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00,1,2\n2024-05-10";
    let error = read(table).unwrap_err();
    assert!(error.what.contains("1 fields, the header 3"), "{error}");
    assert!(error.remedy.contains("written to its end"), "{error}");
}

#[test]
fn what_is_no_trace_is_refused_with_a_remedy() {
    refused("", None, "empty");
    refused("\u{feff} \r\n", None, "empty");
    refused("TIMESTAMP,ContextTokens,GeneratedTokens\n", None, "holds no requests");
    refused("hello\n", None, "no known trace's: \"hello\"");
    refused(format!("[{ROW}]"), None, "JSON array");
    refused(b"\x1f\x8b\x08".to_vec(), None, "gzip");
    refused(b"PAR1....".to_vec(), None, "Parquet");
    refused(b"\xff\xfe{\0".to_vec(), None, "UTF-16");
    refused(b"{\"timestamp\": \"\xff\"}".to_vec(), Some(1), "unicode");
    refused(format!("{ROW}\n{{}}"), Some(2), "input_length is missing");
    let missing = open(Path::new("no/such/trace.jsonl")).err().unwrap();
    assert!(missing.to_string().starts_with("no/such/trace.jsonl: "), "{missing}");
    let folder = open(Path::new(env!("CARGO_MANIFEST_DIR"))).err().unwrap();
    assert!(folder.to_string().contains("folder"), "{folder}");
}

#[test]
fn a_line_without_an_end_does_not_fill_the_memory() {
    let reader =
        std::io::Read::chain(Cursor::new(b"{\"payload\": \"".to_vec()), std::io::repeat(b'x'));
    let mut rows = stream(Box::new(reader), Path::new("x"), &Notes::default(), 8).unwrap();
    let error = rows.next().unwrap().unwrap_err();
    assert_eq!((error.line, &*error.what), (Some(1), "the line is longer than 16 MiB"));
    assert!(rows.next().is_none());
}

/// A14 of the reports: fractions cut to 10 ms make a burst of what was none.
#[test]
fn azures_fractions_are_exact() {
    let read_times = |times: &[&str]| {
        let rows: String =
            times.iter().map(|time| format!("2023-11-16 18:17:{time},10,20\n")).collect();
        times_ms(&read(format!("TIMESTAMP,ContextTokens,GeneratedTokens\r\n{rows}")).unwrap())
    };
    assert_eq!(
        read_times(&["00.0010000", "00.0020000", "00.0090000", "00.0110000"]),
        [0.0, 1.0, 8.0, 10.0]
    );
    assert_eq!(
        read_times(&["03", "03.5", "03.9799600+00:00", "04.0000001Z"]),
        [0.0, 500.0, 979.96, 1000.0001]
    );
}

#[test]
fn rows_out_of_order_are_sorted_and_said_so() {
    let notes = Notes::default();
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:01.5+00:00,1,1
2024-05-10 00:00:01.2+00:00,2,1
2024-05-10 00:00:02+00:00,3,1
2024-05-10 00:00:01.9+00:00,4,1
2024-05-10 00:00:03+00:00,0,1
2024-05-10 00:00:03+00:00,1,0
";
    let requests = noted(text, &notes).unwrap();
    assert_eq!(times_ms(&requests), [0.0, 300.0, 700.0, 800.0]);
    assert_eq!(requests.iter().map(|request| request.prompt.0).collect::<Vec<_>>(), [2, 1, 4, 3]);
    let said = notes.lines();
    assert_eq!(
        said,
        [
            "2 rows came out of order and were sorted by time: the first is line 3",
            "1 row with an empty prompt skipped: line 6",
            "1 row with no generated tokens skipped: line 7",
        ]
    );
}

#[test]
fn rows_that_belong_too_far_back_are_refused_unless_sorted_in_whole() {
    let row = |ms: u64| ROW.replace(": 5", &format!(": {ms}")) + "\n";
    let rows = ORDER_ROWS_MAX as u64 + 2;
    let text: String = (1..=rows).map(row).chain([row(0)]).collect();
    refused(text.clone(), Some(rows + 1), "more than 1024 rows earlier");
    let reader = Box::new(Cursor::new(text.into_bytes()));
    let sorted = stream(reader, Path::new("x"), &Notes::default(), usize::MAX).unwrap();
    let sorted: Vec<_> = sorted.map(Result::unwrap).collect();
    assert_eq!((sorted.len() as u64, sorted[0].at), (rows + 1, Span::ZERO));
}

#[test]
fn failures_in_burstgpt_are_skipped_and_counted() {
    let notes = Notes::default();
    let text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45.5,ChatGPT,1087,0,1087,Conversation log
118,GPT-4,417,276,693,API log
";
    let requests = noted(text, &notes).unwrap();
    assert_eq!(times_ms(&requests), [0.0, 113_000.0]);
    assert_eq!(requests[1].output, Tokens(276));
    assert_eq!(notes.lines(), ["1 row with no response tokens (a failed request) skipped: line 3"]);
    for (from, to, says) in [
        ("472", "-1", "a length is \"-1\""),
        ("\n5,", "\nfive,", "timestamp is \"five\""),
        (",Conversation log\n45", "\n45", "5 fields, the header 6"),
    ] {
        refused(text.replacen(from, to, 1), Some(2), says);
    }
}

/// A15 of the reports: rows that hold the whole conversation are played as increments.
#[test]
fn bailians_turns_hold_the_whole_conversation() {
    let parent: Vec<String> = (0..7).map(|id| id.to_string()).collect();
    let child: Vec<String> = (0..6).chain(100..110).map(|id| id.to_string()).collect();
    let text = format!(
        r#"{{"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 100, "output_length": 5, "hash_ids": [{}]}}
{{"chat_id": 2, "parent_chat_id": 1, "timestamp": 70, "input_length": 250, "output_length": 5, "type": "text", "hash_ids": [{}]}}
{{"chat_id": 3, "parent_chat_id": -1, "timestamp": 70, "input_length": 9, "output_length": 5, "hash_ids": [7]}}"#,
        parent.join(", "),
        child.join(", ")
    );
    let requests = read(text.clone()).unwrap();
    assert_eq!(times_ms(&requests), [61_114.0, 70_000.0, 70_000.0]);
    assert_eq!((requests[1].prompt, requests[1].id_tokens), (Tokens(250), 16));
    let (one, two) = (requests[0].block_hashes(16), requests[1].block_hashes(16));
    assert_eq!((one.len(), two.len()), (6, 15));
    assert_eq!(one[..6], two[..6]);
    assert_eq!(requests[0].session, requests[1].session);
    assert_ne!(requests[0].session, requests[2].session);
    // Ids of full blocks only, as some writers have it: the last, partial block is the request's own.
    let full = read(text.replace("5, 6]", "5]")).unwrap();
    assert_eq!((full[0].ids.len(), &full[0].ids[..6]), (7, &requests[0].ids[..6]));
    assert_eq!(full[1], requests[1]);
}

#[test]
fn blocks_of_16_tokens_are_told_by_the_number_of_ids() {
    let row = |length: u64| {
        let ids: Vec<String> = (0..length.div_ceil(16)).map(|id| id.to_string()).collect();
        format!(
            r#"{{"timestamp": 0, "input_length": {length}, "output_length": 1, "hash_ids": [{}]}}"#,
            ids.join(",")
        ) + "\n"
    };
    let requests = read(row(10) + &row(100) + &row(12)).unwrap();
    assert_eq!(requests.iter().map(|request| request.id_tokens).collect::<Vec<_>>(), [512, 16, 16]);
    assert_eq!(requests[0].block_hashes(4)[..], requests[2].block_hashes(4)[..2]);
    let mixed = format!("{}{ROW}\n", row(100));
    refused(mixed, Some(2), "hash_ids has 2 ids, but input_length 600 needs 38 (one for each 16");
    let stated = ROW.replace('{', "{\"id_tokens\": 300, ");
    assert_eq!(read(stated).unwrap()[0].id_tokens, 300);
}

#[test]
fn the_published_conversation_trace_is_read_in_whole() {
    let Some(folder) = shared() else { return };
    let trace = folder.join("data/mooncake-conversation.jsonl");
    let figures = stats(open(&trace).unwrap()).unwrap();
    assert_eq!((figures.requests, figures.ids_distinct), (12_031, 182_790));
    assert!((0.3..0.5).contains(&figures.shared_prefix_share), "{figures}");
    assert_eq!(figures.shared_prefixes[0].tokens, 512, "{figures}");
}

fn evidence() -> Requests {
    Description::named("evidence").unwrap().requests(5, None)
}

#[test]
fn thinning_takes_whole_conversations() {
    let thin = |seed| {
        let scaling = Scaling { factor: 0.5, seed, spread: Span::ZERO };
        let thinned = scale(|| Ok(evidence()), scaling).unwrap();
        thinned.map(Result::unwrap).collect::<Vec<_>>()
    };
    let (all, kept) = (evidence().map(Result::unwrap).collect::<Vec<_>>(), thin(1));
    assert!((430..=570).contains(&kept.len()), "{}", kept.len());
    assert_ne!(kept, thin(2));
    let turns = |requests: &[TraceRequest], session| {
        requests.iter().filter(|request| request.session == session).count()
    };
    for request in kept.iter().filter(|request| request.session.is_some()) {
        assert_eq!(turns(&kept, request.session), turns(&all, request.session));
    }
}

#[test]
fn copies_share_the_prefixes_of_many_and_nothing_else() {
    let scaling = Scaling { factor: 2.5, seed: 1, spread: Span::secs(30) };
    let scaled = || scale(|| Ok(evidence()), scaling).unwrap();
    let (before, after) = (stats(evidence()).unwrap(), stats(scaled()).unwrap());
    assert!((2400..=2600).contains(&after.requests), "{after}");
    let lengths = |stats: &Stats| -> Vec<u64> {
        stats
            .shared_prefixes
            .iter()
            .map(|prefix| prefix.tokens)
            .filter(|at| at % 512 == 0)
            .collect()
    };
    assert_eq!(lengths(&before), lengths(&after));
    let grown =
        after.shared_prefixes[0].requests as f64 / before.shared_prefixes[0].requests as f64;
    assert!((2.3..2.7).contains(&grown), "{grown}");
    // What is private is new in each copy, so hits per prompt stay what they were, but for the prefixes' first uses.
    let moved = (after.shared_prefix_share - before.shared_prefix_share).abs();
    assert!(moved < 0.02, "{before}{after}");
    assert!(after.at_once_max < 2 * before.at_once_max, "bursts must not add up: {after}");
}

#[test]
fn a_rate_by_time_keeps_all_but_the_times() {
    let twice: Vec<_> = speed_up(evidence(), 2.0).map(Result::unwrap).collect();
    for (request, before) in twice.iter().zip(evidence().map(Result::unwrap)) {
        assert_eq!(request.at.0, before.at.0.div_ceil(2));
        assert_eq!(*request, TraceRequest { at: request.at, ..before });
    }
}

#[test]
fn a_slice_counts_from_its_start_and_reads_no_further() {
    let slice = Slice { from: Span::secs(100), to: Some(Span::secs(110)), ..Slice::default() };
    let part: Vec<_> = slice.apply(evidence()).map(Result::unwrap).collect();
    let whole: Vec<_> = evidence().map(Result::unwrap).collect();
    let within = |request: &&TraceRequest| (100..110).contains(&(request.at.0 / 1_000_000_000));
    assert_eq!(part.len(), whole.iter().filter(within).count());
    assert!(part.iter().all(|request| request.at < Span::secs(10)));
    let broken = format!("{ROW}\n{ROW}\nbroken");
    let reader = Box::new(Cursor::new(broken.into_bytes()));
    let rows = stream(reader, Path::new("x"), &Notes::default(), 0).unwrap();
    let first = Slice { first: Some(1), ..Slice::default() };
    assert!(first.apply(rows).all(|request| request.is_ok()));
}

#[test]
fn a_filter_keeps_what_it_names() {
    let text = [("a", "x", 10), ("b", "x", 20), ("b", "y", 30)].map(|(class, tenant, length)| {
        format!(
            r#"{{"timestamp": 0, "input_length": {length}, "output_length": {length}, "class": "{class}", "tenant": "{tenant}"}}"#
        )
    });
    let kept = |filter: Filter| {
        let requests = read(text.join("\n")).unwrap().into_iter().map(Ok);
        filter
            .apply(Box::new(requests))
            .map(|request| request.unwrap().prompt.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(kept(Filter::default()), [10, 20, 30]);
    assert_eq!(kept(Filter { classes: vec!["b".to_owned()], ..Filter::default() }), [20, 30]);
    let both = Filter { tenants: vec!["x".to_owned()], prompt_min: Some(11), ..Filter::default() };
    assert_eq!(kept(both), [20]);
    assert_eq!(
        kept(Filter { output_max: Some(29), output_min: Some(11), ..Filter::default() }),
        [20]
    );
}

#[test]
fn figures_of_a_trace_are_those_that_can_be_counted_by_hand() {
    // One request a second for 30 s, each of 100 tokens: even arrivals, no variance.
    let long = ROW.replace("600", "1000");
    let row = |nth: u64| long.replace(": 5", &format!(": {}", nth * 1000)) + "\n";
    let even: String = (0..30).map(row).collect();
    let figures = stats(Box::new(read(even).unwrap().into_iter().map(Ok))).unwrap();
    assert_eq!((figures.requests, figures.at_once_max), (30, 1));
    assert!((figures.duration_s - 29.0).abs() < 1e-9);
    assert!(figures.dispersion[&1].abs() < 1e-9, "{figures}");
    assert!(!figures.dispersion.contains_key(&10), "{figures}");
    assert!((figures.shared_prefix_share - 29.0 / 30.0).abs() < 1e-9, "{figures}");
    assert_eq!((figures.prompt_tokens.p50, figures.prompt_tokens.sum), (1000, 30_000));
    assert_eq!(figures.shared_prefixes, [SharedPrefix { tokens: 1000, requests: 30, id: 2 }]);
    // The evidence comes in bursts of 13 at one moment.
    let bursty = stats(evidence()).unwrap();
    assert!(bursty.dispersion[&1] > 8.0 && bursty.at_once_max > 15, "{bursty}");
    assert_eq!(bursty.to_json().matches('\n').count(), 1);
}

#[test]
fn a_file_is_written_in_whole_or_not_at_all() {
    let folder = std::env::temp_dir().join(format!("forebay-save-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("out.jsonl");
    assert_eq!(save(&file, evidence()).unwrap(), 1000);
    let before = std::fs::read(&file).unwrap();
    let error = TraceError { file: "x".into(), line: None, what: "w".into(), remedy: "r".into() };
    let half = evidence().take(10).chain([Err(error.clone())]);
    assert!(matches!(save(&file, Box::new(half)), Err(SaveError::Trace(told)) if told == error));
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no leftover");
    let nowhere = save(&folder.join("no/out.jsonl"), evidence()).unwrap_err().to_string();
    assert!(nowhere.contains("no/out.jsonl") && nowhere.contains("hint:"), "{nowhere}");
    let read_back: Vec<_> = open(&file).unwrap().map(Result::unwrap).collect();
    assert_eq!(read_back, evidence().map(Result::unwrap).collect::<Vec<_>>());
    std::fs::remove_dir_all(&folder).unwrap();
}

prop_compose! {
    /// Any request that a trace can hold.
    fn any_request()(
        at: u32, sub in 0_u64..1_000_000, prompt in 1_u64..5000, output in 1_u64..1000,
        id_tokens in prop_oneof![Just(512_u32), Just(16), 1_u32..2000],
        with_ids: bool, base: u64, session: Option<u64>, delay in proptest::option::of(0_u64..1 << 50),
        class in proptest::option::of("\\PC{1,9}"), tenant in proptest::option::of("[a-z\"\\\\]{1,5}"),
    ) -> TraceRequest {
        let count = if with_ids { prompt.div_ceil(u64::from(id_tokens)) } else { 0 };
        TraceRequest {
            at: Span(u64::from(at) * 1_000_000 + sub),
            prompt: Tokens(prompt),
            output: Tokens(output),
            ids: (0..count).map(|nth| base.wrapping_add(nth)).collect(),
            id_tokens,
            session,
            delay: delay.map(Span),
            class: class.map(Arc::from),
            tenant: tenant.map(Arc::from),
        }
    }
}

/// A trace of conversations behind two common prefixes, in order of time.
fn conversations(turns: &[(u8, u8, bool)]) -> Vec<TraceRequest> {
    let mut lengths = [0_u64; 8];
    let turn = |(nth, (who, pause, named)): (usize, &(u8, u8, bool))| {
        let who = usize::from(who % 8);
        lengths[who] += 1;
        let own = 1000 * (who as u64 + 1);
        let prefix = (who % 2) as u64 * 100;
        let ids: Arc<[u64]> = (prefix..prefix + 3).chain(own..own + lengths[who]).collect();
        TraceRequest {
            at: Span::millis(nth as u64 * 50 + u64::from(*pause) / 8),
            prompt: Tokens(ids.len() as u64 * 512),
            output: Tokens(1),
            ids,
            id_tokens: 512,
            session: named.then_some(who as u64),
            delay: None,
            class: None,
            tenant: None,
        }
    };
    turns.iter().enumerate().map(turn).collect()
}

fn in_common(one: &TraceRequest, other: &TraceRequest) -> usize {
    one.ids.iter().zip(other.ids.iter()).take_while(|(one, other)| one == other).count()
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(bytes);
    }

    #[test]
    fn no_edit_of_a_trace_makes_the_reader_panic(
        start in 0_usize..4, at in 0_usize..150, cut in 0_usize..20, put in "[-0-9.eE\"{}\\[\\],:\n\\PC]{0,6}",
    ) {
        let starts = [
            format!("{ROW}\n{ROW}\n"),
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:01.5+00:00,1,1\n".repeat(2),
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,C,4,1,5,x\n".repeat(2),
            r#"{"chat_id": 1, "parent_chat_id": -1, "timestamp": 1.5, "input_length": 9, "output_length": 5, "hash_ids": [7]}"#.repeat(2),
        ];
        let mut bytes = starts[start].clone().into_bytes();
        let at = at.min(bytes.len());
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, put.bytes());
        let _ = read(bytes);
    }

    #[test]
    fn what_is_written_is_read_again(mut requests in proptest::collection::vec(any_request(), 1..20)) {
        requests.sort_by_key(|request| request.at);
        let mut text = Vec::new();
        for request in &requests {
            write_request(&mut text, request).unwrap();
        }
        prop_assert_eq!(read(text).unwrap(), requests);
    }

    #[test]
    fn copies_of_a_trace_have_its_shape_each(
        turns in proptest::collection::vec(any::<(u8, u8, bool)>(), 1..60), seed: u64, copies in 1_u32..4,
    ) {
        let before = conversations(&turns);
        let reopen = || -> Result<Requests, TraceError> {
            Ok(Box::new(conversations(&turns).into_iter().map(Ok)))
        };
        let scaling = Scaling { factor: f64::from(copies), seed, spread: Span::ZERO };
        let after: Vec<_> = scale(reopen, scaling).unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(after.len(), before.len() * copies as usize);
        prop_assert!(after.is_sorted_by_key(|request| request.at));
        let copy = |copy: usize| after.iter().skip(copy).step_by(copies as usize).collect::<Vec<_>>();
        for one in 0..copies as usize {
            for (place, request) in copy(one).iter().enumerate() {
                prop_assert_eq!((request.prompt, request.at), (before[place].prompt, before[place].at));
                for (other, twin) in copy(one).iter().enumerate() {
                    prop_assert_eq!(in_common(request, twin), in_common(&before[place], &before[other]));
                }
                for other in (0..copies as usize).filter(|other| *other != one) {
                    for stranger in copy(other) {
                        prop_assert!(in_common(request, stranger) <= 3, "a conversation has a double");
                        prop_assert!(request.session.is_none() || request.session != stranger.session);
                    }
                }
            }
        }
    }
}
