//! Sends load to a live endpoint: `forebay load`.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use forebay_lab::load::arrivals::{Process, Rate, Think};
use forebay_lab::load::{
    Bodies, Calibration, Ended, Form, ProbeError, Settings, Survey, Tokenizer, View, Words,
    Workload, conduct, only_model, probe, raise_descriptors, repeat, table,
};
use forebay_lab::results::{About, FolderOptions, RunFolder, SCHEMA, Summary};
use forebay_lab::simulate::Client;
use forebay_lab::trace::Notes;
use forebay_lab::trace::synth::Length;
use tokio::signal::unix::{SignalKind, signal};

use crate::talk::{print, say};

mod asked;

/// Sends load to a live endpoint, and says what became of every request.
///
/// Requests go out when they are due, whatever became of earlier ones, unless `--users` is given.
/// Every latency counts from the moment a request was due and is over all that were offered; one
/// that was never served is infinitely late. A run whose own generator was late or short of
/// something is INVALID, and says why. Exit codes: 0 valid, 2 misuse or failure, 3 INVALID.
#[derive(Clone, Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[command(after_help = "\
Examples:
  forebay load --url http://localhost:8000 --synth evidence
  forebay load --url https://vendor.example/v1 --key-env KEY --rate 1..20x60 --for 60
  forebay load --url http://localhost:8080 --users 50 --think exponential:5 --for 120")]
pub(crate) struct Args {
    /// Base URL, with or without /v1; repeat it to take turns
    #[arg(long, value_name = "URL", required = true, help_heading = "Target")]
    url: Vec<String>,
    /// Model to ask for [default: the only one that the target lists]
    #[arg(long, value_name = "NAME", help_heading = "Target")]
    model: Option<String>,
    /// Which endpoint is asked
    #[arg(long, value_name = "NAME", default_value = "chat", help_heading = "Target")]
    endpoint: Endpoint,
    /// Environment variable with the key that is sent as a bearer token
    #[arg(long, value_name = "VARIABLE", help_heading = "Target")]
    key_env: Option<String>,
    /// Header of every request, as `name: value`; may be repeated
    #[arg(long, value_name = "HEADER", help_heading = "Target")]
    header: Vec<String>,
    /// Version of HTTP
    ///
    /// 2 is spoken at once with http:// and agreed on with https://.
    #[arg(long, value_name = "VERSION", default_value = "1.1", help_heading = "Target")]
    http: Version,
    /// Believe the authorities in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", help_heading = "Target", conflicts_with = "insecure")]
    ca_file: Option<PathBuf>,
    /// Believe every certificate
    #[arg(long, help_heading = "Target")]
    insecure: bool,

