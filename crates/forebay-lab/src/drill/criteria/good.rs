//! Says what makes a completed request good rather than slow.

use super::Metric;

/// A limit that a completed request must keep to be good.
#[derive(Clone, Debug, PartialEq)]
pub struct GoodLimit {
    /// The class it is about; `None` is every class without a limit of its own on this latency.
    pub class: Option<String>,
    /// The latency.
    pub metric: Metric,
    /// The most that is good, in milliseconds.
    pub ms_max: f64,
}

impl GoodLimit {
    /// The latencies of a request that may be limited: a client sees no queue.
    pub(super) const METRICS: [Metric; 3] = [Metric::Ttft, Metric::Itl, Metric::E2e];

    /// Its key in a file, dotted.
    pub(super) fn key(&self) -> String {
        match &self.class {
            None => format!("good.{}", self.metric.key()),
            Some(class) => format!("class.{class:?}.good.{}", self.metric.key()),
        }
    }
}

/// The most of each latency that is good, in milliseconds; infinite where there is no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Good {
    /// Time to first token.
    pub ttft_ms_max: f64,
    /// Mean gap between tokens.
    pub itl_ms_max: f64,
    /// Time to the last token.
    pub e2e_ms_max: f64,
}

impl Good {
    /// Those for a request of this class: its own limits, and the general ones where it has none.
    pub(super) fn of(limits: &[GoodLimit], class: Option<&str>) -> Self {
        let most = |metric: Metric| {
            let of = |class: Option<&str>| {
                let mut found = limits.iter().filter(|limit| limit.class.as_deref() == class);
                found.find(|limit| limit.metric == metric).map(|limit| limit.ms_max)
            };
            class.and_then(|class| of(Some(class))).or_else(|| of(None)).unwrap_or(f64::INFINITY)
        };
        Self {
            ttft_ms_max: most(Metric::Ttft),
            itl_ms_max: most(Metric::Itl),
            e2e_ms_max: most(Metric::E2e),
        }
    }

    /// Whether a completed request with these latencies is good. One without gaps has none that
    /// are too long.
    pub fn is_kept(&self, ttft_ms: f64, itl_ms: Option<f64>, e2e_ms: f64) -> bool {
        ttft_ms <= self.ttft_ms_max
            && itl_ms.is_none_or(|itl| itl <= self.itl_ms_max)
            && e2e_ms <= self.e2e_ms_max
    }
}
