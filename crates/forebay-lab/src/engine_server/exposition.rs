//! Writes samples in the text format of Prometheus, in the order and form of Python's client.

use std::fmt::Write as _;

/// Values by upper bound.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    bounds: Vec<f64>,
    /// Values in each bucket, and behind them those above all bounds.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// An empty histogram with these bounds, in rising order.
    pub(super) fn new(bounds: &[f64]) -> Self {
        Self { bounds: bounds.to_vec(), counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Takes a value so many times.
    pub(super) fn observe(&mut self, value: f64, times: u64) {
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        self.counts[bucket] += times;
        self.sum += value * times as f64;
    }
}

/// A text of samples, all of one model.
#[derive(Debug)]
pub(super) struct Exposition {
    text: String,
    model: String,
    created: f64,
}

impl Exposition {
    /// No samples yet; `created` is when counting began, in seconds since the epoch of Unix.
    pub(super) fn new(model: &str, created: f64) -> Self {
        let model = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        Self { text: String::with_capacity(65_536), model, created }
    }

    /// The text.
    pub(super) fn finish(self) -> String {
        self.text
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let text = &mut self.text;
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("a String takes all");
    }

    fn sample(&mut self, name: &str, labels: &str, value: f64) {
        writeln!(self.text, "{name}{{{labels}}} {value:?}").expect("a String takes all");
    }

    /// The labels of an engine's sample, in alphabetical order as the captures have them.
    fn labels(&self, more: &str) -> String {
        let model = format!("model_name=\"{}\"", self.model);
        let engine = "engine=\"0\"";
        match more {
            "" => format!("{engine},{model}"),
            more if more < "model_name" => format!("{engine},{more},{model}"),
            more => format!("{engine},{model},{more}"),
        }
    }

    /// What Python's client says of its process, as far as it is the same here.
    pub(super) fn process(&mut self) {
        let name = "process_start_time_seconds";
        self.head(name, "Start time of the process since unix epoch in seconds.", "gauge");
        let created = self.created;
        writeln!(self.text, "{name} {created:?}").expect("a String takes all");
    }

    /// Values that go up and down, by further labels.
    pub(super) fn gauge(&mut self, name: &str, help: &str, rows: &[(&str, f64)]) {
        self.head(name, help, "gauge");
        for (more, value) in rows {
            self.sample(name, &self.labels(more), *value);
        }
    }

    /// A gauge of 1 with labels of its own.
    pub(super) fn labelled_gauge(&mut self, name: &str, help: &str, labels: &str) {
        self.head(name, help, "gauge");
        self.sample(name, labels, 1.0);
    }

    /// Counts of an engine, by further labels.
    pub(super) fn counter(&mut self, name: &str, help: &str, rows: &[(&str, u64)]) {
        let rows: Vec<_> = rows.iter().map(|(more, count)| (self.labels(more), *count)).collect();
        self.plain_counter(name, help, &rows);
    }

    /// Counts of the server before its engine: without the label of an engine.
    pub(super) fn counter_of_server(&mut self, name: &str, help: &str, rows: &[(&str, u64)]) {
        let labels = |more: &str| format!("model_name=\"{}\",{more}", self.model);
        let rows: Vec<_> = rows.iter().map(|(more, count)| (labels(more), *count)).collect();
        self.plain_counter(name, help, &rows);
    }

    /// Counts with all of their labels.
    pub(super) fn plain_counter(&mut self, name: &str, help: &str, rows: &[(String, u64)]) {
        let total = format!("{name}_total");
        self.head(&total, help, "counter");
        for (labels, count) in rows {
            self.sample(&total, labels, *count as f64);
        }
        let created = format!("{name}_created");
        self.head(&created, help, "gauge");
        for (labels, _) in rows {
            self.sample(&created, labels, self.created);
        }
    }

    /// Values of an engine by upper bound.
    pub(super) fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, help, "histogram");
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        let bounds = histogram.bounds.iter().map(|bound| format!("{bound:?}"));
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(&histogram.counts) {
            below += count;
            self.sample(&bucket, &self.labels(&format!("le=\"{bound}\"")), below as f64);
        }
        self.sample(&format!("{name}_count"), &self.labels(""), below as f64);
        self.sample(&format!("{name}_sum"), &self.labels(""), histogram.sum);
        self.gauge(&format!("{name}_created"), help, &[("", self.created)]);
    }
}

#[cfg(test)]
mod tests {
    use super::{Exposition, Histogram};

    #[test]
    fn a_value_at_a_bound_is_below_it_and_buckets_add_up() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        histogram.observe(1.0, 2);
        histogram.observe(1.5, 1);
        histogram.observe(9.0, 1);
        let mut to = Exposition::new("a \"b\"", 0.0);
        to.histogram("x", "Help.", &histogram);
        let text = to.finish();
        for line in [
            "x_bucket{engine=\"0\",le=\"1.0\",model_name=\"a \\\"b\\\"\"} 2.0",
            "x_bucket{engine=\"0\",le=\"2.0\",model_name=\"a \\\"b\\\"\"} 3.0",
            "x_bucket{engine=\"0\",le=\"+Inf\",model_name=\"a \\\"b\\\"\"} 4.0",
            "x_sum{engine=\"0\",model_name=\"a \\\"b\\\"\"} 12.5",
        ] {
            assert!(text.lines().any(|said| said == line), "{text}");
        }
    }
}
