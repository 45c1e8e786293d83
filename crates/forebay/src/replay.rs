//! Decides a recorded run again: `forebay replay`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::talk::print;

/// Decides a recorded run again and compares every decision.
///
/// Exits with 0 when all decisions are equal, with 1 at the first that differs, and with 3 when the
/// file lost its end, so that what is left of it is equal and nobody knows of the rest.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay replay run.rec")]
pub(crate) struct Args {
    /// A file that `--record` has written.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let report = forebay_lab::recording::replay(&args.file)?;
    print(&format!("{report}\n"))?;
    Ok(ExitCode::from(match (report.is_equal(), report.is_torn) {
        (false, _) => 1,
        (true, true) => 3,
        (true, false) => 0,
    }))
}
