//! Carries the traffic.
#![allow(dead_code)]
mod clock;
mod listen;
mod pool;
