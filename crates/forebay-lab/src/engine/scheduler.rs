//! Schedules an engine's steps by the rules of vLLM's V1 scheduler.
//!
//! Per step there is a budget of tokens. Running jobs come first; one that gets no block preempts
//! the job that was admitted last. Waiting jobs are admitted with what is left of the budget,
//! first-come, and only if nobody was preempted in this step; the head of the line blocks those
//! behind it.
//!
//! Two facts make a step cheap. A job is admitted only when all before it have got all they asked
//! for, so the running list is always some jobs that decode and then at most one whose prefill is
//! unfinished. And between events every job that decodes moves by one token a step, so its state is
//! its state at entry plus a number of steps: a step in which nobody starts, ends, is reported or
//! needs a block costs the same for one job as for two hundred.

mod step;

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_core::{BlockHash, Moment, Span};

use super::blocks::Blocks;
use super::step_time::StepTime;
use super::{CopyChange, Gauges, Input, Job, Output, Preset};

/// A job inside the engine.
#[derive(Clone, Debug)]
struct Inside {
    id: u64,
    prompt: u64,
    output: u64,
    hashes: Arc<[BlockHash]>,
    /// The blocks it holds, in the order of its tokens.
    table: Vec<u32>,
    /// Tokens generated: at tick `since` for one that decodes, now for any other.
    generated: u64,
    /// Tokens whose KV is computed, at the same time.
    computed: u64,
    /// The tick at which it began to decode.
    since: u64,
    /// Whether it has ever been admitted.
    admitted: bool,
}

impl Inside {
    /// Tokens that it consists of at a tick at which it doesn't decode.
    fn total(&self) -> u64 {
        self.prompt + self.generated
    }
    fn generated_at(&self, tick: u64) -> u64 {
        self.generated + (tick - self.since)
    }
    fn computed_at(&self, tick: u64) -> u64 {
        self.computed + (tick - self.since)
    }
}

/// A running job's place. It holds what most steps need, so that they need not look at the job
/// itself.
#[derive(Clone, Copy, Debug)]
struct Seat {
    slot: u32,
    /// The ticks, modulo the block size, at which it needs a new block while it decodes.
    phase: u32,
    /// The tick at which it ends or is to be reported next while it decodes.
    due: u64,
}

/// The step that runs.
#[derive(Clone, Copy, Debug)]
struct Step {
    end: Moment,
    length: Span,
}

/// A vLLM-like engine. See the [module's documentation](super) for the calling order.
#[derive(Clone, Debug)]
pub struct Engine {
    time: StepTime,
    slowdown: f64,
    block_size: u64,
    batch_tokens_max: u64,
    seqs_max: usize,
    jobs_max: usize,
    report_every: u64,

    now: Moment,
    step: Option<Step>,
    /// When the last step ended, or [`Moment::MAX`] since the engine has been idle.
    ready_at: Moment,
    /// Finished steps.
    tick: u64,
    blocks: Blocks,
    /// All jobs, by slot.
    jobs: Vec<Inside>,
    vacant: Vec<u32>,
    waiting: VecDeque<u32>,
    /// In order of admission: first those that decode, then those whose prefill this step works on.
    running: Vec<Seat>,
    /// How many of `running` decode.
    decoding: usize,
    /// Computed tokens of those that decode.
    context: u64,
    /// How many of those that decode need a block at each phase.
    phases: Vec<u32>,
    /// No job that decodes ends or is reported before this tick.
    next_due: u64,
    /// No job that decodes needs a block before this tick.
    next_growth: u64,
    /// The head of the line did not fit, and nothing has been freed since: it need not be tried
    /// again.
    blocked: bool,
    preemptions_total: u64,
    outputs: VecDeque<Output>,
    /// What became of each copy of a block since the driver last asked; `None` where it never asks.
    copies: Option<Vec<CopyChange>>,
}

