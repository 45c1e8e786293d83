//! Watches the clock and the workers: alarms, readings, and the fleet over time.

use forebay_core::{Input, Moment, Span};

use super::{Plan, RunRecord, SCRAPE_EVERY, SCRAPE_IDLE, TimelinePoint, World};
use crate::simulate::agenda::Event;
use crate::simulate::pool::{Pool, Worker};

impl World<'_> {
    /// The core of this pool wants to be woken then. An event that is planned earlier asks again,
    /// so that alarms which move with every input do not fill the agenda.
    pub(super) fn plan_alarm(&mut self, pool: u16, at: Option<Moment>) {
        // A core that asks for now or earlier is woken a moment later: time must pass.
        let at = at.map(|at| at.max(self.now + Span(1)));
        let of_pool = &mut self.pools[usize::from(pool)];
        of_pool.alarm = at;
        let Some(at) = at else { return };
        if of_pool.alarm_planned.is_none_or(|planned| at < planned) {
            of_pool.alarm_planned = Some(at);
            self.agenda.plan(at, Event::Alarm(pool));
        }
    }

    /// An alarm's event: the core is woken if it still wants to be.
    pub(super) fn ring(&mut self, pool: u16) {
        let of_pool = &mut self.pools[usize::from(pool)];
        if of_pool.alarm_planned != Some(self.now) {
            return;
        }
        of_pool.alarm_planned = None;
        match of_pool.alarm {
            Some(at) if at <= self.now => {
                of_pool.alarm = None;
                self.inputs.push_back((pool, Input::Elapsed));
            }
            later => self.plan_alarm(pool, later),
        }
    }

    /// Plans the next reading, at a whole second of the run.
    pub(super) fn plan_scrape(&mut self) {
        let idle = self.now.since(self.happened_at);
        let next = if idle > SCRAPE_IDLE {
            self.now + idle
        } else {
            Moment((self.now.0 / SCRAPE_EVERY.0 + 1) * SCRAPE_EVERY.0)
        };
        self.agenda.plan(next, Event::Scrape);
        self.scrape_planned = true;
    }

    /// Reads every worker's figures. Without open requests nobody needs them, and the next arrival
    /// plans anew.
    pub(super) fn scrape(&mut self) {
        self.scrape_planned = false;
        if self.books.open.is_empty() || !self.agenda.is_driven() {
            return;
        }
        for (pool, number) in self.pools.iter().zip(0..) {
            self.inputs.extend(pool.observed(Worker::load).map(|input| (number, input)));
        }
        self.plan_scrape();
    }

    /// The fleet as it was up to this moment.
    pub(super) fn point(&self, at: Moment) -> TimelinePoint {
        let gauges = self.pools.iter().map(Pool::gauges);
        let (running, waiting, used, all) = gauges.fold((0, 0, 0.0, 0.0), |sum, pool| {
            (sum.0 + pool.0, sum.1 + pool.1, sum.2 + pool.2, sum.3 + pool.3)
        });
        TimelinePoint { at, queued: self.books.held, running, waiting, kv_used: used / all }
    }

    /// What the run leaves behind.
    pub(super) fn into_record(self) -> RunRecord {
        RunRecord {
            tenants: self.source.into_tenants(),
            requests: self.books.records,
            timeline: self.timeline.into_points(),
            preemptions: self.books.preemptions,
            ..self.header
        }
    }
}

/// A record of what is known before a run.
pub(super) fn header(plan: &Plan) -> RunRecord {
    let mut engines: Vec<&str> = Vec::new();
    for preset in &plan.workers {
        if !engines.contains(&preset.name.as_str()) {
            engines.push(&preset.name);
        }
    }
    RunRecord {
        trace: plan.trace.clone(),
        mode: plan.mode.name().to_owned(),
        workers: plan.workers.len() as u32,
        seed: plan.seed,
        engine: engines.join("+"),
        classes: plan.service.classes.iter().map(|class| class.name.clone()).collect(),
        tenants: Vec::new(),
        requests: Vec::new(),
        timeline: Vec::new(),
        preemptions: 0,
        queue_len_max_seen: 0,
    }
}
