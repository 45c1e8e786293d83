//! Holds what a comparison came to: what a person, a report and a machine read.
//!
//! In JSON a figure is a number, `"infinite"` for what a request that was never served makes of it,
//! or `null` where there is none. Latencies are milliseconds, shares 0 to 1.

use std::collections::BTreeMap;

use serde::Serialize;

use super::number;
use crate::drill::verdict::Outcome;

/// The version of the JSON of a comparison; a field is only ever added.
pub const SCHEMA: &str = "forebay.comparison/1";

/// How the JSON of any comparison begins, of whatever version.
pub const BEGINS: &str = "{\n  \"schema\": \"forebay.comparison/";

/// Arms beside one another. The first is the baseline, the last is under test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The seed of every resample.
    pub seed: u64,
    /// How often blocks were drawn anew.
    pub resamples: u32,
    /// The confidence of every interval, such as 0.95.
    pub confidence: f64,
    /// The criteria, one line each, as [`crate::drill::criteria::Criteria::canonical`] has them.
    pub criteria: String,
    /// Their SHA-256.
    pub criteria_sha256: String,
    /// Each arm.
    pub arms: Vec<ArmFigures>,
    /// Each arm after the first against the first.
    pub differences: Vec<Difference>,
    /// What to take home, a sentence each: the most important first.
    pub summary: Vec<String>,
    /// What a reader must keep in mind, a sentence each.
    pub notes: Vec<String>,
}

/// What one arm came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArmFigures {
    /// Its name.
    pub label: String,
    /// Every run that was given, those that may not be used included.
    pub runs: Vec<RunSeen>,
    /// What intervals take for one independent piece.
    pub blocks: Blocks,
    /// Only figures of other tools are known, and no request: much is known within bounds only.
    pub is_figures_only: bool,
    /// Over all requests.
    pub all: Group,
    /// By class, where requests have one.
    pub classes: BTreeMap<String, Group>,
    /// By tenant, where requests have one.
    pub tenants: BTreeMap<String, Buckets>,
    /// Who was not served; `None` without requests.
    pub who: Option<Who>,
    /// What was spent for nothing; `None` without requests.
    pub wasted: Option<Wasted>,
    /// How long it took to be well again after the most was offered; `None` without requests.
    pub recovery: Option<Recovery>,
    /// Attempts for each request: what retrying clients add to the load.
    #[serde(serialize_with = "number::serialize")]
    pub amplification: Option<f64>,
    /// Completed requests a second, from the first due to the last end.
    pub completed_per_s: Estimate,
    /// From the first request due to the last end in seconds: the mean over the runs.
    #[serde(serialize_with = "number::serialize")]
    pub makespan_s: Option<f64>,
    /// How each criterion fared.
    pub findings: Vec<Finding>,
    /// GO, NO-GO or INCONCLUSIVE.
    pub outcome: Word,
    /// Why, in one sentence with figures.
    pub reason: String,
}

/// A verdict as JSON has it: `GO`, `NO-GO`, `INCONCLUSIVE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub Outcome);

impl Serialize for Word {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.name())
    }
}

/// A run that was given.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSeen {
    /// The file or folder.
    pub from: String,
    /// The program that measured.
    pub tool: String,
    /// What was offered, in words.
    pub workload: String,
    /// The hash of its plan.
    pub plan: Option<String>,
    /// Requests offered, without those that warmed up, and those that the stop of the run ended.
    pub offered: u64,
    /// Requests of the plan that were not sent or not over when the run was stopped: they count
    /// nowhere.
    pub stopped: u64,
    /// Arrivals waited for answers: queueing is hidden.
    pub is_closed_loop: bool,
    /// Why no figure counts it; empty for a run that is valid.
    pub invalid: Vec<String>,
}

