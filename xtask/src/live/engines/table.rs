//! Holds what was measured against the bars, and writes it down.

use std::fmt::Write as _;

use forebay_lab::load::Summary;

use super::{ARMS, Found, Measured, OVERLOAD};
use crate::claims::bar::{Bar, Line, Unit, ratio};
use crate::live::arms::{Arm, HOLD, ROUND_ROBIN, SMG_CACHE_AWARE, VLLM_CACHE_AWARE};

/// A figure of a run.
type Figure = fn(&Summary) -> f64;

/// The figures that are compared, with their names.
const FIGURES: [(&str, Figure); 4] = [
    ("TTFT p50", |summary| secs(summary.ttft_ms.p50.0)),
    ("TTFT mean", |summary| secs(summary.ttft_ms.mean.0)),
    ("TTFT p99", |summary| secs(summary.ttft_ms.p99.0)),
    ("makespan", |summary| summary.makespan_s),
];

/// `hold` over each of these, figure by figure, must be at most so much.
const BARS: [(Arm, [Option<f64>; 4]); 3] = [
    (ROUND_ROBIN, [Some(0.3), Some(0.6), Some(1.0), Some(1.0)]),
    (VLLM_CACHE_AWARE, [Some(0.1), Some(0.5), Some(0.9), None]),
    (SMG_CACHE_AWARE, [Some(0.1), Some(0.5), Some(0.9), None]),
];

/// Seconds of milliseconds; what is none of a served run is infinite.
fn secs(millis: Option<f64>) -> f64 {
    millis.map_or(f64::INFINITY, |millis| millis / 1e3)
}

/// One run in a line.
pub(super) fn told(one: &Measured) -> String {
    let Summary { offered, completed, refused, failed, ref lag_ms, .. } = one.summary;
    let mut told = format!(
        "{}, seed {}: {completed} of {offered} completed, {refused} refused, {failed} failed",
        one.arm.name, one.seed
    );
    for (name, figure) in FIGURES {
        let _ = write!(told, ", {name} {:.2} s", figure(&one.summary));
    }
    let cached = one.summary.cached_share.map_or(f64::NAN, |share| share * 100.0);
    let lag = lag_ms.p99.0.unwrap_or(f64::NAN);
    let _ = write!(
        told,
        ", {:.0} preemptions, {cached:.0} % cached, own lag p99 {lag:.0} ms",
        one.preemptions
    );
    told
}

/// Every bar that can be held against what was run.
pub(super) fn lines(found: &Found) -> Vec<Line> {
    let hold: Vec<&Measured> = of(found, HOLD).collect();
    let mut lines = Vec::new();
    if hold.is_empty() {
        return lines;
    }
    let seed = |one: &Measured| format!("seed {}", one.seed);
    let served = |one: &&Measured| {
        let Summary { offered, completed, .. } = one.summary;
        (seed(one), completed as f64 / offered as f64)
    };
    let shares: Vec<_> = hold.iter().map(served).collect();
    let what = "completed by `forebay hold`".to_owned();
    lines.push(Line::of(what, Unit::Share, &shares, Bar::AtLeast(1.0)));
    for (other, bars) in BARS {
        for ((name, figure), bar) in FIGURES.into_iter().zip(bars) {
            let Some(bar) = bar else { continue };
            let of_seed = |one: &Measured| {
                let base = of(found, other).find(|base| base.seed == one.seed)?;
                Some((seed(one), ratio(figure(&one.summary), figure(&base.summary))))
            };
            let ratios: Vec<_> = hold.iter().filter_map(|one| of_seed(one)).collect();
            if !ratios.is_empty() {
                let what = format!("{name} over that of `{}`", other.name);
                lines.push(Line::of(what, Unit::Times, &ratios, Bar::AtMost(bar)));
            }
        }
    }
    lines
}

fn of(found: &Found, arm: Arm) -> impl Iterator<Item = &Measured> {
    let mut of_arm: Vec<&Measured> = found.measured.iter().filter(|one| one.arm == arm).collect();
    of_arm.sort_by_key(|one| one.seed);
    of_arm.into_iter()
}

