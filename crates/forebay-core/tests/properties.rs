//! What holds whatever happens: random scripts against a core, which shrink when they break it.
//!
//! The core checks its own invariants after each input in debug builds. From outside, two things
//! are checked: every request that arrives leaves by exactly one exit, and once the load stops and
//! the fleet is well, everything that waits leaves in bounded time.

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::{
    Arrival, Bucket, ClassId, Input, Load, Mode, Observation, Outcome, Overload, PoolId, RequestId,
    Settings, Span, TenantId, TenantSettings, Ticket, Tokens,
};
use proptest::prelude::*;
use world::{Event, World, class, profile, request_with_prefix, settings};

/// One step of a script. Numbers are reduced to what exists when the step is taken.
#[derive(Clone, Debug)]
enum Step {
    Arrive { prompt: u64, prefix: u64, class: u16, tenant: u32, returns: bool },
    FirstToken(usize),
    Progress(usize, u64),
    Finish(usize, u64),
    End(usize, u8),
    Abandon(u64),
    Pass(u64),
    Join(u32, u64),
    Left(u32),
    Lost(u32),
    Drain(u32, bool),
    Healthy(u32, bool),
    Capacity(u32, u64),
    Load(u32, u64),
    Stored(u32, u64),
    Cleared(u32),
    Reconfigure(u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let arrive = (1..4000_u64, 0..4_u64, 0..4_u16, 0..4_u32, any::<bool>()).prop_map(
        |(prompt, prefix, class, tenant, returns)| Step::Arrive {
            prompt,
            prefix,
            class,
            tenant,
            returns,
        },
    );
    prop_oneof![
        10 => arrive,
        6 => any::<usize>().prop_map(Step::FirstToken),
        2 => (any::<usize>(), 0..800_u64).prop_map(|(nth, tokens)| Step::Progress(nth, tokens)),
        6 => (any::<usize>(), 1..800_u64).prop_map(|(nth, tokens)| Step::Finish(nth, tokens)),
        1 => (any::<usize>(), 0..4_u8).prop_map(|(nth, outcome)| Step::End(nth, outcome)),
        1 => any::<u64>().prop_map(Step::Abandon),
        6 => (0..3000_u64).prop_map(Step::Pass),
        1 => (0..4_u32, 100..6000_u64).prop_map(|(worker, kv)| Step::Join(worker, kv)),
        1 => (0..4_u32).prop_map(Step::Left),
        1 => (0..4_u32).prop_map(Step::Lost),
        1 => (0..4_u32, any::<bool>()).prop_map(|(worker, yes)| Step::Drain(worker, yes)),
        1 => (0..4_u32, any::<bool>()).prop_map(|(worker, well)| Step::Healthy(worker, well)),
        1 => (0..4_u32, 100..6000_u64).prop_map(|(worker, kv)| Step::Capacity(worker, kv)),
        1 => (0..4_u32, 0..50_u64).prop_map(|(worker, total)| Step::Load(worker, total)),
        1 => (0..4_u32, 0..4_u64).prop_map(|(worker, prefix)| Step::Stored(worker, prefix)),
        1 => (0..4_u32).prop_map(Step::Cleared),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(mode, rest)| Step::Reconfigure(mode, rest)),
    ]
}

/// Settings with every policy, by two numbers.
fn varied(mode: u8, rest: u8) -> Settings {
    let mode = Mode::ALL[usize::from(mode) % Mode::ALL.len()];
    let mut classes = vec![
        class(Overload::Queue, None),
        class(Overload::Queue, Some(Span::secs(4))),
        class(Overload::Shed, Some(Span::millis(1500))),
        class(Overload::Spill(PoolId(1)), Some(Span::millis(500))),
    ];
    classes[0].share = 1 + u32::from(rest) % 5;
    classes[1].queue_len_max = u32::from(rest) % 7;
    classes[2].promise = if rest.is_multiple_of(2) { f64::INFINITY } else { 1.5 };
    let limited = TenantSettings {
        weight: 2,
        rate: Some(Bucket { per_second: 2.0, burst: 4.0 }),
        tokens: None,
        concurrency_max: Some(5),
    };
    let mut settings =
        Settings { mode, classes, tenants: vec![(TenantId(3), limited)], ..settings() };
    settings.knowledge = if rest.is_multiple_of(3) {
        forebay_core::Knowledge::Own
    } else {
        forebay_core::Knowledge::Events
    };
    settings.expected_output = rest.is_multiple_of(5).then_some(Tokens(50));
    settings.limits.tenants_max = 3;
    settings.limits.queue_len_max = 40;
    settings.limits.promises_max = 4;
    settings.limits.means_max = 8;
    settings
}

