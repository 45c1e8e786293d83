//! Drives one pool's core on the live clock.
//!
//! | module | answers |
//! |---|---|
//! | `seat` | how does one request wait for its decision, and what if it stops waiting? |
//! | `alarm` | who wakes the core when nobody speaks to it? |
//! | `prefill` | when was a first token, where nobody can see it? |
//! | `ratio` | how many bytes of text are a token of this model? |
//! | `recent` | what was decided lately, for whoever asks why? |
//!
//! The core stands behind a lock, and whoever has an input hands it in himself: the request's own
//! task, a probe, a scrape. A decision takes microseconds; a task of its own for the core would
//! cost two changes of thread for each request, which is more than the decision.

mod alarm;
mod prefill;
mod ratio;
mod recent;
mod seat;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use foldhash::fast::FixedState;
use forebay_core::{
    Arrival, ClassId, Core, Input, Moment, Observation, Output, PoolId, Refusal, RefusalReason,
    RequestId, Settings, Span, WorkerId, WorkerView,
};
use hashbrown::HashMap;

use crate::clock::Clock;
use crate::observe::histogram::{DECISIONS, Histogram};
use crate::workers::Roster;
use alarm::Alarm;
use prefill::Prefills;
pub(crate) use ratio::Ratio;
use recent::Recent;
pub(crate) use recent::{Arrived, Remembered, Verdict};
pub(crate) use seat::Seat;
use seat::Shared;

/// Hears every input and output of a pool's core, in order.
pub(crate) trait Diary: Send {
    /// The core is about to take this input.
    fn told(&mut self, now: Moment, input: &Input);
    /// The core said this.
    fn said(&mut self, now: Moment, output: &Output);
}

/// One model's workers, and the core that decides for them.
pub(crate) struct Pool {
    /// Its place among the gateway's pools.
    pub(crate) id: PoolId,
    /// Its name in metrics, refusals and the admin page.
    pub(crate) name: String,
    /// Bytes of text in a token of its model.
    pub(crate) ratio: Ratio,
    /// Its workers, and how they are reached.
    pub(crate) roster: Roster,
    /// How long its core takes for an input and all that it says to it, in nanoseconds.
    pub(crate) decisions: Histogram,
    block_size: AtomicU32,
    clock: Clock,
    alarm: Alarm,
    state: Mutex<State>,
}

struct State {
    core: Core,
    /// The last moment that the core was told.
    now: Moment,
    requests: u64,
    seats: HashMap<RequestId, Arc<Shared>, FixedState>,
    prefills: Prefills,
    recent: Recent,
    diary: Option<Box<dyn Diary>>,
    /// Kept between rounds so that no round allocates.
    wakers: Vec<Waker>,
}

/// What a pool is made of.
pub(crate) struct PoolParts {
    /// Its place among the gateway's pools.
    pub(crate) id: PoolId,
    /// Its name.
    pub(crate) name: String,
    /// What its core is told.
    pub(crate) settings: Settings,
    /// The seed of its core.
    pub(crate) seed: u64,
    /// Bytes of text in a token, until usage says better.
    pub(crate) bytes_per_token: f64,
    /// Lanes that its workers are spoken to from.
    pub(crate) lanes: usize,
    /// Who hears what is decided.
    pub(crate) diary: Option<Box<dyn Diary>>,
}

/// Counts of a pool at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// Requests that wait.
    pub(crate) waiting: usize,
    /// Requests on workers.
    pub(crate) running: usize,
    /// Requests whose client still holds a seat: waiting, running, or about to hear of it.
    pub(crate) seats: usize,
}

/// How a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Since its arrival.
    pub(crate) waited: Span,
    /// What was predicted at its arrival, under first-come, if anything was known.
    pub(crate) predicted: Option<Span>,
    /// Requests that wait in its pool, itself among them.
    pub(crate) queue_len: usize,
    /// Workers that may be sent requests.
    pub(crate) workers: usize,
}

