//! Decides, for every request, whether it may run, when it may run, and where.
//!
//! Nothing here reads a clock, a socket or a random device. Time arrives with each input, and
//! randomness comes from one seed, so the same inputs give the same decisions, live, simulated and
//! replayed.
//!
//! A driver does three things, in this order, for ever:
//!
//! 1. it waits for the next input, or for the moment of the last [`Output::Sleep`];
//! 2. it calls [`Core::handle`] with the time and the input;
//! 3. it calls [`Core::poll`] and does what it says, until it says [`Output::Sleep`].
//!
//! Moments never go back, and every dispatched request is answered by exactly one
//! [`Input::Finished`] or [`Input::Abandoned`], unless its worker [left](Observation::Left).

mod units;

mod request;

mod input;
mod output;
mod refusal;
mod settings;
mod why;

mod explain;
mod words;

mod arrive;
mod observe;
mod settle;

mod buckets;
mod entitlement;
mod fleet;
mod invariants;
mod means;
mod pace;
mod predict;
mod promises;
mod queue;
mod rng;
mod routing;
#[cfg(test)]
mod strategies;
mod tenants;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hashbrown::HashMap;

use crate::fleet::{Fixed, Fleet, Flight};
use crate::means::OutputMeans;
use crate::pace::Pace;
use crate::promises::Promises;
use crate::queue::Queue;
use crate::routing::kv::Parked;
use crate::routing::reserve::Reservation;
use crate::routing::round_robin::RoundRobin;
use crate::tenants::Tenants;

pub use input::{Input, Load, Observation, WorkerProfile};
pub use output::{Alarm, Output};
pub use refusal::{Refusal, RefusalReason};
pub use request::{Arrival, ClassId, Outcome, PoolId, RequestId, TenantId, Ticket, WorkerId};
pub use rng::{Rng, mixed};
pub use routing::{HoldOrder, KvPreset, Mode, UnknownMode};
pub use settings::{
    Bucket, ClassSettings, GateSettings, Knowledge, Limits, Overload, Settings, SettingsFault,
    TenantSettings,
};
pub use units::{BlockHash, Moment, Span, Tokens};
pub use why::{Candidate, Cause, GateView, Why};
pub use words::{BadWords, WORDS_VERSION};

/// Decides for one pool. See the [crate's documentation](crate) for the calling order.
#[derive(Debug)]
pub struct Core {
    settings: Settings,
    now: Moment,
    rng: Rng,
    fleet: Fleet,
    queue: Queue,
    flights: HashMap<RequestId, Flight, Fixed>,
    means: OutputMeans,
    pace: Pace,
    tenants: Tenants,
    /// Outstanding Retry-After promises, by class.
    promises: Vec<Promises>,
    /// Workers that are kept for a request that fits nowhere yet, by slot.
    reservations: BTreeMap<u32, Reservation>,
    /// Slots whose room may have grown since the queue was looked at.
    dirty: BTreeSet<u32>,
    /// Slots that were passed over since they run far more than their part.
    crowded: BTreeSet<u32>,
    /// Marks on workers, by the moment they end.
    marks: BTreeSet<(Moment, u32)>,
    round_robin: RoundRobin,
    parked: Parked,
    /// The request that went last after having waited.
    went_last: Option<RequestId>,
    outputs: VecDeque<Output>,
    #[cfg(any(test, debug_assertions))]
    handled: u64,
}

impl Core {
    /// A core with no workers and no requests.
    ///
    /// Panics when the settings have [faults](Settings::faults): the driver shows them to whoever
    /// wrote them.
    pub fn new(settings: Settings, seed: u64) -> Self {
        assert_eq!(settings.faults(), [], "the settings have faults");
        let mut core = Self {
            now: Moment::START,
            rng: Rng::new(seed),
            fleet: Fleet::default(),
            queue: Queue::new(settings.classes.len()),
            flights: HashMap::default(),
            means: OutputMeans::new(settings.limits.means_max),
            pace: Pace::default(),
            tenants: Tenants::default(),
            promises: Vec::new(),
            reservations: BTreeMap::new(),
            dirty: BTreeSet::new(),
            crowded: BTreeSet::new(),
            marks: BTreeSet::new(),
            round_robin: RoundRobin::default(),
            parked: Parked::default(),
            went_last: None,
            outputs: VecDeque::new(),
            #[cfg(any(test, debug_assertions))]
            handled: 0,
            settings,
        };
        core.grow_promises();
        core
    }

