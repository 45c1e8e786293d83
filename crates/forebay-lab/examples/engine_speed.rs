//! Measures how fast engines run: as many requests as asked for over as many engines, in one event
//! loop.
//!
//! `cargo run --release -p forebay-lab --example engine_speed -- [PRESET] [ENGINES] [REQUESTS]`
//!
//! 1.1 requests a second arrive at each engine, with 4,000 to 8,000 prompt tokens of which two
//! fifths share one of ten prefixes of 6,144 tokens, and 1 to 300 tokens of answer. Only the
//! engines are real: requests go round.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;
use std::io::Write as _;
use std::time::Instant;

use forebay_core::{BlockHash, Moment, Rng, Span, mixed};
use forebay_lab::engine::{Engine, Input, Job, Output, Preset};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let preset = Preset::resolve(&args.next().unwrap_or("a100-40gb/qwen3-8b".to_owned()))?;
    let engines: u64 = args.next().map_or(Ok(1_000), |engines| engines.parse())?;
    let requests: u64 = args.next().map_or(Ok(1_000_000), |requests| requests.parse())?;

    let mut pool: Vec<Engine> = (0..engines).map(|_| Engine::new(&preset)).collect();
    pool.iter_mut().for_each(|engine| engine.set_report_every(64));
    let gap = Span::secs_f64(1.0 / (1.1 * engines as f64));
    let mut rng = Rng::new(1);
    let mut wakes: BinaryHeap<Reverse<(Moment, u64)>> = BinaryHeap::new();
    let mut planned = vec![None; pool.len()];
    let (mut next, mut next_at) = (0, Moment::START);
    let (mut steps, mut outputs, mut finished) = (0_u64, 0_u64, 0_u64);
    let started = Instant::now();
    loop {
        let wake = wakes.peek().map(|&Reverse(wake)| wake);
        let engine = if next < requests && wake.is_none_or(|(at, _)| next_at <= at) {
            let engine = next % engines;
            let job = request(next, preset.block_size, &mut rng);
            pool[engine as usize].handle(next_at, Input::Submitted(job));
            (next, next_at) = (next + 1, next_at + gap);
            engine
        } else if let Some((now, engine)) = wake {
            wakes.pop();
            steps += 1;
            planned[engine as usize] = None;
            pool[engine as usize].handle(now, Input::Elapsed);
            engine
        } else {
            break;
        };
        loop {
            match pool[engine as usize].poll() {
                Output::Sleep(None) => break,
                Output::Sleep(Some(at)) => {
                    if planned[engine as usize].replace(at).is_none() {
                        wakes.push(Reverse((at, engine)));
                    }
                    break;
                }
                output => {
                    outputs += 1;
                    finished += u64::from(matches!(output, Output::Finished(_)));
                }
            }
        }
    }
    let took = started.elapsed();
    writeln!(
        std::io::stdout(),
        "{finished} requests, {steps} steps, {outputs} outputs in {took:.1?}: {:.0} ns a step",
        took.as_nanos() as f64 / steps as f64
    )?;
    Ok(())
}

fn request(id: u64, block_size: u32, rng: &mut Rng) -> Job {
    let prompt = 4_000 + rng.below(4_000) as u32;
    let output = 1 + rng.below(300) as u32;
    let prefix = (rng.below(5) < 2).then(|| rng.below(10));
    let shared = 6_144 / block_size;
    let hash = |nth: u32| match prefix {
        Some(prefix) if nth < shared => BlockHash(mixed(prefix << 32 | u64::from(nth))),
        _ => BlockHash(mixed((1 << 60) | id << 20 | u64::from(nth))),
    };
    Job { id, prompt, output, blocks: (0..prompt / block_size).map(hash).collect() }
}
