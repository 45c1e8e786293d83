//! Writes the reference of metrics from the list that the scraped page is made of.

use std::fmt::Write as _;

use forebay_gateway::{METRICS, Metric, MetricKind};

use super::NOTE;
use crate::workspace::Workspace;

const ABOUT: &str = "\
`/metrics` is OpenMetrics text, and needs no key. Labels are `pool` and `class` by their names in
the configuration, `worker` by its URL, and `reason` from a closed list ([refusals](refusals.md)):
never a tenant, a request's name, or anything that a client or a worker has said. A histogram `x` is
scraped as `x_bucket`, `x_count` and `x_sum`.

Nothing gets lost: for each pool and class, at every moment,

```text
offered = completed + refused + failed + client_faults + abandoned + spilled + open
```

A request is counted as offered when its pool's core is asked, and once more in the pool it spills
to, where it ends. What ends before its pool and class are known (a wrong key, an unknown
path or model, a broken body) is counted with both labels empty.

Counts of requests move when the request ends, but for `offered`, `dispatched`, `spilled` and the
wait, which move when it happens.";

/// A section for each kind of thing that is counted.
pub(super) fn page(_: &Workspace) -> anyhow::Result<String> {
    let mut page = format!("# Metrics\n\n{NOTE}\n\n{ABOUT}\n\n");
    page.push_str("| metric | labels | what it means | when it moves |\n|---|---|---|---|\n");
    for metric in METRICS {
        let Metric { labels, means, advice, .. } = metric;
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, labels) = (metric.full_name(), labels.join(" "));
        writeln!(page, "| `{name}` ({kind}) | {labels} | {means} | {advice} |")?;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::page;
    use crate::workspace::Workspace;

    #[test]
    fn every_metric_is_one_row_and_no_text_breaks_the_table() {
        let text = page(&Workspace::find().unwrap()).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `forebay_")).collect();
        assert_eq!(rows.len(), forebay_gateway::METRICS.len());
        assert!(rows.iter().all(|row| row.matches('|').count() == 5), "{rows:#?}");
    }
}
