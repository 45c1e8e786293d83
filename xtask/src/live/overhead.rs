//! Measures what a router costs: CPU a request, latency it adds, memory it holds.
//!
//! Every router stands in front of the same two servers that answer at once, on the same machine,
//! in one sitting. The shared script drives each with `wrk` as fast as it goes and counts the CPU
//! of its processes; our own client then sends at one rate to all, since a latency under a load
//! that each sets for itself compares nothing. Exit codes: 0 every bar held, 1 one fell short, 3
//! none did, but something could not be run.

mod bodies;
mod printed;
mod servers;
mod steady;
mod table;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};

use self::printed::Printed;
use self::servers::Servers;
use super::arms::{
    Arm, HOLD, ROUND_ROBIN, SGLANG_CACHE_AWARE, SMG_CACHE_AWARE, SMG_ROUND_ROBIN, VLLM_CACHE_AWARE,
    VLLM_ROUND_ROBIN,
};
use super::ask::free_port;
use super::page;
use super::places::Places;
use crate::say::say;
use crate::workspace::Workspace;

/// The arms, those that are compared with each other side by side.
const ARMS: [Arm; 7] = [
    HOLD,
    VLLM_ROUND_ROBIN,
    VLLM_CACHE_AWARE,
    ROUND_ROBIN,
    SMG_ROUND_ROBIN,
    SMG_CACHE_AWARE,
    SGLANG_CACHE_AWARE,
];
/// Those of others that only pass requests around.
const ROUND_ROBIN_PEERS: [Arm; 2] = [VLLM_ROUND_ROBIN, SMG_ROUND_ROBIN];
/// Those of others that know prefixes.
const CACHE_AWARE_PEERS: [Arm; 3] = [VLLM_CACHE_AWARE, SMG_CACHE_AWARE, SGLANG_CACHE_AWARE];
/// Where requests are sent.
const PATH: &str = "/v1/chat/completions";
/// A request that costs next to nothing, to see whether somebody serves.
const PROBE: &str =
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":1}";

/// What was measured of one arm.
struct Measured {
    arm: Arm,
    printed: Printed,
    /// Latencies at the same rate for all, one for each kind of body.
    steady: Vec<steady::Latencies>,
}

/// Everything that was measured.
struct Found {
    measured: Vec<Measured>,
    /// The servers with no router before them.
    direct: Vec<steady::Latencies>,
    /// Arms that could not be run.
    skipped: Vec<String>,
}

/// Runs the comparison.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> anyhow::Result<ExitCode> {
    let write = words.contains(&"--write");
    let names: Vec<&str> = words.iter().copied().filter(|word| *word != "--write").collect();
    for name in &names {
        if !ARMS.iter().any(|arm| arm.name.contains(name)) {
            let all = ARMS.map(|arm| arm.name).join(", ");
            bail!("no arm is named {name}\nhint: they are {all}");
        }
    }
    ensure!(
        names.is_empty() || !write,
        "the page holds all arms\nhint: leave the names out, or --write"
    );
    let is_asked = |arm: Arm| names.is_empty() || names.iter().any(|it| arm.name.contains(it));
    let wanted: Vec<Arm> = ARMS.into_iter().filter(|arm| is_asked(*arm)).collect();
    let places = Places::find(workspace);
    let script = match places.shared("peers/overhead.sh") {
        Ok(script) if is_installed("wrk") => script.canonicalize()?,
        Ok(_) => return Ok(skipped("wrk is not installed")),
        Err(why) => return Ok(skipped(&why)),
    };
    let servers = Servers::start(workspace, &places)?;
    let found = measure_all(workspace, &places, &servers, &script, &wanted)?;
    let lines = table::lines(&found);
    let text = table::section(&found, &lines);
    page::report(workspace, (page::OVERHEAD, &text), &lines, &found.skipped, write)
}

fn skipped(why: &str) -> ExitCode {
    say(&format!("skipped: {why}"));
    ExitCode::from(3)
}

fn is_installed(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

fn measure_all(
    workspace: &Workspace,
    places: &Places,
    servers: &Servers,
    script: &Path,
    wanted: &[Arm],
) -> anyhow::Result<Found> {
    if wanted.iter().any(|arm| [HOLD, ROUND_ROBIN].contains(arm)) {
        Workspace::must(workspace.cargo(&["build", "--release", "--package", "forebay"]))?;
    }
    let (mut printed, mut skipped) = (Vec::new(), Vec::new());
    for arm in wanted.iter().copied() {
        match arm.program(workspace, places) {
            Ok(program) => {
                let one = drive(servers, script, arm, &program).context(arm.name)?;
                table::told(arm, &one).iter().for_each(|line| say(line));
                printed.push((arm, program, one));
            }
            Err(why) => {
                say(&format!("skipped {}: {why}", arm.name));
                skipped.push(arm.name.to_owned());
            }
        }
    }
    let mut running = Vec::new();
    for (arm, program, _) in &printed {
        running.push(arm.start(workspace, program.clone(), &servers.ports(), (PATH, PROBE))?);
    }
    // The servers themselves come first: a latency is what a router adds to theirs.
    let ports: Vec<u16> =
        [servers.ports()[0]].into_iter().chain(running.iter().map(|(_, port)| *port)).collect();
    let mut steady = steady::measure(&ports)?.into_iter();
    let direct = steady.next().context("the servers were measured first")?;
    let measured = printed.into_iter().zip(steady);
    let measured =
        measured.map(|((arm, _, printed), steady)| Measured { arm, printed, steady }).collect();
    Ok(Found { measured, direct, skipped })
}

/// Lets the script drive one router as fast as it goes.
fn drive(servers: &Servers, script: &Path, arm: Arm, program: &Path) -> anyhow::Result<Printed> {
    let port = free_port()?;
    let output = Command::new("bash")
        .arg(script)
        .arg(arm.name.replace(' ', "-"))
        .arg(port.to_string())
        .arg(program)
        .args(arm.words(port, &servers.ports())?)
        .stdin(Stdio::null())
        .output()?;
    Printed::read(&String::from_utf8_lossy(&output.stdout))
}
