//! Holds predictions against the figures that were published of real engines.
//!
//! Source: an independent A/B test, June 2026, 8×A100-40GB, Qwen3-8B, vLLM 0.20.1, Dynamo 1.2.0,
//! the Mooncake trace filtered to at most 16,384 input tokens, its first 1,000 requests. Three
//! measured runs for each cell, warm-ups left out; latencies are means over the runs, weighted by
//! completed requests, of what each run reports over its *completed* requests, so predictions are
//! held against them on the same terms. Only the medians at N = 2, where the runs differ most, are
//! those of all three runs' requests pooled.

use forebay_core::{KvPreset, Mode};

use super::measure::{Group, Measured};

/// The engine preset that imitates the engines of the test.
pub const ENGINE: &str = "a100-40gb/qwen3-8b";
/// The synthetic workload that imitates the requests of the test.
pub const WORKLOAD: &str = "evidence";

/// One cell of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Number of workers.
    pub workers: u32,
    /// The arm that imitates the cell's router.
    pub arm: Mode,
    /// Requests sent in all three runs.
    pub sent: u32,
    /// Requests completed in all three runs.
    pub completed: u32,
    /// The figures, in the order of [`Figure::ALL`].
    pub figures: [f64; 8],
}

/// One figure that was published of each cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// The share of the sent that was completed.
    Completed,
    /// Mean time to first token in milliseconds.
    TtftMean,
    /// Median time to first token in milliseconds.
    TtftP50,
    /// Time to first token in milliseconds, 90th percentile.
    TtftP90,
    /// Time to first token in milliseconds, 99th percentile.
    TtftP99,
    /// Mean gap between tokens in milliseconds.
    ItlMean,
    /// Mean time to the last token in milliseconds.
    E2eMean,
    /// First sent to last end, in seconds.
    Makespan,
}

impl Figure {
    /// All of them, in the order of [`Cell::figures`].
    pub const ALL: [Self; 8] = [
        Self::Completed,
        Self::TtftMean,
        Self::TtftP50,
        Self::TtftP90,
        Self::TtftP99,
        Self::ItlMean,
        Self::E2eMean,
        Self::Makespan,
    ];

    /// Its name in tables.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::TtftMean => "TTFT mean",
            Self::TtftP50 => "TTFT p50",
            Self::TtftP90 => "TTFT p90",
            Self::TtftP99 => "TTFT p99",
            Self::ItlMean => "ITL mean",
            Self::E2eMean => "whole latency, mean",
            Self::Makespan => "makespan",
        }
    }

    /// The same figure of a simulated run, on the terms of the test: over completed requests only.
    pub fn of(self, run: &Measured) -> Option<f64> {
        let Group { served_ttft, served_itl, served_e2e, .. } = run.all;
        match self {
            Self::Completed => Some(run.all.completed_share()),
            Self::TtftMean => served_ttft.map(|ttft| ttft.mean),
            Self::TtftP50 => served_ttft.map(|ttft| ttft.p50),
            Self::TtftP90 => served_ttft.map(|ttft| ttft.p90),
            Self::TtftP99 => served_ttft.map(|ttft| ttft.p99),
            Self::ItlMean => served_itl.map(|itl| itl.mean),
            Self::E2eMean => served_e2e.map(|e2e| e2e.mean),
            Self::Makespan => Some(run.makespan_s),
        }
    }

    /// A value in the unit of this figure.
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::Completed => super::notation::percent(value),
            Self::Makespan => super::notation::duration_ms(value * 1000.0),
            _ => super::notation::duration_ms(value),
        }
    }
}

const KV: Mode = Mode::Kv(KvPreset::Dynamo12);

/// The cells of the test.
#[rustfmt::skip]
pub const CELLS: [Cell; 6] = [
    Cell { workers: 2, arm: Mode::RoundRobin, sent: 3000, completed: 3000,
        figures: [1.0, 16946.5, 12100.0, 40106.9, 49598.8, 85.1, 27727.5, 268.8] },
    Cell { workers: 2, arm: KV, sent: 3000, completed: 2571,
        figures: [0.857, 4541.0, 2600.0, 10769.4, 15566.2, 86.5, 15406.7, 232.0] },
    Cell { workers: 4, arm: Mode::RoundRobin, sent: 3000, completed: 3000,
        figures: [1.0, 519.6, 311.8, 1267.0, 2336.4, 56.7, 5720.7, 223.5] },
    Cell { workers: 4, arm: KV, sent: 3000, completed: 3000,
        figures: [1.0, 585.0, 417.9, 1247.7, 2264.4, 64.6, 5721.2, 224.6] },
    Cell { workers: 8, arm: Mode::RoundRobin, sent: 3000, completed: 3000,
        figures: [1.0, 372.5, 196.9, 968.6, 1674.0, 36.2, 4821.0, 228.1] },
    Cell { workers: 8, arm: KV, sent: 3000, completed: 3000,
        figures: [1.0, 443.4, 337.8, 930.0, 1675.7, 44.3, 4857.1, 227.8] },
];