impl Engine {
    /// An idle engine with an empty cache, which reports every token.
    pub fn new(preset: &Preset) -> Self {
        Self {
            time: preset.step_time(),
            slowdown: 1.0,
            block_size: u64::from(preset.block_size),
            batch_tokens_max: u64::from(preset.batch_tokens_max),
            seqs_max: preset.seqs_max as usize,
            jobs_max: preset.queued_requests_max.map_or(usize::MAX, |jobs| jobs as usize),
            report_every: 1,
            now: Moment::START,
            step: None,
            ready_at: Moment::MAX,
            tick: 0,
            blocks: Blocks::new(preset.blocks()),
            jobs: Vec::new(),
            vacant: Vec::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            decoding: 0,
            context: 0,
            phases: vec![0; preset.block_size as usize],
            next_due: u64::MAX,
            next_growth: u64::MAX,
            blocked: false,
            preemptions_total: 0,
            outputs: VecDeque::new(),
            copies: None,
        }
    }

    /// Sets how many tokens of a job lie between two [`Output::Tokens`]: 1 for a live engine, more
    /// where only first and last tokens matter. Zero counts as one. To be set before the first job.
    pub fn set_report_every(&mut self, tokens: u32) {
        self.report_every = u64::from(tokens.max(1));
    }

    /// Makes steps take `factor` times as long as the preset says, from the next step on.
    pub fn set_slowdown(&mut self, factor: f64) {
        self.slowdown = factor;
    }

    /// Remembers from now on what becomes of each copy of a block. [`Output::Stored`] and
    /// [`Output::Removed`] say only whether a prefix can be found; vLLM's KV events tell of copies.
    pub fn watch_copies(&mut self) {
        self.copies = Some(Vec::new());
        self.blocks.watch_evictions();
    }

    /// What became of copies since the last call, in the order in which it happened.
    pub fn copies(&mut self) -> impl Iterator<Item = CopyChange> {
        self.copies.iter_mut().flat_map(|copies| copies.drain(..))
    }

    /// Empties the cache, unless a job holds a block, and says whether it did: vLLM's
    /// `/reset_prefix_cache`. The driver must tell others: no [`Output::Removed`] follows.
    pub fn clear_cache(&mut self) -> bool {
        let is_idle = self.blocks.free() == self.blocks.count();
        if is_idle {
            self.blocks = self.blocks.emptied();
        }
        is_idle
    }

    /// Loses all jobs, the cache and the counters, as a process that dies and restarts does, and
    /// says which jobs were lost: those that ran, then those that waited, each in order. What was
    /// not yet polled is lost, too. The driver must tell others that the cache is empty: no
    /// [`Output::Removed`] follows.
    pub fn crash(&mut self) -> Vec<u64> {
        let running = self.running.iter().map(|seat| seat.slot);
        let slots = running.chain(self.waiting.iter().copied());
        let lost = slots.map(|slot| self.job(slot).id).collect();
        self.step = None;
        self.ready_at = Moment::MAX;
        self.blocks = self.blocks.emptied();
        self.copies.iter_mut().for_each(Vec::clear);
        self.jobs.clear();
        self.vacant.clear();
        self.waiting.clear();
        self.running.clear();
        (self.decoding, self.context) = (0, 0);
        (self.next_due, self.next_growth) = (u64::MAX, u64::MAX);
        self.phases.fill(0);
        self.blocked = false;
        self.preemptions_total = 0;
        self.outputs.clear();
        lost
    }

    /// Figures as its metrics would show them.
    pub fn gauges(&self) -> Gauges {
        let blocks = self.blocks.count();
        Gauges {
            running: self.running.len() as u32,
            waiting: self.waiting.len() as u32,
            kv_used: f64::from(blocks - self.blocks.free()) / f64::from(blocks),
            preemptions_total: self.preemptions_total,
        }
    }

    /// Takes one input. [`Input::Elapsed`] before the step's end does nothing.
    pub fn handle(&mut self, now: Moment, input: Input) {
        debug_assert!(self.now <= now, "time went backwards");
        self.now = now;
        match input {
            Input::Submitted(job) => self.submit(job),
            Input::Cancelled(id) => self.cancel(id),
            Input::Elapsed => {
                if let Some(step) = self.step.take_if(|step| step.end <= now) {
                    self.finish_step();
                    // A driver that comes late by less than a step does not slow the engine down.
                    let is_late = now.since(step.end) >= step.length;
                    self.ready_at = if is_late { now } else { step.end };
                }
            }
        }
    }

