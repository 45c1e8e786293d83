//! Refuses words that promise work to nobody, or that tell a reader it is easy.

use super::Findings;
use super::scan::words;

/// Banned words, in lower case, and what to write in their place.
const WORDS: [(&str, &str); 4] = [
    ("todo", "do it, or file an issue"),
    ("fixme", "mend it, or file an issue"),
    ("simply", "leave the word out"),
    ("just", "leave the word out, or say `only`"),
];

/// Checks prose, line by line. What stands between backticks is quoted, not said.
pub(super) fn check<'a>(path: &str, prose: impl Iterator<Item = &'a str>, findings: &mut Findings) {
    for (nth, line) in prose.enumerate() {
        // Pieces at even places lie outside of the backticks.
        for said in line.split('`').step_by(2) {
            for word in words(said) {
                let lower = word.to_lowercase();
                if let Some((banned, instead)) = WORDS.iter().find(|(banned, _)| *banned == lower) {
                    findings.add(path, nth + 1, format!("the word `{banned}`"), *instead);
                }
            }
        }
    }
}

/// The comment of a line of TOML, or nothing. A `#` between quotes starts none.
pub(super) fn toml_comment(line: &str) -> &str {
    let mut quoted = false;
    for (at, char) in line.char_indices() {
        match char {
            '"' => quoted = !quoted,
            '#' if !quoted => return &line[at..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::{check, toml_comment};
    use crate::tidy::tests::found;

    #[test]
    fn banned_words_are_found_whatever_their_case() {
        let prose = ["Just so.", "a TODO: this", "it simply works", "FIXME"];
        let expected = [
            "1: the word `just`",
            "2: the word `todo`",
            "3: the word `simply`",
            "4: the word `fixme`",
        ];
        assert_eq!(found(|it| check("a.md", prose.into_iter(), it)), expected);
    }

    #[test]
    fn words_that_contain_them_and_quoted_ones_are_not_found() {
        let prose = ["adjust justice", "the words `just` and `TODO`", "simplicity", "todos"];
        assert_eq!(found(|it| check("a.md", prose.into_iter(), it)), [""; 0]);
    }

    #[test]
    fn only_the_comment_of_a_toml_line_is_prose() {
        assert_eq!(toml_comment("a = \"#x\" # why"), "# why");
        assert_eq!(toml_comment("a = \"just\""), "");
    }
}
