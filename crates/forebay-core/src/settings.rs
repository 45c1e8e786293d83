//! Everything the core can be told to do differently, with no defaults of its own: a limit that
//! nobody chose is the fault this project exists for. The lab and the gateway own the table of
//! defaults.

use crate::request::{ClassId, PoolId, TenantId};
use crate::routing::Mode;
use crate::units::{Span, Tokens};

/// The settings of one pool's core.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whether new requests are taken; a pool that is being shut down takes none and finishes what
    /// it has.
    pub accepting: bool,
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
    /// K of `docs/concepts/hold.md`: how strongly a wait, in units of the queue's drain time,
    /// counts against prefill work, in units of the mean request's. 0 never ages.
    pub ageing: f64,
    /// γ of `docs/concepts/hold.md`: a request that has waited this many times what first-come
    /// would have made it wait goes first. `f64::INFINITY` makes no promise.
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
    /// A worker is open while its prefill backlog is below this many full steps
    /// (`batch_tokens_max`).
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
    /// Most tenants with something waiting, running or owed; another's request is accounted to a
    /// shared rest.
    pub tenants_max: u32,
    /// Most prefix classes whose mean output is remembered.
    pub means_max: u32,
    /// Most outstanding Retry-After promises a class remembers.
    pub promises_max: u32,
    /// Most times one request is dispatched, the first included.
    pub attempts_max: u32,
    /// The largest Retry-After that is sent; above it the refusal says sustained overload.
    pub retry_after_max: Span,
    /// How long a mark on a worker (busy, suspect) stands before it is tried again.
    pub mark: Span,
}

/// A fault of settings: where, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}\nhint: {remedy}")]
pub struct SettingsFault {
    /// Which setting, by its path.
    pub place: String,
    /// What is wrong with it.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl Settings {
    /// The settings of a class. A class that is not listed (any more) is served as the last one
    /// listed.
    pub(crate) fn class(&self, class: ClassId) -> &ClassSettings {
        &self.classes[usize::from(class.0).min(self.classes.len() - 1)]
    }

    /// The settings of a tenant.
    pub(crate) fn tenant(&self, tenant: TenantId) -> &TenantSettings {
        self.tenants
            .binary_search_by_key(&tenant, |(listed, _)| *listed)
            .map_or(&self.tenant_default, |place| &self.tenants[place].1)
    }

    /// All faults of these settings; the core takes only settings without any.
    pub fn faults(&self) -> Vec<SettingsFault> {
        let mut faults = Faults(Vec::new());
        faults.check(self.block_size > 0, "block_size", "is zero", "give the engines' block size");
        faults.check(!self.classes.is_empty(), "classes", "there is none", "list at least one");
        for (nth, class) in self.classes.iter().enumerate() {
            class.check(&format!("classes[{nth}]"), &mut faults);
        }
        let sorted = self.tenants.is_sorted_by(|a, b| a.0 < b.0);
        faults.check(sorted, "tenants", "are not in order, or twice", "list each once, by id");
        self.tenant_default.check("tenant_default", &mut faults);
        for (id, tenant) in &self.tenants {
            tenant.check(&format!("tenants[{}]", id.0), &mut faults);
        }
        self.gate.check(&mut faults);
        self.limits.check(&mut faults);
        faults.0
    }
}

struct Faults(Vec<SettingsFault>);

impl Faults {
    fn check(&mut self, holds: bool, place: &str, what: &str, remedy: &str) {
        if !holds {
            let (place, what, remedy) = (place.to_owned(), what.to_owned(), remedy.to_owned());
            self.0.push(SettingsFault { place, what, remedy });
        }
    }
}

impl ClassSettings {
    fn check(&self, place: &str, faults: &mut Faults) {
        faults.check(self.share > 0, place, "share is zero", "give a share of at least 1");
        let sane = self.ageing >= 0.0 && self.ageing.is_finite();
        faults.check(sane, place, "ageing is negative or not finite", "give 0 or more; 3 is usual");
        faults.check(
            self.promise >= 1.0,
            place,
            "promise is below 1",
            "give 1 or more; 2 is usual",
        );
        let bounded = self.overload == Overload::Queue || self.wait_max.is_some();
        faults.check(bounded, place, "sheds or spills at no limit", "give its longest wait");
    }
}

impl TenantSettings {
    fn check(&self, place: &str, faults: &mut Faults) {
        faults.check(self.weight > 0, place, "weight is zero", "give a weight of at least 1");
        for bucket in [self.rate, self.tokens].into_iter().flatten() {
            let rate = bucket.per_second > 0.0 && bucket.per_second.is_finite();
            faults.check(rate, place, "a rate is not above 0", "give units a second, above 0");
            let burst = bucket.burst >= 1.0 && bucket.burst.is_finite();
            faults.check(burst, place, "a burst is below 1", "give a burst of 1 or more");
        }
        let none = self.concurrency_max == Some(0);
        faults.check(!none, place, "concurrency_max is zero", "give 1 or more, or leave it out");
    }
}

impl GateSettings {
    fn check(&self, faults: &mut Faults) {
        let ordered = 0.0 < self.fraction_min
            && self.fraction_min <= self.fraction_start
            && self.fraction_start <= self.fraction_max
            && self.fraction_max <= 2.0;
        let remedy = "give 0 < fraction_min ≤ fraction_start ≤ fraction_max ≤ 2";
        faults.check(ordered, "gate", "the fractions are not in order", remedy);
        let open = self.backlog_steps_max > 0.0;
        faults.check(open, "gate", "backlog_steps_max is not above 0", "give 1.5, as usual");
    }
}

impl Limits {
    fn check(&self, faults: &mut Faults) {
        let bounds = [
            (self.queue_len_max, "queue_len_max"),
            (self.running_max, "running_max"),
            (self.workers_max, "workers_max"),
            (self.tenants_max, "tenants_max"),
            (self.means_max, "means_max"),
            (self.attempts_max, "attempts_max"),
        ];
        for (bound, name) in bounds {
            faults.check(bound > 0, &format!("limits.{name}"), "is zero", "give 1 or more");
        }
        let second = self.retry_after_max >= Span::secs(1);
        faults.check(second, "limits.retry_after_max", "is below 1 s", "give 1 s or more");
        faults.check(self.mark > Span::ZERO, "limits.mark", "is zero", "give 1 s, as usual");
    }
}
