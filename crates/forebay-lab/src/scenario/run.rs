//! Runs a scenario once: the capacity if a load asks for it, its own run, then each arm it is
//! compared with.

use forebay_core::{Input, Mode, Moment, Output, PoolId, Settings, Span};
use forebay_service::Door;

use super::expect::ArmFigures;
use super::verdict::Verdict;
use super::witness::Witness;
use super::workload::Pace;
use super::{Arm, Rate, Scenario, What, capacity, workload};
use crate::simulate::{
    Fate, Happening, NoTap, Plan, RunRecord, Scripted, SimulateError, Summary, Tap, Thresholds,
    run_tapped,
};
use crate::trace::TraceRequest;

/// The name of the scenario's own run among the arms.
const OWN: &str = "the scenario";

/// Runs it with this seed, and with every load times this factor. Its own run may be listened to.
pub(super) fn run(
    scenario: &Scenario,
    seed: u64,
    load: f64,
    listener: &mut dyn Tap,
) -> Result<Verdict, SimulateError> {
    let is_relative = scenario.streams.iter().any(|one| matches!(one.rate, Rate::Load(_)));
    let capacity = if is_relative { capacity::measured(scenario, seed)? } else { 0.0 };
    let pace = Pace { capacity, load };
    let requests = workload::drawn(scenario, seed, pace)?;
    let own = Arm {
        name: OWN.to_owned(),
        mode: scenario.fleet.mode,
        workers: scenario.fleet.workers.len(),
        tenants: Vec::new(),
        events: true,
        client: scenario.client,
    };
    let mut broken = Vec::new();
    let mut arms = Vec::new();
    for arm in std::iter::once(&own).chain(&scenario.arms) {
        let is_own = arm.name == OWN;
        let listener: &mut dyn Tap = if is_own { &mut *listener } else { &mut NoTap };
        let mut tap = Both { witness: Witness::default(), listener };
        let record = run_tapped(plan(scenario, arm, seed, &requests), &mut tap)?;
        let (figures, faults) = judged(scenario, arm, &record, tap.witness);
        let prefix = if is_own { String::new() } else { format!("{}: ", arm.name) };
        broken.extend(faults.into_iter().map(|fault| format!("{prefix}{fault}")));
        arms.push(figures);
    }
    let checked: Vec<_> = scenario.expectations.iter().map(|one| one.check(&arms)).collect();
    broken.extend(checked.iter().filter(|one| !one.holds).map(|one| one.text.clone()));
    let figures = checked.into_iter().filter(|one| one.holds).map(|one| one.text).collect();
    Ok(Verdict::new(scenario, seed, pace, figures, broken))
}

/// What an arm came to, and what was neither safe nor live about it.
fn judged(
    scenario: &Scenario,
    arm: &Arm,
    record: &RunRecord,
    witness: Witness,
) -> (ArmFigures, Vec<String>) {
    let drained = drained(scenario, arm, record);
    let mut faults: Vec<String> = witness.verdict().into_iter().collect();
    let held = record.requests.iter().filter(|one| one.fate == Fate::Abandoned).count();
    if scenario.patience.is_none() && held > 0 {
        faults.push(format!("{held} requests were still there when nothing could end them"));
    } else if drained.as_secs_f64() > scenario.drain_s_max {
        let most = scenario.drain_s_max;
        faults.push(format!("it took {drained} to drain, above {most} s"));
    }
    let summary = Summary::of(record, &Thresholds::default());
    let drained_s = drained.as_secs_f64();
    (ArmFigures { name: arm.name.clone(), summary, drained_s }, faults)
}

/// The witness, and somebody else who listens.
struct Both<'a> {
    witness: Witness,
    listener: &'a mut dyn Tap,
}

impl Tap for Both<'_> {
    fn begins(&mut self, pool: PoolId, settings: &Settings, seed: u64) {
        self.listener.begins(pool, settings, seed);
        self.witness.begins(pool, settings, seed);
    }
    fn told(&mut self, pool: PoolId, now: Moment, input: &Input) {
        self.listener.told(pool, now, input);
        self.witness.told(pool, now, input);
    }
    fn said(&mut self, pool: PoolId, now: Moment, output: &Output) {
        self.listener.said(pool, now, output);
        self.witness.said(pool, now, output);
    }
}

/// From the moment when load and faults had stopped to the last end.
fn drained(scenario: &Scenario, arm: &Arm, record: &RunRecord) -> Span {
    let arrivals = record.requests.iter().map(|one| one.scheduled).max();
    let events = scenario.events.iter().filter(|_| arm.events).map(|one| Moment::START + one.at);
    let stopped = arrivals.into_iter().chain(events).max().unwrap_or(Moment::START);
    let ended = record.requests.iter().map(|one| one.ended).max().unwrap_or(stopped);
    ended.since(stopped)
}

fn plan(scenario: &Scenario, arm: &Arm, seed: u64, requests: &[TraceRequest]) -> Plan {
    let of_arm = |request: &&TraceRequest| {
        arm.tenants.is_empty()
            || request.tenant.as_ref().is_some_and(|tenant| {
                arm.tenants.iter().any(|name| name.as_str() == tenant.as_ref())
            })
    };
    let requests: Vec<TraceRequest> = requests.iter().filter(of_arm).cloned().collect();
    let fleet = &scenario.fleet;
    let workers = fleet.workers[..arm.workers].to_vec();
    let block_size = workers[0].block_size;
    let stream = Box::new(requests.into_iter().map(Ok));
    let mut plan = Plan::new(scenario.name(), stream, workers, arm.mode);
    plan.knowledge = fleet.knowledge;
    plan.seed = seed;
    plan.service = scenario.service.clone();
    plan.expected_output = fleet.expected_output;
    plan.capacity_error_pct = fleet.capacity_error_pct;
    plan.capacity_untold = !fleet.capacity_told;
    plan.client = arm.client;
    plan.patience = scenario.patience;
    if arm.events {
        let scripted = scenario.events.iter().map(|event| Scripted {
            at: event.at,
            what: happening(scenario, arm.mode, block_size, &event.what),
        });
        plan.script = scripted.collect();
    }
    plan
}

fn happening(scenario: &Scenario, mode: Mode, block_size: u32, what: &What) -> Happening {
    let settings = |mode: Mode| {
        let (knowledge, expected_output) =
            (scenario.fleet.knowledge, scenario.fleet.expected_output);
        let door = Door { mode, knowledge, block_size, expected_output };
        scenario.service.settings(PoolId(0), door)
    };
    match what {
        What::Lost(who) => Happening::Lost(*who),
        What::Back(who) => Happening::Back(*who),
        What::Slowed(who, factor) => Happening::Slowed(*who, *factor),
        What::Drained(who) => Happening::Drained(*who),
        What::CapacityTold(who) => Happening::CapacityTold(*who),
        What::Mode(mode) => Happening::Reconfigured(Box::new(settings(*mode))),
        What::ShutDown => {
            let mut settings = settings(mode);
            settings.accepting = false;
            Happening::Reconfigured(Box::new(settings))
        }
    }
}
