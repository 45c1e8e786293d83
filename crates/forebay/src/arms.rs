//! Takes results and what they are held to: the same words for every command that compares.

use std::path::PathBuf;

use anyhow::ensure;
use forebay_lab::compare::Given;

use crate::talk::say;

/// What is compared, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Arms {
    /// Results of an arm; the first is the baseline, the last is under test
    ///
    /// A folder that `forebay load` wrote, results of AIPerf, guidellm or vllm bench serve, a
    /// folder of `block-*`, or paths with commas between them, a block each. NAME=PATH names the
    /// arm. A cell of a live drill, such as drill/n2-load1, is all of its arms.
    #[arg(value_name = "[NAME=]RESULTS", required = true)]
    pub(crate) results: Vec<String>,
    /// Name of an arm, in their order; repeat it
    #[arg(long = "label", value_name = "NAME")]
    pub(crate) labels: Vec<String>,
    /// What arms are held to: TOML, `OpenSLO` or Sloth [default: served, TTFT]
    #[arg(long, value_name = "FILE")]
    pub(crate) criteria: Option<PathBuf>,
    /// Seed of every resample
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How often blocks are drawn anew
    #[arg(long, value_name = "COUNT", default_value_t = 2000)]
    #[arg(value_parser = clap::value_parser!(u32).range(200..=100_000))]
    pub(crate) resamples: u32,
}

impl Arms {
    /// Reads the results.
    pub(crate) fn read(&self) -> anyhow::Result<Given> {
        let (labels, results) = (self.labels.len(), self.results.len());
        ensure!(
            labels <= results,
            "{labels} labels for {results} results\nhint: give one --label for each result, in \
             their order"
        );
        let given = Given::read(&self.results, &self.labels)?;
        given.notes.iter().for_each(|note| say(&format!("note: {note}")));
        Ok(given)
    }

    /// The words that repeat it, with every default that decides the figures spelled out.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = self.results.clone();
        let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        self.labels.iter().for_each(|label| option("label", label.clone()));
        if let Some(file) = &self.criteria {
            option("criteria", file.display().to_string());
        }
        option("seed", self.seed.to_string());
        option("resamples", self.resamples.to_string());
        words
    }
}
