//! Makes small worlds at random and checks what must hold in every one of them.

use forebay_core::{Knowledge, Mode, Span};
use proptest::prelude::*;

use super::{Client, Fate, Happening, Patience, Plan, Scripted, Who, preset, request, service};
use super::{run, stream, summary};
use crate::trace::TraceRequest;

/// A class of each kind, tenants with and without limits, and a pool to spill to.
const DOOR: &str = r#"
[[class]]
name = "waits"
overload = "queue"
wait_ms_max = 900
queue_len_max = 6

[[class]]
name = "sheds"
overload = "shed"
wait_ms_max = 300
share = 2

[[class]]
name = "spills"
overload = "spill"
spill_to = "aside"
wait_ms_max = 100

[[tenant]]
name = "one"
weight = 2

[[tenant]]
name = "limited"
requests_per_s_max = 20
requests_burst_max = 2
concurrency_max = 3

[[pool]]
name = "aside"
workers = 1
mode = "least-work"
"#;

#[derive(Clone, Debug)]
struct World {
    requests: Vec<TraceRequest>,
    workers: usize,
    mode: Mode,
    client: Client,
    patience_ms: Option<u64>,
    script: Vec<Scripted>,
    own: bool,
    capacity_error_pct: f64,
    queued_requests_max: Option<u32>,
    seed: u64,
}

impl World {
    fn plan(&self) -> Plan {
        let mut preset = preset();
        preset.queued_requests_max = self.queued_requests_max;
        let workers = vec![preset; self.workers];
        Plan {
            knowledge: if self.own { Knowledge::Own } else { Knowledge::Events },
            seed: self.seed,
            service: service(DOOR),
            capacity_error_pct: self.capacity_error_pct,
            client: self.client,
            patience: self.patience_ms.map(|ms| Patience::Exponential(Span::millis(ms))),
            script: self.script.clone(),
            ..Plan::new("world".to_owned(), stream(self.requests.clone()), workers, self.mode)
        }
    }
}

fn requests() -> impl Strategy<Value = Vec<TraceRequest>> {
    let one = (
        0..120_u64,
        (1..500_u64, 1..40_u64),
        0..4_u64,
        prop::option::weighted(0.3, (0..3_u64, prop::option::of(0..500_u64))),
    );
    prop::collection::vec(one, 1..40).prop_map(|drawn| {
        let mut at_ms = 0;
        let built = drawn.into_iter().zip(1_u64..).map(|(drawn, place)| {
            let (gap, (prompt, output), prefix, session) = drawn;
            at_ms += gap;
            // Prompts of one prefix share up to `4 × prefix` ids, and each goes on alone.
            let id = |nth| if nth < 4 * prefix { prefix * 100 + nth } else { place * 1000 + nth };
            TraceRequest {
                ids: (0..prompt.div_ceil(16)).map(id).collect(),
                session: session.map(|(id, _)| id),
                delay: session.and_then(|(_, delay)| delay.map(Span::millis)),
                ..request(at_ms, prompt, output)
            }
        });
        built.collect()
    })
}

fn script() -> impl Strategy<Value = Vec<Scripted>> {
    let who = prop_oneof![Just(Who::All), (0..4_u32).prop_map(Who::One)];
    let what = prop_oneof![
        who.clone().prop_map(Happening::Lost),
        who.clone().prop_map(Happening::Back),
        (who.clone(), 0.2..5.0).prop_map(|(who, factor)| Happening::Slowed(who, factor)),
        who.clone().prop_map(Happening::Drained),
        who.prop_map(Happening::CapacityTold),
    ];
    let one = (0..3000_u64, what).prop_map(|(ms, what)| Scripted { at: Span::millis(ms), what });
    prop::collection::vec(one, 0..4)
}

fn world() -> impl Strategy<Value = World> {
    let policy = (prop::sample::select(&Mode::ALL[..]), prop::sample::select(&Client::ALL[..]));
    let beliefs = (any::<bool>(), -50.0..100.0_f64, prop::option::of(1..6_u32));
    let patience_ms = prop::option::of(1..2000_u64);
    (requests(), 1..4_usize, policy, patience_ms, script(), beliefs, any::<u64>()).prop_map(
        |(requests, workers, (mode, client), patience_ms, script, beliefs, seed)| {
            let (own, capacity_error_pct, queued_requests_max) = beliefs;
            World {
                requests,
                workers,
                mode,
                client,
                patience_ms,
                script,
                own,
                capacity_error_pct,
                queued_requests_max,
                seed,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn every_request_ends_in_exactly_one_way_at_a_time_that_makes_sense(world in world()) {
        let record = run(world.plan()).unwrap();
        let figures = summary(&record).all;
        prop_assert_eq!(figures.offered, world.requests.len() as u64);
        prop_assert_eq!(
            figures.offered,
            figures.completed + figures.refused + figures.abandoned + figures.failed
        );
        for (one, asked) in record.requests.iter().zip(&world.requests) {
            prop_assert_eq!((one.prompt, one.output), (asked.prompt.0, asked.output.0));
            prop_assert!(one.scheduled <= one.ended, "{:?}", one);
            prop_assert!(one.attempts >= 1, "{:?}", one);
            if world.client == Client::None {
                prop_assert_eq!(one.attempts, 1);
            }
            if one.fate == Fate::Completed {
                let [dispatched, first] = [one.dispatched, one.first_token].map(Option::unwrap);
                prop_assert!(one.scheduled <= dispatched && dispatched <= first, "{:?}", one);
                prop_assert!(first <= one.ended && one.cached < Some(one.prompt), "{:?}", one);
            }
            if world.patience_ms.is_none() && world.script.is_empty() {
                prop_assert!(one.fate != Fate::Abandoned, "{:?}", one);
            }
        }
        let preemptions: u64 = record.requests.iter().map(|one| u64::from(one.preemptions)).sum();
        prop_assert_eq!(preemptions, record.preemptions);
    }

    #[test]
    fn the_same_plan_leaves_the_same_record(world in world()) {
        let [one, other] = [run(world.plan()).unwrap(), run(world.plan()).unwrap()];
        prop_assert_eq!(summary(&one).json(), summary(&other).json());
        prop_assert_eq!(one, other);
    }

    #[test]
    fn groups_add_up_to_the_whole(world in world()) {
        let record = run(world.plan()).unwrap();
        let summary = summary(&record);
        for groups in [&summary.classes, &summary.tenants] {
            let offered: u64 = groups.values().map(|group| group.offered).sum();
            let attempts: u64 = groups.values().map(|group| group.attempts).sum();
            prop_assert_eq!((offered, attempts), (summary.all.offered, summary.all.attempts));
        }
    }
}
