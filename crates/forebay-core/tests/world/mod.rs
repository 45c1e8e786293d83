//! A small world around a core, so that a test reads as a story.
#![expect(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::sync::Arc;

use forebay_core::{
    Arrival, BlockHash, ClassId, ClassSettings, Core, GateSettings, HoldOrder, Input, Knowledge,
    Limits, Mode, Moment, Observation, Outcome, Output, Overload, RefusalReason, RequestId,
    Settings, Span, TenantId, TenantSettings, Ticket, Tokens, WorkerId, WorkerProfile,
};

/// Tokens of a block in these tests.
pub const BLOCK: u64 = 64;

/// One class that queues without limit, `hold`, block 64.
pub fn settings() -> Settings {
    Settings {
        accepting: true,
        mode: Mode::Hold(HoldOrder::Aged),
        knowledge: Knowledge::Events,
        block_size: BLOCK as u32,
        expected_output: Some(Tokens(100)),
        classes: vec![class(Overload::Queue, None)],
        tenant_default: TenantSettings {
            weight: 1,
            rate: None,
            tokens: None,
            concurrency_max: None,
        },
        tenants: Vec::new(),
        gate: GateSettings {
            fraction_start: 1.0,
            fraction_min: 0.8,
            fraction_max: 1.0,
            backlog_steps_max: 1.5,
        },
        limits: Limits {
            queue_len_max: 1000,
            running_max: 1000,
            workers_max: 100,
            tenants_max: 100,
            means_max: 100,
            promises_max: 100,
            attempts_max: 3,
            retry_after_max: Span::secs(60),
            mark: Span::secs(1),
        },
    }
}

/// A class with the usual ageing and promise.
pub fn class(overload: Overload, wait_max: Option<Span>) -> ClassSettings {
    ClassSettings { overload, wait_max, queue_len_max: 1000, share: 1, ageing: 3.0, promise: 2.0 }
}

/// The same settings in another mode.
pub fn in_mode(mode: &str) -> Settings {
    Settings { mode: mode.parse().expect("a mode of the catalogue"), ..settings() }
}

/// What happened to one request in one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Ran(u64, u32),
    Spilled(u64, u16),
    Refused(u64, RefusalReason),
    Cancelled(u64, u32),
}

/// A core, its time, and what it said.
pub struct World {
    pub core: Core,
    pub now: Moment,
    pub outputs: Vec<Output>,
}

/// A request to be changed before it arrives.
pub fn request(id: u64, prompt: u64) -> Arrival {
    Arrival {
        request: RequestId(id),
        class: ClassId(0),
        tenant: TenantId(0),
        session: None,
        prompt: Tokens(prompt),
        output_max: None,
        blocks: Arc::from([]),
        ticket: None,
    }
}

/// A request whose first `shared` blocks are those of prefix `prefix`, and the rest its own.
pub fn request_with_prefix(id: u64, prompt: u64, prefix: u64, shared: u64) -> Arrival {
    let own = |nth| BlockHash(1_000_000 * (id + 1) + nth);
    let hash = |nth| if nth < shared { BlockHash(1000 * prefix + nth) } else { own(nth) };
    Arrival { blocks: (0..prompt / BLOCK).map(hash).collect(), ..request(id, prompt) }
}

/// A worker with so many KV tokens, steps of 2,048 tokens and 64 sequences.
pub fn profile(kv_capacity: u64) -> WorkerProfile {
    WorkerProfile {
        kv_capacity: Some(Tokens(kv_capacity)),
        batch_tokens_max: Tokens(2048),
        seqs_max: 64,
    }
}

impl World {
    /// A world with workers 0, 1, … of these capacities.
    pub fn new(settings: Settings, capacities: &[u64]) -> Self {
        let core = Core::new(settings, 7);
        let mut world = Self { core, now: Moment(1_000_000_000), outputs: Vec::new() };
        for (worker, capacity) in (0..).zip(capacities) {
            world.observe(worker, Observation::Joined(profile(*capacity)));
        }
        world
    }

    /// Lets time pass.
    pub fn pass(&mut self, span: Span) -> Vec<Event> {
        self.now = self.now + span;
        self.input(Input::Elapsed)
    }

    /// Gives the core an input and collects what happens until it sleeps.
    pub fn input(&mut self, input: Input) -> Vec<Event> {
        self.core.handle(self.now, input);
        self.drain()
    }

    /// Collects what happens until the core sleeps.
    pub fn drain(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let output = self.core.poll();
            let event = match &output {
                Output::Dispatch(request, worker, _) => Event::Ran(request.0, worker.0),
                Output::Spill(request, pool, _) => Event::Spilled(request.0, pool.0),
                Output::Refuse(request, refusal) => Event::Refused(request.0, refusal.reason),
                Output::Cancel(request, worker) => Event::Cancelled(request.0, worker.0),
                Output::Sleep(_) => return events,
            };
            events.push(event);
            self.outputs.push(output);
        }
    }

    pub fn arrive(&mut self, arrival: Arrival) -> Vec<Event> {
        self.input(Input::Arrived(arrival))
    }

    pub fn first_token(&mut self, request: u64) -> Vec<Event> {
        self.input(Input::FirstToken(RequestId(request)))
    }

    pub fn finish(&mut self, request: u64) -> Vec<Event> {
        self.end(request, Outcome::Completed { output: Tokens(100) })
    }

    pub fn end(&mut self, request: u64, outcome: Outcome) -> Vec<Event> {
        self.input(Input::Finished(RequestId(request), outcome))
    }

    pub fn abandon(&mut self, request: u64) -> Vec<Event> {
        self.input(Input::Abandoned(RequestId(request)))
    }

    pub fn observe(&mut self, worker: u32, observation: Observation) -> Vec<Event> {
        self.input(Input::Observed(WorkerId(worker), observation))
    }

    /// The last refusal that was given.
    pub fn refusal(&self) -> forebay_core::Refusal {
        let refusal = |output: &Output| match output {
            Output::Refuse(_, refusal) => Some(*refusal),
            _ => None,
        };
        self.outputs.iter().rev().find_map(refusal).expect("something was refused")
    }

    /// The last explanation that was given.
    pub fn why(&self) -> &forebay_core::Why {
        let why = |output: &'_ Output| match output {
            Output::Dispatch(_, _, why) | Output::Spill(_, _, why) => Some(why.clone()),
            _ => None,
        };
        let found = self.outputs.iter().rev().find_map(why).expect("something was dispatched");
        Box::leak(found)
    }

    /// A ticket that was first offered now and promised after `span`.
    pub fn ticket(&self, span: Span) -> Ticket {
        Ticket { first_arrived: self.now, promised: self.now + span }
    }
}
