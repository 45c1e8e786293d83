//! Runs a fleet of engine models under one core, in virtual time.
//!
//! A [`Plan`] says everything that a run needs, [`run`] makes it, and a [`RunRecord`] is what it
//! leaves behind: one small record for each logical request. Same plan, same record, byte for byte.

mod agenda;
mod books;
mod client;
mod figures;
mod plan;
mod pool;
mod record;
mod rows;
pub(crate) mod sessions;
mod source;
mod summary;
mod table;
mod tap;
#[cfg(test)]
mod tests;
mod timeline;
mod world;

pub use forebay_core::{Knowledge, Mode, Tokens};

pub(crate) use client::Heard;
pub use client::{
    Client, NAIVE_ATTEMPTS_MAX, OBEDIENT_ATTEMPTS_MAX, SDK_ATTEMPTS_MAX, UnknownClient,
};
pub use figures::{Fixed, Latency, Millis, Ratio};
pub use plan::{Happening, Patience, Plan, RUN_MAX, SCALES, Scripted, SimulateError, Who, fleet};
pub(crate) use plan::{check_scale, check_workers};
pub use record::{Fate, Promises, RequestRecord, RunRecord, TimelinePoint};
pub use rows::write_rows;
pub use summary::{CompletedOnly, Group, PromiseFigures, Summary, Thresholds};
pub use table::table;
pub use tap::{NoTap, Tap};
pub use world::{run, run_tapped};
