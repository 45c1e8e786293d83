//! Holds what was measured against the bars, and writes it down.

use std::fmt::Write as _;

use super::bodies::TITLES;
use super::printed::{Cost, Printed};
use super::steady::Latencies;
use super::{ARMS, CACHE_AWARE_PEERS, Found, HOLD, Measured, ROUND_ROBIN_PEERS};
use crate::claims::bar::{Bar, Line, Unit};
use crate::live::arms::Arm;

/// CPU of `hold` over the best of the routers that only pass requests around.
const OVER_ROUND_ROBIN: f64 = 0.8;
/// CPU of `hold` over the best of those that know prefixes.
const OVER_CACHE_AWARE: f64 = 0.4;
/// The least that a router can be measured to add, in milliseconds: what is less is noise.
const ADDED_MIN: f64 = 0.001;

/// What the script found of one arm, in a few lines.
pub(super) fn told(arm: Arm, printed: &Printed) -> Vec<String> {
    let mut told = vec![format!("{}: {:.0} MB resident", arm.name, printed.resident_kb / 1e3)];
    for (title, cost) in TITLES.iter().zip(&printed.costs) {
        let Cost { rate, cpu_us, latency_ms: [p50, p99, p50_alone, p99_alone], errors } = cost;
        told.push(format!(
            "  {title:<13} {cpu_us:6.0} µs CPU, {rate:6.0} requests/s, 16 connections p50 \
             {p50:.2} p99 {p99:.2} ms, 1 connection p50 {p50_alone:.2} p99 {p99_alone:.2} ms, \
             {errors} errors"
        ));
    }
    told
}

/// Every bar that can be held against what was run.
pub(super) fn lines(found: &Found) -> Vec<Line> {
    let Some(hold) = of(found, HOLD) else { return Vec::new() };
    let cpu = |one: &Measured, kind: usize| one.printed.costs[kind].cpu_us;
    let added = |one: &Measured, kind: usize| {
        (one.steady[kind].p99 - found.direct[kind].p99).max(ADDED_MIN)
    };
    let mut lines = Vec::new();
    let mut compare = |what: &str, peers: &[Arm], bar, figure: &dyn Fn(&Measured, usize) -> f64| {
        let peers: Vec<&Measured> = peers.iter().filter_map(|peer| of(found, *peer)).collect();
        if peers.is_empty() {
            return;
        }
        let ratio = |(kind, title): (usize, &&str)| {
            let best = peers.iter().map(|peer| figure(peer, kind)).fold(f64::INFINITY, f64::min);
            ((*title).to_owned(), figure(hold, kind) / best)
        };
        let ratios: Vec<_> = TITLES.iter().enumerate().map(ratio).collect();
        lines.push(Line::of(what.to_owned(), Unit::Times, &ratios, Bar::AtMost(bar)));
    };
    let round_robin = "CPU a request over the best peer's in round-robin";
    compare(round_robin, &ROUND_ROBIN_PEERS, OVER_ROUND_ROBIN, &cpu);
    let cache_aware = "CPU a request over the best cache-aware peer's";
    compare(cache_aware, &CACHE_AWARE_PEERS, OVER_CACHE_AWARE, &cpu);
    let all = [&ROUND_ROBIN_PEERS[..], &CACHE_AWARE_PEERS].concat();
    compare("added p99 at the same rate over the best peer's", &all, 1.0, &added);
    lines
}

fn of(found: &Found, arm: Arm) -> Option<&Measured> {
    found.measured.iter().find(|one| one.arm == arm)
}

