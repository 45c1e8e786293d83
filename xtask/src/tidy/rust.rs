//! Holds Rust files to their widths, lengths, module docs and attributes.

use super::Findings;
use super::scan::{Line, before_tests};

/// Columns of a line. rustfmt leaves comments and long strings alone, so the tool is not enough.
const COLUMNS_MAX: usize = 100;
/// Lines of a file before its tests. What is longer holds more than one idea.
const LINES_MAX: usize = 500;

/// Attributes that are not used here, and what is used in their place.
const ATTRIBUTES: [(&str, &str); 3] = [
    ("ignore", "assert what is true today, with a comment"),
    ("should_panic", "catch the fault earlier, or assert on the message of a `Result`"),
    ("allow(", "`#[expect(…, reason = \"…\")]`"),
];

/// Checks one file.
pub(super) fn check(path: &str, text: &str, lines: &[Line], findings: &mut Findings) {
    for (nth, line) in text.lines().enumerate() {
        let columns = line.chars().count();
        // Raw strings and inline snapshots cannot be broken; other strings can, with a backslash.
        let breakable = !lines[nth].raw && !lines[nth].code.contains("@\"\"");
        if columns > COLUMNS_MAX && breakable {
            let what = format!("{columns} columns are more than {COLUMNS_MAX}");
            findings.add(path, nth + 1, what, "break the line");
        }
    }
    if !text.starts_with("//! ") {
        findings.add(path, 1, "the module has no doc", "start with `//!` and a sentence");
    }
    let length = before_tests(lines);
    if length > LINES_MAX && !is_test(path) {
        let what = format!("{length} lines without tests are more than {LINES_MAX}");
        findings.add(path, LINES_MAX + 1, what, "move one idea to a file of its own");
    }
    for (nth, line) in lines.iter().enumerate() {
        let code = line.code.replace(' ', "");
        for (attribute, instead) in ATTRIBUTES {
            if [format!("#[{attribute}"), format!("#![{attribute}")]
                .iter()
                .any(|it| code.contains(it))
            {
                let what = format!("the attribute `{}`", attribute.trim_end_matches('('));
                findings.add(path, nth + 1, what, instead);
            }
        }
    }
}

/// Whether a file holds nothing but tests.
pub(super) fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.split('/').any(|folder| folder == "tests")
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::scan::lines;
    use crate::tidy::tests::found;

    #[track_caller]
    fn expect(path: &str, text: &str, findings: &[&str]) {
        assert_eq!(found(|it| check(path, text, &lines(text), it)), findings);
    }

    #[test]
    fn a_line_may_have_100_columns_and_no_more() {
        let fits = format!("//! {}\n", "é".repeat(96));
        expect("a.rs", &fits, &[]);
        let wide = format!("//! {}\n", "é".repeat(97));
        expect("a.rs", &wide, &["1: 101 columns are more than 100"]);
    }

    #[test]
    fn a_wide_raw_string_or_inline_snapshot_is_no_finding() {
        let wide = "x".repeat(100);
        expect("a.rs", &format!("//! A.\nf(r\"\n{wide}{wide}\n\");\n"), &[]);
        expect("a.rs", &format!("//! A.\nassert_snapshot!(a, @\"{wide}\");\n"), &[]);
        let plain = format!("//! A.\nf(\"{wide}\");\n");
        expect("a.rs", &plain, &["2: 106 columns are more than 100"]);
    }

    #[test]
    fn a_file_without_a_module_doc_is_found() {
        expect("a.rs", "//! Counts.\n", &[]);
        expect("a.rs", "// Counts.\n", &["1: the module has no doc"]);
        expect("a.rs", "", &["1: the module has no doc"]);
    }

    #[test]
    fn a_long_file_is_found_unless_the_length_is_in_its_tests() {
        let long = format!("//! Counts.\n{}", "fn f() {}\n".repeat(500));
        expect("src/a.rs", &long, &["501: 501 lines without tests are more than 500"]);
        expect("src/a/tests.rs", &long, &[]);
        expect("tests/a.rs", &long, &[]);
        let tested = format!("//! Counts.\n#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(600));
        expect("src/a.rs", &tested, &[]);
    }

    #[test]
    fn attributes_that_silence_are_found_and_those_that_explain_are_not() {
        expect("a.rs", "//! A.\n#[ignore = \"slow\"]\n", &["2: the attribute `ignore`"]);
        expect("a.rs", "//! A.\n#[should_panic]\n", &["2: the attribute `should_panic`"]);
        expect("a.rs", "//! A.\n#![allow(dead_code)]\n", &["2: the attribute `allow`"]);
        expect("a.rs", "//! A.\n#[expect(dead_code, reason = \"soon\")]\n", &[]);
        expect("a.rs", "//! A.\n// Say #[ignore] in a comment.\nlet a = \"#[allow(x)]\";\n", &[]);
    }
}