    /// Yields the next thing that happened; [`Output::Sleep`] ends the round.
    pub fn poll(&mut self) -> Output {
        if self.step.is_none() && self.outputs.is_empty() {
            self.begin_step();
        }
        self.outputs.pop_front().unwrap_or_else(|| Output::Sleep(self.step.map(|step| step.end)))
    }

    /// Panics unless the sums agree with the jobs and the blocks with their holders.
    #[cfg(test)]
    pub(super) fn assert_consistent(&self) {
        let decoding = &self.running[..self.decoding];
        let context = decoding.iter().map(|seat| self.job(seat.slot).computed_at(self.tick));
        assert_eq!(self.context, context.sum::<u64>());
        let mut phases = vec![0; self.phases.len()];
        decoding.iter().for_each(|seat| phases[seat.phase as usize] += 1);
        assert_eq!(self.phases, phases);
        assert!(self.waiting.iter().all(|&slot| self.job(slot).table.is_empty()));
        let inside = self.running.len() + self.waiting.len();
        assert_eq!(inside + self.vacant.len(), self.jobs.len(), "a job is lost or twice there");
        self.blocks.assert_consistent(self.jobs.iter().map(|job| &job.table));
    }

    #[cfg(test)]
    pub(super) fn blocks_in_all(&self) -> u32 {
        self.blocks.count()
    }

    fn job(&self, slot: u32) -> &Inside {
        &self.jobs[slot as usize]
    }

    fn blocks_for(&self, tokens: u64) -> u64 {
        tokens.div_ceil(self.block_size)
    }

    fn submit(&mut self, job: Job) {
        let (prompt, output) = (u64::from(job.prompt.max(1)), u64::from(job.output.max(1)));
        // The last token is never computed, hence one less.
        if self.blocks_for(prompt + output - 1) > u64::from(self.blocks.count()) {
            self.outputs.push_back(Output::TooLong(job.id));
            return;
        }
        if self.running.len() + self.waiting.len() >= self.jobs_max {
            self.outputs.push_back(Output::Rejected(job.id));
            return;
        }
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.jobs.push(Inside {
                id: 0,
                prompt: 0,
                output: 0,
                hashes: Arc::from([]),
                table: Vec::new(),
                generated: 0,
                computed: 0,
                since: 0,
                admitted: false,
            });
            self.jobs.len() as u32 - 1
        });
        let inside = &mut self.jobs[slot as usize];
        (inside.id, inside.prompt, inside.output) = (job.id, prompt, output);
        inside.hashes = job.blocks;
        (inside.generated, inside.computed, inside.admitted) = (0, 0, false);
        self.waiting.push_back(slot);
    }

    fn cancel(&mut self, id: u64) {
        if let Some(place) = self.waiting.iter().position(|&slot| self.job(slot).id == id) {
            let slot = self.waiting.remove(place).expect("the place was found above");
            self.blocked &= place > 0;
            self.vacate(slot);
        } else if let Some(place) =
            self.running.iter().position(|seat| self.job(seat.slot).id == id)
        {
            let seat = self.running.remove(place);
            if place < self.decoding {
                self.decoding -= 1;
                self.leave_decoding(seat);
            }
            self.release(seat.slot);
            self.vacate(seat.slot);
        }
    }

    /// Gives back a job's blocks.
    fn release(&mut self, slot: u32) {
        self.blocks.release(&mut self.jobs[slot as usize].table);
        self.blocked = false;
    }

    fn vacate(&mut self, slot: u32) {
        self.vacant.push(slot);
    }

    /// Takes a job that decodes out of the sums.
    fn leave_decoding(&mut self, seat: Seat) {
        self.context -= self.job(seat.slot).computed_at(self.tick);
        self.phases[seat.phase as usize] -= 1;
    }
}
