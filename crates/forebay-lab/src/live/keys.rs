//! Holds the numbers of a live drill's file: for each its range, and what holds without it.

use forebay_service::defaults::Key;

/// Whole numbers up to here are exact in a float.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// A day in seconds: no part of a drill is longer.
const DAY_S: f64 = 86_400.0;

pub(super) const REQUESTS: Key = Key::count("load", "requests", (1.0, 1e6))
    .or(300.0, "a block has 300 requests: enough for a p90, and a minute or two at usual rates");
pub(super) const PROMPT_TOKENS_MAX: Key = Key::count("load", "prompt_tokens_max", (1.0, 1e9))
    .or_none("every request of the trace is sent, however long");
pub(super) const LOADS: Key = Key::number("load", "loads", (1e-3, 1e3))
    .or(1.0, "requests come as fast as the trace says, or as the fleet can serve");
pub(super) const CAPACITY_PER_S: Key = Key::number("load", "capacity_per_s", (1e-6, 1e9))
    .or_none("loads are multiples of the trace's own rate");
pub(super) const SPEED: Key = Key::number("load", "speed", (1e-3, 1e6))
    .or(1.0, "the engines live as fast as the trace's clock");
pub(super) const WARMUP: Key = Key::count("load", "warmup", (0.0, 1e5)).or(
    10.0,
    "10 requests go ahead of each block and are not counted: first ones open connections",
);
pub(super) const TIMEOUT_S: Key = Key::number("load", "timeout_s", (0.001, DAY_S))
    .or(600.0, "a request may take ten minutes, as official clients let it");
pub(super) const CANCEL_SHARE: Key =
    Key::number("load", "cancel_share", (0.0, 1.0)).or(0.0, "no client goes away early");
pub(super) const RETRY_BUDGET: Key = Key::number("load", "retry_budget", (0.0, 1.0))
    .or_none("clients that try again do so as often as their model says");
pub(super) const IN_FLIGHT_MAX: Key = Key::count("load", "in_flight_max", (1.0, 1e6))
    .or(4096.0, "4096 requests may be under way at once; what is due beyond them is late");
pub(super) const LAG_MS_MAX: Key = Key::number("load", "lag_ms_max", (0.001, 1e6))
    .or(10.0, "a block is valid while the generator's own lag is at most 10 ms at p99");

pub(super) const LEAST: Key = Key::count("blocks", "least", (1.0, 1e4))
    .or(3.0, "criteria are looked at after three blocks of each arm: two show no spread");
pub(super) const MOST: Key =
    Key::count("blocks", "most", (1.0, 1e4)).or(6.0, "each arm is run in six blocks at most");
pub(super) const SEED: Key =
    Key::count("blocks", "seed", (0.0, EXACT_MAX)).or(1.0, "the draws are those of seed 1");
pub(super) const IDLE_S_MAX: Key = Key::number("blocks", "idle_s_max", (0.0, DAY_S))
    .or(60.0, "engines have a minute to end what clients have left behind");

pub(super) const WORKERS: Key = Key::count("engines", "workers", (1.0, 1e4))
    .or_none("all of the workers under `urls` are used");
pub(super) const READY_S_MAX: Key = Key::number("engines", "ready_s_max", (0.1, DAY_S))
    .or(120.0, "it may take two minutes until it is ready");
pub(super) const ARM_READY_S_MAX: Key = Key { table: "arm", ..READY_S_MAX };
