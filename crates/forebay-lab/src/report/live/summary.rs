//! Writes one page in Markdown, for a ticket.

use std::fmt::Write as _;

use super::page::claim;
use super::{Live, burn, limits};
use crate::drill::notation::percent;
use crate::report::escape::plain;
use crate::report::frame::sentence_case;
use crate::report::{Origin, sign_off};
use crate::slo::Held;

/// What else than the file's own limits is told in a ticket.
pub(super) const LIMITS_MAX: usize = 3;

/// The summary.
pub(super) fn markdown(live: &Live<'_>) -> String {
    let comparison = live.comparison;
    let mut text = format!(
        "# {}: {}\n\n{}\n",
        live.outcome(),
        plain(&claim(live)),
        plain(&sentence_case(&live.reason()))
    );
    for sentence in &comparison.summary {
        let _ = write!(text, "\n{}\n", plain(sentence));
    }
    text.push_str("\n## What became of all that was offered\n\n");
    text.push_str(
        "| arm | verdict | offered | good | slow | refused | failed | timed out | cancelled | \
         not sent |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for arm in &comparison.arms {
        let it = &arm.all.buckets;
        let shown = |count: Option<u64>| count.map_or("–".to_owned(), |count| count.to_string());
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} ({}) | {} | {} | {} | {} |",
            cell(&arm.label),
            arm.outcome.0,
            it.offered,
            shown(it.good),
            shown(it.slow),
            it.refused,
            percent(it.refused as f64 / it.offered.max(1) as f64),
            it.failed,
            it.timed_out,
            it.cancelled,
            it.not_sent
        );
    }
    figures(live, &mut text);
    for difference in &comparison.differences {
        if !comparison.summary.contains(&difference.sentence) {
            let _ = write!(text, "\n{}\n", plain(&difference.sentence));
        }
        for sentence in &difference.survivorship {
            let _ = write!(text, "\n**Survivorship:** {}\n", plain(sentence));
        }
    }
    for (nth, arm) in comparison.arms.iter().enumerate() {
        for said in burn::sentences(live, nth, arm) {
            let _ = write!(text, "\nBudget of errors, {}: {}.\n", plain(&arm.label), plain(&said));
        }
    }
    let _ = write!(text, "\n## Criteria\n\n```toml\n{}```\n", live.held.criteria.canonical());
    if let Some(sign_off) = live.sign_off {
        let _ = write!(text, "\n## Sign-off\n\n{}", sign_off::markdown(sign_off));
    }
    text.push_str("\n## What this does not show\n\n");
    for sentence in limits::sentences(live).iter().take(LIMITS_MAX) {
        let _ = writeln!(text, "- {}", plain(sentence));
    }
    text.push_str(&origin(live.origin, live.held));
    text
}

/// Where it comes from: the command, and the hashes of all that was read.
pub(super) fn origin(origin: &Origin, held: &Held) -> String {
    let mut text = format!(
        "\nThe whole list, all figures and the hash of each file are in the report.\n\n\
         ## Where it comes from\n\n`{}`, {}\n\n- criteria: `{}`\n",
        origin.command().replace('`', "'"),
        origin.version,
        held.criteria.hash()
    );
    for (name, hash) in &origin.inputs {
        let _ = writeln!(text, "- {}: `{hash}`", plain(name));
    }
    text
}

/// Quantiles over all that were offered.
fn figures(live: &Live<'_>, text: &mut String) {
    text.push_str(
        "\n| arm, over all offered | TTFT p50 | p90 | p99 | completed/s | amplification |\n\
         |---|---|---|---|---|---|\n",
    );
    for arm in &live.comparison.arms {
        let ttft = arm.all.latencies.iter().find(|latency| latency.metric == "ttft_ms");
        let said = ttft.map_or([const { String::new() }; 3], |ttft| {
            [&ttft.offered.p50, &ttft.offered.p90, &ttft.offered.p99].map(|it| it.said.clone())
        });
        let amplification =
            arm.amplification.map_or("–".to_owned(), crate::drill::notation::three_digits);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {amplification} |",
            cell(&arm.label),
            said[0],
            said[1],
            said[2],
            arm.completed_per_s.said
        );
    }
}

/// Text as a cell of a table.
pub(super) fn cell(text: &str) -> String {
    plain(text).replace('|', "\\|")
}
