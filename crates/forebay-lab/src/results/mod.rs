//! Holds what a run against a live endpoint left behind, ours or another tool's.
//!
//! | file | says |
//! |---|---|
//! | [`Row`], [`Attempt`] | what became of each request that was offered |
//! | [`About`] | what the run was, and whether its figures may be used |
//! | [`Figures`] | the same for a tool that left only figures |
//! | [`Results`] | either of them |
//! | [`RunFolder`] | writes the folder of a run |
//! | [`open`] | reads a run, ours or another tool's |
//! | [`Summary`] | what its rows sum up to |

mod about;
mod check;
mod counters;
mod error;
mod export;
mod figures;
mod folder;
mod gather;
mod micros;
mod plan;
mod quantiles;
mod read;
mod row;
mod summary;

pub use about::{About, Generator, Invalid, SCHEMA};
pub use error::ResultsError;
pub use figures::{Figures, Spread};
pub use folder::{
    AIPERF_ROWS_FILE, AIPERF_SUMMARY_FILE, FolderOptions, ROWS_FILE, ROWS_MAX, RunFolder,
    SUMMARY_FILE,
};
pub use gather::{GROUPS_MAX, OTHERS};
pub use quantiles::Quantiles;
pub use read::{DOCUMENT_BYTES_MAX, files, open};
pub use row::{Attempt, Fault, Outcome, Row, STOPPED, Usage};
pub use summary::{CompletedOnly, Conservation, Counts, Group, RetryAfter, Summary, TokenFigures};

/// A run with every request that it offered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// What it was.
    pub about: About,
    /// Every request of its plan, in the order of the plan, those that warmed up included.
    pub rows: Vec<Row>,
}

/// What is known of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Results {
    /// Every request.
    Run(Box<Run>),
    /// Figures only.
    Figures(Box<Figures>),
}

impl Results {
    /// What the run was.
    pub const fn about(&self) -> &About {
        match self {
            Self::Run(run) => &run.about,
            Self::Figures(figures) => &figures.about,
        }
    }
}

#[cfg(test)]
mod tests;
