//! Holds the results of a tool that left only figures, and no request.

use std::collections::BTreeMap;

use super::{About, Outcome};

/// A run of which only figures are known, as another tool printed them: over completed requests
/// only. What they cannot tell over all offered stays unknown, and is never made up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// What the run was.
    pub about: About,
    /// Requests by how they ended; what was offered is their sum.
    pub counts: BTreeMap<Outcome, u64>,
    /// Time to first token over completed requests.
    pub ttft_ms: Option<Spread>,
    /// Mean time between the tokens of each completed request.
    pub itl_ms: Option<Spread>,
    /// Time to the last token over completed requests.
    pub e2e_ms: Option<Spread>,
    /// How long the run was, in seconds.
    pub duration_s: Option<f64>,
    /// Tokens of all prompts that were completed.
    pub prompt_tokens: Option<u64>,
    /// Tokens of all answers.
    pub output_tokens: Option<u64>,
}

/// A distribution as a summary has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    /// How many values it is of.
    pub count: u64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The standard deviation, where it is said.
    pub std: Option<f64>,
    /// The smallest and the largest value, where they are said.
    pub range: Option<(f64, f64)>,
    /// Values by percentile (1 to 99), those that are said.
    pub percentiles: BTreeMap<u8, f64>,
}

impl Figures {
    /// All requests of the run.
    pub fn offered(&self) -> u64 {
        self.counts.values().sum()
    }
}
