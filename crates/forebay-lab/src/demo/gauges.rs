//! Reads what a gateway says of itself, from the page that everybody may scrape.

use crate::load::{Target, fetch};

/// What the gateway's metrics say, summed over classes and workers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Gauges {
    /// Requests that wait at the door.
    pub(super) waiting: f64,
    /// Requests on workers.
    pub(super) running: f64,
    /// KV tokens that are committed.
    pub(super) committed: f64,
    /// KV tokens that the workers hold.
    pub(super) capacity: f64,
}

/// The gauges of the page there, if it can be had.
pub(super) async fn read(metrics: &Target) -> Option<Gauges> {
    Some(of(&fetch(metrics).await.ok()?))
}

fn of(page: &str) -> Gauges {
    Gauges {
        waiting: sum(page, "forebay_requests_waiting"),
        running: sum(page, "forebay_requests_running"),
        committed: sum(page, "forebay_worker_kv_committed_tokens"),
        capacity: sum(page, "forebay_worker_kv_capacity_tokens"),
    }
}

/// The sum of all samples of one metric. Names of pools and classes may hold anything, so a value
/// is looked for from the end of a line.
fn sum(page: &str, metric: &str) -> f64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(metric)?;
        let value = rest.rsplit(' ').next()?;
        rest.starts_with(['{', ' ']).then(|| value.parse::<f64>().ok())?
    };
    page.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::{Gauges, of};

    #[test]
    fn samples_of_a_metric_are_summed_and_no_others() {
        let page = "# TYPE forebay_requests_waiting gauge\n\
                    forebay_requests_waiting{pool=\"a } 7\",class=\"x\"} 3\n\
                    forebay_requests_waiting{pool=\"a\",class=\"y\"} 4\n\
                    forebay_requests_waiting_more 9\n\
                    forebay_requests_running{pool=\"a\"} 5.0\n\
                    forebay_worker_kv_committed_tokens{pool=\"a\",worker=\"w\"} 1e3\n\
                    # EOF\n";
        let gauges = Gauges { waiting: 7.0, running: 5.0, committed: 1000.0, capacity: 0.0 };
        assert_eq!(of(page), gauges);
        assert_eq!(of("anything else"), Gauges::default());
    }
}
