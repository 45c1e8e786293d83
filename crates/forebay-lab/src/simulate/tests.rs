//! Runs small worlds whole and checks what they leave behind.

mod properties;

use std::path::Path;
use std::sync::Arc;

use forebay_core::{
    HoldOrder, Input, Knowledge, Mode, Moment, Output, PoolId, RefusalReason, Span, Tokens,
};
use forebay_service::Service;

use super::{
    Client, Fate, Happening, Patience, Plan, RunRecord, Scripted, SimulateError, Summary, Tap,
    Thresholds, Who, fleet, run, run_tapped,
};
use crate::engine::Preset;
use crate::trace::{Requests, TraceRequest};

const HOLD: Mode = Mode::Hold(HoldOrder::Aged);

/// A small engine: 512 KV tokens, ten milliseconds a step.
fn preset() -> Preset {
    Preset {
        name: "small/model".to_owned(),
        source: "made up for tests".to_owned(),
        error: "none: nothing is imitated".to_owned(),
        block_size: 16,
        kv_tokens: 512,
        batch_tokens_max: 128,
        seqs_max: 8,
        queued_requests_max: None,
        step_base_us: 10_000.0,
        step_prefill_token_us: 50.0,
        step_prefill_context_ns: 10.0,
        step_decode_sequence_us: 100.0,
        step_decode_context_ns: 10.0,
    }
}

/// A request at this millisecond with a prompt and an answer of these lengths.
fn request(at_ms: u64, prompt: u64, output: u64) -> TraceRequest {
    TraceRequest {
        at: Span::millis(at_ms),
        prompt: Tokens(prompt),
        output: Tokens(output),
        ids: Arc::from([]),
        id_tokens: 16,
        session: None,
        delay: None,
        class: None,
        tenant: None,
    }
}

fn stream(requests: Vec<TraceRequest>) -> Requests {
    Box::new(requests.into_iter().map(Ok))
}

/// A plan for so many workers.
fn plan(requests: Vec<TraceRequest>, workers: usize, mode: Mode) -> Plan {
    Plan::new("test".to_owned(), stream(requests), vec![preset(); workers], mode)
}

fn service(text: &str) -> Service {
    Service::parse(Path::new("test.toml"), text, &Preset::faults_of).unwrap()
}

/// A burst that is about twice what two workers hold at once.
fn burst() -> Vec<TraceRequest> {
    (0..24).map(|nth| request(nth * 5, 60 + nth % 7 * 20, 4 + nth % 5 * 10)).collect()
}

fn fates(run: &RunRecord) -> Vec<Fate> {
    run.requests.iter().map(|record| record.fate).collect()
}

fn summary(run: &RunRecord) -> Summary {
    Summary::of(run, &Thresholds::default())
}

#[test]
fn the_longest_queue_is_seen_and_who_pushes_to_workers_has_none() {
    let longest = |mode| summary(&run(plan(burst(), 1, mode)).unwrap()).queue_len_max_seen;
    assert!((1..24).contains(&longest(HOLD)), "{}", longest(HOLD));
    assert_eq!(longest(Mode::RoundRobin), 0);
}

#[test]
fn every_mode_serves_a_burst_that_may_wait_anywhere() {
    let kept = Mode::ALL.into_iter().filter(|mode| mode.name() != "kv:dynamo-1.2");
    for mode in kept {
        let run = run(plan(burst(), 2, mode)).unwrap();
        assert_eq!(fates(&run), vec![Fate::Completed; 24], "{mode}");
        let ends: Vec<_> = run.requests.iter().map(|one| (one.first_token, one.ended)).collect();
        assert!(ends.iter().all(|(first, ended)| first.is_some_and(|first| first <= *ended)));
    }
}

