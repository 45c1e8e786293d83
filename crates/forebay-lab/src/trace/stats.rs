//! Says what a trace is like: how many requests, how long, how bursty, how much they share.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::prefixes::{Prefixes, Recent};
use super::{Requests, TraceError, TraceRequest};

/// Shared prefixes that are listed.
const PREFIXES_LISTED: usize = 8;
/// Sessions that are kept in mind, twice over, to count them.
const SESSIONS_MAX: usize = 1 << 20;
/// Classes and tenants that are counted by name; the rest is counted together.
const NAMES_MAX: usize = 1000;
/// The windows of the indices of dispersion, in seconds.
const WINDOWS_S: [u64; 3] = [1, 10, 60];

/// A distribution's figures; quantiles are nearest-rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lengths {
    /// The sum.
    pub sum: u64,
    /// The mean.
    pub mean: f64,
    /// The least.
    pub min: u64,
    /// Percentiles by name.
    pub p1: u64,
    /// The 5th percentile.
    pub p5: u64,
    /// The 10th percentile.
    pub p10: u64,
    /// The 25th percentile.
    pub p25: u64,
    /// The median.
    pub p50: u64,
    /// The 75th percentile.
    pub p75: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 95th percentile.
    pub p95: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The greatest.
    pub max: u64,
}

/// A prefix that many requests share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedPrefix {
    /// Its length in tokens.
    pub tokens: u64,
    /// Requests whose prompts begin with it.
    pub requests: u64,
    /// The id of its last block.
    pub id: u64,
}

/// What a trace is like.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Requests.
    pub requests: u64,
    /// From the first request's time to the last's, in seconds.
    pub duration_s: f64,
    /// Requests per second over that time; none for a trace that happens at one moment.
    pub requests_per_s: Option<f64>,
    /// Prompts, in tokens.
    pub prompt_tokens: Lengths,
    /// Answers, in tokens.
    pub output_tokens: Lengths,
    /// Share of the prompt tokens that an earlier prompt began with, too: the hits of a cache
    /// without end.
    pub shared_prefix_share: f64,
    /// Different ids.
    pub ids_distinct: u64,
    /// Whether the two figures before are exact; false where there were more ids than are kept in
    /// mind.
    pub ids_exact: bool,
    /// Sessions, 0 where the trace names none.
    pub sessions: u64,
    /// Requests that belong to a session.
    pub session_requests: u64,
    /// Requests that come a delay after the turn before, instead of at a time.
    pub delayed_requests: u64,
    /// The most requests at one moment.
    pub at_once_max: u64,
    /// Index of dispersion of the requests per window (variance over mean), by the window's
    /// seconds. 1 is what independent arrivals give; more is bursty, less is even.
    pub dispersion: BTreeMap<u64, f64>,
    /// The prefixes that save the most tokens.
    pub shared_prefixes: Vec<SharedPrefix>,
    /// Requests by class.
    pub classes: BTreeMap<String, u64>,
    /// Requests by tenant.
    pub tenants: BTreeMap<String, u64>,
}

/// How often each length came: exact, and bounded by the number of different lengths.
#[derive(Default)]
struct Counts(BTreeMap<u64, u64>);

impl Counts {
    fn add(&mut self, length: u64) {
        *self.0.entry(length).or_default() += 1;
    }

    fn lengths(&self) -> Lengths {
        let count: u64 = self.0.values().sum();
        let sum: u64 = self.0.iter().map(|(length, times)| length * times).sum();
        let nearest = |percent: u64| {
            let rank = (count * percent).div_ceil(100).max(1);
            let mut before = 0;
            let reached = |(_, times): &(&u64, &u64)| {
                before += **times;
                before >= rank
            };
            self.0.iter().find(reached).map_or(0, |(length, _)| *length)
        };
        Lengths {
            sum,
            mean: if count == 0 { 0.0 } else { sum as f64 / count as f64 },
            min: nearest(0),
            p1: nearest(1),
            p5: nearest(5),
            p10: nearest(10),
            p25: nearest(25),
            p50: nearest(50),
            p75: nearest(75),
            p90: nearest(90),
            p95: nearest(95),
            p99: nearest(99),
            max: nearest(100),
        }
    }
}

