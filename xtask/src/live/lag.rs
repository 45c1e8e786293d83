//! Holds the lag that the load client reports for itself against what a server saw.
//!
//! The server notes when each request had come, on the same clock. Twice: with other threads that
//! take every processor, and with a generator that may have too few requests under way, whose run
//! must be invalid.
//! Exit codes: 0 both agree, 1 one does not.

use std::future::pending;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use forebay_core::Span;
use forebay_lab::load::{Ended, Planned, Settings, run as send};

use crate::say::say;

/// Requests a second.
const RATE: u64 = 200;
/// Requests of a run.
const REQUESTS: u64 = 1_000;
/// How far the two may be apart, at the median and at the 99th percentile.
const APART_MAX_MS: f64 = 2.0;
/// Requests under way of the generator that falls behind, and how long each takes: 133 a second.
const FEW: (usize, Duration) = (4, Duration::from_millis(30));
const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                      content-length: 48\r\n\r\n\
                      data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n\n";

/// When the request with this number had come.
type Arrivals = Arc<Mutex<Vec<(u64, Instant)>>>;

/// Runs both checks.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let is_over = Arc::new(AtomicBool::new(false));
    let burners: Vec<_> = (0..thread::available_parallelism().map_or(2, usize::from))
        .map(|_| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || while !is_over.load(Ordering::Relaxed) {})
        })
        .collect();
    let with_others = measured(None);
    is_over.store(true, Ordering::Relaxed);
    for burner in burners {
        ensure!(burner.join().is_ok(), "a thread that burns time has failed");
    }
    let mut agrees = told("every processor taken by others", &with_others?);
    let behind = measured(Some(FEW))?;
    agrees &= told("too few requests under way", &behind);
    let is_invalid = behind.ended.invalid.iter().any(|it| it.reason == "lag");
    say(&format!("  that run is {}", if is_invalid { "INVALID, as it must be" } else { "valid" }));
    Ok(if agrees && is_invalid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A run, seen from both sides, in milliseconds.
struct Measured {
    own: Vec<f64>,
    seen: Vec<f64>,
    ended: Ended,
}

/// Sends a run, with so few under way, and each served for so long.
fn measured(few: Option<(usize, Duration)>) -> anyhow::Result<Measured> {
    let arrivals: Arrivals = Arc::default();
    let address = server(&arrivals, few.map_or(Duration::ZERO, |(_, time)| time))?;
    let target = format!("http://{address}/v1/completions").parse()?;
    let all = Settings::for_targets(vec![target]);
    let settings = Settings { in_flight_max: few.map_or(all.in_flight_max, |few| few.0), ..all };
    let plan = (0..REQUESTS).map(|nth| Planned {
        at: Span(nth * 1_000_000_000 / RATE),
        body: format!("{{\"nth\":{nth}}}").into(),
        ..Planned::default()
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut rows = Vec::new();
    let ended = runtime.block_on(send(plan, &settings, |row| rows.push(row), pending()));
    let start = settings.pulse.started().context("the run has started")?.into_std();
    let arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut own, mut seen) = (Vec::new(), Vec::new());
    for (nth, at) in &*arrivals {
        let row = rows.iter().find(|row| row.request == *nth).context("a row is missing")?;
        let due = start + Duration::from_nanos(row.scheduled.0);
        own.push(row.lag().context("a request was not sent")?.as_millis_f64());
        seen.push(at.saturating_duration_since(due).as_secs_f64() * 1e3);
    }
    ensure!(own.len() as u64 == REQUESTS, "only {} requests came", own.len());
    own.sort_by(f64::total_cmp);
    seen.sort_by(f64::total_cmp);
    Ok(Measured { own, seen, ended })
}

/// Says what both saw, and whether that is the same.
fn told(what: &str, measured: &Measured) -> bool {
    let Measured { own, seen, .. } = measured;
    let rank = |values: &[f64], percent: usize| values[(values.len() * percent).div_ceil(100) - 1];
    let mut agrees = true;
    for percent in [50, 99] {
        let (own, seen) = (rank(own, percent), rank(seen, percent));
        let apart = (seen - own).abs();
        agrees &= apart <= APART_MAX_MS;
        say(&format!(
            "{what}: p{percent} of its own lag {own:.2} ms, the server saw {seen:.2} ms: \
             {apart:.2} ms apart, at most {APART_MAX_MS} are allowed"
        ));
    }
    agrees
}

/// A server that ends with this process.
fn server(arrivals: &Arrivals, time: Duration) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let arrivals = Arc::clone(arrivals);
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let arrivals = Arc::clone(&arrivals);
            thread::spawn(move || carry(socket, &arrivals, time));
        }
    });
    Ok(address)
}

fn carry(mut socket: TcpStream, arrivals: &Arrivals, time: Duration) {
    let (mut asked, mut piece) = (Vec::new(), [0; 4_096]);
    while let Ok(more @ 1..) = socket.read(&mut piece) {
        let now = Instant::now();
        asked.extend_from_slice(&piece[..more]);
        // The body is one short object, at the end of the request.
        if asked.last() != Some(&b'}') {
            continue;
        }
        let text = String::from_utf8_lossy(&asked);
        let nth = text.rsplit(':').next().and_then(|nth| nth.trim_end_matches('}').parse().ok());
        let Some(nth) = nth else { return };
        arrivals.lock().unwrap_or_else(PoisonError::into_inner).push((nth, now));
        asked.clear();
        thread::sleep(time);
        if socket.write_all(ANSWER.as_bytes()).is_err() {
            return;
        }
    }
}
