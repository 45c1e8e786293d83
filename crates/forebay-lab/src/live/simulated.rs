//! Simulates a block's requests under the mode of each arm, so that both stand in one table.

use serde::{Deserialize, Serialize};

use super::design::{Cell, Design};
use super::error::LiveError;
use super::requests::Block;
use crate::engine::Preset;
use crate::simulate::{self, Fate, Plan};

/// What the simulation of an arm's blocks came to, together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulated {
    /// Requests offered.
    pub offered: u64,
    /// Requests refused for good.
    pub refused: u64,
    /// Time to first token of the completed ones, in nanoseconds of the wall, unsorted.
    pub ttft: Vec<u64>,
}

/// The same as figures that stand beside live ones.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Figures {
    /// The share of the offered that was completed, 0 to 1.
    pub completed_share: f64,
    /// The share of the offered that was refused for good, 0 to 1.
    pub refused_share: f64,
    /// The median of TTFT over all that were offered, in milliseconds; `None` is infinite, where
    /// those that were not served reach it.
    pub ttft_ms_p50: Option<f64>,
    /// The same of the 90th percentile.
    pub ttft_ms_p90: Option<f64>,
    /// The same of the 99th percentile.
    pub ttft_ms_p99: Option<f64>,
}

impl Simulated {
    /// Its figures; each quantile by nearest rank.
    pub fn figures(&self) -> Figures {
        let mut sorted = self.ttft.clone();
        sorted.sort_unstable();
        let share = |count: u64| count as f64 / self.offered.max(1) as f64;
        let ms = |percentile: u64| {
            let rank = (self.offered * percentile).div_ceil(100).max(1) as usize;
            sorted.get(rank - 1).map(|nanos| *nanos as f64 / 1e6)
        };
        Figures {
            completed_share: share(sorted.len() as u64),
            refused_share: share(self.refused),
            ttft_ms_p50: ms(50),
            ttft_ms_p90: ms(90),
            ttft_ms_p99: ms(99),
        }
    }
}

/// Adds a round to what is simulated of each arm that has a mode.
pub(super) fn add(
    simulated: &mut [Option<Simulated>],
    design: &Design,
    cell: Cell,
    preset: &Preset,
    block: &Block,
) -> Result<(), LiveError> {
    // The engines live faster than their preset, and so does the simulation.
    let worker = preset.scaled(1.0 / design.load.speed);
    for (arm, figures) in design.arms.iter().zip(simulated) {
        let Some(mode) = arm.mode else { continue };
        let requests = block.requests.clone().into_iter().map(Ok);
        let workers = vec![worker.clone(); cell.workers.max(1) as usize];
        let mut plan = Plan::new(design.load.source.name(), Box::new(requests), workers, mode);
        plan.seed = design.blocks.seed;
        plan.client = design.load.sending.retry.client;
        let run = simulate::run(plan)?;
        let figures = figures.get_or_insert_default();
        for request in &run.requests {
            figures.offered += 1;
            match (request.fate, request.first_token) {
                (Fate::Completed, Some(first)) => {
                    figures.ttft.push(first.since(request.scheduled).0);
                }
                (Fate::Refused(_), _) => figures.refused += 1,
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Simulated;

    #[test]
    fn what_was_not_served_is_infinitely_late() {
        let ttft = vec![3_000_000, 1_000_000, 2_000_000];
        let figures = Simulated { offered: 4, refused: 1, ttft }.figures();
        assert_eq!((figures.completed_share, figures.refused_share), (0.75, 0.25));
        assert_eq!((figures.ttft_ms_p50, figures.ttft_ms_p90), (Some(2.0), None));
        assert_eq!(Simulated::default().figures().ttft_ms_p50, None);
    }
}
