//! Makes the bodies of a trace's requests: equal prefixes are equal text.
//!
//! A request is one prompt, also as a later turn of a conversation: a trace's row is the whole
//! conversation so far, and a chat form holds it as one message of the user. Sent as many messages,
//! it would be longer by a template's marks for each, which the row's length does not have.

use std::fmt::Write as _;

use bytes::Bytes;
use forebay_core::mixed;
use serde_json::{Map, Value};

use super::arrivals::NotationError;
use super::calibration::Calibration;
use super::words::Words;
use crate::trace::TraceRequest;

/// Fields that extra ones may not replace: each has an option of its own, which decides more than
/// the field.
const OURS: [&str; 5] = ["model", "prompt", "messages", "stream", "stream_options"];
/// Fields that bound an answer.
const BOUNDS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// The field that a prompt stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `prompt`, for `/v1/completions`: the prompt has exactly its words.
    Completion,
    /// One message of a user, for `/v1/chat/completions`: the engine's template adds some tokens.
    Chat,
}

/// What a body asks for besides its prompt.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The model's name.
    pub model: String,
    /// The field that a prompt stands in.
    pub form: Form,
    /// Whether the answer is asked for as a stream, with its usage at the end. Nothing of a stream
    /// is said otherwise: engines refuse `stream_options` without `stream`.
    pub stream: bool,
    /// Leaves out what only vLLM and its kin know, `min_tokens` and `ignore_eos`: an answer may
    /// then end before its length. For endpoints that refuse unknown fields.
    pub is_plain: bool,
    /// Bounds the answer by `max_completion_tokens`, as newer endpoints want it, instead of
    /// `max_tokens`.
    pub bounds_completion: bool,
    /// Further fields. They win over ours, and a `null` leaves a field of ours out
    /// (`{"temperature": null}`). With a bound of the answer among them, ours and `min_tokens` are
    /// left out, since they would contradict it.
    pub extra: Map<String, Value>,
}

impl Ask {
    /// Asks for exact lengths of answers, at temperature 0.
    pub fn new(model: impl Into<String>, form: Form, stream: bool) -> Self {
        let (is_plain, bounds_completion) = (false, false);
        Self { model: model.into(), form, stream, is_plain, bounds_completion, extra: Map::new() }
    }

    /// Reads extra fields: a JSON object without those that have options of their own.
    pub fn read_extra(text: &str) -> Result<Map<String, Value>, NotationError> {
        let remedy = "write a JSON object, as in {\"temperature\": 0.7}; model, prompt, messages, \
                      stream and stream_options have options of their own";
        let extra: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
            NotationError::new(format!("extra fields are no JSON object: {error}"), remedy)
        })?;
        match OURS.iter().find(|field| extra.contains_key(**field)) {
            None => Ok(extra),
            Some(field) => {
                Err(NotationError::new(format!("`{field}` can't be an extra field"), remedy))
            }
        }
    }

    /// What stands before a prompt's text, its quotation mark left out.
    fn head(&self) -> String {
        let model = Value::from(self.model.as_str());
        match self.form {
            Form::Completion => format!("{{\"model\":{model},\"prompt\":"),
            Form::Chat => {
                format!("{{\"model\":{model},\"messages\":[{{\"role\":\"user\",\"content\":")
            }
        }
    }

    /// What stands behind it, cut where the length of the answer goes.
    fn tail(&self) -> Vec<String> {
        let mut pieces = vec![String::from(match self.form {
            Form::Completion => "\"",
            Form::Chat => "\"}]",
        })];
        let is_bounded = BOUNDS.iter().any(|field| self.extra.contains_key(*field));
        let bound = BOUNDS[usize::from(self.bounds_completion)];
        let exact = if self.is_plain { None } else { Some("min_tokens") };
        for field in [bound].into_iter().chain(exact) {
            if !is_bounded && !self.extra.contains_key(field) {
                let last = pieces.last_mut().expect("it began with one");
                let _ = write!(last, ",\"{field}\":");
                pieces.push(String::new());
            }
        }
        let last = pieces.last_mut().expect("it began with one");
        let ours = [("ignore_eos", Value::from(true)), ("temperature", Value::from(0))];
        for (field, value) in ours.into_iter().skip(usize::from(self.is_plain)) {
            if !self.extra.contains_key(field) {
                let _ = write!(last, ",\"{field}\":{value}");
            }
        }
        if self.stream {
            last.push_str(",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
        }
        for (field, value) in self.extra.iter().filter(|(_, value)| !value.is_null()) {
            let _ = write!(last, ",{}:{value}", Value::from(field.as_str()));
        }
        last.push('}');
        pieces
    }
}

