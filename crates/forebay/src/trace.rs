//! Reads, changes and makes traces: `forebay trace`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::Subcommand;
use forebay_lab::trace::synth::Description;
use forebay_lab::trace::{self, Filter, Notes, Requests, Scaling, Slice, Span};

use crate::talk::{print, say};

/// Reads, changes and makes traces: who asks when, and what prompts share.
///
/// Reads Mooncake's JSON lines, AIPerf's variant of them with sessions and delays, Bailian's and
/// vLLM's timed traces, and the tables of Azure (2023, 2024) and BurstGPT. Writes JSON lines in
/// Mooncake's form. FILE `-` is standard input.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Stats(StatsArgs),
    Convert(ConvertArgs),
    Slice(SliceArgs),
    Filter(FilterArgs),
    Scale(ScaleArgs),
    Synth(SynthArgs),
}

/// Where a trace goes.
#[derive(Debug, clap::Args)]
struct Output {
    /// Write to this file [default: standard output]
    ///
    /// It is there as a whole afterwards, or as it was before.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Prints what a trace is like.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay trace stats azure-2024.csv")]
struct StatsArgs {
    /// The trace.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON object instead of a page.
    #[arg(long)]
    json: bool,
}

/// Writes a trace of any known format as JSON lines.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay trace convert --sort BurstGPT_1.csv --out burst.jsonl")]
struct ConvertArgs {
    /// The trace.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Sort rows however far they are out of order.
    ///
    /// Holds the whole trace in memory.
    #[arg(long)]
    sort: bool,
    #[command(flatten)]
    output: Output,
}

/// Takes a part of a trace by time or number.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay trace slice day.jsonl --from 3600 --to 7200 --out hour.jsonl"
)]
struct SliceArgs {
    /// The trace.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Take requests from this time on.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    from: Span,
    /// Take requests before this time [default: to the end]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    to: Option<Span>,
    /// Take at most this many [default: all]
    #[arg(long, value_name = "N")]
    first: Option<u64>,
    /// Leave times as they are.
    ///
    /// Else they count from the slice's start.
    #[arg(long)]
    keep_times: bool,
    #[command(flatten)]
    output: Output,
}

/// Takes the requests of some lengths, classes or tenants.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay trace filter day.jsonl --input-max 16384 --out short.jsonl"
)]
struct FilterArgs {
    /// The trace.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Take prompts of at least this many tokens.
    #[arg(long, value_name = "TOKENS")]
    input_min: Option<u64>,
    /// Take prompts of at most this many tokens.
    #[arg(long, value_name = "TOKENS")]
    input_max: Option<u64>,
    /// Take answers of at least this many tokens.
    #[arg(long, value_name = "TOKENS")]
    output_min: Option<u64>,
    /// Take answers of at most this many tokens.
    #[arg(long, value_name = "TOKENS")]
    output_max: Option<u64>,
    /// Take requests of this class. May be repeated.
    #[arg(long = "class", value_name = "NAME")]
    classes: Vec<String>,
    /// Take requests of this tenant. May be repeated.
    #[arg(long = "tenant", value_name = "NAME")]
    tenants: Vec<String>,
    #[command(flatten)]
    output: Output,
}

/// Changes the rate of a trace, and keeps what its requests share.
///
/// `--rate` below 1 leaves out whole conversations; above 1 it adds copies, whose conversations are
/// new ones while prefixes that many requests share stay shared. `--time` makes the same requests
/// come sooner; delays between the turns of a session stay as they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay trace scale day.jsonl --rate 2.5 --out busy.jsonl")]
struct ScaleArgs {
    /// The trace. `--rate` reads it twice, so standard input won't do there.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Have so many times as many requests in the same time.
    #[arg(long, value_name = "FACTOR", required_unless_present = "time", value_parser = factor)]
    rate: Option<f64>,
    /// Have the same requests so many times as fast.
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    time: Option<f64>,
    /// Seed of what stays and when copies start.
    #[arg(long, value_name = "SEED", default_value_t = 1, requires = "rate")]
    seed: u64,
    /// Start copies at random within this time.
    ///
    /// Bursts would add up if all of them started at once.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    spread: Span,
    #[command(flatten)]
    output: Output,
}

