//! Measures latencies at one rate for all.

use std::future::pending;

use anyhow::ensure;
use forebay_core::Span;
use forebay_lab::load::{self, Planned, Settings};
use forebay_lab::results::Row;

use super::PATH;
use super::bodies::{KINDS, of_kind};

/// Requests a second: below what the slowest router serves of the largest body on one core.
const RATE: u64 = 150;
/// Requests of each kind in a round.
const REQUESTS: u64 = 400;
/// The first of them, which open connections and warm caches, are not counted.
const WARM: u64 = 40;
/// Rounds in which all take turns. The median of them counts: what disturbs the machine for a few
/// seconds falls on one round of one.
const ROUNDS: usize = 3;

/// Latencies of one kind of body, in milliseconds, from when a request was sent to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latencies {
    /// The median.
    pub(super) p50: f64,
    /// Ninety-nine in a hundred are at most this.
    pub(super) p99: f64,
}

/// Latencies of all kinds, for what listens on each of these ports.
pub(super) fn measure(ports: &[u16]) -> anyhow::Result<Vec<Vec<Latencies>>> {
    let mut rounds = vec![vec![Vec::new(); KINDS.len()]; ports.len()];
    for _ in 0..ROUNDS {
        for kind in 0..KINDS.len() {
            for (port, rounds) in ports.iter().zip(&mut rounds) {
                rounds[kind].push(of(*port, kind)?);
            }
        }
    }
    let of_port = |kinds: &Vec<Vec<Latencies>>| kinds.iter().map(|kind| median(kind)).collect();
    Ok(rounds.iter().map(of_port).collect())
}

/// The median of each figure.
fn median(rounds: &[Latencies]) -> Latencies {
    let of = |figure: fn(&Latencies) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Latencies { p50: of(|it| it.p50), p99: of(|it| it.p99) }
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
    let mut unserved: Option<Row> = None;
    let each = |row: Row| match row.e2e().zip(row.lag()) {
        Some((e2e, lag)) if row.request >= WARM => took.push((e2e - lag).0),
        Some(_) => {}
        None => unserved = Some(row),
    };
    runtime.block_on(load::run(plan, &settings, each, pending()));
    ensure!(unserved.is_none(), "{} was not served: {unserved:?}", KINDS[kind]);
    took.sort_unstable();
    let rank = |percent: usize| took[(took.len() * percent).div_ceil(100) - 1] as f64 / 1e6;
    Ok(Latencies { p50: rank(50), p99: rank(99) })
}

#[cfg(test)]
mod tests {
    use super::{Latencies, median};

    #[test]
    fn one_disturbed_round_does_not_count() {
        let rounds = [(1.0, 2.0), (9.0, 3.0), (1.5, 50.0)].map(|(p50, p99)| Latencies { p50, p99 });
        assert_eq!(median(&rounds), Latencies { p50: 1.5, p99: 3.0 });
    }
}
