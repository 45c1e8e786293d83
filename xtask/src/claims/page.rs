//! Writes what was found as a page of the documentation.

use std::fmt::Write as _;

use super::Found;

/// What stands above the tables.
const HEAD: &str = "\
# Results

Written by `cargo xtask claims --write`; every figure is of that run, also where it falls short.

Each line is a figure against the bar that was set for it before it was measured. A bar is held \
where the worst of the
runs holds it, not their mean. `seedlike-1` to `seedlike-3` are traces with the lengths, \
prefixes and bursts of the
slice that the [published test](concepts/evidence.md) replayed. They are not in the repository: \
a command below that
reads `../shared/data/seedlike-*.jsonl` runs only where those files lie. A seed is one of the \
synthetic slice
`evidence`, which `forebay` makes itself, so those commands run anywhere. All latencies are over \
all offered requests,
with the unserved as infinitely late. Where the machine decides the figure, it is told in parts \
of its bar.
";

/// Where the part begins that is not written by claims.
const LIVE: &str = "\n## Live drills";

/// The page.
pub(super) fn page(found: &[Found]) -> String {
    let mut page = HEAD.to_owned();
    for Found { claim, lines, commands, skipped } in found {
        let _ = write!(page, "\n## `{}`: {}\n\n", claim.name, claim.says);
        if !lines.is_empty() {
            page.push_str("| figure | measured | bar | |\n|---|---|---|---|\n");
        }
        for line in lines {
            let measured = match line.of_bar {
                Some(part) => format!("{part:.2} of the bar"),
                None => line.figure.clone(),
            };
            let verdict = if line.held { "held" } else { "**short**" };
            let _ = writeln!(page, "| {} | {measured} | {} | {verdict} |", line.what, line.bar);
        }
        for what in skipped {
            let _ = writeln!(page, "\nNot run: {what}.");
        }
        if !commands.is_empty() {
            let _ = write!(page, "\n```sh\n{}\n```\n", commands.join("\n"));
        }
    }
    page
}

/// The part of an older page that live drills have left: no claim writes it anew.
pub(super) fn kept(old: &str) -> &str {
    old.find(LIVE).map_or("", |at| &old[at..])
}

#[cfg(test)]
mod tests {
    use super::{kept, page};
    use crate::claims::bar::{Bar, Line, Unit};
    use crate::claims::{CLAIMS, Found};

    #[test]
    fn what_live_drills_have_left_is_kept() {
        assert_eq!(kept("# Results\n\nx\n\n## Live drills\n\ny\n"), "\n## Live drills\n\ny\n");
        assert_eq!(kept("# Results\n"), "");
    }

    #[test]
    fn a_page_says_what_fell_short_and_what_was_not_run() {
        let line = |unit, value| {
            let values = [("seed 1".to_owned(), value)];
            Line::of("a figure".to_owned(), unit, &values, Bar::AtMost(1.0))
        };
        let found = Found {
            claim: &CLAIMS[0],
            lines: vec![line(Unit::Times, 1.5), line(Unit::Micros, 0.25)],
            commands: vec!["forebay simulate".to_owned()],
            skipped: vec!["no trace".to_owned()],
        };
        let page = page(&[found]);
        assert!(page.contains("| a figure | 1.500 × | ≤ 1.000 × | **short** |"), "{page}");
        assert!(page.contains("| a figure | 0.25 of the bar | ≤ 1.0 µs | held |"), "{page}");
        assert!(page.contains("\nNot run: no trace.\n\n```sh\nforebay simulate\n```\n"), "{page}");
    }
}
