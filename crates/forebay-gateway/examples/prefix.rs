//! Measures what the prefix of a long prompt costs: reading the body, cutting it into blocks, and
//! the core's bookkeeping of them until the request has ended.
//!
//! `prefix BYTES BLOCK_SIZE`. Half of the prompts share three quarters of their text, as in the
//! measurement of what a router costs. Prints the median of each part, in microseconds.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use forebay_core::{
    Arrival, BlockHash, ClassId, ClassSettings, Core, GateSettings, HoldOrder, Input, Knowledge,
    Limits, Mode, Moment, Observation, Outcome, Output, Overload, RequestId, Rng, Settings, Span,
    TenantId, TenantSettings, Tokens, WorkerId, WorkerProfile,
};
use forebay_wire::blocks::chain;
use forebay_wire::openai::{Endpoint, scan};

const REQUESTS: u64 = 2_000;
const BODIES: u64 = 64;
const BYTES_PER_TOKEN: u64 = 4;

fn settings(block_size: u32) -> Settings {
    let class = ClassSettings {
        overload: Overload::Queue,
        wait_max: None,
        queue_len_max: 1_000,
        share: 1,
        ageing: 3.0,
        promise: 1.5,
    };
    Settings {
        accepting: true,
        mode: Mode::Hold(HoldOrder::Aged),
        knowledge: Knowledge::Own,
        block_size,
        expected_output: None,
        classes: vec![class],
        tenant_default: TenantSettings {
            weight: 1,
            rate: None,
            tokens: None,
            concurrency_max: None,
        },
        tenants: Vec::new(),
        gate: GateSettings {
            fraction_start: 0.95,
            fraction_min: 0.6,
            fraction_max: 1.0,
            backlog_steps_max: 1.5,
        },
        limits: Limits {
            queue_len_max: 1_000,
            running_max: 1_000,
            workers_max: 10,
            tenants_max: 10,
            means_max: 1_000,
            promises_max: 1_000,
            attempts_max: 3,
            retry_after_max: Span::secs(60),
            mark: Span::secs(1),
        },
    }
}

/// A chat of so many bytes.
fn body(nth: u64, bytes: u64) -> Vec<u8> {
    let words = |seed: u64, bytes: u64| {
        let mut rng = Rng::new(seed);
        let words: Vec<String> =
            (0..bytes / 6).map(|_| format!("w{:04} ", rng.below(10_000))).collect();
        words.concat()
    };
    let shared = words(if nth % 2 == 1 { 0 } else { nth + 1 }, bytes * 3 / 4);
    let own = words(nth + 1_000, bytes / 4);
    let message = format!("{{\"role\":\"user\",\"content\":\"{shared}{own}\"}}");
    format!("{{\"model\":\"m\",\"messages\":[{message}],\"max_tokens\":16}}").into_bytes()
}

fn handled(core: &mut Core, now: &mut Moment, input: Input) -> f64 {
    *now = *now + Span::millis(1);
    let begun = Instant::now();
    core.handle(*now, input);
    while !matches!(core.poll(), Output::Sleep(_)) {}
    begun.elapsed().as_secs_f64() * 1e6
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or_default()
}

fn main() -> ExitCode {
    let asked: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let (bytes, block_size) = match asked[..] {
        [] => (220_000, 128),
        [bytes, block_size] => (bytes, block_size.clamp(1, 65_536) as u32),
        _ => return ExitCode::from(2),
    };
    let bodies: Vec<Vec<u8>> = (0..BODIES).map(|nth| body(nth, bytes)).collect();
    let mut core = Core::new(settings(block_size), 1);
    let mut now = Moment::START;
    for worker in 0..2 {
        let profile = WorkerProfile {
            kv_capacity: Some(Tokens(1_000_000)),
            batch_tokens_max: Tokens(8_192),
            seqs_max: 256,
        };
        let joined = Observation::Joined(profile);
        handled(&mut core, &mut now, Input::Observed(WorkerId(worker), joined));
    }
    let (mut scans, mut chains, mut cores) = (Vec::new(), Vec::new(), Vec::new());
    for nth in 0..REQUESTS {
        let body = &bodies[(nth % BODIES) as usize];
        let begun = Instant::now();
        let Ok(scanned) = scan(Endpoint::ChatCompletions, body) else {
            return ExitCode::FAILURE;
        };
        scans.push(begun.elapsed().as_secs_f64() * 1e6);
        let begun = Instant::now();
        let block_bytes = block_size as usize * BYTES_PER_TOKEN as usize;
        let blocks: Arc<[BlockHash]> =
            chain(&scanned.prompt.spans, block_bytes, 0).into_iter().map(BlockHash).collect();
        chains.push(begun.elapsed().as_secs_f64() * 1e6);
        let request = RequestId(nth);
        let arrival = Arrival {
            request,
            class: ClassId(0),
            tenant: TenantId(0),
            session: None,
            prompt: Tokens(scanned.prompt.bytes() / BYTES_PER_TOKEN),
            output_max: Some(Tokens(16)),
            blocks,
            ticket: None,
        };
        let done = Outcome::Completed { output: Tokens(16) };
        let mut spent = handled(&mut core, &mut now, Input::Arrived(arrival));
        spent += handled(&mut core, &mut now, Input::FirstToken(request));
        spent += handled(&mut core, &mut now, Input::Finished(request, done));
        cores.push(spent);
    }
    let (scan, chain, core) = (median(scans), median(chains), median(cores));
    #[expect(clippy::print_stdout, reason = "the figures are what it is for")]
    {
        println!(
            "{bytes} bytes in blocks of {block_size} tokens: body {scan:.1} us, blocks \
             {chain:.1} us, core {core:.1} us: bookkeeping of the prefix {:.1} us",
            chain + core
        );
    }
    ExitCode::SUCCESS
}
