//! Explains what was decided about one request: `forebay explain`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::talk::print;

/// Explains what was decided about one request, a paragraph for each decision.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay explain run.rec 17")]
pub(crate) struct Args {
    /// A file that `--record` has written.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The request's number in the recording.
    ///
    /// Without retries and spills that is its place in the trace, from 0. Else it is one of the
    /// `core_requests` in the rows that `forebay simulate --requests-out` writes.
    #[arg(value_name = "REQUEST")]
    request: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let text = forebay_lab::recording::explain(&args.file, args.request)?;
    print(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}
