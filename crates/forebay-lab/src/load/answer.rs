//! Reads what an OpenAI-like endpoint answers: the chunks of a stream, or one object.
//!
//! Only what the record needs is read, and unknown fields of any shape are passed over: engines and
//! gateways add their own.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::results::Usage;

/// What one chunk, or an answer that is no stream, says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// It holds a token: text, reasoning, or a call of a tool.
    pub(super) has_token: bool,
    /// It holds a token that is no reasoning.
    pub(super) has_answer: bool,
    /// The error that it holds.
    pub(super) error: Option<String>,
    /// What it says was used.
    pub(super) usage: Usage,
}

/// Reads one object; `None` where it is not JSON, or not of the protocol's shape.
pub(super) fn read(json: &[u8]) -> Option<Said> {
    let object: Object = serde_json::from_slice(json).ok()?;
    let used = object.usage.unwrap_or_default();
    let choices = object.choices.unwrap_or_default();
    let has_answer = choices.iter().any(Choice::has_answer);
    Some(Said {
        has_token: has_answer || choices.iter().any(Choice::has_reasoning),
        has_answer,
        error: object.error.map(|error| error.get().to_owned()).or_else(|| {
            let broken = choices.iter().find_map(Choice::broken);
            broken.map(|reason| format!("its finish_reason is {reason}"))
        }),
        usage: Usage {
            prompt_tokens: used.prompt_tokens,
            output_tokens: used.completion_tokens,
            cached_tokens: used.prompt_tokens_details.and_then(|details| details.cached_tokens),
        },
    })
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<Used>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    text: Filled,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
    delta: Option<Piece>,
    message: Option<Piece>,
}

impl Choice<'_> {
    /// Why it ended, where that is no good end: vLLM and SGLang say so of what they gave up.
    fn broken(&self) -> Option<&'static str> {
        let reason = self.finish_reason?.get().trim_matches('"');
        ["abort", "error"].into_iter().find(|broken| *broken == reason)
    }

    fn has_answer(&self) -> bool {
        self.text.0 || self.pieces().any(Piece::has_answer)
    }

    fn has_reasoning(&self) -> bool {
        self.pieces().any(|piece| piece.reasoning.0 || piece.reasoning_content.0)
    }

    fn pieces(&self) -> impl Iterator<Item = &Piece> {
        [&self.delta, &self.message].into_iter().flatten()
    }
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Piece {
    content: Filled,
    reasoning: Filled,
    reasoning_content: Filled,
    tool_calls: Filled,
    refusal: Filled,
}

impl Piece {
    fn has_answer(&self) -> bool {
        self.content.0 || self.tool_calls.0 || self.refusal.0
    }
}

#[derive(Default, Deserialize)]
struct Used {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}

/// Whether a value is there and not empty, whatever its type.
#[derive(Default)]
struct Filled(bool);

impl<'de> Deserialize<'de> for Filled {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FilledVisitor)
    }
}

struct FilledVisitor;

