//! Reads and writes bytes: recordings of a core's inputs, request bodies, streams of tokens,
//! engines' metrics, and files of other tools.
//!
//! Knows nothing of decisions, does no I/O of its own beyond the readers and writers it is given,
//! never fails on unknown fields and never panics on any bytes.

pub mod answer;
pub mod blocks;
pub mod engine_metrics;
mod json;
pub mod openai;
pub mod recording;
pub mod sse;
pub mod unasked;
