//! Tests what a tokenizer is used for, and what a build without one says.

use std::path::Path;

use super::Tokenizer;

#[cfg(not(feature = "tokenizer"))]
#[test]
fn a_build_without_the_feature_says_how_to_get_it() {
    let error = Tokenizer::open(Path::new("no/such/file.json")).unwrap_err().to_string();
    assert!(
        error.starts_with("no/such/file.json: this build reads no tokenizer\nhint: "),
        "{error}"
    );
    assert!(error.contains("--features tokenizer"), "{error}");
}

#[cfg(feature = "tokenizer")]
mod with {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use forebay_core::{Span, Tokens};
    use serde_json::{Value, json};

    use super::{Path, Tokenizer};
    use crate::load::{Ask, Bodies, Calibration, Form};
    use crate::trace::TraceRequest;

    /// A tokenizer of bytes that knows these words behind a space, and those of them that are
    /// `whole` without one, too.
    fn of(words: &[String], whole: impl Fn(&str) -> bool) -> PathBuf {
        let mut vocabulary = BTreeMap::new();
        let mut merges = Vec::new();
        let add = |text: String, vocabulary: &mut BTreeMap<String, usize>| {
            let next = vocabulary.len();
            vocabulary.entry(text).or_insert(next);
        };
        for letter in ('a'..='z').chain(['Ġ']) {
            add(letter.to_string(), &mut vocabulary);
        }
        let mut learn = |word: &str| {
            let letters: Vec<char> = word.chars().collect();
            for end in 1..letters.len() {
                let before: String = letters[..end].iter().collect();
                let merge = format!("{before} {}", letters[end]);
                if !merges.contains(&merge) {
                    merges.push(merge);
                }
                add(letters[..=end].iter().collect(), &mut vocabulary);
            }
        };
        for word in words {
            learn(&format!("Ġ{word}"));
            if whole(word) {
                learn(word);
            }
        }
        let json = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
            "normalizer": null, "post_processor": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true},
            "model": {"type": "BPE", "vocab": vocabulary, "merges": merges}
        });
        let name = format!("forebay-tokenizer-{}-{}", std::process::id(), words.len());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("tokenizer.json"), json.to_string()).unwrap();
        folder
    }

    fn numbered(count: u32) -> Vec<String> {
        let letter = |nth: u32| char::from(b'a' + (nth % 26) as u8);
        (0..count).map(|nth| [letter(nth / 26), letter(nth), 'q'].iter().collect()).collect()
    }

    fn request(prompt: u64) -> TraceRequest {
        TraceRequest {
            at: Span::ZERO,
            prompt: Tokens(prompt),
            output: Tokens(7),
            ids: (0..prompt.div_ceil(512)).collect(),
            id_tokens: 512,
            session: None,
            delay: None,
            class: None,
            tenant: None,
        }
    }

    fn lengths_are_exact(folder: &Path) {
        let tokenizer = Tokenizer::open(folder).unwrap();
        let words = tokenizer.words().unwrap();
        let around = Calibration { overhead: 9.0, ..Calibration::default() };
        let ask = Ask::new("m", Form::Completion, false);
        let bodies = Bodies::new(&ask).with_words(words).with_calibration(around);
        for tokens in [10, 11, 57, 512, 513, 1_024, 8_192] {
            let body: Value = serde_json::from_slice(&bodies.body(0, &request(tokens))).unwrap();
            let text = body["prompt"].as_str().unwrap();
            // Nine tokens stand around it, by the probe.
            assert_eq!(tokenizer.count(text).unwrap() + 9, tokens, "{}", folder.display());
            assert_eq!(bodies.prompt_tokens(&request(tokens)), tokens);
        }
    }

    #[test]
    fn prompts_of_a_tokenizers_words_have_exactly_their_tokens() {
        let folder = of(&numbered(300), |_| true);
        lengths_are_exact(&folder);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn words_that_are_one_token_behind_a_space_only_are_left_out() {
        let folder = of(&numbered(301), |word| word.starts_with('a'));
        let error = Tokenizer::open(&folder).unwrap().words().unwrap_err().to_string();
        // Those that begin with an a, and their first two letters.
        assert!(error.contains("only 52 words, 256 are needed\nhint: leave the tok"), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_no_tokenizer_is_refused_with_its_file() {
        let error = Tokenizer::open(Path::new("/no/such.json")).unwrap_err().to_string();
        assert!(error.starts_with("/no/such.json: no tokenizer can be read: "), "{error}");
        assert!(error.contains("\nhint: name a model's folder"), "{error}");
    }

    /// The folders of real models are named by a variable, with colons between them.
    #[test]
    fn prompts_have_exactly_their_tokens_with_real_tokenizers() {
        let Ok(folders) = std::env::var("FOREBAY_TOKENIZERS") else {
            println!("skipped: FOREBAY_TOKENIZERS names no folders");
            return;
        };
        std::env::split_paths(&folders).for_each(|folder| lengths_are_exact(&folder));
    }
}
