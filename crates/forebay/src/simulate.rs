//! Runs a trace over a simulated fleet: `forebay simulate`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use forebay_lab::engine::Preset;
use forebay_lab::recording::RecordingTap;
use forebay_lab::simulate::{
    Client, Knowledge, Mode, Plan, RunRecord, Summary, Thresholds, Tokens, fleet, run as simulate,
    run_tapped, table, write_rows,
};
use forebay_lab::trace::synth::Description;
use forebay_lab::trace::{Notes, Requests, Slice, open_noting};
use forebay_lab::whole_file::{WholeFile, apart};
use forebay_service::Service;

use crate::talk::{print, say};

/// Runs a trace over a simulated fleet and says what it would cost.
///
/// Every latency is over all requests that were offered, from their scheduled time; one that was
/// never served counts as infinitely late.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay simulate --synth evidence --workers 2 --mode hold")]
pub(crate) struct Args {
    /// Traces, one run for each; `-` is standard input
    #[arg(long, value_name = "FILE", num_args = 1.., required_unless_present = "synth")]
    #[arg(help_heading = "Load", conflicts_with = "synth")]
    trace: Vec<PathBuf>,
    /// A synthetic trace: a shipped name or a file
    #[arg(long, value_name = "NAME", help_heading = "Load")]
    synth: Option<String>,
    /// At most so many requests of each trace
    #[arg(long, value_name = "N", help_heading = "Load")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Rate in multiples of the trace's
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, help_heading = "Load")]
    scale: f64,
    /// How clients take a 503 or 429
    ///
    /// `none` go away. `naive` come back at once, up to 10 attempts. `backoff` wait as the official
    /// SDKs do without a header. `retry-after` come back exactly when told, with their ticket.
    /// `openai-python` and `openai-python-old` are the official SDK of today and of before 2026.
    #[arg(long, value_name = "CLIENT", default_value = "none", help_heading = "Load")]
    retry: Client,

    /// Number of workers of that preset
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = "Fleet")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    workers: u32,
    /// Preset: name or file
    #[arg(long, value_name = "PRESET", default_value = "a100-40gb/qwen3-8b")]
    #[arg(help_heading = "Fleet")]
    engine: String,
    /// One worker of this preset; repeat it for a mixed fleet
    #[arg(long, value_name = "PRESET", help_heading = "Fleet")]
    #[arg(conflicts_with_all = ["workers", "engine"])]
    worker: Vec<String>,

    /// How a worker is chosen
    ///
    /// One of `round-robin`, `random`, `power-of-two`, `least-loaded`, `least-work`, `session`,
    /// `kv:dynamo-1.2`, `kv:dynamo-1.2-wspt`, `kv:dynamo-1.6`, `hold`, `hold:first-come`.
    #[arg(long, value_name = "MODE", default_value = "hold", help_heading = "Policy")]
    mode: Mode,
    /// Classes, tenants and pools
    #[arg(long, value_name = "FILE", help_heading = "Policy")]
    classes: Option<PathBuf>,
    /// Constant in place of the learned mean output
    #[arg(long, value_name = "TOKENS", help_heading = "Policy")]
    expected_output: Option<u64>,
    /// What tells of the caches
    ///
    /// `events` are the engines' own; `own` is what the core dispatched.
    #[arg(hide_possible_values = true)]
    #[arg(long, value_name = "SOURCE", default_value = "events", help_heading = "Policy")]
    knowledge: Source,
    /// Error of the believed capacity
    ///
    /// The core believes that workers hold true × (1 + PCT/100) tokens.
    #[arg(long, value_name = "PCT", default_value_t = 0.0, help_heading = "Policy")]
    #[arg(allow_negative_numbers = true)]
    capacity_error: f64,

    /// Seed of every draw
    #[arg(long, value_name = "SEED", default_value_t = 1, help_heading = "Output")]
    seed: u64,
    /// One JSON object a line and run
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Write each request as a line of JSON
    ///
    /// `core_requests` are the request's numbers in a recording, one for each time it came to a
    /// pool: what `forebay explain` takes.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    requests_out: Option<PathBuf>,
    /// Record the run
    ///
    /// For `forebay replay` and `forebay explain`. Other pools' recordings get names beside it.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    record: Option<PathBuf>,
}

/// Where knowledge of the caches comes from.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Source {
    /// The engines' events
    Events,
    /// The core's own decisions
    Own,
}

