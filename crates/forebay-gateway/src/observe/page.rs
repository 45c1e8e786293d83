//! Writes the page that is scraped: counts as they are, and gauges as the pools are at that moment.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_core::{ClassId, PoolId, RefusalReason, Span};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::Observe;
use super::catalogue::{self, Kind, METRICS, Metric};
use super::histogram::Counted;
use super::series::Series;
use super::table::Table;
use crate::gateway::Gateway;
use crate::listen::ConnectionCounts;
use crate::otel::SpanCounts;
use crate::pool::Pool;
use crate::workers::{FiguresView, WorkerReport};

/// What the page is, for its `Content-Type`.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Nanoseconds in a second, and thousandths in a whole.
const SECOND: f64 = 1e9;
const WHOLE: f64 = 1e3;

type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
enum Value {
    Counter(u64),
    Gauge(f64),
    Histogram(Counted),
}

/// The samples of every metric, in the order of the catalogue.
#[derive(Debug)]
struct Samples(Vec<(&'static Metric, Vec<(Labels, Value)>)>);

impl Samples {
    fn put(&mut self, metric: &Metric, values: &[&str], value: Value) {
        debug_assert_eq!(values.len(), metric.labels.len(), "{}", metric.name);
        let labels = metric.labels.iter().zip(values);
        let labels = labels.map(|(label, value)| (*label, (*value).to_owned())).collect();
        let family = self.0.iter_mut().find(|(listed, _)| listed.name == metric.name);
        if let Some((_, samples)) = family {
            samples.push((labels, value));
        }
    }

    fn counter(&mut self, metric: &Metric, labels: &[&str], value: u64) {
        self.put(metric, labels, Value::Counter(value));
    }

    fn gauge(&mut self, metric: &Metric, labels: &[&str], value: f64) {
        self.put(metric, labels, Value::Gauge(value));
    }

    fn histogram(&mut self, metric: &Metric, labels: &[&str], value: Counted) {
        self.put(metric, labels, Value::Histogram(value));
    }
}

impl Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for (metric, samples) in self.0.iter().filter(|(_, samples)| !samples.is_empty()) {
            let kind = match metric.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let unit = Unit::Other(metric.unit.to_owned());
            let unit = (!metric.unit.is_empty()).then_some(&unit);
            let mut family = encoder.encode_descriptor(metric.name, metric.means, unit, kind)?;
            for (labels, value) in samples {
                if labels.is_empty() {
                    value.encode(&mut family)?;
                } else {
                    value.encode(&mut family.encode_family(labels)?)?;
                }
            }
        }
        Ok(())
    }
}

impl Value {
    fn encode(&self, encoder: &mut MetricEncoder) -> fmt::Result {
        match self {
            Self::Counter(value) => encoder.encode_counter::<NoLabelSet, _, u64>(value, None),
            Self::Gauge(value) => encoder.encode_gauge(value),
            Self::Histogram(counted) => {
                let Counted { sum, buckets } = counted;
                encoder.encode_histogram::<NoLabelSet>(*sum, counted.count(), buckets, None)
            }
        }
    }
}

impl Observe {
    /// The page that is scraped, in the text form of `OpenMetrics`.
    pub(crate) fn page(&self, gateway: &Gateway) -> String {
        let mut samples = Samples(METRICS.iter().map(|metric| (*metric, Vec::new())).collect());
        let table = self.table();
        series(&mut samples, ["", ""], &table.outside);
        for (nth, pool) in gateway.pools.iter().enumerate() {
            self.pool(&mut samples, &table, pool);
            for report in gateway.fleet.get().map(|fleet| fleet.reports(nth)).unwrap_or_default() {
                figures(&mut samples, pool, &report);
            }
        }
        samples.gauge(&catalogue::HELD, &[], gateway.held.bytes() as f64);
        samples.gauge(&catalogue::READY, &[], f64::from(u8::from(gateway.is_ready())));
        if let Some(counts) = self.connections.get() {
            connections(&mut samples, counts);
        }
        if let Some(tracer) = self.tracer() {
            spans(&mut samples, tracer.counts());
        }
        samples.counter(&catalogue::LOG_DROPPED, &[], self.log_dropped());
        samples.gauge(&catalogue::UPTIME, &[], gateway.clock.now().0 as f64 / SECOND);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(samples));
        let mut page = String::new();
        let written = text::encode(&mut page, &registry);
        debug_assert!(written.is_ok(), "a string takes anything");
        page
    }

    fn pool(&self, samples: &mut Samples, table: &Table, pool: &Arc<Pool>) {
        let name = pool.name.as_str();
        let waiting = pool.queue_lens();
        for (nth, class) in table.classes.iter().enumerate() {
            let labels = [name, class];
            series(samples, labels, table.of(Some(pool.id), Some(ClassId(nth as u16))));
            let waiting = waiting.get(nth).copied().unwrap_or(0);
            samples.gauge(&catalogue::WAITING, &labels, f64::from(waiting));
        }
        samples.gauge(&catalogue::RUNNING, &[name], pool.census().running as f64);
        samples.histogram(&catalogue::DECISION, &[name], pool.decisions.counted(SECOND));
        samples.gauge(&catalogue::TOKEN_BYTES, &[name], pool.ratio.bytes_per_token());
        if let Some(gaps) = self.gaps(pool.id) {
            samples.histogram(&catalogue::GAP, &[name], gaps.counted(SECOND));
        }
        self.recording(samples, pool.id, name);
        workers(samples, pool);
    }

    fn recording(&self, samples: &mut Samples, pool: PoolId, name: &str) {
        let Some(state) = self.recordings.get(usize::from(pool.0)) else { return };
        let goes_on = f64::from(u8::from(state.goes_on()));
        samples.gauge(&catalogue::RECORDING, &[name], goes_on);
        samples.counter(&catalogue::RECORDED, &[name], state.bytes());
    }
}

