//! Watches one worker: probes it, reads what it says of itself, and does what its state asks for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use forebay_core::{Moment, Rng};
use http::StatusCode;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::Worker;
use super::fetch::{NoAnswer, Question, ask};
use super::figures::{FiguresView, Known};
use super::models;
use super::options::WatchOptions;
use super::silence::computes;
use super::state::{Action, Activity, Bounds, Event, Machine, Probe};
use crate::pool::Pool;

/// The most bytes of the answer to a probe.
const BYTES_MAX: usize = 64 << 10;

/// Why a worker's last probe failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProbeFault {
    /// In one word: that of a missing answer, or `status`.
    pub(crate) reason: &'static str,
    /// What it answered, if it did.
    pub(crate) status: Option<u16>,
}

/// A worker that is watched.
pub(super) struct Watched {
    pub(super) worker: Arc<Worker>,
    pub(super) pool: Arc<Pool>,
    options: RwLock<Arc<WatchOptions>>,
    /// Held while its figures are read.
    pub(super) reading: tokio::sync::Mutex<()>,
    machine: Mutex<Machine>,
    known: Mutex<Known>,
    fault: Mutex<Option<ProbeFault>>,
    /// It was said that it serves none of the pool's models.
    said_models: AtomicBool,
    /// It was said that it wants a key.
    said_key: AtomicBool,
    chance: Mutex<Rng>,
    trial_wanted: Notify,
    gone: Notify,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("worker", &self.worker.name).finish_non_exhaustive()
    }
}

impl Watched {
    /// A worker of which nothing is known.
    pub(super) fn new(worker: Arc<Worker>, pool: Arc<Pool>, options: Arc<WatchOptions>) -> Self {
        let bounds = Bounds::of(&options);
        let seed = pool.clock().unix_millis(pool.clock().now()) ^ u64::from(worker.id.0) << 48;
        Self {
            worker,
            pool,
            options: RwLock::new(options),
            reading: tokio::sync::Mutex::new(()),
            machine: Mutex::new(Machine::new(bounds)),
            known: Mutex::default(),
            fault: Mutex::default(),
            said_models: AtomicBool::default(),
            said_key: AtomicBool::default(),
            chance: Mutex::new(Rng::new(seed)),
            trial_wanted: Notify::new(),
            gone: Notify::new(),
        }
    }

