//! Everything the core can be told to do differently, with no defaults of its own: a limit that nobody chose is
//! the fault this project exists for. The lab and the gateway own the table of defaults.

use crate::request::{PoolId, TenantId};
use crate::routing::Mode;
use crate::units::{Span, Tokens};

/// The settings of one pool's core.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How a worker is chosen, and whether requests are held.
    pub mode: Mode,
    /// Where knowledge of the workers' caches comes from.
    pub knowledge: Knowledge,
    /// Tokens in one block of the prefix hashes; the same for all workers of a pool.
    pub block_size: u32,
    /// A constant in place of the learned mean output.
    pub expected_output: Option<Tokens>,
    /// The classes of service; a [`ClassId`](crate::ClassId) is a place in this list.
    pub classes: Vec<ClassSettings>,
    /// What holds for each tenant that has no entry of its own.
    pub tenant_default: TenantSettings,
    /// Tenants with settings of their own.
    pub tenants: Vec<(TenantId, TenantSettings)>,
    /// The KV gate.
    pub gate: GateSettings,
    /// Bounds on everything that could grow.
    pub limits: Limits,
}

/// Where the core's knowledge of cached blocks comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// From the engines' events: [`Observation::Stored`](crate::Observation::Stored) and its kin.
    Events,
    /// From the core's own dispatches, through a mirror of each worker's least-recently-used cache.
    Own,
}

/// What happens when a class's request can't run soon enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overload {
    /// It waits, up to `wait_max`, and is then refused as `waited_too_long`.
    Queue,
    /// It is refused at arrival when its predicted wait is above `wait_max`.
    Shed,
    /// It goes to another pool when its predicted wait is above `wait_max`.
    Spill(PoolId),
}

/// One class of service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassSettings {
    /// What happens when there is no room.
    pub overload: Overload,
    /// The longest wait the class accepts; `None` is without limit.
    pub wait_max: Option<Span>,
    /// Most requests of the class that may wait.
    pub queue_len_max: u32,
    /// Its part of the fleet when classes compete, in relation to the others' shares. At least 1.
    pub share: u32,
    /// K of DESIGN §4: how strongly a wait, in units of the queue's drain time, counts against prefill work, in
    /// units of the mean request's. 0 never ages.
    pub ageing: f64,
    /// γ of DESIGN §4: a request that has waited this many times what first-come would have made it wait goes
    /// first. `f64::INFINITY` makes no promise.
    pub promise: f64,
}

/// What a tenant is entitled to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TenantSettings {
    /// Its part of its class when tenants compete, in relation to the others' weights. At least 1.
    pub weight: u32,
    /// Requests a second, and the burst above it.
    pub rate: Option<Bucket>,
    /// Prompt tokens a second, and the burst above it.
    pub tokens: Option<Bucket>,
    /// Most requests that wait or run at once.
    pub concurrency_max: Option<u32>,
}

/// A rate and how far a burst may exceed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// Units a second, above 0.
    pub per_second: f64,
    /// Units that may come at once, at least 1.
    pub burst: f64,
}

/// The KV gate of the `hold` modes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateSettings {
    /// The fraction of a worker's KV capacity that may be committed, at the start.
    pub fraction_start: f64,
    /// The least that feedback may make of it.
    pub fraction_min: f64,
    /// The most that feedback may make of it.
    pub fraction_max: f64,
    /// A worker is open while its prefill backlog is below this many full steps (`batch_tokens_max`).
    pub backlog_steps_max: f64,
}

/// Bounds on everything that could grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most requests that may wait, over all classes.
    pub queue_len_max: u32,
    /// Most requests that may run, over all workers: a bound on memory, far above what engines run.
    pub running_max: u32,
    /// Most workers.
    pub workers_max: u32,
    /// Most tenants with something waiting, running or owed; another's request is accounted to a shared rest.
    pub tenants_max: u32,
    /// Most prefix classes whose mean output is remembered.
    pub means_max: u32,
    /// Most outstanding Retry-After promises a class remembers.
    pub promises_max: u32,
    /// Most times one request is dispatched, the first included.
    pub attempts_max: u32,
    /// The largest Retry-After that is sent; above it the refusal says sustained overload.
    pub retry_after_max: Span,
    /// How long a mark on a worker (rejected, suspect) stands before it is tried again.
    pub mark: Span,
}
