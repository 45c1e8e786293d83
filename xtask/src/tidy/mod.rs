//! Checks the house rules that no other tool checks.
//!
//! Style is a test here, so that reviews can talk about design. Each finding says where, what, and
//! what to do instead. A rule is a plain function from text to findings; its tests show that it
//! fires and that it does not.

mod crates;
mod determinism;
mod keys;
mod markdown;
mod names;
mod refusals;
mod rust;
mod scan;
mod secrets;
mod words;

use std::process::ExitCode;

use crate::say::say;
use crate::workspace::{Source, Workspace};

/// Something that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    file: String,
    line: usize,
    what: String,
    instead: String,
}

/// Collects findings.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    /// Notes that a rule is broken in `file` at `line` (from 1), and what to do instead.
    fn add(
        &mut self,
        file: &str,
        line: usize,
        what: impl Into<String>,
        instead: impl Into<String>,
    ) {
        let (what, instead) = (what.into(), instead.into());
        self.0.push(Finding { file: file.to_owned(), line, what, instead });
    }
}

/// Checks all rules over all files of the workspace and prints what breaks them.
pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<ExitCode> {
    let mut found = check(&workspace.sources()?).0;
    found.sort();
    for Finding { file, line, what, instead } in &found {
        say(&format!("{file}:{line}: {what}; instead {instead}"));
    }
    if found.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    say(&format!("tidy: {} findings", found.len()));
    Ok(ExitCode::FAILURE)
}

fn check(sources: &[Source]) -> Findings {
    let mut findings = Findings::default();
    for source in sources {
        check_one(source, &mut findings);
    }
    crates::check(sources, &mut findings);
    refusals::check(sources, &mut findings);
    keys::check(sources, &mut findings);
    markdown::check_links(sources, &mut findings);
    findings
}

/// Checks the rules that look at one file alone.
fn check_one(source: &Source, findings: &mut Findings) {
    let path = source.path.as_str();
    if source.len > LEN_MAX {
        let what = format!("{} KiB is more than {} KiB", source.len / 1024, LEN_MAX / 1024);
        findings.add(path, 1, what, "generate it, or leave it out of the repository");
    }
    names::check_path(path, findings);
    let Some(text) = &source.text else { return };
    secrets::check(path, text, findings);
    match source.extension() {
        "rs" => {
            let lines = scan::lines(text);
            rust::check(path, text, &lines, findings);
            names::check(path, &lines, findings);
            determinism::check(path, &lines, findings);
            words::check(path, lines.iter().map(|line| line.comment.as_str()), findings);
        }
        "md" => {
            markdown::check(path, text, findings);
            words::check(path, markdown::prose(text).iter().map(String::as_str), findings);
        }
        "toml" => words::check(path, text.lines().map(words::toml_comment), findings),
        _ => {}
    }
}

/// The largest file that is tracked, in bytes: what is larger is data, and data is generated or
/// fetched.
const LEN_MAX: u64 = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::{Findings, LEN_MAX, check_one};
    use crate::workspace::Source;

    /// Runs one rule and returns its findings, each as `line: what`.
    pub(super) fn found(rule: impl FnOnce(&mut Findings)) -> Vec<String> {
        let mut findings = Findings::default();
        rule(&mut findings);
        findings.0.iter().map(|found| format!("{}: {}", found.line, found.what)).collect()
    }

    /// A file of the workspace with this text.
    pub(super) fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), len: text.len() as u64, text: Some(text.to_owned()) }
    }

    #[test]
    fn a_file_above_the_cap_is_found_and_one_at_the_cap_is_not() {
        let of_len = |len| Source { len, ..source("data.bin", "") };
        assert_eq!(found(|it| check_one(&of_len(LEN_MAX), it)), [""; 0]);
        let above = found(|it| check_one(&of_len(LEN_MAX + 1), it));
        assert_eq!(above, ["1: 256 KiB is more than 256 KiB"]);
    }

    #[test]
    fn comments_of_toml_files_and_prose_of_markdown_are_read_for_banned_words() {
        let toml = source("a.toml", "# it is simply on\non = \"simply\"\n");
        assert_eq!(found(|it| check_one(&toml, it)), ["1: the word `simply`"]);
        let markdown = source("a.md", "# A\n\nThis is just right.\n");
        assert_eq!(found(|it| check_one(&markdown, it)), ["3: the word `just`"]);
    }
}