impl<'de> Visitor<'de> for FilledVisitor {
    type Value = Filled;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<Filled, E> {
        Ok(Filled(false))
    }
    fn visit_bool<E>(self, value: bool) -> Result<Filled, E> {
        Ok(Filled(value))
    }
    fn visit_i64<E>(self, _: i64) -> Result<Filled, E> {
        Ok(Filled(true))
    }
    fn visit_u64<E>(self, _: u64) -> Result<Filled, E> {
        Ok(Filled(true))
    }
    fn visit_f64<E>(self, _: f64) -> Result<Filled, E> {
        Ok(Filled(true))
    }
    fn visit_str<E>(self, text: &str) -> Result<Filled, E> {
        Ok(Filled(!text.is_empty()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Filled, A::Error> {
        let mut is_filled = false;
        while values.next_element::<IgnoredAny>()?.is_some() {
            is_filled = true;
        }
        Ok(Filled(is_filled))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Filled, A::Error> {
        let mut is_filled = false;
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            is_filled = true;
        }
        Ok(Filled(is_filled))
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::results::Usage;

    fn has_token(choice: &str) -> bool {
        read(format!("{{\"choices\":[{choice}]}}").as_bytes()).unwrap().has_token
    }

    #[test]
    fn a_token_is_text_reasoning_or_a_call_that_is_not_empty() {
        for choice in [
            r#"{"text":" a"}"#,
            r#"{"delta":{"content":"\u00e9"}}"#,
            r#"{"delta":{"content":null,"reasoning":"so"}}"#,
            r#"{"delta":{"reasoning_content":"so"}}"#,
            r#"{"delta":{"tool_calls":[{"index":0}]}}"#,
            r#"{"message":{"content":[{"type":"text"}]}}"#,
        ] {
            assert!(has_token(choice), "{choice}");
        }
        for choice in [
            r#"{"text":""}"#,
            r#"{"delta":{"role":"assistant","content":""}}"#,
            r#"{"delta":{"content":null,"tool_calls":[]},"finish_reason":"stop"}"#,
            r#"{"delta":{}}"#,
            r#"{"delta":null}"#,
        ] {
            assert!(!has_token(choice), "{choice}");
        }
    }

    #[test]
    fn reasoning_is_a_token_but_no_answer() {
        let said = |delta: &str| {
            let said = read(format!("{{\"choices\":[{{\"delta\":{delta}}}]}}").as_bytes()).unwrap();
            (said.has_token, said.has_answer)
        };
        assert_eq!(said(r#"{"reasoning":"so"}"#), (true, false));
        assert_eq!(said(r#"{"reasoning_content":"so","content":""}"#), (true, false));
        assert_eq!(said(r#"{"reasoning":"so","content":"a"}"#), (true, true));
        assert_eq!(said(r#"{"refusal":"I won't"}"#), (true, true));
    }

    #[test]
    fn usage_and_errors_are_read_and_null_is_neither() {
        let said = read(
            br#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,
                "prompt_tokens_details":{"cached_tokens":8}},"error":null,"x":[{}]}"#,
        )
        .unwrap();
        assert_eq!(said.error, None);
        let counts = [9, 2, 8].map(Some);
        let [prompt_tokens, output_tokens, cached_tokens] = counts;
        assert_eq!(said.usage, Usage { prompt_tokens, output_tokens, cached_tokens });
        let said = read(br#"{"error":{"message":"m","code":400},"usage":null}"#).unwrap();
        assert_eq!(said.error.as_deref(), Some(r#"{"message":"m","code":400}"#));
        let bare = read(br#"{"choices":[],"usage":{"prompt_tokens_details":null}}"#).unwrap();
        assert!(bare.usage.is_silent());
    }

    #[test]
    fn an_answer_that_was_given_up_is_an_error_whatever_it_holds() {
        let error = |reason: &str| {
            let choice = format!(r#"{{"text":" a","finish_reason":{reason}}}"#);
            read(format!("{{\"choices\":[{choice}]}}").as_bytes()).unwrap().error
        };
        assert_eq!(error("\"abort\"").as_deref(), Some("its finish_reason is abort"));
        assert_eq!(error("\"error\"").as_deref(), Some("its finish_reason is error"));
        for good in ["null", "\"stop\"", "\"length\"", "\"tool_calls\"", "{\"type\":\"stop\"}"] {
            assert_eq!(error(good), None, "{good}");
        }
    }

    #[test]
    fn what_is_no_object_of_the_protocol_is_nothing() {
        for json in ["", "[", "[1]", "{\"choices\":7}", "{\"a\":1}x", "\u{7f}"] {
            assert_eq!(read(json.as_bytes()), None, "{json}");
        }
        assert!(read(b"{\"usage\":{\"prompt_tokens\":-1}}").is_none());
    }
}
