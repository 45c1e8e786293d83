//! Holds a drill on live endpoints: `forebay drill --live`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use forebay_lab::drill::stage::Source;
use forebay_lab::live::{self, Design, Event, block, table};
use forebay_lab::report::live::drill as drill_report;
use forebay_lab::report::{Origin, SignOff};
use forebay_lab::results::Outcome;
use tokio::signal::unix::{SignalKind, signal};

use crate::talk::{print, say};

/// Where runs go if nothing else is said.
pub(crate) const OUT: &str = "forebay-drill";

/// Reads the file, holds the drill, prints what came of it, and answers with the verdict on the arm
/// under test.
pub(crate) fn run(
    file: &Path,
    sign_off: Option<&Path>,
    out: &Path,
    check_only: bool,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let mut design = Design::load(file)?;
    if let Some(sign_off) = sign_off {
        design.sign(SignOff::load(sign_off)?)?;
    }
    if check_only {
        print(&design.shown())?;
        return Ok(ExitCode::SUCCESS);
    }
    design.check(out)?;
    let origin = origin(&design, sign_off)?;
    say(&design.shown());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let drill = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("SIGTERM can't be awaited")?;
        // A terminal that is closed must not leave engines behind.
        let mut hangup = signal(SignalKind::hangup()).context("SIGHUP can't be awaited")?;
        let stop = async {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
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
    match drill_report::write(&drill, &origin, out)? {
        Some(seal) => say(&format!("report: {}\nseal: {seal}", out.join("index.html").display())),
        None => say("no round is complete, so there is no report"),
    }
    say(&format!("repeat: {}", origin.command()));
    Ok(ExitCode::from(drill.exit_code()))
}

/// The command that repeats it, and what it read.
fn origin(design: &Design, sign_off: Option<&Path>) -> anyhow::Result<Origin> {
    let shown = |path: &Path| path.display().to_string();
    let mut words = ["forebay", "drill", "--live"].map(str::to_owned).to_vec();
    words.push(shown(&design.file));
    if let Some(file) = sign_off {
        words.extend(["--sign-off".to_owned(), shown(file)]);
    }
    words.extend(["--out", "NEW-FOLDER"].map(str::to_owned));
    let trace = match &design.load.source {
        Source::File(trace) => Some(trace.as_path()),
        Source::Synthetic { .. } => None,
    };
    let sign_off = design.sign_off.as_ref().map(|sign_off| sign_off.file.as_path());
    let files = [Some(design.file.as_path()), design.criteria_file.as_deref(), sign_off, trace];
    let files: Vec<&Path> = files.into_iter().flatten().collect();
    Ok(Origin::of(&words, &files)?)
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
