//! Makes requests of drawn lengths, with prefixes that many of them share.

use std::str::FromStr;
use std::sync::Arc;

use forebay_core::{Rng, Span, Tokens};

use super::NotationError;
use crate::trace::TraceRequest;
use crate::trace::synth::{Deck, Length};

/// The longest prompt or answer, in tokens.
const TOKENS_MAX: f64 = 10_000_000.0;
/// The most shared prefixes.
pub const PREFIXES_MAX: u32 = 1_000_000;
/// The longest shared prefix, in tokens.
pub const PREFIX_TOKENS_MAX: u32 = 1_000_000;
const FORMS: &str = "write tokens (1024), a range (256..2048), lognormal:MEDIAN,SIGMA or \
                     normal:MEAN,DEVIATION";

/// What requests look like: how long they are, and what they share.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Tokens of a prompt that are its own.
    pub prompt: Length,
    /// Tokens of an answer.
    pub output: Length,
    /// What prompts begin with.
    pub prefixes: Option<Prefixes>,
}

/// Prefixes such as system prompts. Each prompt begins with one of them, drawn evenly, and is
/// longer by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefixes {
    /// How many there are, from 1 to [`PREFIXES_MAX`].
    pub count: u32,
    /// Tokens of each, from 1 to [`PREFIX_TOKENS_MAX`].
    pub tokens: u32,
}

impl Shape {
    /// Requests without end, all due at the start: the same ones for the same seed.
    pub fn requests(self, seed: u64) -> impl Iterator<Item = TraceRequest> {
        let root = Rng::new(seed).fork("shape");
        let mut prompt = Deck::new(root.fork("prompt"));
        let mut output = Deck::new(root.fork("output"));
        let mut prefix = root.fork("prefix");
        let mut nth = 0;
        std::iter::from_fn(move || {
            let own = self.prompt.draw_whole(&mut prompt).max(1);
            let (shared, ids, id_tokens) = match self.prefixes {
                None => (0, Arc::from([]), 1),
                Some(prefixes) => {
                    // One id is exactly the prefix; those behind it are this prompt's own.
                    let count = own.div_ceil(u64::from(prefixes.tokens));
                    let first = prefix.below(prefixes.count.into());
                    let behind = nth + u64::from(prefixes.count);
                    nth += count;
                    let ids = std::iter::once(first).chain(behind..behind + count).collect();
                    (u64::from(prefixes.tokens), ids, prefixes.tokens)
                }
            };
            Some(TraceRequest {
                at: Span::ZERO,
                prompt: Tokens(shared + own),
                output: Tokens(self.output.draw_whole(&mut output).max(1)),
                ids,
                id_tokens,
                session: None,
                delay: None,
                class: None,
                tenant: None,
            })
        })
    }
}

impl FromStr for Length {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, NotationError> {
        let wrong = |what: String| NotationError::new(format!("{text:?} {what}"), FORMS);
        let two = |text: &str, by: &str| {
            let (one, other) = text.split_once(by)?;
            Some((one.trim().parse().ok()?, other.trim().parse().ok()?))
        };
        let length = match text.split_once(':') {
            None => {
                let one = text.trim().parse().ok().map(|tokens: f64| (tokens, tokens));
                one.or_else(|| two(text, "..")).map(|(from, to)| Self::uniform(from, to))
            }
            Some(("lognormal", rest)) => two(rest, ",").map(|(m, sigma)| Self::lognormal(m, sigma)),
            Some(("normal", rest)) => two(rest, ",").map(|(mean, by)| Self::normal(mean, by)),
            Some(_) => None,
        };
        let length = length.ok_or_else(|| wrong("is no length".to_owned()))?;
        length.within(1.0, TOKENS_MAX).map_err(wrong)
    }
}
