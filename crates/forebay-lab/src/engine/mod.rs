//! A vLLM-like engine as a pure machine: time comes in with each input, and nothing is random.
//!
//! Call [`Engine::handle`], then [`Engine::poll`] until it says [`Output::Sleep`], before the next
//! input. Inputs of one and the same moment may be handled together before the poll: one step then
//! sees them all.

mod blocks;
mod preset;
mod scheduler;
mod step_time;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

pub use preset::{Preset, PresetError, PresetFault};
pub use scheduler::Engine;

use forebay_core::{BlockHash, Moment};

/// A request as an engine sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its name, unique among the engine's jobs.
    pub id: u64,
    /// Length of the prompt in tokens, at least 1.
    pub prompt: u32,
    /// Tokens it will generate, at least 1.
    pub output: u32,
    /// Chained hashes of the prompt's full blocks; may be shorter than the prompt, what is missing
    /// can't be shared.
    pub blocks: Arc<[BlockHash]>,
}

/// What the world tells an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A job arrived.
    Submitted(Job),
    /// Nobody waits for the job any more.
    Cancelled(u64),
    /// The moment of the last [`Output::Sleep`] has come: the step is over.
    Elapsed,
}

/// What an engine tells the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The job was refused since too many are inside already (vLLM's `--max-num-queued-reqs`: 503).
    Rejected(u64),
    /// The job can never run: its prompt and output together are larger than all KV (vLLM's 400).
    TooLong(u64),
    /// The job was admitted for the first time, with this many of its prompt's tokens found in the
    /// cache.
    Admitted {
        /// The job.
        id: u64,
        /// Prompt tokens found in the cache.
        cached: u32,
    },
    /// The job has generated this many tokens in all. Always said of the first token and the last;
    /// of those between, every [`Engine`] setting `report_every` tokens.
    Tokens {
        /// The job.
        id: u64,
        /// Tokens generated so far.
        generated: u32,
    },
    /// The job has generated its last token and is gone.
    Finished(u64),
    /// The job was preempted: its blocks are free again and it starts over from the waiting list.
    Preempted(u64),
    /// These blocks can be found in the cache from now on.
    Stored(Arc<[BlockHash]>),
    /// These blocks can't be found in the cache any more.
    Removed(Arc<[BlockHash]>),
    /// Nothing more before this moment, or before the next input if `None`.
    Sleep(Option<Moment>),
}

/// What became of one copy of a block, or of several of one job. The same prefix may be stored in
/// several copies, each of which is removed on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyChange {
    /// These of the job's prompt's full blocks, by place, now hold what their hashes say. Blocks
    /// that it found in the cache are not among them.
    Stored {
        /// The job.
        job: u64,
        /// Places in the job's `blocks`.
        blocks: Range<usize>,
    },
    /// A block that held this prefix is reused for something else.
    Removed(BlockHash),
}

/// Figures of an engine, as its metrics would show them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Jobs that run.
    pub running: u32,
    /// Jobs that wait.
    pub waiting: u32,
    /// Blocks that jobs hold, as a share of all blocks, 0 to 1.
    pub kv_used: f64,
    /// Preemptions since the start.
    pub preemptions_total: u64,
}