/// What intervals are made of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Blocks {
    /// How many.
    pub count: usize,
    /// One run was cut into them by its schedule: they say nothing of the spread between runs.
    pub is_cut: bool,
    /// Requests in one, at most.
    pub requests_max: u64,
    /// Correlation of a block's share of unserved, or of its TTFT, with the next one's, whichever
    /// is larger; `None` for blocks that are runs.
    pub autocorrelation: Option<f64>,
}

/// Every request that was offered, by how it ended: each is in one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Buckets {
    /// All of them: the sum of the rest.
    pub offered: u64,
    /// Completed within the limits that make a request good. `None` where only figures are known
    /// and there are limits: then nobody can tell good from slow.
    pub good: Option<u64>,
    /// Completed beyond them.
    pub slow: Option<u64>,
    /// Good and slow together.
    pub completed: u64,
    /// Refused for want of room.
    pub refused: u64,
    /// Not served for another reason.
    pub failed: u64,
    /// Not over within the client's patience.
    pub timed_out: u64,
    /// Left by the client.
    pub cancelled: u64,
    /// Of those, the ones whose client left as planned after the first token had come: they are in
    /// no share of the completed or the good, and only in the time to first token.
    pub left: u64,
    /// Never sent.
    pub not_sent: u64,
}

/// What some requests of an arm met.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// How they ended.
    pub buckets: Buckets,
    /// Share that was good.
    pub good_share: Estimate,
    /// Share that was completed.
    pub completed_share: Estimate,
    /// Share that was refused.
    pub refused_share: Estimate,
    /// How many times more the refused share varies between blocks than independent refusals
    /// would; `None` where none was refused.
    pub design_effect: Option<f64>,
    /// Latencies, in the order TTFT, ITL, whole latency.
    pub latencies: Vec<LatencyFigures>,
}

/// A figure with its interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// The figure; `None` where it is undefined or only bounds are known.
    #[serde(serialize_with = "number::serialize")]
    pub value: Option<f64>,
    /// The lower end of its interval, or its lower bound.
    #[serde(serialize_with = "number::serialize")]
    pub low: Option<f64>,
    /// The upper end.
    #[serde(serialize_with = "number::serialize")]
    pub high: Option<f64>,
    /// `low` and `high` are what is known of the figure itself, and no interval around it.
    pub is_bounded_only: bool,
    /// The figure as a person reads it: `12.1 s`, `undefined: 14 % refused`, `2.61 s to 5.37 s`.
    pub said: String,
}

/// One latency of a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyFigures {
    /// `ttft_ms`, `itl_ms` or `e2e_ms`.
    pub metric: &'static str,
    /// Quantiles over all that were offered, the unserved infinitely late.
    pub offered: Quantiles,
    /// The same over the completed: survivors only, never to be compared between arms that serve
    /// different requests.
    pub survivors: Quantiles,
    /// The mean over the survivors.
    pub survivors_mean: Estimate,
}

/// Quantiles of a distribution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// The median.
    pub p50: Estimate,
    /// Nine in ten are at most this.
    pub p90: Estimate,
    /// Ninety-nine in a hundred are at most this.
    pub p99: Estimate,
}

/// Who was not served.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Who {
    /// Jain's index over the tenants' completed shares: 1 is alike, 1/n is one tenant only. `None`
    /// with fewer than two tenants.
    pub jain_tenants: Option<f64>,
    /// Shares by tenant, class, quarter of prompt length, and turn, in that order.
    pub by: Vec<Part>,
}

/// One part of the requests, such as one tenant's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// `tenant`, `class`, `prompt_tokens` or `turn`.
    pub kind: &'static str,
    /// Which: a name, a range of tokens, a turn.
    pub name: String,
    /// How its requests ended.
    pub buckets: Buckets,
    /// Its share of refused.
    pub refused_share: f64,
    /// Its share of completed.
    pub completed_share: f64,
}

