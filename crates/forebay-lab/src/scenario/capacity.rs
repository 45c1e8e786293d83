//! Measures what a fleet can do of a workload, in requests a second.
//!
//! All requests come at once and are held, first come first served, with every worker in order and
//! no events. The rate is that of the middle of the run: what lies before the first tenth and after
//! the last tenth of the ends is filling and emptying. First-come, since an order by length would
//! make the middle of the run cheaper than its end.

use forebay_core::{HoldOrder, Mode};

use super::{Scenario, workload};
use crate::engine::Preset;
use crate::simulate::{Plan, SimulateError, run};
use crate::trace::TraceRequest;

/// Requests a second that the fleet can serve of this scenario's workload.
pub(super) fn measured(scenario: &Scenario, seed: u64) -> Result<f64, SimulateError> {
    let requests = workload::at_once(scenario, seed)?;
    per_s(scenario.name(), requests, scenario.fleet.workers.clone(), seed)
}

/// Requests a second that these workers can serve of these requests, which all come at once.
pub(crate) fn per_s(
    name: String,
    requests: Vec<TraceRequest>,
    workers: Vec<Preset>,
    seed: u64,
) -> Result<f64, SimulateError> {
    let mode = Mode::Hold(HoldOrder::FirstCome);
    let stream = Box::new(requests.into_iter().map(Ok));
    let mut plan = Plan::new(name, stream, workers, mode);
    plan.seed = seed;
    let run = run(plan)?;
    let mut ends: Vec<f64> =
        run.requests.iter().map(|request| request.ended.0 as f64 / 1e9).collect();
    ends.sort_by(f64::total_cmp);
    let last = ends.len() - 1;
    let (from, to) = (ends.len() / 10, last - ends.len() / 10);
    let span = ends[to] - ends[from];
    // A handful of requests that end together have no middle; the whole run has to do.
    Ok(if span > 0.0 { (to - from) as f64 / span } else { ends.len() as f64 / ends[last] })
}