#[test]
fn a_lone_request_takes_as_long_as_its_steps() {
    let run = run(plan(vec![request(1000, 100, 3)], 1, HOLD)).unwrap();
    let record = &run.requests[0];
    // One step of 100 prompt tokens, then two of one token each.
    let first = record.first_token.unwrap().since(record.scheduled);
    assert!((Span::millis(15)..Span::millis(16)).contains(&first), "{first}");
    let rest = record.ended.since(record.first_token.unwrap());
    assert!((Span::millis(20)..Span::millis(21)).contains(&rest), "{rest}");
    assert_eq!(record.scheduled, Moment::START + Span::secs(1));
    assert_eq!((record.queue, record.cached), (Some(Span::ZERO), Some(0)));
}

#[test]
fn a_shared_prefix_is_found_in_the_cache() {
    let ids: Arc<[u64]> = Arc::from([1, 2, 3, 4, 5, 6]);
    let shared = |at_ms| TraceRequest { ids: ids.clone(), ..request(at_ms, 96, 2) };
    let run = run(plan(vec![shared(0), shared(1000)], 1, HOLD)).unwrap();
    // All six blocks are equal, but the last token is always computed.
    assert_eq!([run.requests[0].cached, run.requests[1].cached], [Some(0), Some(80)]);
}

#[test]
fn ids_that_are_not_chained_share_only_what_is_equal_from_the_start() {
    let with = |at_ms, ids: &[u64]| TraceRequest {
        ids: Arc::from(ids),
        ..request(at_ms, ids.len() as u64 * 16, 5)
    };
    let requests = vec![
        with(0, &[1, 1, 1]),
        with(1000, &[2, 1, 2, 1]),
        with(2000, &[1, 1, 2]),
        with(3000, &[3, 1, 1]),
    ];
    let run = run(plan(requests, 1, HOLD)).unwrap();
    let cached: Vec<_> = run.requests.iter().filter_map(|record| record.cached).collect();
    assert_eq!(cached, [0, 0, 32, 0]);
}

#[test]
fn a_scale_divides_the_times_and_leaves_the_lengths() {
    let requests = vec![request(0, 50, 5), request(3000, 60, 6)];
    let run = run(Plan { scale: 1.5, ..plan(requests, 1, HOLD) }).unwrap();
    let record = &run.requests[1];
    assert_eq!(record.scheduled, Moment::START + Span::secs(2));
    assert_eq!((record.prompt, record.output), (60, 6));
}

#[test]
fn what_the_core_is_told_follows_the_plan() {
    #[derive(Default)]
    struct Heard {
        stored: u32,
        capacities: Vec<Option<Tokens>>,
        expected: Option<Tokens>,
    }
    impl Tap for Heard {
        fn begins(&mut self, _: PoolId, settings: &forebay_core::Settings, _: u64) {
            self.expected = settings.expected_output;
        }
        fn told(&mut self, _: PoolId, _: Moment, input: &Input) {
            use forebay_core::Observation::{Joined, Stored};
            match input {
                Input::Observed(_, Stored(_)) => self.stored += 1,
                Input::Observed(_, Joined(profile)) => self.capacities.push(profile.kv_capacity),
                _ => {}
            }
        }
    }
    let ids: Arc<[u64]> = Arc::from([1, 2, 3, 4, 5, 6]);
    let requests = || vec![TraceRequest { ids: ids.clone(), ..request(0, 96, 2) }];
    let heard = |plan: Plan| {
        let mut heard = Heard::default();
        run_tapped(plan, &mut heard).unwrap();
        heard
    };
    let plain = heard(plan(requests(), 1, HOLD));
    assert!(plain.stored > 0);
    assert_eq!((plain.capacities, plain.expected), (vec![Some(Tokens(512))], None));
    let told = heard(Plan {
        knowledge: Knowledge::Own,
        capacity_error_pct: -10.0,
        expected_output: Some(Tokens(1000)),
        ..plan(requests(), 1, HOLD)
    });
    assert_eq!(told.stored, 0);
    assert_eq!(told.capacities, [Some(Tokens(461))]);
    assert_eq!(told.expected, Some(Tokens(1000)));
    let untold = heard(Plan { capacity_untold: true, ..plan(requests(), 1, HOLD) });
    assert_eq!(untold.capacities, [None]);
}

