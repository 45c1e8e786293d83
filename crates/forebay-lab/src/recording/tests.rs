//! Checks recordings from their first byte to the explanation of a request.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_core::{
    Arrival, BlockHash, Candidate, Cause, ClassId, ClassSettings, Core, GateSettings, HoldOrder,
    Input, Knowledge, Limits, Mode, Moment, Observation, Outcome, Output, Overload, Refusal,
    RefusalReason, RequestId, Settings, Span, TenantId, TenantSettings, Ticket, Tokens, Why,
    WorkerId, WorkerProfile,
};
use forebay_service::Service;

use super::{RECORDING_BYTES_MAX, Recorder, RecordingTap, Start, explain, replay};
use crate::engine::Preset;
use crate::simulate::{Plan, run_tapped};
use crate::trace::synth::Description;

/// A folder that is gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("forebay-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary folder takes a folder");
        Self(path)
    }
    fn file(&self) -> PathBuf {
        self.0.join("run.rec")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn settings() -> Settings {
    let tenant = TenantSettings { weight: 1, rate: None, tokens: None, concurrency_max: None };
    Settings {
        accepting: true,
        mode: Mode::Hold(HoldOrder::Aged),
        knowledge: Knowledge::Own,
        block_size: 16,
        expected_output: None,
        classes: vec![ClassSettings {
            overload: Overload::Queue,
            wait_max: None,
            queue_len_max: 100,
            share: 1,
            ageing: 3.0,
            promise: 2.0,
        }],
        tenant_default: tenant,
        tenants: Vec::new(),
        gate: GateSettings {
            fraction_start: 0.95,
            fraction_min: 0.8,
            fraction_max: 1.0,
            backlog_steps_max: 1.5,
        },
        limits: Limits {
            queue_len_max: 100,
            running_max: 100,
            workers_max: 10,
            tenants_max: 10,
            means_max: 10,
            promises_max: 10,
            attempts_max: 3,
            retry_after_max: Span::secs(60),
            mark: Span::secs(1),
        },
    }
}

fn arrival(id: u64) -> Arrival {
    Arrival {
        request: RequestId(id),
        class: ClassId(0),
        tenant: TenantId(0),
        session: None,
        prompt: Tokens(100 + id),
        output_max: Some(Tokens(64)),
        blocks: Arc::from([BlockHash(1), BlockHash(2 + id % 3)]),
        ticket: None,
    }
}

fn recorder(folder: &Folder) -> Recorder {
    let start = Start {
        settings: &settings(),
        seed: 7,
        classes: &["public".to_owned()],
        tenants: &["city".to_owned()],
    };
    Recorder::create(&folder.file(), &start, RECORDING_BYTES_MAX).expect("the folder exists")
}

/// Records what a core says to twenty requests, each of which ends a second after its dispatch.
fn record_a_run(folder: &Folder) -> u64 {
    let mut core = Core::new(settings(), 7);
    let mut recorder = recorder(folder);
    let mut decisions = 0;
    let mut tell = |at: u64, input: Input| {
        let at = Moment(at);
        recorder.input(at, &input);
        core.handle(at, input);
        let mut sent = Vec::new();
        loop {
            let output = core.poll();
            recorder.output(at, &output);
            match output {
                Output::Sleep(_) => return sent,
                Output::Dispatch(request, ..) => sent.push(request),
                _ => {}
            }
            decisions += 1;
        }
    };
    let profile = WorkerProfile {
        kv_capacity: Some(Tokens(1000)),
        batch_tokens_max: Tokens(512),
        seqs_max: 8,
    };
    tell(0, Input::Observed(WorkerId(0), Observation::Joined(profile)));
    let mut running = Vec::new();
    for id in 0..20 {
        running.extend(tell(id + 1, Input::Arrived(arrival(id))));
    }
    let mut at = 1000;
    while !running.is_empty() {
        let request = running.remove(0);
        at += 1_000_000_000;
        running.extend(tell(at, Input::FirstToken(request)));
        let outcome = Outcome::Completed { output: Tokens(10) };
        running.extend(tell(at, Input::Finished(request, outcome)));
    }
    assert!(recorder.finish().expect("the folder takes the file"));
    decisions
}

#[test]
fn a_recorded_run_replays_to_the_same_decisions() {
    let folder = Folder::new("same");
    let decisions = record_a_run(&folder);
    let report = replay(&folder.file()).unwrap();
    assert!(report.is_equal(), "{report}");
    assert_eq!(report.decisions, decisions);
    assert_eq!(report.to_string(), format!("{decisions} decisions, all equal"));
}

#[test]
fn nothing_but_the_recording_is_left_in_its_folder() {
    let folder = Folder::new("draft");
    drop(recorder(&folder));
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0, "a run that broke off");
    record_a_run(&folder);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn a_decision_that_the_core_would_not_take_is_the_first_difference() {
    let folder = Folder::new("differs");
    let mut recorder = recorder(&folder);
    recorder.input(Moment(5), &Input::Elapsed);
    recorder.output(Moment(5), &Output::Refuse(RequestId(3), refusal()));
    recorder.finish().unwrap();
    let report = replay(&folder.file()).unwrap();
    assert!(!report.is_equal());
    let text = report.to_string();
    assert!(
        text.starts_with("0 decisions were equal, then record 2 at 0.000 s differs:"),
        "{text}"
    );
    assert!(text.contains("recorded: request 3 is refused: shed (HTTP 503)"), "{text}");
    assert!(text.contains("now:      sleep until"), "{text}");
}

#[test]
fn a_decision_that_the_recording_lacks_is_a_difference_too() {
    let folder = Folder::new("lacks");
    let mut recorder = recorder(&folder);
    recorder.input(Moment(5), &Input::Elapsed);
    recorder.input(Moment(6), &Input::Elapsed);
    recorder.finish().unwrap();
    let text = replay(&folder.file()).unwrap().to_string();
    assert!(text.contains("record 2"), "{text}");
    assert!(text.contains("recorded: nothing"), "{text}");
}

#[test]
fn a_torn_recording_replays_up_to_its_last_whole_record_and_says_so() {
    let folder = Folder::new("torn");
    record_a_run(&folder);
    let bytes = std::fs::read(folder.file()).unwrap();
    std::fs::write(folder.file(), &bytes[..bytes.len() - 9]).unwrap();
    let report = replay(&folder.file()).unwrap();
    assert!(report.is_equal());
    assert!(report.to_string().contains("note: the recording ends early"), "{report}");
}

#[test]
fn what_is_no_recording_is_refused_with_a_remedy() {
    let folder = Folder::new("foreign");
    std::fs::write(folder.file(), b"{}\n").unwrap();
    let error = replay(&folder.file()).unwrap_err().to_string();
    assert!(error.ends_with(
        "run.rec: this is not a recording\nhint: name a file that `--record` has written"
    ));
    let error = explain(&folder.0.join("none"), 0).unwrap_err().to_string();
    assert!(error.contains("can't be read"), "{error}");
}

#[test]
fn a_recording_that_can_not_be_written_is_refused_before_the_run() {
    let folder = Folder::new("unwritable");
    let start = Start { settings: &settings(), seed: 7, classes: &[], tenants: &[] };
    let missing = folder.0.join("missing").join("run.rec");
    let error = Recorder::create(&missing, &start, RECORDING_BYTES_MAX).unwrap_err().to_string();
    assert!(error.contains("hint: name a file in a folder that exists"), "{error}");
    let error = Recorder::create(&folder.0, &start, RECORDING_BYTES_MAX).unwrap_err().to_string();
    assert!(error.contains("can't be written: it is a folder"), "{error}");
    let error = Recorder::create(&folder.file(), &start, 10).unwrap_err().to_string();
    assert!(error.contains("hint: allow the recording more bytes"), "{error}");
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0, "no draft is left");
}

