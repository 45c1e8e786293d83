//! Runs the same rules job by job and token by token, as slowly and plainly as they can be written.
//!
//! The engine skips what it can prove not to matter; this one skips nothing. Both must say the
//! same.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_core::{BlockHash, Moment};

use crate::engine::step_time::Work;
use crate::engine::{Input, Job, Output, Preset};

struct Inside {
    job: Job,
    generated: u32,
    computed: u32,
    table: Vec<usize>,
    was_admitted: bool,
    /// Its prefill is complete; what it has generated before a preemption counts to it.
    decodes: bool,
}

impl Inside {
    fn total(&self) -> u32 {
        self.job.prompt + self.generated
    }
}

pub(super) struct Naive {
    preset: Preset,
    report_every: u32,
    pub(super) slowdown: f64,
    holders: Vec<u32>,
    hashes: Vec<Option<BlockHash>>,
    /// Free blocks, the one to be reused first in front.
    free: VecDeque<usize>,
    /// Blocks with a hash, in the order of publication.
    published: Vec<usize>,
    waiting: VecDeque<Inside>,
    running: Vec<Inside>,
    ends: Option<Moment>,
}

impl Naive {
    pub(super) fn new(preset: &Preset, report_every: u32) -> Self {
        let blocks = preset.blocks() as usize;
        Self {
            preset: preset.clone(),
            report_every,
            slowdown: 1.0,
            holders: vec![0; blocks],
            hashes: vec![None; blocks],
            free: (0..blocks).collect(),
            published: Vec::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            ends: None,
        }
    }

    pub(super) fn crash(&mut self) -> Vec<u64> {
        let lost = self.running.iter().chain(&self.waiting).map(|inside| inside.job.id).collect();
        let slowdown = self.slowdown;
        *self = Self::new(&self.preset, self.report_every);
        self.slowdown = slowdown;
        lost
    }

    pub(super) fn handle(&mut self, now: Moment, input: Input) -> Vec<Output> {
        let mut said = Vec::new();
        let mut start = now;
        match input {
            Input::Submitted(job) => self.submit(job, &mut said),
            Input::Cancelled(id) => {
                self.waiting.retain(|inside| inside.job.id != id);
                while let Some(at) = self.running.iter().position(|inside| inside.job.id == id) {
                    let inside = self.running.remove(at);
                    self.release(inside.table);
                }
            }
            Input::Elapsed => {
                if let Some(ends) = self.ends.take_if(|ends| *ends <= now) {
                    start = ends;
                    self.finish_step(&mut said);
                }
            }
        }
        if self.ends.is_none() && !(self.running.is_empty() && self.waiting.is_empty()) {
            self.begin_step(start, &mut said);
        }
        said.push(Output::Sleep(self.ends));
        said
    }

    fn submit(&mut self, job: Job, said: &mut Vec<Output>) {
        let most = (job.prompt + job.output - 1).div_ceil(self.preset.block_size);
        if most as usize > self.holders.len() {
            said.push(Output::TooLong(job.id));
        } else if self
            .preset
            .queued_requests_max
            .is_some_and(|max| self.waiting.len() + self.running.len() >= max as usize)
        {
            said.push(Output::Rejected(job.id));
        } else {
            let table = Vec::new();
            self.waiting.push_back(Inside {
                job,
                generated: 0,
                computed: 0,
                table,
                was_admitted: false,
                decodes: false,
            });
        }
    }

