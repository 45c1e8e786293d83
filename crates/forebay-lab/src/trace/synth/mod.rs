//! Makes traces from a short description: kinds of prompts, sessions, bursts, classes and tenants.
//!
//! A description is a TOML file; those shipped lie in this crate's folder `synth` and are known by
//! name. Arrivals come at `arrivals.per_s`, evenly at random or in bursts, and each is of one
//! *kind*: a prefix that the kind's prompts share, a suffix of their own, and an answer.
//! Conversations go on in one of two ways: a share of the arrivals `continues` a recent one,
//! whenever the next arrival is due (an open loop, as logs of whole services look), or each arrival
//! is a session whose further `turns` come a delay after the answer before.
//!
//! Draws use only arithmetic that is exact on every machine, so a seed means the same trace
//! everywhere.

mod description;
mod document;
mod generate;
mod length;

pub use description::{Description, DescriptionError, RECENT_MAX, WINDOW_ARRIVALS_MAX};
pub use length::Length;
pub(crate) use length::{Deck, exponential};

#[cfg(test)]
mod tests;
