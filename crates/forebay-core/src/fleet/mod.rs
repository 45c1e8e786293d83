//! The workers of a pool, what each holds and has room for, and who is the emptiest.

mod active;
mod capacity;
mod gate;
mod index;
mod mirror;
mod projection;
mod worker;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[cfg(any(test, debug_assertions))]
pub(crate) use active::ActiveBlocks;
pub(crate) use active::Fixed;
pub(crate) use index::{Group, Slots};
pub(crate) use projection::{Leg, Projection};
pub(crate) use worker::{Flight, Worker, tail};

use self::index::BlockIndex;
use crate::input::WorkerProfile;
use crate::request::{Arrival, WorkerId};
use crate::settings::{Knowledge, Settings};
use crate::units::{BlockHash, Moment, Tokens};

/// A worker is crowded from this many times its part of the requests on the fleet; half again is
/// more than chance makes of an even spread of a hundred.
const CROWD_FACTOR: f64 = 1.5;
/// Part of a worker's KV that must be free for it to be an alternative to a crowded one.
const SPARE_PART: f64 = 0.125;
/// Workers that are looked at as alternatives.
const SPARE_WORKERS_MAX: usize = 64;
/// And this many requests more, so that small numbers crowd nobody.
const CROWD_SLACK: f64 = 8.0;

/// Where an open worker stands in the orders of the fleet.
#[derive(Clone, Copy, Debug)]
struct Standing {
    empty: (Tokens, Tokens, WorkerId),
    roomy: (Reverse<Tokens>, WorkerId),
    is_idle: bool,
}

/// The workers of a pool. A worker has a slot, dense and reused, for as long as it is known.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    slots: Vec<Option<Worker>>,
    by_id: BTreeMap<WorkerId, u32>,
    index: BlockIndex,
    standings: Vec<Option<Standing>>,
    /// Open workers by backlog, then KV committed, then id: the emptiest first.
    emptiest: BTreeSet<(Tokens, Tokens, WorkerId)>,
    /// Open workers by what is free now, the roomiest first.
    roomiest: BTreeSet<(Reverse<Tokens>, WorkerId)>,
    /// Open workers that run nothing.
    idle_len: usize,
    /// Slots of usable workers in order of id.
    usable: Vec<u32>,
    /// KV that may be committed over all usable workers.
    limit: Tokens,
    /// KV of all usable workers.
    capacity: Tokens,
    /// Requests on all workers.
    running: usize,
    /// Requests that all usable workers together may run at once.
    seqs_max: u64,
    /// KV of the smallest usable worker.
    capacity_min: Tokens,
    /// KV that is committed over all workers.
    committed: Tokens,
    /// Uncached tokens dispatched over all workers whose first token has not come.
    backlog: Tokens,
}

impl Fleet {
    /// The worker in the slot; it must be taken.
    pub(crate) fn at(&self, slot: u32) -> &Worker {
        self.slots[slot as usize].as_ref().expect("a slot in use has a worker")
    }

    /// Changes the worker in the slot, and brings the fleet's orders and sums up to date.
    pub(crate) fn change<T>(
        &mut self,
        slot: u32,
        now: Moment,
        settings: &Settings,
        change: impl FnOnce(&mut Worker) -> T,
    ) -> T {
        let worker = self.slots[slot as usize].as_mut().expect("a slot in use has a worker");
        let before = (worker.is_usable(now), worker.limit(), worker.committed(settings.block_size));
        let (backlog, running) = (worker.backlog, worker.running.len());
        let result = change(worker);
        self.running = self.running + worker.running.len() - running;
        self.backlog = self.backlog - backlog + worker.backlog;
        self.committed = self.committed - before.2 + worker.committed(settings.block_size);
        self.stand(slot, now, settings);
        let worker = self.at(slot);
        if before.0 != worker.is_usable(now) || before.1 != worker.limit() {
            self.count_usable(now);
        }
        result
    }

    /// The slot of a worker that is known.
    pub(crate) fn slot(&self, worker: WorkerId) -> Option<u32> {
        self.by_id.get(&worker).copied()
    }

    /// The worker in the slot, if it is taken.
    pub(crate) fn get(&self, slot: u32) -> Option<&Worker> {
        self.slots.get(slot as usize).and_then(Option::as_ref)
    }

