//! Searches the capacity of a live endpoint: `forebay capacity`.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, ensure};
use forebay_lab::capacity::{Ended, Growth, Hunt, Taken, told};
use forebay_lab::load::arrivals::Rate;
use forebay_lab::load::repeat;
use forebay_lab::report::capacity::{Paper, write};
use forebay_lab::report::{Growing, Origin};
use forebay_lab::results::{self, About, Results};
use forebay_lab::slo::Held;
use forebay_lab::stats::search::{Bounds, Looks};

use crate::load;
use crate::talk::{print, say};

/// How long a run lasts if nothing else is said, in seconds.
const RUN_S: f64 = 60.0;
/// Requests of a run at the lowest rate: a block of them, as runs are cut into.
const REQUESTS_MIN: f64 = 10.0;
/// The probability that an end of the interval may be wrong.
const ERROR: f64 = 0.05;
/// Between two runs: every request of the last one is over, and engines notice within a step that a
/// client went away.
const PAUSE: Duration = Duration::from_secs(1);
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
    /// The rate to begin with, in requests a second [default: 1, or --rate-min]
    #[arg(long, value_name = "RATE", help_heading = "Search")]
    start: Option<f64>,
    /// The lowest rate that is of use [default: ten requests in a run]
    #[arg(long, value_name = "RATE", help_heading = "Search")]
    rate_min: Option<f64>,
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
    /// Seconds at the start of each run that count nowhere [default: a third of --for]
    ///
    /// Queues and caches fill meanwhile, as they are in the middle of a day.
    #[arg(long, value_name = "SECONDS", help_heading = "Search", conflicts_with = "warmup")]
    settle: Option<f64>,
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
    let (lasts_s, settle_s) = args.seconds()?;
    let (bounds, growth) = (args.bounds(lasts_s)?, Growth::read(args.now, args.growth)?);
    let held = Held::load(args.criteria.as_deref())?;
    let origin = args.origin()?;
    let out = args.out();
    let growing = Growing::create(&out)?;
    let mut hunt = Hunt::new(bounds, held.criteria.clone(), args.load.seed, ERROR);
    let mut offered = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let seconds = (lasts_s, settle_s);
    let hunted = hunted(args, &mut hunt, seconds, growing.part(), &mut offered);
    let (ended, error) = match runtime.block_on(hunted) {
        Ok(ended) => (ended, None),
        // What was learned before is not lost.
        Err(error) => (Ended::Failed(error.to_string()), Some(error)),
    };
    let capacity = hunt.capacity(ended);
    if offered.is_empty() {
        // Nothing was sent, so there is nothing to tell, and an older search stays.
        return error.map_or_else(|| Ok(ExitCode::from(capacity.exit_code())), Err);
    }
    let (held, offered, origin) = (&held, &offered, &origin);
    let seal = write(&Paper { capacity: &capacity, growth, held, offered, origin }, growing)?;
    print(&if args.load.json { capacity.json(growth) } else { told(&capacity, growth) })?;
    say(&format!("report: {}\nseal: {seal}", out.join("index.html").display()));
    error.map_or_else(|| Ok(ExitCode::from(capacity.exit_code())), Err)
}

