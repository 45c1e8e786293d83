//! Prints what a person reads at the end of a live drill.

use std::fmt::Write as _;

use super::block::Done;
use super::hold::{CellDone, Drill};
use super::simulated::Simulated;
use crate::drill::notation::{counted, percent, three_digits};
use crate::drill::table::wrapped;
use crate::results::Outcome;
use crate::simulate::Latency;

/// The table of each cell, the verdicts, and what to keep in mind.
pub fn render(drill: &Drill) -> String {
    let mut text = String::new();
    for cell in &drill.cells {
        cell_table(&mut text, drill, cell);
    }
    text.push_str(READING);
    if drill.cells.iter().any(|cell| cell.simulated.iter().any(Option::is_some)) {
        text.push_str(SIMULATED);
    }
    if drill.was_interrupted {
        text.push_str("It was stopped before its end: only complete rounds are counted.\n");
    }
    text
}

const READING: &str = "\
TTFT is over all offered requests, from the moment each was due, in seconds of the wall; one that
was never served is infinitely late (∞).
";
const SIMULATED: &str = "\
sim: the same requests, simulated. A simulator ranks policies; near saturation its absolute tail is
not to be trusted.
";
const HEAD: &str = "                         \
    done %       refused %    |-- TTFT p50 --| |-- TTFT p90 --| |-- TTFT p99 --|
  arm                    live    sim  live    sim    live     sim     live     sim     live     sim
";

/// The figures of one side of a row.
struct Side {
    completed: f64,
    refused: f64,
    ttft: [String; 3],
}

impl Side {
    fn of(offered: u64, refused: u64, mut ttft: Vec<u64>) -> Self {
        ttft.sort_unstable();
        let served = ttft.len() as u64;
        let latency = Latency::of(&ttft, offered - served);
        let secs = |ms: Option<f64>| three_digits(ms.unwrap_or(f64::INFINITY) / 1000.0);
        let share = |count: u64| if offered == 0 { 0.0 } else { count as f64 / offered as f64 };
        Self {
            completed: share(served),
            refused: share(refused),
            ttft: [latency.p50.0, latency.p90.0, latency.p99.0].map(secs),
        }
    }

    fn live(blocks: &[Done]) -> Self {
        let rows = || blocks.iter().flat_map(|done| &done.run.rows).filter(|row| !row.is_warmup);
        let refused = rows().filter(|row| row.outcome == Outcome::Refused).count();
        let ttft = rows().filter_map(|row| Some(row.ttft()?.0)).collect();
        Self::of(rows().count() as u64, refused as u64, ttft)
    }

    fn simulated(simulated: &Simulated) -> Self {
        Self::of(simulated.offered, simulated.refused, simulated.ttft.clone())
    }
}

fn cell_table(text: &mut String, drill: &Drill, cell: &CellDone) {
    let blocks = counted(cell.rounds as usize, "block");
    let _ = writeln!(text, "{}, {blocks} of each arm\n", cell.cell.title());
    text.push_str(HEAD);
    let bare = |share: f64| percent(share).trim_end_matches(" %").to_owned();
    for ((arm, blocks), simulated) in
        drill.design.arms.iter().zip(&cell.blocks).zip(&cell.simulated)
    {
        let live = Side::live(blocks);
        let other = simulated.as_ref().map(Side::simulated);
        let beside = |of: &dyn Fn(&Side) -> String| other.as_ref().map_or("–".to_owned(), of);
        let _ = write!(
            text,
            "  {:<20} {:>6} {:>6} {:>5} {:>6}",
            arm.name,
            bare(live.completed),
            beside(&|side| bare(side.completed)),
            bare(live.refused),
            beside(&|side| bare(side.refused)),
        );
        for nth in 0..3 {
            let sim = beside(&|side| side.ttft[nth].clone());
            let _ = write!(text, " {:>7} {sim:>7} ", live.ttft[nth]);
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text.push('\n');
    let Some(comparison) = &cell.comparison else {
        text.push_str("No round is complete, so there is no verdict.\n\n");
        return;
    };
    for (nth, arm) in comparison.arms.iter().enumerate() {
        let tested = if nth + 1 == comparison.arms.len() { " (under test)" } else { "" };
        let _ = writeln!(text, "{:<13} {}{tested}", arm.outcome.0.name(), arm.label);
        wrapped(text, &arm.reason, "              ");
    }
    text.push('\n');
    for said in &comparison.summary {
        wrapped(text, said, "");
    }
    text.push_str(&engaged(drill, cell));
    text.push('\n');
}

/// Whether the policies engaged as the servers say: their refusals against the clients'.
fn engaged(drill: &Drill, cell: &CellDone) -> String {
    let mut text = String::new();
    for (arm, blocks) in drill.design.arms.iter().zip(&cell.blocks) {
        let name = &arm.name;
        let unread = blocks.iter().filter(|done| done.seen.refusals_unreadable).count();
        if unread > 0 {
            let _ = writeln!(
                text,
                "refusals of {name}: its metrics could not be read in {unread} of {}, so no \
                 verdict holds",
                counted(blocks.len(), "block")
            );
            continue;
        }
        let by_server: Option<u64> =
            blocks.iter().map(|done| done.seen.refused_by_server).sum::<Option<u64>>();
        let Some(by_server) = by_server.filter(|_| !blocks.is_empty()) else { continue };
        let seen: u64 = blocks.iter().map(|done| done.seen.refused_by_clients).sum();
        let agreed = blocks.iter().all(|done| done.seen.agrees() != Some(false));
        let word = if agreed { "equal" } else { "NOT EQUAL, so no verdict holds" };
        let _ = writeln!(
            text,
            "refusals of {name}: {by_server} counted by the server, {seen} seen by clients: {word}"
        );
    }
    for (arm, round, note) in cell.deaths(&drill.design) {
        let _ = writeln!(text, "{arm}, round {round}: {note}");
    }
    text
}
