//! Tells engines what came, and asks them what came of it.

use forebay_core::{Input, Observation, Outcome, RefusalReason, RequestId, Tokens, WorkerId};

use super::World;
use crate::engine::{self, Output};
use crate::simulate::Fate;
use crate::simulate::agenda::Event;

impl World<'_> {
    /// Tells one engine something; what comes of it is asked at the end of the moment.
    pub(super) fn tell_engine(&mut self, pool: u16, worker: u32, input: engine::Input) {
        let of_pool = &mut self.pools[usize::from(pool)];
        let told = &mut of_pool.workers[worker as usize];
        if !told.is_alive {
            return;
        }
        told.engine.handle(self.now, input);
        if !told.is_unasked {
            told.is_unasked = true;
            self.unasked.push((pool, worker));
        }
    }

    /// Asks every engine that was told something, until none is left.
    pub(super) fn ask_engines(&mut self) {
        while !self.unasked.is_empty() {
            let mut asked = std::mem::take(&mut self.unasked);
            for (pool, worker) in asked.drain(..) {
                self.ask(pool, worker);
                self.settle();
            }
            // The list's memory is kept for the next moment.
            if self.unasked.is_empty() {
                self.unasked = asked;
            }
        }
    }

    fn ask(&mut self, pool: u16, worker: u32) {
        self.pools[usize::from(pool)].workers[worker as usize].is_unasked = false;
        loop {
            let asked = &mut self.pools[usize::from(pool)].workers[worker as usize];
            if !asked.is_alive {
                return;
            }
            match asked.engine.poll() {
                Output::Sleep(ends) => {
                    if asked.step_ends != ends {
                        asked.step_ends = ends;
                        if let Some(at) = ends {
                            self.agenda.plan(at, Event::Step { pool, worker });
                        }
                    }
                    return;
                }
                output => self.hear(pool, worker, output),
            }
        }
    }

    /// Notes one output of an engine, and queues what the core is to hear of it.
    fn hear(&mut self, pool: u16, worker: u32, output: Output) {
        let input = match output {
            Output::Sleep(_) => None,
            Output::Stored(blocks) => self.observed(worker, Observation::Stored(blocks)),
            Output::Removed(blocks) => self.observed(worker, Observation::Removed(blocks)),
            Output::Admitted { id, cached } => {
                if let Some((_, record)) = self.books.record_of(RequestId(id)) {
                    record.cached.get_or_insert(u64::from(cached));
                }
                None
            }
            Output::Preempted(id) => {
                self.books.preemptions += 1;
                if let Some((_, record)) = self.books.record_of(RequestId(id)) {
                    record.preemptions += 1;
                }
                None
            }
            Output::Tokens { id, generated } => self.progressed(RequestId(id), generated),
            Output::Finished(id) => self.finished(RequestId(id)),
            Output::Rejected(id) => {
                let request = RequestId(id);
                self.books.returns_to_core(request);
                let is_open = self.books.open.contains_key(&request);
                is_open.then_some(Input::Finished(request, Outcome::Backpressure))
            }
            Output::TooLong(id) => self.too_long(RequestId(id)),
        };
        if let Some(input) = input {
            self.inputs.push_back((pool, input));
        }
    }

    fn observed(&self, worker: u32, what: Observation) -> Option<Input> {
        self.tells_blocks.then_some(Input::Observed(WorkerId(worker), what))
    }

    fn progressed(&mut self, request: RequestId, generated: u32) -> Option<Input> {
        let now = self.now;
        let (open, record) = self.books.record_of(request)?;
        if !open.is_answered {
            open.is_answered = true;
            record.first_token = Some(now);
            return Some(Input::FirstToken(request));
        }
        // The last token is followed by the end, which says all that the core needs.
        (u64::from(generated) < record.output)
            .then(|| Input::Progress(request, Tokens(u64::from(generated))))
    }

    fn finished(&mut self, request: RequestId) -> Option<Input> {
        let open = self.books.leaves(request)?;
        let output = open.pulled.request.output;
        self.end(&open, Fate::Completed);
        Some(Input::Finished(request, Outcome::Completed { output }))
    }

    /// The engine answered 400: the client's own fault, and no refusal of the core's.
    fn too_long(&mut self, request: RequestId) -> Option<Input> {
        let open = self.books.leaves(request)?;
        self.end(&open, Fate::Refused(RefusalReason::TooLong));
        Some(Input::Finished(request, Outcome::ClientFault))
    }
}
