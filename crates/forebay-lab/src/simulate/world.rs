//! Drives cores and engines through virtual time, one event after the other.
//!
//! The network takes no time. What happens at one moment is told to the cores first, in order; only
//! then are the engines asked what came of it, so that an idle engine's first step sees a whole
//! burst.

mod engines;
mod script;
mod watch;

use std::collections::{BTreeMap, VecDeque};

use forebay_core::{
    Arrival, Input, Moment, Output, PoolId, Refusal, RequestId, Rng, Span, Ticket, WorkerId,
};

use super::agenda::{Agenda, Event};
use super::books::{Away, Books, Open};
use super::pool::Pool;
use super::sessions::{Sending, Sessions};
use super::source::{Pulled, Source};
use super::timeline::Timeline;
use super::{
    Client, Fate, Happening, Patience, Plan, RUN_MAX, RunRecord, SimulateError, Tap, TimelinePoint,
};
use crate::engine::{self, Job};

/// Time between two readings of the workers' figures, as a scraper's.
const SCRAPE_EVERY: Span = Span::secs(1);
/// Once nothing has happened for so long, the next reading comes after as long again: an engine in
/// a step of minutes has nothing new to say, and a run of years must not consist of readings.
const SCRAPE_IDLE: Span = Span::secs(60);
/// How long requests may wait with nothing left to happen but alarms: as long as any class may let
/// them wait.
const STUCK_MAX: Span = Span::secs(86_400);

/// Runs a plan to its end.
pub fn run(plan: Plan) -> Result<RunRecord, SimulateError> {
    run_tapped(plan, &mut super::NoTap)
}

/// Runs a plan to its end, and lets somebody listen to its cores.
pub fn run_tapped(plan: Plan, tap: &mut dyn Tap) -> Result<RunRecord, SimulateError> {
    plan.check()?;
    let mut world = World::new(plan, tap)?;
    world.live()?;
    Ok(world.into_record())
}

/// The state of a run.
pub(super) struct World<'t> {
    pub(super) now: Moment,
    pub(super) agenda: Agenda,
    pub(super) pools: Vec<Pool>,
    pub(super) books: Books,
    /// What the cores are to be told, in order.
    inputs: VecDeque<(u16, Input)>,
    /// Workers that were told something: pool and place.
    unasked: Vec<(u16, u32)>,
    source: Source,
    /// The request whose arrival is planned.
    next: Option<Pulled>,
    sessions: Sessions<Pulled>,
    /// Turns whose time is planned, by place in the trace.
    turns: BTreeMap<u64, Pulled>,
    client: Client,
    client_draws: Rng,
    patience: Option<Patience>,
    patience_draws: Rng,
    script: Vec<Happening>,
    tells_blocks: bool,
    scrape_planned: bool,
    /// When something other than a reading or an alarm happened last.
    happened_at: Moment,
    driven_at: Moment,
    timeline: Timeline,
    header: RunRecord,
    tap: &'t mut dyn Tap,
}

impl<'t> World<'t> {
    fn new(plan: Plan, tap: &'t mut dyn Tap) -> Result<Self, SimulateError> {
        let pools = Pool::all(&plan, tap)?;
        let draws = Rng::new(plan.seed);
        let header = watch::header(&plan);
        let mut agenda = Agenda::default();
        for (scripted, place) in plan.script.iter().zip(0..) {
            agenda.plan(Moment::START + scripted.at, Event::Script(place));
        }
        Ok(Self {
            now: Moment::START,
            agenda,
            pools,
            books: Books::new(plan.patience.is_some()),
            inputs: VecDeque::new(),
            unasked: Vec::new(),
            source: Source::new(&plan.trace, plan.requests, plan.scale, &plan.service, &draws),
            next: None,
            sessions: Sessions::new(),
            turns: BTreeMap::new(),
            client: plan.client,
            client_draws: draws.fork("clients"),
            patience: plan.patience,
            patience_draws: draws.fork("patience"),
            script: plan.script.into_iter().map(|scripted| scripted.what).collect(),
            tells_blocks: plan.knowledge == forebay_core::Knowledge::Events,
            scrape_planned: false,
            happened_at: Moment::START,
            driven_at: Moment::START,
            timeline: Timeline::new(),
            header,
            tap,
        })
    }

    /// Lets everything happen.
    fn live(&mut self) -> Result<(), SimulateError> {
        for pool in 0..self.pools.len() {
            let joined: Vec<_> = self.pools[pool].observed(super::pool::Worker::joined).collect();
            self.inputs.extend(joined.into_iter().map(|input| (pool as u16, input)));
        }
        self.settle();
        self.pull()?;
        while self.books.outstanding > 0 {
            self.run_dry()?;
            self.close();
        }
        Ok(())
    }

