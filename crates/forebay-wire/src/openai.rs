//! Reads what a gateway needs of a request's body, and leaves the body as it is.
//!
//! The body goes to the worker byte for byte: a router that parses a request into types of its own
//! and writes it anew drops what it doesn't know, rounds big integers, and refuses tomorrow's
//! fields. So the body is scanned once, over the top level of its object; what is read is borrowed.
//! Where a field has a form that isn't understood here it counts as absent: the worker judges.
//!
//! The names are those of the OpenAI API (chat completions, completions, embeddings, responses),
//! of Anthropic's messages, and of vLLM's own endpoints (rerank, tokenize, detokenize).

mod prompt;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

pub use crate::json::{BadJson as BadBody, DEPTH_MAX};
use crate::json::{Members, Value};
pub use prompt::Prompt;

/// What a request asks for, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// `/v1/chat/completions`
    ChatCompletions,
    /// `/v1/completions`
    Completions,
    /// `/v1/embeddings`
    Embeddings,
    /// `/v1/responses`
    Responses,
    /// `/v1/messages`, as Anthropic has it
    Messages,
    /// `/v1/rerank` or `/rerank`
    Rerank,
    /// `/tokenize`
    Tokenize,
    /// `/detokenize`
    Detokenize,
}

impl Endpoint {
    /// Every endpoint.
    pub const ALL: [Self; 8] = [
        Self::ChatCompletions,
        Self::Completions,
        Self::Embeddings,
        Self::Responses,
        Self::Messages,
        Self::Rerank,
        Self::Tokenize,
        Self::Detokenize,
    ];

    /// The endpoint of a path, which must be exactly its path, without a query.
    pub fn from_path(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/chat/completions" => Self::ChatCompletions,
            "/v1/completions" => Self::Completions,
            "/v1/embeddings" => Self::Embeddings,
            "/v1/responses" => Self::Responses,
            "/v1/messages" => Self::Messages,
            "/v1/rerank" | "/rerank" => Self::Rerank,
            "/tokenize" => Self::Tokenize,
            "/detokenize" => Self::Detokenize,
            _ => return None,
        })
    }

    /// Its name in metrics and logs.
    pub const fn label(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
            Self::Completions => "completions",
            Self::Embeddings => "embeddings",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Rerank => "rerank",
            Self::Tokenize => "tokenize",
            Self::Detokenize => "detokenize",
        }
    }

    /// The fields that bound the output, the strongest first.
    const fn output_fields(self) -> &'static [&'static [u8]] {
        match self {
            Self::ChatCompletions => &[b"max_completion_tokens", b"max_tokens"],
            Self::Completions | Self::Messages => &[b"max_tokens"],
            Self::Responses => &[b"max_output_tokens"],
            Self::Embeddings | Self::Rerank | Self::Tokenize | Self::Detokenize => &[],
        }
    }

    /// Whether a stream tells its usage only where `stream_options.include_usage` asks for it.
    const fn asks_usage(self) -> bool {
        matches!(self, Self::ChatCompletions | Self::Completions)
    }
}

/// What was read of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned<'a> {
    /// `model`, decoded.
    pub model: Option<Cow<'a, str>>,
    /// Whether `stream` is literally `true`.
    pub stream: bool,
    /// Most tokens of one output. `max_completion_tokens` wins over `max_tokens`; responses have
    /// `max_output_tokens`.
    pub output_max: Option<u64>,
    /// How many outputs each prompt shall get: `n`, where it is an integer above 0, or 1. Any
    /// 64-bit number may stand here: add and multiply with care.
    pub n: u64,
    /// `user`, decoded.
    pub user: Option<Cow<'a, str>>,
    /// The raw text of `cache_salt`: prompts under different salts share no blocks in the engine.
    pub cache_salt: Option<&'a [u8]>,
    /// Whether `stream_options.include_usage` is literally `true`.
    pub include_usage: bool,
    /// The change that makes a worker tell the usage of this stream, where it wouldn't otherwise
    /// and the request allows it. A request that isn't a stream must not have it: vLLM refuses.
    pub ask_usage: Option<Splice>,
    /// What the engine will see.
    pub prompt: Prompt<'a>,
}

