//! Watches a stream of server-sent events that is relayed as it comes.
//!
//! The bytes go to the client unchanged; what is learned here is when the first token came, about
//! how many there were, what usage the worker told, and whether the stream ended well. Each line is
//! looked at once, where it lies, if it came in one piece. An ordinary event is searched for a few
//! keys and not parsed: a quote inside a text is escaped, so `"usage"` followed by a colon is a
//! key. What a search finds of usage and errors is then confirmed by walking that one line, since
//! only a member of the top level counts.
//!
//! Line ends are LF, CRLF or CR, a space after the colon is optional, and a byte order mark may
//! come first, as the HTML standard has it (§9.2.6). An event whose data spans several lines,
//! which no engine writes, is not put together.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::answer::Usage;
use crate::json::{Members, Value, is_space};
use crate::openai::Endpoint;

/// Most bytes of a line that is looked into. A longer one is counted and forgotten: it is taken as
/// a token, for nothing else is that long.
pub const LINE_BYTES_MAX: usize = 256 << 10;
/// Most bytes of memory that are kept from one line to the next.
const KEPT_BYTES_MAX: usize = 8 << 10;

/// Whose events a stream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// Chat completions.
    Chat,
    /// Completions.
    Completions,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Messages,
}

impl From<Endpoint> for StreamKind {
    /// The kind of an endpoint's streams. Endpoints that have none count as chats.
    fn from(endpoint: Endpoint) -> Self {
        match endpoint {
            Endpoint::Completions => Self::Completions,
            Endpoint::Responses => Self::Responses,
            Endpoint::Messages => Self::Messages,
            _ => Self::Chat,
        }
    }
}

/// What was seen so far.
#[expect(clippy::struct_excessive_bools, reason = "each is told by an event of its own")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    tokens: u64,
    answer: bool,
    finish_reason: bool,
    done: bool,
    failed: bool,
    usage: Option<Usage>,
    comments: u64,
    lines_over: u64,
}

/// Reads a stream piece by piece. Memory is bounded, time is linear, any bytes will do, and where
/// the pieces are cut makes no difference.
#[derive(Debug)]
pub struct StreamScan {
    kind: StreamKind,
    seen: Seen,
    /// The beginning of a line whose end has not come.
    pending: Vec<u8>,
    /// The line that has not ended is over its bound, and this is whether it is data.
    over: Option<bool>,
    /// The last byte was a CR, so an LF right after it ends no line.
    after_cr: bool,
    /// No line has ended yet.
    first_line: bool,
}

impl StreamScan {
    /// Begins a stream.
    pub fn new(kind: StreamKind) -> Self {
        Self {
            kind,
            seen: Seen::default(),
            pending: Vec::new(),
            over: None,
            after_cr: false,
            first_line: true,
        }
    }

