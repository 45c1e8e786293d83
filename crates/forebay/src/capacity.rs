//! Searches the capacity of a live endpoint: `forebay capacity`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, ensure};
use forebay_lab::capacity::{Growth, Hunt, told};
use forebay_lab::load::arrivals::Rate;
use forebay_lab::results::{self, Results};
use forebay_lab::slo::Held;
use forebay_lab::stats::search::Bounds;

use crate::load;
use crate::talk::{print, say};

/// How long a run lasts if nothing else is said, in seconds.
const RUN_S: f64 = 60.0;
/// Where runs go if nothing else is said; `forebay load` has a default of its own.
const OUT: (&str, &str) = ("forebay-load", "forebay-capacity");

/// Finds the highest rate at which a live endpoint meets its criteria.
///
/// Takes all options of `forebay load` but for --rate and --users: rates are what is searched. Each
/// is offered in runs of --for seconds until a verdict is reached. Exit codes: 0 found, 1 not even
/// the lowest rate holds, 2 misuse or failure, 3 too little is known.
// `forebay load` has a group of arguments by the name of its own struct, which is the same.
#[derive(Debug, clap::Args)]
#[group(id = "capacity")]
#[command(after_help = "\
Example: forebay capacity --url http://localhost:8080 --synth evidence --criteria criteria.toml
           --for 60 --now 3 --growth 0.05")]
pub(crate) struct Args {
    /// What must hold at a rate [default: those of `forebay drill`]
    #[arg(long, value_name = "FILE", help_heading = "Search")]
    criteria: Option<PathBuf>,
    /// The rate to begin with, in requests a second
    #[arg(long, value_name = "RATE", default_value_t = 1.0, help_heading = "Search")]
    start: f64,
    /// The lowest rate that is of use
    #[arg(long, value_name = "RATE", default_value_t = 0.1, help_heading = "Search")]
    rate_min: f64,
    /// The highest rate that may be offered
    #[arg(long, value_name = "RATE", default_value_t = 1000.0, help_heading = "Search")]
    rate_max: f64,
    /// How closely to know the answer, as a ratio
    #[arg(long, value_name = "RATIO", default_value_t = 1.1, help_heading = "Search")]
    within: f64,
    /// Runs at one rate at most
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Search")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Requests a second at today's busiest time, for the headroom
    #[arg(long, value_name = "RATE", help_heading = "Headroom")]
    now: Option<f64>,
    /// Growth a month: 0.05 is 5 %
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = "Headroom")]
    #[arg(requires = "now")]
    growth: f64,
    #[command(flatten)]
    load: load::Args,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let bounds = args.bounds()?;
    let growth = args.growth()?;
    let out = match args.load.out.as_path() {
        default if default == Path::new(OUT.0) => PathBuf::from(OUT.1),
        named => named.to_owned(),
    };
    let criteria = Held::load(args.criteria.as_deref())?.criteria;
    let mut hunt = Hunt::new(bounds, criteria, args.load.seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut ready, mut nth) = (None, 0);
    while let Some((rate, seed)) = hunt.next() {
        nth += 1;
        let mut load = args.load.clone();
        load.rate = Some(Rate::constant(rate)?);
        (load.seed, load.out) = (seed, out.join(format!("run-{nth:03}")));
        load.lasts = Some(args.load.lasts.unwrap_or(RUN_S));
        let offer = load.offer()?;
        if ready.is_none() {
            ready = Some(runtime.block_on(load.ready(&offer.settings))?);
        }
        let Some(ready) = &ready else { break };
        let summary = runtime.block_on(load.measured(offer, ready))?;
        if summary.about.was_interrupted {
            say("stopped: what is known so far follows");
            break;
        }
        if let Some(invalid) = summary.about.invalid.first() {
            say(&format!("INVALID ({}): {}", invalid.reason, invalid.what));
            say(&format!("{rate:.3}/s can't be offered from here, so the search ends"));
            break;
        }
        let Results::Run(measured) = results::open(&load.out)? else {
            bail!("{}: no run can be read of what was written there", load.out.display());
        };
        if let Some(trial) = hunt.take(*measured)? {
            say(&format!("{rate:.3}/s {}: {}", trial.decided, trial.reason));
        }
    }
    let capacity = hunt.capacity();
    print(&if args.load.json { capacity.json(growth) } else { told(&capacity, growth) })?;
    say(&format!("runs: {}", out.display()));
    Ok(ExitCode::from(capacity.exit_code()))
}

impl Args {
    fn bounds(&self) -> anyhow::Result<Bounds> {
        ensure!(
            self.load.rate.is_none() && self.load.users.is_none() && self.load.requests.is_none(),
            "rates are what is searched\nhint: leave out --rate, --users and --requests; --for \
             says how long a run lasts"
        );
        let Self { start, rate_min, rate_max, within, runs, .. } = *self;
        ensure!(
            rate_min > 0.0 && rate_min <= start && start <= rate_max && rate_max <= 1e6,
            "--rate-min {rate_min}, --start {start} and --rate-max {rate_max} do not rise above \
             0\nhint: begin somewhere between the two"
        );
        ensure!(
            (1.01..=2.0).contains(&within),
            "--within is a ratio from 1.01 to 2, not {within}\nhint: 1.1 is to 10 %"
        );
        let (ratio, error, blocks_max) = (within, 0.05, runs);
        Ok(Bounds { start, rate_min, rate_max, ratio, error, blocks_max })
    }

    fn growth(&self) -> anyhow::Result<Option<Growth>> {
        let Some(now_per_s) = self.now else { return Ok(None) };
        ensure!(
            now_per_s > 0.0 && (0.0..=10.0).contains(&self.growth),
            "--now lies above 0, and --growth from 0 to 10\nhint: 0.05 is 5 % a month"
        );
        Ok(Some(Growth { now_per_s, a_month: self.growth }))
    }
}
