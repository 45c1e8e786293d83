//! Reads usage and failure from an answer that is one JSON body, as it passes.
//!
//! An answer may be megabytes of embeddings, so it is neither kept nor parsed as a whole: its
//! top-level members go by, and of the few that matter the value is kept, up to a bound. Nested
//! values are skipped, so that words inside a text never count.

#[cfg(test)]
mod tests;

use crate::json::{Value, is_space, structural};

/// Most bytes of a value that is kept. A usage has some 300.
const VALUE_BYTES_MAX: usize = 4096;
/// Most bytes of a key that is kept, quotes included. The longest that matters has 8.
const KEY_BYTES_MAX: usize = 16;

/// What a worker says it computed for a request, in tokens. What it didn't say is unknown, not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of all prompts, cached ones included.
    pub prompt: Option<u64>,
    /// Tokens generated, over all outputs.
    pub completion: Option<u64>,
    /// Tokens of the prompts that came from the worker's cache.
    pub cached: Option<u64>,
}

impl Usage {
    /// Reads a `usage` object under OpenAI's names or Anthropic's; `None` if it has none of them.
    ///
    /// Anthropic counts cached tokens apart from `input_tokens`, OpenAI's responses within.
    pub(crate) fn of(object: Value<'_>) -> Option<Self> {
        let mut usage = Self::default();
        let mut apart = 0_u64;
        let mut members = object.members()?;
        while let Ok(Some((key, value))) = members.next() {
            match key.as_ref() {
                b"prompt_tokens" | b"input_tokens" => usage.prompt = value.integer(),
                b"completion_tokens" | b"output_tokens" => usage.completion = value.integer(),
                b"prompt_tokens_details" | b"input_tokens_details" => {
                    usage.cached = value.member(b"cached_tokens").and_then(Value::integer);
                }
                b"cache_read_input_tokens" => {
                    usage.cached = value.integer();
                    apart = apart.saturating_add(value.integer().unwrap_or(0));
                }
                b"cache_creation_input_tokens" => {
                    apart = apart.saturating_add(value.integer().unwrap_or(0));
                }
                _ => {}
            }
        }
        usage.prompt = usage.prompt.map(|prompt| prompt.saturating_add(apart));
        (usage != Self::default()).then_some(usage)
    }

    /// This usage, corrected by what was said later.
    pub(crate) fn corrected(self, later: Self) -> Self {
        Self {
            prompt: later.prompt.or(self.prompt),
            completion: later.completion.or(self.completion),
            cached: later.cached.or(self.cached),
        }
    }
}

/// The usage that a whole body tells.
pub fn usage_of(body: &[u8]) -> Option<Usage> {
    let mut scan = BodyScan::default();
    scan.feed(body);
    scan.usage()
}

/// Whether a whole body tells of an error, whatever its status was.
pub fn error_of(body: &[u8]) -> bool {
    let mut scan = BodyScan::default();
    scan.feed(body);
    scan.failed()
}

/// A member of the top level whose value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Usage,
    Error,
    /// `object` in vLLM's older errors, `type` in Anthropic's.
    Kind,
}

/// What the next byte of the top level belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Outside,
    Key,
    Colon,
    Value(Option<Wanted>),
    /// Behind the object, or in something that isn't one: nothing more is read.
    After,
}

/// Where the next byte stands among strings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Text {
    #[default]
    Outside,
    Inside,
    /// Inside, and behind a backslash.
    Escaped,
}

/// Reads a body piece by piece. Memory is bounded, time is linear, any bytes will do.
#[derive(Debug, Default)]
pub struct BodyScan {
    place: Place,
    /// Open braces and brackets.
    depth: u64,
    text: Text,
    key: Vec<u8>,
    value: Vec<u8>,
    usage: Option<Usage>,
    error: bool,
    error_kind: bool,
    complete: bool,
}

impl BodyScan {
    /// Takes the next bytes.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.place != Place::After {
            let taken = if self.text != Text::Outside {
                self.in_string(bytes)
            } else if self.depth > 1 {
                self.in_nested(bytes)
            } else {
                self.at_top(bytes[0]);
                1
            };
            bytes = &bytes[taken..];
        }
    }

    /// The usage told so far.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Whether an error was told so far.
    pub fn failed(&self) -> bool {
        self.error || self.error_kind
    }

    /// Whether the object was closed.
    pub fn complete(&self) -> bool {
        self.complete
    }

    fn in_string(&mut self, bytes: &[u8]) -> usize {
        let taken = if self.text == Text::Escaped {
            self.text = Text::Inside;
            1
        } else if let Some(at) = memchr::memchr2(b'"', b'\\', bytes) {
            self.text = if bytes[at] == b'"' { Text::Outside } else { Text::Escaped };
            at + 1
        } else {
            bytes.len()
        };
        self.keep(&bytes[..taken]);
        if self.text == Text::Outside && self.place == Place::Key {
            self.place = Place::Colon;
        }
        taken
    }

    fn in_nested(&mut self, bytes: &[u8]) -> usize {
        let taken = structural(bytes).map_or(bytes.len(), |at| {
            match bytes[at] {
                b'"' => self.text = Text::Inside,
                b'{' | b'[' => self.depth += 1,
                _ => self.depth -= 1,
            }
            at + 1
        });
        self.keep(&bytes[..taken]);
        taken
    }

    fn at_top(&mut self, byte: u8) {
        match (self.place, byte) {
            (_, byte) if is_space(byte) => {}
            (Place::Outside, b'{') => {
                self.depth = 1;
                self.place = Place::Key;
            }
            (Place::Key, b'"') => {
                self.key.clear();
                self.text = Text::Inside;
                self.keep(b"\"");
            }
            (Place::Colon, b':') => {
                self.value.clear();
                self.place = Place::Value(self.wanted());
            }
            (Place::Value(_), b',') => {
                self.end_value();
                self.place = Place::Key;
            }
            (Place::Value(_) | Place::Key, b'}') => {
                self.end_value();
                self.complete = true;
                self.place = Place::After;
            }
            (Place::Value(_), byte) => {
                if byte == b'"' {
                    self.text = Text::Inside;
                }
                self.depth += u64::from(matches!(byte, b'{' | b'['));
                self.keep(&[byte]);
            }
            _ => self.place = Place::After,
        }
    }

    /// Keeps bytes of a key or of a value that is wanted, up to their bounds.
    fn keep(&mut self, bytes: &[u8]) {
        let (kept, bytes_max) = match self.place {
            Place::Key => (&mut self.key, KEY_BYTES_MAX),
            Place::Value(Some(_)) => (&mut self.value, VALUE_BYTES_MAX),
            _ => return,
        };
        let room = bytes_max - kept.len();
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn wanted(&self) -> Option<Wanted> {
        match &self.key[..] {
            b"\"usage\"" => Some(Wanted::Usage),
            b"\"error\"" => Some(Wanted::Error),
            b"\"object\"" | b"\"type\"" => Some(Wanted::Kind),
            _ => None,
        }
    }

    fn end_value(&mut self) {
        let Place::Value(Some(wanted)) = self.place else { return };
        if self.value.is_empty() {
            return;
        }
        let value = Value { raw: &self.value, at: 0 };
        match wanted {
            Wanted::Usage => self.usage = Usage::of(value),
            Wanted::Error => self.error = value.is_something(),
            Wanted::Kind => self.error_kind |= value.raw == b"\"error\"",
        }
    }
}