impl Pool {
    /// A pool without workers.
    pub(crate) fn new(parts: PoolParts, clock: Clock) -> Self {
        let block_size = AtomicU32::new(parts.settings.block_size);
        let state = State {
            prefills: Prefills::default(),
            core: Core::new(parts.settings, parts.seed),
            now: Moment::START,
            requests: 0,
            seats: HashMap::default(),
            recent: Recent::default(),
            diary: parts.diary,
            wakers: Vec::new(),
        };
        Self {
            id: parts.id,
            name: parts.name,
            ratio: Ratio::new(parts.bytes_per_token),
            roster: Roster::new(parts.lanes),
            decisions: Histogram::new(&DECISIONS),
            block_size,
            clock,
            alarm: Alarm::default(),
            state: Mutex::new(state),
        }
    }

    /// Takes a request in and gives it a seat. Its name is chosen here, so that names grow in the
    /// order of arrival.
    ///
    /// `blind` says that nobody will see its first token, since its answer comes in one piece. Its
    /// client knows it by `name`.
    pub(crate) fn arrive(
        self: &Arc<Self>,
        mut arrival: Arrival,
        blind: bool,
        name: &Arc<str>,
    ) -> Seat {
        let shared = Arc::new(Shared::default());
        let mut state = self.lock();
        state.requests += 1;
        arrival.request = RequestId(state.requests);
        let request = arrival.request;
        state.seats.insert(request, Arc::clone(&shared));
        state.prefills.expect(request, blind);
        let arrived = Arrived::new(&arrival, self.clock.now(), Arc::clone(name));
        state.recent.arrive(request, arrived);
        drop(self.round(state, Input::Arrived(arrival)));
        Seat::new(Arc::clone(self), request, shared)
    }

    /// Tells the core something about a worker.
    pub(crate) fn observe(&self, worker: WorkerId, observation: Observation) {
        self.tell(Input::Observed(worker, observation));
    }

    /// Puts new settings in force.
    pub(crate) fn reconfigure(&self, settings: Settings) {
        self.block_size.store(settings.block_size, Ordering::Relaxed);
        self.tell(Input::Reconfigured(Box::new(settings)));
    }

    /// Tokens in a block of the prefix hashes.
    pub(crate) fn block_size(&self) -> u32 {
        self.block_size.load(Ordering::Relaxed)
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> Settings {
        self.lock().core.settings().clone()
    }

    /// Takes no new requests from now on; what waits and runs goes on.
    pub(crate) fn close(&self) {
        let settings = Settings { accepting: false, ..self.settings() };
        self.reconfigure(settings);
    }

    /// Ends everything that is still here: what waits is refused, what runs is broken off.
    pub(crate) fn end(&self) {
        let requests: Vec<RequestId> = self.lock().seats.keys().copied().collect();
        for request in requests {
            let mut state = self.lock();
            let refusal = Refusal {
                reason: RefusalReason::Draining,
                class: ClassId(0),
                retry_after: Some(state.core.settings().limits.mark.max(Span::secs(1))),
                predicted_wait: None,
                waited: Span::ZERO,
                limit: 0,
                sustained: false,
            };
            let now = state.now;
            state.give(now, request, Verdict::Refused(refusal));
            drop(self.round(state, Input::Abandoned(request)));
        }
    }

    /// Tells nobody any more what is decided, so that the recording can be ended.
    pub(crate) fn forget_diary(&self) {
        self.lock().diary = None;
    }

    /// How many requests wait and run.
    pub(crate) fn census(&self) -> Census {
        let state = self.lock();
        Census {
            waiting: state.core.queue_len(),
            running: state.core.flights_len(),
            seats: state.seats.len(),
        }
    }

    /// Requests of each class that wait, in the order of the classes' numbers.
    pub(crate) fn queue_lens(&self) -> Vec<u32> {
        self.lock().core.queue_lens()
    }

    /// Each worker's account.
    pub(crate) fn workers(&self) -> Vec<WorkerView> {
        self.lock().core.workers()
    }

    /// What was decided for a request, the oldest first, as far as that was lately.
    pub(crate) fn explain(&self, request: RequestId) -> Vec<Remembered> {
        self.lock().recent.of(request)
    }

    /// How a request waits that came then, if it does.
    pub(crate) fn waits(&self, request: RequestId, arrived: Moment) -> Option<Waits> {
        let state = self.lock();
        let core = &state.core;
        core.is_waiting(request).then(|| Waits {
            waited: self.clock.now().since(arrived),
            predicted: core.predicted_wait(request),
            queue_len: core.queue_len(),
            workers: core.workers().iter().filter(|worker| worker.usable).count(),
        })
    }

    /// The requests that clients know by this name, the oldest first, as far as they came lately.
    pub(crate) fn named(&self, name: &str) -> Vec<(RequestId, Arrived)> {
        self.lock().recent.named(name)
    }

    /// Requests on a worker whose first token nobody has seen are taken to be past it: the worker
    /// says that nothing waits inside it.
    pub(crate) fn nothing_waits_in(&self, worker: WorkerId, asked_at: Moment) {
        let mut state = self.lock();
        let past = state.prefills.dispatched_before(worker, asked_at);
        for request in past {
            state = self.round(state, Input::Prefilled(request));
        }
    }

    /// Wakes the core when it asked to be woken, for as long as the pool lives.
    pub(crate) async fn keep_awake(self: Arc<Self>) {
        loop {
            self.alarm.rings(&self.clock).await;
            let mut state = self.lock();
            let overdue = state.prefills.overdue(self.clock.now());
            for request in overdue {
                state = self.round(state, Input::Prefilled(request));
            }
            drop(self.round(state, Input::Elapsed));
        }
    }

    /// The clock that the core's moments are of.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Gives up a request's seat, with what is left to be said of it.
    fn leave(&self, request: RequestId, last: Option<Input>) {
        let mut state = self.lock();
        state.seats.remove(&request);
        if let Some(input) = last {
            drop(self.round(state, input));
        }
    }

    fn tell(&self, input: Input) {
        drop(self.round(self.lock(), input));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a bug that the release profile ends the process for.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One round of the core: an input, and all that it says to it. Wakes whoever got a decision
    /// after the lock is free, and takes the lock again only for whoever has more to say.
    fn round<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        input: Input,
    ) -> MutexGuard<'a, State> {
        let now = self.clock.now();
        let wake_at = state.step(now, input);
        self.decisions.record(self.clock.now().since(now).0);
        self.alarm.set(wake_at);
        if state.wakers.is_empty() {
            return state;
        }
        let mut wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.drain(..).for_each(Waker::wake);
        let mut state = self.lock();
        state.wakers = wakers;
        state
    }
}

