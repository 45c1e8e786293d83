//! Prints a comparison for a person at a terminal.

use std::fmt::Write as _;

use super::comparison::{ArmFigures, Buckets, Comparison, Contrast, Quantiles};
use super::say;
use crate::drill::notation::{percent, three_digits};

/// The widest line, in columns.
pub const WIDTH: usize = 100;
/// Columns that a name may have.
const NAME: usize = 22;

/// The tables, the sentences and the notes, in lines of at most [`WIDTH`] columns.
pub fn render(comparison: &Comparison) -> String {
    let mut text = String::new();
    text.push_str("Requests offered, by how they ended\n");
    let _ = writeln!(
        text,
        "{:NAME$}{:>9}{:>9}{:>8}{:>9}{:>8}{:>11}{:>11}{:>10}",
        "", "offered", "good", "slow", "refused", "failed", "timed out", "cancelled", "not sent"
    );
    for arm in &comparison.arms {
        counts(&mut text, &arm.label, &arm.all.buckets);
        for (class, group) in arm.classes.iter().filter(|_| arm.classes.len() > 1) {
            counts(&mut text, &format!("  {class}"), &group.buckets);
        }
    }
    for (nth, title) in ["TTFT", "ITL", "Whole latency"].into_iter().enumerate() {
        let _ = writeln!(text, "\n{title}, over all offered and below it over survivors only");
        let _ = writeln!(text, "{:NAME$}{:>26}{:>26}{:>26}", "", "p50", "p90", "p99");
        for arm in &comparison.arms {
            let latency = &arm.all.latencies[nth];
            quantiles(&mut text, &arm.label, &latency.offered);
            quantiles(&mut text, "  survivors only", &latency.survivors);
        }
    }
    rates(&mut text, comparison);
    for difference in &comparison.differences {
        let _ = writeln!(text, "\n{} against {}", difference.arm, difference.baseline);
        let _ = writeln!(
            text,
            "{:NAME$}{:>13}{:>29}{:>15}{:>10}",
            "", "difference", "95 % interval", "better with", "p-value"
        );
        contrast(&mut text, &difference.primary);
        difference.secondary.iter().for_each(|it| contrast(&mut text, it));
    }
    if !comparison.differences.is_empty() {
        text.push('\n');
        wrapped(&mut text, DIFFERING, "");
    }
    text.push('\n');
    for arm in &comparison.arms {
        let _ = writeln!(text, "{:<13} {}", arm.outcome.0.name(), short(&arm.label));
        wrapped(&mut text, &arm.reason, "              ");
    }
    text.push('\n');
    for sentence in comparison.summary.iter().skip(1) {
        wrapped(&mut text, sentence, "");
    }
    wrapped(&mut text, READING, "");
    for note in &comparison.notes {
        wrapped(&mut text, note, "");
    }
    text
}

const SPENDING: &str = "makespan: from the first request due to the last end. amplification: times \
    that a request was sent. wasted output: tokens that were generated for requests that were not \
    completed. fairness: Jain's index over the tenants' shares of completed requests, 1 where all \
    fare alike.";

const DIFFERING: &str = "better with: how probable it is that the arm is the better one, going by \
    its blocks. p-value: how probable such a difference is between two that are the same, \
    corrected for testing several (Holm). A star: shown with that confidence.";

const READING: &str = "Every figure is over all requests that were offered, one never served being \
    infinitely late, except those of survivors, which are not to be compared between arms that \
    serve different requests.";

fn counts(text: &mut String, name: &str, buckets: &Buckets) {
    let or = |count: Option<u64>| count.map_or("?".to_owned(), |count| count.to_string());
    let _ = writeln!(
        text,
        "{:NAME$}{:>9}{:>9}{:>8}{:>9}{:>8}{:>11}{:>11}{:>10}",
        short(name),
        buckets.offered,
        or(buckets.good),
        or(buckets.slow),
        buckets.refused,
        buckets.failed,
        buckets.timed_out,
        buckets.cancelled,
        buckets.not_sent
    );
}

fn quantiles(text: &mut String, name: &str, of: &Quantiles) {
    let _ = writeln!(
        text,
        "{:NAME$}{:>26}{:>26}{:>26}",
        short(name),
        cell(&of.p50.said),
        cell(&of.p90.said),
        cell(&of.p99.said)
    );
}

fn rates(text: &mut String, comparison: &Comparison) {
    let _ = writeln!(
        text,
        "\n{:NAME$}{:>15}{:>12}{:>15}{:>17}{:>17}",
        "", "completed/s", "makespan", "amplification", "wasted output", "fairness"
    );
    for arm in &comparison.arms {
        let or = |value: Option<f64>| value.map_or("–".to_owned(), three_digits);
        let wasted = arm.wasted.map_or("–".to_owned(), |it| percent(it.output_share));
        let _ = writeln!(
            text,
            "{:NAME$}{:>15}{:>12}{:>15}{:>17}{:>17}",
            short(&arm.label),
            arm.completed_per_s.said,
            arm.makespan_s.map_or("–".to_owned(), |s| format!("{} s", three_digits(s))),
            or(arm.amplification),
            wasted,
            or(jain(arm))
        );
    }
    wrapped(text, SPENDING, "");
}

fn jain(arm: &ArmFigures) -> Option<f64> {
    arm.who.as_ref().and_then(|who| who.jain_tenants)
}

fn contrast(text: &mut String, of: &Contrast) {
    let interval = match (of.difference.low, of.difference.high) {
        (Some(low), Some(high)) if of.difference.is_bounded_only => {
            format!("bounds {} to {}", say::change(low, of.unit), say::change(high, of.unit))
        }
        (Some(low), Some(high)) => {
            format!("{} to {}", say::change(low, of.unit), say::change(high, of.unit))
        }
        _ => "–".to_owned(),
    };
    let value = of.difference.value.map_or("–".to_owned(), |it| say::change(it, of.unit));
    let better = of.p_better.map_or("–".to_owned(), percent);
    let p = of.p_holm.or(of.p_value).map_or("–".to_owned(), three_digits);
    let mark = if of.differs { " *" } else { "" };
    let _ = writeln!(
        text,
        "{:NAME$}{value:>13}{interval:>29}{better:>15}{p:>10}{mark}",
        short(&of.title)
    );
}

/// A figure that fits its column. How many were not served stands in the first table.
fn cell(said: &str) -> String {
    const ROOM: usize = 25;
    match said.split_once(": ") {
        _ if said.chars().count() <= ROOM => said.to_owned(),
        Some((word, _)) => word.to_owned(),
        None => said.chars().take(ROOM - 1).chain(['…']).collect(),
    }
}

/// A name that fits its column.
fn short(name: &str) -> String {
    if name.chars().count() < NAME {
        return name.to_owned();
    }
    let kept: String = name.chars().take(NAME - 2).collect();
    format!("{kept}…")
}

/// Adds the words of a text in lines of at most [`WIDTH`] columns, each after the same indent.
fn wrapped(text: &mut String, words: &str, indent: &str) {
    let mut column = 0;
    for word in words.split(' ').filter(|word| !word.is_empty()) {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            text.push('\n');
            column = 0;
        }
        let gap = if column == 0 { indent } else { " " };
        text.push_str(gap);
        text.push_str(word);
        column += gap.len() + length;
    }
    text.push('\n');
}
