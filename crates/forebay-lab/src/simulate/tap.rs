//! Lets a recorder listen to every core of a run.

use forebay_core::{Input, Moment, Output, PoolId, Settings};

/// Hears all that the cores of a run are told and say, in order. A replay needs nothing else.
pub trait Tap {
    /// A pool's core is made with these settings and this seed.
    fn begins(&mut self, _pool: PoolId, _settings: &Settings, _seed: u64) {}
    /// A core is about to take an input.
    fn told(&mut self, _pool: PoolId, _now: Moment, _input: &Input) {}
    /// A core asked for something.
    fn said(&mut self, _pool: PoolId, _now: Moment, _output: &Output) {}
}

/// Listens to nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoTap;

impl Tap for NoTap {}
