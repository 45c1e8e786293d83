//! Schedules an engine's steps by the rules of vLLM's V1 scheduler.
//!
//! Per step there is a budget of tokens. Running jobs come first; one that gets no block preempts the job that
//! was admitted last. Waiting jobs are admitted with what is left of the budget, first-come, and only if nobody
//! was preempted in this step; the head of the line blocks those behind it.
//!
//! Two facts make a step cheap. A job is admitted only when all before it have got all they asked for, so the
//! running list is always some jobs that decode and then at most one whose prefill is unfinished. And between
//! events every job that decodes moves by one token a step, so its state is its state at entry plus a
//! number of steps: a step in which nobody starts, ends, is reported or needs a block costs the same for one
//! job as for two hundred.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_core::{BlockHash, Moment, Span};

use super::blocks::Blocks;
use super::step_time::{StepTime, Work};
use super::{Gauges, Input, Job, Output, Preset};

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

/// A running job's place. It holds what most steps need, so that they need not look at the job itself.
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
    /// The head of the line did not fit, and nothing has been freed since: it need not be tried again.
    blocked: bool,
    preemptions_total: u64,
    outputs: VecDeque<Output>,
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
        }
    }

    /// Sets how many tokens of a job lie between two [`Output::Tokens`]: 1 for a live engine, more where only
    /// first and last tokens matter. Zero counts as one. To be set before the first job.
    pub fn set_report_every(&mut self, tokens: u32) {
        self.report_every = u64::from(tokens.max(1));
    }

    /// Makes steps take `factor` times as long as the preset says, from the next step on.
    pub fn set_slowdown(&mut self, factor: f64) {
        self.slowdown = factor;
    }

    /// Loses all jobs, the cache and the counters, as a process that dies and restarts does, and says which
    /// jobs were lost: those that ran, then those that waited, each in order. What was not yet polled is lost,
    /// too. The driver must tell others that the cache is empty: no [`Output::Removed`] follows.
    pub fn crash(&mut self) -> Vec<u64> {
        let running = self.running.iter().map(|seat| seat.slot);
        let slots = running.chain(self.waiting.iter().copied());
        let lost = slots.map(|slot| self.job(slot).id).collect();
        self.step = None;
        self.ready_at = Moment::MAX;
        self.blocks = Blocks::new(self.blocks.count());
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

    /// Decides what the next step computes, and starts it unless there is nothing to do.
    fn begin_step(&mut self) {
        if self.running.is_empty() && self.waiting.is_empty() {
            // The step after idleness starts with what ends the idleness.
            self.ready_at = Moment::MAX;
            return;
        }
        let preemptions = self.preemptions_total;
        self.grow_decoders();
        let mut work =
            Work { decodes: self.decoding as u64, decode_context: self.context, ..Work::default() };
        self.continue_prefill(&mut work);
        if self.preemptions_total == preemptions && !self.blocked {
            self.admit(&mut work);
        }
        self.tell_blocks();
        debug_assert!(!self.running.is_empty(), "an engine with jobs always runs one");
        let length = self.time.of(&work, self.slowdown);
        self.step = Some(Step { end: self.ready_at.min(self.now) + length, length });
    }

    /// Gives each job that decodes room for its next token, and preempts from the end where there is none.
    fn grow_decoders(&mut self) {
        if self.tick < self.next_growth {
            return;
        }
        let phase = (self.tick % self.block_size) as u32;
        let mut place = 0;
        while place < self.decoding {
            let seat = self.running[place];
            if seat.phase == phase {
                while self.blocks.free() == 0 && place < self.running.len() {
                    self.preempt_last();
                }
                if place < self.running.len() {
                    let block = self.blocks.take();
                    self.jobs[seat.slot as usize].table.push(block);
                }
            }
            place += 1;
        }
        let later = (1..=self.block_size)
            .find(|steps| self.phases[((self.tick + steps) % self.block_size) as usize] > 0);
        self.next_growth = later.map_or(u64::MAX, |steps| self.tick + steps);
    }

    /// Puts the job that was admitted last back to the front of the line, with nothing computed.
    fn preempt_last(&mut self) {
        let seat = self.running.pop().expect("somebody runs");
        if self.running.len() < self.decoding {
            self.decoding -= 1;
            self.leave_decoding(seat);
            let job = &mut self.jobs[seat.slot as usize];
            job.generated = job.generated_at(self.tick);
        }
        let job = &mut self.jobs[seat.slot as usize];
        job.computed = 0;
        self.preemptions_total += 1;
        self.outputs.push_back(Output::Preempted(job.id));
        self.release(seat.slot);
        self.waiting.push_front(seat.slot);
    }

    /// Works on the prefill that the last step left unfinished.
    fn continue_prefill(&mut self, work: &mut Work) {
        debug_assert!(self.running.len() <= self.decoding + 1, "two prefills are unfinished");
        let Some(&Seat { slot, .. }) = self.running.get(self.decoding) else { return };
        let job = self.job(slot);
        let chunk = (job.total() - job.computed).min(self.batch_tokens_max - work.decodes);
        let need = self.blocks_for(job.computed + chunk) - job.table.len() as u64;
        if need > u64::from(self.blocks.free()) {
            self.preempt_last();
        } else {
            self.compute(slot, chunk, work);
            // What it publishes may be what the head of the line shares.
            self.blocked = false;
        }
    }

    /// Admits waiting jobs in their order while tokens, seats and blocks are left.
    fn admit(&mut self, work: &mut Work) {
        while let Some(&slot) = self.waiting.front() {
            let budget = self.batch_tokens_max - work.decodes - work.prefill;
            if budget == 0 || self.running.len() >= self.seqs_max {
                return;
            }
            if !self.hold_cached(slot) {
                self.blocked = true;
                return;
            }
            self.waiting.pop_front();
            self.running.push(Seat { slot, phase: 0, due: 0 });
            let job = &mut self.jobs[slot as usize];
            job.computed = job.table.len() as u64 * self.block_size;
            if !job.admitted {
                job.admitted = true;
                let cached = job.computed as u32;
                self.outputs.push_back(Output::Admitted { id: job.id, cached });
            }
            let chunk = (job.total() - job.computed).min(budget);
            self.compute(slot, chunk, work);
        }
    }

    /// Holds the cached blocks of a job's prefix, if its whole prompt fits.
    fn hold_cached(&mut self, slot: u32) -> bool {
        let job = &mut self.jobs[slot as usize];
        debug_assert!(job.table.is_empty(), "a waiting job holds nothing");
        // One token at least is computed, or there would be nothing to sample from.
        let findable = ((job.total() - 1).min(job.prompt) / self.block_size) as usize;
        let mut held_by_others = 0;
        for &hash in job.hashes.iter().take(findable) {
            let Some(block) = self.blocks.find(hash) else { break };
            held_by_others += u64::from(!self.blocks.is_idle(block));
            job.table.push(block);
        }
        let need = job.total().div_ceil(self.block_size) - held_by_others;
        if need > u64::from(self.blocks.free()) {
            job.table.clear();
            return false;
        }
        for &block in &job.table {
            self.blocks.hold(block);
        }
        true
    }

    /// Allocates the next chunk of a job's prefill; full blocks of its prompt can be found from now on.
    fn compute(&mut self, slot: u32, chunk: u64, work: &mut Work) {
        let job = &mut self.jobs[slot as usize];
        work.prefill += chunk;
        work.prefill_context_doubled += chunk * (2 * job.computed + chunk);
        let first_unhashed = (job.computed / self.block_size) as usize;
        job.computed += chunk;
        while (job.table.len() as u64) * self.block_size < job.computed {
            job.table.push(self.blocks.take());
        }
        let full = (job.computed.min(job.prompt) / self.block_size) as usize;
        for place in first_unhashed..full.min(job.hashes.len()) {
            self.blocks.publish(job.table[place], job.hashes[place]);
        }
    }

    fn tell_blocks(&mut self) {
        let (removed, stored) = self.blocks.drain();
        if !removed.is_empty() {
            self.outputs.push_back(Output::Removed(Arc::from(&removed[..])));
            removed.clear();
        }
        if !stored.is_empty() {
            self.outputs.push_back(Output::Stored(Arc::from(&stored[..])));
            stored.clear();
        }
    }

    /// Counts the tokens that the step has generated.
    fn finish_step(&mut self) {
        self.tick += 1;
        self.context += self.decoding as u64;
        if self.tick < self.next_due && self.decoding == self.running.len() {
            return;
        }
        self.next_due = u64::MAX;
        let decoded = self.decoding;
        let (mut kept, mut unfinished) = (0, 0);
        for place in 0..self.running.len() {
            let mut seat = self.running[place];
            let prefills = place >= decoded && !self.enter_decoding(&mut seat);
            if !prefills && seat.due <= self.tick && self.report(&mut seat) {
                continue;
            }
            self.running[kept] = seat;
            kept += 1;
            if prefills {
                unfinished += 1;
            } else {
                self.next_due = self.next_due.min(seat.due);
            }
        }
        self.running.truncate(kept);
        self.decoding = kept - unfinished;
    }

    /// Lets a job whose prefill is complete decode; its first token is there.
    fn enter_decoding(&mut self, seat: &mut Seat) -> bool {
        let job = &mut self.jobs[seat.slot as usize];
        if job.computed < job.total() {
            return false;
        }
        job.generated += 1;
        job.since = self.tick;
        let beyond = job.computed % self.block_size;
        let room = if beyond == 0 { 0 } else { self.block_size - beyond };
        self.next_growth = self.next_growth.min(self.tick + room);
        seat.phase = ((self.tick + room) % self.block_size) as u32;
        seat.due = self.tick;
        self.context += job.computed;
        self.phases[seat.phase as usize] += 1;
        true
    }

    /// Says how far a job that decodes has come, if that is to be said, and whether it has ended.
    fn report(&mut self, seat: &mut Seat) -> bool {
        let job = self.job(seat.slot);
        let (id, generated) = (job.id, job.generated_at(self.tick));
        let has_ended = generated == job.output;
        let beyond = generated % self.report_every;
        seat.due = self.tick + (self.report_every - beyond).min(job.output - generated);
        // A job that comes back from a preemption is looked at without a reason to tell.
        if has_ended || generated == 1 || beyond == 0 {
            self.outputs.push_back(Output::Tokens { id, generated: generated as u32 });
        }
        if has_ended {
            self.outputs.push_back(Output::Finished(id));
            self.leave_decoding(*seat);
            self.release(seat.slot);
            self.vacate(seat.slot);
        }
        has_ended
    }
}