fn refusal() -> Refusal {
    Refusal {
        reason: RefusalReason::Shed,
        class: ClassId(0),
        retry_after: Some(Span::secs(7)),
        predicted_wait: Some(Span::millis(6400)),
        waited: Span::ZERO,
        limit: 2000,
        sustained: false,
    }
}

fn why(attempt: u32) -> Why {
    Why {
        cause: if attempt == 1 { Cause::Order } else { Cause::Again },
        mode: "hold",
        prompt: Tokens(103),
        expected_output: Tokens(64),
        occupancy: Tokens(0),
        waited: Span::millis(500),
        predicted_wait: Some(Span::millis(400)),
        candidates: vec![Candidate {
            worker: WorkerId(0),
            score: 0.5,
            cached: Tokens(32),
            backlog: Tokens(0),
        }],
        workers_open: 1,
        gate: None,
        queue_len: 2,
        passed: 0,
        behind: None,
        attempt,
    }
}

#[test]
fn a_moment_keeps_its_milliseconds_however_late_it_is() {
    let folder = Folder::new("late");
    let mut recorder = recorder(&folder);
    recorder.input(Moment(7_298_123_000_000), &Input::Arrived(arrival(3)));
    recorder.finish().unwrap();
    let text = explain(&folder.file(), 3).unwrap();
    assert!(text.contains(" arrived at 7298.123 s "), "{text}");
}