    /// Takes the next bytes of the body.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(at) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.end_line(&bytes[..at]);
            let rest = &bytes[at + 1..];
            if bytes[at] == b'\r' {
                self.after_cr = rest.is_empty();
                bytes = rest.strip_prefix(b"\n").unwrap_or(rest);
            } else {
                bytes = rest;
            }
        }
        self.keep(bytes);
    }

    /// Takes the end of the body: a last line without its end counts too.
    pub fn end(&mut self) {
        self.end_line(b"");
    }

    /// Whether a token came: the first event with text, reasoning or a tool call that isn't empty.
    pub fn first_token_seen(&self) -> bool {
        self.seen.tokens > 0
    }

    /// Whether a token of the answer came, and not of the reasoning before it.
    pub fn first_answer_seen(&self) -> bool {
        self.seen.answer
    }

    /// How many events carried tokens: about the number of tokens, since engines send each as it
    /// comes, and now and then several in one event.
    pub fn tokens_out(&self) -> u64 {
        self.seen.tokens
    }

    /// The usage that was told last.
    pub fn usage(&self) -> Option<Usage> {
        self.seen.usage
    }

    /// Whether the stream was declared ended: `[DONE]`, `message_stop`, `response.completed`, or
    /// `response.incomplete`. A failed one may be, too.
    pub fn done(&self) -> bool {
        self.seen.done
    }

    /// Whether the worker told of an error.
    pub fn failed(&self) -> bool {
        self.seen.failed
    }

    /// Whether an output was told to be finished, by its reason.
    pub fn finish_reason_seen(&self) -> bool {
        self.seen.finish_reason
    }

    /// How many comments came: they are signs of life, and no tokens.
    pub fn comments(&self) -> u64 {
        self.seen.comments
    }

    /// How many lines were longer than [`LINE_BYTES_MAX`].
    pub fn lines_over(&self) -> u64 {
        self.seen.lines_over
    }

    /// Keeps the beginning of a line, up to the bound.
    fn keep(&mut self, bytes: &[u8]) {
        if self.over.is_some() {
            return;
        }
        if self.pending.len() + bytes.len() <= LINE_BYTES_MAX {
            self.pending.extend_from_slice(bytes);
            return;
        }
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(&bytes[..bytes.len().min(16)]);
        self.over = Some(self.without_mark(&pending).starts_with(b"data:"));
    }

    /// Ends a line with these bytes.
    fn end_line(&mut self, bytes: &[u8]) {
        if self.pending.is_empty() && self.over.is_none() && bytes.len() <= LINE_BYTES_MAX {
            if !bytes.is_empty() {
                self.line(bytes);
            }
            self.first_line = false;
            return;
        }
        self.keep(bytes);
        if let Some(data) = self.over.take() {
            self.seen.lines_over += 1;
            self.seen.tokens += u64::from(data);
            self.seen.answer |= data;
        } else {
            let mut line = std::mem::take(&mut self.pending);
            self.line(&line);
            if line.capacity() <= KEPT_BYTES_MAX {
                line.clear();
                self.pending = line;
            }
        }
        self.first_line = false;
    }

    /// A line without the byte order mark that a stream may begin with.
    fn without_mark<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        line.strip_prefix(b"\xef\xbb\xbf").filter(|_| self.first_line).unwrap_or(line)
    }

    fn line(&mut self, line: &[u8]) {
        let line = self.without_mark(line);
        if let Some(data) = line.strip_prefix(b"data:") {
            self.data(data.trim_ascii());
        } else if let Some(event) = line.strip_prefix(b"event:") {
            self.named(event.trim_ascii());
        } else if line.starts_with(b":") {
            self.seen.comments += 1;
        } else if line.starts_with(b"error:") {
            // llama.cpp's server once wrote errors as a field of their own.
            self.seen.failed = true;
        }
    }

    /// Takes the name of an event: its `event` field, or the `type` in its data.
    fn named(&mut self, name: &[u8]) {
        match name {
            b"message_stop" | b"response.completed" | b"response.incomplete" => {
                self.seen.done = true;
                self.seen.finish_reason = true;
            }
            b"error" | b"response.failed" => self.seen.failed = true,
            _ => {}
        }
    }

    fn data(&mut self, data: &[u8]) {
        if data == b"[DONE]" {
            self.seen.done = true;
            return;
        }
        let keys = &*KEYS;
        let carried = match self.kind {
            StreamKind::Completions => keys.text.values(data).any(is_text).then_some(Part::Answer),
            _ => carried(data),
        };
        if let Some(part) = carried {
            self.seen.tokens += 1;
            if !self.seen.answer {
                self.seen.answer = part == Part::Answer && !tells_reasoning(self.kind, data);
            }
        }
        if !self.seen.finish_reason {
            let key = match self.kind {
                StreamKind::Messages => &keys.stop_reason,
                _ => &keys.finish_reason,
            };
            self.seen.finish_reason = key.values(data).any(is_text);
        }
        // An event without a token is rare, and may be of any other kind.
        if carried.is_none()
            || keys.usage.values(data).any(|value| value.starts_with(b"{"))
            || keys.error.0.find(data).is_some()
        {
            self.walk(data);
        }
    }

    /// Walks over the top level of an event's data. One that is no sound object counts for nothing.
    fn walk(&mut self, data: &[u8]) {
        let Ok(mut members) = Members::new(data) else { return };
        let (mut usage, mut failed, mut name) = (None, false, None);
        loop {
            let Ok(member) = members.next() else { return };
            let Some((key, value)) = member else { break };
            match key.as_ref() {
                b"usage" => usage = Usage::of(value),
                b"error" => failed = value.is_something(),
                b"type" => name = value.inner(),
                // Where Anthropic's first event and OpenAI's last have theirs.
                b"message" | b"response" => {
                    usage = value.member(b"usage").and_then(Usage::of).or(usage);
                }
                _ => {}
            }
        }
        if members.end().is_err() {
            return;
        }
        if let Some(usage) = usage {
            self.seen.usage = Some(self.seen.usage.unwrap_or_default().corrected(usage));
        }
        self.seen.failed |= failed;
        self.named(name.unwrap_or_default());
    }
}

