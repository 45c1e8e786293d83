//! Says what came of a run, over all that were offered.

use std::fmt::Write as _;

use crate::results::{Group, Quantiles, Summary};
use crate::simulate::{Fixed, Millis};

/// A run as a table: how requests ended, latencies over all offered and over the completed, and
/// whether any of it may be used.
pub fn table(summary: &Summary) -> String {
    let all = &summary.all;
    let mut text = String::new();
    for invalid in &summary.about.invalid {
        let _ = writeln!(text, "INVALID ({}): {}\n", invalid.reason, invalid.what);
    }
    let _ = writeln!(text, "{} requests offered", all.offered);
    for (outcome, count) in &all.by_outcome {
        if *count > 0 || outcome.name() == "completed" || outcome.name() == "refused" {
            let share = 100.0 * *count as f64 / all.offered.max(1) as f64;
            let name = outcome.name().replace('_', " ");
            let _ = writeln!(text, "  {name:<12}{count:>8}{share:>7.1} %");
        }
    }
    for (fault, count) in &all.failed_by {
        let name = serde_json::to_value(fault).unwrap_or_default();
        let _ = writeln!(text, "    {:<20}{count:>8}", name.as_str().unwrap_or("unknown"));
    }
    if all.attempts > all.offered {
        let times = all.amplification.0.unwrap_or_default();
        let _ = writeln!(text, "  {} attempts, {times:.2} for each request", all.attempts);
    }
    text.push('\n');
    text += &latencies(all);
    text += &rest(summary);
    text
}

fn latencies(all: &Group) -> String {
    let mut text = format!(
        "{:<24}{:>9}{:>9}{:>9}{:>9}{:>9}\n",
        "milliseconds", "p50", "p90", "p99", "max", "mean"
    );
    let mut row = |of: &str, figures: &Quantiles| {
        let Quantiles { p50, p90, p99, max, mean, .. } = figures;
        let [p50, p90, p99, max, mean] = [p50, p90, p99, max, mean].map(shown);
        let _ = writeln!(text, "{of:<24}{p50:>9}{p90:>9}{p99:>9}{max:>9}{mean:>9}");
    };
    row("TTFT, all offered", &all.ttft_ms);
    row("  completed only", &all.completed_only.ttft_ms);
    row("ITL, all offered", &all.itl_ms);
    row("  completed only", &all.completed_only.itl_ms);
    row("to the end, all offered", &all.e2e_ms);
    row("  completed only", &all.completed_only.e2e_ms);
    if all.retry_after.refusals > 0 {
        row("until refused", &all.time_to_refuse_ms);
    }
    let unserved =
        all.offered - all.by_outcome.get(&crate::results::Outcome::Completed).unwrap_or(&0);
    if unserved > 0 {
        let _ = writeln!(text, "never: {unserved} of {} offered were not served", all.offered);
    }
    text
}

fn rest(summary: &Summary) -> String {
    let (all, about) = (&summary.all, &summary.about);
    let number = |figure: Millis| figure.0.map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
    let mut text = format!(
        "\n{} completed/s, {} output tokens/s over {} s\n",
        number(all.completed_per_s),
        number(all.output_tokens_per_s),
        number(all.makespan_s)
    );
    let tokens = &all.tokens;
    if tokens.short > 0 {
        let (short, asked) = (tokens.short, tokens.asked);
        let _ = writeln!(text, "{short} of {asked} answers were shorter than was asked for");
    }
    if let Some(share) = tokens.cached_share.0 {
        let _ = writeln!(text, "{:.1} % of prompt tokens were cached", 100.0 * share);
    }
    if let Some(generator) = &about.generator {
        let _ = writeln!(
            text,
            "own lag p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms; at most {} in flight on {} \
             connections",
            generator.lag_ms_p50,
            generator.lag_ms_p99,
            generator.lag_ms_max,
            generator.in_flight_max_seen,
            generator.connections
        );
    }
    for note in &about.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Milliseconds, or that it never came.
fn shown(millis: &Millis) -> String {
    match millis {
        Fixed(None) => "never".to_owned(),
        Fixed(Some(millis)) => format!("{millis:.1}"),
    }
}
