//! Says what a run was: where it went, what it sent, and whether its figures may be used.

use serde::{Deserialize, Serialize};

/// The version of the files of a run. Readers refuse a newer one; a field is only ever added.
pub const SCHEMA: &str = "forebay.results/1";

/// What a run was. Nothing here names a key, a header or a prompt.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct About {
    /// A short name for people, such as `hold` or `vendor`.
    #[serde(default)]
    pub label: String,
    /// The program that measured, with its version: `forebay 0.1.0`, `aiperf 0.8.0`.
    pub tool: String,
    /// Where requests went.
    #[serde(default)]
    pub targets: Vec<String>,
    /// The model that was asked for.
    #[serde(default)]
    pub model: String,
    /// What was offered, in words: trace or arrivals, rate, limits.
    #[serde(default)]
    pub workload: String,
    /// Names the plan by a hash: runs with the same one offered the same requests at the same
    /// moments, and can be compared request by request. `None` where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Whether arrivals waited for answers: a closed loop hides what a slow target does to others.
    #[serde(default)]
    pub is_closed_loop: bool,
    /// How clients took refusals: the name of a model of clients.
    #[serde(default)]
    pub retry: String,
    /// The seed of every draw.
    #[serde(default)]
    pub seed: u64,
    /// When it began, in milliseconds since 1970 by the clock of the machine that measured.
    #[serde(default)]
    pub started_unix_ms: u64,
    /// It was stopped before the plan was done: what was not sent says so.
    #[serde(default)]
    pub was_interrupted: bool,
    /// The line that repeats it, without keys.
    #[serde(default)]
    pub repeat: String,
    /// Why its figures may not be used; empty for a run that is valid.
    #[serde(default)]
    pub invalid: Vec<Invalid>,
    /// What a reader should know and that makes nothing invalid.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What the generator saw of itself; `None` where a tool does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,
}

/// What a load generator saw of itself and of its machine during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Generator {
    /// How late it was with what was due, in milliseconds: over all first attempts it sent.
    pub lag_ms_p50: f64,
    /// The 99th percentile of the same.
    pub lag_ms_p99: f64,
    /// The largest of the same.
    pub lag_ms_max: f64,
    /// Requests that were under way at once, at most.
    pub in_flight_max_seen: u64,
    /// Connections that were opened.
    pub connections: u64,
    /// The 99th percentile of the time to open one, in milliseconds; `None` where none was.
    #[serde(default)]
    pub connect_ms_p99: Option<f64>,
    /// Open descriptors at most, and how many the process may have; `None` where the system does
    /// not say.
    #[serde(default)]
    pub descriptors: Option<(u64, u64)>,
    /// Share of the run in which a task of the machine waited for a processor (Linux's pressure
    /// stall information), 0 to 1; `None` where the system does not say.
    #[serde(default)]
    pub cpu_pressure: Option<f64>,
    /// Share of processor time that the host of a virtual machine took, 0 to 1; `None` where the
    /// system does not say.
    #[serde(default)]
    pub steal: Option<f64>,
    /// Processor time of the generator itself, in seconds.
    #[serde(default)]
    pub cpu_s: Option<f64>,
}

/// A reason for not using the figures of a run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Invalid {
    /// A stable word: `lag`, `cpu`, `descriptors`, `in_flight_max`, `connections`.
    pub reason: String,
    /// What was seen against what is allowed, and what to do.
    pub what: String,
}

impl About {
    /// Whether its figures may be used.
    pub const fn is_valid(&self) -> bool {
        self.invalid.is_empty()
    }
}
