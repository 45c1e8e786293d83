//! Serves as a gateway: `forebay serve`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as ClapArgs;
use forebay_gateway::config::Config;
use forebay_lab::simulate::Mode;

use crate::talk::{print, say};

/// Serves the OpenAI API in front of workers: holds each request until a worker has room for it.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// The gateway's file; it says everything that the other options do not.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["listen", "mode", "worker"])]
    config: Option<PathBuf>,
    /// The address to listen on.
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// How a worker is chosen, and whether requests are held.
    #[arg(long, default_value = "hold")]
    mode: Mode,
    /// A worker's URL, for example http://127.0.0.1:8000; once for each worker.
    #[arg(long, value_name = "URL", required_unless_present = "config")]
    worker: Vec<String>,
    /// Keeps a recording of every decision in this folder, for `replay` and `explain`.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Reads the configuration, prints what it means, and ends.
    #[arg(long)]
    check: bool,
}

/// Runs the gateway until it is told to stop.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut config = match &args.config {
        Some(file) => Config::load(file)?,
        None => Config::from_flags(args.listen.as_deref(), args.mode, &args.worker)?,
    };
    if let Some(dir) = &args.record {
        config.record_to(dir);
    }
    if args.check {
        print(&config.shown())?;
        return Ok(ExitCode::SUCCESS);
    }
    let told = |addr| say(&format!("listening on {addr}"));
    forebay_gateway::serve(config, args.config.clone(), told)?;
    Ok(ExitCode::SUCCESS)
}
