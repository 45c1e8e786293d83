//! Chooses the words of prompts with a model's own tokenizer, so that lengths are exact.
//!
//! Only words that are one token each are used, at the beginning of a prompt as well as behind a
//! space, and whole prompts are encoded before the list is believed. So a prompt of so many words
//! has so many tokens without being encoded when it is made, which would cost a generator
//! milliseconds a prompt. What a template puts around it, or a mark of the beginning, is not looked
//! for here: one probe tells it ([`Calibration::around`](super::Calibration::around)).
//!
//! Reading `tokenizer.json` takes a large crate that only this needs, so it is a feature of the
//! build. Without it every folder is refused, with what to do.

use std::path::{Path, PathBuf};

#[cfg(not(feature = "tokenizer"))]
use super::words::Words;

/// A model's tokenizer.
#[derive(Debug)]
pub struct Tokenizer {
    #[cfg(feature = "tokenizer")]
    read: tokenizers::Tokenizer,
    file: PathBuf,
}

/// Why a tokenizer could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}\nhint: {remedy}", file.display())]
pub struct TokenizerError {
    file: PathBuf,
    what: String,
    remedy: &'static str,
}

/// The file of a folder as models come, or the file itself.
fn file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() }
}

#[cfg(not(feature = "tokenizer"))]
impl Tokenizer {
    /// Reads a tokenizer from its folder, or its `tokenizer.json`. Fails always, in this build.
    pub fn open(path: &Path) -> Result<Self, TokenizerError> {
        Err(TokenizerError {
            file: file(path),
            what: "this build reads no tokenizer".to_owned(),
            remedy: "build it with `cargo build --release --features tokenizer`, or leave the \
                     tokenizer away: lengths are calibrated then",
        })
    }

    /// Words that are one token each.
    pub fn words(&self) -> Result<Words, TokenizerError> {
        Self::open(&self.file).and_then(|never| never.words())
    }

    /// Tokens of a text, or why there are none.
    pub fn count(&self, _text: &str) -> Result<u64, TokenizerError> {
        Self::open(&self.file).and_then(|never| never.count(""))
    }
}

#[cfg(feature = "tokenizer")]
mod with {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::{Tokenizer, TokenizerError, file};
    use crate::load::words::{WORDS_MAX, Words};

    /// Letters of a word. Longer ones are one token for fewer tokenizers, and make bodies large.
    const LETTERS: std::ops::RangeInclusive<usize> = 2..=10;
    /// What stands before a word as part of its token: in vocabularies of bytes, and in those of
    /// pieces.
    const SPACES: [char; 2] = ['Ġ', '▁'];
    /// Prompts that are encoded before a list is believed, and their words.
    const PROMPTS: u64 = 8;
    const PROMPT_WORDS: u64 = 2_000;

    impl Tokenizer {
        /// Reads a tokenizer from its folder, or its `tokenizer.json`.
        pub fn open(path: &Path) -> Result<Self, TokenizerError> {
            let file = file(path);
            match tokenizers::Tokenizer::from_file(&file) {
                Ok(read) => Ok(Self { read, file }),
                Err(error) => Err(TokenizerError {
                    file,
                    what: format!("no tokenizer can be read: {error}"),
                    remedy: "name a model's folder with its tokenizer.json",
                }),
            }
        }

        /// Words that are one token each.
        pub fn words(&self) -> Result<Words, TokenizerError> {
            let unfit = |what: String| TokenizerError {
                file: self.file.clone(),
                what,
                remedy: "leave the tokenizer away: lengths are calibrated then",
            };
            let is_word = |text: &&str| {
                LETTERS.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase())
            };
            // In the order of their numbers, so that a list is the same in every run: the
            // vocabulary is a map without order.
            let vocabulary: BTreeMap<u32, String> = self
                .read
                .get_vocab(false)
                .into_iter()
                .map(|(text, number)| (number, text))
                .collect();
            let mut words = Vec::new();
            for text in vocabulary.values() {
                let Some(word) = text.strip_prefix(SPACES).filter(is_word) else { continue };
                let before = words.last().map_or(word, String::as_str);
                let both = format!("{before} {word} {word}");
                if self.count(word)? == 1 && self.count(&both)? == 3 {
                    words.push(word.to_owned());
                }
                if words.len() == WORDS_MAX {
                    break;
                }
            }
            let words = Words::chosen(words).map_err(|error| unfit(error.what))?;
            for nth in 0..PROMPTS {
                let mut prompt = Vec::new();
                words.write(nth, PROMPT_WORDS, &mut prompt);
                let prompt = String::from_utf8_lossy(&prompt);
                let tokens = self.count(prompt.trim_start())?;
                if tokens != PROMPT_WORDS {
                    let what = format!("{PROMPT_WORDS} words of one token are {tokens} together");
                    return Err(unfit(what));
                }
            }
            Ok(words)
        }

        /// Tokens of a text, without marks of its beginning or end, or why there are none.
        pub fn count(&self, text: &str) -> Result<u64, TokenizerError> {
            match self.read.encode_fast(text, false) {
                Ok(encoding) => Ok(encoding.len() as u64),
                Err(error) => Err(TokenizerError {
                    file: self.file.clone(),
                    what: format!("a text can't be encoded: {error}"),
                    remedy: "see whether the file is whole",
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests;
