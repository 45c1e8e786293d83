//! Says what is read of a body, and that no body breaks the reading.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

const CHAT: Endpoint = Endpoint::ChatCompletions;
const TEXT: Endpoint = Endpoint::Completions;

fn chat(body: &str) -> Scanned<'_> {
    scan(CHAT, body.as_bytes()).expect("a sound body")
}

/// How many prompts a completion has, and how many tokens.
fn prompts(prompt: &str) -> (u64, Option<u64>) {
    let body = format!(r#"{{"model":"m","prompt":{prompt}}}"#);
    let prompt = scan(TEXT, body.as_bytes()).expect("a sound body").prompt;
    (prompt.prompts, prompt.tokens)
}

fn spans(endpoint: Endpoint, body: &str) -> Vec<String> {
    let scanned = scan(endpoint, body.as_bytes()).expect("a sound body");
    scanned.prompt.spans.iter().map(|span| String::from_utf8_lossy(span).into_owned()).collect()
}

#[test]
fn every_endpoint_is_found_by_its_path() {
    for (path, endpoint) in [
        ("/v1/chat/completions", CHAT),
        ("/v1/completions", TEXT),
        ("/v1/embeddings", Endpoint::Embeddings),
        ("/v1/responses", Endpoint::Responses),
        ("/v1/messages", Endpoint::Messages),
        ("/v1/rerank", Endpoint::Rerank),
        ("/rerank", Endpoint::Rerank),
        ("/tokenize", Endpoint::Tokenize),
        ("/detokenize", Endpoint::Detokenize),
    ] {
        assert_eq!(Endpoint::from_path(path), Some(endpoint));
    }
    for path in ["", "/", "/v1/models", "/v1/completions/", "/v1/completions?x=1"] {
        assert_eq!(Endpoint::from_path(path), None);
    }
    let labels: std::collections::BTreeSet<_> = Endpoint::ALL.map(Endpoint::label).into();
    assert_eq!(labels.len(), Endpoint::ALL.len());
}

#[test]
fn unknown_fields_are_passed_over_whatever_they_are() {
    // A8
    let body = r#" { "x_future" : {"a":1.0,"b":12345678901234567890,"c":[{"model":"no"}]},
        "chat_template_kwargs":{"enable_thinking":false}, "max_tokens":5,
        "model":"m","max_completion_tokens":7,"top_k":-1, "messages":[{"role":"user"}] } "#;
    let scanned = chat(body);
    assert_eq!(scanned.model.as_deref(), Some("m"));
    assert_eq!(scanned.output_max, Some(7));
    assert_eq!(scanned.prompt.spans, [br#"[{"role":"user"}"#]);
    assert_eq!(scanned.ask_usage, None);
}

#[test]
fn the_bound_on_output_is_read_by_endpoint() {
    let body = r#"{"max_tokens":1,"max_output_tokens":2,"max_completion_tokens":3}"#;
    let bound = |endpoint| scan(endpoint, body.as_bytes()).expect("a sound body").output_max;
    assert_eq!(bound(CHAT), Some(3));
    assert_eq!(bound(TEXT), Some(1));
    assert_eq!(bound(Endpoint::Messages), Some(1));
    assert_eq!(bound(Endpoint::Responses), Some(2));
    assert_eq!(bound(Endpoint::Embeddings), None);
    assert_eq!(chat(r#"{"max_completion_tokens":null,"max_tokens":5}"#).output_max, Some(5));
}

#[test]
fn what_is_no_plain_integer_counts_as_absent() {
    for odd in ["1.0", "1e3", "-1", "\"7\"", "null", "true", "[1]", "18446744073709551616"] {
        let body = format!(r#"{{"max_tokens":{odd},"n":{odd}}}"#);
        let scanned = chat(&body);
        assert_eq!((scanned.output_max, scanned.n), (None, 1), "{odd}");
    }
    let most = chat(r#"{"max_tokens":18446744073709551615,"n":4}"#);
    assert_eq!((most.output_max, most.n), (Some(u64::MAX), 4));
    assert_eq!(chat(r#"{"n":0}"#).n, 1);
}

#[test]
fn only_a_literal_true_makes_a_stream() {
    assert!(chat(r#"{"stream":true}"#).stream);
    for other in ["false", "null", "1", "\"true\"", "True", "[true]"] {
        assert!(!chat(&format!(r#"{{"stream":{other}}}"#)).stream, "{other}");
    }
}

#[test]
fn of_duplicate_keys_the_last_wins() {
    let scanned = chat(r#"{"model":"a","stream":true,"model":"b","stream":false,"n":2,"n":"x"}"#);
    assert_eq!(scanned.model.as_deref(), Some("b"));
    assert!(!scanned.stream);
    assert_eq!(scanned.n, 1);
    assert_eq!(spans(TEXT, r#"{"prompt":"a","prompt":"b"}"#), ["b"]);
    assert!(spans(TEXT, r#"{"prompt":"a","prompt":null}"#).is_empty());
}

#[test]
fn an_escaped_key_or_name_is_read_as_the_worker_reads_it() {
    let scanned = chat(r#"{"mod\u0065l":"a\/\u00e9","\u0073tream":true,"user":"\ud800"}"#);
    assert_eq!(scanned.model.as_deref(), Some("a/é"));
    assert!(scanned.stream);
    assert_eq!(scanned.user, None, "a lone surrogate is no text");
    assert_eq!(chat(r#"{"model":null,"user":"é"}"#).user.as_deref(), Some("é"));
}

#[test]
fn all_forms_of_a_prompt_are_counted() {
    // A7
    assert_eq!(prompts("[1,2,3,4]"), (1, Some(4)));
    assert_eq!(prompts(r#"["a","b"]"#), (2, None));
    assert_eq!(prompts("[[1,2],[3]]"), (2, Some(3)));
    assert_eq!(prompts(r#""""#), (1, None));
    assert_eq!(prompts("[]"), (0, Some(0)));
    assert_eq!(prompts("[ [ ] ,\n[ 10 , 20 ] ]"), (2, Some(2)));
    assert_eq!(prompts(r#"[ "a,b" , [1] ,"]" ]"#), (3, None));
    assert_eq!(prompts("[1,-2]"), (1, None));
    assert_eq!(prompts("[1.0,2]"), (1, None));
    assert_eq!(prompts("null"), (0, None));
    assert_eq!(prompts("7"), (1, None));
    for length in [1, 127, 128, 129, 1000] {
        let ids: Vec<u64> = (0..length).map(|i| i * i * 7).collect();
        assert_eq!(prompts(&format!("{ids:?}")), (1, Some(length)));
        assert_eq!(prompts(&format!("[{ids:?},[5],{ids:?}]")), (3, Some(2 * length + 1)));
    }
}

#[test]
fn prompts_of_other_endpoints_are_counted_too() {
    let count = |endpoint, body: &'static str| {
        let prompt = scan(endpoint, body.as_bytes()).expect("a sound body").prompt;
        (prompt.prompts, prompt.tokens)
    };
    assert_eq!(count(Endpoint::Embeddings, r#"{"input":["a","b","c"]}"#), (3, None));
    assert_eq!(count(Endpoint::Embeddings, r#"{"messages":[{},{}]}"#), (1, None));
    assert_eq!(count(Endpoint::Rerank, r#"{"query":"q","documents":["a","b"]}"#), (2, None));
    assert_eq!(count(Endpoint::Detokenize, r#"{"tokens":[1,2]}"#), (1, Some(2)));
    assert_eq!(count(Endpoint::Tokenize, r#"{"prompt":"a"}"#), (1, None));
    assert_eq!(count(Endpoint::Responses, r#"{"input":[{},{}]}"#), (1, None));
    assert_eq!(count(CHAT, r#"{"messages":[{},{}]}"#), (1, None));
    assert_eq!(count(CHAT, "{}"), (0, None));
}

#[test]
fn a_longer_conversation_extends_a_shorter_one() {
    let short = r#"{"messages":[ {"role":"user","content":"a"} ],"tools":[{"type":"function"}]}"#;
    let long = r#"{"tools":[{"type":"function"}],"n":1,
        "messages":[ {"role":"user","content":"a"} , {"role":"assistant"}]}"#;
    let (short, long) = (spans(CHAT, short).concat(), spans(CHAT, long).concat());
    assert!(long.starts_with(&short), "{short:?} {long:?}");
    let (short, long) = (spans(TEXT, r#"{"prompt":"ab"}"#), spans(TEXT, r#"{"prompt":"abc"}"#));
    assert!(long.concat().starts_with(&short.concat()));
}

#[test]
fn spans_stand_in_the_order_in_which_prefixes_are_shared() {
    let body = r#"{"messages":[3],"input":"4","system":"2","instructions":"5","tools":[1],
        "query":"6","documents":["7"],"tokens":[8],"prompt":"9"}"#;
    assert_eq!(spans(CHAT, body), ["[1", "[3"]);
    assert_eq!(spans(Endpoint::Messages, body), ["[1", "2", "[3"]);
    assert_eq!(spans(Endpoint::Responses, body), ["[1", "5", "4"]);
    assert_eq!(spans(Endpoint::Rerank, body), ["6", r#"["7""#]);
    assert_eq!(spans(Endpoint::Detokenize, body), ["[8"]);
    assert_eq!(spans(Endpoint::Tokenize, body), ["[1", "[3", "9"]);
    let salted = chat(r#"{"cache_salt":"s\n","messages":[1]}"#);
    assert_eq!(salted.cache_salt, Some(&br"s\n"[..]));
    assert_eq!(salted.prompt.bytes(), 2);
}

#[test]
fn usage_is_asked_for_in_streams_alone_and_nothing_else_changes() {
    // A6, A8, A9
    let asked = |body: &str| {
        let splice = chat(body).ask_usage?;
        Some(String::from_utf8(splice.apply(body.as_bytes())).expect("text stays text"))
    };
    let stream = r#" {"stream": true , "x":12345678901234567890}"#;
    assert_eq!(
        asked(stream),
        Some(stream.replace('{', r#"{"stream_options":{"include_usage":true},"#))
    );
    for (options, then) in [
        ("null", r#"{"include_usage":true}"#),
        ("{ }", r#"{"include_usage":true }"#),
        (r#"{"a":[1]}"#, r#"{"include_usage":true,"a":[1]}"#),
        (r#"{"include_usage": false}"#, r#"{"include_usage": true}"#),
        (r#"{"include_usage":null,"a":1}"#, r#"{"include_usage":true,"a":1}"#),
    ] {
        let body = format!(r#"{{"stream_options":{options},"stream":true}}"#);
        let wanted = format!(r#"{{"stream_options":{then},"stream":true}}"#);
        assert_eq!(asked(&body), Some(wanted));
    }
    for body in [
        r#"{"stream_options":{"include_usage":true},"stream":true}"#,
        r#"{"stream_options":7,"stream":true}"#,
        r#"{"stream_options":null,"stream":false}"#,
        r#"{"stream":null}"#,
        "{}",
    ] {
        assert_eq!(asked(body), None, "{body}");
    }
    assert!(chat(r#"{"stream_options":{"include_usage":true}}"#).include_usage);
    let other = scan(Endpoint::Responses, br#"{"stream":true}"#).expect("a sound body");
    assert_eq!(other.ask_usage, None);
}

#[test]
fn a_body_that_is_no_object_is_refused_with_its_place() {
    for (body, what, at) in [
        (&b""[..], "an object is expected", 0),
        (b"  [1]", "an object is expected", 2),
        (b"\xef\xbb\xbf{}", "an object is expected", 0),
        (b"{\"a\":\"\xff\"}", "the body is not UTF-8", 6),
        (b"{", "a key is expected", 1),
        (b"{,}", "a key is expected", 1),
        (b"{'a':1}", "a key is expected", 1),
        (b"{\"a\" 1}", "a colon is expected", 5),
        (b"{\"a\":}", "a value is expected", 5),
        (b"{\"a\":1,}", "a key is expected", 7),
        (b"{\"a\":1 \"b\":2}", "a comma or the end of the object is expected", 7),
        (b"{\"a\":[1}", "this does not close what is open", 7),
        (b"{\"a\":[1,{]}", "this does not close what is open", 9),
        (b"{\"a\":[1,2", "this array or object has no end", 5),
        (b"{\"a\":\"b\\\"}", "this string has no end", 5),
        (b"{\"a\":1}{}", "nothing may follow the object", 7),
        (b"{\"a\":1}\0", "nothing may follow the object", 7),
    ] {
        assert_eq!(scan(CHAT, body), Err(BadBody { what, at }), "{body:?}");
    }
    let error = scan(CHAT, b"{secret").unwrap_err().to_string();
    assert_eq!(error, "a key is expected (at byte 1)");
}

#[test]
fn nesting_is_bounded_and_costs_no_stack() {
    let nested = |levels: usize| {
        format!(r#"{{"model":"m","x":{}1{}}}"#, "[".repeat(levels), "]".repeat(levels))
    };
    assert!(scan(CHAT, nested(DEPTH_MAX).as_bytes()).is_ok());
    let error = scan(CHAT, nested(DEPTH_MAX + 1).as_bytes()).unwrap_err();
    assert_eq!(error.what, "it is nested too deep");
    let mut endless = br#"{"x":"#.to_vec();
    endless.resize(1_000_000, b'[');
    assert_eq!(scan(CHAT, &endless).unwrap_err().what, "it is nested too deep");
}

#[test]
fn bodies_that_invite_quadratic_work_are_linear() {
    // Each would take hours if anything were looked at again and again.
    let many = 4_000_000;
    for text in [
        format!(r#"{{"prompt":"{}"}}"#, r#"\""#.repeat(many)),
        format!(r#"{{"prompt":"{}"}}"#, r"\\".repeat(many)),
        format!(r#"{{"prompt":"{}"#, r"\".repeat(many)),
        format!(r#"{{"prompt":[{}1]}}"#, "1,".repeat(many)),
        format!(r#"{{"stream_options":{{{}"a":1}}}}"#, r#""a":1,"#.repeat(many)),
        format!(r#"{{{}"a":1}}"#, r#""prompt":[1],"#.repeat(many)),
    ] {
        let _ = scan(TEXT, text.as_bytes());
    }
}

#[test]
fn a_body_cut_anywhere_is_refused() {
    let body = r#"{"model":"mö","messages":[{"content":"\"\\"}],"stream":true,"n":1}"#.as_bytes();
    for cut in 0..body.len() {
        for endpoint in Endpoint::ALL {
            assert!(scan(endpoint, &body[..cut]).is_err(), "cut at {cut}");
        }
    }
    assert!(scan(CHAT, body).is_ok());
}

/// Any JSON value, three levels deep.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Halves: a parser that rounds the last digit reads them as they are.
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 2.0)),
        r#"[a-z"\\\[\]{}é\n ]{0,12}"#.prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-z\"]{0,3}", inner), 0..4)
                .prop_map(|members| Value::Object(Map::from_iter(members))),
        ]
    })
}

/// A body that has some of the fields that are read, with likely and with any values.
fn any_body() -> impl Strategy<Value = Value> {
    let fields = [
        "model",
        "stream",
        "n",
        "user",
        "max_tokens",
        "max_completion_tokens",
        "prompt",
        "messages",
        "tools",
        "stream_options",
        "other",
    ];
    let value = prop_oneof![
        any_json(),
        Just(json!(true)),
        Just(json!("text")),
        (0..100_u64).prop_map(Value::from),
        prop::collection::vec(0..200_000_u64, 0..300).prop_map(Value::from),
        any::<Option<bool>>().prop_map(|b| json!({"include_usage": b, "x": {}})),
    ];
    prop::collection::vec((prop::sample::select(fields.to_vec()), value), 0..8).prop_map(
        |members| {
            Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
        },
    )
}

/// Token ids, if these are some.
fn ids_of(value: &Value) -> Option<Vec<u64>> {
    value.as_array()?.iter().map(Value::as_u64).collect()
}

proptest! {
    #[test]
    fn a_sound_body_is_read_as_a_whole_parser_reads_it(body in any_body(), pretty: bool) {
        let text = if pretty {
            serde_json::to_string_pretty(&body)
        } else {
            serde_json::to_string(&body)
        }.unwrap();
        let scanned = scan(CHAT, text.as_bytes()).unwrap();
        prop_assert_eq!(scanned.model.as_deref(), body["model"].as_str());
        prop_assert_eq!(scanned.user.as_deref(), body["user"].as_str());
        prop_assert_eq!(scanned.stream, body["stream"] == true);
        prop_assert_eq!(scanned.n, body["n"].as_u64().filter(|&n| n > 0).unwrap_or(1));
        let bound = body["max_completion_tokens"].as_u64().or(body["max_tokens"].as_u64());
        prop_assert_eq!(scanned.output_max, bound);
        let include = body["stream_options"]["include_usage"] == true;
        prop_assert_eq!(scanned.include_usage, include);

        if let Some(splice) = &scanned.ask_usage {
            let mut wanted = body.clone();
            if wanted["stream_options"].is_null() {
                wanted["stream_options"] = json!({});
            }
            wanted["stream_options"]["include_usage"] = json!(true);
            let spliced: Value = serde_json::from_slice(&splice.apply(text.as_bytes())).unwrap();
            prop_assert_eq!(spliced, wanted);
        } else {
            let options = &body["stream_options"];
            prop_assert!(
                !scanned.stream || include || !(options.is_null() || options.is_object())
            );
        }

        let prompt = scan(TEXT, text.as_bytes()).unwrap().prompt;
        let ids = ids_of(&body["prompt"]);
        prop_assert!(ids.is_none() || prompt.tokens == ids.map(|ids| ids.len() as u64));
        // A list that mixes ids and lists of ids is no prompt, and nothing is claimed of it.
        let flat = |value: &Value| !value.is_array() || ids_of(value).is_some();
        let list = body["prompt"].as_array().filter(|list| {
            let lists = list.iter().filter(|value| value.is_array()).count();
            !list.is_empty() && list.iter().all(flat) && (lists == 0 || lists == list.len())
        });
        if let Some(list) = list {
            let wanted = if list[0].is_number() { 1 } else { list.len() as u64 };
            prop_assert_eq!(prompt.prompts, wanted);
        }
    }

    #[test]
    fn a_text_full_of_escapes_ends_where_a_whole_parser_ends_it(
        text in r#"(["\\]{1,3}|a{0,40}){0,80}"#,
    ) {
        let body = json!({"prompt": text, "user": "u"}).to_string();
        let scanned = scan(TEXT, body.as_bytes()).unwrap();
        prop_assert_eq!(scanned.user.as_deref(), Some("u"));
        let quoted = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(&scanned.prompt.spans, &[&quoted.as_bytes()[1..quoted.len() - 1]]);
    }

    #[test]
    fn a_refused_body_is_refused_by_a_whole_parser_too(text in r#"[{}\[\]",:a1\\ ]{0,24}"#) {
        if scan(CHAT, text.as_bytes()).is_err() {
            prop_assert!(serde_json::from_str::<Map<String, Value>>(&text).is_err());
        }
    }

    #[test]
    fn no_bytes_break_the_scan(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for endpoint in Endpoint::ALL {
            let _ = scan(endpoint, &bytes);
        }
    }

    #[test]
    fn no_text_near_json_breaks_the_scan(
        inner in r#"("prompt"|"input"|"documents"|"stream_options"|[{}\[\]",:0-9a\\ ]){0,40}"#,
    ) {
        let body = format!("{{{inner}}}");
        for endpoint in Endpoint::ALL {
            let _ = scan(endpoint, body.as_bytes());
        }
    }
}
