//! Tells a collector of OpenTelemetry what became of each request, as spans.
//!
//! | module | answers |
//! |---|---|
//! | `context` | which trace does a request belong to, and what is its worker told of that? |
//! | `trace` | what is known of a request's trace while it runs? |
//! | `spans` | which spans are made of a request that is over, and what do they say? |
//! | `protobuf` | how are they written? |
//! | `export` | how do they reach the collector, and what if they don't? |
//! | `absent` | what is left of all this in a build without the feature `otel`? Nothing |
//!
//! The spans of a request are made at its end from its [`Record`](crate::request::Record), on a
//! thread of their own: on its way only a few moments and names are noted. What the thread can't
//! send is dropped and counted; no request waits for it.
//!
//! No crate is used for this. What is written is a handful of messages of a protocol that is
//! stable, in one direction: `opentelemetry-proto` would bring 19 crates, and `opentelemetry-otlp`
//! an HTTP client of its own besides. How HTTP and TLS are spoken is what workers are reached by.

#[cfg(not(feature = "otel"))]
mod absent;
#[cfg(feature = "otel")]
mod context;
#[cfg(feature = "otel")]
mod export;
#[cfg(feature = "otel")]
mod protobuf;
#[cfg(feature = "otel")]
mod spans;
#[cfg(feature = "otel")]
mod trace;

#[cfg(not(feature = "otel"))]
pub(crate) use absent::{Sent, Trace, Tracer, tracer};
#[cfg(feature = "otel")]
pub(crate) use {
    export::{Tracer, tracer},
    trace::{Sent, Trace},
};

/// Why requests can't be traced as configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TracerError {
    /// TLS to the collector can't be spoken.
    #[error(transparent)]
    Tls(#[from] crate::workers::connect::WorkerTlsError),
    /// The system refuses a thread, a runtime or random bytes.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// Spans that were sent, and those that were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpanCounts {
    /// A collector has taken these.
    pub(crate) exported: u64,
    /// These came while as many waited as may.
    pub(crate) queue_full: u64,
    /// The collector could not be reached, or did not take these.
    pub(crate) export_failed: u64,
}
