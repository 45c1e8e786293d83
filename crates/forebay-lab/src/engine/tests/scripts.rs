//! Holds the engine against the plain one over random scripts.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::{BlockHash, Moment};
use proptest::prelude::*;

use super::naive::Naive;
use super::small_preset;
use crate::engine::{Engine, Gauges, Input, Job, Output, Preset};

#[derive(Clone, Debug)]
enum Act {
    Submit { prompt: u32, output: u32, family: u64, shared: u32, hashed: u32 },
    Cancel(usize),
    Wait(u64),
    SlowDown(f64),
    Crash,
}

fn act() -> impl Strategy<Value = Act> {
    let submit = (1..60_u32, 1..40_u32, 0..3_u64, 0..10_u32, 0..20_u32);
    prop_oneof![
        8 => submit.prop_map(|(prompt, output, family, shared, hashed)| {
            Act::Submit { prompt, output, family, shared, hashed }
        }),
        2 => (0..100_usize).prop_map(Act::Cancel),
        6 => (0..30_000_u64).prop_map(Act::Wait),
        1 => prop_oneof![Just(1.0), Just(3.5)].prop_map(Act::SlowDown),
        1 => Just(Act::Crash),
    ]
}

fn preset() -> impl Strategy<Value = Preset> {
    let sizes = (1..6_u32, 3..40_u32, 1..6_u32, 0..30_u32);
    (sizes, proptest::option::of(1..12_u32)).prop_map(
        |((block_size, blocks, seqs_max, budget), queued_requests_max)| Preset {
            block_size,
            kv_tokens: block_size * blocks,
            batch_tokens_max: seqs_max + budget,
            seqs_max,
            queued_requests_max,
            ..small_preset()
        },
    )
}

fn job(id: u64, act: &Act, block_size: u32) -> Job {
    let Act::Submit { prompt, output, family, shared, hashed } = *act else {
        panic!("only a submission makes a job")
    };
    let hash = |nth: u32| {
        let own = if nth < shared { 0 } else { 1 + id };
        BlockHash((family << 48) | (own << 16) | u64::from(nth))
    };
    let blocks = (0..hashed.min(prompt / block_size)).map(hash).collect::<Arc<[_]>>();
    Job { id, prompt, output, blocks }
}

/// Both engines, and what became of each job.
struct Pair {
    engine: Engine,
    naive: Naive,
    now: Moment,
    wake: Option<Moment>,
    ended: BTreeMap<u64, &'static str>,
    log: Vec<(Moment, Output)>,
}

impl Pair {
    fn tell(&mut self, input: Input) {
        let expected = self.naive.handle(self.now, input.clone());
        self.engine.handle(self.now, input);
        let mut said = Vec::new();
        loop {
            said.push(self.engine.poll());
            if let Some(Output::Sleep(wake)) = said.last() {
                self.wake = *wake;
                break;
            }
        }
        self.engine.assert_consistent();
        assert_eq!(said, expected, "at {:?}", self.now);
        for output in said {
            match output {
                Output::Finished(id) => self.end(id, "finished"),
                Output::Rejected(id) => self.end(id, "rejected"),
                Output::TooLong(id) => self.end(id, "too long"),
                _ => {}
            }
            self.log.push((self.now, output));
        }
    }

    fn end(&mut self, id: u64, how: &'static str) {
        assert_eq!(self.ended.insert(id, how), None, "job {id} has ended twice");
    }

    fn pass(&mut self, until: Moment) {
        while let Some(wake) = self.wake.filter(|&wake| wake <= until) {
            self.now = wake;
            self.tell(Input::Elapsed);
        }
        self.now = until;
    }
}

fn run(preset: &Preset, report_every: u32, acts: &[Act]) -> Vec<(Moment, Output)> {
    let mut pair = Pair {
        engine: Engine::new(preset),
        naive: Naive::new(preset, report_every),
        now: Moment::START,
        wake: None,
        ended: BTreeMap::new(),
        log: Vec::new(),
    };
    pair.engine.set_report_every(report_every);
    let mut submitted = 0_u64;
    for act in acts {
        match act {
            Act::Submit { .. } => {
                pair.tell(Input::Submitted(job(submitted, act, preset.block_size)));
                submitted += 1;
            }
            Act::Cancel(nth) => {
                let id = *nth as u64 % submitted.max(1);
                if submitted > 0 && !pair.ended.contains_key(&id) {
                    pair.end(id, "cancelled");
                    pair.tell(Input::Cancelled(id));
                }
            }
            Act::Wait(nanos) => pair.pass(Moment(pair.now.0 + nanos)),
            Act::SlowDown(factor) => {
                pair.engine.set_slowdown(*factor);
                pair.naive.slowdown = *factor;
            }
            Act::Crash => {
                let lost = pair.engine.crash();
                assert_eq!(lost, pair.naive.crash());
                lost.into_iter().for_each(|id| pair.end(id, "lost"));
                pair.wake = None;
                assert_eq!(pair.engine.gauges(), Gauges::default());
                pair.engine.assert_consistent();
            }
        }
    }
    pair.pass(Moment(pair.now.0 + 1_000_000_000));
    assert_eq!(pair.wake, None, "the engine never came to rest");
    let gauges = pair.engine.gauges();
    assert_eq!(Gauges { preemptions_total: 0, ..gauges }, Gauges::default(), "something is held");
    assert_eq!(pair.ended.len() as u64, submitted, "a job did not end");
    pair.log
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Each job ends exactly once, all blocks come back, and the same script gives the same
    /// outputs.
    #[test]
    fn it_says_what_the_plain_engine_says(
        preset in preset(),
        report_every in 1..9_u32,
        acts in proptest::collection::vec(act(), 1..60),
    ) {
        let log = run(&preset, report_every, &acts);
        prop_assert_eq!(log, run(&preset, report_every, &acts));
    }
}