    /// Requests of this trace
    #[arg(long, value_name = "FILE", help_heading = "Load", conflicts_with = "synth")]
    pub(crate) trace: Option<PathBuf>,
    /// Requests of a synthetic trace: a shipped name or a file
    #[arg(long, value_name = "NAME", help_heading = "Load")]
    synth: Option<String>,
    /// Requests a second: 5, 1..20 (ramp), 2x30,10x60 (steps)
    ///
    /// With a trace, its requests at this rate; else requests of drawn lengths.
    #[arg(long, value_name = "RATE", help_heading = "Load", conflicts_with = "users")]
    pub(crate) rate: Option<Rate>,
    /// How evenly requests come: constant, poisson, or gamma:CV (2.5 is bursty)
    #[arg(long, value_name = "PROCESS", help_heading = "Load", requires = "rate")]
    #[arg(default_value = "poisson")]
    arrivals: Process,
    /// So many users, who each wait for their answer before they ask again
    ///
    /// A closed loop: a slow target is asked less, which hides what it would do to others.
    #[arg(long, value_name = "N", help_heading = "Load")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) users: Option<u32>,
    /// How long a user thinks: seconds, or exponential:SECONDS
    #[arg(long, value_name = "PAUSE", default_value = "0", help_heading = "Load")]
    think: Think,
    /// At most so many requests
    #[arg(long, value_name = "N", help_heading = "Load")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Only what is due within so many seconds [default: 60 where nothing else ends the run]
    #[arg(long = "for", value_name = "SECONDS", help_heading = "Load")]
    pub(crate) lasts: Option<f64>,
    /// A trace's requests so many times as fast
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, help_heading = "Load")]
    scale: f64,
    /// The first N warm the target up and count nowhere
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Load")]
    pub(crate) warmup: u64,
    /// Seed of every draw
    #[arg(long, value_name = "SEED", default_value_t = 1, help_heading = "Load")]
    pub(crate) seed: u64,

    /// Tokens of a prompt: 512, 256..2048, lognormal:MEDIAN,SIGMA, normal:MEAN,DEVIATION
    #[arg(long, value_name = "LENGTH", default_value = "512", help_heading = "Requests")]
    prompt_tokens: Length,
    /// Tokens of an answer
    #[arg(long, value_name = "LENGTH", default_value = "128", help_heading = "Requests")]
    output_tokens: Length,
    /// Begin each drawn prompt with one of so many prefixes
    #[arg(long, value_name = "N", help_heading = "Requests", requires = "prefix_tokens")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    prefixes: Option<u32>,
    /// Tokens of each of them
    #[arg(long, value_name = "TOKENS", help_heading = "Requests", requires = "prefixes")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    prefix_tokens: Option<u32>,
    /// Folder with the model's tokenizer.json, for prompts of exactly their tokens
    ///
    /// Only in a build with the feature `tokenizer`; lengths are calibrated by probes otherwise.
    #[arg(long, value_name = "DIR", help_heading = "Requests")]
    tokenizer: Option<PathBuf>,
    /// Do not learn from probes how many tokens a word is
    ///
    /// Words are taken for a token each, which is exact for `forebay engine`.
    #[arg(long, help_heading = "Requests")]
    no_calibration: bool,
    /// Ask for whole answers instead of streams
    #[arg(long, help_heading = "Requests")]
    no_stream: bool,
    /// Leave out what only vLLM knows: `min_tokens` and `ignore_eos`
    #[arg(long, help_heading = "Requests")]
    plain: bool,
    /// Bound answers by `max_completion_tokens` instead of `max_tokens`
    #[arg(long, help_heading = "Requests")]
    max_completion_tokens: bool,
    /// JSON object whose fields are added to every body
    #[arg(long, value_name = "JSON", help_heading = "Requests")]
    extra_body: Option<String>,
    /// Make prompts that share nothing with those of another number
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Requests")]
    pub(crate) salt: u64,
    /// Header that says a request's class
    #[arg(long, value_name = "NAME", default_value = "x-forebay-class")]
    #[arg(help_heading = "Requests")]
    class_header: String,
    /// Header that says a request's tenant
    #[arg(long, value_name = "NAME", help_heading = "Requests")]
    tenant_header: Option<String>,
    /// Environment variable with the key of a tenant, as TENANT=VARIABLE; may be repeated
    #[arg(long, value_name = "TENANT=VARIABLE", help_heading = "Requests")]
    tenant_key: Vec<String>,

    /// How clients take a refusal, a failure or a lost connection
    ///
    /// `none` go away. `naive` come back at once, up to 10 attempts. `backoff` wait as the official
    /// SDKs do without a header. `retry-after` come back exactly when told, with their ticket.
    /// `openai-python` and `openai-python-old` are the official SDK of today and of before 2026.
    /// All come back after 408, 409, 429 and from 500 on, and none once a stream has begun.
    #[arg(long, value_name = "CLIENT", default_value = "none", help_heading = "Clients")]
    retry: Client,
    /// At most so many retries for each request sent, 0 to 1 [default: no bound]
    #[arg(long, value_name = "SHARE", help_heading = "Clients")]
    retry_budget: Option<f64>,
    /// Share of requests whose client goes away early, 0 to 1
    #[arg(long, value_name = "SHARE", help_heading = "Clients", requires = "cancel_after")]
    cancel_share: Option<f64>,
    /// After how long: seconds, or exponential:SECONDS
    #[arg(long, value_name = "PAUSE", help_heading = "Clients", requires = "cancel_share")]
    cancel_after: Option<Think>,
    /// Seconds that an attempt may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0, help_heading = "Clients")]
    timeout: f64,

    /// So many requests may be under way; what is due beyond them is late
    #[arg(long, value_name = "N", default_value_t = 4096, help_heading = "Generator")]
    in_flight_max: usize,
    /// Own lag at p99 that leaves a run valid, in milliseconds
    ///
    /// Half of it where the machine is busy: tasks wait in over half of the run, or the host takes
    /// over a tenth of the processor time.
    #[arg(long, value_name = "MS", default_value_t = 10.0, help_heading = "Generator")]
    lag_ms_max: f64,
    /// A connection for each request
    #[arg(long, help_heading = "Generator")]
    no_reuse: bool,

    /// Short name of the run
    #[arg(long, value_name = "NAME", default_value = "", help_heading = "Output")]
    label: String,
    /// Folder for requests.jsonl and summary.json
    #[arg(long, value_name = "DIR", default_value = "forebay-load", help_heading = "Output")]
    pub(crate) out: PathBuf,
    /// Leave out the files that AIPerf reads
    #[arg(long, help_heading = "Output")]
    pub(crate) no_aiperf: bool,
    /// Print summary.json instead of a table
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// Which endpoint is asked.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Endpoint {
    /// /v1/chat/completions
    Chat,
    /// /v1/completions
    Completions,
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Version {
    /// HTTP/1.1
    #[value(name = "1.1")]
    One,
    /// HTTP/2
    #[value(name = "2")]
    Two,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let offer = args.offer()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let summary = runtime.block_on(async {
        let ready = args.ready(&offer.settings).await?;
        args.measured(offer, &ready).await
    })?;
    if args.json {
        print(&summary.json())?;
    } else {
        let (text, repeat) = (table(&summary), &summary.about.repeat);
        print(&format!("{text}\n{}: {SCHEMA}\nrepeat: {repeat}\n", args.out.display()))?;
    }
    for invalid in &summary.about.invalid {
        say(&format!("INVALID ({}): {}", invalid.reason, invalid.what));
    }
    Ok(ExitCode::from(if summary.about.is_valid() { 0 } else { 3 }))
}

