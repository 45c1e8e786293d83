//! Runs the claims of what Forebay must show, and prints every figure against its bar.
//!
//! A claim runs the release binary as a user would, computes its figures from what it prints, and
//! holds each against a bar that was set before. A bar is held where the worst run holds it. Exit
//! codes: 0 all held, 1 one fell short, 3 none did, but something could not be run.

mod asked;
pub(crate) mod bar;
mod compare;
mod cost;
mod hold;
mod lab;
mod page;
mod published;
mod repeat;
mod run;
mod sharing;
mod sheet;

use std::io::{Write, stdout};
use std::process::ExitCode;

use anyhow::Context;

use self::asked::Asked;
use self::bar::Line;
use self::lab::Lab;
use self::sheet::Sheet;
use crate::say::say;
use crate::workspace::Workspace;

/// The page of results.
const PAGE: &str = "docs/results.md";

/// Something that Forebay must show.
pub(crate) struct Claim {
    name: &'static str,
    /// The claim in words.
    says: &'static str,
    /// It runs for minutes, and only when it is asked for.
    is_slow: bool,
    check: fn(&mut Sheet<'_>) -> anyhow::Result<()>,
}

const fn claim(
    name: &'static str,
    says: &'static str,
    check: fn(&mut Sheet<'_>) -> anyhow::Result<()>,
) -> Claim {
    Claim { name, says, is_slow: false, check }
}

/// All claims.
static CLAIMS: [Claim; 13] = [
    claim("engine", "the modelled engine is as fast as the published one", published::engine),
    claim("refuses", "the modelled kv router refuses where the real one did", published::refuses),
    claim("rivals", "`hold` beats the best that push to workers", hold::tuned_rivals),
    claim("overload", "`hold` serves all at 1.6 × capacity, on two scales", hold::overload),
    claim("evidence", "`hold` serves all where the kv router refused 14 %", hold::evidence),
    claim("headroom", "`hold` costs nothing where there is room", hold::headroom),
    claim("misinformed", "`hold` serves all when it guesses wrong", hold::misinformed),
    claim("classes", "one class queues, the other is shed and told when", sharing::classes),
    claim("tenants", "a tenant that floods waits behind itself", sharing::tenants),
    claim(
        "conversation",
        "an hour of a real trace is simulated within two seconds",
        cost::conversation,
    ),
    Claim {
        is_slow: true,
        ..claim(
            "million",
            "so is a million requests on 1,000 workers within two minutes",
            cost::million,
        )
    },
    claim("decision", "a decision takes 50 µs at any size", cost::decision),
    claim("same-bytes", "the same command gives the same bytes", repeat::same_bytes),
];

/// What a claim's runs gave.
struct Found {
    claim: &'static Claim,
    lines: Vec<Line>,
    commands: Vec<String>,
    skipped: Vec<String>,
}

/// Runs the claims that the words name, or all but the slow ones.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> anyhow::Result<ExitCode> {
    let asked = Asked::read(words)?;
    let lab = Lab::build(workspace)?;
    let mut found = Vec::new();
    for claim in &asked.claims {
        say(&format!("== {}", claim.name));
        let mut sheet = Sheet::new(&lab, asked.seeds);
        (claim.check)(&mut sheet).with_context(|| format!("claim {}", claim.name))?;
        let Sheet { lines, commands, skipped, .. } = sheet;
        let one = Found { claim, lines, commands, skipped };
        print(&one)?;
        found.push(one);
    }
    writeln!(stdout(), "{}", summary(&found))?;
    if asked.write {
        let old = workspace.read(PAGE).unwrap_or_default();
        workspace.write(PAGE, &(page::page(&found) + page::kept(&old)))?;
        say(&format!("wrote {PAGE}"));
    }
    Ok(ExitCode::from(code(&found)))
}

fn print(found: &Found) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{}: {}", found.claim.name, found.claim.says)?;
    for line in &found.lines {
        writeln!(out, "  {line}")?;
    }
    for what in &found.skipped {
        writeln!(out, "  skipped {what}")?;
    }
    for command in &found.commands {
        writeln!(out, "  $ {command}")?;
    }
    Ok(())
}

fn summary(found: &[Found]) -> String {
    let lines = || found.iter().flat_map(|one| &one.lines);
    let held = lines().filter(|line| line.held).count();
    let names = |is: fn(&Found) -> bool| {
        let names: Vec<&str> =
            found.iter().filter(|one| is(one)).map(|one| one.claim.name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    format!(
        "{held} of {} bars held; short: {}; skipped in part: {}",
        lines().count(),
        names(is_short),
        names(|one| !one.skipped.is_empty())
    )
}

fn is_short(found: &Found) -> bool {
    found.lines.iter().any(|line| !line.held)
}

fn code(found: &[Found]) -> u8 {
    match (found.iter().any(is_short), found.iter().any(|one| !one.skipped.is_empty())) {
        (true, _) => 1,
        (false, true) => 3,
        (false, false) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::bar::{Bar, Line, Unit};
    use super::{CLAIMS, Found, code, summary};

    fn found(values: &[f64], skipped: &[&str]) -> Found {
        let line = |value: &f64| {
            let values = [(String::new(), *value)];
            Line::of("x".to_owned(), Unit::Times, &values, Bar::AtMost(1.0))
        };
        Found {
            claim: &CLAIMS[0],
            lines: values.iter().map(line).collect(),
            commands: Vec::new(),
            skipped: skipped.iter().map(|&what| what.to_owned()).collect(),
        }
    }

    #[test]
    fn what_falls_short_outweighs_what_was_skipped() {
        assert_eq!(code(&[found(&[0.5], &[]), found(&[1.0], &[])]), 0);
        assert_eq!(code(&[found(&[0.5], &[]), found(&[], &["no trace"])]), 3);
        assert_eq!(code(&[found(&[0.5, 1.5], &[]), found(&[], &["no trace"])]), 1);
    }

    #[test]
    fn the_summary_counts_bars_and_names_claims() {
        let all = [found(&[0.5, 1.5], &[]), found(&[0.5], &["no trace"])];
        assert_eq!(summary(&all), "2 of 3 bars held; short: engine; skipped in part: engine");
    }
}