/// Variance over mean of the number of requests per window, counted as they come.
struct Dispersion {
    window_ns: u64,
    first: Option<u64>,
    current: u64,
    count: u64,
    sum: f64,
    squares: f64,
}

impl Dispersion {
    fn new(window_s: u64) -> Self {
        Self {
            window_ns: window_s * 1_000_000_000,
            first: None,
            current: 0,
            count: 0,
            sum: 0.0,
            squares: 0.0,
        }
    }

    fn close(&mut self) {
        self.sum += self.count as f64;
        self.squares += (self.count * self.count) as f64;
        self.count = 0;
    }

    fn add(&mut self, at_ns: u64) {
        let window = at_ns / self.window_ns;
        if window != self.current {
            self.close();
            self.current = window;
        }
        self.first.get_or_insert(window);
        self.count += 1;
    }

    /// `None` below ten whole windows, where it says nothing. The last window is cut by the trace's
    /// end and left out.
    fn index(&self) -> Option<f64> {
        let windows = self.current - self.first?;
        if windows < 10 || self.sum == 0.0 {
            return None;
        }
        let mean = self.sum / windows as f64;
        Some((self.squares / windows as f64 - mean * mean) / mean)
    }
}

/// Reads a trace to its end and says what it is like.
pub fn stats(requests: Requests) -> Result<Stats, TraceError> {
    let mut gathered = Gathered::new();
    for request in requests {
        gathered.add(&request?);
    }
    Ok(gathered.stats())
}

struct Gathered {
    stats: Stats,
    prompts: Counts,
    outputs: Counts,
    prefixes: Prefixes,
    sessions: Recent<u64, ()>,
    dispersions: Vec<Dispersion>,
    shared_tokens: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    at_once: u64,
}

impl Gathered {
    fn new() -> Self {
        Self {
            stats: Stats::default(),
            prompts: Counts::default(),
            outputs: Counts::default(),
            prefixes: Prefixes::new(),
            sessions: Recent::new(SESSIONS_MAX),
            dispersions: WINDOWS_S.map(Dispersion::new).into(),
            shared_tokens: 0,
            first_ns: None,
            last_ns: 0,
            at_once: 0,
        }
    }

    fn add(&mut self, request: &TraceRequest) {
        let at = request.at.0;
        self.stats.requests += 1;
        self.prompts.add(request.prompt.0);
        self.outputs.add(request.output.0);
        self.shared_tokens += self.prefixes.learn(request);
        if let Some(session) = request.session {
            self.stats.session_requests += 1;
            if self.sessions.get(session).is_none() {
                self.stats.sessions += 1;
                self.sessions.insert(session, ());
            }
        }
        for (counts, name) in
            [(&mut self.stats.classes, &request.class), (&mut self.stats.tenants, &request.tenant)]
        {
            let Some(name) = name else { continue };
            let known = counts.len() < NAMES_MAX || counts.contains_key(&**name);
            *counts
                .entry(if known { name.to_string() } else { "(others)".to_owned() })
                .or_default() += 1;
        }
        if request.delay.is_some() {
            // When it comes depends on who serves it, so it has no place among the arrivals.
            self.stats.delayed_requests += 1;
            return;
        }
        self.at_once =
            if self.first_ns.is_some() && at == self.last_ns { self.at_once + 1 } else { 1 };
        self.stats.at_once_max = self.stats.at_once_max.max(self.at_once);
        self.first_ns.get_or_insert(at);
        self.last_ns = at;
        for dispersion in &mut self.dispersions {
            dispersion.add(at);
        }
    }

