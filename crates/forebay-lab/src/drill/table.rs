//! Prints what a person reads at a terminal: one row for each cell, the verdicts, and what to keep in mind.

use std::fmt::Write as _;

use forebay_core::{HoldOrder, Mode};

use super::measure::Latency;
use super::notation::{change, counted, listed, percent, three_digits};
use super::row::Row;
use super::{Drill, verdict};

#[cfg(test)]
mod tests;

/// The widest line, in columns.
pub const WIDTH: usize = 100;

/// The table, the verdicts and the notes, in lines of at most [`WIDTH`] columns.
pub fn render(drill: &Drill) -> String {
    let rows = Row::all(drill);
    let mut text = String::new();
    let seeds = counted(drill.seeds.len(), "seed");
    let _ = writeln!(text, "{} on {}, {seeds}\n", drill.trace, drill.engine);
    text.push_str(HEAD);
    let mut previous = None;
    for row in &rows {
        if previous.is_some_and(|workers| workers != row.workers) {
            text.push('\n');
        }
        previous = Some(row.workers);
        line(&mut text, row);
    }
    text.push('\n');
    for (arm, verdict) in drill.arms.iter().zip(&drill.verdicts) {
        let tested = if drill.under_test().is_some_and(|(last, _)| last == *arm) {
            " (under test)"
        } else {
            ""
        };
        let _ = writeln!(text, "{:<13} {arm}{tested}", verdict.outcome.name());
        wrapped(&mut text, &verdict.reason, "              ");
    }
    text.push('\n');
    for note in notes(drill, &rows) {
        wrapped(&mut text, &note, "");
    }
    text
}

const HEAD: &str = "                                       \
    |----- TTFT over all offered, s -----|
   N  arm                done %  refused     p50    mean     p99     max  ITL ms makespan preempt
";

fn line(text: &mut String, row: &Row) {
    let done = percent(row.completed_share);
    let secs = |ms: Option<f64>| ms.map_or("–".to_owned(), |ms| three_digits(ms / 1000.0));
    let ttft = |of: fn(&Latency) -> f64| secs(row.ttft.as_ref().map(of));
    let ratio = row.makespan_ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
    let _ = writeln!(
        text,
        "{:>4}  {:<18}{:>7} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>8} {:>7.0}",
        row.workers,
        row.arm.name(),
        done.trim_end_matches(" %"),
        row.refused,
        ttft(|ttft| ttft.p50),
        ttft(|ttft| ttft.mean),
        ttft(|ttft| ttft.p99),
        ttft(|ttft| ttft.max),
        row.itl_ms_mean.map_or("–".to_owned(), three_digits),
        ratio,
        row.preemptions,
    );
}

/// What must be said beside the figures.
pub fn notes(drill: &Drill, rows: &[Row]) -> Vec<String> {
    let mut notes = vec![
        "Figures are means over the seeds, max their largest, refused their sum; makespan is a multiple \
         of round-robin's. A request never served is infinitely late (∞). ITL is over the served."
            .to_owned(),
    ];
    notes.extend(gaps(drill, rows));
    notes.extend(verdict::caution(drill.seeds.len()));
    notes.push(
        "A simulator ranks policies; near saturation its absolute tail is not to be trusted."
            .to_owned(),
    );
    notes
}

/// What holding costs between tokens, against round-robin, in words.
pub fn gaps(drill: &Drill, rows: &[Row]) -> Option<String> {
    let of = |workers: u32, arm: Mode| {
        rows.iter().find(|row| row.workers == workers && row.arm == arm)?.itl_ms_mean
    };
    let part = |workers: u32| {
        let ratio = of(workers, Mode::Hold(HoldOrder::Aged))? / of(workers, Mode::RoundRobin)?;
        let verb = if ratio < 1.0 { "shrink" } else { "grow" };
        let amount = change(ratio);
        let amount = amount.trim_start_matches(['+', '−', '±']);
        ratio.is_finite().then(|| format!("{verb} by {amount} at N = {workers}"))
    };
    let parts: Vec<String> = drill.workers.iter().filter_map(|&workers| part(workers)).collect();
    (!parts.is_empty())
        .then(|| format!("Under hold, gaps between tokens {} against round-robin.", listed(&parts)))
}

/// Adds the words of a text in lines of at most [`WIDTH`] columns, each after the same indent; a figure stays
/// with its unit.
fn wrapped(text: &mut String, words: &str, indent: &str) {
    let mut column = 0;
    let mut words = words.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let unit =
            words.next_if(|next| matches!(next.trim_end_matches([',', ')']), "s" | "ms" | "%"));
        let word = unit.map_or(word.to_owned(), |unit| format!("{word} {unit}"));
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            text.push('\n');
            column = 0;
        }
        let gap = if column == 0 { indent } else { " " };
        text.push_str(gap);
        text.push_str(&word);
        column += gap.len() + length;
    }
    text.push('\n');
}
