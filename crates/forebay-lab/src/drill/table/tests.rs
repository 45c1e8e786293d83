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
