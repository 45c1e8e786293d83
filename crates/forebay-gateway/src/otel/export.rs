//! Sends spans to a collector, on a thread of its own: several requests together, each batch within
//! a bound of time, and again after a while if it did not arrive.
//!
//! Whatever the collector does, what it costs is bounded: requests that wait to be sent (those on
//! top are dropped and counted), the tries of one batch, the pause between them, and the time at
//! the end of the gateway.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use tokio::runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::context::Ids;
use super::spans::{self, About, Noted};
use super::{SpanCounts, TracerError};
use crate::clock::Clock;
use crate::config::{Config, Otel, PoolTls, WorkerUrl};
use crate::request::Record;
use crate::workers::connect::{WorkerTls, dial};

/// Where a collector takes traces, below its endpoint.
const TRACES: &str = "/v1/traces";
/// How often one batch is sent: what fails four times in a row fails for longer than a batch is
/// worth keeping.
const TRIES_MAX: u32 = 4;
/// The pause after a failure, which doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// The longest pause: a collector that is back is found within it.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Most bytes of a collector's answer that are read. It is mostly empty.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// When to have ended at the latest, once that is known.
type Closing = watch::Receiver<Option<Instant>>;

/// Takes requests that are over, and has their spans sent.
#[derive(Debug)]
pub(crate) struct Tracer {
    pub(super) ids: Ids,
    queue: mpsc::Sender<Noted>,
    counts: Arc<Counts>,
    closing: watch::Sender<Option<Instant>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Counts {
    exported: AtomicU64,
    queue_full: AtomicU64,
    export_failed: AtomicU64,
}

/// What traces requests, if they are to be traced.
pub(crate) fn tracer(config: &Config, clock: Clock) -> Result<Option<Tracer>, TracerError> {
    let Some(otel) = &config.otel else { return Ok(None) };
    let about = About {
        service_name: otel.service_name.clone(),
        scheme: if config.listen.tls.is_some() { "https" } else { "http" },
        pools: config.pools.iter().map(|pool| pool.name.clone()).collect(),
        clock,
    };
    Tracer::open(otel, about).map(Some)
}

impl Tracer {
    /// Begins to send.
    fn open(otel: &Otel, about: About) -> Result<Self, TracerError> {
        let tls = PoolTls { ca: otel.ca.clone(), ..PoolTls::default() };
        let counts = Arc::<Counts>::default();
        let exporter = Exporter {
            about,
            tls: WorkerTls::of(&tls, &otel.endpoint)?,
            collector: otel.endpoint.clone(),
            headers: headers(otel),
            batch_len_max: otel.batch_len_max,
            interval: otel.interval,
            timeout: otel.timeout,
            pause: PAUSE_MIN,
            fails: false,
            counts: Arc::clone(&counts),
        };
        let (queue, noted) = mpsc::channel(otel.queue_len_max);
        let (closing, closes) = watch::channel(None);
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("forebay-otel".to_owned()).spawn(move || {
            runtime.block_on(exporter.work(noted, closes));
            // A look-up of a name may hang for longer than anybody waits.
            runtime.shutdown_background();
        })?;
        Ok(Self {
            ids: Ids::drawn(otel.sample_ratio)?,
            queue,
            counts,
            closing,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Has the spans of a request sent, or counts them as dropped.
    pub(crate) fn note(&self, record: &Record, names: [Option<Arc<str>>; 2]) {
        if record.trace.kept().is_none() {
            return;
        }
        if let Err(refused) = self.queue.try_send(Noted { record: record.clone(), names }) {
            let len = refused.into_inner().len();
            self.counts.queue_full.fetch_add(len, Ordering::Relaxed);
        }
    }

    /// What was sent and dropped so far.
    pub(crate) fn counts(&self) -> SpanCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SpanCounts {
            exported: of(&self.counts.exported),
            queue_full: of(&self.counts.queue_full),
            export_failed: of(&self.counts.export_failed),
        }
    }

    /// Sends what waits, for at most this long, and ends.
    pub(crate) fn close(&self, within: Duration) {
        self.closing.send_replace(Some(Instant::now() + within));
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // One that panicked has said so itself.
            drop(thread.join());
        }
    }
}

/// What is sent along with every batch.
fn headers(otel: &Otel) -> HeaderMap {
    let mut headers = otel.headers.clone();
    if let Ok(authority) = HeaderValue::from_str(&otel.endpoint.authority) {
        headers.insert(HOST, authority);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    headers.insert(USER_AGENT, HeaderValue::from_static("forebay"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers
}

/// The thread's own.
struct Exporter {
    about: About,
    collector: WorkerUrl,
    tls: Option<WorkerTls>,
    headers: HeaderMap,
    batch_len_max: usize,
    interval: Duration,
    timeout: Duration,
    /// The pause after the next failure.
    pause: Duration,
    /// Whether the last try failed, and that was said.
    fails: bool,
    counts: Arc<Counts>,
}

/// What came of a try.
enum Sent {
    /// The collector has taken it.
    Taken,
    /// It may take it later.
    NotNow(String),
    /// It will never take it.
    Never(StatusCode),
}

impl Exporter {
    /// Sends until nobody notes anything any more, or until told to end.
    async fn work(mut self, mut queue: mpsc::Receiver<Noted>, mut closing: Closing) {
        loop {
            let batch = self.gather(&mut queue, &mut closing).await;
            if batch.is_empty() {
                return;
            }
            self.deliver(&batch, &mut closing).await;
        }
    }

    /// The next batch: full, or what has come in an interval. An empty one is the end.
    async fn gather(&self, queue: &mut mpsc::Receiver<Noted>, closing: &mut Closing) -> Vec<Noted> {
        let mut batch = Vec::new();
        let mut until = None;
        while batch.len() < self.batch_len_max {
            tokio::select! {
                biased;
                () = asked(closing), if !queue.is_closed() => queue.close(),
                noted = queue.recv() => match noted {
                    Some(noted) => batch.push(noted),
                    None => break,
                },
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => break,
            }
            until = until.or_else(|| Some(Instant::now() + self.interval));
        }
        batch
    }

    /// Sends a batch, again if need be, and counts what became of it.
    async fn deliver(&mut self, batch: &[Noted], closing: &mut Closing) {
        let body = Bytes::from(spans::request(batch, &self.about));
        let len: u64 = batch.iter().map(Noted::len).sum();
        for _ in 0..TRIES_MAX {
            let sent = tokio::select! {
                biased;
                sent = self.send(body.clone()) => sent,
                () = over(closing) => Sent::NotNow("the gateway has ended".to_owned()),
            };
            match sent {
                Sent::Taken => {
                    self.pause = PAUSE_MIN;
                    self.say(None);
                    self.counts.exported.fetch_add(len, Ordering::Relaxed);
                    return;
                }
                Sent::Never(status) => {
                    self.say(Some(&format!("the collector answers with {status}")));
                    break;
                }
                Sent::NotNow(why) => self.say(Some(&why)),
            }
            if closing.borrow().is_some() {
                break;
            }
            let pause = self.pause;
            self.pause = (pause * 2).min(PAUSE_MAX);
            tokio::select! {
                () = sleep(pause) => {}
                () = asked(closing) => {}
            }
        }
        self.counts.export_failed.fetch_add(len, Ordering::Relaxed);
    }

    /// Which answers may be better later is said by the protocol's specification ("Retryable
    /// Response Codes").
    async fn send(&self, body: Bytes) -> Sent {
        match timeout(self.timeout, self.post(body)).await {
            Err(_) => Sent::NotNow("the collector does not answer in time".to_owned()),
            Ok(Err(error)) => Sent::NotNow(error.to_string()),
            Ok(Ok(status)) if status.is_success() => Sent::Taken,
            Ok(Ok(status)) if [429, 502, 503, 504].contains(&status.as_u16()) => {
                Sent::NotNow(format!("the collector answers with {status}"))
            }
            Ok(Ok(status)) => Sent::Never(status),
        }
    }

    /// Posts on a connection of its own: there is about one batch a second, and a connection that
    /// was kept may be one that the collector is closing.
    async fn post(&self, body: Bytes) -> io::Result<StatusCode> {
        let path = format!("{}{TRACES}", self.collector.path_prefix);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = path.parse().unwrap_or_else(|_| Uri::from_static(TRACES));
        *request.headers_mut() = self.headers.clone();
        let mut connection = dial(&self.collector, self.tls.as_ref()).await?;
        let response = connection.send_request(request).await.map_err(io::Error::other)?;
        let status = response.status();
        // Read to its end, so that the collector does not see a reset. What it says is of no use.
        drop(Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await);
        Ok(status)
    }

    /// Says that sending fails, once until it works again, and that it does.
    fn say(&mut self, why: Option<&str>) {
        match why {
            Some(why) if !self.fails => {
                let collector = &self.collector;
                tracing::warn!(%collector, why, "traces can't be sent, and get lost");
            }
            None if self.fails => tracing::info!("traces are sent again"),
            _ => {}
        }
        self.fails = why.is_some();
    }
}

/// Waits until it is asked to end, or nobody is left who could ask.
async fn asked(closing: &mut Closing) {
    drop(closing.wait_for(Option::is_some).await);
}

/// Waits until it must have ended.
async fn over(closing: &mut Closing) {
    let by = closing.wait_for(Option::is_some).await.ok().and_then(|by| *by);
    if let Some(by) = by {
        sleep_until(by).await;
    }
}
