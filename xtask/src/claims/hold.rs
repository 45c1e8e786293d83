//! Holds `hold` against the other modes, on the same requests.

use super::bar::{Bar, Unit};
use super::compare::{Pair, all_completed, each, excesses, figures};
use super::sheet::{Arm, Samples, Sheet};

const P50: &str = "ttft_ms.p50";
const MEAN: &str = "ttft_ms.mean";
const P99: &str = "ttft_ms.p99";
const MAX: &str = "ttft_ms.max";

/// `hold` against the best that push to workers.
pub(super) fn tuned_rivals(sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let below = Bar::Below(1.0);
    let all = [("TTFT mean", MEAN), ("TTFT p50", P50), ("TTFT p99", P99), ("TTFT max", MAX)];
    rival(sheet, 2, "kv:dynamo-1.2-wspt", &all.map(|(title, path)| (title, path, below)))?;
    let near = Bar::AtMost(1.05);
    for workers in [4, 8] {
        rival(sheet, workers, "least-work", &[("TTFT mean", MEAN, near), ("TTFT p50", P50, near)])?;
    }
    Ok(())
}

fn rival(
    sheet: &mut Sheet<'_>,
    workers: u32,
    mode: &str,
    bars: &[(&str, &str, Bar)],
) -> anyhow::Result<()> {
    let held = held(sheet, workers, "")?;
    let base = sheet.everywhere(&Arm { workers, mode, flags: "" })?;
    Pair { at: &format!("N={workers}"), samples: &held, base: (mode, &base) }.hold(sheet, bars)
}

/// `hold` at 1.6 × capacity, on the evidence's engine and on one ten times as fast.
pub(super) fn overload(sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    // The slice itself is about 1.19 × the capacity of two workers: 1.6 over 1.19 is 1.34.
    let engines = [("a100-40gb/qwen3-8b", "1.34"), ("tenth/qwen3-8b", "13.4")];
    for (engine, scale) in engines {
        let flags = format!("--engine {engine} --scale {scale}");
        let held = held(sheet, 2, &flags)?;
        let base = sheet.everywhere(&Arm { workers: 2, mode: "round-robin", flags: &flags })?;
        all_completed(sheet, engine, &held)?;
        Pair { at: engine, samples: &held, base: ("round-robin", &base) }.hold(
            sheet,
            &[
                ("TTFT p50", P50, Bar::AtMost(0.15)),
                ("TTFT mean", MEAN, Bar::AtMost(0.30)),
                ("TTFT p99", P99, Bar::AtMost(0.75)),
                ("TTFT max", MAX, Bar::AtMost(0.90)),
            ],
        )?;
        let beyond = figures(&held, "waited_beyond_promise_share")?;
        let what = format!("{engine}, waited more than twice the predicted first-come wait");
        sheet.bar(what, Unit::Share, &beyond, Bar::AtMost(0.01));
    }
    Ok(())
}

/// `hold` at the two workers where the published kv router refused one request in seven.
pub(super) fn evidence(sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let held = held(sheet, 2, "")?;
    let base = sheet.everywhere(&Arm { workers: 2, mode: "round-robin", flags: "" })?;
    let kv = sheet.everywhere(&Arm { workers: 2, mode: "kv:dynamo-1.2", flags: "" })?;
    all_completed(sheet, "N=2", &held)?;
    sheet.bar("N=2, refused", Unit::Count, &figures(&held, "refused")?, Bar::AtMost(0.0));
    Pair { at: "N=2", samples: &held, base: ("round-robin", &base) }.hold(
        sheet,
        &[
            ("TTFT p50", P50, Bar::AtMost(0.10)),
            ("TTFT mean", MEAN, Bar::AtMost(0.20)),
            ("TTFT p99", P99, Bar::AtMost(0.65)),
            ("TTFT max", MAX, Bar::AtMost(0.85)),
            ("makespan", "makespan_s", Bar::AtMost(0.92)),
        ],
    )?;
    sheet.bar("N=2, TTFT p50", Unit::Millis, &figures(&held, P50)?, Bar::AtMost(2_600.0));
    sheet.bar("N=2, TTFT mean", Unit::Millis, &figures(&held, MEAN)?, Bar::AtMost(4_500.0));
    let near = [("TTFT p50 over all offered", P50, Bar::AtMost(1.15))];
    Pair { at: "N=2", samples: &held, base: ("kv:dynamo-1.2", &kv) }.hold(sheet, &near)?;
    let infinite = each(&held, super::run::Run::infinite_len)?;
    sheet.bar("N=2, figures that are infinite", Unit::Count, &infinite, Bar::AtMost(0.0));
    let preempted = excesses(&held, &base, "preemptions")?;
    sheet.bar("N=2, preemptions less round-robin's", Unit::Count, &preempted, Bar::Below(0.0));
    Ok(())
}

/// `hold` where there is room for everything.
pub(super) fn headroom(sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let same = Bar::AtMost(1.0);
    for workers in [4, 8] {
        let held = held(sheet, workers, "")?;
        let base = sheet.everywhere(&Arm { workers, mode: "round-robin", flags: "" })?;
        let kv = sheet.everywhere(&Arm { workers, mode: "kv:dynamo-1.2", flags: "" })?;
        let at = &format!("N={workers}");
        Pair { at, samples: &held, base: ("round-robin", &base) }.hold(
            sheet,
            &[
                ("TTFT mean", MEAN, same),
                ("TTFT p50", P50, same),
                ("e2e mean", "e2e_ms.mean", same),
                ("ITL mean", "itl_ms.mean", Bar::AtMost(1.20)),
            ],
        )?;
        let bars = [("TTFT mean", MEAN, same), ("TTFT p50", P50, same)];
        Pair { at, samples: &held, base: ("kv:dynamo-1.2", &kv) }.hold(sheet, &bars)?;
    }
    Ok(())
}

/// `hold` that guesses, measures or is told wrong.
pub(super) fn misinformed(sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let base = sheet.everywhere(&Arm { workers: 2, mode: "round-robin", flags: "" })?;
    for flags in [
        "--expected-output 0",
        "--expected-output 1000",
        "--capacity-error 10",
        "--capacity-error -10",
        "--knowledge own",
    ] {
        let held = held(sheet, 2, flags)?;
        let at = flags.trim_start_matches("--");
        all_completed(sheet, at, &held)?;
        Pair { at, samples: &held, base: ("round-robin", &base) }
            .hold(sheet, &[("TTFT p50", P50, Bar::AtMost(0.2))])?;
    }
    Ok(())
}

fn held(sheet: &mut Sheet<'_>, workers: u32, flags: &str) -> anyhow::Result<Samples> {
    sheet.everywhere(&Arm { workers, mode: "hold", flags })
}
