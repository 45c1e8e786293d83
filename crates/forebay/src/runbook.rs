//! Writes what to do in a storm of refusals: `forebay runbook`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use forebay_gateway::config::Config;
use forebay_lab::capacity::Growth;
use forebay_lab::compare::{self, Given, Options};
use forebay_lab::drill::criteria::Criteria;
use forebay_lab::report::SignOff;
use forebay_lab::runbook::{BEGINS, Limit, Normal, Runbook, Settings};
use forebay_lab::whole_file::{WholeFile, apart, refuse_foreign};
use forebay_service::text_file;
use serde_json::Value;

use crate::talk::say;

/// Writes a runbook for storms of 503, for one configuration and its results.
///
/// Without --config it is for any gateway; without --results it doesn't say what normal looks like.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: forebay runbook --config forebay.toml --results report --out RUNBOOK.md")]
pub(crate) struct Args {
    /// The gateway's file, as `forebay serve` reads it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What was measured: a report's folder, its comparison.json, or a folder of `forebay load`
    #[arg(long, value_name = "PATH")]
    results: Vec<PathBuf>,
    /// What a search for the capacity left: the folder of `forebay capacity`, or its capacity.json
    #[arg(long, value_name = "PATH")]
    capacity: Option<PathBuf>,
    /// Requests a second at today's busiest time, for the headroom [default: as in --capacity]
    #[arg(long, value_name = "RATE", requires = "capacity")]
    now: Option<f64>,
    /// Growth a month: 0.05 is 5 %
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "now")]
    growth: f64,
    /// Who decides, what was agreed, and when to call whom
    #[arg(long, value_name = "FILE")]
    sign_off: Option<PathBuf>,
    /// Write it to this file
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let inputs: Vec<&Path> = [&args.config, &args.sign_off, &args.capacity]
        .into_iter()
        .flatten()
        .chain(&args.results)
        .map(PathBuf::as_path)
        .collect();
    apart(&[("--out", args.out.clone())], &inputs)?;
    refuse_foreign(&args.out, BEGINS, "runbook")?;
    let settings = match &args.config {
        Some(file) => {
            let shown = Config::load(file)?.shown();
            Some(Settings::of_shown(&shown).context("what a configuration shows is TOML")?)
        }
        None => None,
    };
    let mut normal = Vec::new();
    for path in &args.results {
        normal.extend(measured(path)?);
    }
    let sign_off = args.sign_off.as_deref().map(SignOff::load).transpose()?;
    let growth = Growth::read(args.now, args.growth)?;
    let limit = args.capacity.as_deref().map(limit).transpose()?;
    let limit = limit.map(|limit| limit.with_growth(growth));
    let text = Runbook { settings, normal, limit, sign_off }.markdown();
    let mut out = WholeFile::create(&args.out)?;
    out.write_all(text.as_bytes())
        .with_context(|| format!("{} can't be written", args.out.display()))?;
    out.finish()?;
    say(&format!("runbook: {}", args.out.display()));
    Ok(ExitCode::SUCCESS)
}

/// What a search for the capacity came to.
fn limit(path: &Path) -> anyhow::Result<Limit> {
    let file = if path.is_dir() { path.join("capacity.json") } else { path.to_owned() };
    let json: Option<Value> = serde_json::from_str(&text_file::read(&file)?).ok();
    json.as_ref().and_then(Limit::of_json).with_context(|| {
        format!(
            "{}: no capacity\nhint: name the folder that `forebay capacity` wrote",
            file.display()
        )
    })
}

/// What was measured, from a comparison or from a run.
fn measured(path: &Path) -> anyhow::Result<Vec<Normal>> {
    let comparison = if path.is_dir() { path.join("comparison.json") } else { path.to_owned() };
    if comparison.is_file() {
        let json: Option<Value> = serde_json::from_str(&text_file::read(&comparison)?).ok();
        // A live drill's has several, and a point of it is read as runs are.
        if !json.as_ref().is_some_and(Value::is_array) || comparison == path {
            return json.as_ref().and_then(Normal::of_json).with_context(|| {
                format!(
                    "{}: no comparison\nhint: name the folder of a report, or of a run",
                    comparison.display()
                )
            });
        }
    }
    let given = Given::read(&[path.display().to_string()], &[])?;
    let comparison = compare::compare(&given.arms, &Criteria::built_in(), &Options::default())?;
    Ok(Normal::of(&comparison))
}
