//! What the world tells the core.

use std::sync::Arc;

use crate::request::{Arrival, Outcome, RequestId, WorkerId};
use crate::settings::Settings;
use crate::units::{BlockHash, Tokens};

/// What the world tells the core. Each comes with a moment, and moments never go back.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A request passed authentication and asks to run.
    Arrived(Arrival),
    /// The first token of a request came back.
    FirstToken(RequestId),
    /// A request is taken to be past its first token, which nobody could see: its answer comes in
    /// one piece. Nothing of it was sent, so it may still run elsewhere.
    Prefilled(RequestId),
    /// A running request has produced this many tokens so far. Coarse: every 64 tokens is plenty.
    Progress(RequestId, Tokens),
    /// A request left its worker, well or badly.
    Finished(RequestId, Outcome),
    /// The client went away, whether the request waits or runs.
    Abandoned(RequestId),
    /// A worker joined, left, or reported something.
    Observed(WorkerId, Observation),
    /// New settings are in force from now on. Requests that wait are judged by them at once.
    Reconfigured(Box<Settings>),
    /// The moment named by the last [`Output::Sleep`](crate::Output::Sleep) has come.
    Elapsed,
}

/// What is known of a worker when it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerProfile {
    /// Tokens its KV cache holds (`num_gpu_blocks × block_size`), where the engine tells.
    pub kv_capacity: Option<Tokens>,
    /// Most tokens it computes in one step (`max_num_batched_tokens`).
    pub batch_tokens_max: Tokens,
    /// Most requests it runs at once (`max_num_seqs`).
    pub seqs_max: u32,
}

/// What was observed of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// It joined, or came back with an empty cache. A worker that is known already is taken as
    /// restarted in place.
    Joined(WorkerProfile),
    /// It is gone, and with it everything that ran on it.
    Left,
    /// Everything that ran on it is lost, and its cache is empty; it takes nothing new until it
    /// joins again. It is still one of the pool's workers.
    Lost,
    /// Whether it is drained: it takes nothing new but finishes what it has.
    Draining(bool),
    /// Its health changed. An unhealthy worker takes nothing new.
    Healthy(bool),
    /// Its KV capacity became known or changed.
    Capacity(Tokens),
    /// Figures scraped from its metrics.
    Load(Load),
    /// Blocks that it now holds.
    Stored(Arc<[BlockHash]>),
    /// Blocks that it no longer holds.
    Removed(Arc<[BlockHash]>),
    /// It holds no blocks any more.
    Cleared,
}

/// A worker's own figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests it runs.
    pub running: u32,
    /// Requests that wait inside it.
    pub waiting: u32,
    /// Preemptions since it started.
    pub preemptions_total: u64,
}