    /// Lets things happen until every request has ended, or nothing is left that could end the
    /// others.
    fn run_dry(&mut self) -> Result<(), SimulateError> {
        while self.books.outstanding > 0 {
            if self.agenda.is_driven() {
                self.driven_at = self.now;
            } else if self.now.since(self.driven_at) > STUCK_MAX {
                break;
            }
            let Some((at, event)) = self.agenda.next() else { break };
            self.check_end(at)?;
            while let Some(due) = self.timeline.due(at) {
                let point = self.point(due);
                self.timeline.take(point);
            }
            self.now = at;
            if event.is_driving() {
                self.happened_at = at;
            }
            self.happen(event)?;
            self.settle();
            if self.agenda.next_at() != Some(self.now) {
                self.ask_engines();
            }
        }
        Ok(())
    }

    /// Refuses what would happen after the longest run's end: virtual time would come to its own
    /// end, and stand still there.
    fn check_end(&self, at: Moment) -> Result<(), SimulateError> {
        if at.since(Moment::START) <= RUN_MAX {
            return Ok(());
        }
        let (trace, nth) = (self.header.trace.clone(), self.books.records.len() as u64);
        Err(SimulateError::TooLong { trace, nth })
    }

    fn happen(&mut self, event: Event) -> Result<(), SimulateError> {
        match event {
            Event::Arrival => {
                if let Some(pulled) = self.next.take() {
                    self.come(pulled);
                }
                self.pull()?;
            }
            Event::Turn(id) => {
                if let Some(pulled) = self.turns.remove(&id) {
                    self.offer_first(pulled);
                }
            }
            Event::Return(id) => {
                if let Some(away) = self.books.away.remove(&id) {
                    self.offer(away.open);
                }
            }
            Event::GiveUp(id) => self.give_up(id),
            Event::Step { pool, worker } => {
                let engine = &mut self.pools[usize::from(pool)].workers[worker as usize];
                if engine.step_ends.take_if(|ends| *ends == self.now).is_some() {
                    self.tell_engine(pool, worker, engine::Input::Elapsed);
                }
            }
            Event::Alarm(pool) => self.ring(pool),
            Event::Scrape => self.scrape(),
            Event::Script(place) => self.play(place),
        }
        Ok(())
    }

    /// Plans the arrival of the trace's next request.
    fn pull(&mut self) -> Result<(), SimulateError> {
        if let Some((at, pulled)) = self.source.pull()? {
            self.check_end(at)?;
            self.books.pulled(&pulled);
            self.next = Some(pulled);
            self.agenda.plan(at.max(self.now), Event::Arrival);
        }
        Ok(())
    }

    fn come(&mut self, pulled: Pulled) {
        let Some(session) = pulled.request.session else { return self.offer_first(pulled) };
        let delay = pulled.request.delay;
        match self.sessions.came(session, delay, self.now, pulled) {
            Sending::Now(pulled) => self.offer_first(pulled),
            Sending::Later(at, pulled) => self.plan_turn(at, pulled),
            Sending::Kept => {}
        }
    }

    fn plan_turn(&mut self, at: Moment, pulled: Pulled) {
        self.agenda.plan(at, Event::Turn(pulled.id));
        self.turns.insert(pulled.id, pulled);
    }

    fn offer_first(&mut self, pulled: Pulled) {
        self.books.record(pulled.id).scheduled = self.now;
        if let Some(patience) = self.patience {
            let ends = self.now + patience.draw(&mut self.patience_draws);
            self.agenda.plan(ends, Event::GiveUp(pulled.id));
        }
        self.offer(Open {
            blocks: pulled.request.block_hashes(self.pools[0].block_size),
            pulled,
            arrived: self.now,
            ticket: None,
            as_promised: false,
            pool: 0,
            worker: None,
            is_answered: false,
        });
    }

    /// One attempt of a client at the main pool.
    fn offer(&mut self, open: Open) {
        self.books.record(open.pulled.id).attempts += 1;
        if !self.scrape_planned {
            self.plan_scrape();
        }
        self.enter(Open { arrived: self.now, worker: None, ..open });
    }

    fn enter(&mut self, open: Open) {
        let pool = open.pool;
        let mut arrival = Arrival {
            request: RequestId(0),
            class: open.pulled.class,
            tenant: open.pulled.tenant,
            session: open.pulled.request.session,
            prompt: open.pulled.request.prompt,
            output_max: None,
            blocks: open.blocks.clone(),
            ticket: open.ticket,
        };
        arrival.request = self.books.enters(open);
        self.inputs.push_back((pool, Input::Arrived(arrival)));
    }

