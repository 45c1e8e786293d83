//! Puts live results on paper, and holds a report to its hashes: `forebay report`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use forebay_lab::compare::{self, Given, ServerCount};
use forebay_lab::report::live::{self, Live};
use forebay_lab::report::{self, Origin, SignOff};

use crate::arms::Arms;
use crate::talk::{print, say};

/// Writes a report of live results that somebody can sign, or verifies one.
///
/// Every figure is over all requests that were offered; one that was never served counts as
/// infinitely late. Takes the same results as `forebay compare`. Criteria are those of --sign-off
/// if nothing else is said.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Exits with the verdict on the last arm: 0 GO, 1 NO-GO, 3 INCONCLUSIVE; 2 is misuse or failure.

Examples: forebay report before=runs/1 after=runs/2 --criteria criteria.toml --out report
          forebay report drill/n2-load1.19 --sign-off sign-off.toml --out report
          forebay report verify report")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    arms: Arms,
    /// Who decides what, and which refusals were agreed
    #[arg(long, value_name = "FILE")]
    sign_off: Option<PathBuf>,
    /// Attempts that the server counts as refused, for one arm; repeat it
    ///
    /// Where it is not what clients saw, no verdict holds. A live drill has counted already.
    #[arg(long, value_name = "NAME=COUNT", value_parser = counted)]
    counted_by_server: Vec<(String, u64)>,
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
    parsed.ok_or_else(|| "NAME=COUNT is expected, such as hold=84".to_owned())
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
    if args.sign_off.is_none() {
        report::refuse_signed(out)?;
    }
    let sign_off = args.sign_off.as_deref().map(SignOff::load).transpose()?;
    let held = report::held(args.arms.criteria.as_deref(), sign_off.as_ref())?;
    held.notes().iter().for_each(|note| say(&format!("note: {note}")));
    let mut given = args.arms.read()?;
    args.count(&mut given)?;
    let options = given.options(args.arms.seed, args.arms.resamples);
    let comparison = compare::compare(&given.arms, &held.criteria, &options)?;
    let read = given.files.iter().chain(&held.file).chain(&args.sign_off);
    let inputs: Vec<&Path> = read.map(PathBuf::as_path).collect();
    let live = Live {
        comparison: &comparison,
        arms: &given.arms,
        held: &held,
        sign_off: sign_off.as_ref(),
        counted_by_server: &given.counted,
        simulated: &given.simulated,
        notes: &given.notes,
        is_stopped: false,
        origin: &Origin::of(&args.words(), &inputs)?,
    };
    let seal = live::write(&live, out)?;
    for arm in &comparison.arms {
        print(&format!("{}: {}: {}\n", arm.label, arm.outcome.0, arm.reason))?;
    }
    if let Some(contradiction) = live.contradiction() {
        print(&format!("{}: {contradiction}\n", live.outcome()))?;
    }
    say(&format!("report: {}\nseal: {seal}", out.join("index.html").display()));
    Ok(ExitCode::from(live.outcome().exit_code()))
}

impl Args {
    /// Adds what somebody read off a server.
    fn count(&self, given: &mut Given) -> anyhow::Result<()> {
        for (label, refused) in &self.counted_by_server {
            let names: Vec<&str> = given.arms.iter().map(|arm| arm.label.as_str()).collect();
            ensure!(
                names.contains(&label.as_str()),
                "--counted-by-server {label}={refused}: no arm is called {label}\nhint: there are \
                 {}",
                names.join(", ")
            );
            let count = ServerCount { refused: *refused, agrees: None };
            given.counted.insert(label.clone(), count);
        }
        Ok(())
    }

    fn words(&self) -> Vec<String> {
        let mut words = vec!["forebay".to_owned(), "report".to_owned()];
        words.extend(self.arms.words());
        let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        if let Some(file) = &self.sign_off {
            option("sign-off", file.display().to_string());
        }
        for (label, count) in &self.counted_by_server {
            option("counted-by-server", format!("{label}={count}"));
        }
        option("out", "report".to_owned());
        words
    }
}