    /// Takes one input. Call [`Core::poll`] until it sleeps before the next input.
    pub fn handle(&mut self, now: Moment, input: Input) {
        assert!(self.outputs.is_empty(), "poll until Sleep before the next input");
        assert!(self.now <= now, "time went backwards");
        self.now = now;
        self.expire();
        match input {
            Input::Arrived(arrival) => self.arrived(arrival),
            Input::FirstToken(request) => self.first_token(request, true),
            Input::Prefilled(request) => self.first_token(request, false),
            Input::Progress(request, generated) => self.progress(request, generated),
            Input::Finished(request, outcome) => self.finished(request, outcome),
            Input::Abandoned(request) => self.abandoned(request),
            Input::Observed(worker, observation) => self.observed(worker, observation),
            Input::Reconfigured(settings) => self.reconfigure(*settings),
            Input::Elapsed => {}
        }
        self.schedule();
        #[cfg(any(test, debug_assertions))]
        self.check_sometimes();
    }

    /// Yields the next thing to do; [`Output::Sleep`] ends the round.
    pub fn poll(&mut self) -> Output {
        self.outputs.pop_front().unwrap_or_else(|| Output::Sleep(self.alarm()))
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Requests that wait.
    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Whether a request waits.
    pub fn is_waiting(&self, request: RequestId) -> bool {
        self.queue.get(request).is_some()
    }

    /// The wait that was predicted for a request that waits, at its arrival and under first-come,
    /// if anything was known then.
    pub fn predicted_wait(&self, request: RequestId) -> Option<Span> {
        self.queue.get(request)?.predicted
    }

    /// Requests of each class that wait, in the order of the classes' numbers.
    pub fn queue_lens(&self) -> Vec<u32> {
        self.queue.classes.iter().map(|class| class.len).collect()
    }

    /// Requests on workers.
    pub fn flights_len(&self) -> usize {
        self.flights.len()
    }

    /// KV tokens committed on all workers: 0 once nothing runs.
    pub fn committed(&self) -> Tokens {
        self.fleet.committed()
    }

    /// Each worker's account, in order of id.
    pub fn workers(&self) -> Vec<WorkerView> {
        let block_size = self.settings.block_size;
        let view = |worker: &fleet::Worker| WorkerView {
            worker: worker.id,
            usable: worker.is_usable(self.now),
            running: worker.running.len() as u32,
            backlog: worker.backlog,
            committed: worker.committed(block_size),
            capacity: worker.capacity.tokens(),
            fraction: worker.gate.fraction(),
        };
        self.fleet.iter().map(|(_, worker)| view(worker)).collect()
    }

    /// Gives up on what waited too long, and lets marks and promises end.
    fn expire(&mut self) {
        while let Some((until, slot)) =
            self.marks.first().copied().filter(|(at, _)| *at <= self.now)
        {
            self.marks.remove(&(until, slot));
            if self.fleet.get(slot).is_some() {
                self.fleet.change(slot, self.now, &self.settings, |worker| {
                    if worker.marked_until.is_some_and(|end| end <= until) {
                        worker.marked_until = None;
                    }
                });
                self.fleet.restand(self.now, &self.settings);
                self.dirty.insert(slot);
            }
        }
        self.promises.iter_mut().for_each(|promises| promises.expire(self.now));
        while let Some((deadline, request)) = self.queue.first_deadline() {
            if deadline > self.now {
                break;
            }
            self.waited_too_long(request);
        }
    }

    /// When to wake up next, and why.
    fn alarm(&self) -> Option<(Moment, Alarm)> {
        let deadline = self.queue.first_deadline().map(|(at, _)| (at, Alarm::WaitedTooLong));
        let mark = self.marks.first().map(|(at, _)| (*at, Alarm::Mark));
        deadline.into_iter().chain(mark).min()
    }

    fn grow_promises(&mut self) {
        let promises_max = self.settings.limits.promises_max;
        while self.promises.len() < self.queue.classes.len() {
            self.promises.push(Promises::new(promises_max));
        }
    }
}

/// A worker's account as the core keeps it, for the admin page and for checks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkerView {
    /// Which worker.
    pub worker: WorkerId,
    /// Whether it may be sent something.
    pub usable: bool,
    /// Requests on it.
    pub running: u32,
    /// Uncached tokens dispatched whose first token has not come.
    pub backlog: Tokens,
    /// KV tokens that its requests hold and will hold on average.
    pub committed: Tokens,
    /// Its KV capacity, told or learned.
    pub capacity: Tokens,
    /// The fraction of the capacity that may be committed.
    pub fraction: f64,
}
