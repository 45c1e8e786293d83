//! The least of something: `least-loaded` counts requests in flight, `least-work` weighs prefill.
//!
//! `least-work` is the strongest parameter-free rule among the pushing ones (the independent LPWL
//! measurement of docs/concepts/evidence.md): pending prefill plus what this request would add, so
//! a cached prefix draws a request to its holder exactly as long as the prefill it saves is more
//! than the prefill it would wait for. Ties go to the fewest requests in flight, then to the lowest
//! worker id.

use crate::fleet::Fleet;
use crate::request::Arrival;
use crate::units::Tokens;

/// The usable worker with the fewest requests in flight.
pub(crate) fn loaded(fleet: &Fleet) -> Option<u32> {
    let load = |slot: &u32| (fleet.at(*slot).running.len(), fleet.at(*slot).id);
    fleet.usable().iter().copied().min_by_key(load)
}

/// The usable worker with the least prefill work once it had this request.
pub(crate) fn work(fleet: &Fleet, arrival: &Arrival, block_size: u32) -> Option<u32> {
    fleet.usable().iter().copied().min_by_key(|slot| {
        let worker = fleet.at(*slot);
        (work_on(fleet, arrival, *slot, block_size), worker.running.len(), worker.id)
    })
}

/// Prefill tokens before and in the request on this worker.
pub(crate) fn work_on(fleet: &Fleet, arrival: &Arrival, slot: u32, block_size: u32) -> Tokens {
    let cached = fleet.cached(arrival, slot, block_size);
    fleet.at(slot).backlog + arrival.prompt.saturating_sub(cached)
}
