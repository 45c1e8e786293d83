//! Runs a fleet of engine models under one core, in virtual time.
//!
//! A [`Plan`] says everything that a run needs, [`run`] makes it, and a [`RunRecord`] is what it leaves behind:
//! one small record for each logical request. Same plan, same record, byte for byte.

mod agenda;
mod books;
mod client;
mod plan;
mod pool;
mod record;
mod sessions;
mod source;
mod tap;
mod timeline;
mod world;

pub use client::{
    Client, NAIVE_ATTEMPTS_MAX, OBEDIENT_ATTEMPTS_MAX, SDK_ATTEMPTS_MAX, UnknownClient,
};
pub use plan::{Happening, Patience, Plan, Scripted, SimulateError, Who};
pub use record::{Fate, Promises, RequestRecord, RunRecord, TimelinePoint};
pub use tap::{NoTap, Tap};
pub use world::{run, run_tapped};