#[test]
fn a_request_that_ran_twice_is_explained_in_the_order_of_its_decisions() {
    let folder = Folder::new("twice");
    let mut recorder = recorder(&folder);
    let request = RequestId(3);
    let ms = |ms: u64| Moment(ms * 1_000_000);
    let dispatch =
        |worker, attempt| Output::Dispatch(request, WorkerId(worker), Box::new(why(attempt)));
    recorder.input(ms(1000), &Input::Arrived(arrival(3)));
    recorder.output(ms(1500), &dispatch(0, 1));
    recorder.input(ms(1600), &Input::Arrived(arrival(4)));
    recorder.input(ms(1700), &Input::Finished(request, Outcome::Broke));
    recorder.output(ms(1700), &dispatch(1, 2));
    recorder.input(ms(2000), &Input::FirstToken(request));
    let outcome = Outcome::Completed { output: Tokens(9) };
    recorder.input(ms(3000), &Input::Finished(request, outcome));
    recorder.finish().unwrap();
    let expected = "\
Request 3 (class public, tenant city) arrived at 1.000 s with a prompt of 103 tokens, 2
blocks of it hashed, and asked for 64 tokens of output at most.

At 1.500 s request 3 was sent to worker 0. Mode hold decided, attempt 1: it and its
worker were the best pair by the order. It had waited 0.500 s, and first-come was
predicted to cost it 0.400 s. Once it had gone, 2 waited in the pool. One worker was
open. The choice was worker 0 with a score of 0.500 (32 of 103 prompt tokens cached, 0
tokens of prefill before it). Its prompt has 103 tokens, and 64 tokens of output were
reserved for it. Its class promised that it would go first once it had waited 0.800 s, 2
times what first-come was predicted to cost it.

At 1.700 s the worker broke before its first byte.

At 1.700 s request 3 was sent to worker 1. Mode hold decided, attempt 2: its worker had
failed it before the first byte, and it ran again. It had waited 0.500 s, and first-come
was predicted to cost it 0.400 s. Once it had gone, 2 waited in the pool. One worker was
open. The choice was worker 0 with a score of 0.500 (32 of 103 prompt tokens cached, 0
tokens of prefill before it). Its prompt has 103 tokens, and 64 tokens of output were
reserved for it. Its class promised that it would go first once it had waited 0.800 s, 2
times what first-come was predicted to cost it.

Its first token came at 2.000 s.

It ended well at 3.000 s, with 9 tokens.";
    assert_eq!(explain(&folder.file(), 3).unwrap(), expected);
}

#[test]
fn a_refused_request_is_explained_with_its_ticket_limit_and_advice() {
    let folder = Folder::new("refused");
    let mut recorder = recorder(&folder);
    let ticket = Ticket { first_arrived: Moment::START, promised: Moment(8_000_000_000) };
    let again = Arrival { ticket: Some(ticket), tenant: TenantId(5), ..arrival(3) };
    recorder.input(Moment(8_100_000_000), &Input::Arrived(again));
    recorder.output(Moment(8_100_000_000), &Output::Refuse(RequestId(3), refusal()));
    recorder.finish().unwrap();
    let expected = "\
Request 3 (class public, tenant 5) arrived at 8.100 s with a prompt of 103 tokens, 2
blocks of it hashed, and asked for 64 tokens of output at most. It had been offered
first at 0.000 s, was refused, and told to come back at 8.000 s.

At 8.100 s request 3 was refused: shed (HTTP 503): its class sheds, and the predicted
wait was above the class's limit of 2000 ms. It had not waited; the predicted wait was
6.400 s. It was told to come back after 7.000 s.";
    assert_eq!(explain(&folder.file(), 3).unwrap(), expected);
}

#[test]
fn an_unknown_request_is_refused_with_the_range_of_those_that_are_known() {
    let folder = Folder::new("unknown");
    record_a_run(&folder);
    let error = explain(&folder.file(), 20).unwrap_err().to_string();
    assert!(
        error.ends_with("there is no request 20\nhint: name a request from 0 to 19"),
        "{error}"
    );
}

#[test]
fn a_simulated_run_with_two_pools_replays_to_the_same_decisions() {
    let folder = Folder::new("simulated");
    let service = Service::parse(
        Path::new("service.toml"),
        "[[class]]\nname = \"public\"\noverload = \"queue\"\n\
         [[class]]\nname = \"batch\"\noverload = \"spill\"\nspill_to = \"night\"\n\
         wait_ms_max = 100\n\
         [[pool]]\nname = \"night\"\nworkers = 1\n",
        &Preset::faults_of,
    )
    .unwrap();
    let evidence = Description::named("evidence").unwrap();
    let requests = evidence.requests(5, Some(60));
    let workers = vec![Preset::resolve("a100-40gb/qwen3-8b").unwrap()];
    let mode = Mode::Hold(HoldOrder::Aged);
    let mut tap = RecordingTap::create(&folder.file(), &service).unwrap();
    let plan = Plan { service, ..Plan::new("evidence".to_owned(), requests, workers, mode) };
    let run = run_tapped(plan, &mut tap).unwrap();
    assert!(tap.finish().unwrap());
    assert_eq!(run.requests.len(), 60);
    let main = replay(&folder.file()).unwrap();
    assert!(main.is_equal() && main.decisions >= 60, "{main}");
    let night = replay(&folder.0.join("run.rec.pool-1")).unwrap();
    assert!(night.is_equal() && night.decisions >= 1, "{night}");
    let text = explain(&folder.file(), 1).unwrap();
    assert!(text.starts_with("Request 1 (class "), "{text}");
}