/// Where each request is, as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waits,
    Runs(u32),
    Left,
}

struct Story {
    world: World,
    places: BTreeMap<u64, Place>,
    next: u64,
}

impl Story {
    fn new(mode: u8, rest: u8) -> Self {
        let world = World::new(varied(mode, rest), &[2000, 4000]);
        Self { world, places: BTreeMap::new(), next: 0 }
    }

    fn input(&mut self, input: Input) {
        let events = self.world.input(input);
        self.note(&events);
    }

    /// Moves requests to where the core sent them, and fails when it could not have.
    fn note(&mut self, events: &[Event]) {
        for event in events {
            let (request, to) = match event {
                Event::Ran(request, worker) => (*request, Place::Runs(*worker)),
                Event::Spilled(request, _) | Event::Refused(request, _) => (*request, Place::Left),
                Event::Cancelled(request, _) => {
                    assert_eq!(self.places[request], Place::Left, "only what was abandoned");
                    continue;
                }
            };
            let from = self.places.insert(request, to);
            assert_ne!(from, Some(Place::Left), "request {request} left twice: {event:?}");
        }
    }

    fn running(&self, nth: usize) -> Option<RequestId> {
        let running: Vec<_> =
            self.places.iter().filter(|(_, place)| matches!(place, Place::Runs(_))).collect();
        running.get(nth % running.len().max(1)).map(|(request, _)| RequestId(**request))
    }

    /// Ends a running request. One that may run again waits until the core says more.
    fn end(&mut self, nth: usize, outcome: Outcome) {
        let Some(request) = self.running(nth) else { return };
        let again = matches!(outcome, Outcome::Backpressure | Outcome::Broke);
        let to = if again { Place::Waits } else { Place::Left };
        // A broken stream leaves by the refusal that the core gives.
        if outcome != Outcome::BrokeMidStream {
            self.places.insert(request.0, to);
        }
        self.input(Input::Finished(request, outcome));
    }

    fn arrive(&mut self, arrival: Arrival, returns: bool) {
        let now = self.world.now;
        let ticket =
            returns.then_some(Ticket { first_arrived: now, promised: now + Span::secs(1) });
        self.places.insert(self.next, Place::Waits);
        self.next += 1;
        self.input(Input::Arrived(Arrival { ticket, ..arrival }));
    }