    fn begin_step(&mut self, now: Moment, said: &mut Vec<Output>) {
        let (mut work, mut budget) = (Work::default(), self.preset.batch_tokens_max);
        let (mut removed, mut stored) = (Vec::new(), Vec::new());
        let mut somebody_was_preempted = false;
        let mut at = 0;
        while at < self.running.len() && budget > 0 {
            let chunk = (self.running[at].total() - self.running[at].computed).min(budget);
            loop {
                let inside = &self.running[at];
                let blocks = (inside.computed + chunk).div_ceil(self.preset.block_size) as usize;
                if blocks - inside.table.len() <= self.free.len() {
                    break;
                }
                somebody_was_preempted = true;
                let mut last = self.running.pop().expect("somebody runs");
                self.release(std::mem::take(&mut last.table));
                (last.computed, last.decodes) = (0, false);
                said.push(Output::Preempted(last.job.id));
                self.waiting.push_front(last);
                if at == self.running.len() {
                    break;
                }
            }
            if at < self.running.len() {
                self.compute(at, chunk, &mut work, &mut removed, &mut stored);
                budget -= chunk;
            }
            at += 1;
        }
        while !somebody_was_preempted && budget > 0 && !self.waiting.is_empty() {
            let head = &self.waiting[0];
            let hits = self.hits(head);
            let idle = hits.iter().filter(|&&block| self.holders[block] == 0).count();
            let blocks = head.total().div_ceil(self.preset.block_size) as usize;
            let fits = blocks - hits.len() + idle <= self.free.len();
            if !fits || self.running.len() == self.preset.seqs_max as usize {
                break;
            }
            let mut head = self.waiting.pop_front().expect("it was looked at above");
            for &block in &hits {
                self.holders[block] += 1;
                self.free.retain(|&free| free != block);
            }
            head.computed = hits.len() as u32 * self.preset.block_size;
            head.table = hits;
            if !std::mem::replace(&mut head.was_admitted, true) {
                said.push(Output::Admitted { id: head.job.id, cached: head.computed });
            }
            let chunk = (head.total() - head.computed).min(budget);
            self.running.push(head);
            self.compute(self.running.len() - 1, chunk, &mut work, &mut removed, &mut stored);
            budget -= chunk;
        }
        if !removed.is_empty() {
            said.push(Output::Removed(Arc::from(removed)));
        }
        if !stored.is_empty() {
            said.push(Output::Stored(Arc::from(stored)));
        }
        self.ends = Some(now + self.preset.step_time().of(&work, self.slowdown));
    }

    fn hits(&self, inside: &Inside) -> Vec<usize> {
        let most = ((inside.total() - 1).min(inside.job.prompt) / self.preset.block_size) as usize;
        let hashes = inside.job.blocks.iter().take(most);
        hashes.map_while(|&hash| self.find(hash)).collect()
    }

    fn find(&self, hash: BlockHash) -> Option<usize> {
        self.published.iter().copied().find(|&block| self.hashes[block] == Some(hash))
    }

    fn compute(
        &mut self,
        at: usize,
        chunk: u32,
        work: &mut Work,
        removed: &mut Vec<BlockHash>,
        stored: &mut Vec<BlockHash>,
    ) {
        let mut inside = self.running.remove(at);
        if inside.decodes {
            work.decodes += 1;
            work.decode_context += u64::from(inside.computed);
        } else {
            let (chunk, computed) = (u64::from(chunk), u64::from(inside.computed));
            work.prefill += chunk;
            work.prefill_context_doubled += chunk * (2 * computed + chunk);
        }
        let before = inside.computed;
        inside.computed += chunk;
        while (inside.table.len() as u32) * self.preset.block_size < inside.computed {
            let block = self.free.pop_front().expect("room was checked");
            if let Some(hash) = self.hashes[block].take() {
                self.published.retain(|&published| published != block);
                if self.find(hash).is_none() {
                    removed.push(hash);
                }
            }
            self.holders[block] = 1;
            inside.table.push(block);
        }
        for nth in 0..inside.job.blocks.len() as u32 {
            let end = (nth + 1) * self.preset.block_size;
            let is_new = end > before && end <= inside.computed;
            if is_new && end <= inside.job.prompt {
                let hash = inside.job.blocks[nth as usize];
                if self.find(hash).is_none() {
                    stored.push(hash);
                }
                self.hashes[inside.table[nth as usize]] = Some(hash);
                self.published.push(inside.table[nth as usize]);
            }
        }
        self.running.insert(at, inside);
    }

    fn release(&mut self, table: Vec<usize>) {
        for block in table.into_iter().rev() {
            self.holders[block] -= 1;
            if self.holders[block] == 0 && self.hashes[block].is_some() {
                self.free.push_back(block);
            } else if self.holders[block] == 0 {
                self.free.push_front(block);
            }
        }
    }

    fn finish_step(&mut self, said: &mut Vec<Output>) {
        for mut inside in std::mem::take(&mut self.running) {
            if inside.computed < inside.total() {
                self.running.push(inside);
                continue;
            }
            inside.generated += 1;
            inside.decodes = true;
            let (id, generated) = (inside.job.id, inside.generated);
            let is_last = generated == inside.job.output;
            if generated == 1 || is_last || generated % self.report_every == 0 {
                said.push(Output::Tokens { id, generated });
            }
            if is_last {
                said.push(Output::Finished(id));
                self.release(inside.table);
            } else {
                self.running.push(inside);
            }
        }
    }
}
