//! Reads the table as a person would.

use forebay_core::Mode;

use super::{WIDTH, render};
use crate::drill::{ARMS, fake};

#[test]
fn no_line_is_wider_than_a_terminal() {
    for arms in [&ARMS[..], &Mode::ALL[..]] {
        let text = render(&fake::drill(&[2, 4, 8, 1024], 3, arms));
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{}: {line}", line.chars().count());
        }
    }
}

#[test]
fn the_table_reads_like_this() {
    insta::assert_snapshot!(render(&fake::drill(&[2, 4], 3, &ARMS)));
}

#[test]
fn without_round_robin_there_is_no_ratio_to_it() {
    let text = render(&fake::drill(&[2], 1, &ARMS[4..]));
    assert!(text.contains(" – ") && !text.contains("gaps between tokens"), "{text}");
    assert!(text.contains("1 seed shows little of the spread"), "{text}");
}

#[test]
fn each_arm_that_refused_says_why_under_the_table() {
    let text = render(&fake::drill(&[2, 4], 3, &ARMS));
    // 29 at two workers for each of three seeds, by both arms of the kind.
    assert!(text.contains("\nkv:dynamo-1.2 refused 87: shed 87\n"), "{text}");
    assert!(!text.contains("round-robin refused"), "{text}");
    let calm = render(&fake::drill(&[4], 3, &ARMS));
    assert!(!calm.contains(" refused 0"), "{calm}");
}

#[test]
fn the_footer_says_over_what_each_latency_is() {
    let text = render(&fake::drill(&[2], 3, &ARMS)).replace('\n', " ");
    let said = "Every latency is over all offered requests, except ITL here, which is over the \
                served; criteria on ITL are over all.";
    assert!(text.contains(said), "{text}");
}
