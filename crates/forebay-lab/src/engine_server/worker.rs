//! Drives one engine: takes requests and orders, lets its time pass, and writes down what it says.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{BlockHash, Moment};
use tokio::sync::Notify;

use super::clock::Clock;
use super::fault::{Death, Fault};
use super::kv_events::{Events, Prompt};
use super::metrics::Metrics;
use super::problem::Problem;
use super::ticket::Ticket;
use crate::engine::{Engine, Gauges, Input, Job, Output, Preset};

/// Steps that are made up for at once. A worker that is so far behind has no processor for the
/// speed that was asked for; its clock is set back then, so that it serves slowly, not in bursts.
const LATE_STEPS_MAX: u32 = 2_000;
/// Faults that wait for their moment.
const PENDING_MAX: usize = 64;

/// A job that a request asks for.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Its prompt.
    pub(super) prompt: Rc<Prompt>,
    /// Hashes of its prompt's full blocks.
    pub(super) blocks: Arc<[BlockHash]>,
    /// Tokens that it generates.
    pub(super) output: u32,
    /// Whether it ends by itself.
    pub(super) stops: bool,
}

/// A job inside.
#[derive(Debug)]
struct Inside {
    ticket: Rc<Ticket>,
    /// Its place in the ticket.
    place: usize,
    prompt: Rc<Prompt>,
    blocks: Arc<[BlockHash]>,
    stops: bool,
    cached: u32,
    generated: u32,
    arrived: Moment,
    admitted: Moment,
    first: Moment,
    last: Moment,
}

/// How a worker's life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// For good.
    Stop,
    /// Until so many milliseconds later, or until it is told.
    Away(Option<u64>),
}

/// One worker, from a start to its end.
#[derive(Debug)]
pub(super) struct Worker {
    engine: Engine,
    clock: Clock,
    inside: BTreeMap<u64, Inside>,
    next_id: u64,
    /// When the engine wants to be woken.
    wake: Option<Moment>,
    /// What the timer sleeps for.
    armed: Option<Moment>,
    timer: Rc<Notify>,
    events: Option<Events>,
    /// What was counted.
    pub(super) metrics: Metrics,
    refuse_above_default: u32,
    refuse_above: u32,
    /// How this life is to end since the engine has died.
    dead: Option<Ending>,
    pending: Vec<(u64, Fault)>,
    ending: Option<Ending>,
    /// Told when `ending` or `dead` is there.
    ended: Rc<Notify>,
}

/// A worker that connections share.
pub(super) type Shared = Rc<RefCell<Worker>>;

impl Worker {
    /// A worker with an empty cache.
    pub(super) fn new(
        preset: &Preset,
        speed: f64,
        report_every: u32,
        events: Option<Events>,
        metrics: Metrics,
    ) -> Self {
        let refuse_above = preset.queued_requests_max.unwrap_or(u32::MAX);
        // The server counts, as vLLM's does: a job that the engine refused later would have
        // begun its answer.
        let mut engine = Engine::new(&Preset { queued_requests_max: None, ..preset.clone() });
        engine.set_report_every(report_every);
        if events.is_some() {
            engine.watch_copies();
        }
        Self {
            engine,
            clock: Clock::new(speed),
            inside: BTreeMap::new(),
            next_id: 0,
            wake: None,
            armed: None,
            timer: Rc::default(),
            events,
            metrics,
            refuse_above_default: refuse_above,
            refuse_above,
            dead: None,
            pending: Vec::new(),
            ending: None,
            ended: Rc::default(),
        }
    }

    /// Takes a request's jobs.
    pub(super) fn submit(
        &mut self,
        wanted: Vec<Wanted>,
    ) -> Result<(Rc<Ticket>, Vec<u64>), Problem> {
        if self.dead.is_some() {
            return Err(Problem::dead());
        }
        let now = self.catch_up();
        if self.inside.len() + wanted.len() > self.refuse_above as usize {
            self.metrics.rejected += 1;
            return Err(Problem::busy());
        }
        let ticket = Rc::new(Ticket::new(wanted.len()));
        let mut ids = Vec::with_capacity(wanted.len());
        for (place, wanted) in wanted.into_iter().enumerate() {
            let id = self.next_id;
            self.next_id += 1;
            let prompt = wanted.prompt.len;
            let blocks = wanted.blocks.clone();
            let job = Job { id, prompt, output: wanted.output, blocks };
            let inside = Inside {
                ticket: ticket.clone(),
                place,
                prompt: wanted.prompt,
                blocks: wanted.blocks,
                stops: wanted.stops,
                cached: 0,
                generated: 0,
                arrived: now,
                admitted: now,
                first: now,
                last: now,
            };
            self.inside.insert(id, inside);
            self.engine.handle(now, Input::Submitted(job));
            ids.push(id);
        }
        self.listen(now);
        self.rearm();
        Ok((ticket, ids))
    }