    /// Tells the cores everything that waits to be told, and does what they ask.
    pub(super) fn settle(&mut self) {
        while let Some((pool, input)) = self.inputs.pop_front() {
            let id = PoolId(pool);
            self.tap.told(id, self.now, &input);
            self.pools[usize::from(pool)].core.handle(self.now, input);
            loop {
                let output = self.pools[usize::from(pool)].core.poll();
                self.tap.said(id, self.now, &output);
                match output {
                    Output::Sleep(alarm) => {
                        let queue_len = self.pools[usize::from(pool)].core.queue_len() as u64;
                        let most = &mut self.header.queue_len_max_seen;
                        *most = queue_len.max(*most);
                        self.plan_alarm(pool, alarm.map(|(at, _)| at));
                        break;
                    }
                    Output::Dispatch(request, worker, why) => {
                        self.dispatch(pool, request, worker, why.predicted_wait);
                    }
                    Output::Spill(request, to, _) => self.spill(request, to),
                    Output::Refuse(request, refusal) => self.refuse(request, &refusal),
                    Output::Cancel(request, WorkerId(worker)) => {
                        self.tell_engine(pool, worker, engine::Input::Cancelled(request.0));
                    }
                }
            }
        }
    }

    fn dispatch(
        &mut self,
        pool: u16,
        request: RequestId,
        worker: WorkerId,
        predicted: Option<Span>,
    ) {
        let now = self.now;
        let of_pool = &self.pools[usize::from(pool)];
        let first_worker = of_pool.first_worker;
        let is_alive = of_pool.workers[worker.0 as usize].is_alive;
        let Some((open, record)) = self.books.record_of(request) else { return };
        let was_held = open.worker.replace(worker.0).is_none();
        record.worker = Some(first_worker + worker.0);
        record.dispatched = Some(now);
        record.queue = Some(now.since(open.arrived));
        record.predicted_wait = predicted.or(record.predicted_wait);
        let job = Job {
            id: request.0,
            prompt: open.pulled.request.prompt.0.clamp(1, u64::from(u32::MAX)) as u32,
            output: open.pulled.request.output.0.clamp(1, u64::from(u32::MAX)) as u32,
            blocks: open.blocks.clone(),
        };
        self.books.held -= u32::from(was_held);
        if is_alive {
            self.tell_engine(pool, worker.0, engine::Input::Submitted(job));
        } else {
            self.books.returns_to_core(request);
            let broke = Input::Finished(request, forebay_core::Outcome::Broke);
            self.inputs.push_back((pool, broke));
        }
    }

    fn spill(&mut self, request: RequestId, to: PoolId) {
        let Some(mut open) = self.books.leaves(request) else { return };
        self.move_to(&mut open, to.0);
        self.enter(open);
    }

    /// Readies a request for a pool, whose blocks may be of another size.
    fn move_to(&self, open: &mut Open, to: u16) {
        let block_size = |pool: u16| self.pools[usize::from(pool)].block_size;
        if block_size(to) != block_size(open.pool) {
            open.blocks = open.pulled.request.block_hashes(block_size(to));
        }
        open.pool = to;
        open.worker = None;
    }

    fn refuse(&mut self, request: RequestId, refusal: &Refusal) {
        let Some(mut open) = self.books.leaves(request) else { return };
        let id = open.pulled.id;
        self.books.refused(id, refusal);
        if refusal.reason.is_failure() {
            return self.end(&open, Fate::Failed(refusal.reason));
        }
        let record = self.books.record(id);
        let back = self.client.returns(refusal, record.attempts, &mut self.client_draws);
        let Some(back) = back else { return self.end(&open, Fate::Refused(refusal.reason)) };
        let at = self.now + back.after;
        open.as_promised = back.told && !refusal.sustained;
        record.promises.followed += u16::from(open.as_promised);
        open.ticket =
            back.ticket.then_some(Ticket { first_arrived: record.scheduled, promised: at });
        self.move_to(&mut open, 0);
        self.agenda.plan(at, Event::Return(id));
        self.books.away.insert(id, Away { open, reason: refusal.reason });
    }

    fn give_up(&mut self, id: u64) {
        if let Some(away) = self.books.away.remove(&id) {
            return self.end(&away.open, Fate::Refused(away.reason));
        }
        let name = self.books.names.as_ref().and_then(|names| names.get(&id)).copied();
        let Some(name) = name else { return };
        if self.books.open.get(&name).is_some_and(|open| !open.is_answered) {
            self.abandon(name);
        }
    }

    fn abandon(&mut self, name: RequestId) {
        let Some(open) = self.books.leaves(name) else { return };
        self.inputs.push_back((open.pool, Input::Abandoned(name)));
        self.end(&open, Fate::Abandoned);
    }

    /// A logical request has ended; the session's next turn may follow.
    fn end(&mut self, open: &Open, fate: Fate) {
        self.books.ends(open, fate, self.now);
        let Some(session) = open.pulled.request.session else { return };
        if let Some((at, turn)) = self.sessions.ended(session, self.now) {
            self.plan_turn(at, turn);
        }
    }

    /// Nothing is left that could help those who still wait: their clients go away.
    fn close(&mut self) {
        let mut names: Vec<RequestId> = self.books.open.keys().copied().collect();
        names.sort_unstable();
        for name in names {
            self.abandon(name);
        }
        self.settle();
    }
}
