//! Makes small seeded runs, so that what reads runs is tested without a simulation.

use forebay_core::{HoldOrder, Mode, Moment, RefusalReason, Rng, Span};

use super::criteria::Criteria;
use super::matrix::Cell;
use super::measure::Measured;
use super::{Design, Drill, Run, published};
use crate::simulate::{
    Fate, Promises, RequestRecord, RunRecord, Summary, Thresholds, TimelinePoint,
};

/// What a fake run looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The mode's name.
    pub(crate) mode: &'static str,
    /// Number of workers.
    pub(crate) workers: u32,
    /// Requests offered.
    pub(crate) requests: u64,
    /// How many of them are refused, evenly spread.
    pub(crate) refused: u64,
    /// Time to first token of the first request, in milliseconds.
    pub(crate) ttft_ms: u64,
    /// How many times its start the time to first token has become at the end.
    pub(crate) slope: f64,
    /// Gap between tokens in milliseconds.
    pub(crate) itl_ms: u64,
}

/// A run that meets the default criteria.
pub(crate) const SHAPE: Shape = Shape {
    mode: "hold",
    workers: 2,
    requests: 200,
    refused: 0,
    ttft_ms: 400,
    slope: 1.0,
    itl_ms: 40,
};

/// What a run of this shape comes to.
pub(crate) fn measured(shape: &Shape, seed: u64) -> Measured {
    let record = run(shape, seed);
    Measured::of(&record, &Summary::of(&record, &Thresholds::default()))
}

/// A run of this shape.
pub(crate) fn run(shape: &Shape, seed: u64) -> RunRecord {
    let mut rng = Rng::new(seed);
    let every = shape.requests.checked_div(shape.refused).unwrap_or(u64::MAX);
    let requests = (0..shape.requests).map(|id| {
        let at = Moment(id * 200_000_000);
        let place = id as f64 / shape.requests as f64;
        let grown = shape.ttft_ms as f64 * (1.0 + place * (shape.slope - 1.0));
        let ttft = Span::millis(grown as u64).scaled(0.5 + rng.unit());
        let output = 2 + rng.below(300);
        let first = at + ttft;
        let refused = id % every == every - 1 && id / every < shape.refused;
        RequestRecord {
            id,
            scheduled: at,
            class: (id % 2) as u16,
            tenant: 0,
            prompt: 1000,
            output,
            cached: (!refused).then_some(500),
            fate: if refused { Fate::Refused(RefusalReason::Shed) } else { Fate::Completed },
            attempts: 1,
            core_requests: vec![id],
            worker: (!refused).then_some(0),
            queue: (!refused).then(|| ttft.scaled(0.5)),
            dispatched: (!refused).then(|| at + ttft.scaled(0.5)),
            first_token: (!refused).then_some(first),
            ended: if refused { at } else { first + Span::millis(shape.itl_ms * (output - 1)) },
            predicted_wait: None,
            retry_after: None,
            promises: Promises::default(),
            preemptions: 0,
        }
    });
    RunRecord {
        trace: "fake".to_owned(),
        mode: shape.mode.to_owned(),
        workers: shape.workers,
        seed,
        engine: "fake/engine".to_owned(),
        classes: vec!["public".to_owned(), "research".to_owned()],
        tenants: vec!["all".to_owned()],
        requests: requests.collect(),
        timeline: (0..60).map(|nth| point(nth, shape)).collect(),
        preemptions: 3,
        queue_len_max_seen: 0,
    }
}

fn point(nth: u64, shape: &Shape) -> TimelinePoint {
    let hill = (30 - nth.abs_diff(30)) as u32;
    let held = shape.mode.starts_with("hold");
    TimelinePoint {
        at: Moment(nth * 700_000_000),
        queued: if held { hill * 2 } else { 0 },
        running: 20 + hill,
        waiting: if held { 1 } else { hill * 2 },
        kv_used: 0.3 + 0.02 * f64::from(hill),
    }
}

/// A drill whose arms behave somewhat like real ones: `round-robin` collapses at two workers,
/// `kv:dynamo-1.2` refuses, `hold` does neither.
pub(crate) fn drill(workers: &[u32], seeds: u64, arms: &[Mode]) -> Drill {
    let design = Design {
        trace: "evidence".to_owned(),
        engine: published::ENGINE.to_owned(),
        scale: 1.0,
        published: true,
        workers: workers.to_vec(),
        seeds: (1..=seeds).collect(),
        arms: arms.to_vec(),
        criteria: Criteria::built_in(),
        sensitivity: true,
    };
    let runs = design.cells().into_iter().map(|cell| {
        let record = run(&shape(&cell), cell.seed);
        Run::of(cell, &record, &Summary::of(&record, &Thresholds::default()))
    });
    let runs = runs.collect();
    Drill::of(design, runs)
}

fn shape(cell: &Cell) -> Shape {
    let tight = cell.workers == 2;
    let mode = cell.arm.name();
    let by_name = mode.bytes().map(u64::from).sum::<u64>() % 97;
    let held = matches!(cell.arm, Mode::Hold(HoldOrder::Aged));
    let kv = f64::from(100 + cell.variation.kv_pct + cell.variation.speed_pct) / 100.0;
    Shape {
        mode,
        workers: cell.workers,
        refused: if tight && matches!(cell.arm, Mode::Kv(_)) { 29 } else { 0 },
        slope: if tight && !held { 60.0 } else { 3.0 },
        ttft_ms: ((300 + 3 * by_name) as f64 / kv) as u64,
        itl_ms: if held { 46 } else { 40 },
        ..SHAPE
    }
}
