//! Tests the bodies: their words, what equal ids share, and what they ask for.

use forebay_core::{Span, Tokens};
use serde_json::Value;

use super::{Ask, Bodies, Form};
use crate::load::calibration::Calibration;
use crate::load::words::Words;
use crate::trace::TraceRequest;

fn request(prompt: u64, ids: &[u64]) -> TraceRequest {
    TraceRequest {
        at: Span::ZERO,
        prompt: Tokens(prompt),
        output: Tokens(7),
        ids: ids.into(),
        id_tokens: 16,
        session: None,
        delay: None,
        class: None,
        tenant: None,
    }
}

fn bodies() -> Bodies {
    Bodies::new(&Ask::new("m", Form::Completion, false))
}

fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

fn prompt(bodies: &Bodies, nth: u64, request: &TraceRequest) -> String {
    json(&bodies.body(nth, request))["prompt"].as_str().unwrap().to_owned()
}

fn words(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

#[test]
fn a_prompt_has_its_words_and_equal_ids_are_equal_text() {
    let text = |nth, request| prompt(&bodies(), nth, &request);
    let (one, two) = (text(0, request(40, &[1, 2, 3])), text(1, request(48, &[1, 2, 4])));
    let (one, two) = (words(&one), words(&two));
    assert_eq!((one.len(), two.len()), (40, 48));
    assert_eq!(one[..32], two[..32]);
    assert_ne!(one[32..], two[32..40]);
    assert!(one.iter().all(|word| word.len() == 3));
}

#[test]
fn a_prompt_without_ids_is_like_no_other() {
    let text = |nth| prompt(&bodies(), nth, &request(20, &[]));
    assert_eq!(words(&text(0)).len(), 20);
    assert_eq!(text(0), text(0));
    assert_ne!(text(0)[..12], text(1)[..12]);
    assert_eq!(prompt(&bodies(), 0, &request(0, &[])), "");
}

#[test]
fn another_salt_is_another_text_that_shares_as_much() {
    let salted = |salt| {
        let bodies = bodies().with_salt(salt);
        (prompt(&bodies, 0, &request(20, &[1, 2])), prompt(&bodies, 1, &request(20, &[1, 3])))
    };
    let ((one, other), (again, _)) = (salted(1), salted(2));
    assert_eq!(words(&one)[..16], words(&other)[..16]);
    assert_ne!(words(&one)[..4], words(&again)[..4]);
}

#[test]
fn calibrated_prompts_have_the_words_that_their_tokens_come_to_and_share_prefixes_still() {
    let calibration = Calibration { per_word: 1.5, overhead: 9.0, error: 0.0 };
    for list in [Words::everyday(), Words::letters()] {
        let bodies = bodies().with_words(list).with_calibration(calibration);
        let (short, long) = (request(60, &[1, 2, 3, 4]), request(128, &[1, 2, 3, 5, 6, 7, 8, 9]));
        let (one, two) = (prompt(&bodies, 0, &short), prompt(&bodies, 1, &long));
        // (60 − 9) / 1.5 and (128 − 9) / 1.5 words; three ids of 16 tokens are 32 words.
        assert_eq!((words(&one).len(), words(&two).len()), (34, 79));
        assert_eq!(words(&one)[..32], words(&two)[..32]);
        assert_ne!(words(&one)[32..], words(&two)[32..34]);
        assert_eq!(bodies.prompt_tokens(&short), 60);
    }
}

#[test]
fn a_body_is_json_that_asks_for_exactly_its_length() {
    for (form, stream) in [(Form::Completion, true), (Form::Chat, false)] {
        let bodies = Bodies::new(&Ask::new("a\"b", form, stream));
        let body = json(&bodies.body(0, &request(17, &[5, 6])));
        assert_eq!(body["model"], "a\"b");
        assert_eq!((&body["max_tokens"], &body["min_tokens"]), (&7.into(), &7.into()));
        assert_eq!((&body["ignore_eos"], &body["temperature"]), (&true.into(), &0.into()));
        let text = match form {
            Form::Completion => &body["prompt"],
            Form::Chat => &body["messages"][0]["content"],
        };
        assert_eq!(words(text.as_str().unwrap()).len(), 17);
        for field in ["stream", "stream_options"] {
            assert_eq!(body.get(field).is_some(), stream, "{field}");
        }
    }
}

#[test]
fn a_plain_body_has_no_field_that_only_some_engines_know() {
    let ask = Ask { is_plain: true, bounds_completion: true, ..Ask::new("m", Form::Chat, true) };
    let body = json(&Bodies::new(&ask).body(0, &request(3, &[])));
    let fields: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    let known =
        ["max_completion_tokens", "messages", "model", "stream", "stream_options", "temperature"];
    assert_eq!(fields, known);
    assert_eq!(body["max_completion_tokens"], 7);
}

#[test]
fn extra_fields_win_and_null_leaves_ours_out() {
    let asked = |extra: &str| {
        let extra = Ask::read_extra(extra).unwrap();
        let ask = Ask { extra, ..Ask::new("m", Form::Completion, false) };
        let body = Bodies::new(&ask).body(0, &request(3, &[]));
        // A field that stands twice means something else to every parser.
        let text = String::from_utf8(body.to_vec()).unwrap();
        let body = json(&body);
        for field in body.as_object().unwrap().keys() {
            assert_eq!(
                text.matches(&format!("{}:", Value::from(field.as_str()))).count(),
                1,
                "{field}"
            );
        }
        body
    };
    let body = asked(r#"{"temperature": 0.7, "ignore_eos": null, "top_k": 5, "a\"b": {"c": [1]}}"#);
    assert_eq!((&body["temperature"], &body["top_k"]), (&0.7.into(), &5.into()));
    assert_eq!((body.get("ignore_eos"), &body["a\"b"]["c"][0]), (None, &1.into()));
    assert_eq!(body["max_tokens"], 7);
    let body = asked(r#"{"max_completion_tokens": 3}"#);
    assert_eq!(body["max_completion_tokens"], 3);
    assert_eq!((body.get("max_tokens"), body.get("min_tokens")), (None, None));
}

#[test]
fn extra_fields_that_have_options_of_their_own_are_refused_with_a_hint() {
    for wrong in [r#"{"stream": true}"#, r#"{"messages": []}"#, "[1]", "{", "3"] {
        let error = Ask::read_extra(wrong).unwrap_err().to_string();
        assert!(error.contains("\nhint: write a JSON object"), "{error}");
    }
}

#[test]
fn a_probe_has_its_words_and_asks_for_one_token() {
    let bodies = bodies().with_calibration(Calibration { overhead: 50.0, ..Default::default() });
    let body = json(&bodies.probe(0, 64));
    assert_eq!(words(body["prompt"].as_str().unwrap()).len(), 64);
    assert_eq!((&body["max_tokens"], &body["min_tokens"]), (&1.into(), &1.into()));
    assert_ne!(body["prompt"], json(&bodies.probe(1, 64))["prompt"]);
}
