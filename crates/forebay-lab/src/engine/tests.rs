//! Claims about the scheduler, one rule a test.

mod captured;
mod naive;
mod rules;
mod scripts;

use std::sync::Arc;

use forebay_core::{BlockHash, Moment, Span};

use super::{Engine, Input, Job, Output, Preset};

/// Blocks of 4 tokens, 16 of them; a step of 1,000 ns and 10 ns a prompt token.
fn small_preset() -> Preset {
    Preset {
        name: "small".to_owned(),
        source: "a test".to_owned(),
        error: "none".to_owned(),
        block_size: 4,
        kv_tokens: 64,
        batch_tokens_max: 16,
        seqs_max: 8,
        queued_requests_max: None,
        step_base_us: 1.0,
        step_prefill_token_us: 0.01,
        step_prefill_context_ns: 0.0,
        step_decode_sequence_us: 0.0,
        step_decode_context_ns: 0.0,
    }
}

/// A job whose prompt's blocks hash to `family`, counted up, so that two of one family share all
/// they can.
fn job(id: u64, prompt: u32, output: u32, family: u64) -> Job {
    let blocks = (0..u64::from(prompt / 4)).map(|nth| BlockHash(family * 1_000 + nth)).collect();
    Job { id, prompt, output, blocks }
}

/// An engine and the time.
struct Bench {
    engine: Engine,
    now: Moment,
    wake: Option<Moment>,
}

impl Bench {
    fn new(preset: &Preset) -> Self {
        Self { engine: Engine::new(preset), now: Moment::START, wake: None }
    }

    fn tell(&mut self, input: Input) -> Vec<Output> {
        self.engine.handle(self.now, input);
        let mut said = Vec::new();
        loop {
            match self.engine.poll() {
                Output::Sleep(wake) => {
                    self.wake = wake;
                    self.engine.assert_consistent();
                    return said;
                }
                output => said.push(output),
            }
        }
    }

    fn submit(&mut self, job: Job) -> Vec<Output> {
        self.tell(Input::Submitted(job))
    }

    /// Waits for the end of the step.
    #[track_caller]
    fn step(&mut self) -> Vec<Output> {
        self.now = self.wake.expect("a step runs");
        self.tell(Input::Elapsed)
    }

    /// Steps until nothing is left to do.
    fn rest(&mut self) -> Vec<Output> {
        let mut said = Vec::new();
        while self.wake.is_some() {
            said.extend(self.step());
        }
        said
    }

    fn blocks_used(&self) -> u32 {
        let blocks = f64::from(self.engine.blocks_in_all());
        (self.engine.gauges().kv_used * blocks).round() as u32
    }
}

fn stored(hashes: &[u64]) -> Output {
    Output::Stored(hashes.iter().map(|&hash| BlockHash(hash)).collect::<Arc<[_]>>())
}

fn removed(hashes: &[u64]) -> Output {
    Output::Removed(hashes.iter().map(|&hash| BlockHash(hash)).collect::<Arc<[_]>>())
}

fn tokens(id: u64, generated: u32) -> Output {
    Output::Tokens { id, generated }
}

fn admitted(id: u64, cached: u32) -> Output {
    Output::Admitted { id, cached }
}

/// The step's own length, for a step that computes that many prompt tokens.
fn step_of(prefill: u64) -> Span {
    Span(1_000 + 10 * prefill)
}
