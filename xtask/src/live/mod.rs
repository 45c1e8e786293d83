//! Measures live routers and engines: what neither a simulation nor a unit test can show.
//!
//! Real engines and the routers of others are no part of the repository. Scripts beside it install
//! and start them; where those are missing, so is the measurement, and the command says so.

pub(crate) mod agree;
mod arms;
mod ask;
pub(crate) mod engines;
pub(crate) mod generator;
pub(crate) mod idle;
pub(crate) mod lag;
pub(crate) mod overhead;
mod page;
mod places;
mod process;
pub(crate) mod same;