/// A change to a body: these bytes in place of that range, everything else as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    /// What is replaced; often empty.
    pub range: Range<usize>,
    /// What stands there instead.
    pub with: &'static [u8],
}

impl Splice {
    /// The changed body.
    pub fn apply(&self, body: &[u8]) -> Vec<u8> {
        [&body[..self.range.start], self.with, &body[self.range.end..]].concat()
    }
}

/// The members of the top level that matter: the last of each name.
#[derive(Default)]
struct Fields<'a> {
    model: Option<Value<'a>>,
    stream: bool,
    output: [Option<u64>; 2],
    n: Option<u64>,
    user: Option<Value<'a>>,
    cache_salt: Option<Value<'a>>,
    stream_options: Option<Value<'a>>,
    prompt: prompt::Parts<'a>,
}

impl<'a> Fields<'a> {
    fn take(&mut self, endpoint: Endpoint, key: &[u8], value: Value<'a>) {
        match key {
            b"model" => self.model = Some(value),
            b"stream" => self.stream = value.raw == b"true",
            b"n" => self.n = value.integer(),
            b"user" => self.user = Some(value),
            b"cache_salt" => self.cache_salt = Some(value),
            b"stream_options" => self.stream_options = Some(value),
            _ => {
                let mut names = endpoint.output_fields().iter();
                match names.position(|&name| name == key) {
                    Some(rank) => self.output[rank] = value.integer(),
                    None => self.prompt.take(endpoint, key, value),
                }
            }
        }
    }
}

/// Reads a body: one JSON object in UTF-8 with nothing after it.
///
/// Takes time linear in the body and memory for what is decoded alone; never panics.
pub fn scan(endpoint: Endpoint, body: &[u8]) -> Result<Scanned<'_>, BadBody> {
    // The standard library's check takes ten times as long for text outside ASCII.
    if let Err(e) = simdutf8::compat::from_utf8(body) {
        return Err(BadBody { what: "the body is not UTF-8", at: e.valid_up_to() });
    }
    let mut fields = Fields::default();
    let mut members = Members::new(body)?;
    while let Some((key, value)) = members.next()? {
        fields.take(endpoint, &key, value);
    }
    members.end()?;

    let include_usage = fields
        .stream_options
        .and_then(|options| options.member(b"include_usage"))
        .is_some_and(|value| value.raw == b"true");
    let ask_usage = (fields.stream && !include_usage && endpoint.asks_usage())
        .then(|| ask_usage(body, fields.stream_options))
        .flatten();
    Ok(Scanned {
        model: fields.model.and_then(Value::text),
        stream: fields.stream,
        output_max: fields.output.into_iter().flatten().next(),
        n: fields.n.filter(|&n| n > 0).unwrap_or(1),
        user: fields.user.and_then(Value::text),
        cache_salt: fields.cache_salt.and_then(Value::inner),
        include_usage,
        ask_usage,
        prompt: fields.prompt.into_prompt(endpoint),
    })
}

/// The change that adds `include_usage` to a body that has these `stream_options`.
fn ask_usage(body: &[u8], options: Option<Value<'_>>) -> Option<Splice> {
    let insert = |at, with| Some(Splice { range: at..at, with });
    let Some(options) = options else {
        let at = memchr::memchr(b'{', body)? + 1;
        return insert(at, br#""stream_options":{"include_usage":true},"#);
    };
    if options.is_null() {
        let range = options.at..options.at + options.raw.len();
        return Some(Splice { range, with: br#"{"include_usage":true}"# });
    }
    // Anything that isn't an object gets the worker's refusal, as it would without us.
    options.members()?;
    if let Some(value) = options.member(b"include_usage") {
        let from = options.at + value.at;
        return Some(Splice { range: from..from + value.raw.len(), with: b"true" });
    }
    let with: &[u8] = if options.is_something() {
        br#""include_usage":true,"#
    } else {
        br#""include_usage":true"#
    };
    insert(options.at + 1, with)
}
