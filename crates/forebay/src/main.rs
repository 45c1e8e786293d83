//! The forebay program.

mod drill;

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
    Drill(drill::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Drill(args) => drill::run(&args),
    };
    done.unwrap_or_else(|error| {
        #[expect(clippy::print_stderr, reason = "this is where talk goes to")]
        {
            eprintln!("error: {error:#}");
        }
        ExitCode::from(2)
    })
}
