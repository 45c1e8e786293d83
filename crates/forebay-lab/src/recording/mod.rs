//! Records what one core was told and what it said, decides it again, and explains single
//! decisions.
//!
//! | module | answers |
//! |---|---|
//! | `recorder` | how does a run become a file, without ever failing in its midst? |
//! | `replay` | does today's core decide as the recorded one did? |
//! | `explain` | why did one request go where it went? |
//!
//! A recording that replays differently shows a changed core, never a changed machine: the core has
//! no clock and draws only from the recorded seed.

mod explain;
mod opened;
mod recorder;
mod replay;
mod tap;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;

use forebay_core::{Moment, Span};

pub use explain::explain;
pub use forebay_service::Start;
pub(crate) use opened::{Event, Opened};
pub use recorder::{RECORDING_BYTES_MAX, Recorder};
pub use replay::{Difference, ReplayReport, replay};
pub use tap::RecordingTap;

/// A time in seconds with three decimals, however long it is: whoever follows a request compares
/// moments of hours that differ by milliseconds.
#[derive(Clone, Copy, Debug)]
struct Seconds(Span);

impl Seconds {
    /// From the start of the run.
    fn of(at: Moment) -> Self {
        Self(at.since(Moment::START))
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s", self.0.as_secs_f64())
    }
}

/// What is wrong with a recording, or with the file it should become: where, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}\nhint: {remedy}", file.display())]
pub struct RecordingFault {
    /// The file.
    pub file: PathBuf,
    /// What is wrong, with the record where one is at fault.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}
