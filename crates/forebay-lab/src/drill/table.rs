//! Prints what a person reads at a terminal: one row for each cell, the verdicts, and what to keep
//! in mind.

use std::fmt::Write as _;

use forebay_core::{HoldOrder, Mode};

use super::measure::Latency;
use super::notation::{change, counted, listed, percent, reasons, three_digits};
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
    let seeds = counted(drill.design.seeds.len(), "seed");
    wrapped(&mut text, &format!("{}, {seeds}", drill.title()), "");
    text.push('\n');
    text.push_str(HEAD);
    let mut previous = None;
    for row in &rows {
        if previous.is_some_and(|workers| workers != row.workers) {
            text.push('\n');
        }
        previous = Some(row.workers);
        line(&mut text, row);
    }
    let refusals = refusals(drill);
    if !refusals.is_empty() {
        text.push('\n');
    }
    for refusal in refusals {
        wrapped(&mut text, &refusal, "");
    }
    text.push('\n');
    for (arm, verdict) in drill.design.arms.iter().zip(&drill.verdicts) {
        let tested = if drill.under_test().is_some_and(|(last, _)| last == *arm) {
            " (under test)"
        } else {
            ""
        };
        let _ = writeln!(text, "{:<13} {arm}{tested}", verdict.outcome.name());
        wrapped(&mut text, &verdict.reason, "              ");
    }
    text.push('\n');
    wrapped(&mut text, READING, "");
    for note in notes(drill, &rows) {
        wrapped(&mut text, &note, "");
    }
    text
}

const READING: &str = "Figures are means over the seeds, max their largest, refused their sum; \
    makespan is a multiple of round-robin's. A request never served is infinitely late (∞). \
    Every latency is over all offered requests, except ITL here, which is over the served; \
    criteria on ITL are over all.";

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

/// Why each arm refused what it refused, over all seeds and numbers of workers; nothing of arms
/// that refused nothing.
pub fn refusals(drill: &Drill) -> Vec<String> {
    let of = |arm: &Mode| {
        let by = drill.refused_by(*arm);
        let refused: u64 = by.values().sum();
        (refused > 0).then(|| format!("{arm} refused {refused}: {}", reasons(&by)))
    };
    drill.design.arms.iter().filter_map(of).collect()
}

/// What must be said beside the figures.
pub fn notes(drill: &Drill, rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(against(drill, rows));
    notes.extend(gaps(drill, rows));
    notes.extend(verdict::caution(drill.design.seeds.len()));
    notes.push(
        "A simulator ranks policies; near saturation its absolute tail is not to be trusted."
            .to_owned(),
    );
    notes
}

/// How the arm under test does against round-robin where it is tightest, as ratios of the table's
/// figures.
fn against(drill: &Drill, rows: &[Row]) -> Option<String> {
    let (tested, _) = drill.under_test().filter(|(arm, _)| *arm != Mode::RoundRobin)?;
    let workers = drill.smallest();
    let of = |arm: Mode| rows.iter().find(|row| row.workers == workers && row.arm == arm);
    let (own, base) = (of(tested)?, of(Mode::RoundRobin)?);
    let (ttft, base_ttft) = (own.ttft?, base.ttft?);
    let ratio = |one: f64, base: f64| {
        let ratio = one / base;
        if base.is_infinite() { "–".to_owned() } else { format!("{} ×", three_digits(ratio)) }
    };
    Some(format!(
        "At N = {workers}, {tested} against round-robin: TTFT p50 {}, mean {}, p99 {}, max {}, \
         makespan {}.",
        ratio(ttft.p50, base_ttft.p50),
        ratio(ttft.mean, base_ttft.mean),
        ratio(ttft.p99, base_ttft.p99),
        ratio(ttft.max, base_ttft.max),
        ratio(own.makespan_ratio?, 1.0),
    ))
}

/// What holding costs between tokens, against round-robin, in words. Only where both served as
/// much: gaps of those that were served say nothing of those that were not.
fn gaps(drill: &Drill, rows: &[Row]) -> Option<String> {
    let of =
        |workers: u32, arm: Mode| rows.iter().find(|row| row.workers == workers && row.arm == arm);
    let ratio = |workers: u32| {
        let held = of(workers, Mode::Hold(HoldOrder::Aged))?;
        let base = of(workers, Mode::RoundRobin)?;
        let alike = (held.completed_share - base.completed_share).abs() < f64::EPSILON;
        let ratio = held.itl_ms_mean? / base.itl_ms_mean?;
        (alike && ratio.is_finite()).then_some((workers, ratio))
    };
    let ratios: Vec<(u32, f64)> = drill.design.workers.iter().filter_map(|&n| ratio(n)).collect();
    let grow = ratios.iter().all(|(_, ratio)| *ratio >= 1.0);
    let parts: Vec<String> = ratios
        .iter()
        .map(|(workers, ratio)| {
            let amount = change(*ratio);
            let amount = if grow { amount.trim_start_matches(['+', '±']) } else { &amount };
            format!("{amount} at N = {workers}")
        })
        .collect();
    let verb = if grow { "grow" } else { "change" };
    (!parts.is_empty()).then(|| {
        format!("Under hold, gaps between tokens {verb} by {} against round-robin.", listed(&parts))
    })
}

/// Adds the words of a text in lines of at most [`WIDTH`] columns, each after the same indent. A
/// figure stays with its unit, and `N = 2` stays together.
pub(crate) fn wrapped(text: &mut String, words: &str, indent: &str) {
    let mut column = 0;
    let mut words = words.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let mut word = word.to_owned();
        let belongs = |next: &str| {
            matches!(next.trim_end_matches([',', ')', ';', '.']), "s" | "ms" | "%" | "×" | "=")
        };
        while let Some(next) = words.next_if(|next| belongs(next) || word.ends_with("N =")) {
            word.push(' ');
            word.push_str(next);
        }
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
