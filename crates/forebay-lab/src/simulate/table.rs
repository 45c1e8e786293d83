//! Lays a summary out for a person, within 100 columns.

use std::fmt::Write;

use indexmap::IndexMap;

use super::figures::{Latency, Millis, Ratio};
use super::summary::{Group, Summary};

/// Longest name of a class or tenant that is shown whole.
const NAME_MAX: usize = 20;
/// Tenants shown: with more of them, those with the most requests.
const TENANTS_MAX: usize = 12;

/// The summary as a table of at most 100 columns, with a line break at its end.
pub fn table(summary: &Summary) -> String {
    let mut text = String::new();
    write_table(&mut text, summary).expect("a string takes any text");
    text
}

fn write_table(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let Summary { trace, mode, workers, seed, engine, all, .. } = summary;
    let trace = shortened(trace, 40);
    writeln!(out, "{trace}: {mode} on {workers} × {engine}, seed {seed}")?;
    write!(out, "  offered {}  completed {}", all.offered, counted(all.completed, all))?;
    write!(out, "  refused {}", counted(all.refused, all))?;
    writeln!(out, "  abandoned {}  failed {}", all.abandoned, all.failed)?;
    if !all.refused_by.is_empty() {
        let reasons = all.refused_by.iter().map(|(reason, count)| format!("{reason} {count}"));
        writeln!(out, "  refused by  {}", reasons.collect::<Vec<_>>().join("  "))?;
    }
    writeln!(out)?;
    write!(out, "  {:<22}", "")?;
    for title in ["mean", "p50", "p75", "p90", "p99", "max"] {
        write!(out, "{title:>11}")?;
    }
    writeln!(out)?;
    let only = &all.completed_only;
    let is_partial = all.completed < all.offered;
    for (title, offered, completed) in [
        ("TTFT", &all.ttft_ms, &only.ttft_ms),
        ("ITL", &all.itl_ms, &only.itl_ms),
        ("whole latency", &all.e2e_ms, &only.e2e_ms),
        ("queue", &all.queue_ms, &only.queue_ms),
    ] {
        latency(out, title, offered)?;
        if is_partial {
            latency(out, "  of the completed", completed)?;
        }
    }
    writeln!(out)?;
    write!(out, "  makespan {} s", decimals(all.makespan_s.0, 1))?;
    write!(out, "  output {} tokens/s", decimals(all.output_tokens_per_s.0, 1))?;
    write!(out, "  prefix hits {}", percent(all.prefix_hit_share))?;
    writeln!(out, "  preemptions {}", all.preemptions)?;
    write!(out, "  goodput {}", percent(all.goodput_share))?;
    write!(out, "  beyond 2 × predicted wait {}", percent(all.waited_beyond_promise_share))?;
    writeln!(out, "  attempts a request {}", decimals(all.amplification.0, 2))?;
    promises(out, all)?;
    groups(out, "class", &summary.classes, summary.classes.len())?;
    groups(out, "tenant", &summary.tenants, TENANTS_MAX)
}

fn latency(out: &mut String, title: &str, latency: &Latency) -> std::fmt::Result {
    write!(out, "  {title:<22}")?;
    for value in latency.columns() {
        write!(out, "{:>11}", duration(value))?;
    }
    writeln!(out)
}

fn promises(out: &mut String, all: &Group) -> std::fmt::Result {
    let promises = &all.promises;
    if promises.given == 0 {
        return Ok(());
    }
    write!(out, "  Retry-After sent {}, cut by the cap {}", promises.given, promises.cut_by_cap)?;
    write!(out, "; of {} that came back when told", promises.followed)?;
    writeln!(out, " {} were served ({})", promises.kept, percent(promises.kept_share))
}

/// One line for each of several groups. A single one says nothing that the whole doesn't.
fn groups(
    out: &mut String,
    title: &str,
    groups: &IndexMap<String, Group>,
    shown_max: usize,
) -> std::fmt::Result {
    if groups.len() < 2 {
        return Ok(());
    }
    let mut shown: Vec<(&String, &Group)> = groups.iter().collect();
    if shown.len() > shown_max {
        // The sort is stable: equal counts stay in the order of the file.
        shown.sort_by_key(|(_, group)| std::cmp::Reverse(group.offered));
        shown.truncate(shown_max);
    }
    writeln!(out)?;
    write!(out, "  {title:<NAME_MAX$} {:>9} {:>10} {:>8}", "offered", "completed", "refused")?;
    writeln!(out, " {:>10} {:>10} {:>10} {:>10}", "TTFT p50", "p90", "p99", "queue p99")?;
    for (name, group) in &shown {
        let name = shortened(name, NAME_MAX);
        let Group { offered, completed, refused, ttft_ms, queue_ms, .. } = group;
        write!(out, "  {name:<NAME_MAX$} {offered:>9} {completed:>10} {refused:>8}")?;
        for value in [ttft_ms.p50, ttft_ms.p90, ttft_ms.p99, queue_ms.p99] {
            write!(out, " {:>10}", duration(value))?;
        }
        writeln!(out)?;
    }
    match groups.len() - shown.len() {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more, which --json shows"),
    }
}

fn shortened(name: &str, most: usize) -> String {
    // A name from a trace may hold what would break its row.
    let name = name.replace(char::is_control, "\u{fffd}");
    if name.chars().count() <= most {
        return name;
    }
    let kept: String = name.chars().take(most - 1).collect();
    format!("{kept}…")
}

fn counted(count: u64, all: &Group) -> String {
    // What is not all is never rounded up to 100 %.
    match count as f64 / all.offered.max(1) as f64 * 100.0 {
        _ if count == 0 || count == all.offered => count.to_string(),
        share => format!("{count} ({:.2} %)", share.min(99.99)),
    }
}

fn percent(share: Ratio) -> String {
    share.0.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn decimals(value: Option<f64>, places: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.places$}"))
}

/// Milliseconds with about three significant digits.
fn duration(millis: Millis) -> String {
    match millis.0 {
        None => "∞".to_owned(),
        Some(ms) if ms < 99.95 => format!("{ms:.1} ms"),
        Some(ms) if ms < 999.5 => format!("{ms:.0} ms"),
        Some(ms) if ms < 99_950.0 => format!("{:.2} s", ms / 1e3),
        Some(ms) => format!("{:.0} s", ms / 1e3),
    }
}
