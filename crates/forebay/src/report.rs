//! Puts live results on paper, and holds a report to its hashes: `forebay report`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use forebay_lab::compare::{self, Options};
use forebay_lab::drill::criteria::Criteria;
use forebay_lab::report::live::{self, Live};
use forebay_lab::report::{self, Origin, SignOff};
use forebay_lab::slo::Objectives;
use forebay_service::text_file;

use crate::talk::{print, say};

/// Writes a report of live results that somebody can sign, or verifies one.
///
/// Every figure is over all requests that were offered; one that was never served counts as
/// infinitely late. The last arm is under test, the first is the baseline.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Exits with the verdict on the last arm: 0 GO, 1 NO-GO, 3 INCONCLUSIVE; 2 is misuse or failure.

Examples: forebay report before=runs/1 after=runs/2 --criteria criteria.toml --out report
          forebay report verify report")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Folders that `forebay load` wrote, the one under test last
    ///
    /// LABEL=FOLDER names an arm; several with one label are runs of one arm.
    #[arg(value_name = "[LABEL=]FOLDER", required = true)]
    runs: Vec<String>,
    /// What the arms are held to: TOML, `OpenSLO` or Sloth [default: that of --sign-off]
    #[arg(long, value_name = "FILE")]
    criteria: Option<PathBuf>,
    /// Who decides what, and which refusals were agreed
    #[arg(long, value_name = "FILE")]
    sign_off: Option<PathBuf>,
    /// Attempts that the server counts as refused, for one arm; repeat it
    #[arg(long, value_name = "LABEL=COUNT", value_parser = counted)]
    counted_by_server: Vec<(String, u64)>,
    /// Seed of every resample
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Write the report to this folder
    #[arg(long, value_name = "DIR", required = true)]
    out: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Verify(VerifyArgs),
}

/// Says whether a report is as it was written, file by file.
///
/// Exits with 0 when all is as it was, with 1 when a file was changed, lost or added, and with 2
/// when the folder is no report. Prints the seal, the SHA-256 of its report.json.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay report verify report")]
struct VerifyArgs {
    /// The report's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

fn counted(text: &str) -> Result<(String, u64), String> {
    let parsed = text
        .split_once('=')
        .and_then(|(label, count)| Some((label.to_owned(), count.parse::<u64>().ok()?)));
    parsed.ok_or_else(|| "LABEL=COUNT is expected, such as hold=84".to_owned())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Some(Command::Verify(args)) => verify(&args.folder),
        None => write(args),
    }
}

fn verify(folder: &Path) -> anyhow::Result<ExitCode> {
    let verified = report::verify(folder)?;
    for fault in verified.faults() {
        print(&format!("{fault}\n"))?;
    }
    let state = if verified.holds() { "all as they were" } else { "not as it was" };
    print(&format!("{} files, {state}; seal {}\n", verified.files, verified.seal))?;
    Ok(if verified.holds() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn write(args: &Args) -> anyhow::Result<ExitCode> {
    let out = args.out.as_deref().unwrap_or(Path::new("report"));
    report::check(out)?;
    let sign_off = args.sign_off.as_deref().map(SignOff::load).transpose()?;
    let file = criteria_file(args, sign_off.as_ref());
    let (criteria, objectives) = criteria(file.as_deref())?;
    if let Some(sign_off) = &sign_off {
        sign_off.check_against(&criteria)?;
        if let (Some(given), Some(named)) = (&args.criteria, &sign_off.criteria) {
            let (signed, _) = self::criteria(Some(named))?;
            ensure!(
                signed.hash() == criteria.hash(),
                "{}: other criteria than {}, which the sign-off names\nhint: leave --criteria out",
                given.display(),
                named.display()
            );
        }
    }
    let (arms, files) = live::arms(&args.runs)?;
    let options = Options { seed: args.seed, ..Options::default() };
    let comparison = compare::compare(&arms, &criteria, &options)?;
    let read = files.iter().map(PathBuf::as_path);
    let given = file.as_deref().into_iter().chain(args.sign_off.as_deref());
    let inputs: Vec<&Path> = read.chain(given).collect();
    let counted: BTreeMap<String, u64> = args.counted_by_server.iter().cloned().collect();
    let seal = live::write(
        &Live {
            comparison: &comparison,
            arms: &arms,
            criteria: &criteria,
            sign_off: sign_off.as_ref(),
            objectives: objectives.as_ref(),
            counted_by_server: &counted,
            origin: &Origin::of(&words(args), &inputs)?,
        },
        out,
    )?;
    for arm in &comparison.arms {
        print(&format!("{}: {}: {}\n", arm.label, arm.outcome.0, arm.reason))?;
    }
    say(&format!("report: {}\nseal: {seal}", out.join("index.html").display()));
    Ok(ExitCode::from(comparison.exit_code()))
}

fn criteria_file(args: &Args, sign_off: Option<&SignOff>) -> Option<PathBuf> {
    args.criteria.clone().or_else(|| sign_off.and_then(|sign_off| sign_off.criteria.clone()))
}

/// Criteria, and the objectives that they were made from, if they were.
fn criteria(file: Option<&Path>) -> anyhow::Result<(Criteria, Option<Objectives>)> {
    let Some(file) = file else { return Ok((Criteria::built_in(), None)) };
    let text = text_file::read(file)?;
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or("");
    if !matches!(ending, "yaml" | "yml" | "json") {
        return Ok((Criteria::parse(file, &text)?, None));
    }
    let objectives = Objectives::parse(file, &text)?;
    for unmapped in &objectives.unmapped {
        say(&format!("note: {}: not taken over: {unmapped}", file.display()));
    }
    Ok((Criteria::parse(file, &objectives.criteria_toml())?, Some(objectives)))
}

fn words(args: &Args) -> Vec<String> {
    let mut words = vec!["forebay".to_owned(), "report".to_owned()];
    words.extend(args.runs.iter().cloned());
    let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    for (name, file) in [("criteria", &args.criteria), ("sign-off", &args.sign_off)] {
        if let Some(file) = file {
            option(name, file.display().to_string());
        }
    }
    for (label, count) in &args.counted_by_server {
        option("counted-by-server", format!("{label}={count}"));
    }
    option("seed", args.seed.to_string());
    option("out", "report".to_owned());
    words
}
