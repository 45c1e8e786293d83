//! What a run leaves behind: one record per logical request, and the state of the fleet over time.

use forebay_core::{Moment, RefusalReason, Span};

/// How a logical request ended. Exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was served to its last token.
    Completed,
    /// It was refused, and its client gave up retrying; the reason is the last one.
    Refused(RefusalReason),
    /// Its client went away before it was served.
    Abandoned,
    /// A worker failed it.
    Failed(RefusalReason),
}

/// One logical request: all attempts of one client for one answer.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestRecord {
    /// Its place in the trace, from 0.
    pub id: u64,
    /// When the first attempt was scheduled. Every latency counts from here.
    pub scheduled: Moment,
    /// Place of its class in [`RunRecord::classes`].
    pub class: u16,
    /// Place of its tenant in [`RunRecord::tenants`].
    pub tenant: u32,
    /// Prompt tokens.
    pub prompt: u64,
    /// Output tokens that it was to generate.
    pub output: u64,
    /// Prompt tokens found in the engine's cache at its first admission; `None` if it never was
    /// admitted.
    pub cached: Option<u64>,
    /// How it ended.
    pub fate: Fate,
    /// Times it was offered to the core: 1 + retries.
    pub attempts: u32,
    /// The numbers it had in a core, one for each time that it came to one: its attempts, and the
    /// pools it was spilled to.
    pub core_requests: Vec<u64>,
    /// The worker it ran on last.
    pub worker: Option<u32>,
    /// From its last arrival at the core to its dispatch.
    pub queue: Option<Span>,
    /// When it was dispatched last.
    pub dispatched: Option<Moment>,
    /// When its first token came.
    pub first_token: Option<Moment>,
    /// When it ended, whichever way.
    pub ended: Moment,
    /// The wait that first-come would have cost, as the core predicted it at arrival.
    pub predicted_wait: Option<Span>,
    /// The last Retry-After it was given, and whether it was cut by the cap.
    pub retry_after: Option<(Span, bool)>,
    /// What became of every Retry-After it was given.
    pub promises: Promises,
    /// Times an engine preempted it.
    pub preemptions: u32,
}

/// What became of the Retry-Afters that one client was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// Refusals that named a Retry-After, whether or not it was cut.
    pub given: u16,
    /// Those whose Retry-After was cut by the cap: not promises that anybody could keep.
    pub cut: u16,
    /// Those not cut whose client came back when it was told to.
    pub followed: u16,
    /// The last followed one was kept: the client came back and was served.
    pub kept: bool,
}

/// The fleet at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimelinePoint {
    /// When.
    pub at: Moment,
    /// Requests held in the core.
    pub queued: u32,
    /// Requests running in the engines.
    pub running: u32,
    /// Requests waiting inside the engines.
    pub waiting: u32,
    /// Blocks in use, as a share of all blocks of the fleet, 0 to 1.
    pub kv_used: f64,
}

/// What one run leaves behind.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The trace's name: a file's name without its folder, or the synthetic description's.
    pub trace: String,
    /// The mode's name.
    pub mode: String,
    /// Number of workers.
    pub workers: u32,
    /// The seed.
    pub seed: u64,
    /// The engine preset's name; several are joined by `+`.
    pub engine: String,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// Names of the tenants.
    pub tenants: Vec<String>,
    /// One record for each logical request, in order of id.
    pub requests: Vec<RequestRecord>,
    /// The fleet over time, at most a few hundred points evenly spaced.
    pub timeline: Vec<TimelinePoint>,
    /// Preemptions over all engines.
    pub preemptions: u64,
    /// The most requests that ever waited in the core of one pool.
    pub queue_len_max_seen: u64,
}
