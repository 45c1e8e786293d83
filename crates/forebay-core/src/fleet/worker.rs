//! One worker as the core sees it: what it was told about, what it was sent, what is left.

use std::collections::BTreeSet;

use super::active::ActiveBlocks;
use super::capacity::Capacity;
use super::gate::Gate;
use super::mirror::Mirror;
use super::projection::Projection;
use crate::input::WorkerProfile;
use crate::queue::Held;
use crate::request::{Arrival, RequestId, WorkerId};
use crate::settings::{GateSettings, Settings};
use crate::units::{Moment, Tokens};

/// A request on a worker.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) arrival: Arrival,
    /// When its age began.
    pub(crate) arrived: Moment,
    pub(crate) slot: u32,
    pub(crate) dispatched: Moment,
    /// Uncached tokens it was dispatched with; in the worker's backlog until the first token.
    pub(crate) uncached: Tokens,
    /// Uncached tokens up to and with its own, when it was dispatched.
    pub(crate) prefill: Tokens,
    /// Output that is reserved for it.
    pub(crate) reserve: Tokens,
    /// All KV tokens it needs: at first what was expected at its dispatch.
    pub(crate) need: Tokens,
    /// What was expected at its dispatch.
    pub(crate) need_at_dispatch: Tokens,
    /// Of that, the prompt: its tail, and the blocks that nobody held before it.
    pub(crate) own: Tokens,
    pub(crate) first_token: Option<Moment>,
    /// Something of its answer may have been sent, so that it can't be repeated.
    pub(crate) sent: bool,
    /// Until when it may wait, if its worker does not take it.
    pub(crate) deadline: Option<Moment>,
    pub(crate) attempt: u32,
    /// The part of its worker that it was expected to need, which its class and tenant hold.
    pub(crate) held: Held,
}

/// One worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) profile: WorkerProfile,
    pub(crate) capacity: Capacity,
    pub(crate) gate: Gate,
    pub(crate) healthy: bool,
    pub(crate) draining: bool,
    /// It would not take a request, or broke one, and takes none before this moment.
    pub(crate) marked_until: Option<Moment>,
    pub(crate) active: ActiveBlocks,
    /// Prompt tokens of its requests outside of full blocks.
    pub(crate) tails: Tokens,
    /// Output tokens reserved for its requests.
    pub(crate) reserved: Tokens,
    /// Uncached tokens dispatched whose first token has not come.
    pub(crate) backlog: Tokens,
    pub(crate) running: BTreeSet<RequestId>,
    /// What its requests will hold, as of its last change.
    pub(crate) projection: Projection,
    pub(crate) mirror: Mirror,
}

impl Worker {
    pub(crate) fn new(
        id: WorkerId,
        profile: WorkerProfile,
        gate: &GateSettings,
        now: Moment,
    ) -> Self {
        Self {
            id,
            profile,
            capacity: Capacity::new(profile.kv_capacity),
            gate: Gate::new(gate, now),
            healthy: true,
            draining: false,
            marked_until: None,
            active: ActiveBlocks::default(),
            tails: Tokens::ZERO,
            reserved: Tokens::ZERO,
            backlog: Tokens::ZERO,
            running: BTreeSet::new(),
            projection: Projection::default(),
            mirror: Mirror::default(),
        }
    }

    /// KV tokens that its requests hold and will hold on average.
    pub(crate) fn committed(&self, block_size: u32) -> Tokens {
        self.prompts(block_size) + self.reserved
    }

    /// KV tokens that may be committed.
    pub(crate) fn limit(&self) -> Tokens {
        Tokens((self.capacity.tokens().as_f64() * self.gate.fraction()) as u64)
    }

    /// Prompt tokens that its requests hold.
    pub(crate) fn prompts(&self, block_size: u32) -> Tokens {
        Tokens(self.active.len() * u64::from(block_size)) + self.tails
    }

    /// KV tokens that are free now, within the gate.
    pub(crate) fn free(&self) -> Tokens {
        self.limit().saturating_sub(self.projection.held())
    }

    /// KV tokens that are free at the worst moment to come, within the gate.
    pub(crate) fn room(&self) -> Tokens {
        self.limit().saturating_sub(self.projection.peak())
    }

    /// Whether it may be sent anything at all.
    pub(crate) fn is_usable(&self, now: Moment) -> bool {
        self.healthy && !self.draining && self.marked_until.is_none_or(|until| until <= now)
    }

    /// Whether `hold` may look at it: usable, a free sequence, and little prefill before it.
    pub(crate) fn is_open(&self, now: Moment, gate: &GateSettings) -> bool {
        self.is_usable(now)
            && (self.running.len() as u64) < u64::from(self.profile.seqs_max)
            && self.backlog.as_f64()
                < gate.backlog_steps_max * self.profile.batch_tokens_max.as_f64()
    }

    /// KV tokens that a request would add: blocks that no other request holds, its tail, its
    /// expected output.
    pub(crate) fn need(&self, arrival: &Arrival, output: Tokens, block_size: u32) -> Tokens {
        let new_blocks = arrival.blocks.len() - self.active.depth(&arrival.blocks);
        Tokens(new_blocks as u64 * u64::from(block_size)) + tail(arrival, block_size) + output
    }

    /// Takes a request's needs onto the account.
    pub(crate) fn commit(&mut self, flight: &Flight, settings: &Settings) {
        self.active.add(&flight.arrival.blocks);
        self.tails += tail(&flight.arrival, settings.block_size);
        self.reserved += flight.reserve;
        self.backlog += flight.uncached;
        self.running.insert(flight.arrival.request);
    }

    /// Takes a request's needs off the account: the one counterpart of [`Worker::commit`].
    pub(crate) fn release(&mut self, flight: &Flight, settings: &Settings) {
        self.active.remove(&flight.arrival.blocks);
        self.tails -= tail(&flight.arrival, settings.block_size);
        self.reserved -= flight.reserve;
        if flight.first_token.is_none() {
            self.backlog -= flight.uncached;
        }
        self.running.remove(&flight.arrival.request);
    }
}

/// Prompt tokens outside of the request's hashed blocks: nobody can share them.
pub(crate) fn tail(arrival: &Arrival, block_size: u32) -> Tokens {
    arrival.prompt.saturating_sub(Tokens(arrival.blocks.len() as u64 * u64::from(block_size)))
}
