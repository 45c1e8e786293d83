//! Reads what users have, whole and broken.

use std::io::Cursor;
use std::path::{Path, PathBuf};

mod changing;
mod properties;

use super::open::stream;
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
    let lengths = r#""input_length": 9, "output_length": 3"#;
    let text = [
        r#"{"session_id": "a", "timestamp": 10, "hash_ids": [1], LENGTHS}"#,
        r#"{"session_id": "a", "delay": 1500.5, "text_input": "hello", LENGTHS}"#,
        r#"{"session_id": "b", "timestamp": 11, "payload": {"x": [1]}, LENGTHS}"#,
        r#"{"session_id": "b", "messages": [{"role": "user"}], LENGTHS}"#,
    ];
    let text = text.join("\n").replace("LENGTHS", lengths);
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
        (": 5", ": 315360000001", "timestamp is 315360000001"),
        (": 5", ": 18446744073709", "timestamp is 18446744073709"),
        ("{", "{\"delay\": 1e15, ", "delay is 1e15"),
        ("{", "{\"chat_id\": true, ", "expected a whole number (column"),
        ("{", "{\"tenant\": 7, ", "invalid type: integer `7`, expected a string"),
        ("{", "{\"timestamp\": 4, ", "duplicate field `timestamp`"),
        ("[1, 2]", "7", "invalid type: integer `7`, expected a list"),
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
fn a_line_that_is_no_object_is_told_in_words_of_the_format() {
    for line in ["[1, 2]", "7", "\"row\"", "null"] {
        refused(format!("{ROW}\n{line}\n"), Some(2), "the line is no JSON object");
    }
}

#[test]
fn a_table_may_hold_any_date_but_not_more_than_ten_years() {
    let table = |second: &str| {
        read(format!(
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00,1,2\n{second},1,2\n"
        ))
    };
    assert_eq!(table("2034-05-07 00:00:00").map(|read| read.len()), Ok(2));
    let error = table("2034-05-09 00:00:00").unwrap_err();
    assert_eq!(error.line, Some(3), "{error}");
    assert!(error.what.contains("more than ten years"), "{error}");
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
        let row = |time: &&str| format!("\r\n2023-11-16 18:17:{time},10,20");
        let rows: Vec<String> = times.iter().map(row).collect();
        times_ms(
            &read("TIMESTAMP,ContextTokens,GeneratedTokens".to_owned() + &rows.concat()).unwrap(),
        )
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
    let row = |chat: i64, parent: i64, seconds: &str, length: u64, ids: Vec<u64>| {
        let chat = format!(r#""chat_id": {chat}, "parent_chat_id": {parent}, "type": "text""#);
        let lengths = format!(r#""input_length": {length}, "output_length": 5"#);
        format!(r#"{{{chat}, "timestamp": {seconds}, {lengths}, "hash_ids": {ids:?}}}"#) + "\n"
    };
    let text = row(1, -1, "61.114", 100, (0..7).collect())
        + &row(2, 1, "70", 250, (0..6).chain(100..110).collect())
        + &row(3, -1, "70", 9, vec![7]);
    let requests = read(text.clone()).unwrap();
    assert_eq!(times_ms(&requests), [61_114.0, 70_000.0, 70_000.0]);
    assert_eq!((requests[1].prompt, requests[1].id_tokens), (Tokens(250), 16));
    let (one, two) = (requests[0].block_hashes(16), requests[1].block_hashes(16));
    assert_eq!((one.len(), two.len()), (6, 15));
    assert_eq!(one[..6], two[..6]);
    assert_eq!(requests[0].session, requests[1].session);
    assert_ne!(requests[0].session, requests[2].session);
    // Some writers give ids to full blocks only: the last, partial block is the request's own.
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
