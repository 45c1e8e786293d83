//! Makes up answers: how long one is and what it says, from a seed and the prompt.
//!
//! The same prompt gets the same answer from every worker with the same seed, so a request that is
//! sent twice can be compared. Its words mean nothing, but they are words: each is one token, and
//! what a client sends back in the next turn has the tokens that were generated.

use forebay_core::mixed;

use super::ask::Sampling;
use super::tokenizer::token;

/// Mean length of an answer that ends by itself, in tokens: about that of `ShareGPT`'s, 214.
const LENGTH_MEAN: f64 = 200.0;

/// The words of answers, each with the space before it.
const WORDS: [&str; 64] = [
    " water",
    " the",
    " gate",
    " of",
    " opens",
    " when",
    " a",
    " river",
    " and",
    " waits",
    " for",
    " stone",
    " to",
    " hold",
    " in",
    " level",
    " it",
    " rises",
    " then",
    " falls",
    " over",
    " quiet",
    " mill",
    " wheel",
    " turns",
    " slowly",
    " with",
    " each",
    " measured",
    " stream",
    " beyond",
    " those",
    " who",
    " count",
    " what",
    " passes",
    " by",
    " evening",
    " light",
    " on",
    " wide",
    " basin",
    " keeps",
    " more",
    " than",
    " one",
    " winter",
    " or",
    " summer",
    " can",
    " bring",
    " so",
    " that",
    " nobody",
    " downstream",
    " is",
    " left",
    " dry",
    " while",
    " others",
    " have",
    " enough",
    " at",
    " last",
];

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    seed: u64,
    /// Its length in tokens.
    pub(super) tokens: u32,
    /// Whether it ends by itself, rather than at its limit.
    pub(super) stops: bool,
}

impl Answer {
    /// The `nth` answer to a prompt, of at most `tokens_max` tokens.
    pub(super) fn new(
        seed: u64,
        prompt: &[u32],
        nth: u32,
        sampling: &Sampling,
        tokens_max: u32,
    ) -> Self {
        let prompt = prompt.iter().fold(mixed(seed), |word, &token| mixed(word ^ u64::from(token)));
        let seed = mixed(prompt ^ mixed(sampling.seed).wrapping_add(u64::from(nth)));
        let longest = sampling.max_tokens.unwrap_or(tokens_max).min(tokens_max).max(1);
        let shortest = sampling.min_tokens.clamp(1, longest);
        // An exponential draw: lengths of answers are spread about as widely as their mean.
        let unit = (mixed(seed) >> 11) as f64 / (1_u64 << 53) as f64;
        let drawn = (1.0 - LENGTH_MEAN * (1.0 - unit).ln()) as u32;
        let tokens = if sampling.ignore_eos { longest } else { drawn.clamp(shortest, longest) };
        Self { seed, tokens, stops: !sampling.ignore_eos && drawn <= tokens && tokens < longest }
    }

    fn word(self, nth: u32) -> &'static str {
        let drawn = mixed(self.seed.wrapping_add(u64::from(nth) + 1)) % WORDS.len() as u64;
        WORDS[drawn as usize]
    }

    /// The text of these of its tokens.
    pub(super) fn write(self, tokens: std::ops::Range<u32>, text: &mut String) {
        tokens.for_each(|nth| text.push_str(self.word(nth)));
    }

    /// These of its tokens, as numbers.
    pub(super) fn numbers(self, tokens: std::ops::Range<u32>) -> Vec<u32> {
        tokens.map(|nth| token(self.word(nth))).collect()
    }

    /// Why it ends, as clients are told.
    pub(super) fn finish_reason(self) -> &'static str {
        if self.stops { "stop" } else { "length" }
    }
}

/// A made-up embedding of a prompt, of length 1.
pub(super) fn embedding(seed: u64, prompt: &[u32], dimensions: usize) -> Vec<f32> {
    let mut word = prompt.iter().fold(mixed(seed), |word, &token| mixed(word ^ u64::from(token)));
    let raw = (0..dimensions).map(|_| {
        word = mixed(word.wrapping_add(1));
        (word >> 40) as f32 / (1 << 23) as f32 - 1.0
    });
    let raw: Vec<f32> = raw.collect();
    let length = raw.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    raw.iter().map(|value| value / length).collect()
}

#[cfg(test)]
mod tests {
    use super::super::ask::Ask;
    use super::super::tokenizer::tokenize;
    use super::{Answer, WORDS, embedding};

    fn answer(fields: &str, nth: u32) -> Answer {
        let ask = Ask::read(format!("{{{fields}}}").as_bytes()).expect("it is JSON");
        let sampling = ask.sampling(2_048).expect("it is good");
        Answer::new(7, &[1, 2, 3], nth, &sampling, 1_000)
    }

    #[test]
    fn an_answer_is_as_long_as_is_said_or_drawn_below_its_limit() {
        assert_eq!(answer(r#""max_tokens": 50, "ignore_eos": true"#, 0).tokens, 50);
        assert_eq!(answer(r#""max_tokens": 50, "min_tokens": 50"#, 0).tokens, 50);
        assert_eq!(answer(r#""max_tokens": 2000, "ignore_eos": true"#, 0).tokens, 1_000);
        let lengths: Vec<u32> = (0..2_000).map(|nth| answer("", nth).tokens).collect();
        let mean = f64::from(lengths.iter().sum::<u32>()) / 2_000.0;
        assert!((mean - 200.0).abs() < 15.0, "{mean}");
        assert!(lengths.iter().all(|&length| (1..=1_000).contains(&length)));
    }

    #[test]
    fn an_answer_at_its_limit_was_cut_and_one_below_it_stopped() {
        assert_eq!(answer(r#""max_tokens": 1"#, 0).finish_reason(), "length");
        let some = (0..100).map(|nth| answer("", nth)).find(|answer| answer.tokens < 500);
        assert_eq!(some.expect("most are shorter").finish_reason(), "stop");
    }

    #[test]
    fn answers_differ_by_prompt_seed_and_place_only() {
        let one = answer("", 0);
        assert_eq!(one, answer("", 0));
        assert_ne!(one, answer("", 1));
        assert_ne!(one, answer(r#""seed": 5"#, 0));
    }

    #[test]
    fn what_was_generated_has_the_same_tokens_when_it_is_sent_back() {
        let (mut text, mut tokens) = (String::new(), Vec::new());
        answer("", 0).write(0..40, &mut text);
        tokenize(&text, &mut tokens);
        assert_eq!(tokens, answer("", 0).numbers(0..40));
        assert!(WORDS.iter().all(|word| word.len() <= 13 && word.starts_with(' ')));
    }

    #[test]
    fn an_embedding_has_length_one() {
        let length: f32 = embedding(1, &[1, 2], 256).iter().map(|value| value * value).sum();
        assert!((length - 1.0).abs() < 1e-4);
        assert_eq!(embedding(1, &[1], 0), [0.0; 0]);
    }
}