/// What is offered, with everything that is known before.
pub(crate) struct Offer {
    workload: Workload,
    pub(crate) settings: Settings,
    survey: Survey,
    notes: Vec<String>,
}

/// What the target had to be asked for.
pub(crate) struct Ready {
    model: String,
    bodies: Bodies,
    notes: Vec<String>,
}

impl Args {
    /// Reads all that the arguments name, before anything is sent.
    pub(crate) fn offer(&self) -> anyhow::Result<Offer> {
        let workload = self.workload()?;
        let settings = self.settings(&workload)?;
        RunFolder::check(&self.out)?;
        let notes = Notes::default();
        let survey = workload.survey(&notes)?;
        raise_descriptors();
        Ok(Offer { workload, settings, survey, notes: notes.lines() })
    }

    /// Asks the target for its model, and how many tokens it takes words for.
    pub(crate) async fn ready(&self, settings: &Settings) -> anyhow::Result<Ready> {
        let mut notes = Vec::new();
        let model = match &self.model {
            Some(model) => model.clone(),
            None => only_model(settings).await?,
        };
        let bodies = Bodies::new(&self.ask(&model)?).with_salt(self.salt);
        let bodies = calibrated(self, bodies, settings, &mut notes).await?;
        Ok(Ready { model, bodies, notes })
    }

