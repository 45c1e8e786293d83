//! Decides what a step computes, and counts what came of it.

use std::sync::Arc;

use forebay_core::Moment;

use super::{Engine, Seat, Step};
use crate::engine::step_time::Work;
use crate::engine::{CopyChange, Output};

impl Engine {
    /// Decides what the next step computes, and starts it unless there is nothing to do.
    pub(super) fn begin_step(&mut self) {
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

    /// Gives each job that decodes room for its next token, and preempts from the end where there
    /// is none.
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
            // What it publishes may be what the head of the line shares; but while a prefill is
            // unfinished, there was no budget left to try the head with.
            debug_assert!(!self.blocked, "the head was tried while a prefill was unfinished");
            self.compute(slot, chunk, work);
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

    /// Allocates the next chunk of a job's prefill; full blocks of its prompt can be found from now
    /// on.
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
        let published = first_unhashed..full.min(job.hashes.len());
        for place in published.clone() {
            self.blocks.publish(job.table[place], job.hashes[place]);
        }
        if let Some(copies) = &mut self.copies {
            copies.extend(self.blocks.evicted().map(CopyChange::Removed));
            if !published.is_empty() {
                copies.push(CopyChange::Stored { job: job.id, blocks: published });
            }
        }
    }

    fn tell_blocks(&mut self) {
        if let Some(copies) = &mut self.copies {
            copies.extend(self.blocks.evicted().map(CopyChange::Removed));
        }
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
    pub(super) fn finish_step(&mut self) {
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
