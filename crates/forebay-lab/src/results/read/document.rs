//! Takes numbers out of another tool's JSON: what is missing or no number is none, never zero.

use forebay_core::Span;
use serde_json::Value;

use super::super::{Attempt, Generator, Invalid, Outcome, Row, Spread};

/// The longest time that is believed, in seconds: ten years.
const SECS_MAX: f64 = 3.2e8;
/// How late a generator may be at the 99th percentile, in milliseconds, for its figures to be
/// used: a tenth of a second is a good part of any TTFT that is worth measuring.
pub(super) const LAG_MS_MAX: f64 = 100.0;

/// A number that is one.
pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|it| it.is_finite())
}

/// A count, also where it is written as `897.0`.
pub(super) fn count(value: &Value) -> Option<u64> {
    let whole = || number(value).filter(|it| (0.0..=9e15).contains(it)).map(|it| it as u64);
    value.as_u64().or_else(whole)
}

/// Seconds as a span.
pub(super) fn secs(value: f64) -> Option<Span> {
    (0.0..=SECS_MAX).contains(&value).then(|| Span((value * 1e9).round() as u64))
}

/// Milliseconds as a span.
pub(super) fn millis(value: f64) -> Option<Span> {
    secs(value / 1e3)
}

/// A word.
pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A URL without what may be secret: user, password and query.
pub(super) fn target(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
    let host = host.rsplit('@').next().unwrap_or_default();
    path.map_or_else(|| format!("{scheme}://{host}"), |path| format!("{scheme}://{host}/{path}"))
}

/// A distribution of `{avg, p50, …}` in milliseconds, times `factor`.
pub(super) fn spread(
    count: Option<u64>,
    factor: f64,
    of: impl Fn(&str) -> Option<f64>,
    percentiles: impl Fn(u8) -> Option<f64>,
) -> Option<Spread> {
    let at = |name| of(name).map(|it| it * factor);
    let known = |nth| Some((nth, percentiles(nth)? * factor));
    Some(Spread {
        count: count?,
        mean: at("mean")?,
        std: at("std"),
        range: at("min").zip(at("max")),
        percentiles: (1..=99).filter_map(known).collect(),
    })
}

/// A row of another tool: one attempt at a request of which no class or tenant is known.
pub(super) fn row(scheduled: Span, attempt: Attempt) -> Row {
    let outcome = attempt.outcome;
    Row { attempts: vec![attempt], ..Row::new(0, scheduled, outcome) }
}

/// Puts rows in the order in which they were due, and counts them so.
pub(super) fn ordered(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_key(|row| row.scheduled);
    (0..).zip(&mut rows).for_each(|(nth, row)| row.request = nth);
    rows
}

/// How late the tool was, as its rows tell.
pub(super) fn lag(rows: &[Row]) -> Option<Generator> {
    let mut lags: Vec<u64> = rows.iter().filter_map(|row| Some(row.lag()?.0)).collect();
    lags.sort_unstable();
    let rank = |percent: usize| {
        let place = (lags.len() * percent).div_ceil(100).checked_sub(1)?;
        Some(*lags.get(place)? as f64 / 1e6)
    };
    let (lag_ms_p50, lag_ms_p99, lag_ms_max) = (rank(50)?, rank(99)?, rank(100)?);
    Some(Generator { lag_ms_p50, lag_ms_p99, lag_ms_max, ..Generator::default() })
}

/// Why a run with this lag can't be used, where it can't.
pub(super) fn late(generator: Option<&Generator>) -> Option<Invalid> {
    let lag = generator?.lag_ms_p99;
    (lag > LAG_MS_MAX).then(|| Invalid {
        reason: "lag".to_owned(),
        what: format!(
            "lag p99 {lag:.1} ms is over {LAG_MS_MAX:.0} ms: the tool was late, and not the \
             target; offer less from one machine"
        ),
    })
}

/// What a status says of a request that was not served.
pub(super) const fn unserved(status: Option<u16>) -> Outcome {
    match status {
        Some(429 | 503 | 529) => Outcome::Refused,
        _ => Outcome::Failed,
    }
}
