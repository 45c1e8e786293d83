//! Dynamo's published cost, as far as it was read in its packages or measured: the baseline with KV
//! knowledge.
//!
//! `cost(w) = max(0, (P(w) + prompt) / block − cached blocks(w)) + |D(w) ∪ blocks|`, the lowest
//! wins, ties at random. P is uncached tokens dispatched whose first token has not come, D the
//! unique full prompt blocks of unfinished requests. The facts, with the versions they hold for,
//! are in `docs/concepts/evidence.md`; the presets differ in what happens before and after the
//! choice:
//!
//! | preset | before: parked while every P is above | after: refused when every worker is busy |
//! |---|---|---|
//! | `dynamo-1.2` | gate 4.0 steps, first come | D > all blocks, P > 10 M, or P > 10 steps |
//! | `dynamo-1.2-wspt` | gate 4.0 steps, least uncached first | never |
//! | `dynamo-1.6` | never | never |
//!
//! A step is `max_num_batched_tokens`. In reality the busy check follows a load message per
//! booking, with a delay; here it is made right before the booking, which refuses somewhat less
//! than was published.

use std::collections::BTreeSet;

use super::KvPreset;
use crate::fleet::{Fleet, Worker};
use crate::request::{Arrival, RequestId};
use crate::rng::Rng;
use crate::settings::Settings;
use crate::units::Tokens;

/// `--router-queue-threshold`, in steps.
const QUEUE_GATE_STEPS: f64 = 4.0;
/// Busy above this many active prefill tokens.
const BUSY_PREFILL_TOKENS: Tokens = Tokens(10_000_000);
/// Busy above this many steps of active prefill tokens.
const BUSY_PREFILL_STEPS: f64 = 10.0;
/// Busy above this fraction of the worker's blocks in use by prompts.
const BUSY_DECODE_FRACTION: f64 = 1.0;

/// The preset's router queue: (rank, sequence, request).
#[derive(Debug, Default)]
pub(crate) struct Parked {
    order: BTreeSet<(Tokens, u64, RequestId)>,
    sequence: u64,
}

impl Parked {
    /// Parks a request. Its rank is fixed now, as it is there.
    pub(crate) fn park(&mut self, preset: KvPreset, request: RequestId, uncached: Tokens) {
        let rank = if preset == KvPreset::Dynamo12Wspt { uncached } else { Tokens::ZERO };
        self.order.insert((rank, self.sequence, request));
        self.sequence += 1;
    }

    /// The request that goes next.
    pub(crate) fn first(&self) -> Option<RequestId> {
        self.order.first().map(|(_, _, request)| *request)
    }

    /// Takes a request out, wherever it stands.
    pub(crate) fn remove(&mut self, request: RequestId) {
        if self.first() == Some(request) {
            self.order.pop_first();
        } else {
            self.order.retain(|(_, _, parked)| *parked != request);
        }
    }
}

/// Whether the preset parks what comes now.
pub(crate) fn is_gated(preset: KvPreset, fleet: &Fleet) -> bool {
    let above = |worker: &Worker| {
        worker.backlog.as_f64() > QUEUE_GATE_STEPS * worker.profile.batch_tokens_max.as_f64()
    };
    preset != KvPreset::Dynamo16 && fleet.usable().iter().all(|slot| above(fleet.at(*slot)))
}

/// Whether the preset refuses what comes now, since every worker is above one of its thresholds.
pub(crate) fn is_busy(preset: KvPreset, fleet: &Fleet, block_size: u32) -> bool {
    let busy = |worker: &Worker| {
        let blocks = worker.capacity.known().map(|tokens| tokens.0 / u64::from(block_size));
        let step = worker.profile.batch_tokens_max.as_f64();
        blocks
            .is_some_and(|blocks| worker.active.len() as f64 > BUSY_DECODE_FRACTION * blocks as f64)
            || worker.backlog > BUSY_PREFILL_TOKENS
            || worker.backlog.as_f64() > BUSY_PREFILL_STEPS * step
    };
    preset == KvPreset::Dynamo12 && fleet.usable().iter().all(|slot| busy(fleet.at(*slot)))
}

/// The usable worker with the lowest cost; ties are drawn.
pub(crate) fn route(
    fleet: &Fleet,
    arrival: &Arrival,
    settings: &Settings,
    rng: &mut Rng,
) -> Option<u32> {
    let mut best: Vec<u32> = Vec::new();
    let mut lowest = f64::INFINITY;
    for slot in fleet.usable() {
        let cost = cost(fleet, arrival, *slot, settings.block_size);
        if cost < lowest {
            lowest = cost;
            best.clear();
        }
        if cost <= lowest {
            best.push(*slot);
        }
    }
    match best.len() {
        0 | 1 => best.first().copied(),
        ties => best.get(rng.below(ties as u64) as usize).copied(),
    }
}

/// The cost of the request on this worker, in blocks.
pub(crate) fn cost(fleet: &Fleet, arrival: &Arrival, slot: u32, block_size: u32) -> f64 {
    let block = f64::from(block_size);
    let worker = fleet.at(slot);
    let cached = (fleet.cached(arrival, slot, block_size).as_f64() / block).floor();
    let prefill = (worker.backlog + arrival.prompt).as_f64() / block - cached;
    let new_blocks = arrival.blocks.len() - worker.active.depth(&arrival.blocks);
    prefill.max(0.0) + worker.active.len() as f64 + new_blocks as f64
}