    fn stats(self) -> Stats {
        let mut stats = self.stats;
        stats.prompt_tokens = self.prompts.lengths();
        stats.output_tokens = self.outputs.lengths();
        stats.duration_s = (self.last_ns - self.first_ns.unwrap_or(self.last_ns)) as f64 / 1e9;
        let lasts = stats.duration_s > 0.0;
        stats.requests_per_s = lasts.then(|| stats.requests as f64 / stats.duration_s);
        stats.shared_prefix_share = match stats.prompt_tokens.sum {
            0 => 0.0,
            sum => self.shared_tokens as f64 / sum as f64,
        };
        stats.ids_distinct = self.prefixes.distinct;
        stats.ids_exact = !self.prefixes.ids.forgot;
        let index = |dispersion: &Dispersion| {
            Some((dispersion.window_ns / 1_000_000_000, dispersion.index()?))
        };
        stats.dispersion = self.dispersions.iter().filter_map(index).collect();
        let shared = self.prefixes.ids.into_entries().filter(|(_, seen)| seen.ends_shared());
        stats.shared_prefixes = shared
            .map(|(id, seen)| SharedPrefix {
                tokens: seen.tokens.into(),
                requests: seen.uses.into(),
                id,
            })
            .collect();
        stats.shared_prefixes.sort_by_key(|prefix| {
            (u128::from(prefix.tokens) * u128::from(prefix.requests), u64::MAX - prefix.id)
        });
        stats.shared_prefixes.reverse();
        stats.shared_prefixes.truncate(PREFIXES_LISTED);
        stats
    }
}

impl Stats {
    /// One JSON object with a line end.
    pub fn to_json(&self) -> String {
        // A float that is no number would become null; there is none.
        serde_json::to_string(self).expect("plain figures are JSON") + "\n"
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |part: u64| 100.0 * part as f64 / self.requests.max(1) as f64;
        let rate = self.requests_per_s.map_or("-".to_owned(), |rate| format!("{rate:.3}/s"));
        writeln!(f, "requests       {} in {:.3} s: {rate}", self.requests, self.duration_s)?;
        let heads =
            ["mean", "min", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "max"];
        write!(f, "tokens        ")?;
        heads.iter().try_for_each(|head| write!(f, "{head:>7}"))?;
        for (name, lengths) in [("prompt", &self.prompt_tokens), ("output", &self.output_tokens)] {
            let Lengths { min, p1, p5, p10, p25, p50, p75, p90, p95, p99, max, .. } = lengths;
            write!(f, "\n  {name:<12}{:>7.0}", lengths.mean)?;
            let values = [min, p1, p5, p10, p25, p50, p75, p90, p95, p99, max];
            values.iter().try_for_each(|value| write!(f, "{value:>7}"))?;
        }
        let about = if self.ids_exact { "" } else { " at least" };
        write!(
            f,
            "\nshared        {about} {:.1} % of the prompt tokens, ",
            self.shared_prefix_share * 100.0
        )?;
        writeln!(f, "{} different ids", self.ids_distinct)?;
        for prefix in &self.shared_prefixes {
            let (tokens, requests) = (prefix.tokens, prefix.requests);
            writeln!(
                f,
                "  {tokens:>8} tokens begin {requests:>7} requests ({:.1} %)",
                percent(requests)
            )?;
        }
        if self.sessions > 0 {
            let (sessions, within) = (self.sessions, self.session_requests);
            let turns = within as f64 / sessions as f64;
            writeln!(f, "sessions       {sessions} with {within} requests: {turns:.2} turns each")?;
        }
        if self.delayed_requests > 0 {
            let delayed = self.delayed_requests;
            writeln!(f, "delayed        {delayed} requests wait for the turn before them")?;
        }
        write!(f, "burstiness     up to {} at one moment; ", self.at_once_max)?;
        write!(f, "variance over mean per window:")?;
        for (window_s, index) in &self.dispersion {
            write!(f, " {index:.1} ({window_s} s)")?;
        }
        writeln!(f, "{}", if self.dispersion.is_empty() { " too short to tell" } else { "" })?;
        for (what, counts) in [("class", &self.classes), ("tenant", &self.tenants)] {
            for (name, requests) in counts {
                writeln!(f, "{what:<15}{name}: {requests} ({:.1} %)", percent(*requests))?;
            }
        }
        Ok(())
    }
}
