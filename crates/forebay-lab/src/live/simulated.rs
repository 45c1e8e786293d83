//! Simulates a block's requests under the mode of each arm, so that both stand in one table.

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