/// The section of the page.
pub(super) fn section(found: &Found, lines: &[Line]) -> String {
    let mut text = "Each router in front of the same two servers that answer at once, on one \
                    machine, one after another. Half of the\nbodies share three quarters of \
                    their text. A stream has 16 pieces.\n\n```sh\ncargo xtask overhead \
                    --write\n```\n\n"
        .to_owned();
    table(
        &mut text,
        found,
        "CPU of the router, µs a request (16 connections, as fast as it goes)",
        |one, kind| {
            let Cost { cpu_us, errors, .. } = one.printed.costs[kind];
            if errors > 0.0 {
                format!("{cpu_us:.0} ({errors} errors)")
            } else {
                format!("{cpu_us:.0}")
            }
        },
    );
    table(&mut text, found, "Latency at 16 connections, p50 / p99 in ms", |one, kind| {
        let [p50, p99, ..] = one.printed.costs[kind].latency_ms;
        format!("{p50:.2} / {p99:.2}")
    });
    table(&mut text, found, "Latency at 1 connection, p50 / p99 in ms", |one, kind| {
        let [.., p50, p99] = one.printed.costs[kind].latency_ms;
        format!("{p50:.2} / {p99:.2}")
    });
    table(&mut text, found, "Latency added at 150 requests/s, p50 / p99 in ms", |one, kind| {
        let (with, without) = (one.steady[kind], found.direct[kind]);
        format!("{:.2} / {:.2}", with.p50 - without.p50, with.p99 - without.p99)
    });
    direct(&mut text, &found.direct);
    let resident = found
        .measured
        .iter()
        .map(|one| format!("{} {:.0} MB", one.arm.name, one.printed.resident_kb / 1e3));
    let _ = writeln!(text, "\nResident memory: {}.", resident.collect::<Vec<_>>().join(", "));
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

fn table(text: &mut String, found: &Found, title: &str, cell: impl Fn(&Measured, usize) -> String) {
    let _ = write!(text, "\n| {title} |");
    for kind in TITLES {
        let _ = write!(text, " {kind} |");
    }
    text.push_str("\n|---|---|---|---|---|---|---|\n");
    for one in ARMS.into_iter().filter_map(|arm| of(found, arm)) {
        let _ = write!(text, "| {} |", one.arm.name);
        for kind in 0..TITLES.len() {
            let _ = write!(text, " {} |", cell(one, kind));
        }
        text.push('\n');
    }
}

fn direct(text: &mut String, direct: &[Latencies]) {
    let shown = direct.iter().map(|it| format!("{:.2} / {:.2}", it.p50, it.p99));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let _ = writeln!(text, "\nThe servers themselves, in the order of the columns: {shown} ms.");
}

#[cfg(test)]
mod tests {
    use super::{HOLD, lines, section};
    use crate::live::arms::{Arm, SMG_CACHE_AWARE, VLLM_CACHE_AWARE, VLLM_ROUND_ROBIN};
    use crate::live::overhead::printed::{Cost, Printed};
    use crate::live::overhead::steady::Latencies;
    use crate::live::overhead::{Found, Measured};

    fn measured(arm: Arm, cpu_us: f64, p99: f64) -> Measured {
        let cost = Cost { rate: 1.0, cpu_us, latency_ms: [1.0; 4], errors: 0.0 };
        let printed = Printed { costs: vec![cost; 6], resident_kb: 20_000.0 };
        Measured { arm, printed, steady: vec![Latencies { p50: 1.0, p99 }; 6] }
    }

    fn found(measured: Vec<Measured>) -> Found {
        let direct = vec![Latencies { p50: 0.5, p99: 1.0 }; 6];
        Found { measured, direct, skipped: Vec::new() }
    }

    #[test]
    fn the_best_peer_of_each_kind_is_the_measure() {
        let peers =
            [(VLLM_ROUND_ROBIN, 100.0), (VLLM_CACHE_AWARE, 300.0), (SMG_CACHE_AWARE, 210.0)];
        let mut all: Vec<_> = peers.map(|(arm, cpu)| measured(arm, cpu, 2.0)).into();
        all.push(measured(HOLD, 80.0, 2.1));
        let held: Vec<_> = lines(&found(all)).iter().map(ToString::to_string).collect();
        assert_eq!(held.len(), 3);
        assert!(held[0].starts_with("held") && held[0].contains("0.800 × in all 6"), "{held:?}");
        assert!(held[1].starts_with("held") && held[1].contains("0.381 × in all 6"), "{held:?}");
        assert!(held[2].starts_with("short") && held[2].contains("1.100 × in all 6"), "{held:?}");
    }

    #[test]
    fn what_was_not_run_has_no_bar() {
        assert_eq!(lines(&found(vec![measured(VLLM_ROUND_ROBIN, 1.0, 1.0)])), []);
        assert_eq!(lines(&found(vec![measured(HOLD, 1.0, 1.0)])), []);
        let text = section(&found(vec![measured(HOLD, 80.0, 2.1)]), &[]);
        assert!(text.contains("| forebay hold | 80 | 80 | 80 | 80 | 80 | 80 |"), "{text}");
    }
}
