//! Holds the words that prompts are made of, and writes those that belong to an id.
//!
//! A prompt needs a length in tokens, a beginning that others share where their ids say so, and
//! nothing else in common with any other prompt. So each id of a trace seeds a generator, and that
//! draws words from a list. The list decides how well the tokens are met:
//!
//! | list | one token each | used |
//! |---|---|---|
//! | [`Words::letters`] | for `forebay engine` | unless asked otherwise; prompts differ most |
//! | [`Words::everyday`] | for nearly every tokenizer in use | where tokens are calibrated |
//! | [`Words::chosen`] | for the tokenizer they were chosen with | where there is one |

use forebay_core::Rng;

use super::arrivals::NotationError;

/// The most words of a list: a draw takes its bits, and four of 14 fit into one step of a
/// generator.
pub const WORDS_MAX: usize = 1 << 14;
/// The fewest: eight bits a word are 128 in the sixteen words of the smallest id in use, so that
/// two prompts never look alike by chance.
pub const WORDS_MIN: usize = 1 << 8;
/// Letters of a word of [`Words::letters`].
const LETTERS: usize = 3;

/// Words that are drawn from: a power of two of them, each with the space before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// All words, one after the other.
    text: String,
    /// Where each begins, and at last the end.
    starts: Vec<u32>,
    /// The bits of a draw.
    bits: u32,
}

impl Words {
    /// Words of three letters.
    pub fn letters() -> Self {
        let letter =
            |nth: usize, place: u32| char::from(b'a' + (nth / 26_usize.pow(place) % 26) as u8);
        let word = |nth| (0..LETTERS as u32).map(|place| letter(nth, place)).collect::<String>();
        Self::of((0..WORDS_MAX).map(word))
    }

    /// Everyday English words, which nearly every vocabulary holds whole.
    pub fn everyday() -> Self {
        Self::of(EVERYDAY.split_ascii_whitespace().map(str::to_owned))
    }

    /// Words of somebody's choice, each of ASCII letters and digits only, so that they need no
    /// escaping in JSON. Of more than [`WORDS_MAX`] the first are used, and of a number that is no
    /// power of two as many as the next one below.
    pub fn chosen(words: impl IntoIterator<Item = String>) -> Result<Self, NotationError> {
        let is_plain = |word: &String| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        let mut words: Vec<String> = words.into_iter().filter(is_plain).take(WORDS_MAX).collect();
        if words.len() < WORDS_MIN {
            let what = format!("only {} words, {WORDS_MIN} are needed", words.len());
            let remedy = "leave the tokenizer away: lengths are calibrated then";
            return Err(NotationError::new(what, remedy));
        }
        words.truncate(1 << words.len().ilog2());
        Ok(Self::of(words.into_iter()))
    }

    fn of(words: impl Iterator<Item = String>) -> Self {
        let (mut text, mut starts) = (String::new(), vec![0]);
        for word in words {
            text.push(' ');
            text.push_str(&word);
            starts.push(text.len() as u32);
        }
        let bits = (starts.len() - 1).ilog2();
        Self { text, starts, bits }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there are none, which never is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of a word on average, its space included.
    pub fn mean_bytes(&self) -> usize {
        self.text.len().div_ceil(self.len())
    }

    /// Appends the first words that belong to an id, each behind a space: the same ones whenever
    /// the id is met.
    pub(super) fn write(&self, id: u64, words: u64, text: &mut Vec<u8>) {
        let mut rng = Rng::new(id);
        let (mut drawn, mut left) = (0, 0);
        for _ in 0..words {
            if left < self.bits {
                (drawn, left) = (rng.next_u64(), 64);
            }
            let nth = (drawn & ((1 << self.bits) - 1)) as usize;
            drawn >>= self.bits;
            left -= self.bits;
            let (start, end) = (self.starts[nth] as usize, self.starts[nth + 1] as usize);
            text.extend_from_slice(&self.text.as_bytes()[start..end]);
        }
    }
}

/// 256 words of two to eight letters. None is a part of a longer one in a way that matters: words
/// never meet without a space.
const EVERYDAY: &str = "
    about above across action after again age air all almost along also always among amount and
    animal another answer any area arm around art ask away back bad bank base be because become
    bed before begin behind being best better between big bit black blood blue board boat body
    book born both bottom box boy bring brother brought build built burn business but buy by call
    came can capital car care carry case cause cell center century certain chance change child
    choose church city class clean clear close cold color come common company complete contain
    control cool copy corner cost could count country course court cover cross cut dark data day
    dead deal death decide deep degree did die difference different direct discover do doctor does
    dog done door down draw dream dress drive drop dry during each early earth east easy eat edge
    effect egg eight either else end energy engine enough enter equal even evening event ever every
    exact example experience eye face fact fall family famous far farm fast father feel feet fell
    few field fight figure fill film final find fine finger finish fire first fish fit five flat
    floor flow follow food foot for force form forward found four free fresh friend from front full
    game garden gas gave general get girl give glass go gold gone good got government great
    green ground group grow had hair half hand happen happy hard has hat have he head hear heart
    heat heavy held help her here high hill hold home hope horse";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{EVERYDAY, WORDS_MAX, Words};

    fn written(words: &Words, id: u64, count: u64) -> String {
        let mut text = Vec::new();
        words.write(id, count, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn lists_hold_different_words_and_a_power_of_two_of_them() {
        for words in [Words::letters(), Words::everyday()] {
            let different: BTreeSet<&str> = words.text.split(' ').skip(1).collect();
            assert_eq!(different.len(), words.len());
            assert_eq!(words.len(), 1 << words.bits);
        }
        assert_eq!(Words::letters().len(), WORDS_MAX);
        assert_eq!(EVERYDAY.split_ascii_whitespace().count(), 256);
    }

    #[test]
    fn an_id_has_the_same_words_always_and_no_other_has_them() {
        for words in [Words::letters(), Words::everyday()] {
            let (short, long) = (written(&words, 7, 16), written(&words, 7, 100));
            assert!(long.starts_with(&short));
            assert_eq!((short.split(' ').count(), long.split(' ').count()), (17, 101));
            assert_ne!(short, written(&words, 8, 16));
            assert_eq!(written(&words, 7, 0), "");
        }
    }

    #[test]
    fn words_are_drawn_from_the_whole_list() {
        let words = Words::everyday();
        let text = written(&words, 1, 5_000);
        let seen: BTreeSet<&str> = text.split(' ').skip(1).collect();
        assert_eq!(seen.len(), 256);
    }

    #[test]
    fn too_few_words_are_refused_and_those_that_need_escaping_left_out() {
        let numbered = |count: usize| (0..count).map(|nth| format!("w{nth}"));
        let error = Words::chosen(numbered(255)).unwrap_err().to_string();
        assert!(error.starts_with("only 255 words, 256 are needed\nhint: "), "{error}");
        assert_eq!(Words::chosen(numbered(1_000)).unwrap().len(), 512);
        let odd = ["", "a\"b", "ü"].map(str::to_owned);
        assert_eq!(Words::chosen(odd.into_iter().chain(numbered(256))).unwrap().len(), 256);
    }
}
