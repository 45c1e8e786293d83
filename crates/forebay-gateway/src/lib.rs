//! Carries the traffic: takes requests, holds each until a worker has room for it, and passes the
//! answers on.

mod clock;
pub mod config;
mod gateway;
mod listen;
mod observe;
mod pool;
mod refuse;
mod request;
mod rules;
mod serve;
mod tickets;
mod workers;

pub use serve::{Running, ServeError, serve, start};
