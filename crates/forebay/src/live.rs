//! Holds a drill on live endpoints: `forebay drill --live`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use forebay_lab::live::{self, Design, Event, block, table};
use forebay_lab::results::Outcome;
use tokio::signal::unix::{SignalKind, signal};

use crate::talk::{print, say};

/// Where runs go if nothing else is said.
pub(crate) const OUT: &str = "forebay-drill";

/// Reads the file, holds the drill, prints what came of it, and answers with the verdict on the arm
/// under test.
pub(crate) fn run(
    file: &Path,
    out: &Path,
    check_only: bool,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let design = Design::load(file)?;
    if check_only {
        print(&design.shown())?;
        return Ok(ExitCode::SUCCESS);
    }
    design.check(out)?;
    say(&design.shown());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let drill = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("SIGTERM can't be awaited")?;
        let stop = async {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        };
        anyhow::Ok(live::hold(design, out, tell, stop).await?)
    })?;
    if as_json {
        print(&drill.json())?;
    } else {
        print(&table::render(&drill))?;
    }
    say(&format!("runs: {}", out.display()));
    say(&format!("repeat: forebay drill --live {} --out NEW-FOLDER", file.display()));
    Ok(ExitCode::from(drill.exit_code()))
}

fn tell(event: Event<'_>) {
    match event {
        Event::Begins { .. } => {}
        Event::Ended { cell, round, arm, done } => {
            let figures = told(done);
            say(&format!("{}, round {}, {arm}: {figures}", cell.title(), round + 1));
        }
        Event::Settled { cell, rounds } => {
            say(&format!("{}: settled after {rounds} rounds", cell.title()));
        }
    }
}

/// A block in half a line.
fn told(done: &block::Done) -> String {
    let rows = &done.run.rows;
    let of = |outcome| rows.iter().filter(|row| row.outcome == outcome).count();
    let mut text = format!("{} of {} completed", of(Outcome::Completed), rows.len());
    for outcome in Outcome::ALL.into_iter().skip(1) {
        let count = of(outcome);
        if count > 0 {
            let _ = write!(text, ", {count} {}", outcome.name().replace('_', " "));
        }
    }
    for invalid in &done.run.about.invalid {
        let _ = write!(text, "; INVALID: {}", invalid.what);
    }
    text
}
