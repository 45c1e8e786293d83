//! Decides on a full fleet with a long queue, as often as told: `cargo xtask bench` counts its
//! instructions.
//!
//! `decision WORKERS WAITING DECISIONS`. One decision is what one served request costs: its
//! arrival, its first token, and the end of another that lets one go from the queue.
//! Prints the median and the 99th percentile of the wall time of each kind of input.

use std::process::ExitCode;
use std::sync::Arc;
// Wall time is only printed; nothing is decided by it.
#[expect(clippy::disallowed_types, reason = "a benchmark reads the clock, the core does not")]
use std::time::Instant;

use forebay_core::{
    Arrival, BlockHash, ClassId, ClassSettings, Core, GateSettings, HoldOrder, Input, Knowledge,
    Limits, Mode, Moment, Observation, Outcome, Output, Overload, RequestId, Rng, Settings, Span,
    TenantId, TenantSettings, Tokens, WorkerId, WorkerProfile, mixed,
};

const BLOCK: u64 = 64;

fn settings() -> Settings {
    Settings {
        accepting: true,
        mode: Mode::Hold(HoldOrder::Aged),
        knowledge: Knowledge::Own,
        block_size: BLOCK as u32,
        expected_output: None,
        classes: vec![ClassSettings {
            overload: Overload::Queue,
            wait_max: Some(Span::secs(1_000_000)),
            queue_len_max: 1_000_000,
            share: 1,
            ageing: 3.0,
            promise: 1.5,
        }],
        tenant_default: TenantSettings {
            weight: 1,
            rate: None,
            tokens: None,
            concurrency_max: None,
        },
        tenants: Vec::new(),
        gate: GateSettings {
            fraction_start: 0.95,
            fraction_min: 0.8,
            fraction_max: 1.0,
            backlog_steps_max: 1.5,
        },
        limits: Limits {
            queue_len_max: 1_000_000,
            running_max: 1_000_000,
            workers_max: 10_000,
            tenants_max: 1000,
            means_max: 65_536,
            promises_max: 1000,
            attempts_max: 3,
            retry_after_max: Span::secs(60),
            mark: Span::secs(1),
        },
    }
}

/// A request like those of the evidence: two in five share a long prefix, one in six a shorter one,
/// and the rest are chats.
fn request(id: u64, rng: &mut Rng) -> Arrival {
    let (prefix, shared, prompt) = match rng.below(100) {
        0..40 => (1, 96, 6200 + rng.below(800)),
        40..57 => (2, 40, 2600 + rng.below(800)),
        _ => (3, 8, 900 + rng.below(9000)),
    };
    let hash = |nth: u64| mixed(if nth < shared { prefix << 32 | nth } else { id << 32 | nth });
    Arrival {
        request: RequestId(id),
        class: ClassId(0),
        tenant: TenantId(0),
        session: None,
        prompt: Tokens(prompt),
        output_max: Some(Tokens(1000)),
        blocks: (0..prompt / BLOCK).map(|nth| BlockHash(hash(nth))).collect::<Arc<[_]>>(),
        ticket: None,
    }
}

struct Bench {
    core: Core,
    now: Moment,
    rng: Rng,
    running: Vec<u64>,
    next: u64,
    nanos: [Vec<u64>; 3],
}

impl Bench {
    #[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "as above")]
    fn input(&mut self, input: Input, kind: Option<usize>) {
        let start = Instant::now();
        self.core.handle(self.now, input);
        loop {
            match self.core.poll() {
                Output::Dispatch(request, _, _) => self.running.push(request.0),
                Output::Sleep(_) => break,
                _ => {}
            }
        }
        if let Some(kind) = kind {
            self.nanos[kind].push(start.elapsed().as_nanos() as u64);
        }
    }

    fn arrive(&mut self, kind: Option<usize>) {
        self.now = self.now + Span(100_000);
        let arrival = request(self.next, &mut self.rng);
        self.next += 1;
        self.input(Input::Arrived(arrival), kind);
    }

    /// The end of a random one that runs, and the first tokens of whatever that let go.
    fn finish(&mut self, kind: Option<usize>) {
        let place = self.rng.below(self.running.len() as u64) as usize;
        let request = RequestId(self.running.swap_remove(place));
        let before = self.running.len();
        let outcome = Outcome::Completed { output: Tokens(1 + self.rng.below(300)) };
        self.input(Input::Finished(request, outcome), kind);
        let mut nth = before;
        while let Some(started) = self.running.get(nth).copied() {
            self.input(Input::FirstToken(RequestId(started)), kind.map(|_| 2));
            nth += 1;
        }
    }
}

fn main() -> ExitCode {
    let numbers: Vec<u64> =
        std::env::args().skip(1).filter_map(|number| number.parse().ok()).collect();
    let [workers, waiting, decisions] = numbers[..] else {
        #[expect(clippy::print_stderr, reason = "this is how a program complains")]
        {
            eprintln!("usage: decision WORKERS WAITING DECISIONS");
        }
        return ExitCode::from(2);
    };
    let mut bench = Bench {
        core: Core::new(settings(), 1),
        now: Moment::START + Span::secs(1),
        rng: Rng::new(1),
        running: Vec::new(),
        next: 0,
        nanos: [const { Vec::new() }; 3],
    };
    let profile = WorkerProfile {
        kv_capacity: Some(Tokens(126_000)),
        batch_tokens_max: Tokens(2048),
        seqs_max: 256,
    };
    for worker in 0..workers {
        bench.input(Input::Observed(WorkerId(worker as u32), Observation::Joined(profile)), None);
    }
    // Fill the fleet: first tokens come at once until nothing more goes, then the queue grows.
    while (bench.core.queue_len() as u64) < waiting {
        let before = bench.running.len();
        bench.arrive(None);
        for nth in before..bench.running.len() {
            let request = RequestId(bench.running[nth]);
            bench.input(Input::FirstToken(request), None);
        }
    }
    for _ in 0..decisions {
        while (bench.core.queue_len() as u64) < waiting {
            bench.arrive(Some(0));
        }
        bench.finish(Some(1));
    }
    for (name, nanos) in ["arrival", "end", "first token"].iter().zip(&mut bench.nanos) {
        nanos.sort_unstable();
        let quantile = |part: usize| nanos.get(nanos.len() * part / 100).copied().unwrap_or(0);
        #[expect(clippy::print_stdout, reason = "this is the program's output")]
        {
            println!(
                "{name}: {} inputs, median {:.1} µs, p99 {:.1} µs",
                nanos.len(),
                quantile(50) as f64 / 1e3,
                quantile(99) as f64 / 1e3
            );
        }
    }
    ExitCode::SUCCESS
}