    /// All workers in order of id, with their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Worker)> {
        self.by_id.values().map(|slot| (*slot, self.at(*slot)))
    }

    /// Whether the worker runs far more requests than its part of the fleet's, by capacity, while
    /// another that runs less has KV to spare: a cached prefix is no reason to crowd one worker.
    pub(crate) fn is_crowded(&self, slot: u32) -> bool {
        let running = |slot: u32| self.at(slot).running.len() as f64;
        let part = |slot: u32| {
            let capacity = self.at(slot).capacity.tokens().as_f64();
            capacity / self.capacity.as_f64().max(1.0) * self.running as f64
        };
        if running(slot) < CROWD_FACTOR * part(slot) + CROWD_SLACK {
            return false;
        }
        let has_room = |other: &u32| {
            let worker = self.at(*other);
            let spare = worker.free().as_f64() > SPARE_PART * worker.limit().as_f64();
            spare && running(*other) < part(*other)
        };
        self.usable.iter().take(SPARE_WORKERS_MAX).any(has_room)
    }

    /// Requests that all usable workers together may run at once.
    pub(crate) fn seqs_max(&self) -> u64 {
        self.seqs_max
    }

    /// Number of workers known.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Slots of the workers that may be sent something, in order of id.
    pub(crate) fn usable(&self) -> &[u32] {
        &self.usable
    }

    /// Open workers, the emptiest first.
    pub(crate) fn emptiest(&self) -> impl Iterator<Item = u32> + '_ {
        self.emptiest.iter().map(|(_, _, id)| self.by_id[id])
    }

    /// Open workers, the roomiest first.
    pub(crate) fn roomiest(&self) -> impl Iterator<Item = u32> + '_ {
        self.roomiest.iter().map(|(_, id)| self.by_id[id])
    }

    /// Whether no open worker has so much free now, nor is idle and takes what comes.
    pub(crate) fn is_full_for(&self, need: Tokens) -> bool {
        let most = self.roomiest.first().map_or(Tokens::ZERO, |(Reverse(free), _)| *free);
        self.idle_len == 0 && most < need
    }

    /// Number of open workers.
    pub(crate) fn open_len(&self) -> usize {
        self.emptiest.len()
    }

    /// KV that may be committed over all usable workers.
    pub(crate) fn limit(&self) -> Tokens {
        self.limit
    }

    /// KV of the smallest usable worker.
    pub(crate) fn capacity_min(&self) -> Tokens {
        self.capacity_min
    }

    /// KV that is committed over all workers.
    pub(crate) fn committed(&self) -> Tokens {
        self.committed
    }

    /// Uncached tokens dispatched over all workers whose first token has not come.
    pub(crate) fn backlog(&self) -> Tokens {
        self.backlog
    }

    /// A worker joined. Returns its slot, or `None` when there are as many workers as may be.
    pub(crate) fn join(
        &mut self,
        id: WorkerId,
        profile: WorkerProfile,
        now: Moment,
        settings: &Settings,
    ) -> Option<u32> {
        if self.len() >= settings.limits.workers_max as usize {
            return None;
        }
        let free = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if free == self.slots.len() {
            self.slots.push(None);
            self.standings.push(None);
        }
        self.slots[free] = Some(Worker::new(id, profile, &settings.gate, now));
        let slot = free as u32;
        self.by_id.insert(id, slot);
        self.stand(slot, now, settings);
        self.count_usable(now);
        Some(slot)
    }

    /// A worker is gone, with everything it held. Its requests must have been released.
    pub(crate) fn leave(&mut self, slot: u32, now: Moment) {
        self.index.clear(slot);
        self.unstand(slot);
        if let Some(worker) = self.slots[slot as usize].take() {
            debug_assert!(worker.running.is_empty(), "a worker left with requests on its account");
            self.by_id.remove(&worker.id);
        }
        self.count_usable(now);
    }

    /// Brings the orders up to date after something that may concern all workers: settings, or the
    /// time.
    pub(crate) fn restand(&mut self, now: Moment, settings: &Settings) {
        let slots: Vec<u32> = self.by_id.values().copied().collect();
        slots.into_iter().for_each(|slot| self.stand(slot, now, settings));
        self.count_usable(now);
    }

    /// How many leading tokens of the prompt the worker holds; at least one is always to compute.
    pub(crate) fn cached(&self, arrival: &Arrival, slot: u32, block_size: u32) -> Tokens {
        clamp_cached(self.index.depth(&arrival.blocks, slot), arrival, block_size)
    }

    /// Tokens of the prompt to compute on the worker that holds most of it.
    pub(crate) fn uncached_best(&self, arrival: &Arrival, block_size: u32) -> Tokens {
        let depth = self.index.depth_best(&arrival.blocks);
        arrival.prompt.saturating_sub(clamp_cached(depth, arrival, block_size))
    }

    /// Groups of workers by how much of the prompt they hold, deepest first.
    pub(crate) fn groups<'a>(&'a self, arrival: &Arrival, groups: &mut Vec<Group<'a>>) {
        self.index.groups(&arrival.blocks, groups);
    }

    /// The engine said that it holds these blocks.
    pub(crate) fn stored(&mut self, slot: u32, blocks: &[BlockHash]) {
        blocks.iter().for_each(|block| self.index.store(slot, *block));
    }

    /// The engine said that it no longer holds these blocks.
    pub(crate) fn removed(&mut self, slot: u32, blocks: &[BlockHash]) {
        blocks.iter().for_each(|block| self.index.remove(slot, *block));
    }

    /// The worker holds nothing any more.
    pub(crate) fn cleared(&mut self, slot: u32) {
        self.index.clear(slot);
        if let Some(worker) = self.slots[slot as usize].as_mut() {
            worker.mirror.clear();
        }
    }

    /// Notes a dispatch in the guessed cache, when that is where knowledge comes from.
    pub(crate) fn mirror(&mut self, slot: u32, blocks: &Arc<[BlockHash]>, settings: &Settings) {
        if settings.knowledge == Knowledge::Events {
            return;
        }
        let Self { slots, index, .. } = self;
        let Some(worker) = slots[slot as usize].as_mut() else { return };
        let blocks_max = worker.capacity.tokens().0 / u64::from(settings.block_size);
        let (mut stored, mut removed) = (Vec::new(), Vec::new());
        worker.mirror.touch(
            blocks,
            blocks_max,
            |block| stored.push(block),
            |block| removed.push(block),
        );
        stored.into_iter().for_each(|block| index.store(slot, block));
        removed.into_iter().for_each(|block| index.remove(slot, block));
    }

    fn stand(&mut self, slot: u32, now: Moment, settings: &Settings) {
        self.unstand(slot);
        let worker = self.at(slot);
        if !worker.is_open(now, &settings.gate) {
            return;
        }
        let committed = worker.committed(settings.block_size);
        let standing = Standing {
            empty: (worker.backlog, committed, worker.id),
            roomy: (Reverse(worker.free()), worker.id),
            is_idle: worker.running.is_empty(),
        };
        self.emptiest.insert(standing.empty);
        self.roomiest.insert(standing.roomy);
        self.idle_len += usize::from(standing.is_idle);
        self.standings[slot as usize] = Some(standing);
    }

    fn unstand(&mut self, slot: u32) {
        if let Some(standing) = self.standings[slot as usize].take() {
            self.emptiest.remove(&standing.empty);
            self.roomiest.remove(&standing.roomy);
            self.idle_len -= usize::from(standing.is_idle);
        }
    }

    fn count_usable(&mut self, now: Moment) {
        let Self { slots, by_id, usable, .. } = self;
        usable.clear();
        let is_usable =
            |slot: &u32| slots[*slot as usize].as_ref().is_some_and(|worker| worker.is_usable(now));
        usable.extend(by_id.values().copied().filter(is_usable));
        self.limit = Tokens(self.usable.iter().map(|slot| self.at(*slot).limit().0).sum());
        let capacity = |slot: &u32| self.at(*slot).capacity.tokens();
        let smallest = self.usable.iter().map(capacity).min().unwrap_or_default();
        let sum = self.usable.iter().map(|slot| capacity(slot).0).sum();
        (self.capacity_min, self.capacity) = (smallest, Tokens(sum));
        let seqs = self.usable.iter().map(|slot| u64::from(self.at(*slot).profile.seqs_max));
        self.seqs_max = seqs.sum();
    }
}

fn clamp_cached(depth: usize, arrival: &Arrival, block_size: u32) -> Tokens {
    let held = depth as u64 * u64::from(block_size);
    Tokens(held.min(arrival.prompt.0.saturating_sub(1)))
}
