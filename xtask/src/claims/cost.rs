//! Holds what a run and a decision cost against their bars.
//!
//! Times and memory are the machine's as much as ours. Each is the best of a few, since a busy
//! machine only ever adds.

use anyhow::Context;
use forebay_lab::trace::synth::Description;

use super::bar::{Bar, Unit, ratio};
use super::lab::{Cost, Lab};
use super::run::Run;
use super::sheet::{Sheet, split};

/// Tries of what is quick.
const TRIES: usize = 3;
/// Decisions that are timed.
const DECISIONS: u32 = 5_000;

/// A real trace of an hour.
pub(super) fn conversation(sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let name = "mooncake-conversation.jsonl";
    if !sheet.has_shared(name) {
        return Ok(());
    }
    let words = |trace: &str| format!("simulate --trace {trace} --workers 8 --mode hold --json");
    sheet.note(format!("forebay {}", words(&Lab::shown(name))));
    taken(sheet, &words(&Lab::shared(name)), TRIES, (2.0, 300e6)).map(|_| ())
}

/// A million requests on a thousand workers.
pub(super) fn million(sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let rate = Description::find("evidence")?.arrivals_per_s();
    let scale = 1.1 * 1_000.0 / rate;
    let words = format!(
        "simulate --synth evidence --requests 1000000 --scale {scale:.4} --workers 1000 \
         --mode hold --json"
    );
    sheet.note(format!("forebay {words}"));
    let run = taken(sheet, &words, 1, (120.0, 4e9))?;
    let queue = run.figure("queue_len_max_seen")?;
    sheet.single("most requests that waited", Unit::Count, queue, Bar::Below(1_000.0));
    Ok(())
}

/// Runs the program, and holds the least it took against the bars: seconds and bytes.
fn taken(
    sheet: &mut Sheet<'_>,
    words: &str,
    tries: usize,
    bars: (f64, f64),
) -> anyhow::Result<Run> {
    let mut costs: Vec<Cost> = Vec::new();
    let mut last = None;
    for _ in 0..tries {
        let (run, cost) = sheet.lab.costed(&split(words))?;
        costs.push(cost);
        last = Some(run);
    }
    let wall = costs.iter().map(|cost| cost.wall.as_secs_f64()).fold(f64::INFINITY, f64::min);
    let best = if tries == 1 { String::new() } else { format!(", best of {tries}") };
    let what = format!("wall time{best}");
    sheet.single(what, Unit::Wall, wall * 1e3, Bar::Below(bars.0 * 1e3));
    // The most of all tries: memory does not depend on how busy the machine is.
    match costs.iter().filter_map(|cost| cost.peak).max_by(f64::total_cmp) {
        Some(peak) => sheet.single("peak memory", Unit::Bytes, peak, Bar::Below(bars.1)),
        None => sheet.skip("peak memory: this system does not tell it in /proc".to_owned()),
    }
    last.context("no try was made")
}

/// One decision on a full fleet with a long queue.
pub(super) fn decision(sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let mut best = |workers: u32, waiting: u32| -> anyhow::Result<f64> {
        let words = format!("{workers} {waiting} {DECISIONS}");
        sheet.note(format!("target/release/examples/decision {words}"));
        let mut least = f64::INFINITY;
        for _ in 0..TRIES {
            least = least.min(median(&sheet.lab.example("decision", &split(&words))?)?);
        }
        Ok(least)
    };
    let (many, few) = (best(1_000, 10_000)?, best(100, 1_000)?);
    let what = format!("1,000 workers, 10,000 waiting: sum of medians, best of {TRIES}");
    sheet.single(what, Unit::Micros, many, Bar::AtMost(50.0));
    sheet.single(
        "that over 100 workers, 1,000 waiting",
        Unit::Times,
        ratio(many, few),
        Bar::AtMost(3.0),
    );
    Ok(())
}

/// The time of a decision in microseconds: the medians of all inputs that one served request costs,
/// summed.
fn median(printed: &str) -> anyhow::Result<f64> {
    let of = |input: &str| -> Option<f64> {
        let line = printed.lines().find_map(|line| line.strip_prefix(input))?;
        let (_, time) = line.split_once("median ")?;
        time.split_once(" µs")?.0.parse().ok()
    };
    let medians = ["arrival:", "end:", "first token:"].into_iter().map(of);
    medians.sum::<Option<f64>>().context("the example printed no median of some input")
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn a_decision_costs_all_its_inputs() {
        let printed = "arrival: 5 inputs, median 10.5 µs, p99 20.0 µs\n\
                       end: 5 inputs, median 4.0 µs, p99 9.0 µs\n\
                       first token: 5 inputs, median 1.5 µs, p99 2.0 µs\n";
        assert!((median(printed).unwrap() - 16.0).abs() < 1e-9);
        assert!(median("arrival: 5 inputs, median 10.5 µs, p99 20.0 µs\n").is_err());
    }
}