    /// Forgets jobs whose client is gone.
    pub(super) fn cancel(&mut self, ids: &[u64]) {
        let now = self.catch_up();
        for &id in ids {
            if self.inside.remove(&id).is_some() {
                self.engine.handle(now, Input::Cancelled(id));
            }
        }
        self.listen(now);
        self.rearm();
    }

    /// Does what is due by now, and says how long nothing will be.
    pub(super) fn advance(&mut self) -> Option<Duration> {
        self.catch_up();
        self.armed = self.wake;
        self.wake.and_then(|wake| self.clock.until(wake))
    }

    /// Does what is due by now, and says which moment that is.
    fn catch_up(&mut self) -> Moment {
        let now = self.clock.now();
        let mut steps = 0;
        while let Some(end) = self.wake.filter(|&end| end <= now) {
            if steps == LATE_STEPS_MAX {
                self.clock.set(end);
                return end;
            }
            steps += 1;
            // A step ends when the engine says so, however late this task is.
            self.engine.handle(end, Input::Elapsed);
            self.listen(end);
            if self.is_fault_due() {
                self.clock.set(end);
                self.fail_as_pending();
                return end;
            }
        }
        now
    }

    /// Empties the cache, unless a job holds a block.
    pub(super) fn clear_cache(&mut self) -> bool {
        let cleared = self.engine.clear_cache();
        if let Some(events) = self.events.as_mut().filter(|_| cleared) {
            events.note_cleared();
        }
        cleared
    }

    /// What the engine holds.
    pub(super) fn gauges(&self) -> Gauges {
        self.engine.gauges()
    }

    /// Requests inside.
    pub(super) fn load(&self) -> usize {
        self.inside.len()
    }

    /// How this life is to end soon since the engine has died, if it has.
    pub(super) fn dead(&self) -> Option<Ending> {
        self.dead
    }

    /// How this life ends, if it does.
    pub(super) fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// What is told when this life ends, or its engine dies.
    pub(super) fn ended(&self) -> Rc<Notify> {
        self.ended.clone()
    }

    /// What is told when the timer is to be set anew.
    pub(super) fn timer(&self) -> Rc<Notify> {
        self.timer.clone()
    }

    /// Makes something go wrong, now or later.
    pub(super) fn take_fault(&mut self, fault: &Fault) {
        match fault.after_tokens {
            Some(tokens) if self.pending.len() < PENDING_MAX => {
                let fault = Fault { after_tokens: None, ..fault.clone() };
                self.pending.push((self.metrics.generated_tokens + tokens, fault));
            }
            Some(_) => {}
            None => self.fail(fault),
        }
    }

    /// Ends this life.
    pub(super) fn end(&mut self, ending: Ending) {
        self.ending = Some(ending);
        self.ended.notify_one();
    }

    fn fail(&mut self, fault: &Fault) {
        if fault.heal {
            self.refuse_above = self.refuse_above_default;
            self.engine.set_slowdown(1.0);
            self.clock.set_stalled(false);
            self.set_dropping(false);
        }
        if let Some(requests) = fault.refuse_above {
            self.refuse_above = requests;
        }
        if let Some(factor) = fault.slowdown {
            self.engine.set_slowdown(factor);
        }
        if let Some(stalled) = fault.stall {
            self.clock.set_stalled(stalled);
        }
        if let Some(dropping) = fault.drop_kv_events {
            self.set_dropping(dropping);
        }
        match fault.die {
            Some(Death::ErrorFrame) => self.die(fault.back_after_ms),
            Some(Death::Cut) => self.end(Ending::Away(fault.back_after_ms)),
            None => {}
        }
        if fault.restart {
            self.end(Ending::Away(fault.back_after_ms.or(Some(0))));
        }
        self.timer.notify_one();
    }

    fn set_dropping(&mut self, dropping: bool) {
        if let Some(events) = &self.events {
            events.set_dropping(dropping);
        }
    }

    /// Lets the engine die before its server.
    fn die(&mut self, back_after_ms: Option<u64>) {
        self.dead = Some(Ending::Away(back_after_ms));
        self.engine.crash();
        self.wake = None;
        std::mem::take(&mut self.inside).values().for_each(|job| job.ticket.note_death());
        self.ended.notify_one();
    }

    fn is_fault_due(&self) -> bool {
        self.pending.iter().any(|(at, _)| *at <= self.metrics.generated_tokens)
    }

    /// Lets the faults whose moment has come happen.
    fn fail_as_pending(&mut self) {
        let tokens = self.metrics.generated_tokens;
        while let Some(due) = self.pending.iter().position(|(at, _)| *at <= tokens) {
            let (_, fault) = self.pending.remove(due);
            self.fail(&fault);
        }
    }

