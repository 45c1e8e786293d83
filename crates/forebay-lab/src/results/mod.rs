//! Holds what a run against a live endpoint left behind, ours or another tool's.
//!
//! | file | says |
//! |---|---|
//! | [`Row`], [`Attempt`] | what became of each request that was offered |
//! | [`About`] | what the run was, and whether its figures may be used |
//! | [`Figures`] | the same for a tool that left only figures |
//! | [`Results`] | either of them |

mod about;
mod figures;
mod micros;
mod row;

pub use about::{About, Generator, Invalid, SCHEMA};
pub use figures::{Figures, Spread};
pub use row::{Attempt, Fault, Outcome, Row, Usage};

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
