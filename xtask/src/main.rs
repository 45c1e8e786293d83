//! Runs the repository's chores: ci, tidy, docs, bench, claims, engines, overhead, idle, lag, same
//! and generator.
//!
//! `cargo xtask ci` is what the continuous integration runs, and nothing else. Exit codes are those
//! of the program itself: 0 done, 1 the checked claim does not hold, 2 misuse or failure, 3
//! inconclusive.

mod bench;
mod ci;
mod claims;
mod clients;
mod docs;
mod live;
mod say;
mod tidy;
mod workspace;

use std::process::ExitCode;

use crate::say::say;
use crate::workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci               everything that must hold before a merge; stops at the first failure
  tidy             the house rules that no other tool checks
  docs [--check]   writes the generated references, or fails when they are out of date
  bench [--update] instruction counts of the core against the baseline, or a new baseline
  claims [NAME…] [--seeds N] [--slow] [--write]
                   what Forebay must show, each figure against its bar; --write keeps it as
                   docs/results.md
  agree [TRACE]    the live gateway against the simulator, on a trace of the shared data
  engines [ARM…] [--seeds N] [--requests N] [--capacity N] [--write]
                   Forebay and other routers in front of two real vLLM workers; --write keeps it
                   in docs/performance.md
  overhead [ARM…] [--write]
                   what Forebay and other routers cost a request, side by side
  idle [LEVEL…] [--program FILE] [--write]
                   what connections cost on which nothing is asked, and who is served beside them
  lag              the lag that the load client reports for itself, against what a server saw
  generator [--program FILE] [--write]
                   what `forebay load` costs a request, side by side with AIPerf
  same [--program FILE]
                   how many of 40 live drills of one target against itself claim a difference";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::from(2)
        }
    }
}

fn run() -> anyhow::Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let workspace = Workspace::find()?;
    match words[..] {
        ["ci"] => ci::run(&workspace),
        ["tidy"] => tidy::run(&workspace),
        ["docs"] => docs::write(&workspace),
        ["docs", "--check"] => docs::check(&workspace),
        ["bench"] => bench::check(&workspace),
        ["bench", "--update"] => bench::update(&workspace),
        ["claims", ref asked @ ..] => claims::run(&workspace, asked),
        ["engines", ref asked @ ..] => live::engines::run(&workspace, asked),
        ["agree", ref asked @ ..] => live::agree::run(&workspace, asked),
        ["generator", ref asked @ ..] => live::generator::run(&workspace, asked),
        ["idle", ref asked @ ..] => live::idle::run(&workspace, asked),
        ["lag"] => live::lag::run(),
        ["same", ref asked @ ..] => live::same::run(&workspace, asked),
        ["overhead", ref asked @ ..] => live::overhead::run(&workspace, asked),
        [] | ["help" | "--help" | "-h"] => {
            say(USAGE);
            Ok(ExitCode::SUCCESS)
        }
        _ => anyhow::bail!("unknown command: {}\n{USAGE}", words.join(" ")),
    }
}