/// Offers one rate after the other.
async fn hunted(
    args: &Args,
    hunt: &mut Hunt,
    seconds: (f64, f64),
    out: &Path,
    offered: &mut Vec<(&'static str, String)>,
) -> anyhow::Result<Ended> {
    let mut stop = pin!(load::stopped()?);
    let (lasts_s, settle_s) = seconds;
    let (salt, mut ready, mut nth) = (args.salt(), None, 0);
    while let Some((rate, seed)) = hunt.next() {
        nth += 1;
        let folder = format!("run-{nth:03}");
        let mut load = args.load.clone();
        load.rate = Some(Rate::constant(rate)?);
        (load.seed, load.out) = (seed, out.join(&folder));
        load.lasts = Some(settle_s + lasts_s);
        if load.warmup == 0 {
            load.warmup = (settle_s * rate).round() as u64;
        }
        // Prompts of one run share nothing with those of another: what the target has cached of the
        // rate before would make this one look better than it is.
        load.salt = salt.wrapping_mul(1_000).wrapping_add(nth);
        let offer = load.offer()?;
        if ready.is_none() {
            ready = Some(load.ready(&offer.settings).await?);
        }
        let Some(ready) = &ready else { break };
        let summary = load.measured(offer, ready).await?;
        if offered.is_empty() {
            offered.extend(told_of(&summary.about, seconds, salt));
        }
        if summary.about.was_interrupted {
            return Ok(Ended::Interrupted);
        }
        let Results::Run(measured) = results::open(&load.out)? else {
            bail!("{}: no run can be read of what was written there", load.out.display());
        };
        let taken = hunt.take(*measured, &folder)?;
        if let Some(invalid) = summary.about.invalid.first() {
            say(&format!("{rate:.3}/s INVALID ({}): {}", invalid.reason, invalid.what));
        }
        match taken {
            Taken::Counted(looks, reason) => {
                let looks = if looks == Looks::Well { "looks well" } else { "looks ill" };
                say(&format!("{rate:.3}/s {looks}: {reason}"));
            }
            Taken::Again => say("that run counts for nothing; the rate is offered again"),
            Taken::BeyondReach => {
                say(&format!("{rate:.3}/s can't be offered from here: lower ones are tried"));
            }
        }
        tokio::select! {
            () = &mut stop => return Ok(Ended::Interrupted),
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
    Ok(Ended::Searched)
}

/// What was offered and how, at every rate.
fn told_of(
    about: &About,
    (lasts_s, settle_s): (f64, f64),
    salt: u64,
) -> Vec<(&'static str, String)> {
    vec![
        ("target", about.targets.join(", ")),
        ("model", about.model.clone()),
        ("first run", about.workload.clone()),
        ("each run counts for", format!("{lasts_s} s")),
        ("after it settled for", format!("{settle_s:.1} s")),
        ("clients take refusals as", about.retry.clone()),
        ("seed", about.seed.to_string()),
        ("salt of prompts", salt.to_string()),
    ]
}

impl Args {
    /// The command that repeats it, without keys, and what it read.
    fn origin(&self) -> anyhow::Result<Origin> {
        let line = std::iter::once("forebay".to_owned()).chain(std::env::args().skip(1));
        let files: Vec<&Path> =
            self.criteria.iter().chain(self.load.trace.iter()).map(PathBuf::as_path).collect();
        let origin = Origin::of(&[], &files)?;
        let words = repeat(line).split(' ').map(str::to_owned).collect();
        Ok(Origin { words, ..origin })
    }

    fn bounds(&self, lasts_s: f64) -> anyhow::Result<Bounds> {
        ensure!(
            self.load.rate.is_none() && self.load.users.is_none() && self.load.requests.is_none(),
            "rates are what is searched\nhint: leave out --rate, --users and --requests; --for \
             says how long a run lasts"
        );
        let Self { rate_max, within, runs, .. } = *self;
        let tells = REQUESTS_MIN / lasts_s;
        let rate_min = self.rate_min.unwrap_or_else(|| tells.min(self.start.unwrap_or(tells)));
        let start = self.start.unwrap_or(rate_min.max(1.0).min(rate_max));
        ensure!(
            rate_min > 0.0 && rate_min <= start && start <= rate_max && rate_max <= 1e6,
            "--rate-min {rate_min}, --start {start} and --rate-max {rate_max} do not rise above \
             0\nhint: begin somewhere between the two"
        );
        ensure!(
            rate_min >= tells * (1.0 - 1e-9),
            "a run of {lasts_s} s at {rate_min}/s has fewer than {REQUESTS_MIN} requests, which \
             tell nothing\nhint: begin at {tells:.3}/s or more, or raise --for"
        );
        ensure!(
            (1.01..=2.0).contains(&within),
            "--within is a ratio from 1.01 to 2, not {within}\nhint: 1.1 is to 10 %"
        );
        let (ratio, runs_max) = (within, runs);
        Ok(Bounds { start, rate_min, rate_max, ratio, runs_max })
    }

    /// How long requests of a run count, and how long it settles before.
    fn seconds(&self) -> anyhow::Result<(f64, f64)> {
        let lasts_s = self.load.lasts.unwrap_or(RUN_S);
        let settle_s = self.settle.unwrap_or(lasts_s / 3.0);
        ensure!(
            lasts_s > 0.0 && settle_s >= 0.0 && lasts_s + settle_s <= 1e6,
            "--for {lasts_s} and --settle {settle_s} are no seconds of a run\nhint: 60 and 20 do \
             for most"
        );
        Ok((lasts_s, settle_s))
    }

    /// What was asked for, or the clock: an endpoint that was searched before has the prompts of
    /// that search in its caches.
    fn salt(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        match self.load.salt {
            0 => since.map_or(1, |since| since.as_secs()),
            salt => salt,
        }
    }

    fn out(&self) -> PathBuf {
        match self.load.out.as_path() {
            default if default == Path::new(OUT.0) => PathBuf::from(OUT.1),
            named => named.to_owned(),
        }
    }
}
