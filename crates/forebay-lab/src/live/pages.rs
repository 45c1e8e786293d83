//! Reads pages of metrics before and after a block, and says what has moved.

use std::collections::BTreeMap;

use forebay_wire::engine_metrics::samples;
use serde::Serialize;

/// Series that are kept of one page at most. An engine's page has a few hundred.
const SERIES_MAX: usize = 4_096;

/// The series of a page with their values, by name and labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page(BTreeMap<String, f64>);

/// How a series of a page changed over a block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Its value before.
    pub before: f64,
    /// Its value after.
    pub after: f64,
}

impl Page {
    /// Reads a page; only these metrics, or all where none is named. A sample without a finite
    /// value is left out.
    pub fn read(text: &str, metrics: &[String]) -> Self {
        let is_kept = |name: &str| metrics.is_empty() || metrics.iter().any(|one| one == name);
        let kept = samples(text.as_bytes()).filter(|sample| is_kept(sample.name));
        let series = kept.map(|sample| match sample.labels {
            "" => (sample.name.to_owned(), sample.value),
            labels => (format!("{}{{{labels}}}", sample.name), sample.value),
        });
        Self(series.take(SERIES_MAX).collect())
    }

    /// The sum of a metric over its labels; `None` where the page has no such metric. A counter
    /// that `OpenMetrics` names with `_total` is found by either name.
    pub fn sum(&self, metric: &str) -> Option<f64> {
        let bare = metric.strip_suffix("_total").unwrap_or(metric);
        let is_it = |series: &str| {
            let name = series.split('{').next().unwrap_or_default();
            name == metric || name.strip_suffix("_total") == Some(bare) || name == bare
        };
        let found = self.0.iter().filter(|(series, _)| is_it(series));
        found.fold(None, |sum: Option<f64>, (_, value)| Some(sum.unwrap_or(0.0) + value))
    }

    /// Whether nothing stands on it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its series with their values.
    pub fn into_series(self) -> BTreeMap<String, f64> {
        self.0
    }

    /// Every series that changed from an earlier page to this one. One that was not there before
    /// has begun at 0, as counters do.
    pub fn since(&self, earlier: &Self) -> BTreeMap<String, Change> {
        let change = |(series, after): (&String, &f64)| {
            let before = earlier.0.get(series).copied().unwrap_or(0.0);
            let change = Change { before, after: *after };
            (before.total_cmp(after).is_ne()).then(|| (series.clone(), change))
        };
        self.0.iter().filter_map(change).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Page};

    #[test]
    fn a_counter_is_summed_over_its_labels_by_either_name() {
        let page = Page::read(
            "# TYPE refused counter\nrefused_total{reason=\"shed\"} 3\n\
             refused_total{reason=\"queue_full\"} 4\nrefused_total_other 9\nx NaN\n",
            &[],
        );
        assert_eq!(page.sum("refused_total"), Some(7.0));
        assert_eq!(page.sum("refused"), Some(7.0));
        assert_eq!(page.sum("x"), None);
    }

    #[test]
    fn only_what_moved_is_told_and_what_is_new_began_at_zero() {
        let earlier = Page::read("a 1\nb 2\n", &[]);
        let later = Page::read("a 1\nb 5\nc{x=\"1\"} 2\n", &[]);
        let moved = later.since(&earlier);
        let names: Vec<&str> = moved.keys().map(String::as_str).collect();
        assert_eq!(names, ["b", "c{x=\"1\"}"]);
        assert_eq!(moved["b"], Change { before: 2.0, after: 5.0 });
    }

    #[test]
    fn a_page_may_be_cut_down_to_some_metrics() {
        let page = Page::read("a 1\nb 2\n", &["b".to_owned()]);
        assert_eq!((page.sum("a"), page.sum("b")), (None, Some(2.0)));
    }
}
