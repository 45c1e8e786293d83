//! Compares arms of live runs over everything that was offered, and judges each.
//!
//! | module | does |
//! |---|---|
//! | [`comparison`] | holds what came of it |

pub mod comparison;
mod number;

use crate::results::Results;

pub use comparison::Comparison;

/// One side of a comparison: an endpoint, a way of routing.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Its name in every table.
    pub label: String,
    /// Its runs. One run is cut into blocks by its schedule; several are a block each.
    pub runs: Vec<Block>,
}

/// A run of an arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The file or folder it came from.
    pub from: String,
    /// What it left behind.
    pub results: Results,
}

/// How a comparison is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The seed of every resample.
    pub seed: u64,
    /// How often blocks are drawn anew.
    pub resamples: u32,
    /// The confidence of intervals and verdicts. Lower what is left of it for repeated looks, see
    /// [`crate::stats::looks`].
    pub confidence: f64,
}

impl Default for Options {
    /// 2,000 resamples: the error of a 2.5 % tail is then about a third of a percent, less than
    /// what a few dozen blocks can tell.
    fn default() -> Self {
        Self { seed: 1, resamples: 2_000, confidence: 0.95 }
    }
}

/// Why arms cannot be compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CompareError {
    /// There is nothing to compare.
    #[error("no arm\nhint: name the results of one arm at least, the one under test last")]
    NoArm,
    /// An arm has no run.
    #[error("{0}: no results\nhint: name a folder that `forebay load` wrote, or a summary")]
    NoRun(String),
    /// Two arms have one name.
    #[error("two arms are called {0}\nhint: give each a name of its own with --label")]
    SameLabel(String),
    /// The buckets of a run do not add up to what it offered.
    #[error("{from}: {what}\nhint: the files of this run contradict one another; measure it again")]
    Unbalanced {
        /// The file or folder.
        from: String,
        /// What does not add up.
        what: String,
    },
}
