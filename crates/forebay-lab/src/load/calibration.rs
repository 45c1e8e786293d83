//! Learns how many tokens a word is for an endpoint, from the usage of a few probes.
//!
//! What a prompt's words are to a model's tokenizer, and what its chat template puts around them,
//! only the endpoint knows; but it says the sum with every answer. Prompts of different lengths
//! give a straight line: its slope is the tokens of a word, and where it meets no words at all is
//! what stands around them.

/// The tokens that a word may be. Beyond, what an endpoint counts are no tokens of these words.
const PER_WORD: std::ops::RangeInclusive<f64> = 0.05..=20.0;
/// The most tokens around a prompt that are believed: a long system prompt of the endpoint's own.
const OVERHEAD_MAX: f64 = 100_000.0;

/// How many tokens a prompt of so many words is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Tokens of a word, the space before it included.
    pub per_word: f64,
    /// Tokens around a prompt: what a template, or a mark of the beginning, adds.
    pub overhead: f64,
    /// The largest difference between the line and a probe, in tokens.
    pub error: f64,
}

/// Why probes teach nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what}\nhint: give the model's tokenizer, or send prompts as they are without calibration"
)]
pub struct CalibrationError {
    what: String,
}

impl Default for Calibration {
    /// One token a word, and nothing around them.
    fn default() -> Self {
        Self { per_word: 1.0, overhead: 0.0, error: 0.0 }
    }
}

impl Calibration {
    /// The same for words that are one token each by a tokenizer: exactly one, and a whole number
    /// around them. Fails where the probes say otherwise.
    pub fn of_single_tokens(self) -> Result<Self, CalibrationError> {
        // Probes are whole numbers, so that anything but one token a word is off by much more.
        if (self.per_word - 1.0).abs() > 1e-6 || self.error > 1e-3 {
            return Err(CalibrationError {
                what: format!(
                    "words of one token each are {:.3} by the endpoint's usage: this tokenizer is \
                     not the model's",
                    self.per_word
                ),
            });
        }
        Ok(Self { per_word: 1.0, overhead: self.overhead.round(), error: 0.0 })
    }

    /// How many words come to so many tokens, as near as whole words can; at least one, where any
    /// token is asked for.
    pub fn words(&self, tokens: u64) -> u64 {
        if tokens == 0 {
            return 0;
        }
        (((tokens as f64 - self.overhead) / self.per_word).round() as u64).max(1)
    }

    /// How many tokens a prompt of so many words is.
    pub fn tokens(&self, words: u64) -> u64 {
        if words == 0 {
            return 0;
        }
        (self.overhead + self.per_word * words as f64).round() as u64
    }

    /// Words before which the `place`-th id of so many tokens begins. It depends on nothing else,
    /// so that equal prefixes stay equal text.
    pub(super) fn words_before(&self, place: u64, id_tokens: u64) -> u64 {
        ((place * id_tokens) as f64 / self.per_word).round() as u64
    }
}

/// The straight line through probes (words, `usage.prompt_tokens`), by least squares.
pub fn calibrate(probes: &[(u64, u64)]) -> Result<Calibration, CalibrationError> {
    let wrong = |what: String| Err(CalibrationError { what });
    let count = probes.len() as f64;
    let mean = |value: fn(&(u64, u64)) -> f64| probes.iter().map(value).sum::<f64>() / count;
    let (words, tokens) = (mean(|probe| probe.0 as f64), mean(|probe| probe.1 as f64));
    let (mut square, mut product) = (0.0, 0.0);
    for &(x, y) in probes {
        let x = x as f64 - words;
        square += x * x;
        product += x * (y as f64 - tokens);
    }
    if probes.is_empty() || square <= 0.0 {
        return wrong("probes of two different lengths are needed".to_owned());
    }
    let per_word = product / square;
    let overhead = (tokens - per_word * words).max(0.0);
    if !PER_WORD.contains(&per_word) || overhead > OVERHEAD_MAX {
        let said: Vec<_> = probes.iter().map(|(x, y)| format!("{y} for {x} words")).collect();
        let said = said.join(", ");
        return wrong(format!("the endpoint's usage does not count the prompt's tokens: {said}"));
    }
    let apart = |&(x, y): &(u64, u64)| (overhead + per_word * x as f64 - y as f64).abs();
    let error = probes.iter().map(apart).fold(0.0, f64::max);
    Ok(Calibration { per_word, overhead, error })
}

#[cfg(test)]
mod tests {
    use super::{Calibration, calibrate};

    #[test]
    fn two_probes_give_the_line_through_them() {
        let found = calibrate(&[(100, 159), (1_100, 1_659)]).unwrap();
        assert!((found.per_word - 1.5).abs() < 1e-12);
        assert!((found.overhead - 9.0).abs() < 1e-9 && found.error < 1e-9);
        for tokens in [30, 1_000, 8_191] {
            assert!(found.tokens(found.words(tokens)).abs_diff(tokens) <= 1);
        }
    }

    #[test]
    fn probes_that_do_not_lie_on_a_line_say_how_far_they_are_off() {
        let found = calibrate(&[(100, 110), (200, 214), (300, 310)]).unwrap();
        assert!((found.per_word - 1.0).abs() < 1e-9);
        assert!(found.error > 2.0 && found.error < 3.0, "{found:?}");
    }

    #[test]
    fn a_prompt_is_never_without_words_and_none_asked_for_is_none() {
        let found = Calibration { overhead: 30.0, ..Calibration::default() };
        assert_eq!((found.words(10), found.words(31), found.words(0)), (1, 1, 0));
        assert_eq!((found.tokens(1), found.tokens(0)), (31, 0));
    }

    #[test]
    fn a_usage_that_counts_nothing_teaches_nothing() {
        assert!(calibrate(&[]).is_err());
        assert!(calibrate(&[(100, 109)]).is_err());
        assert!(calibrate(&[(100, 109), (100, 110)]).is_err());
        let error = calibrate(&[(100, 7), (1_000, 7)]).unwrap_err().to_string();
        assert!(error.contains("7 for 100 words, 7 for 1000 words\nhint: "), "{error}");
        assert!(calibrate(&[(100, 500_000), (200, 500_100)]).is_err());
    }

    #[test]
    fn a_tokenizers_words_are_one_token_each_or_it_is_not_the_models() {
        let found = calibrate(&[(32, 41), (256, 265), (1_024, 1_033)]).unwrap();
        assert_eq!(found.of_single_tokens().unwrap().tokens(100), 109);
        let other = calibrate(&[(32, 41), (256, 266), (1_024, 1_040)]).unwrap();
        let error = other.of_single_tokens().unwrap_err().to_string();
        assert!(error.contains("this tokenizer is not the model's\nhint: "), "{error}");
    }
}