/// The samples of one class in one pool.
fn series(samples: &mut Samples, labels: [&str; 2], series: &Series) {
    // First what has ended, so that no request is missing from the difference.
    let ended = series.ended_len();
    let offered = series.offered.get();
    samples.gauge(&catalogue::OPEN, &labels, offered.saturating_sub(ended) as f64);
    let counts = [
        (&catalogue::OFFERED, offered),
        (&catalogue::DISPATCHED, series.dispatched.get()),
        (&catalogue::COMPLETED, series.completed.get()),
        (&catalogue::CLIENT_FAULTS, series.client_faults.get()),
        (&catalogue::ABANDONED, series.abandoned.get()),
        (&catalogue::SPILLED, series.spilled.get()),
        (&catalogue::RETRIES, series.retries.get()),
        (&catalogue::RETURNED, series.returned.get()),
        (&catalogue::RETURNED_REFUSED, series.returned_refused.get()),
    ];
    for (metric, count) in counts {
        samples.counter(metric, &labels, count);
    }
    for reason in RefusalReason::ALL {
        let count = series.denied(reason);
        let metric = if reason.is_failure() { &catalogue::FAILED } else { &catalogue::REFUSED };
        // What never happened has no series: most reasons can't happen to most classes.
        if count > 0 {
            samples.counter(metric, &[labels[0], labels[1], reason.label()], count);
        }
    }
    if labels == ["", ""] {
        return;
    }
    let histograms = [
        (&catalogue::QUEUE_WAIT, &series.queue_wait, SECOND),
        (&catalogue::PREDICTED, &series.predicted, SECOND),
        (&catalogue::PREDICTION, &series.prediction, WHOLE),
        (&catalogue::TTFT, &series.ttft, SECOND),
        (&catalogue::LATENCY, &series.latency, SECOND),
        (&catalogue::UNCACHED, &series.uncached, 1.0),
        (&catalogue::RETRY_AFTER, &series.retry_after, SECOND),
        (&catalogue::RETURNED_WAIT, &series.returned_wait, SECOND),
    ];
    for (metric, histogram, unit) in histograms {
        samples.histogram(metric, &labels, histogram.counted(unit));
    }
}

/// The samples of spans, where requests are traced.
fn spans(samples: &mut Samples, counts: SpanCounts) {
    samples.counter(&catalogue::SPANS_EXPORTED, &[], counts.exported);
    samples.counter(&catalogue::SPANS_DROPPED, &["queue_full"], counts.queue_full);
    samples.counter(&catalogue::SPANS_DROPPED, &["export_failed"], counts.export_failed);
}

/// The samples of clients' connections.
fn connections(samples: &mut Samples, counts: &ConnectionCounts) {
    let total = |count: &AtomicU64| count.load(Ordering::Relaxed);
    samples.gauge(&catalogue::CONNECTIONS, &[], counts.open.load(Ordering::Relaxed) as f64);
    samples.counter(&catalogue::ACCEPTED, &[], total(&counts.accepted_total));
    let faults = [
        ("refused", &counts.refused_total),
        ("accept_failed", &counts.accept_failed_total),
        ("handshake_failed", &counts.handshake_failed_total),
        ("header_timeout", &counts.header_timeouts_total),
        ("idle_timeout", &counts.idle_timeouts_total),
        ("write_timeout", &counts.write_timeouts_total),
        ("bad_request", &counts.bad_requests_total),
        ("cut", &counts.cut_total),
    ];
    for (reason, count) in faults {
        samples.counter(&catalogue::CONNECTION_FAULTS, &[reason], total(count));
    }
}

/// What a worker says of itself.
fn figures(samples: &mut Samples, pool: &Pool, report: &WorkerReport) {
    let labels = [pool.name.as_str(), &*report.name];
    let FiguresView { age, running, waiting, preemptions_total } = report.figures;
    let gauges = [
        (&catalogue::FIGURES_AGE, age.map(Span::as_secs_f64)),
        (&catalogue::ENGINE_RUNNING, running.map(|len| len as f64)),
        (&catalogue::ENGINE_WAITING, waiting.map(|len| len as f64)),
    ];
    for (metric, value) in gauges {
        if let Some(value) = value {
            samples.gauge(metric, &labels, value);
        }
    }
    if let Some(total) = preemptions_total {
        samples.counter(&catalogue::PREEMPTIONS, &labels, total);
    }
}

/// The samples of a pool's workers. One that has left the list has no name any more.
fn workers(samples: &mut Samples, pool: &Pool) {
    let now = pool.clock().now();
    for view in pool.workers() {
        let Some(worker) = pool.roster.get(view.worker) else { continue };
        let labels = [pool.name.as_str(), &worker.name];
        let gauges = [
            (&catalogue::WORKER_USABLE, f64::from(u8::from(view.usable))),
            (&catalogue::WORKER_RUNNING, f64::from(view.running)),
            (&catalogue::WORKER_BACKLOG, view.backlog.as_f64()),
            (&catalogue::WORKER_COMMITTED, view.committed.as_f64()),
            (&catalogue::WORKER_CAPACITY, view.capacity.as_f64()),
            (&catalogue::WORKER_GATE, view.fraction),
            (&catalogue::WORKER_SILENCE, now.since(worker.last_byte()).as_secs_f64()),
        ];
        for (metric, value) in gauges {
            samples.gauge(metric, &labels, value);
        }
    }
}