    fn take(&mut self, step: &Step) {
        let observed =
            |worker: u32, observation| Input::Observed(forebay_core::WorkerId(worker), observation);
        match *step {
            Step::Arrive { prompt, prefix, class, tenant, returns } => {
                let arrival = request_with_prefix(self.next, prompt, prefix, 10);
                self.arrive(
                    Arrival { class: ClassId(class), tenant: TenantId(tenant), ..arrival },
                    returns,
                );
            }
            Step::FirstToken(nth) => {
                if let Some(request) = self.running(nth) {
                    self.input(Input::FirstToken(request));
                }
            }
            Step::Progress(nth, tokens) => {
                if let Some(request) = self.running(nth) {
                    self.input(Input::Progress(request, Tokens(tokens)));
                }
            }
            Step::Finish(nth, tokens) => {
                self.end(nth, Outcome::Completed { output: Tokens(tokens) });
            }
            Step::End(nth, outcome) => {
                let outcomes = [
                    Outcome::Backpressure,
                    Outcome::Broke,
                    Outcome::BrokeMidStream,
                    Outcome::ClientFault,
                ];
                self.end(nth, outcomes[usize::from(outcome)]);
            }
            Step::Abandon(nth) => {
                let request = nth % self.next.max(1);
                if self.places.get(&request).is_some_and(|place| *place != Place::Left) {
                    self.places.insert(request, Place::Left);
                    self.input(Input::Abandoned(RequestId(request)));
                }
            }
            Step::Pass(millis) => {
                self.world.now = self.world.now + Span::millis(millis);
                self.input(Input::Elapsed);
            }
            Step::Join(worker, kv) => {
                self.lose(worker, observed(worker, Observation::Joined(profile(kv))));
            }
            Step::Left(worker) => self.lose(worker, observed(worker, Observation::Left)),
            Step::Lost(worker) => self.lose(worker, observed(worker, Observation::Lost)),
            Step::Drain(worker, yes) => self.input(observed(worker, Observation::Draining(yes))),
            Step::Healthy(worker, well) => {
                self.input(observed(worker, Observation::Healthy(well)));
            }
            Step::Capacity(worker, kv) => {
                self.input(observed(worker, Observation::Capacity(Tokens(kv))));
            }
            Step::Load(worker, preemptions_total) => {
                let load = Load { running: 0, waiting: 0, preemptions_total };
                self.input(observed(worker, Observation::Load(load)));
            }
            Step::Stored(worker, prefix) => {
                let blocks: Arc<[_]> = request_with_prefix(0, 640, prefix, 10).blocks;
                self.input(observed(worker, Observation::Stored(blocks)));
            }
            Step::Cleared(worker) => self.input(observed(worker, Observation::Cleared)),
            Step::Reconfigure(mode, rest) => {
                self.input(Input::Reconfigured(Box::new(varied(mode, rest))));
            }
        }
    }

    /// What ran on a lost worker waits again, unless the core says more.
    fn lose(&mut self, worker: u32, input: Input) {
        for place in self.places.values_mut() {
            if *place == Place::Runs(worker) {
                *place = Place::Waits;
            }
        }
        self.input(input);
    }

    /// The core keeps what has not left, where it said that it is.
    fn agree(&self) {
        let waiting = self.places.values().filter(|place| **place == Place::Waits).count();
        assert_eq!(self.running_len(), self.world.core.flights_len(), "what runs was said to run");
        assert_eq!(waiting, self.world.core.queue_len(), "what waits is kept");
    }

    fn running_len(&self) -> usize {
        self.places.values().filter(|place| matches!(place, Place::Runs(_))).count()
    }

    /// Load stops, the fleet gets well, everything ends: the queue must empty.
    fn converge(&mut self) {
        for worker in 0..4 {
            let joined = Observation::Joined(profile(6000));
            self.lose(worker, Input::Observed(forebay_core::WorkerId(worker), joined));
        }
        let rounds = 10 * (self.places.len() + 10);
        for _ in 0..rounds {
            if self.world.core.queue_len() + self.world.core.flights_len() == 0 {
                break;
            }
            let open: Vec<u64> = self
                .places
                .iter()
                .filter(|(_, place)| matches!(place, Place::Runs(_)))
                .map(|(request, _)| *request)
                .collect();
            for request in open {
                self.input(Input::FirstToken(RequestId(request)));
                self.places.insert(request, Place::Left);
                let outcome = Outcome::Completed { output: Tokens(10) };
                self.input(Input::Finished(RequestId(request), outcome));
            }
            self.world.now = self.world.now + Span::millis(500);
            self.input(Input::Elapsed);
        }
        assert_eq!(self.world.core.queue_len(), 0, "the queue empties once the load stops");
        assert_eq!(self.world.core.flights_len(), 0);
        assert_eq!(self.world.core.committed(), Tokens::ZERO, "accounts return to zero");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn each_request_leaves_once_and_everything_settles(
        mode: u8,
        rest: u8,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut story = Story::new(mode, rest);
        for step in &steps {
            story.take(step);
            story.agree();
        }
        story.converge();
    }

    #[test]
    fn the_same_script_gives_the_same_decisions(
        mode: u8,
        rest: u8,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let tell = || {
            let mut story = Story::new(mode, rest);
            steps.iter().for_each(|step| story.take(step));
            story.world.outputs
        };
        prop_assert_eq!(tell(), tell());
    }
}