/// Makes a trace from a description.
///
/// NAME is `evidence` (the published test's slice: three kinds of prompts in bursts), `chat`
/// (sessions of several turns) or `agents` (long shared prefixes in bursts), or the path of a TOML
/// file of your own.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay trace synth evidence --seed 7 --out slice.jsonl")]
struct SynthArgs {
    /// A shipped description, or a file that ends in .toml.
    #[arg(value_name = "NAME")]
    name: String,
    /// Make this many requests [default: the description's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Another seed, another trace of the same sort.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Arrivals per second [default: the description's]
    ///
    /// Bursts keep their period and grow.
    #[arg(long, value_name = "RATE")]
    per_s: Option<f64>,
    #[command(flatten)]
    output: Output,
}

fn seconds(text: &str) -> Result<Span, String> {
    let most = trace::TIME_MAX.as_secs_f64();
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=most).contains(&seconds) => Ok(Span::secs_f64(seconds)),
        _ => Err(format!("a number of seconds is expected, from 0 to {most}")),
    }
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (1e-6..=trace::FACTOR_MAX).contains(&factor) => Ok(factor),
        _ => Err(format!("a factor from 0.000001 to {} is expected", trace::FACTOR_MAX)),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let notes = Notes::default();
    match &args.command {
        Command::Stats(args) => stats(args, &notes)?,
        Command::Convert(args) => {
            let read = if args.sort { trace::open_sorting } else { trace::open_noting };
            write(read(&args.file, &notes)?, &args.output)?;
        }
        Command::Slice(SliceArgs { file, from, to, first, keep_times, output }) => {
            let (from, to, first, keep_times) = (*from, *to, *first, *keep_times);
            let slice = Slice { from, to, first, keep_times };
            write(slice.apply(trace::open_noting(file, &notes)?), output)?;
        }
        Command::Filter(args) => {
            let filter = Filter {
                prompt_min: args.input_min,
                prompt_max: args.input_max,
                output_min: args.output_min,
                output_max: args.output_max,
                classes: args.classes.clone(),
                tenants: args.tenants.clone(),
            };
            write(filter.apply(trace::open_noting(&args.file, &notes)?), &args.output)?;
        }
        Command::Scale(args) => scale(args, &notes)?,
        Command::Synth(SynthArgs { name, requests, seed, per_s, output }) => {
            let mut description = Description::find(name)?;
            if let Some(per_s) = per_s {
                description = description.with_arrivals_per_s(*per_s)?;
            }
            write(description.requests(*seed, *requests), output)?;
        }
    }
    for line in notes.lines() {
        say(&format!("note: {line}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn stats(args: &StatsArgs, notes: &Notes) -> anyhow::Result<()> {
    let stats = trace::stats(trace::open_noting(&args.file, notes)?)?;
    print(&if args.json { stats.to_json() } else { stats.to_string() })?;
    Ok(())
}

fn scale(args: &ScaleArgs, notes: &Notes) -> anyhow::Result<()> {
    if args.rate.is_some() && args.file == Path::new("-") {
        bail!("standard input can't be read twice\nhint: write the trace to a file first");
    }
    let (seed, spread) = (args.seed, args.spread);
    let scaled = match args.rate {
        Some(factor) => {
            // The second reading would count every note again.
            let silent = std::cell::Cell::new(false);
            let reopen = || {
                let unheard = Notes::default();
                trace::open_noting(&args.file, if silent.replace(true) { &unheard } else { notes })
            };
            trace::scale(reopen, Scaling { factor, seed, spread })?
        }
        None => trace::open_noting(&args.file, notes)?,
    };
    let scaled = match args.time {
        Some(factor) => trace::speed_up(scaled, factor),
        None => scaled,
    };
    write(trace::bounded(scaled, &args.file), &args.output)
}

/// Writes to the file or to standard output. A reader of ours that has had enough is no failure.
fn write(requests: Requests, output: &Output) -> anyhow::Result<()> {
    let written = match &output.out {
        Some(path) => trace::save(path, requests),
        None => trace::write_requests(io::stdout().lock(), requests),
    };
    match (written, &output.out) {
        (Err(error), _) if error.is_broken_pipe() => Ok(()),
        (Err(error), _) => Err(error.into()),
        (Ok(0), _) => {
            say("note: no request was written: none of the trace's matches");
            Ok(())
        }
        (Ok(written), Some(path)) => {
            say(&format!("{}: {written} requests", path.display()));
            Ok(())
        }
        (Ok(_), None) => Ok(()),
    }
}
