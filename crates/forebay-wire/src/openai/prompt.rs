//! Finds the bytes of a body that the engine will see, and counts prompts.
//!
//! Which blocks of a prompt a worker holds is guessed from the raw text, so two bodies whose
//! prompts begin alike must give spans that begin alike: tools and system texts come first, as chat
//! templates put them, and a closing bracket or quote is left out, so that a longer conversation
//! extends a shorter one. Escapes stay as they are: clients write the same text the same way.

use super::Endpoint;
use crate::json::{Elements, Value, is_space};

/// What the engine will see of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt<'a> {
    /// Raw pieces of the body, in the order in which prefixes are shared. At most three.
    pub spans: Vec<&'a [u8]>,
    /// How many prompts there are: many in a list of strings or of lists of token ids, one a
    /// document in a rerank, none in `[]` or where nothing is given, and otherwise 1.
    pub prompts: u64,
    /// The exact length in tokens over all prompts, where they were given as token ids.
    pub tokens: Option<u64>,
}

impl Prompt<'_> {
    /// The length of all spans, in bytes of the body.
    pub fn bytes(&self) -> u64 {
        self.spans.iter().map(|span| span.len() as u64).sum()
    }
}

/// The names of what the engine sees, in the order in which prefixes are shared. The last one is
/// what is counted.
const fn names(endpoint: Endpoint) -> &'static [&'static [u8]] {
    match endpoint {
        Endpoint::ChatCompletions => &[b"tools", b"messages"],
        Endpoint::Completions => &[b"prompt"],
        // vLLM embeds conversations too.
        Endpoint::Embeddings => &[b"messages", b"input"],
        Endpoint::Responses => &[b"tools", b"instructions", b"input"],
        Endpoint::Messages => &[b"tools", b"system", b"messages"],
        Endpoint::Rerank => &[b"query", b"documents"],
        Endpoint::Tokenize => &[b"tools", b"messages", b"prompt"],
        Endpoint::Detokenize => &[b"tokens"],
    }
}

/// The values that make the prompt, in the order of their names.
#[derive(Default)]
pub(super) struct Parts<'a>([Option<Value<'a>>; 3]);

impl<'a> Parts<'a> {
    /// Takes a member of the body if it is a part of the prompt. The last of a name wins.
    pub(super) fn take(&mut self, endpoint: Endpoint, key: &[u8], value: Value<'a>) {
        if let Some(place) = names(endpoint).iter().position(|&name| name == key) {
            self.0[place] = Some(value).filter(|value| !value.is_null());
        }
    }

    pub(super) fn into_prompt(self, endpoint: Endpoint) -> Prompt<'a> {
        let last = names(endpoint).len() - 1;
        let (prompts, tokens) = match (endpoint, self.0[last]) {
            (Endpoint::Completions | Endpoint::Embeddings | Endpoint::Detokenize, Some(value)) => {
                count(value)
            }
            (Endpoint::Rerank, Some(value)) => (elements(value), None),
            _ => (u64::from(self.0.iter().any(Option::is_some)), None),
        };
        Prompt { spans: self.0.into_iter().flatten().map(open).collect(), prompts, tokens }
    }
}

/// A value without what closes it.
fn open(value: Value<'_>) -> &[u8] {
    match value.raw {
        [b'"', inner @ .., b'"'] => inner,
        [list @ .., b']'] => {
            let spaces = list.iter().rev().take_while(|&&byte| is_space(byte)).count();
            &list[..list.len() - spaces]
        }
        raw => raw,
    }
}

/// Counts the prompts of a completion, and their tokens where they are token ids: a string, token
/// ids, or a list of either.
fn count(value: Value<'_>) -> (u64, Option<u64>) {
    let [b'[', inner @ .., b']'] = value.raw else { return (1, None) };
    if let Some(ids) = TokenIds::of(inner) {
        let flat = u64::from(ids.numbers > 0);
        return (if ids.lists > 0 { ids.lists } else { flat }, Some(ids.numbers));
    }
    match inner.iter().find(|&&byte| !is_space(byte)) {
        Some(b'-' | b'0'..=b'9') => (1, None), // token ids, but not such as can be
        _ => (elements(value), None),
    }
}

/// How many elements a list has; 1 for anything else.
fn elements(value: Value<'_>) -> u64 {
    Elements::new(value).map_or(1, |elements| elements.count() as u64)
}

/// What a text of nothing but digits, commas, brackets and spaces holds.
struct TokenIds {
    numbers: u64,
    lists: u64,
}

/// How many bytes are counted before the counts are widened: they are kept in bytes meanwhile, so
/// that the loop compiles to vector instructions.
const CHUNK: usize = 128;

impl TokenIds {
    /// Counts; `None` if there is anything else in the text. A number is where digits begin.
    fn of(text: &[u8]) -> Option<Self> {
        // Most texts are told by their first byte.
        let mut ids = Self { numbers: 0, lists: 0 };
        let Some(&first) = text.first() else { return Some(ids) };
        if !is_plain(first) {
            return None;
        }
        // A comma before the first byte changes nothing, and then each byte has one before it.
        ids.add(b",", &[first])?;
        let (befores, rest) = text[..text.len() - 1].as_chunks::<CHUNK>();
        let (chunks, last) = text[1..].as_chunks::<CHUNK>();
        for (before, chunk) in befores.iter().zip(chunks) {
            ids.add(before, chunk)?;
        }
        ids.add(rest, last)?;
        Some(ids)
    }

    /// Counts in at most [`CHUNK`] bytes, each with the byte before it.
    #[inline]
    fn add(&mut self, before: &[u8], chunk: &[u8]) -> Option<()> {
        let (mut other, mut numbers, mut lists) = (false, 0_u8, 0_u8);
        for (&before, &byte) in before.iter().zip(chunk) {
            other |= !is_plain(byte);
            numbers += u8::from(byte.is_ascii_digit() & !before.is_ascii_digit());
            lists += u8::from(byte == b'[');
        }
        self.numbers += u64::from(numbers);
        self.lists += u64::from(lists);
        (!other).then_some(())
    }
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_digit() | matches!(byte, b',' | b'[' | b']') | is_space(byte)
}
