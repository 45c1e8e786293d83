//! Checks that values survive being words, and that no words do harm.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::BadWords;
use crate::strategies::{input, output, settings, why};
use crate::{Input, Mode, Output, RequestId, Settings, Tokens, Why, WorkerId};

fn input_words(input: &Input) -> Vec<u64> {
    let mut words = Vec::new();
    input.to_words(&mut words);
    words
}

fn output_words(output: &Output) -> Vec<u64> {
    let mut words = Vec::new();
    output.to_words(&mut words);
    words
}

proptest! {
    #[test]
    fn an_input_comes_back_from_its_words_as_it_was(input in input()) {
        prop_assert_eq!(Input::from_words(&input_words(&input)), Ok(input));
    }

    #[test]
    fn an_output_comes_back_from_its_words_as_it_was(output in output()) {
        prop_assert_eq!(Output::from_words(&output_words(&output)), Ok(output));
    }

    #[test]
    fn settings_come_back_from_their_words_as_they_were(settings in settings()) {
        let mut words = Vec::new();
        settings.to_words(&mut words);
        prop_assert_eq!(Settings::from_words(&words), Ok(settings));
    }

    #[test]
    fn any_words_are_refused_or_are_exactly_those_of_what_they_give(
        words in vec(prop_oneof![0_u64..9, any::<u64>()], 0..48),
    ) {
        if let Ok(input) = Input::from_words(&words) {
            prop_assert_eq!(&input_words(&input), &words);
        }
        if let Ok(output) = Output::from_words(&words) {
            prop_assert_eq!(&output_words(&output), &words);
        }
        if let Ok(settings) = Settings::from_words(&words) {
            let mut again = Vec::new();
            settings.to_words(&mut again);
            prop_assert_eq!(&again, &words);
        }
    }

    #[test]
    fn decisions_that_differ_in_the_last_bit_of_a_score_have_different_words(why in why()) {
        let mut other = why.clone();
        if let Some(candidate) = other.candidates.first_mut() {
            candidate.score = f64::from_bits(candidate.score.to_bits() ^ 1);
            let words = |why: Why| {
                output_words(&Output::Dispatch(RequestId(0), WorkerId(0), Box::new(why)))
            };
            prop_assert_ne!(words(why), words(other));
        }
    }

    #[test]
    fn words_that_lack_their_end_are_refused(
        output in output(), cut in any::<Index>(),
    ) {
        let words = output_words(&output);
        let cut = cut.index(words.len());
        let refused = Output::from_words(&words[..cut]).is_err();
        prop_assert!(refused);
    }

    #[test]
    fn words_with_one_changed_never_panic(
        input in input(), output in output(), at in any::<Index>(), word in any::<u64>(),
    ) {
        let mut words = input_words(&input);
        let place = at.index(words.len());
        words[place] = word;
        let _ = Input::from_words(&words);
        let mut words = output_words(&output);
        let place = at.index(words.len());
        words[place] = word;
        let _ = Output::from_words(&words);
    }
}

#[test]
fn the_layout_is_the_one_that_recordings_of_this_version_have() {
    assert_eq!(input_words(&Input::Progress(RequestId(7), Tokens(64))), [2, 7, 64]);
    assert_eq!(input_words(&Input::Elapsed), [7]);
    assert_eq!(output_words(&Output::Sleep(None)), [4, 0]);
}

#[test]
fn every_mode_keeps_its_name_through_the_words_of_a_why() {
    for mode in Mode::ALL {
        let mut words = Vec::new();
        super::Words::put(&mode.name(), &mut words);
        assert_eq!(super::Cursor::whole::<&'static str>(&words), Ok(mode.name()));
    }
}

#[test]
fn a_length_beyond_the_words_is_refused_before_anything_is_reserved() {
    // Stored(blocks) on worker 0 that claims more blocks than memory could hold.
    let words = [5, 0, 6, u64::MAX];
    let refused = BadWords::Range { at: 3, of: "a length", word: u64::MAX };
    assert_eq!(Input::from_words(&words), Err(refused));
    assert_eq!(refused.to_string(), "word 3 can't be a length: 18446744073709551615");
}

#[test]
fn words_left_over_are_refused() {
    assert_eq!(Input::from_words(&[7, 0, 0]), Err(BadWords::Long { extra: 2 }));
}

#[test]
fn an_unknown_kind_of_input_is_named_with_its_place() {
    assert_eq!(Input::from_words(&[9]).unwrap_err().to_string(), "word 0 can't be an input: 9");
}
