//! Turns text into tokens by rules that a load generator can count with.
//!
//! There is no vocabulary to ship: a token's number is a hash of its spelling, the same on every
//! worker and in every run. What matters of a tokenizer here is that equal beginnings of texts give
//! equal beginnings of tokens, that English takes some four or five bytes a token, and that exact
//! lengths can be made: a word of at most [`WORD_MAX`] bytes is one token, together with the space
//! before it. Longer words, as in hexadecimal or in scripts without spaces, are cut into pieces of
//! [`PIECE_MAX`] bytes; signs go by up to four, as do runs of blanks and of line ends by up to
//! sixteen.
//!
//! The word `token17` after a space is token 17, and a number whose spelling nobody knows is
//! spelt that way, so that any list of numbers can be written as text.

use std::collections::HashMap;

use forebay_core::mixed;

/// Size of the vocabulary: that of Qwen3, so that numbers look like those of a real model.
pub(super) const VOCABULARY: u32 = 151_936;
/// The token that begins a message.
pub(super) const MESSAGE_START: u32 = 0;
/// The token that ends a message.
pub(super) const MESSAGE_END: u32 = 1;

/// The longest word that is one token, in bytes.
const WORD_MAX: usize = 12;
/// Bytes of a piece of a longer word, as far as characters allow.
const PIECE_MAX: usize = 4;
/// Signs that make one token at most.
const SIGNS_MAX: usize = 4;
/// Blanks or line ends that make one token at most.
const BLANKS_MAX: usize = 16;
/// Numbers below this one belong to no spelling.
const SPECIAL: u32 = 16;
/// Spellings kept for `/detokenize`; a bound, since others send the texts.
const SPELLINGS_MAX: usize = 65_536;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Blank,
    LineEnd,
    Word,
    Sign,
}

fn kind(letter: char) -> Kind {
    match letter {
        '\n' | '\r' => Kind::LineEnd,
        '_' | '\'' => Kind::Word,
        letter if letter.is_whitespace() => Kind::Blank,
        letter if letter.is_alphanumeric() || !letter.is_ascii() => Kind::Word,
        _ => Kind::Sign,
    }
}

/// The pieces of a text, one for each token, that together are the text.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, after) = rest.split_at(first_piece(rest)?);
        rest = after;
        Some(piece)
    })
}

/// The length of the first piece of a text, in bytes.
fn first_piece(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    Some(match kind(first) {
        Kind::LineEnd => run(text, Kind::LineEnd, BLANKS_MAX),
        Kind::Blank => {
            // Of a run of blanks, the last one belongs to the word behind it.
            let blanks = run(text, Kind::Blank, usize::MAX);
            let before_last = text[..blanks].char_indices().next_back().map_or(0, |(at, _)| at);
            let word = word(&text[blanks..]);
            if word == 0 {
                run(text, Kind::Blank, BLANKS_MAX)
            } else if before_last > 0 {
                run(&text[..before_last], Kind::Blank, BLANKS_MAX)
            } else {
                blanks + word
            }
        }
        Kind::Word => word(text),
        Kind::Sign => run(text, Kind::Sign, SIGNS_MAX),
    })
}

/// The length of the run of this kind that a text begins with, cut after so many characters.
fn run(text: &str, of: Kind, letters_max: usize) -> usize {
    let letters = text.char_indices().take(letters_max);
    let mut letters = letters.skip_while(|&(_, letter)| kind(letter) == of);
    let end = letters.next().map(|(at, _)| at);
    end.unwrap_or_else(|| text.char_indices().nth(letters_max).map_or(text.len(), |(at, _)| at))
}

/// The length of the piece of a word that a text begins with: 0 where it begins with none.
fn word(text: &str) -> usize {
    // A longer word is cut from its start on, so what is left of it is looked at afresh: pieces
    // stay short until what is left is a short word itself.
    let (mut end, mut piece) = (0, 0);
    for letter in text.chars().take_while(|&letter| kind(letter) == Kind::Word) {
        end += letter.len_utf8();
        if end <= PIECE_MAX || piece == 0 {
            piece = end;
        }
        if end > WORD_MAX {
            return piece;
        }
    }
    end
}

