//! Fits an engine preset to the round-robin cells of the published A/B test, and prints the error
//! per cell.
//!
//! `cargo run --release -p forebay-lab --example fit_engine -- FOLDER [PRESET] [ROUNDS SEED]`
//!
//! FOLDER holds `kv-router-ab.csv` and `seedlike-{1,2,3}.jsonl`. Without ROUNDS it only prints.
//! Exit code 1: a cell is off by more than its tolerance. Request i goes to worker i mod N at its
//! timestamp, with no latency in between. The kv router's rows are never looked at: what it refuses
//! is a prediction of the fitted engine, not an input to it.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use forebay_core::{Moment, Rng, Span, Tokens};
use forebay_lab::engine::{Engine, Input, Job, Output, Preset};
use forebay_lab::trace::TraceRequest;
use serde::Deserialize;

const WORKERS: [usize; 3] = [2, 4, 8];

/// A request and the hashes of its full blocks.
type Request = (Moment, Job);

#[derive(Deserialize)]
struct Line {
    timestamp: u64,
    input_length: u64,
    output_length: u64,
    hash_ids: Vec<u64>,
}

/// The figures of one cell, in seconds but for `itl`, which is in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    ttft_p50: f64,
    ttft_mean: f64,
    itl: f64,
    makespan: f64,
    preemptions: f64,
}