#[test]
fn a_turn_is_sent_its_delay_after_the_previous_one_has_ended() {
    let turn = |at_ms, delay_ms: Option<u64>| TraceRequest {
        session: Some(9),
        delay: delay_ms.map(Span::millis),
        ..request(at_ms, 50, 5)
    };
    let requests = vec![turn(0, None), turn(0, Some(700)), turn(0, Some(1)), request(10, 50, 5)];
    let run = run(plan(requests, 1, HOLD)).unwrap();
    let [first, second, third, other] = &run.requests[..] else { panic!("four records") };
    assert_eq!(second.scheduled, first.ended + Span::millis(700));
    assert_eq!(third.scheduled, second.ended + Span::millis(1));
    assert_eq!(other.scheduled, Moment::START + Span::millis(10));
    assert_eq!(fates(&run), [Fate::Completed; 4]);
}

/// A class that sheds, and a fleet that is gone from 0 to 5 s: who arrives is told `no_worker`.
fn outage(client: Client) -> RunRecord {
    let class = "[[class]]\nname = \"a\"\noverload = \"shed\"\nwait_ms_max = 1000\n";
    let happening = |at_ms, what| Scripted { at: Span::millis(at_ms), what };
    let script =
        vec![happening(0, Happening::Lost(Who::All)), happening(5000, Happening::Back(Who::All))];
    let requests = vec![request(100, 50, 5)];
    run(Plan { service: service(class), client, script, ..plan(requests, 2, HOLD) }).unwrap()
}

#[test]
fn clients_come_back_after_a_refusal_as_their_model_says() {
    let gone = outage(Client::None);
    assert_eq!(fates(&gone), [Fate::Refused(RefusalReason::NoWorker)]);
    assert_eq!(gone.requests[0].attempts, 1);
    assert_eq!(gone.requests[0].promises.given, 1);
    let naive = outage(Client::Naive);
    assert_eq!(fates(&naive), [Fate::Refused(RefusalReason::NoWorker)]);
    assert_eq!(naive.requests[0].attempts, super::NAIVE_ATTEMPTS_MAX);
    let backoff = outage(Client::Backoff);
    assert_eq!(backoff.requests[0].attempts, super::SDK_ATTEMPTS_MAX);
    assert_eq!(fates(&backoff), [Fate::Refused(RefusalReason::NoWorker)]);
    assert_eq!(backoff.requests[0].promises.followed, 0);
    let told = outage(Client::RetryAfter);
    let record = &told.requests[0];
    assert_eq!(record.fate, Fate::Completed);
    assert!(record.attempts > 1, "{record:?}");
    assert_eq!(u32::from(record.promises.followed), record.attempts - 1);
    assert!(record.promises.kept);
    // Latency counts from the first attempt, the wait in the queue from the last.
    assert!(record.first_token.unwrap().since(record.scheduled) > Span::millis(4900));
    assert!(record.queue.unwrap() < Span::secs(1));
}

#[test]
fn impatient_clients_go_away_before_their_first_token_and_are_counted() {
    let patience = Some(Patience::Fixed(Span::millis(200)));
    let run = run(Plan { patience, ..plan(burst(), 1, HOLD) }).unwrap();
    let figures = summary(&run).all;
    assert!(figures.abandoned > 0 && figures.completed > 0, "{figures:?}");
    assert_eq!(figures.abandoned + figures.completed, 24);
    for record in run.requests.iter().filter(|record| record.fate == Fate::Abandoned) {
        assert_eq!(record.ended, record.scheduled + Span::millis(200));
        assert_eq!(record.first_token, None);
    }
}

