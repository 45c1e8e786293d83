//! How a worker is chosen for a request: the catalogue.
//!
//! | mode | looks at | holds requests |
//! |---|---|---|
//! | `round-robin` | nothing | no |
//! | `random` | nothing | no |
//! | `power-of-two` | requests in flight of two | no |
//! | `least-loaded` | requests in flight | no |
//! | `least-work` | prefill backlog, cached prefix | no |
//! | `session` | the conversation, requests in flight | no |
//! | `kv:*` | cached prefix, prefill backlog, blocks in use | by the preset |
//! | `hold` | all of these, and the KV gate | yes |

mod draws;
pub(crate) mod hold;
pub(crate) mod kv;
mod least;
pub(crate) mod reserve;
pub(crate) mod round_robin;
mod session;

use std::fmt;
use std::str::FromStr;

use crate::Core;
use crate::request::Arrival;
use crate::units::Tokens;
use crate::why::Candidate;

/// How a worker is chosen, and whether requests are held until there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In turn.
    RoundRobin,
    /// By a seeded draw.
    Random,
    /// The less loaded of two drawn.
    PowerOfTwo,
    /// Fewest requests in flight.
    LeastLoaded,
    /// Least pending prefill plus this request's uncached tokens.
    LeastWork,
    /// The conversation's worker, by a consistent hash with bounded load.
    Session,
    /// Dynamo's published cost, with one of its presets.
    Kv(KvPreset),
    /// Held until a worker has room, in this order.
    Hold(HoldOrder),
}

/// The published presets of the `kv` mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvPreset {
    /// Dynamo 1.2 with its defaults: router queue, busy thresholds on.
    Dynamo12,
    /// Dynamo 1.2 with shortest-processing-time order and the thresholds off.
    Dynamo12Wspt,
    /// Dynamo 1.6 with its defaults: no queue, no thresholds.
    Dynamo16,
}

/// The order in which held requests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldOrder {
    /// Least prefill work first, aged without a scale, with a promise.
    Aged,
    /// In the order of arrival.
    FirstCome,
}

impl Mode {
    /// Every mode, in the order of the catalogue.
    pub const ALL: [Self; 11] = [
        Self::RoundRobin,
        Self::Random,
        Self::PowerOfTwo,
        Self::LeastLoaded,
        Self::LeastWork,
        Self::Session,
        Self::Kv(KvPreset::Dynamo12),
        Self::Kv(KvPreset::Dynamo12Wspt),
        Self::Kv(KvPreset::Dynamo16),
        Self::Hold(HoldOrder::Aged),
        Self::Hold(HoldOrder::FirstCome),
    ];

    /// Its name in commands, files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
            Self::PowerOfTwo => "power-of-two",
            Self::LeastLoaded => "least-loaded",
            Self::LeastWork => "least-work",
            Self::Session => "session",
            Self::Kv(KvPreset::Dynamo12) => "kv:dynamo-1.2",
            Self::Kv(KvPreset::Dynamo12Wspt) => "kv:dynamo-1.2-wspt",
            Self::Kv(KvPreset::Dynamo16) => "kv:dynamo-1.6",
            Self::Hold(HoldOrder::Aged) => "hold",
            Self::Hold(HoldOrder::FirstCome) => "hold:first-come",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no mode has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown mode `{0}`; the modes are {names}", names = Mode::ALL.map(Mode::name).join(", "))]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;
    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.name() == name)
            .ok_or_else(|| UnknownMode(name.to_owned()))
    }
}

impl Core {
    /// The worker that a pushing mode, or a `kv` preset, chooses for the request.
    pub(crate) fn route(&mut self, arrival: &Arrival) -> Option<u32> {
        let Self { fleet, settings, rng, round_robin, .. } = self;
        match settings.mode {
            Mode::RoundRobin => round_robin.route(fleet),
            Mode::Random => draws::random(fleet, rng),
            Mode::PowerOfTwo => draws::power_of_two(fleet, rng),
            Mode::LeastLoaded => least::loaded(fleet),
            Mode::LeastWork => least::work(fleet, arrival, settings.block_size),
            Mode::Session => session::route(fleet, arrival),
            Mode::Kv(_) => kv::route(fleet, arrival, settings, rng),
            Mode::Hold(_) => None,
        }
    }

    /// The score of a worker in the mode's own terms, for explanations.
    pub(crate) fn score(&self, arrival: &Arrival, slot: u32) -> f64 {
        let block_size = self.settings.block_size;
        let worker = self.fleet.at(slot);
        match self.settings.mode {
            Mode::RoundRobin | Mode::Random => 0.0,
            Mode::PowerOfTwo | Mode::LeastLoaded | Mode::Session => worker.running.len() as f64,
            Mode::Kv(_) => kv::cost(&self.fleet, arrival, slot, block_size),
            Mode::LeastWork | Mode::Hold(_) => {
                least::work_on(&self.fleet, arrival, slot, block_size).as_f64()
            }
        }
    }

    /// A worker as a candidate for the request.
    pub(crate) fn candidate(&self, arrival: &Arrival, slot: u32) -> Candidate {
        let worker = self.fleet.at(slot);
        let cached: Tokens = self.fleet.cached(arrival, slot, self.settings.block_size);
        let score = self.score(arrival, slot);
        Candidate { worker: worker.id, score, cached, backlog: worker.backlog }
    }
}
