//! Makes the bodies of a trace's requests: equal prefixes are equal text.

use std::fmt::Write as _;

use bytes::Bytes;
use forebay_core::{Rng, mixed};

use crate::trace::TraceRequest;

/// Letters of a word. Three lower-case letters and the space before them are one token for
/// `forebay engine`, and 17,576 different words make two prompts that look alike by chance
/// impossible within one id.
const LETTERS: u32 = 3;

/// The field that a prompt stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `prompt`, for `/v1/completions`: the prompt has exactly its words.
    Completion,
    /// One message of a user, for `/v1/chat/completions`: the engine's template adds some tokens.
    Chat,
}

/// Makes bodies for one model.
#[derive(Clone, Debug)]
pub struct Bodies {
    /// The model's name.
    pub model: String,
    /// The field that a prompt stands in.
    pub form: Form,
    /// Whether the answer is asked for as a stream, with its usage at the end.
    pub stream: bool,
}

impl Bodies {
    /// The body of a request: so many one-token words as its prompt has tokens, and an answer of
    /// exactly its length. A request without ids shares nothing with any other of another `nth`.
    pub fn body(&self, nth: u64, request: &TraceRequest) -> Bytes {
        let text = serde_json::Value::String(prompt(nth, request));
        let model = serde_json::Value::String(self.model.clone());
        let field = match self.form {
            Form::Completion => format!("\"prompt\":{text}"),
            Form::Chat => format!("\"messages\":[{{\"role\":\"user\",\"content\":{text}}}]"),
        };
        let streamed = ",\"stream\":true,\"stream_options\":{\"include_usage\":true}";
        let stream = if self.stream { streamed } else { "" };
        let output = request.output.0;
        let body = format!(
            "{{\"model\":{model},{field},\"max_tokens\":{output},\"min_tokens\":{output},\
             \"ignore_eos\":true,\"temperature\":0{stream}}}"
        );
        body.into()
    }
}

/// The words of a prompt, with a space between them.
fn prompt(nth: u64, request: &TraceRequest) -> String {
    let len = request.prompt.0;
    let mut text = String::with_capacity(len as usize * (LETTERS as usize + 1));
    let own = [mixed(!nth)];
    let (ids, id_tokens) = match &request.ids[..] {
        [] => (&own[..], len.max(1)),
        ids => (ids, u64::from(request.id_tokens)),
    };
    for (place, id) in (0..len.div_ceil(id_tokens)).zip(ids) {
        let words = id_tokens.min(len - place * id_tokens);
        write_words(&mut text, *id, words);
    }
    text
}

/// The first words that belong to an id: the same ones whenever the id is met.
fn write_words(text: &mut String, id: u64, words: u64) {
    let mut rng = Rng::new(id);
    for _ in 0..words {
        if !text.is_empty() {
            text.push(' ');
        }
        let mut drawn = rng.below(26_u64.pow(LETTERS));
        for _ in 0..LETTERS {
            let letter = b'a' + (drawn % 26) as u8;
            let _ = text.write_char(char::from(letter));
            drawn /= 26;
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::{Span, Tokens};

    use super::{Bodies, Form, prompt};
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

    fn words(text: &str) -> Vec<&str> {
        text.split(' ').collect()
    }

    #[test]
    fn a_prompt_has_its_words_and_equal_ids_are_equal_text() {
        let (one, two) = (prompt(0, &request(40, &[1, 2, 3])), prompt(1, &request(48, &[1, 2, 4])));
        let (one, two) = (words(&one), words(&two));
        assert_eq!((one.len(), two.len()), (40, 48));
        assert_eq!(one[..32], two[..32]);
        assert_ne!(one[32..], two[32..40]);
        assert!(one.iter().all(|word| word.len() == 3));
    }

    #[test]
    fn a_prompt_without_ids_is_like_no_other() {
        let text = |nth| prompt(nth, &request(20, &[]));
        assert_eq!(words(&text(0)).len(), 20);
        assert_eq!(text(0), text(0));
        assert_ne!(text(0)[..12], text(1)[..12]);
        assert_eq!(prompt(0, &request(0, &[])), "");
    }

    #[test]
    fn a_body_is_json_that_asks_for_exactly_its_length() {
        for (form, stream) in [(Form::Completion, true), (Form::Chat, false)] {
            let bodies = Bodies { model: "a\"b".to_owned(), form, stream };
            let body = bodies.body(0, &request(17, &[5, 6]));
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["model"], "a\"b");
            assert_eq!((&body["max_tokens"], &body["min_tokens"]), (&7.into(), &7.into()));
            let text = match form {
                Form::Completion => &body["prompt"],
                Form::Chat => &body["messages"][0]["content"],
            };
            assert_eq!(words(text.as_str().unwrap()).len(), 17);
            assert_eq!(body.get("stream").is_some(), stream);
        }
    }
}