#[test]
fn a_lost_worker_loses_only_what_had_begun_to_answer() {
    let happening = |at_ms, what| Scripted { at: Span::millis(at_ms), what };
    let lost = happening(100, Happening::Lost(Who::One(0)));
    let back = happening(900, Happening::Back(Who::One(0)));
    let run = run(Plan { script: vec![back, lost], ..plan(burst(), 2, HOLD) }).unwrap();
    let figures = summary(&run).all;
    assert_eq!(figures.completed + figures.failed, 24, "{figures:?}");
    for record in &run.requests {
        if let Fate::Failed(reason) = record.fate {
            assert_eq!(reason, RefusalReason::UpstreamFailed);
            assert!(record.first_token.is_some_and(|first| first <= record.ended));
        }
    }
    let again: Vec<_> = run.requests.iter().filter(|one| one.worker == Some(0)).collect();
    assert!(again.iter().any(|one| one.dispatched > Some(Moment::START + Span::millis(900))));
}

#[test]
fn a_fleet_that_never_comes_back_leaves_nobody_waiting_for_ever() {
    let script = vec![Scripted { at: Span::millis(50), what: Happening::Lost(Who::All) }];
    let run = run(Plan { script, ..plan(burst(), 2, HOLD) }).unwrap();
    let figures = summary(&run).all;
    assert_eq!(figures.offered, 24);
    assert_eq!(figures.completed + figures.refused + figures.abandoned + figures.failed, 24);
    assert!(figures.abandoned > 0, "{figures:?}");
}

#[test]
fn a_slowed_worker_takes_longer_until_it_is_back_to_normal() {
    let slowed = |at_ms, factor| {
        let what = Happening::Slowed(Who::One(0), factor);
        Scripted { at: Span::millis(at_ms), what }
    };
    let script = vec![slowed(500, 3.0), slowed(1500, 1.0)];
    let requests = vec![request(0, 100, 5), request(1000, 100, 5), request(2000, 100, 5)];
    let run = run(Plan { script, ..plan(requests, 1, HOLD) }).unwrap();
    let took: Vec<_> = run.requests.iter().map(|one| one.ended.since(one.scheduled)).collect();
    assert_eq!(took[0], took[2]);
    assert!(took[1].0.abs_diff(took[0].scaled(3.0).0) < 10, "{took:?}");
}