/// The token of a piece.
pub(super) fn token(piece: &str) -> u32 {
    if let Some(number) = piece.strip_prefix(" token")
        && let Ok(number) = number.parse::<u32>()
        && number < VOCABULARY
    {
        return number;
    }
    let mut word = piece.len() as u64;
    for bytes in piece.as_bytes().chunks(8) {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        word = mixed(word ^ u64::from_le_bytes(eight));
    }
    SPECIAL + (word % u64::from(VOCABULARY - SPECIAL)) as u32
}

/// Appends the tokens of a text.
pub(super) fn tokenize(text: &str, tokens: &mut Vec<u32>) {
    tokens.extend(pieces(text).map(token));
}

/// Spellings of tokens that were asked for by text.
#[derive(Debug, Default)]
pub(super) struct Spellings(HashMap<u32, Box<str>>);

impl Spellings {
    /// Remembers the spellings of a text's tokens, as far as there is room.
    pub(super) fn learn(&mut self, text: &str) {
        for piece in pieces(text) {
            if self.0.len() == SPELLINGS_MAX {
                return;
            }
            self.0.entry(token(piece)).or_insert_with(|| piece.into());
        }
    }

    /// The text of a token.
    pub(super) fn spell(&self, token: u32) -> String {
        match (token, self.0.get(&token)) {
            (MESSAGE_START, _) => "<|im_start|>".to_owned(),
            (MESSAGE_END, _) => "<|im_end|>".to_owned(),
            (_, Some(piece)) => piece.to_string(),
            (_, None) => format!(" token{token}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Spellings, pieces, token, tokenize};

    fn cut(text: &str) -> Vec<&str> {
        pieces(text).collect()
    }

    fn tokens(text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        tokenize(text, &mut tokens);
        tokens
    }

    #[test]
    fn a_word_is_one_token_with_the_space_before_it() {
        assert_eq!(cut("The gateway doesn't wait."), ["The", " gateway", " doesn't", " wait", "."]);
        let prompt = (0..5_000).map(|nth| format!(" token{nth}")).collect::<Vec<_>>().concat();
        assert_eq!(tokens(&prompt), (0..5_000).collect::<Vec<u32>>());
        assert_eq!(tokens(prompt.trim_start()).len(), 5_000);
    }

    #[test]
    fn longer_words_go_by_four_bytes_until_the_rest_is_short() {
        assert_eq!(cut(" 0123456789abcdef"), [" 0123", "456789abcdef"]);
        assert_eq!(cut("0123456789ab"), ["0123456789ab"]);
        assert_eq!(cut("いろはにほ"), ["い", "ろはにほ"]);
    }

    #[test]
    fn blanks_line_ends_and_signs_go_by_runs() {
        assert_eq!(cut("a   b"), ["a", "  ", " b"]);
        assert_eq!(cut("a  \n\n{}[]();"), ["a", "  ", "\n\n", "{}[]", "();"]);
        assert_eq!(cut(&" ".repeat(20)).len(), 2);
        assert_eq!(cut(""), [""; 0]);
    }

    #[test]
    fn the_pieces_of_any_text_are_the_text() {
        for text in
            ["", " ", "a", "é—\u{2028} 日本語のテキスト", "\r\n\t x ", "-=-=-=-=-=- 😀😀😀😀"]
        {
            assert_eq!(cut(text).concat(), text);
        }
    }

    #[test]
    fn a_text_and_its_continuation_agree_but_for_the_last_word() {
        let (short, long) = (tokens("one two three"), tokens("one two threefold and more"));
        assert_eq!(short[..2], long[..2]);
        assert_eq!(tokens("one two three")[..], tokens("one two three four")[..3]);
    }

    #[test]
    fn numbers_are_spelt_so_that_they_are_read_back() {
        let mut spellings = Spellings::default();
        assert_eq!(spellings.spell(4_711), " token4711");
        assert_eq!(token(" token4711"), 4_711);
        spellings.learn("hello world");
        let text: String = tokens("hello world").iter().map(|&id| spellings.spell(id)).collect();
        assert_eq!(text, "hello world");
    }
}
