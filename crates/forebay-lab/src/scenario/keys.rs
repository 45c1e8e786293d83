//! Holds the numbers of a scenario file: for each its range, and what holds without it.

use forebay_service::defaults::Key;

/// Whole numbers up to here are exact in a float.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// A day in seconds: no scenario is longer.
const DAY_S: f64 = 86_400.0;
/// The longest prompt or answer.
const TOKENS_MAX: f64 = 1e7;

pub(super) const SEEDS: Key = Key::count("scenario", "seeds", (0.0, EXACT_MAX))
    .or(1.0, "it is run with the seeds 1, 2 and 3");
/// The least and the most factor on every stream's load.
pub const LOAD_FACTORS: (f64, f64) = (1e-3, 1e3);
pub(super) const LOADS: Key = Key::number("scenario", "loads", LOAD_FACTORS)
    .or(1.0, "every stream has the load that it names");
pub(super) const DRAIN_S_MAX: Key = Key::number("scenario", "drain_s_max", (0.0, DAY_S))
    .or_none("nobody would know when it is stuck");

pub(super) const REQUESTS: Key = Key::count("stream", "requests", (1.0, 1e6))
    .or_none("a stream must say how many requests it has");
pub(super) const FROM_S: Key =
    Key::number("stream", "from_s", (0.0, DAY_S)).or(0.0, "it begins at once");
pub(super) const LOAD: Key = Key::number("stream", "load", (1e-3, 1e3))
    .or(1.0, "it comes as fast as the fleet can serve, unless `per_s` is given");
pub(super) const PER_S: Key =
    Key::number("stream", "per_s", (1e-3, 1e6)).or_none("`load` says how fast it comes");
pub(super) const PROMPT: Key = Key::count("stream", "prompt", (1.0, TOKENS_MAX))
    .or_none("a stream without `synth` must say how long its prompts are");
pub(super) const OUTPUT: Key = Key::count("stream", "output", (1.0, TOKENS_MAX))
    .or_none("a stream without `synth` must say how long its answers are");
pub(super) const PREFIX_TOKENS: Key = Key::count("stream", "prefix_tokens", (0.0, TOKENS_MAX))
    .or(0.0, "its prompts have nothing in common");
pub(super) const PREFIXES: Key = Key::count("stream", "prefixes", (1.0, 1e6))
    .or(1.0, "all of its prompts begin with the same prefix");

pub(super) const WORKERS: Key =
    Key::count("fleet", "workers", (1.0, 10_000.0)).or(1.0, "there is one worker for each engine");
pub(super) const EXPECTED_OUTPUT: Key =
    Key::count("fleet", "expected_output", (0.0, TOKENS_MAX)).or_none("the mean output is learned");
pub(super) const CAPACITY_ERROR: Key = Key::number("fleet", "capacity_error_pct", (-99.0, 1e4))
    .or(0.0, "workers say their true capacity");

pub(super) const PATIENCE_S: Key = Key::number("clients", "patience_s", (0.0, DAY_S))
    .or_none("clients wait for ever, unless `patience_s_mean` is given");
pub(super) const PATIENCE_S_MEAN: Key = Key::number("clients", "patience_s_mean", (1e-3, DAY_S))
    .or_none("clients wait for ever, unless `patience_s` is given");

pub(super) const AT_S: Key =
    Key::number("event", "at_s", (0.0, DAY_S)).or_none("an event must say when it happens");
pub(super) const WORKER: Key =
    Key::count("event", "worker", (0.0, 9_999.0)).or_none("it happens to all workers");
pub(super) const FACTOR: Key =
    Key::number("event", "factor", (0.01, 1e4)).or_none("a slowed worker must say by how much");

pub(super) const ARM_WORKERS: Key =
    Key::count("arm", "workers", (1.0, 10_000.0)).or_none("the arm has all workers of the fleet");

pub(super) const AT_LEAST: Key = Key::number("expect", "at_least", (-1e15, 1e15))
    .or_none("the figure may be as small as it likes");
pub(super) const AT_MOST: Key = Key::number("expect", "at_most", (-1e15, 1e15))
    .or_none("the figure may be as large as it likes");