impl Cell {
    fn add(&mut self, other: &Self, weight: f64) {
        self.ttft_p50 += weight * other.ttft_p50;
        self.ttft_mean += weight * other.ttft_mean;
        self.itl += weight * other.itl;
        self.makespan += weight * other.makespan;
        self.preemptions += weight * other.preemptions;
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let folder = Path::new(args.first().ok_or("usage: fit_engine FOLDER [PRESET] [ROUNDS SEED]")?);
    let mut preset = Preset::resolve(args.get(1).map_or("a100-40gb/qwen3-8b", String::as_str))?;
    let published = published(&std::fs::read_to_string(folder.join("kv-router-ab.csv"))?)?;
    let traces = (1..=3)
        .map(|nth| {
            let path = folder.join(format!("seedlike-{nth}.jsonl"));
            requests(&std::fs::read_to_string(path)?, preset.block_size)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut out = std::io::stdout().lock();
    if let (Some(rounds), Some(seed)) = (args.get(2), args.get(3)) {
        preset = search(preset, &traces, &published, rounds.parse()?, seed.parse()?);
        writeln!(out, "{preset:#?}")?;
    }
    let ours = simulated(&preset, &traces);
    write!(out, "{}", table(&ours, &published))?;
    let is_within = |(error, tolerance): &(f64, f64)| error.abs() <= *tolerance;
    Ok(ExitCode::from(u8::from(!errors(&ours, &published).iter().all(is_within))))
}

fn requests(text: &str, block_size: u32) -> Result<Vec<Request>, Box<dyn Error>> {
    let read = |(nth, line)| {
        let line: Line = serde_json::from_str(line)?;
        let request = TraceRequest {
            at: Span::millis(line.timestamp),
            prompt: Tokens(line.input_length),
            output: Tokens(line.output_length),
            ids: line.hash_ids.into(),
            id_tokens: 512,
            session: None,
            delay: None,
            class: None,
            tenant: None,
        };
        let blocks = request.block_hashes(block_size);
        let (prompt, output) = (line.input_length as u32, line.output_length as u32);
        Ok((Moment::START + request.at, Job { id: nth as u64, prompt, output, blocks }))
    };
    text.lines().enumerate().map(read).collect()
}

/// The pooled figures of the measured round-robin runs, for each of [`WORKERS`].
fn published(text: &str) -> Result<[Cell; 3], Box<dyn Error>> {
    let mut cells = [Cell::default(); 3];
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let columns = rows.headers()?.clone();
    for row in rows.records() {
        let row = row?;
        let of = |name| {
            columns
                .iter()
                .position(|column| column == name)
                .and_then(|at| row.get(at))
                .unwrap_or("")
        };
        if of("router") != "round-robin" || of("run") == "warmup" {
            continue;
        }
        let workers: usize = of("workers").parse()?;
        let nth = WORKERS.iter().position(|&known| known == workers).ok_or("an unknown N")?;
        // The median of the pooled runs is not in the file; the mean of their medians is close.
        let run = Cell {
            ttft_p50: of("ttft_ms_p50").parse::<f64>()? / 1e3,
            ttft_mean: of("ttft_ms_mean").parse::<f64>()? / 1e3,
            itl: of("itl_ms_mean").parse()?,
            makespan: of("makespan_s").parse()?,
            preemptions: 0.0,
        };
        cells[nth].add(&run, 1.0 / 3.0);
    }
    Ok(cells)
}

/// Runs a trace on that many workers in turn.
fn round_robin(preset: &Preset, trace: &[Request], workers: usize) -> Cell {
    let mut ttft = Vec::with_capacity(trace.len());
    let mut itl = Vec::with_capacity(trace.len());
    let (mut end, mut preemptions) = (Moment::START, 0);
    let mut first_tokens = vec![Moment::START; trace.len()];
    for worker in 0..workers {
        let mut engine = Engine::new(preset);
        engine.set_report_every(u32::MAX);
        let mut arrivals = trace.iter().skip(worker).step_by(workers).peekable();
        let mut wake = None;
        loop {
            let next = arrivals.peek().map(|(at, _)| *at);
            let now = match (wake, next) {
                (None, None) => break,
                (Some(wake), Some(at)) => std::cmp::min(wake, at),
                (one, other) => one.or(other).expect("one of them is there"),
            };
            // What arrives at a step's end is seen by the next step.
            while let Some((_, job)) = arrivals.next_if(|(at, _)| *at == now) {
                engine.handle(now, Input::Submitted(job.clone()));
            }
            if wake == Some(now) {
                engine.handle(now, Input::Elapsed);
            }
            wake = loop {
                match engine.poll() {
                    Output::Tokens { id, generated: 1 } => {
                        let (at, _) = trace[id as usize];
                        first_tokens[id as usize] = now;
                        ttft.push(now.since(at).as_secs_f64());
                    }
                    Output::Finished(id) => {
                        let gaps = trace[id as usize].1.output - 1;
                        if gaps > 0 {
                            let decoding = now.since(first_tokens[id as usize]);
                            itl.push(decoding.as_millis_f64() / f64::from(gaps));
                        }
                        end = end.max(now);
                    }
                    Output::Sleep(wake) => break wake,
                    _ => {}
                }
            };
        }
        preemptions += engine.gauges().preemptions_total;
    }
    assert_eq!(ttft.len(), trace.len(), "a request was lost");
    ttft.sort_by(f64::total_cmp);
    Cell {
        ttft_p50: ttft[ttft.len().div_ceil(2) - 1],
        ttft_mean: ttft.iter().sum::<f64>() / ttft.len() as f64,
        itl: itl.iter().sum::<f64>() / itl.len() as f64,
        makespan: end.since(trace[0].0).as_secs_f64(),
        preemptions: preemptions as f64,
    }
}

fn simulated(preset: &Preset, traces: &[Vec<Request>]) -> [Cell; 3] {
    WORKERS.map(|workers| {
        let mut mean = Cell::default();
        for trace in traces {
            mean.add(&round_robin(preset, trace, workers), 1.0 / traces.len() as f64);
        }
        mean
    })
}

/// Each figure's relative error and the tolerance that issue 2 states for it, infinite where it
/// states none: away from saturation the makespan is the trace's own length and the luck of its
/// last answers.
fn errors(ours: &[Cell; 3], published: &[Cell; 3]) -> Vec<(f64, f64)> {
    let mut errors = Vec::new();
    for (nth, (ours, published)) in ours.iter().zip(published).enumerate() {
        let [ttft, itl, makespan] =
            if nth == 0 { [0.30, 0.25, 0.10] } else { [0.20, 0.20, f64::INFINITY] };
        errors.push((ours.ttft_p50 / published.ttft_p50 - 1.0, ttft));
        errors.push((ours.ttft_mean / published.ttft_mean - 1.0, ttft));
        errors.push((ours.itl / published.itl - 1.0, itl));
        errors.push((ours.makespan / published.makespan - 1.0, makespan));
    }
    errors
}

/// The errors in units of their tolerances, as an 8-norm: nearly the worst one, but with a slope
/// everywhere.
fn badness(errors: &[(f64, f64)]) -> f64 {
    errors.iter().map(|(error, tolerance)| (error / tolerance).powi(8)).sum::<f64>().powf(0.125)
}

/// A seeded random search: starts scattered over the plausible ranges, then steps around the best
/// of them that shrink while nothing is found.
fn search(
    start: Preset,
    traces: &[Vec<Request>],
    published: &[Cell; 3],
    rounds: u32,
    seed: u64,
) -> Preset {
    let mut rng = Rng::new(seed);
    let (mut best, mut width) = (start, 0.15_f64);
    let judge = |preset: &Preset| badness(&errors(&simulated(preset, traces), published));
    let mut least = judge(&best);
    for round in 0..rounds {
        let mut tried = best.clone();
        if round < rounds / 5 {
            let mut between = |low: f64, high: f64| low + (high - low) * rng.unit();
            tried.step_base_us = between(18_000.0, 30_000.0);
            tried.step_prefill_token_us = between(35.0, 85.0);
            tried.step_prefill_context_ns = between(1.0, 8.0);
            tried.step_decode_sequence_us = between(50.0, 800.0);
            tried.step_decode_context_ns = between(20.0, 120.0);
            tried.kv_tokens = between(110_000.0, 140_000.0) as u32;
        } else {
            let mut near = |value: f64| match rng.below(2) {
                0 => value,
                _ => value * (1.0 + width * (2.0 * rng.unit() - 1.0)),
            };
            tried.step_base_us = near(tried.step_base_us);
            tried.step_prefill_token_us = near(tried.step_prefill_token_us);
            tried.step_prefill_context_ns = near(tried.step_prefill_context_ns);
            tried.step_decode_sequence_us = near(tried.step_decode_sequence_us);
            tried.step_decode_context_ns = near(tried.step_decode_context_ns);
            let tokens = near(f64::from(tried.kv_tokens));
            tried.kv_tokens = tokens.clamp(110_000.0, 140_000.0) as u32;
        }
        let found = judge(&tried);
        if found < least {
            (best, least) = (tried, found);
            width = (width * 1.5).min(0.3);
        } else {
            width = (width * 0.985).max(0.004);
        }
    }
    best
}

fn table(ours: &[Cell; 3], published: &[Cell; 3]) -> String {
    let errors = errors(ours, published);
    let mut text = String::from(" N figure       published   engine    error  tolerance\n");
    for (nth, workers) in WORKERS.iter().enumerate() {
        let (ours, theirs) = (ours[nth], published[nth]);
        let figures = [
            ("TTFT p50 s", theirs.ttft_p50, ours.ttft_p50),
            ("TTFT mean s", theirs.ttft_mean, ours.ttft_mean),
            ("ITL mean ms", theirs.itl, ours.itl),
            ("makespan s", theirs.makespan, ours.makespan),
        ];
        for (figure, errors) in figures.iter().zip(&errors[4 * nth..]) {
            let ((name, theirs, ours), (error, tolerance)) = (figure, errors);
            let (error, tolerance) = (100.0 * error, 100.0 * tolerance);
            let _ = writeln!(
                text,
                "{workers:>2} {name:<12} {theirs:>9.3} {ours:>9.3} {error:>+7.1}% {tolerance:>8.0}%"
            );
        }
        let _ = writeln!(text, "{workers:>2} preemptions            {:>9.1}", ours.preemptions);
    }
    let _ = writeln!(text, "badness {:.3}", badness(&errors));
    text
}
