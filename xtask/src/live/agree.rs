//! Holds the live gateway against the simulator: the same requests, the same deciding code, two
//! clocks.
//!
//! `forebay engine` runs ten times as fast as real, `forebay serve` stands in front of it, and the
//! trace's requests come ten times as fast. Exit codes: 0 both modes agree, 1 one does not, 3 there
//! is no trace.

use std::fs;
use std::future::pending;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, ensure};
use forebay_core::{Rng, Span};
use forebay_lab::load::{
    Ask, Bodies, Form, Planned, Settings, Summary, Tally, Target, run as send,
};
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
        let lived = live(workspace, &file, arm)?;
        let expected = simulated(workspace, &file, arm)?;
        agrees &= told(arm, &lived, expected);
        say(&format!("  {}", ranged(workspace, &file, arm, &lived)?));
    }
    Ok(if agrees { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The median and the mean time to the first token, simulated, in milliseconds.
fn simulated(workspace: &Workspace, file: &Path, arm: Arm) -> anyhow::Result<(f64, f64)> {
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

/// Orders of arrival that are simulated besides the trace's own.
const ORDERS: u64 = 20;
/// How far an arrival may be from its moment in these, in the trace's milliseconds: what two
/// connections of one client race by, on a clock that runs ten times as fast.
const RACE_MS: u64 = 20;

/// Where the live figures lie among simulations of the same requests that arrive in a slightly
/// other order. Requests of a burst come at the same moment, and which worker round-robin gives
/// which of them decides about its median.
fn ranged(workspace: &Workspace, file: &Path, arm: Arm, lived: &Summary) -> anyhow::Result<String> {
    let text = fs::read_to_string(file).context("cannot read the trace")?;
    let jittered = workspace.target().join("xtask-live").join("jittered.jsonl");
    let (mut medians, mut means) = (Vec::new(), Vec::new());
    for seed in 1..=ORDERS {
        let mut rng = Rng::new(seed);
        let mut rows = Vec::new();
        for line in text.lines() {
            let mut row: serde_json::Value = serde_json::from_str(line)?;
            let at = row["timestamp"].as_u64().context("a row has no timestamp")?;
            let moved = at + rng.below(RACE_MS + 1);
            row["timestamp"] = moved.into();
            rows.push((moved, row));
        }
        rows.sort_by_key(|(at, _)| *at);
        let lines: Vec<String> = rows.into_iter().map(|(_, row)| row.to_string()).collect();
        fs::write(&jittered, lines.join("\n") + "\n").context("cannot write a trace")?;
        let (p50, mean) = simulated(workspace, &jittered, arm)?;
        medians.push(p50);
        means.push(mean);
    }
    let range = |of: &mut Vec<f64>| {
        of.sort_by(f64::total_cmp);
        (of[0], of[of.len() / 2], of[of.len() - 1])
    };
    let ((p50_min, p50, p50_max), (mean_min, mean, mean_max)) =
        (range(&mut medians), range(&mut means));
    let off =
        |live: Option<f64>, of: f64| 100.0 * (live.unwrap_or(f64::INFINITY) * SPEED / of - 1.0);
    Ok(format!(
        "over {ORDERS} orders of arrival within {RACE_MS} ms the simulated p50 is {p50_min:.0} to \
         {p50_max:.0} ms, median {p50:.0} (live {:+.1} %), the mean {mean_min:.0} to \
         {mean_max:.0}, median {mean:.0} (live {:+.1} %)",
        off(lived.ttft_ms.p50.0, p50),
        off(lived.ttft_ms.mean.0, mean),
    ))
}

/// The same requests against the gateway in front of two engines.
fn live(workspace: &Workspace, file: &Path, arm: Arm) -> anyhow::Result<Summary> {
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
    let bodies = Bodies::new(&Ask::new("qwen3-8b", Form::Completion, true));
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
    runtime.block_on(send(plan.into_iter(), &settings, |row| tally.add(&row), pending()));
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
         {:.0} live, {mean:.0} simulated ({:+.1} %); the client was late by {:.1} ms at p99",
        arm.name,
        lived.completed,
        lived.offered,
        live_p50,
        100.0 * off_p50,
        live_mean,
        100.0 * off_mean,
        lived.lag_ms.p99.0.unwrap_or_default(),
    ));
    lived.completed == lived.offered && off_p50.abs() <= TOLERANCE && off_mean.abs() <= TOLERANCE
}
