//! Finds out whether a worker has stalled, and whether one that was lost works again.
//!
//! A worker that computes gives signs of it: bytes, or counts that grow. One that owes a stream its
//! next piece and gives none for long has stalled, whatever its health page says: that page is
//! often answered by another process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::{Moment, Span};
use http::StatusCode;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::Worker;
use super::fetch::{Question, ask};
use super::models;
use super::options::WatchOptions;

/// Attempts at a completion that may run at once. One that was swallowed while the worker stalled
/// is never answered, so the next one does not wait for it. The first one is kept for a worker that
/// is slow; the others make room for new ones.
const ATTEMPTS_MAX: usize = 4;
/// Rounds of attempts in one trial: after that the worker is probed again.
const ROUNDS_MAX: u32 = 8;
/// The most bytes of the answer to an attempt.
const BYTES_MAX: usize = 256 << 10;

/// Counts a stream among those that wait for their worker's next piece, while it does.
#[derive(Debug)]
pub(crate) struct Owed {
    worker: Arc<Worker>,
    owed: bool,
}

impl Owed {
    /// A stream of this worker that waits for nothing yet.
    pub(crate) fn by(worker: &Arc<Worker>) -> Self {
        Self { worker: Arc::clone(worker), owed: false }
    }

    /// Whether the next piece is the worker's to give from now on.
    pub(crate) fn set(&mut self, owed: bool) {
        match (self.owed, owed) {
            (false, true) => self.worker.owing.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.worker.owing.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        };
        self.owed = owed;
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// For how long a worker has owed something without a sign of life.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    owes_since: Option<Moment>,
}

impl Quiet {
    /// How long it lasts by now.
    pub(super) fn lasts(&mut self, now: Moment, owing: u32, life: Moment) -> Span {
        if owing == 0 {
            self.owes_since = None;
            return Span::ZERO;
        }
        let since = *self.owes_since.get_or_insert(now);
        now.since(since.max(life))
    }
}

/// Whether a worker computes: it is asked for one token, again and again, until one of the answers
/// comes or it is time to look at its health again.
pub(super) async fn computes(worker: &Arc<Worker>, options: &WatchOptions) -> bool {
    let mut attempts = JoinSet::new();
    let mut handles = Vec::with_capacity(ATTEMPTS_MAX);
    for _ in 0..ROUNDS_MAX {
        handles.retain(|handle: &AbortHandle| !handle.is_finished());
        if handles.len() >= ATTEMPTS_MAX {
            handles.remove(1).abort();
        }
        handles.push(attempts.spawn(attempt(Arc::clone(worker), options.clone())));
        let mut round = std::pin::pin!(sleep(options.probe.attempt_every));
        loop {
            tokio::select! {
                answered = attempts.join_next() => match answered {
                    Some(Ok(true)) => return true,
                    Some(_) => {}
                    // All have failed, and at once: whoever probes it will come back.
                    None => return false,
                },
                () = &mut round => break,
            }
        }
    }
    false
}

async fn attempt(worker: Arc<Worker>, options: WatchOptions) -> bool {
    if worker.models.get().is_empty() {
        models::refresh(&worker, &options.models_path, options.probe.timeout).await;
    }
    let model = worker.models.get().first().map(|model| model.name.clone());
    let mut body = serde_json::json!({ "prompt": "1", "max_tokens": 1 });
    if let Some(model) = model {
        body["model"] = model.into();
    }
    completes(&worker, Bytes::from(body.to_string()), options.probe.attempt_max).await
}

async fn completes(worker: &Worker, body: Bytes, within: Duration) -> bool {
    let question =
        Question { path: "/v1/completions", body: Some(body), within, bytes_max: BYTES_MAX };
    let answer = ask(worker, question).await;
    // A model that completes nothing (embeddings) says so with a 4xx, and works.
    answer.is_ok_and(|answer| {
        answer.status.is_success()
            || answer.status.is_client_error() && answer.status != StatusCode::REQUEST_TIMEOUT
    })
}
