//! The conversation's worker: a consistent hash with bounded load.
//!
//! Rendezvous hashing (Thaler and Ravishankar, IEEE/ACM Transactions on Networking 6(1), 1998)
//! ranks the workers for each conversation, so that a worker that leaves moves only its own
//! conversations. The bound (Mirrokni, Thorup and Zadimoghaddam, SODA 2018) passes over workers
//! with more than 1.25 times the mean of requests in flight, so one hot conversation can't sink its
//! worker. Requests without a conversation hash their first block, so that equal beginnings meet;
//! those without blocks spread by id.

use crate::fleet::Fleet;
use crate::request::Arrival;
use crate::rng::mixed;

/// How far above the mean a worker's load may be; the value that `KubeAI`'s published measurement
/// used.
const LOAD_FACTOR: f64 = 1.25;

/// The first worker in the conversation's ranking whose load is within the bound.
pub(crate) fn route(fleet: &Fleet, arrival: &Arrival) -> Option<u32> {
    let key = arrival
        .session
        .or_else(|| arrival.blocks.first().map(|block| block.0))
        .unwrap_or(arrival.request.0);
    let usable = fleet.usable();
    let in_flight: usize = usable.iter().map(|slot| fleet.at(*slot).running.len()).sum();
    // With this request counted in, the least loaded worker is always within the bound.
    let bound = (LOAD_FACTOR * (in_flight + 1) as f64 / usable.len().max(1) as f64).ceil() as usize;
    let rank = |slot: &u32| mixed(key ^ mixed(u64::from(fleet.at(*slot).id.0)));
    let within = |slot: &u32| fleet.at(*slot).running.len() < bound;
    usable.iter().copied().filter(within).max_by_key(rank)
}
