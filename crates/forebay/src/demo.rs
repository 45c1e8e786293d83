//! Shows the gateway at work: `forebay demo`.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use clap::ValueEnum;
use forebay_gateway::config::Config;
use forebay_gateway::{Running, ServeError};
use forebay_lab::demo::{self, Screen, Seen, Workload};
use forebay_lab::engine::Preset;
use forebay_lab::engine_server::{EngineServer, Options};
use forebay_lab::simulate::Mode;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use crate::talk::{print, say};

/// The engine behind every worker.
const ENGINE: &str = "a100-40gb/qwen3-8b";
/// The seed of the load and of the answers.
const SEED: u64 = 1;
/// The wait that the load accepts.
const WAIT_MS_MAX: u32 = 5_000;

/// Runs a gateway in front of modelled engines, under more load than they can serve.
///
/// Everything is in this one process and on this machine only. It says where the gateway listens
/// and what to try, and then shows in one line what happens, until Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay demo --mode round-robin --for 60")]
pub(crate) struct Args {
    /// Number of workers
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
    /// How many times faster than real the engines are
    #[arg(long, value_name = "FACTOR", default_value_t = 5.0)]
    speed: f64,
    /// How a worker is chosen, and whether requests are held
    #[arg(long, value_name = "MODE", default_value = "hold")]
    mode: Mode,
    /// The load, as a multiple of what the workers can serve
    #[arg(long, value_name = "MULTIPLE", default_value_t = 1.2)]
    load: f64,
    /// What becomes of load that would wait longer than 5 s, in modes that hold
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = Policy::Shed)]
    overload: Policy,
    /// End by itself after so long [default: at Ctrl-C]
    #[arg(long, value_name = "SECONDS")]
    r#for: Option<f64>,
}

/// The policy of the load's class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Policy {
    /// It is refused at arrival
    Shed,
    /// It waits for as long as it takes
    Queue,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    ensure!(
        (0.01..=20.0).contains(&args.load),
        "--load is {}, and must be from 0.01 to 20\nhint: 1 is as much as the workers can serve",
        args.load
    );
    ensure!(
        args.r#for.is_none_or(|secs| (0.0..=1e6).contains(&secs)),
        "--for must be from 0 to 1000000 seconds\nhint: leave it out to end at Ctrl-C"
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(hold(args))?;
    Ok(ExitCode::SUCCESS)
}

/// Starts everything, watches it, and ends it.
async fn hold(args: &Args) -> anyhow::Result<()> {
    let preset = Preset::resolve(ENGINE)?;
    let options = Options {
        workers: args.workers,
        speed: args.speed,
        seed: SEED,
        ..Options::new(preset.clone())
    };
    let model = options.model.clone();
    let engines = EngineServer::start(options)
        .await
        .map_err(|error| anyhow!("the engines can't be started: {error}"))?;
    let workload = Workload::of(&preset, args.workers, (args.load, args.speed), SEED)?;
    let gateway = gateway(args, engines.addrs())?;
    say(&welcome(args, &model, gateway.addr(), &workload));
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM can't be awaited")?;
    let stop = async {
        let enough = async {
            match args.r#for {
                Some(secs) => sleep(Duration::from_secs_f64(secs)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
            () = enough => {}
        }
    };
    let mut screen = Screen::new(&say);
    let seen = demo::watch(gateway.addr(), &model, &workload, &mut screen, stop).await?;
    print(&format!("{}\n{}{}", seen.told(), refused(&seen), farewell(args.mode)))?;
    // Whoever ends a demo does not wait for the answers that are still under way.
    gateway.ask_to_stop();
    gateway.stop()?;
    engines.stop().await;
    Ok(())
}

/// The gateway in front of these engines, at its usual port where that is free.
fn gateway(args: &Args, engines: &[SocketAddr]) -> anyhow::Result<Running> {
    let config = |listen: &str| -> anyhow::Result<Config> {
        let workers: Vec<String> =
            engines.iter().map(|addr| format!("\"http://{addr}\"")).collect();
        let policy = match args.overload {
            Policy::Shed => format!("\"shed\"\nwait_ms_max = {WAIT_MS_MAX}"),
            Policy::Queue => "\"queue\"".to_owned(),
        };
        let text = format!(
            "[listen]\naddress = \"{listen}\"\n\
             [[pool]]\nworker = [{}]\n\
             [[class]]\nname = \"yours\"\noverload = \"queue\"\n\
             [[class]]\nname = \"{}\"\noverload = {policy}\n",
            workers.join(", "),
            demo::CLASS,
        );
        let mut config = Config::parse(Path::new("demo"), &text)?;
        config.pools.iter_mut().for_each(|pool| pool.mode = args.mode);
        Ok(config)
    };
    match forebay_gateway::start(config("127.0.0.1:8080")?) {
        Err(ServeError::Bind { .. }) => Ok(forebay_gateway::start(config("127.0.0.1:0")?)?),
        started => Ok(started?),
    }
}

/// What is there, and what to try.
fn welcome(args: &Args, model: &str, addr: SocketAddr, workload: &Workload) -> String {
    let Args { workers, speed, mode, load, .. } = args;
    let offered = workload.per_s;
    let fate = match (mode, args.overload) {
        (Mode::Hold(_), Policy::Shed) => format!(
            "The load is refused where it would wait longer than {} s;\nyou are not.",
            WAIT_MS_MAX / 1000
        ),
        (Mode::Hold(_), Policy::Queue) => "Nothing is refused.".to_owned(),
        _ => "Nothing is held: what waits, waits inside of the workers, as running.".to_owned(),
    };
    let engines = if *workers == 1 { "engine" } else { "engines" };
    format!(
        "{workers} modelled {engines}, {speed} times faster than real, and a gateway.
Its mode is {mode}. {offered:.1} requests a second come,
{load} times what the simulator says the engines can serve.

  gateway  http://{addr}/v1
  metrics  http://{addr}/metrics
  fleet    http://{addr}/admin/fleet

Ask for something yourself, from another terminal:

  curl -N http://{addr}/v1/chat/completions \\
    -H 'content-type: application/json' -d '{{\"model\":\"{model}\",\"stream\":true,
    \"messages\":[{{\"role\":\"user\",\"content\":\"How full is the basin?\"}}]}}'

running: on workers. waiting: held at the gateway. TTFT: time to the first
token, p50 and p90 of the last 10 s. KV: memory that is committed.
{fate} Ctrl-C ends it.
"
    )
}

/// Why requests were refused, if some were: it was chosen, and can be chosen otherwise.
fn refused(seen: &Seen) -> String {
    seen.shed().map_or_else(String::new, |(shed, offered)| {
        let were = if shed == 1 { "was" } else { "were" };
        format!(
            "{shed} of {offered} {were} refused as `shed`: this demo's load has a class that \
             would\nrather be refused than wait longer than {} s. That is a policy, chosen\n\
             beforehand; with `--overload queue` the same load waits for its turn.\n\n",
            WAIT_MS_MAX / 1000
        )
    })
}

/// What to do next.
fn farewell(mode: Mode) -> String {
    let compare = match mode {
        Mode::Hold(_) => "forebay demo --mode round-robin  the same load, held by nobody",
        _ => "forebay demo                     the same load, held at the gateway",
    };
    format!(
        "Next:\n\n  {compare}\n  \
         forebay drill                    the same question in virtual time\n  \
         docs/guides/in-front-of-vllm.md  your own engines behind it\n  \
         docs/concepts/hold.md            why requests are held\n"
    )
}
