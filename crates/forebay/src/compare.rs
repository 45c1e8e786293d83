//! Compares live results over everything that was offered: `forebay compare`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use forebay_lab::compare::{self, comparison, table};
use forebay_lab::slo::Held;
use forebay_lab::whole_file::{WholeFile, refuse_foreign};

use crate::arms::Arms;
use crate::talk::{print, say};

/// Compares results of live endpoints, and judges each.
///
/// Every figure is over all requests that were offered; one that was never served counts as
/// infinitely late.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The first result is the baseline. The last is under test and decides the exit
code: 0 GO, 1 NO-GO, 3 INCONCLUSIVE; 2 is misuse or failure.

Examples: forebay compare results/round-robin results/hold
          forebay compare old=a1,a2,a3 new=b1,b2,b3
          forebay compare drill/n2-load1.19")]
pub(crate) struct Args {
    #[command(flatten)]
    arms: Arms,

    /// Write everything as JSON to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Print everything as one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Reads the results, prints what came of them, and answers with the verdict on the last arm.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(file) = &args.out {
        refuse_foreign(file, comparison::BEGINS, "comparison")?;
        WholeFile::check(file)?;
    }
    let held = Held::load(args.arms.criteria.as_deref())?;
    held.notes().iter().for_each(|note| say(&format!("note: {note}")));
    let given = args.arms.read()?;
    let options = given.options(args.arms.seed, args.arms.resamples);
    let comparison = compare::compare(&given.arms, &held.criteria, &options)?;
    let json = comparison.json();
    if let Some(file) = &args.out {
        let mut out = WholeFile::create(file)?;
        out.write_all(json.as_bytes())?;
        out.finish()?;
        say(&format!("comparison: {}", file.display()));
    }
    print(&if args.json { json } else { table::render(&comparison) })?;
    Ok(ExitCode::from(comparison.exit_code()))
}