    /// Sends everything, and writes what came of it.
    pub(crate) async fn measured(&self, offer: Offer, ready: &Ready) -> anyhow::Result<Summary> {
        let Offer { workload, settings, survey, mut notes } = offer;
        notes.extend(ready.notes.iter().cloned());
        if survey.requests.is_some() {
            notes.extend(workload.sent(&ready.bodies)?.notes());
        }
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started_unix_ms = u64::try_from(started.as_millis()).unwrap_or(u64::MAX);
        let options = FolderOptions { started_unix_ms, aiperf: !self.no_aiperf };
        let mut folder = RunFolder::create(&self.out, options)?;
        let fault = Rc::new(RefCell::new(None));
        let bodies = ready.bodies.clone().with_salt(self.salt);
        let plan = workload.plan(bodies, settings.pulse.clone(), &fault)?;
        let view = View::new(survey.last);
        let ended = conduct(plan, &settings, &mut folder, view, stopped()?).await?;
        if let Some(error) = fault.take() {
            return Err(anyhow!(error).context("the trace can no longer be read"));
        }
        let Ended { generator, invalid, notes: seen, was_interrupted } = ended;
        notes.extend(seen);
        let about = About {
            label: self.label.clone(),
            tool: format!("forebay {}", env!("CARGO_PKG_VERSION")),
            targets: settings.targets.iter().map(ToString::to_string).collect(),
            model: ready.model.clone(),
            workload: self.told(&survey),
            plan: survey.plan,
            is_closed_loop: self.users.is_some(),
            retry: self.retry.to_string(),
            seed: self.seed,
            started_unix_ms,
            was_interrupted,
            repeat: repeat(std::iter::once("forebay".to_owned()).chain(std::env::args().skip(1))),
            invalid,
            notes,
            generator: Some(generator),
        };
        Ok(folder.finish(&about)?)
    }
}

/// Bodies that have as many tokens as they should by the target's own count.
async fn calibrated(
    args: &Args,
    bodies: Bodies,
    settings: &Settings,
    notes: &mut Vec<String>,
) -> anyhow::Result<Bodies> {
    let words = match &args.tokenizer {
        Some(folder) => Some(Tokenizer::open(folder)?.words()?),
        None => (!args.no_calibration).then(Words::everyday),
    };
    let bodies = words.into_iter().fold(bodies, Bodies::with_words);
    if args.no_calibration {
        return Ok(bodies);
    }
    match probe(&bodies, settings).await {
        Ok(found) if args.tokenizer.is_some() => {
            let found = found.of_single_tokens()?;
            notes.push(format!(
                "prompts have exactly their tokens by the tokenizer: one a word, and {:.0} around \
                 them by the target's count",
                found.overhead
            ));
            Ok(bodies.with_calibration(found))
        }
        Ok(found) => {
            let Calibration { per_word, overhead, error } = found;
            notes.push(format!(
                "prompts are calibrated: {per_word:.3} tokens a word and {overhead:.0} around \
                 them, within {error:.1}"
            ));
            Ok(bodies.with_calibration(found))
        }
        Err(error @ ProbeError::Unreachable(_)) => Err(error.into()),
        Err(error) => {
            let what = error.to_string();
            let what = what.lines().next().unwrap_or_default();
            say(&format!("note: prompts are not calibrated: {what}"));
            notes.push(format!("prompts are not calibrated, a word counts as a token: {what}"));
            Ok(bodies)
        }
    }
}

/// Comes true when the run is to end early.
pub(crate) fn stopped() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM can't be awaited")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("Ctrl-C can't be awaited")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        say("stopping: what is under way is cancelled, and the files are written");
    })
}

impl Endpoint {
    const fn form(self) -> Form {
        match self {
            Self::Chat => Form::Chat,
            Self::Completions => Form::Completion,
        }
    }
}

/// A share, or why it is none.
fn share(name: &str, value: f64) -> anyhow::Result<f64> {
    if !(0.0..=1.0).contains(&value) {
        bail!("{name} is a share from 0 to 1, not {value}\nhint: 0.1 is one in ten");
    }
    Ok(value)
}
