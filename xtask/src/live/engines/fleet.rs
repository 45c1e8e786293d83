//! Starts the two workers, each on a CPU of its own, or takes those that run already.
//!
//! The processes of a vLLM on a CPU wait for each other by spinning. Two of them that share two
//! CPUs take them from each other for seconds: without any router one gives no token at all while
//! the other gives 3,000 a second, and what is compared then is the operating system's choice. Kept
//! apart they give what two machines would. They also run at a lower priority than the router and
//! the client, whose waiting would otherwise be taken for theirs.

use std::num::NonZero;
use std::process::Command;
use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use forebay_lab::load::Target;

use super::{PATH, PROBE};
use crate::live::ask::{ask, is_well, metric};
use crate::live::places::Places;
use crate::live::process::Running;
use crate::say::say;
use crate::workspace::Workspace;

/// The ports of a worker: HTTP, KV events, their replay.
const PORTS: [[u16; 3]; 2] = [[8101, 5557, 5558], [8102, 5567, 5568]];
/// KV blocks of 32 tokens that a worker has: 8,192 tokens.
const BLOCKS: &str = "256";
/// Sequences that a worker runs at once.
const SEQS: &str = "64";
/// How much lower than the router's the workers' priority is.
const NICE: &str = "5";
/// How long a worker may take to start: it imports for a minute on two slow cores.
const START_MAX: Duration = Duration::from_mins(5);
/// How long the last requests of a run may take to leave the workers.
const IDLE_MAX: Duration = Duration::from_mins(2);

/// Two real vLLM workers. Those that it started end with it.
pub(super) struct Fleet {
    ports: [u16; 2],
    /// Whether each has a CPU of its own, as far as it is known.
    is_apart: bool,
    _started: Vec<Running>,
}

impl Fleet {
    /// Two workers that serve, or why there are none.
    pub(super) fn start(
        workspace: &Workspace,
        places: &Places,
    ) -> anyhow::Result<Result<Self, String>> {
        let found = places.shared("engines/run_vllm.sh").and_then(|script| {
            let model = places.shared("captures/models/tiny-qwen2")?;
            places.engine("vllm/bin/vllm")?;
            Ok((script, model))
        });
        let (script, model) = match found {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        let model = model.canonicalize().context("cannot resolve the model's folder")?;
        let script = script.canonicalize().context("cannot resolve the script's path")?;
        let is_apart = can_keep_apart();
        if !is_apart {
            say("the workers share their CPUs: `taskset` or a second CPU is missing");
        }
        let mut started = Vec::new();
        for (cpu, [port, kv, replay]) in PORTS.into_iter().enumerate() {
            if serves(port) {
                say(&format!("taking the worker that runs on port {port}"));
                continue;
            }
            let mut command = Command::new("nice");
            command.args(["-n", NICE]);
            if is_apart {
                command.args(["taskset", "--cpu-list", &cpu.to_string()]);
            }
            command.arg("bash").arg(&script).args([port, kv, replay].map(|port| port.to_string()));
            command.env("BLOCKS", BLOCKS).env("SEQS", SEQS);
            command.env("ENG", places.engines()).env("MODEL", &model);
            let name = format!("vllm {port}");
            started.push((port, Running::start(workspace, &name, command)?));
        }
        for (port, running) in &mut started {
            say(&format!("waiting for the worker on port {port}"));
            running.wait_until(START_MAX, || serves(*port))?;
        }
        let ports = PORTS.map(|[port, ..]| port);
        let is_apart = is_apart && started.len() == PORTS.len();
        let started = started.into_iter().map(|(_, running)| running).collect();
        Ok(Ok(Self { ports, is_apart, _started: started }))
    }

    /// Whether each is known to have a CPU of its own.
    pub(super) const fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// The ports that serve.
    pub(super) const fn ports(&self) -> [u16; 2] {
        self.ports
    }

    /// The workers themselves as targets.
    pub(super) fn targets(&self, path: &str) -> anyhow::Result<Vec<Target>> {
        let target = |port| Ok(format!("http://127.0.0.1:{port}{path}").parse()?);
        self.ports.into_iter().map(target).collect()
    }

    /// Waits until both have nothing to do, and empties their caches.
    pub(super) fn reset(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while self.sum("vllm:num_requests_running")? + self.sum("vllm:num_requests_waiting")? > 0.0
        {
            ensure!(begun.elapsed() < IDLE_MAX, "the workers never come to rest");
            sleep(Duration::from_millis(200));
        }
        for port in self.ports {
            let (status, _) = ask(port, "POST", "/reset_prefix_cache", "")?;
            ensure!(status == 200, "the worker on port {port} keeps its cache: {status}");
        }
        Ok(())
    }

    /// How often the workers have taken a request's memory away, since they started.
    pub(super) fn preemptions(&self) -> anyhow::Result<f64> {
        self.sum("vllm:num_preemptions_total")
    }

    fn sum(&self, name: &str) -> anyhow::Result<f64> {
        self.ports.into_iter().map(|port| metric(port, name)).sum()
    }
}

/// Whether there is a CPU for each worker, and a program that keeps it there.
fn can_keep_apart() -> bool {
    let cpus = available_parallelism().map_or(1, NonZero::get);
    let taskset = Command::new("taskset").arg("--version").output();
    cpus >= PORTS.len() && taskset.is_ok_and(|output| output.status.success())
}

fn serves(port: u16) -> bool {
    is_well(port, "POST", PATH, PROBE)
}
