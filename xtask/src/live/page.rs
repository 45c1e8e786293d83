//! Keeps the page of performance, one section a measurement.

use std::fmt::Write as _;
use std::io::{Write as _, stdout};
use std::process::ExitCode;

use crate::claims::bar::Line;
use crate::say::say;
use crate::workspace::Workspace;

/// The page.
const PAGE: &str = "docs/performance.md";

/// What stands above the sections.
const HEAD: &str = "\
# Performance

Measured, not promised: each section says the command that wrote it, and its figures are of that \
run, also where they
fall short of the bar. Take ratios within one table, not absolutes: machines differ.
";

/// The titles of the sections, in their order.
const TITLES: [&str; 4] = [ENGINES, OVERHEAD, IDLE, GENERATOR];
/// What the router does to real engines.
pub(super) const ENGINES: &str = "In front of real engines";
/// What the router costs.
pub(super) const OVERHEAD: &str = "What a router costs";
/// What connections cost on which nothing is asked.
pub(super) const IDLE: &str = "What idle connections cost";
/// What our load generator costs.
pub(super) const GENERATOR: &str = "What generating load costs";

/// Prints what was found, and keeps it as a section where that was asked for. The code: 1 where a
/// bar is not held, 3 where none could be looked at or something was not run.
pub(super) fn report(
    workspace: &Workspace,
    (title, text): (&str, &str),
    lines: &[Line],
    skipped: &[String],
    write: bool,
) -> anyhow::Result<ExitCode> {
    write!(stdout(), "{text}")?;
    if write {
        let old = workspace.read(PAGE).unwrap_or_default();
        workspace.write(PAGE, &with_section(&old, title, text))?;
        say(&format!("wrote {PAGE}"));
    }
    let is_short = lines.iter().any(|line| !line.held);
    let is_partial = lines.is_empty() || !skipped.is_empty();
    Ok(ExitCode::from(match (is_short, is_partial) {
        (true, _) => 1,
        (false, true) => 3,
        (false, false) => 0,
    }))
}

/// The page with a section in its place, the others left as they are, whoever wrote them.
fn with_section(old: &str, title: &str, text: &str) -> String {
    let mut sections: Vec<(&str, &str)> = old
        .split("\n## ")
        .skip(1)
        .map(|part| part.split_once('\n').unwrap_or((part, "")))
        .collect();
    if let Some(place) = sections.iter().position(|(of, _)| *of == title) {
        sections[place].1 = text;
    } else {
        let rank = |title: &str| TITLES.iter().position(|each| *each == title);
        let later = |(of, _): &(&str, &str)| rank(of) > rank(title);
        let place = sections.iter().position(later).unwrap_or(sections.len());
        sections.insert(place, (title, text));
    }
    let mut page = HEAD.to_owned();
    for (title, text) in sections {
        let _ = write!(page, "\n## {title}\n\n{}\n", text.trim());
    }
    page
}

#[cfg(test)]
mod tests {
    use super::{ENGINES, HEAD, OVERHEAD, with_section};

    #[test]
    fn a_section_is_put_in_its_place_and_the_others_stay() {
        let page = with_section("", OVERHEAD, "cheap");
        assert_eq!(page, format!("{HEAD}\n## {OVERHEAD}\n\ncheap\n"));
        let page = with_section(&page, ENGINES, "fast\n");
        assert_eq!(page, format!("{HEAD}\n## {ENGINES}\n\nfast\n\n## {OVERHEAD}\n\ncheap\n"));
        let own = format!("{page}\n## By hand\n\nstays\n");
        assert!(with_section(&own, OVERHEAD, "dear").ends_with("dear\n\n## By hand\n\nstays\n"));
        let page = with_section(&page, ENGINES, "faster");
        assert_eq!(page, format!("{HEAD}\n## {ENGINES}\n\nfaster\n\n## {OVERHEAD}\n\ncheap\n"));
    }
}