/// Makes bodies.
#[derive(Clone, Debug)]
pub struct Bodies {
    head: String,
    tail: Vec<String>,
    words: Words,
    calibration: Calibration,
    salt: u64,
}

impl Bodies {
    /// Bodies that ask for this, made of words of three letters that are taken for a token each, as
    /// they are for `forebay engine`.
    pub fn new(ask: &Ask) -> Self {
        Self {
            head: ask.head(),
            tail: ask.tail(),
            words: Words::letters(),
            calibration: Calibration::default(),
            salt: 0,
        }
    }

    /// Bodies made of other words.
    #[must_use]
    pub fn with_words(self, words: Words) -> Self {
        Self { words, ..self }
    }

    /// Bodies whose prompts have as many words as come to their tokens by this calibration.
    #[must_use]
    pub fn with_calibration(self, calibration: Calibration) -> Self {
        Self { calibration, ..self }
    }

    /// Bodies whose text has nothing in common with that of another salt, so that what an endpoint
    /// has cached of an earlier run helps this one not. 0 leaves the text as the ids say.
    #[must_use]
    pub fn with_salt(self, salt: u64) -> Self {
        Self { salt, ..self }
    }

    /// The body of a request: a prompt of as many tokens as the request's, and an answer of exactly
    /// its length. A request without ids shares nothing with any other of another `nth`.
    pub fn body(&self, nth: u64, request: &TraceRequest) -> Bytes {
        let own = [mixed(!nth)];
        let ids = if request.ids.is_empty() { &own[..] } else { &request.ids[..] };
        let words = self.calibration.words(request.prompt.0);
        self.assembled(words, ids, u64::from(request.id_tokens), request.output.0)
    }

    /// A body to calibrate with: so many words that no request has, and an answer of one token.
    pub fn probe(&self, nth: u64, words: u64) -> Bytes {
        self.assembled(words, &[mixed(nth ^ mixed(words))], 0, 1)
    }

    /// How many tokens the prompt of a request's body has, as far as is known.
    pub fn prompt_tokens(&self, request: &TraceRequest) -> u64 {
        self.calibration.tokens(self.calibration.words(request.prompt.0))
    }

    /// So many words by ids in order. A single id has them all.
    fn assembled(&self, words: u64, ids: &[u64], id_tokens: u64, output: u64) -> Bytes {
        let text = words as usize * (self.words.mean_bytes() + 1);
        let around = self.head.len() + self.tail.iter().map(String::len).sum::<usize>() + 40;
        let mut body = Vec::with_capacity(text + around);
        body.extend_from_slice(self.head.as_bytes());
        let start = body.len();
        let mut before = 0;
        for (place, id) in (1..).zip(ids) {
            // The last id has what is left, and calibrated ids never leave a prompt short.
            let is_last = place == ids.len() as u64;
            let behind = self.calibration.words_before(place, id_tokens).min(words);
            let behind = if is_last { words } else { behind };
            self.words.write(self.salted(*id), behind - before, &mut body);
            before = behind;
        }
        // Words are written behind a space each; in the place of the first one the text begins.
        match body.get_mut(start) {
            Some(space) => *space = b'"',
            None => body.push(b'"'),
        }
        let output = output.to_string();
        for (nth, piece) in self.tail.iter().enumerate() {
            if nth > 0 {
                body.extend_from_slice(output.as_bytes());
            }
            body.extend_from_slice(piece.as_bytes());
        }
        body.into()
    }

    const fn salted(&self, id: u64) -> u64 {
        if self.salt == 0 { id } else { mixed(id ^ mixed(self.salt)) }
    }
}

#[cfg(test)]
mod tests;
