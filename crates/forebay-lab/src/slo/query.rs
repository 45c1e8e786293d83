//! Finds the latency that a query of Prometheus counts up to.
//!
//! A service level on latency is written as the part of a histogram up to a bucket:
//! `vllm:time_to_first_token_seconds_bucket{le="0.5"}`. Name and bound say which latency and how
//! much; a query with several bounds, or of a histogram with another name, says nothing that can be
//! held against a run, and is left alone.

use super::Latency;

/// What a histogram's name has in it, and which latency that is.
const NAMES: [(&str, Latency); 6] = [
    ("time_to_first_token", Latency::Ttft),
    ("ttft", Latency::Ttft),
    ("e2e_request_latency", Latency::E2e),
    ("request_duration", Latency::E2e),
    ("request_latency", Latency::E2e),
    ("e2e_latency", Latency::E2e),
];

/// The latency, and its bound in milliseconds.
pub(super) fn threshold(query: &str) -> Option<(Latency, f64)> {
    let mut bounds = Vec::new();
    for (at, _) in query.match_indices('{') {
        let name: &str = {
            let before = &query[..at];
            let starts = before.rfind(|letter: char| !is_name(letter)).map_or(0, |place| {
                place + before[place..].chars().next().map_or(1, char::len_utf8)
            });
            &before[starts..]
        };
        let labels = query[at + 1..].split('}').next().unwrap_or("");
        let Some(bound) = bucket(labels) else { continue };
        bounds.push((latency(name)?, bound * unit_ms(name)));
    }
    let first = bounds.first().copied()?;
    bounds.iter().all(|bound| *bound == first).then_some(first)
}

/// The latency that a name has in it.
pub(super) fn latency(name: &str) -> Option<Latency> {
    let name = name.to_lowercase();
    NAMES.iter().find(|(part, _)| name.contains(part)).map(|(_, latency)| *latency)
}

/// Milliseconds in the unit that a metric's name ends in: seconds, unless it says otherwise.
pub(super) fn unit_ms(name: &str) -> f64 {
    let in_ms = name.contains("_milliseconds") || name.contains("_ms_") || name.ends_with("_ms");
    if in_ms { 1.0 } else { 1000.0 }
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == ':'
}

/// The bound of `le="…"` among labels.
fn bucket(labels: &str) -> Option<f64> {
    let label = labels.split(',').map(str::trim).find(|label| label.starts_with("le="))?;
    let bound: f64 = label.strip_prefix("le=")?.trim_matches(['"', '\'']).parse().ok()?;
    (bound.is_finite() && bound > 0.0).then_some(bound)
}

#[cfg(test)]
mod tests {
    use super::super::Latency;
    use super::threshold;

    #[test]
    fn a_bucket_of_a_histogram_that_is_known_is_a_limit() {
        let query = "sum(rate(vllm:time_to_first_token_seconds_bucket{le=\"0.5\", job='x'}[5m]))";
        assert_eq!(threshold(query), Some((Latency::Ttft, 500.0)));
        let query = "rate(http_request_duration_milliseconds_bucket{le=\"250\"}[{{.window}}])";
        assert_eq!(threshold(query), Some((Latency::E2e, 250.0)));
    }

    #[test]
    fn what_says_nothing_for_certain_says_nothing() {
        for query in [
            "",
            "}{",
            "sum(rate(requests_total{code=~\"5..\"}[5m]))",
            "rate(queue_seconds_bucket{le=\"0.5\"}[5m])",
            "ttft_seconds_bucket{le=\"+Inf\"}",
            "ttft_seconds_bucket{le=\"0.5\"} - ttft_seconds_bucket{le=\"0.1\"}",
            "é{le=\"1\"}",
        ] {
            assert_eq!(threshold(query), None, "{query}");
        }
    }
}
