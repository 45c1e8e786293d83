//! In turn: the baseline of every comparison.
//!
//! Looks at nothing. What it has going for it is that it can't be wrong about anything, and that
//! equal requests are spread as evenly as can be. It fails when requests are not equal: two long
//! ones in a row meet on one worker as often as chance has it.

use crate::fleet::Fleet;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundRobin {
    turn: usize,
}

impl RoundRobin {
    /// The next usable worker.
    pub(crate) fn route(&mut self, fleet: &Fleet) -> Option<u32> {
        let usable = fleet.usable();
        let slot = *usable.get(self.turn % usable.len().max(1))?;
        self.turn = self.turn.wrapping_add(1);
        Some(slot)
    }
}
