//! Compares routers in front of two real vLLM workers, above what those can take.
//!
//! Each arm in turn stands in front of the same workers, whose caches are emptied between, and gets
//! the same requests at the same moments. Exit codes: 0 every bar held, 1 one fell short, 3 none
//! did, but something could not be run.

mod asked;
mod fleet;
mod table;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use forebay_lab::load::{Settings, Summary, Tally};

use self::asked::Asked;
use self::fleet::Fleet;
use super::arms::{Arm, HOLD, ROUND_ROBIN, SMG_CACHE_AWARE, VLLM_CACHE_AWARE};
use super::page;
use super::places::Places;
use crate::say::say;
use crate::workspace::Workspace;

/// The arms, in the order of the first seed; every second seed runs them backwards, so that a
/// machine that slows down favours none.
const ARMS: [Arm; 4] = [ROUND_ROBIN, HOLD, VLLM_CACHE_AWARE, SMG_CACHE_AWARE];
/// How far above the capacity requests come: the load of the published test.
const OVERLOAD: f64 = 1.2;
/// Where requests are sent.
const PATH: &str = "/v1/completions";
/// A request that costs next to nothing, to see whether somebody serves.
const PROBE: &str = "{\"model\":\"tiny\",\"prompt\":\"a\",\"max_tokens\":1}";

/// What one arm did with one seed.
struct Measured {
    arm: Arm,
    seed: u64,
    summary: Summary,
    /// Of both workers, during the run.
    preemptions: f64,
}

/// Everything that was measured.
struct Found {
    /// Requests a second that the two workers take, and whether it was given instead of measured.
    capacity: f64,
    is_given: bool,
    /// Whether each worker was known to have a CPU of its own.
    is_apart: bool,
    /// Requests a second that came.
    rate: f64,
    requests: u64,
    measured: Vec<Measured>,
    /// Arms that could not be run, and why.
    skipped: Vec<String>,
}

/// Runs the comparison.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> anyhow::Result<ExitCode> {
    let asked = Asked::read(words)?;
    let places = Places::find(workspace);
    let fleet = match Fleet::start(workspace, &places)? {
        Ok(fleet) => fleet,
        Err(why) => {
            say(&format!("skipped: no real engines: {why}"));
            return Ok(ExitCode::from(3));
        }
    };
    let (arms, skipped) = arms(workspace, &places, &asked)?;
    let capacity = match asked.capacity {
        Some(given) => given,
        None => measured_capacity(&places, &fleet)?,
    };
    let rate = capacity * OVERLOAD;
    say(&format!("capacity {capacity:.1} requests/s, so they come at {rate:.1} a second"));
    let mut measured = Vec::new();
    for seed in 1..=asked.seeds {
        let plan = workload::plan(&places, seed, asked.requests, rate)?;
        let forwards = (0..arms.len()).collect::<Vec<_>>();
        let backwards = forwards.iter().rev().copied().collect();
        for place in if seed % 2 == 1 { forwards } else { backwards } {
            let (arm, program) = &arms[place];
            let one = measure(workspace, &fleet, (*arm, program.clone()), seed, &plan)
                .with_context(|| format!("{} with seed {seed}", arm.name))?;
            say(&table::told(&one));
            measured.push(one);
        }
    }
    let is_given = asked.capacity.is_some();
    let (is_apart, requests) = (fleet.is_apart(), asked.requests);
    let found = Found { capacity, is_given, is_apart, rate, requests, measured, skipped };
    let lines = table::lines(&found);
    let text = table::section(&found, &lines);
    page::report(workspace, (page::ENGINES, &text), &lines, &found.skipped, asked.write)
}

/// The arms that were asked for and can be run, and why the others can't.
type Arms = (Vec<(Arm, PathBuf)>, Vec<String>);

fn arms(workspace: &Workspace, places: &Places, asked: &Asked) -> anyhow::Result<Arms> {
    let wanted: Vec<Arm> = ARMS.into_iter().filter(|arm| asked.wants(*arm)).collect();
    if wanted.contains(&HOLD) || wanted.contains(&ROUND_ROBIN) {
        Workspace::must(workspace.cargo(&["build", "--release", "--package", "forebay"]))?;
    }
    let (mut arms, mut skipped) = (Vec::new(), Vec::new());
    for arm in wanted {
        match arm.program(workspace, places) {
            Ok(program) => arms.push((arm, program)),
            Err(why) => {
                say(&format!("skipped {}: {why}", arm.name));
                skipped.push(arm.name.to_owned());
            }
        }
    }
    ensure!(!arms.is_empty(), "no arm can be run");
    Ok((arms, skipped))
}

/// Requests a second that the workers complete while they never lack any: the pace between the ends
/// of the first and of the last fifth, when all came at once.
fn measured_capacity(places: &Places, fleet: &Fleet) -> anyhow::Result<f64> {
    fleet.reset()?;
    let plan = workload::plan(places, 0, 600, 1_000.0)?;
    let mut ends = Vec::new();
    for row in workload::send(&plan, &Settings::for_targets(fleet.targets(PATH)?))? {
        let served = row.e2e().with_context(|| format!("a worker did not serve: {row:?}"))?;
        ends.push((row.scheduled + served).as_secs_f64());
    }
    ends.sort_by(f64::total_cmp);
    let (first, last) = (ends.len() / 5, ends.len() * 4 / 5);
    Ok((last - first) as f64 / (ends[last] - ends[first]))
}

fn measure(
    workspace: &Workspace,
    fleet: &Fleet,
    (arm, program): (Arm, PathBuf),
    seed: u64,
    plan: &[workload::Request],
) -> anyhow::Result<Measured> {
    let (_running, port) = arm.start(workspace, program, &fleet.ports(), (PATH, PROBE))?;
    fleet.reset()?;
    let before = fleet.preemptions()?;
    let target = format!("http://127.0.0.1:{port}{PATH}").parse()?;
    let mut tally = Tally::default();
    for row in workload::send(plan, &Settings::for_targets(vec![target]))? {
        tally.add(&row);
    }
    let preemptions = fleet.preemptions()? - before;
    Ok(Measured { arm, seed, summary: tally.summary(), preemptions })
}
