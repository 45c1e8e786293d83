//! Holds the live gateway against the simulator: the same requests, the same deciding code, two
//! clocks.
//!
//! `forebay engine` runs ten times as fast as real, `forebay serve` stands in front of it, and the
//! trace's requests come ten times as fast. Exit codes: 0 both modes agree, 1 one does not, 3 there
//! is no trace.

use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, ensure};
use forebay_core::Span;
use forebay_lab::load::{Bodies, Form, Planned, Settings, Summary, Tally, Target, run as send};
use forebay_lab::trace::open;

use super::arms::{Arm, HOLD, ROUND_ROBIN};
use super::ask::{free_port, is_well};
use super::places::Places;
use super::process::Running;
use crate::say::say;
use crate::workspace::Workspace;

/// How many times faster than real everything goes.
const SPEED: f64 = 10.0;
/// How far the live figure may be from the simulated one, as a part of it.
const TOLERANCE: f64 = 0.25;
/// Where requests are sent.
const PATH: &str = "/v1/completions";
/// A request that costs next to nothing, to see whether somebody serves.
const PROBE: &str = "{\"model\":\"qwen3-8b\",\"prompt\":\"a\",\"max_tokens\":1}";
/// How long the engines may take to listen.
const READY_MAX: Duration = Duration::from_secs(30);

/// Runs the comparison for both modes, on a trace of the shared data.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> anyhow::Result<ExitCode> {
    let trace = match words {
        [] => "seedlike-1",
        [trace] => trace,
        _ => anyhow::bail!("give at most the name of one trace"),
    };
    let file = match Places::find(workspace).shared(&format!("data/{trace}.jsonl")) {
        Ok(file) => file,
        Err(why) => {
            say(&format!("skipped: no trace: {why}"));
            return Ok(ExitCode::from(3));
        }
    };
    Workspace::must(workspace.cargo(&["build", "--release", "--package", "forebay"]))?;
    let mut agrees = true;
    for arm in [HOLD, ROUND_ROBIN] {
        let expected = simulated(workspace, &file, arm)?;
        let lived = live(workspace, &file, arm)?;
        agrees &= told(arm, &lived, expected);
    }
    Ok(if agrees { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The median and the mean time to the first token, simulated, in milliseconds.
fn simulated(
    workspace: &Workspace,
    file: &std::path::Path,
    arm: Arm,
) -> anyhow::Result<(f64, f64)> {
    let mut command = Command::new(workspace.target().join("release").join("forebay"));
    command.args(["simulate", "--workers", "2", "--json", "--mode", arm.mode(), "--trace"]);
    let output = command.arg(file).output().context("cannot run the simulator")?;
    ensure!(output.status.success(), "the simulator failed");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let figure = |name: &str| {
        summary["ttft_ms"][name].as_f64().context("the simulator's summary has no such figure")
    };
    Ok((figure("p50")?, figure("mean")?))
}

/// The same requests against the gateway in front of two engines.
fn live(workspace: &Workspace, file: &std::path::Path, arm: Arm) -> anyhow::Result<Summary> {
    let program = workspace.target().join("release").join("forebay");
    let ports = [free_port()?, free_port()?];
    let mut engines = Vec::new();
    for (nth, port) in ports.iter().enumerate() {
        let mut command = Command::new(&program);
        command.args(["engine", "--workers", "1", "--speed", &SPEED.to_string(), "--port"]);
        command.arg(port.to_string());
        let mut engine = Running::start(workspace, &format!("engine {nth}"), command)?;
        engine.wait_until(READY_MAX, || is_well(*port, "GET", "/health", ""))?;
        engines.push(engine);
    }
    let (gateway, port) = arm.start(workspace, program, &ports, (PATH, PROBE))?;
    let bodies = Bodies { model: "qwen3-8b".to_owned(), form: Form::Completion, stream: true };
    let mut plan = Vec::new();
    for (nth, request) in (0..).zip(open(file)?) {
        let request = request?;
        plan.push(Planned {
            at: Span((request.at.0 as f64 / SPEED) as u64),
            body: bodies.body(nth, &request),
            ..Planned::default()
        });
    }
    let target: Target = format!("http://127.0.0.1:{port}{PATH}").parse()?;
    let settings = Settings::for_targets(vec![target]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut tally = Tally::default();
    runtime.block_on(send(plan.into_iter(), &settings, |record| tally.add(&record)));
    drop(gateway);
    Ok(tally.summary())
}

/// Says what came of one mode, and whether it is within the tolerance.
fn told(arm: Arm, lived: &Summary, (p50, mean): (f64, f64)) -> bool {
    let scaled = |figure: Option<f64>| figure.unwrap_or(f64::INFINITY) * SPEED;
    let (live_p50, live_mean) = (scaled(lived.ttft_ms.p50.0), scaled(lived.ttft_ms.mean.0));
    let (off_p50, off_mean) = (live_p50 / p50 - 1.0, live_mean / mean - 1.0);
    say(&format!(
        "{}: {} of {} completed; TTFT p50 {:.0} ms live, {p50:.0} simulated ({:+.1} %); mean \
         {:.0} live, {mean:.0} simulated ({:+.1} %); the client was late by {:?} ms at p99",
        arm.name,
        lived.completed,
        lived.offered,
        live_p50,
        100.0 * off_p50,
        live_mean,
        100.0 * off_mean,
        lived.lag_ms.p99.0,
    ));
    lived.completed == lived.offered && off_p50.abs() <= TOLERANCE && off_mean.abs() <= TOLERANCE
}
