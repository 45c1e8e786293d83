//! Writes a drill of several cells on one page in Markdown, for a ticket.

use std::fmt::Write as _;

use super::super::summary::{LIMITS_MAX, cell as escaped, origin};
use super::Paper;
use super::page::{CellPage, claim, limits_of, reason, ttft};
use crate::report::escape::plain;
use crate::report::frame::sentence_case;
use crate::report::sign_off;

/// The summary.
pub(super) fn markdown(paper: &Paper<'_>, cells: &[CellPage]) -> String {
    let mut text = format!(
        "# {}: {}\n\n{}\n\n## What became of all that was offered\n\n\
         | cell | arm | verdict | offered | completed | refused | TTFT p50 | p90 | p99 |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        paper.drill.outcome(),
        plain(&claim(paper)),
        plain(&sentence_case(&reason(paper)))
    );
    for cell in &paper.cells {
        for arm in &cell.comparison.arms {
            let all = &arm.all;
            let [p50, p90, p99] = ttft(arm);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {p50} | {p90} | {p99} |",
                cell.cell.title(),
                escaped(&arm.label),
                arm.outcome.0,
                all.buckets.offered,
                all.completed_share.said,
                all.refused_share.said,
            );
        }
    }
    for cell in &paper.cells {
        let said = cell.contradiction.iter().cloned();
        let survivors = cell.comparison.differences.iter().flat_map(|it| it.survivorship.clone());
        for sentence in said.map(|said| sentence_case(&said)).chain(survivors) {
            let _ = write!(text, "\n{}: {}\n", cell.cell.title(), plain(&sentence));
        }
    }
    let _ = write!(text, "\n## Criteria\n\n```toml\n{}```\n", paper.held.criteria.canonical());
    if let Some(sign_off) = &paper.drill.design.sign_off {
        let _ = write!(text, "\n## Sign-off\n\n{}", sign_off::markdown(sign_off));
    }
    text.push_str("\n## What this does not show\n\n");
    for sentence in limits_of(cells).iter().take(LIMITS_MAX) {
        let _ = writeln!(text, "- {}", plain(sentence));
    }
    text.push_str(&origin(paper.origin, &paper.held));
    text
}
