//! Compares live results over everything that was offered: `forebay compare`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use forebay_lab::compare::{self, Arm, Options, table};
use forebay_lab::drill::criteria::Criteria;
use forebay_lab::whole_file::WholeFile;
use forebay_service::text_file;

use crate::talk::{print, say};

/// Compares results of live endpoints, and judges each.
///
/// Every figure is over all requests that were offered; one that was never served counts as
/// infinitely late. Each result is a folder that `forebay load` wrote, a file of another tool, a
/// folder of `block-*` folders, or several paths with commas between them, a block each.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The first result is the baseline. The last is under test and decides the exit
code: 0 GO, 1 NO-GO, 3 INCONCLUSIVE; 2 is misuse or failure.

Examples: forebay compare results/round-robin results/hold
          forebay compare a1,a2,a3 b1,b2,b3 --label old --label new")]
pub(crate) struct Args {
    /// Results of an arm; the first is the baseline
    #[arg(value_name = "RESULTS", required = true)]
    results: Vec<String>,
    /// Name of an arm, in their order; repeat it
    #[arg(long = "label", value_name = "NAME")]
    labels: Vec<String>,
    /// What each arm is held to [default: served, TTFT]
    #[arg(long, value_name = "FILE")]
    criteria: Option<PathBuf>,
    /// Seed of every resample
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// How often blocks are drawn anew
    #[arg(long, value_name = "COUNT", default_value_t = 2000)]
    #[arg(value_parser = clap::value_parser!(u32).range(200..=100_000))]
    resamples: u32,

    /// Write everything as JSON to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Print everything as one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Reads the results, prints what came of them, and answers with the verdict on the last arm.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    ensure!(
        args.labels.len() <= args.results.len(),
        "{} labels for {} results\nhint: give one --label for each result, in their order",
        args.labels.len(),
        args.results.len()
    );
    if let Some(file) = &args.out {
        WholeFile::check(file)?;
    }
    let criteria = criteria(args.criteria.as_deref())?;
    let label = |nth: usize| args.labels.get(nth).map(String::as_str);
    let named = args.results.iter().enumerate();
    let arms: Vec<Arm> =
        named.map(|(nth, result)| compare::read(result, label(nth))).collect::<Result<_, _>>()?;
    let options = Options { seed: args.seed, resamples: args.resamples, ..Options::default() };
    let comparison = compare::compare(&arms, &criteria, &options)?;
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

fn criteria(file: Option<&Path>) -> anyhow::Result<Criteria> {
    let Some(file) = file else { return Ok(Criteria::built_in()) };
    Ok(Criteria::parse(file, &text_file::read(file)?)?)
}