impl State {
    /// Hands the core an input and does what it says; when to wake it next.
    fn step(&mut self, now: Moment, input: Input) -> Option<Moment> {
        self.now = now.max(self.now);
        let now = self.now;
        // Whoever saw a later request's first token knows of the earlier ones of that worker.
        let implied = self.prefills.hear(now, &input);
        for request in implied {
            let past = Input::Prefilled(request);
            self.prefills.hear(now, &past);
            self.put(now, past);
        }
        let wake_at = self.put(now, input);
        wake_at.into_iter().chain(self.prefills.next()).min()
    }

    fn put(&mut self, now: Moment, input: Input) -> Option<Moment> {
        if let Some(diary) = &mut self.diary {
            diary.told(now, &input);
        }
        self.core.handle(now, input);
        loop {
            let output = self.core.poll();
            if let Some(diary) = &mut self.diary {
                diary.said(now, &output);
            }
            match output {
                Output::Dispatch(request, worker, why) => {
                    self.prefills.dispatched(now, request, worker, &why);
                    self.give(now, request, Verdict::Dispatched(worker, Arc::from(why)));
                }
                Output::Spill(request, pool, why) => {
                    self.prefills.gone(request);
                    self.give(now, request, Verdict::Spilled(pool, Arc::from(why)));
                }
                Output::Refuse(request, refusal) => {
                    self.prefills.gone(request);
                    self.give(now, request, Verdict::Refused(refusal));
                }
                // Whoever gave up has dropped the connection to the worker already.
                Output::Cancel(..) => {}
                Output::Sleep(alarm) => return alarm.map(|(at, _)| at),
            }
        }
    }

    fn give(&mut self, now: Moment, request: RequestId, verdict: Verdict) {
        let decision = Remembered { at: now, what: verdict };
        self.recent.note(request, decision.clone());
        if let Some(shared) = self.seats.get(&request) {
            self.wakers.extend(shared.give(decision));
        }
    }
}