/// What a token belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Reasoning,
    Answer,
}

/// What the `delta` of an event carries: an object with something in it, or a text.
fn carried(data: &[u8]) -> Option<Part> {
    let mut part = None;
    let mut rest = data;
    while let Some(value) = KEYS.delta.values(rest).next() {
        if is_text(value) {
            return Some(Part::Answer);
        }
        rest = value;
        let Ok(mut members) = Members::new(value) else { continue };
        while let Some((key, value)) = members.next().ok()? {
            part = part.max(part_of(&key).filter(|_| value.is_something()));
        }
        if part.is_some() {
            return part;
        }
        // Goes on behind the object, so that nested ones are not walked again.
        rest = &value[members.at()..];
    }
    None
}

/// What a member of a delta belongs to: OpenAI's names and those of its kin, then Anthropic's.
fn part_of(key: &[u8]) -> Option<Part> {
    let answer: [&[u8]; 6] =
        [b"content", b"tool_calls", b"function_call", b"refusal", b"text", b"partial_json"];
    let reasoning: [&[u8]; 3] = [b"reasoning", b"reasoning_content", b"thinking"];
    if answer.contains(&key) {
        Some(Part::Answer)
    } else {
        reasoning.contains(&key).then_some(Part::Reasoning)
    }
}

/// Whether an event of OpenAI's responses is one of reasoning, which only its type tells.
fn tells_reasoning(kind: StreamKind, data: &[u8]) -> bool {
    kind == StreamKind::Responses
        && Value { raw: data, at: 0 }
            .member(b"type")
            .and_then(Value::inner)
            .is_some_and(|name| name.starts_with(b"response.reasoning"))
}

/// Whether a text that isn't empty begins here.
fn is_text(value: &[u8]) -> bool {
    matches!(value, [b'"', next, ..] if *next != b'"')
}

/// A quoted key to search for.
struct Key(Finder<'static>);

impl Key {
    fn new(quoted: &'static str) -> Self {
        Self(Finder::new(quoted))
    }

    /// The rest of the data from each value on that stands behind this key.
    fn values<'a>(&self, data: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.0.find_iter(data).filter_map(|at| {
            let rest = skip_space(&data[at + self.0.needle().len()..]);
            rest.strip_prefix(b":").map(skip_space)
        })
    }
}

fn skip_space(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|&&byte| is_space(byte)).count();
    &text[spaces..]
}

/// The keys that events are searched for.
struct Keys {
    delta: Key,
    text: Key,
    finish_reason: Key,
    stop_reason: Key,
    usage: Key,
    error: Key,
}

/// Made once: to prepare a search takes longer than to search an event.
static KEYS: LazyLock<Keys> = LazyLock::new(|| Keys {
    delta: Key::new("\"delta\""),
    text: Key::new("\"text\""),
    finish_reason: Key::new("\"finish_reason\""),
    stop_reason: Key::new("\"stop_reason\""),
    usage: Key::new("\"usage\""),
    error: Key::new("\"error\""),
});