/// The section of the page.
pub(super) fn section(found: &Found, lines: &[Line]) -> String {
    let how = if found.is_given { "given as" } else { "measured as" };
    let place = if found.is_apart { "each on a CPU of its own" } else { "which share its CPUs" };
    let mut text = format!(
        "Two vLLM 0.32 workers on one machine, {place}, with 8,192 KV tokens each and a tiny \
         model; {} requests a\nrun at {:.1} a second, {OVERLOAD} × the capacity, {how} {:.1} a \
         second. Bursts of 8; 40 % share 768 tokens, 17 % share 320,\nthe rest are chats. Every \
         arm in turn, caches emptied between; the figures of the seeds stand side by side.\n\
         Latencies are over all offered, and count from when a request was due.\n\n```sh\ncargo \
         xtask engines --write\n```\n\n| | completed | TTFT p50 | mean | p99 | makespan | \
         preemptions |\n|---|---|---|---|---|---|---|\n",
        found.requests, found.rate, found.capacity
    );
    for arm in ARMS.into_iter().filter(|arm| of(found, *arm).next().is_some()) {
        let joined = |show: &dyn Fn(&Measured) -> String| {
            of(found, arm).map(show).collect::<Vec<_>>().join(" / ")
        };
        let completed = joined(&|one| one.summary.completed.to_string());
        let _ = write!(text, "| {} | {completed} |", arm.name);
        for (_, figure) in FIGURES {
            let _ = write!(text, " {} s |", joined(&|one| format!("{:.2}", figure(&one.summary))));
        }
        let _ = writeln!(text, " {} |", joined(&|one| format!("{:.0}", one.preemptions)));
    }
    if !lines.is_empty() {
        text += "\n| `forebay hold` | measured | bar | |\n|---|---|---|---|\n";
    }
    for line in lines {
        let verdict = if line.held { "held" } else { "**short**" };
        let _ = writeln!(text, "| {} | {} | {} | {verdict} |", line.what, line.figure, line.bar);
    }
    for name in &found.skipped {
        let _ = writeln!(text, "\nNot run: `{name}`.");
    }
    text
}

#[cfg(test)]
mod tests {
    use forebay_core::Span;
    use forebay_lab::load::Tally;

    use super::{HOLD, ROUND_ROBIN, lines, section};
    use crate::live::arms::Arm;
    use crate::live::engines::{Found, Measured};

    fn measured(arm: Arm, seed: u64) -> Measured {
        let summary = Tally::default().summary();
        let mut one = Measured { arm, seed, summary, preemptions: 2.0 };
        one.summary.offered = 10;
        one.summary.completed = 10;
        one.summary.makespan_s = Span::secs(3).as_secs_f64();
        one
    }

    fn found(measured: Vec<Measured>) -> Found {
        let skipped = vec!["smg".to_owned()];
        Found {
            capacity: 10.0,
            is_given: false,
            is_apart: true,
            rate: 12.0,
            requests: 10,
            measured,
            skipped,
        }
    }

    #[test]
    fn what_is_infinite_holds_no_bar_and_what_was_not_run_has_none() {
        let both = found(vec![measured(ROUND_ROBIN, 1), measured(HOLD, 1)]);
        let held: Vec<_> = lines(&both).into_iter().map(|line| line.held).collect();
        assert_eq!(held, [true, false, false, false, true]);
        assert_eq!(lines(&found(vec![measured(ROUND_ROBIN, 1)])), []);
        assert_eq!(lines(&found(vec![measured(HOLD, 1), measured(ROUND_ROBIN, 2)])).len(), 1);
    }

    #[test]
    fn the_seeds_stand_side_by_side_in_their_order() {
        let all = found(vec![measured(HOLD, 2), measured(HOLD, 1)]);
        let text = section(&all, &lines(&all));
        assert!(text.contains("| forebay hold | 10 / 10 | inf / inf s |"), "{text}");
        assert!(text.contains("| 3.00 / 3.00 s | 2 / 2 |") && text.contains("Not run: `smg`."));
    }
}
