//! Holds Markdown files to one title each, and to links that lead somewhere.

use std::collections::BTreeSet;

use super::Findings;
use crate::workspace::Source;

/// Checks that a file has exactly one title, in its first line.
pub(super) fn check(path: &str, text: &str, findings: &mut Findings) {
    let titles: Vec<usize> =
        unfenced(text).filter(|(_, line)| line.starts_with("# ")).map(|(nth, _)| nth + 1).collect();
    if titles.first() != Some(&1) {
        findings.add(path, 1, "the first line is no title", "start with `# ` and the title");
    }
    for line in titles.iter().skip(1) {
        findings.add(path, *line, "a second title", "use `##`");
    }
}

/// Checks that what is linked from one Markdown file to another place of the workspace is there.
pub(super) fn check_links(sources: &[Source], findings: &mut Findings) {
    let paths: BTreeSet<&str> = sources.iter().map(|source| source.path.as_str()).collect();
    for source in sources.iter().filter(|source| source.extension() == "md") {
        let Some(text) = &source.text else { continue };
        for (nth, line) in prose(text).iter().enumerate() {
            for target in links(line) {
                let target = resolve(&source.path, target);
                let folder = format!("{target}/");
                let there = paths.contains(target.as_str())
                    || paths.iter().any(|path| path.starts_with(&folder));
                if !there {
                    let what = format!("a link to {target}, which is not there");
                    findings.add(&source.path, nth + 1, what, "mend the link");
                }
            }
        }
    }
}

/// The lines of a file with those inside of fenced blocks left empty: what is said, not what is
/// quoted.
pub(super) fn prose(text: &str) -> Vec<String> {
    let mut prose = vec![String::new(); text.lines().count()];
    for (nth, line) in unfenced(text) {
        line.clone_into(&mut prose[nth]);
    }
    prose
}

/// The lines outside of fenced blocks, each with its place from 0.
fn unfenced(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The targets inside the workspace of a line's links, without their anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', '#']).next()?;
        (!target.is_empty() && !target.contains(':')).then_some(target)
    })
}

/// The path from the root of a target that is named from a file.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::{check, check_links};
    use crate::tidy::tests::{found, source};

    #[test]
    fn a_missing_a_late_and_a_second_title_are_found() {
        assert_eq!(found(|it| check("a.md", "text\n", it)), ["1: the first line is no title"]);
        assert_eq!(found(|it| check("a.md", "\n# A\n", it)), ["1: the first line is no title"]);
        assert_eq!(found(|it| check("a.md", "# A\n\n# B\n", it)), ["3: a second title"]);
    }

    #[test]
    fn one_title_is_right_whatever_stands_in_a_fenced_block() {
        assert_eq!(
            found(|it| check("a.md", "# A\n\n```sh\n# a comment\n```\n\n## B\n", it)),
            [""; 0]
        );
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let sources = [source("docs/a.md", "# A\n\nSee [b](b.md).\n")];
        let expected = ["3: a link to docs/b.md, which is not there"];
        assert_eq!(found(|it| check_links(&sources, it)), expected);
    }

    #[test]
    fn links_to_files_folders_anchors_and_addresses_are_right() {
        let text = "# A\n\n[b](../b.md#c) [docs](../docs/) [c](#c) [d](https://host.example/x)\n";
        let sources = [source("docs/a.md", text), source("b.md", "# B\n")];
        assert_eq!(found(|it| check_links(&sources, it)), [""; 0]);
    }
}
