//! Couples one core with the engines it decides for.

use forebay_core::{
    Core, Input, Load, Moment, Observation, PoolId, Rng, Settings, Tokens, WorkerId, WorkerProfile,
};
use forebay_service::Door;

use super::{Plan, SimulateError, Tap};
use crate::engine::{self, Engine, Preset};

/// Tokens between two reports of a running request's progress, as the core's documentation advises.
const REPORT_EVERY: u32 = 64;

/// One engine and what the driver knows of it.
#[derive(Debug)]
pub(super) struct Worker {
    /// The engine.
    pub(super) engine: Engine,
    /// When its step ends, if one runs. An event of another moment is stale.
    pub(super) step_ends: Option<Moment>,
    /// It was told something and has not been asked since what came of it.
    pub(super) is_unasked: bool,
    /// Its process runs.
    pub(super) is_alive: bool,
    blocks: u32,
    profile: WorkerProfile,
    /// What the core is told of its capacity, once it is told.
    capacity: Tokens,
}

impl Worker {
    fn new(preset: &Preset, plan: &Plan) -> Self {
        let mut engine = Engine::new(preset);
        engine.set_report_every(REPORT_EVERY);
        let holds = f64::from(preset.blocks()) * f64::from(preset.block_size);
        let believed = holds * (1.0 + plan.capacity_error_pct / 100.0);
        let capacity = Tokens(believed.round().max(1.0) as u64);
        Self {
            engine,
            step_ends: None,
            is_unasked: false,
            is_alive: true,
            blocks: preset.blocks(),
            profile: WorkerProfile {
                kv_capacity: (!plan.capacity_untold).then_some(capacity),
                batch_tokens_max: Tokens(u64::from(preset.batch_tokens_max)),
                seqs_max: preset.seqs_max,
            },
            capacity,
        }
    }

    /// It joins, or comes back.
    pub(super) fn joined(&self) -> Observation {
        Observation::Joined(self.profile)
    }

    /// It says its capacity.
    pub(super) fn capacity(&self) -> Observation {
        Observation::Capacity(self.capacity)
    }

    /// What a scraper reads.
    pub(super) fn load(&self) -> Observation {
        let engine::Gauges { running, waiting, preemptions_total, .. } = self.engine.gauges();
        Observation::Load(Load { running, waiting, preemptions_total })
    }
}

/// One core and its engines.
#[derive(Debug)]
pub(super) struct Pool {
    /// Decides.
    pub(super) core: Core,
    /// Run.
    pub(super) workers: Vec<Worker>,
    /// Tokens in one block of all of them.
    pub(super) block_size: u32,
    /// The number of its first worker among all workers of the run.
    pub(super) first_worker: u32,
    /// When the core wants to be woken.
    pub(super) alarm: Option<Moment>,
    /// When it will be, at the latest. An earlier event asks again.
    pub(super) alarm_planned: Option<Moment>,
}

impl Pool {
    /// The main pool and those that the service file adds, each with all its workers joined.
    pub(super) fn all(plan: &Plan, tap: &mut dyn Tap) -> Result<Vec<Self>, SimulateError> {
        let seeds = Rng::new(plan.seed);
        let door = |mode, presets: &[Preset]| Door {
            mode,
            knowledge: plan.knowledge,
            block_size: presets[0].block_size,
            expected_output: plan.expected_output,
        };
        let mut build = |id: PoolId, presets: &[Preset], mode, seed, first_worker| {
            let settings = plan.service.settings(id, door(mode, presets));
            tap.begins(id, &settings, seed);
            Self::new(settings, seed, presets, plan, first_worker)
        };
        let mut pools = vec![build(PoolId(0), &plan.workers, plan.mode, plan.seed, 0)];
        let mut first_worker = plan.workers.len() as u32;
        for (pool, id) in plan.service.pools.iter().zip(1_u16..) {
            let preset = match &pool.engine {
                Some(name) => Preset::resolve(name)?,
                None => plan.workers[0].clone(),
            };
            let presets = vec![preset; pool.workers as usize];
            let seed = seeds.fork(&pool.name).next_u64();
            let mode = pool.mode.unwrap_or(plan.mode);
            pools.push(build(PoolId(id), &presets, mode, seed, first_worker));
            first_worker += pool.workers;
        }
        Ok(pools)
    }

    fn new(
        settings: Settings,
        seed: u64,
        presets: &[Preset],
        plan: &Plan,
        first_worker: u32,
    ) -> Self {
        Self {
            block_size: settings.block_size,
            core: Core::new(settings, seed),
            workers: presets.iter().map(|preset| Worker::new(preset, plan)).collect(),
            first_worker,
            alarm: None,
            alarm_planned: None,
        }
    }

    /// What each worker has to say for itself.
    pub(super) fn observed(
        &self,
        what: impl Fn(&Worker) -> Observation,
    ) -> impl Iterator<Item = Input> {
        let alive = self.workers.iter().enumerate().filter(|(_, worker)| worker.is_alive);
        alive.map(move |(place, worker)| Input::Observed(WorkerId(place as u32), what(worker)))
    }

    /// Running and waiting jobs, blocks in use and blocks in all.
    pub(super) fn gauges(&self) -> (u32, u32, f64, f64) {
        self.workers.iter().fold((0, 0, 0.0, 0.0), |(running, waiting, used, all), worker| {
            let gauges = worker.engine.gauges();
            let blocks = f64::from(worker.blocks);
            let used = used + gauges.kv_used * blocks;
            (running + gauges.running, waiting + gauges.waiting, used, all + blocks)
        })
    }
}
