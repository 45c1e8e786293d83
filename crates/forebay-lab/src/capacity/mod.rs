//! Finds the highest rate at which a target meets its criteria.
//!
//! A rate is offered in runs of a fixed length, each begun with a stretch that counts nowhere, so
//! that queues and caches are as they are in the middle of a day. What runs look like steers, what
//! they show is the answer: see [`crate::stats::search`] for the order of rates, and `judge` for
//! what is shown. The confidence is that of each end of the interval.
//!
//! | module | does |
//! |---|---|
//! | `hunt` | says which rate comes next, and takes runs in |
//! | `judge` | judges rates by all runs that say something about them |
//! | `fault` | tells a broken target from a full one |
//! | `told` | says a capacity to a person and to a machine |

mod fault;
mod hunt;
mod judge;
#[cfg(test)]
mod tests;
mod told;

use serde::Serialize;

use crate::compare::comparison::Estimate;
use crate::stats::knee::Knee;
use crate::stats::search::Answer;

pub use fault::TargetFault;
pub use hunt::{Hunt, HuntError, Taken};
pub use told::{Growth, GrowthError, headroom, sentences, state, told};

/// A rate that was tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Trial {
    /// Requests a second that were offered.
    pub per_s: f64,
    /// The folders of its runs that count.
    pub runs: Vec<String>,
    /// The folders of its runs that may not be used, since the generator could not keep up.
    pub invalid_runs: Vec<String>,
    /// What they look like: `well`, `ill`, or `beyond_reach` of the generator.
    pub looks: &'static str,
    /// What is shown with confidence: `holds`, `fails`, or `open`.
    pub decided: &'static str,
    /// Why, in one sentence with figures.
    pub reason: String,
    /// Requests that were offered and count.
    pub offered: u64,
    /// Share of them that was served within the limits of the criteria.
    pub good_share: Estimate,
    /// Share of them that was served.
    pub completed_share: Estimate,
    /// Share of them that was refused.
    pub refused_share: Estimate,
    /// Requests a second that came while those that count were due: chance makes it a little more
    /// or less than `per_s`.
    pub offered_per_s: Option<f64>,
    /// Requests a second that were completed meanwhile, whenever they were due.
    pub completed_per_s: Option<f64>,
    /// The median TTFT over all offered in milliseconds.
    pub ttft_ms_p50: Estimate,
    /// Nine in ten of all offered have their first token within this.
    pub ttft_ms_p90: Estimate,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// There was nothing more to try.
    Searched,
    /// Somebody stopped it.
    Interrupted,
    /// It could not go on, for this reason.
    Failed(String),
}

/// What a search came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// The rate and its interval.
    pub answer: Answer,
    /// How sure each end of the interval is.
    pub confidence: f64,
    /// Where what is completed stops growing with what is offered; `None` where it does not.
    pub knee: Option<Knee>,
    /// Every rate that was tried, rising.
    pub trials: Vec<Trial>,
    /// The criteria, one line each.
    pub criteria: String,
    /// Their SHA-256.
    pub criteria_sha256: String,
    /// How the search ended.
    pub ended: Ended,
}

impl Capacity {
    /// 0 where a rate was shown to hold and a higher one to fail, as close as runs of this length
    /// tell them apart, 1 where not even the lowest rate holds, 2 where it could not go on, 3 where
    /// too little is known.
    pub fn exit_code(&self) -> u8 {
        let nothing_holds = self.answer.looks_low <= 0.0 && self.answer.high.is_finite();
        match &self.ended {
            Ended::Failed(_) => 2,
            Ended::Searched if self.answer.is_settled => 0,
            Ended::Searched if nothing_holds => 1,
            _ => 3,
        }
    }
}