    /// Tells the timer if it sleeps for too long.
    fn rearm(&mut self) {
        let is_late = match (self.wake, self.armed) {
            (Some(wake), Some(armed)) => wake < armed,
            (wake, None) => wake.is_some(),
            (None, Some(_)) => false,
        };
        if is_late {
            self.timer.notify_one();
        }
    }

    /// Writes down what the engine says at a moment.
    fn listen(&mut self, now: Moment) {
        loop {
            match self.engine.poll() {
                Output::Sleep(wake) => {
                    self.wake = wake;
                    break;
                }
                Output::Admitted { id, cached } => self.admitted(now, id, cached),
                Output::Tokens { id, generated } => self.generated(now, id, generated),
                Output::Finished(id) => self.finished(now, id),
                Output::Preempted(_) => self.metrics.preemptions += 1,
                // Neither happens: lengths are checked before, and the server counts.
                Output::Rejected(id) | Output::TooLong(id) => {
                    if let Some(job) = self.inside.remove(&id) {
                        job.ticket.note_death();
                    }
                }
                Output::Stored(_) | Output::Removed(_) => {}
            }
        }
        if let Some(events) = &mut self.events {
            let inside = &self.inside;
            events.publish(self.engine.copies(), |id| {
                inside.get(&id).map(|job| (&*job.prompt, &*job.blocks))
            });
        }
    }

    fn admitted(&mut self, now: Moment, id: u64, cached: u32) {
        let Some(job) = self.inside.get_mut(&id) else { return };
        (job.cached, job.admitted) = (cached, now);
        job.ticket.note(job.place, |progress| progress.cached = cached);
        self.metrics.prompt_tokens += u64::from(job.prompt.len);
        self.metrics.cached_tokens += u64::from(cached);
        self.metrics.queued.observe(self.clock.wall_secs(now.since(job.arrived)), 1);
    }

    fn generated(&mut self, now: Moment, id: u64, generated: u32) {
        let Some(job) = self.inside.get_mut(&id) else { return };
        let new = u64::from(generated.saturating_sub(job.generated));
        let gap = self.clock.wall_secs(now.since(job.last));
        self.metrics.generated_tokens += new;
        if job.generated == 0 {
            job.first = now;
            self.metrics.first_token.observe(gap, 1);
        } else {
            self.metrics.between_tokens.observe(gap / new.max(1) as f64, new);
        }
        (job.generated, job.last) = (generated, now);
        job.ticket.note(job.place, |progress| progress.generated = generated);
    }

    fn finished(&mut self, now: Moment, id: u64) {
        let Some(job) = self.inside.remove(&id) else { return };
        job.ticket.note(job.place, |progress| progress.ended = true);
        let metrics = &mut self.metrics;
        let wall = |from: Moment, to: Moment| self.clock.wall_secs(to.since(from));
        *(if job.stops { &mut metrics.stopped } else { &mut metrics.limited }) += 1;
        metrics.prompts.observe(f64::from(job.prompt.len), 1);
        metrics.answers.observe(f64::from(job.generated), 1);
        metrics.computed.observe(f64::from(job.prompt.len - job.cached), 1);
        metrics.whole.observe(wall(job.arrived, now), 1);
        metrics.inference.observe(wall(job.admitted, now), 1);
        metrics.prefill.observe(wall(job.admitted, job.first), 1);
        metrics.decode.observe(wall(job.first, now), 1);
        if job.generated > 1 {
            let gaps = f64::from(job.generated - 1);
            metrics.per_token.observe(wall(job.first, now) / gaps, 1);
        }
    }
}

/// A request's jobs inside a worker, which leave it when nobody reads their answer any more.
#[derive(Debug)]
pub(super) struct Admission {
    worker: Shared,
    /// How far they are.
    pub(super) ticket: Rc<Ticket>,
    ids: Vec<u64>,
}

impl Admission {
    /// Submits a request's jobs.
    pub(super) fn new(worker: &Shared, wanted: Vec<Wanted>) -> Result<Self, Problem> {
        let (ticket, ids) = worker.borrow_mut().submit(wanted)?;
        Ok(Self { worker: worker.clone(), ticket, ids })
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if !self.ticket.all_ended() {
            self.worker.borrow_mut().cancel(&self.ids);
        }
    }
}

/// Lets a worker's time pass, for ever.
pub(super) async fn keep_time(worker: Shared) {
    let timer = worker.borrow().timer();
    loop {
        let wait = worker.borrow_mut().advance();
        match wait {
            None => timer.notified().await,
            // Sockets have their turn even where the engine is always late.
            Some(Duration::ZERO) => tokio::task::yield_now().await,
            Some(wait) => {
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = timer.notified() => {}
                }
            }
        }
    }
}