#[test]
fn a_class_that_spills_is_served_by_both_pools() {
    let text = "[[class]]\nname = \"a\"\noverload = \"spill\"\nspill_to = \"b\"\n\
                wait_ms_max = 100\n\
                [[pool]]\nname = \"b\"\nworkers = 3\nmode = \"least-loaded\"\n";
    let run = run(Plan { service: service(text), ..plan(burst(), 1, HOLD) }).unwrap();
    // What the main pool let in on a prediction may still have waited too long there.
    let late = Fate::Refused(RefusalReason::WaitedTooLong);
    assert!(fates(&run).iter().all(|fate| [Fate::Completed, late].contains(fate)));
    let workers: std::collections::BTreeSet<_> =
        run.requests.iter().filter_map(|record| record.worker).collect();
    // Worker 0 is the main pool's; the other pool's are numbered after it.
    assert_eq!(workers.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn classes_and_tenants_come_from_the_trace_else_from_shares() {
    let text = "[[class]]\nname = \"a\"\noverload = \"queue\"\ntraffic = 0\n\
                [[class]]\nname = \"b\"\noverload = \"queue\"\n\
                [[tenant]]\nname = \"t\"\nclass = \"a\"\n\
                [[tenant]]\nname = \"u\"\ntraffic = 0\n";
    let named = |class: Option<&str>, tenant: Option<&str>| TraceRequest {
        class: class.map(Arc::from),
        tenant: tenant.map(Arc::from),
        ..request(0, 20, 2)
    };
    let requests = vec![
        named(None, None),
        named(None, Some("u")),
        named(Some("a"), Some("new")),
        named(Some("b"), None),
    ];
    let run = run(Plan { service: service(text), ..plan(requests, 1, HOLD) }).unwrap();
    let drawn: Vec<_> = run
        .requests
        .iter()
        .map(|one| (&*run.classes[usize::from(one.class)], &*run.tenants[one.tenant as usize]))
        .collect();
    assert_eq!(drawn, [("a", "t"), ("b", "u"), ("a", "new"), ("b", "t")]);
}

#[test]
fn a_run_of_more_than_a_century_ends_in_an_error() {
    let years = |years: u64| years * 365 * 86_400_000;
    let error = |plan: Plan| run(plan).expect_err("it takes too long");
    let requests = vec![request(0, 20, 2), request(years(9), 20, 2)];
    let far = error(Plan { scale: 0.01, ..plan(requests.clone(), 1, HOLD) });
    assert!(matches!(far, SimulateError::TooLong { nth: 1, .. }), "{far}");
    let end_of_time = error(plan(vec![request(u64::MAX, 20, 2)], 1, HOLD));
    assert!(end_of_time.to_string().contains("more than 100 years"), "{end_of_time}");
    assert!(run(Plan { scale: 0.1, ..plan(requests, 1, HOLD) }).is_ok());
    // An engine that slow, with steps of a year each.
    let slow = Preset { step_base_us: 365.0 * 86_400e6, ..preset() };
    let mut plan = plan(vec![request(0, 20, 480)], 1, HOLD);
    plan.workers = vec![slow];
    assert!(matches!(error(plan), SimulateError::TooLong { nth: 1, .. }));
}

#[test]
fn workers_are_counted_before_they_are_made() {
    let limits = Service::single().limits;
    let error = fleet(&preset(), u32::MAX, &limits).expect_err("nobody has as many");
    assert!(error.to_string().starts_with("4294967295 workers, of at most 10000\nhint: "));
    assert_eq!(fleet(&preset(), 3, &limits).map(|fleet| fleet.len()), Ok(3));
}

#[test]
fn plans_that_make_no_run_are_refused_with_a_remedy() {
    let of = |plan: Plan| run(plan).expect_err("no run can be made of this");
    let unknown = TraceRequest { class: Some(Arc::from("gold")), ..request(0, 20, 2) };
    let error = of(plan(vec![request(0, 20, 2), unknown], 1, HOLD));
    let told = error.to_string();
    assert!(
        told.contains("request 2 of test names the class `gold`") && told.contains("hint: "),
        "{told}"
    );
    assert_eq!(of(plan(Vec::new(), 0, HOLD)), SimulateError::NoWorkers);
    for scale in [0.0, -1.0, 0.999e-6, 1.001e6, f64::NAN, f64::INFINITY] {
        let error = of(Plan { scale, ..plan(Vec::new(), 1, HOLD) });
        assert!(matches!(error, SimulateError::Scale(_)));
    }
    let error = of(Plan { capacity_error_pct: -100.0, ..plan(Vec::new(), 1, HOLD) });
    assert!(matches!(error, SimulateError::CapacityError(_)));
    let other = Preset { block_size: 32, ..preset() };
    let error = of(Plan { workers: vec![preset(), other], ..plan(Vec::new(), 1, HOLD) });
    assert!(matches!(error, SimulateError::BlockSizes { .. }));
}

#[test]
fn readings_come_every_second_while_something_runs_and_not_in_an_idle_world() {
    #[derive(Default)]
    struct Readings(Vec<Moment>);
    impl Tap for Readings {
        fn told(&mut self, _: PoolId, now: Moment, input: &Input) {
            if let Input::Observed(_, forebay_core::Observation::Load(_)) = input {
                self.0.push(now);
            }
        }
        fn said(&mut self, _: PoolId, _: Moment, _: &Output) {}
    }
    let mut readings = Readings::default();
    // About 2.6 s of decoding, then an idle hour.
    let requests = vec![request(500, 50, 250), request(3_600_000, 50, 2)];
    run_tapped(plan(requests, 1, HOLD), &mut readings).unwrap();
    let seconds: Vec<u64> = readings.0.iter().map(|at| at.0 / 1_000_000_000).collect();
    assert_eq!(seconds, [1, 2, 3]);
}

#[test]
fn a_trace_of_nothing_makes_a_run_of_nothing() {
    let run = run(plan(Vec::new(), 1, HOLD)).unwrap();
    assert_eq!((run.requests.len(), run.workers), (0, 1));
    assert_eq!(run.engine, "small/model");
}