/// What was spent for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Wasted {
    /// Attempts that were refused, also those of requests that were served later.
    pub refused_attempts: u64,
    /// Requests that were refused after they had waited a second or more.
    pub refused_after_waiting: u64,
    /// Prompt tokens of requests that were sent and not completed.
    pub prompt_tokens: u64,
    /// Tokens that were generated for requests that were not completed.
    pub output_tokens: u64,
    /// Those as a share of all that were generated.
    pub output_share: f64,
    /// Seconds that clients waited for attempts that were not completed.
    pub waited_s: f64,
}

/// How an arm came back after the most was offered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recovery {
    /// When the busiest stretch ended, in seconds from the start.
    pub overload_end_s: f64,
    /// Requests a second that were offered in it.
    pub peak_rate: f64,
    /// From then until it was well again, in seconds; infinite where it never was in the run.
    #[serde(serialize_with = "number::serialize")]
    pub after_s: Option<f64>,
    /// The same in words.
    pub said: String,
}

/// How a criterion fared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The criterion as a person reads it: `refused ≤ 1 %`.
    pub criterion: String,
    /// The limit is the least that passes, and not the most.
    pub is_least: bool,
    /// What was seen. Its ends are the bounds that decided, each with the error that a verdict may
    /// make on that side, and none where the criterion is about these runs only.
    pub seen: Estimate,
    /// The share of requests that decides it, where one does: a quantile holds when few enough
    /// requests are beyond the limit.
    pub share: Estimate,
    /// `holds`, `fails`, or `open`: with the confidence of the comparison.
    pub state: &'static str,
    /// As many more blocks like these would probably decide it; `None` where it is decided, or
    /// where no number would.
    pub blocks_more: Option<u64>,
    /// The same as requests.
    pub requests_more: Option<u64>,
    /// The same as seconds of runs like these, where it is known how long they took.
    pub seconds_more: Option<f64>,
}

/// One arm against the baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The arm's label.
    pub arm: String,
    /// The baseline's label.
    pub baseline: String,
    /// Block by block, since both offered the same plan.
    pub is_paired: bool,
    /// Blocks of each side, or pairs.
    pub blocks: (usize, usize),
    /// The share of good requests: the one difference that is tested by itself.
    pub primary: Contrast,
    /// All others, tested together.
    pub secondary: Vec<Contrast>,
    /// Latency that is better over survivors and not over all that were offered, a sentence each.
    pub survivorship: Vec<String>,
    /// What it comes to in a sentence.
    pub sentence: String,
}

/// One figure of two arms.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contrast {
    /// `good_share`, `ttft_ms_p50`, …
    pub metric: String,
    /// The same in words.
    pub title: String,
    /// `share`, `ms`, `per_s` or `s`.
    pub unit: &'static str,
    /// The baseline's.
    pub baseline: Estimate,
    /// The arm's.
    pub arm: Estimate,
    /// The arm's less the baseline's, with its interval.
    pub difference: Estimate,
    /// The probability that the arm is better, going by the resamples; a tie is half.
    pub p_better: Option<f64>,
    /// The p-value of no difference, two-sided.
    pub p_value: Option<f64>,
    /// The same after Holm, for secondary ones.
    pub p_holm: Option<f64>,
    /// The two differ, with the confidence of the comparison.
    pub differs: bool,
    /// Whether the arm is the better one, where they differ.
    pub is_better: Option<bool>,
    /// Hodges and Lehmann's shift of the arm against the baseline over blocks, with its interval.
    pub shift: Option<Estimate>,
}

impl Comparison {
    /// Everything as one object, indented, with a line end.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a comparison is always JSON") + "\n"
    }

    /// The verdict on the last arm, the one under test.
    pub fn outcome(&self) -> Outcome {
        self.arms.last().map_or(Outcome::Inconclusive, |arm| arm.outcome.0)
    }

    /// The exit code: that of the arm under test.
    pub fn exit_code(&self) -> u8 {
        self.outcome().exit_code()
    }
}
