//! The forebay program.

mod explain;
mod replay;
mod scenario;
mod simulate;

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
    Explain(explain::Args),
    Replay(replay::Args),
    Scenario(scenario::Args),
    Simulate(simulate::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Explain(args) => explain::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Scenario(args) => scenario::run(&args),
        Command::Simulate(args) => simulate::run(&args),
    };
    done.unwrap_or_else(|error| {
        #[expect(clippy::print_stderr, reason = "this is where talk goes to")]
        {
            eprintln!("error: {error:#}");
        }
        ExitCode::from(2)
    })
}