    /// How it is watched.
    pub(super) fn options(&self) -> Arc<WatchOptions> {
        Arc::clone(&self.options.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has it watched in another way, from the next probe or reading on.
    pub(super) fn take_options(&self, options: Arc<WatchOptions>) {
        self.machine().rebind(Bounds::of(&options));
        *self.options.write().unwrap_or_else(PoisonError::into_inner) = options;
    }

    /// Watches it until it is forgotten.
    pub(super) async fn watch(&self) {
        tokio::select! {
            () = self.probe() => {}
            () = self.scrape() => {}
            () = self.try_out() => {}
            () = self.tick() => {}
            () = self.read_models() => {}
            () = self.gone.notified() => {}
        }
        self.worker.idle.close();
    }

    /// Something happens to it: does what follows from it. The core hears of it in the order in
    /// which it happens.
    pub(super) fn happens(&self, event: Event) {
        let mut machine = self.machine();
        for action in machine.on(self.now(), event) {
            match action {
                Action::Tell(observation) => self.pool.observe(self.worker.id, observation),
                Action::TryOut => self.trial_wanted.notify_one(),
                Action::Say(what, true) => {
                    let (pool, worker) = (&self.pool.name, &self.worker.name);
                    let probe = self.fault().map(|fault| fault.reason);
                    tracing::warn!(pool, %worker, probe, "{what}");
                }
                Action::Say(what, false) => {
                    tracing::info!(pool = self.pool.name, worker = %self.worker.name, "{what}");
                }
                Action::SayDrains => tracing::info!(
                    pool = self.pool.name,
                    worker = %self.worker.name,
                    "worker drains: it gets nothing new; {} requests still run on it",
                    self.running()
                ),
                Action::Forget => self.gone.notify_one(),
            }
        }
    }

    /// Whether it is forgotten.
    pub(super) fn is_gone(&self) -> bool {
        self.machine().is_gone()
    }

    /// Its state in one word.
    pub(super) fn word(&self) -> &'static str {
        self.machine().word()
    }

    /// What it says of itself.
    pub(super) fn figures(&self) -> FiguresView {
        self.known().view(self.now(), self.options().scrape.stale_max)
    }

    /// What is known of it by its own figures.
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why its last probe failed, if it did.
    pub(super) fn fault(&self) -> Option<ProbeFault> {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The moment that is now.
    pub(super) fn now(&self) -> Moment {
        self.pool.clock().now()
    }

    /// A time with up to a tenth added or taken by chance.
    pub(super) fn jittered(&self, time: Duration) -> Duration {
        let chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner).unit();
        time.mul_f64(0.9 + 0.2 * chance)
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its last sign of life.
    fn life(&self) -> Moment {
        self.worker.last_byte().max(self.known().advanced().unwrap_or_default())
    }

    async fn probe(&self) {
        let mut failed = false;
        loop {
            let options = self.options();
            let options = &options.probe;
            let question = Question {
                path: &options.path,
                body: None,
                within: options.timeout,
                bytes_max: BYTES_MAX,
            };
            let status = ask(&self.worker, question).await.map(|answer| answer.status);
            let (probe, fault) = judged(status);
            *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
            if let Some(ProbeFault { reason, status }) = fault
                && !failed
            {
                let (pool, worker) = (&self.pool.name, &self.worker.name);
                tracing::warn!(pool, %worker, reason, status, "worker fails a probe");
            }
            failed = fault.is_some();
            self.happens(Event::Probed(probe, self.life()));
            let away = self.machine().is_away();
            let every = if away { options.every_away.min(options.every) } else { options.every };
            sleep(self.jittered(every)).await;
        }
    }

    async fn try_out(&self) {
        loop {
            self.trial_wanted.notified().await;
            let Some(with_completion) = self.machine().trial() else { continue };
            let works = !with_completion || computes(&self.worker, &self.options()).await;
            let profile = if works {
                self.refresh_models().await;
                Some(self.introduce().await)
            } else {
                None
            };
            self.happens(Event::Tried(profile));
        }
    }

    async fn tick(&self) {
        loop {
            sleep(self.options().tick).await;
            let awaits_end = self.machine().awaits_end();
            let running = if awaits_end { self.running() } else { 0 };
            let activity = Activity { owing: self.worker.owing(), life: self.life(), running };
            self.happens(Event::Ticked(activity));
        }
    }

    async fn read_models(&self) {
        loop {
            sleep(self.jittered(self.options().models_every)).await;
            self.refresh_models().await;
        }
    }

    async fn refresh_models(&self) {
        let options = self.options();
        let path = &options.models_path;
        if let Some(status) = models::refresh(&self.worker, path, options.probe.timeout).await {
            self.warn_of_key(status, path);
        }
        if let Some(what) = models::mismatch(&self.worker.models.get(), &options.models)
            && !self.said_models.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(pool = self.pool.name, worker = %self.worker.name, "{what}");
        }
    }

    /// Says once that a worker wants a key, if that is what this answer of it says.
    pub(super) fn warn_of_key(&self, status: StatusCode, path: &str) {
        let wants_key = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if !wants_key || self.said_key.swap(true, Ordering::Relaxed) {
            return;
        }
        let (pool, worker, status) = (&self.pool.name, &self.worker.name, status.as_u16());
        tracing::warn!(
            pool,
            %worker,
            path,
            status,
            "worker wants a key, or another one: set `key_file` of the pool"
        );
    }

    /// Requests on it, by the core's account.
    fn running(&self) -> u32 {
        let mut views = self.pool.workers().into_iter();
        views.find(|view| view.worker == self.worker.id).map_or(0, |view| view.running)
    }
}

/// What an answer to a probe says of its worker, and what is wrong if it is not well.
fn judged(answered: Result<StatusCode, NoAnswer>) -> (Probe, Option<ProbeFault>) {
    let probe = match answered {
        Ok(StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) => Probe::Busy,
        Ok(StatusCode::REQUEST_TIMEOUT) | Err(NoAnswer::TooLate) => Probe::TooLate,
        // Not every engine has a page for this. One that says so answers.
        Ok(status) if status.is_success() || status.is_client_error() => {
            return (Probe::Well, None);
        }
        _ => Probe::Faulty,
    };
    let fault = match answered {
        Ok(status) => ProbeFault { reason: "status", status: Some(status.as_u16()) },
        Err(why) => ProbeFault { reason: why.word(), status: None },
    };
    (probe, Some(fault))
}
