//! Serves modelled engines that look like vLLM: `forebay engine`.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use forebay_lab::engine::Preset;
use forebay_lab::engine_server::{Death, EngineServer, Fault, Options};
use tokio::signal::unix::{SignalKind, signal};

use crate::talk::{print, say};

/// Serves modelled engines that look like vLLM 0.32.
///
/// The text of their answers is made up; how long they take, what they cache and what they refuse
/// is the model's. One URL a line is printed once all of them listen.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay engine --workers 2 --port 8101 --speed 10")]
pub(crate) struct Args {
    /// Number of workers
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Engine")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    workers: u16,
    /// Preset: name or file
    #[arg(long, value_name = "PRESET", default_value = "a100-40gb/qwen3-8b")]
    #[arg(help_heading = "Engine")]
    preset: String,
    /// How many times faster than real
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, help_heading = "Engine")]
    speed: f64,
    /// Seed of the answers
    #[arg(long, value_name = "SEED", default_value_t = 1, help_heading = "Engine")]
    seed: u64,
    /// Name of the served model [default: the preset's]
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    model: Option<String>,
    /// Longest prompt and answer together [default: all KV]
    #[arg(long, value_name = "TOKENS", help_heading = "Engine")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..))]
    max_model_len: Option<u32>,
    /// Tokens between two events of a stream
    #[arg(long, value_name = "TOKENS", default_value_t = 1, help_heading = "Engine")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    stream_interval: u32,

    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", help_heading = "Sockets")]
    host: IpAddr,
    /// Port of the first worker, the others' follow
    ///
    /// 0 is any free port for each.
    #[arg(long, value_name = "PORT", default_value_t = 8101, help_heading = "Sockets")]
    port: u16,
    /// Port of the first worker's KV events (ZMQ)
    #[arg(long, value_name = "PORT", help_heading = "Sockets")]
    kv_events_port: Option<u16>,
    /// Port of the first worker's replays of KV events
    #[arg(long, value_name = "PORT", requires = "kv_events_port", help_heading = "Sockets")]
    kv_replay_port: Option<u16>,

    /// Answer 503 above so many requests inside a worker
    ///
    /// All faults can be ordered of a running worker as well, by `POST /faults`.
    #[arg(long, value_name = "N", help_heading = "Faults")]
    refuse_above: Option<u32>,
    /// Make steps so many times as long
    #[arg(long, value_name = "FACTOR", help_heading = "Faults")]
    slowdown: Option<f64>,
    /// Make no tokens
    #[arg(long, help_heading = "Faults")]
    stall: bool,
    /// Send no KV events
    #[arg(long, help_heading = "Faults")]
    drop_kv_events: bool,
    /// Die while streaming
    #[arg(long, value_name = "HOW", help_heading = "Faults")]
    die: Option<How>,
    /// Restart in place with an empty cache
    #[arg(long, help_heading = "Faults")]
    restart: bool,
    /// Fail only after so many generated tokens
    #[arg(long, value_name = "TOKENS", help_heading = "Faults")]
    fault_after_tokens: Option<u64>,
    /// Come back so long after death
    #[arg(long, value_name = "MS", help_heading = "Faults")]
    back_after_ms: Option<u64>,
}

/// How an engine dies.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum How {
    /// The engine dies before its server: an error event, then nothing
    ErrorFrame,
    /// The process dies: connections are cut
    Cut,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = args.options()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(options))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(options: Options) -> anyhow::Result<()> {
    let server = EngineServer::start(options).await.map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => "`--port` names another one, 0 any that is free",
            ErrorKind::AddrNotAvailable => "`--host` is an address of this machine",
            ErrorKind::PermissionDenied => {
                "ports below 1024 are the administrator's: name another `--port`"
            }
            _ => "see `forebay engine --help`",
        };
        anyhow!("the engine can't be served: {error}\nhint: {hint}")
    })?;
    for addr in server.addrs() {
        print(&format!("http://{addr}\n"))?;
    }
    for (addr, kv) in server.addrs().iter().zip(server.kv_addrs()) {
        if let Some(live) = kv.live {
            let replay = kv.replay.map_or(String::new(), |at| format!(", replays at tcp://{at}"));
            say(&format!("note: KV events of http://{addr} are at tcp://{live}{replay}"));
        }
    }
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM can't be awaited")?;
    tokio::select! {
        done = tokio::signal::ctrl_c() => done.context("an interrupt can't be awaited")?,
        _ = terminate.recv() => {}
    }
    server.stop().await;
    Ok(())
}

impl Args {
    fn options(&self) -> anyhow::Result<Options> {
        let options = Options::new(Preset::resolve(&self.preset)?);
        Ok(Options {
            workers: self.workers,
            host: self.host,
            port: self.port,
            speed: self.speed,
            seed: self.seed,
            model: self.model.clone().unwrap_or(options.model),
            max_model_len: self.max_model_len,
            stream_interval: self.stream_interval,
            kv_events_port: self.kv_events_port,
            kv_replay_port: self.kv_replay_port,
            fault: self.fault(),
            ..options
        })
    }

    fn fault(&self) -> Fault {
        Fault {
            heal: false,
            refuse_above: self.refuse_above,
            slowdown: self.slowdown,
            stall: self.stall.then_some(true),
            drop_kv_events: self.drop_kv_events.then_some(true),
            die: self.die.map(|how| match how {
                How::ErrorFrame => Death::ErrorFrame,
                How::Cut => Death::Cut,
            }),
            restart: self.restart,
            after_tokens: self.fault_after_tokens,
            back_after_ms: self.back_after_ms,
        }
    }
}
