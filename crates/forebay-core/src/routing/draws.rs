//! By a seeded draw: `random` takes one worker, `power-of-two` draws two and takes the less loaded.
//!
//! Two draws are enough to make the longest queue grow with log log N instead of log N
//! (Mitzenmacher, IEEE TPDS 12(10), 2001), and unlike the least loaded of all they do not herd when
//! figures are stale. Load is requests in flight, which our own dispatches count at once.

use crate::fleet::Fleet;
use crate::rng::Rng;

/// One drawn worker.
pub(crate) fn random(fleet: &Fleet, rng: &mut Rng) -> Option<u32> {
    let usable = fleet.usable();
    usable.get(rng.below(usable.len() as u64) as usize).copied()
}

/// The less loaded of two different drawn workers; the first drawn wins a tie.
pub(crate) fn power_of_two(fleet: &Fleet, rng: &mut Rng) -> Option<u32> {
    let usable = fleet.usable();
    let first = rng.below(usable.len() as u64) as usize;
    let one = *usable.get(first)?;
    if usable.len() == 1 {
        return Some(one);
    }
    let step = 1 + rng.below(usable.len() as u64 - 1) as usize;
    let other = usable[(first + step) % usable.len()];
    let load = |slot| fleet.at(slot).running.len();
    Some(if load(other) < load(one) { other } else { one })
}
