//! Measures latencies at one rate for all.

use anyhow::ensure;
use forebay_core::Span;
use forebay_lab::load::{self, Planned, Record, Settings};

use super::PATH;
use super::bodies::{KINDS, of_kind};

/// Requests a second: below what the slowest router serves of the largest body on one core.
const RATE: u64 = 150;
/// Requests of each kind, the first of them not counted.
const REQUESTS: u64 = 1_000;
/// Requests that open connections and warm caches.
const WARM: u64 = 100;

/// Latencies of one kind of body, in milliseconds, from when a request was sent to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latencies {
    /// The median.
    pub(super) p50: f64,
    /// Ninety-nine in a hundred are at most this.
    pub(super) p99: f64,
}

/// Latencies of all kinds.
pub(super) fn measure(port: u16) -> anyhow::Result<Vec<Latencies>> {
    (0..KINDS.len()).map(|kind| of(port, kind)).collect()
}

/// The client's own lag is left out: it is the same for all, and larger than what is measured.
fn of(port: u16, kind: usize) -> anyhow::Result<Latencies> {
    let bodies = of_kind(kind);
    let plan = (0..REQUESTS).map(|nth| Planned {
        at: Span(nth * 1_000_000_000 / RATE),
        body: bodies[nth as usize % bodies.len()].clone().into(),
        ..Planned::default()
    });
    let target = format!("http://127.0.0.1:{port}{PATH}").parse()?;
    let settings = Settings::for_targets(vec![target]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut took = Vec::new();
    let mut unserved: Option<Record> = None;
    runtime.block_on(load::run(plan, &settings, |record| {
        match record.sent.filter(|_| record.ttft().is_some()) {
            Some(sent) if record.nth >= WARM => took.push(record.end.0.saturating_sub(sent.0)),
            Some(_) => {}
            None => unserved = Some(record),
        }
    }));
    ensure!(unserved.is_none(), "{} was not served: {unserved:?}", KINDS[kind]);
    took.sort_unstable();
    let rank = |percent: usize| took[(took.len() * percent).div_ceil(100) - 1] as f64 / 1e6;
    Ok(Latencies { p50: rank(50), p99: rank(99) })
}
