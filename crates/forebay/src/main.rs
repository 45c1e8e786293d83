//! The forebay program.

mod arms;
mod capacity;
mod compare;
mod demo;
mod drill;
mod engine;
mod explain;
mod live;
mod load;
mod log;
mod replay;
mod report;
mod runbook;
mod scenario;
mod serve;
mod simulate;
mod talk;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// An LLM inference gateway and a saturation lab.
#[derive(Debug, Parser)]
#[command(name = "forebay", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Serve(serve::Args),
    Drill(drill::Args),
    Capacity(Box<capacity::Args>),
    Compare(compare::Args),
    Load(Box<load::Args>),
    Simulate(simulate::Args),
    Engine(engine::Args),
    Scenario(scenario::Args),
    Trace(trace::Args),
    Replay(replay::Args),
    Explain(explain::Args),
    Report(Box<report::Args>),
    Runbook(runbook::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Drill(args) => drill::run(&args),
        Command::Capacity(args) => capacity::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Engine(args) => engine::run(&args),
        Command::Scenario(args) => scenario::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Runbook(args) => runbook::run(&args),
    };
    done.unwrap_or_else(|error| {
        talk::say(&format!("error: {error:#}"));
        ExitCode::from(2)
    })
}
