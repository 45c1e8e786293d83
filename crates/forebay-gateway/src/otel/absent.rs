//! Stands in for tracing in a build without it: nothing is kept, and nothing is done.

#![expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "the forms are those of a build that traces"
)]

use std::sync::Arc;
use std::time::Duration;

use forebay_core::PoolId;
use http::HeaderMap;
use http::request::Parts;

use super::{SpanCounts, TracerError};
use crate::clock::Clock;
use crate::config::Config;
use crate::request::Record;

/// Nothing of a request's trace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trace(());

/// Nothing that a worker is told.
#[derive(Debug)]
pub(crate) struct Sent;

/// What there is none of.
#[derive(Debug)]
pub(crate) enum Tracer {}

/// None.
pub(crate) fn tracer(_: &Config, _: Clock) -> Result<Option<Tracer>, TracerError> {
    Ok(None)
}

impl Trace {
    pub(crate) fn begin(_: Option<&Tracer>, _: &Parts) -> Self {
        Self(())
    }
    pub(crate) fn asks_for(&mut self, _: Option<&str>) {}
    pub(crate) fn queued(&mut self, _: &Clock, _: PoolId) {}
    pub(crate) fn sent(&mut self, _: &Clock, _: &Arc<str>) -> Sent {
        Sent
    }
    pub(crate) fn left(&mut self, _: &Clock, _: &'static str) {}
}

impl Sent {
    pub(crate) fn mark(&self, _: &mut HeaderMap) {}
}

impl Tracer {
    pub(crate) fn note(&self, _: &Record, _: [Option<Arc<str>>; 2]) {
        match *self {}
    }
    pub(crate) fn counts(&self) -> SpanCounts {
        match *self {}
    }
    pub(crate) fn close(&self, _: Duration) {
        match *self {}
    }
}
