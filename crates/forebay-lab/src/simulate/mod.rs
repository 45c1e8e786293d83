//! Runs a fleet of engine models under one core, in virtual time.

mod record;

pub use record::{Fate, Promises, RequestRecord, RunRecord, TimelinePoint};