impl Source {
    const fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Own => "own",
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.record.is_some() && args.trace.len() > 1 {
        anyhow::bail!("a recording holds one run\nhint: name one trace with `--record`");
    }
    let service = match &args.classes {
        Some(file) => Service::load(file, &Preset::faults_of)?,
        None => Service::single(),
    };
    let workers = args.fleet(&service)?;
    args.check_files(&service)?;
    let mut rows = args.requests_out.as_deref().map(WholeFile::create).transpose()?;
    for load in args.loads() {
        let notes = Notes::default();
        let (trace, requests) = args.open(&load, &notes)?;
        let plan = Plan {
            knowledge: match args.knowledge {
                Source::Events => Knowledge::Events,
                Source::Own => Knowledge::Own,
            },
            seed: args.seed,
            service: service.clone(),
            scale: args.scale,
            expected_output: args.expected_output.map(Tokens),
            capacity_error_pct: args.capacity_error,
            client: args.retry,
            ..Plan::new(trace, requests, workers.clone(), args.mode)
        };
        let record = match &args.record {
            Some(file) => recorded(plan, file)?,
            None => simulate(plan)?,
        };
        let summary = Summary::of(&record, &Thresholds::default());
        if let Some(rows) = &mut rows {
            write_rows(&record, rows)?;
        }
        let text = if args.json { summary.json() + "\n" } else { table(&summary) };
        let is_read = print(&text)?;
        for note in notes.lines() {
            say(&format!("note: {note}"));
        }
        say(&format!("repeat: {}", args.repeat(&load)?));
        if !is_read && rows.is_none() {
            break;
        }
    }
    if let Some(rows) = rows {
        rows.finish()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a run and records it.
fn recorded(plan: Plan, file: &Path) -> anyhow::Result<RunRecord> {
    let mut tap = RecordingTap::create(file, &plan.service)?;
    let record = run_tapped(plan, &mut tap)?;
    if !tap.finish()? {
        say("note: the recording reached its bound, and the end of the run is not in it");
    }
    Ok(record)
}

/// Where one run's requests come from.
enum Load<'a> {
    Trace(&'a Path),
    Synth(&'a str),
}

impl Args {
    fn fleet(&self, service: &Service) -> anyhow::Result<Vec<Preset>> {
        if self.worker.is_empty() {
            let preset = Preset::resolve(&self.engine)?;
            return Ok(fleet(&preset, self.workers, &service.limits)?);
        }
        self.worker.iter().map(|name| Ok(Preset::resolve(name)?)).collect()
    }

    /// Refuses outputs that would replace each other or an input, before there is any.
    fn check_files(&self, service: &Service) -> anyhow::Result<()> {
        let rows = self.requests_out.iter().map(|file| ("--requests-out", file.clone()));
        let recordings = self.record.iter().flat_map(|file| RecordingTap::files(file, service));
        let outputs: Vec<_> = rows.chain(recordings.map(|file| ("--record", file))).collect();
        let names = self.worker.iter().chain([&self.engine]).chain(&self.synth).map(Path::new);
        let files = self.trace.iter().chain(&self.classes).map(PathBuf::as_path);
        Ok(apart(&outputs, &files.chain(names).collect::<Vec<_>>())?)
    }

    fn loads(&self) -> Vec<Load<'_>> {
        match &self.synth {
            Some(name) => vec![Load::Synth(name)],
            None => self.trace.iter().map(|file| Load::Trace(file)).collect(),
        }
    }

    /// The name of a load and its requests.
    fn open(&self, load: &Load<'_>, notes: &Notes) -> anyhow::Result<(String, Requests)> {
        Ok(match load {
            Load::Trace(file) => {
                let name = file.file_name().unwrap_or(file.as_os_str());
                (name.to_string_lossy().into_owned(), self.first(open_noting(file, notes)?))
            }
            Load::Synth(name) => {
                let description = Description::find(name)?;
                let requests = description.requests(self.seed, self.requests);
                (description.name.clone(), requests)
            }
        })
    }

    /// As many requests as are asked for.
    fn first(&self, requests: Requests) -> Requests {
        match self.requests {
            Some(first) => Slice { first: Some(first), ..Slice::default() }.apply(requests),
            None => requests,
        }
    }

    /// The line that repeats the run of one load.
    fn repeat(&self, load: &Load<'_>) -> Result<String, std::fmt::Error> {
        let mut line = "forebay simulate".to_owned();
        let mut flag = |name: &str, value: &str| write!(line, " --{name} {}", quoted(value));
        match load {
            Load::Trace(file) => flag("trace", &file.to_string_lossy())?,
            Load::Synth(name) => flag("synth", name)?,
        }
        if let Some(requests) = self.requests {
            flag("requests", &requests.to_string())?;
        }
        if self.worker.is_empty() {
            flag("workers", &self.workers.to_string())?;
            flag("engine", &self.engine)?;
        }
        self.worker.iter().try_for_each(|preset| flag("worker", preset))?;
        flag("mode", self.mode.name())?;
        flag("seed", &self.seed.to_string())?;
        if let Some(file) = &self.classes {
            flag("classes", &file.to_string_lossy())?;
        }
        flag("scale", &self.scale.to_string())?;
        if let Some(tokens) = self.expected_output {
            flag("expected-output", &tokens.to_string())?;
        }
        flag("knowledge", self.knowledge.name())?;
        flag("capacity-error", &self.capacity_error.to_string())?;
        flag("retry", self.retry.name())?;
        if self.json {
            line.push_str(" --json");
        }
        Ok(line)
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:+,@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
