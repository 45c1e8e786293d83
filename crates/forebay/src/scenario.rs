//! Checks claims about the whole: `forebay scenario`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use forebay_lab::scenario::{LOADS, Scenario};
use forebay_lab::whole_file::apart;

use crate::talk::print;

/// Checks claims about a fleet under load and faults.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Run(RunArgs),
}

/// Runs scenario files and says of each run whether its claim held.
///
/// Exits with 0 when every claim held, and with 1 when one was broken.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay scenario run scenarios/*.toml")]
struct RunArgs {
    /// Scenario files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Run with this seed only; may be repeated
    ///
    /// Else each file's own seeds are used.
    #[arg(long, value_name = "SEED")]
    seed: Vec<u64>,
    /// Run with this factor on every load; may be repeated
    ///
    /// Else each file's own factors are used.
    #[arg(long, value_name = "FACTOR", value_parser = load)]
    load: Vec<f64>,
    /// Record the run, which must be one
    ///
    /// For `forebay replay` and `forebay explain`.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

fn load(text: &str) -> Result<f64, String> {
    let (least, most) = LOADS;
    match text.parse::<f64>() {
        Ok(load) if (least..=most).contains(&load) => Ok(load),
        _ => Err(format!("a factor from {least} to {most} is expected")),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Command::Run(args) = &args.command;
    // All files are read before the first is run: a fault in the last must not cost the others'
    // time.
    let mut scenarios: Vec<Scenario> =
        args.files.iter().map(|file| Scenario::load(file)).collect::<Result<_, _>>()?;
    for scenario in &mut scenarios {
        if !args.seed.is_empty() {
            scenario.seeds.clone_from(&args.seed);
        }
        if !args.load.is_empty() {
            scenario.loads.clone_from(&args.load);
        }
    }
    let runs: usize = scenarios.iter().map(|one| one.loads.len() * one.seeds.len()).sum();
    if args.record.is_some() && runs != 1 {
        anyhow::bail!("a recording holds one run, not {runs}\nhint: say `--seed` and `--load`");
    }
    if let Some(file) = &args.record {
        let files = scenarios.iter().flat_map(|one| one.recordings(file));
        let outputs: Vec<_> = files.map(|file| ("--record", file)).collect();
        let inputs: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
        apart(&outputs, &inputs)?;
    }
    let mut all_hold = true;
    for scenario in scenarios {
        for load in &scenario.loads {
            for seed in &scenario.seeds {
                let verdict = match &args.record {
                    Some(file) => scenario.record(*seed, *load, file)?,
                    None => scenario.run(*seed, *load)?,
                };
                all_hold &= verdict.holds();
                print(&format!("{verdict}\n"))?;
            }
        }
    }
    Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
