//! Carries the traffic: takes requests, holds each until a worker has room for it, and passes the
//! answers on.

mod admin;
mod check;
mod clock;
pub mod config;
#[cfg(test)]
mod fixture;
mod gateway;
mod listen;
mod models;
mod observe;
mod otel;
mod pool;
mod record;
mod refuse;
mod reload;
mod request;
mod rules;
mod serve;
mod tickets;
mod workers;

pub use check::check;
pub use observe::catalogue::{Kind as MetricKind, METRICS, Metric};
pub use serve::{Running, ServeError, serve, start};
