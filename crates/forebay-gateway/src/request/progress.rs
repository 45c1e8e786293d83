//! Tells a streaming client that it waits, where the service wants that.
//!
//! Proxies cut a connection on which nothing comes, typically after a minute. A comment line of the
//! stream counts as life to them and as nothing to the client. The first one commits the status: a
//! later refusal is an error event in the stream, and counts as a refusal all the same.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use forebay_core::Moment;
use forebay_wire::openai::Endpoint;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body::Body as _;
use serde_json::value::RawValue;
use tokio::time::{Instant, Sleep, sleep};

use super::body::{BrokenOff, ReplyBody};
use super::classify::Classified;
use super::{Record, Taken, decide, head, relay};
use crate::clock::Clock;

/// Most bytes of a worker's refusal that is passed on as an event.
const SAID_BYTES_MAX: usize = 64 << 10;
/// What is said in place of a refusal that can't be passed on.
const UNSAID: &str = "{\"error\":{\"message\":\"The model refused the request.\",\
    \"type\":\"upstream_error\",\"param\":null,\"code\":\"upstream_failed\"}}";

/// Offers a request to its pool's core, and says what works on its answer.
pub(super) fn offer(mut taken: Taken, classified: Classified, record: Record) -> Work {
    let every = taken.rules.progress.filter(|_| classified.stream);
    let (clock, arrived, endpoint) = (taken.gateway.clock, taken.arrived, taken.endpoint);
    let account = decide::offer(&mut taken, classified, record);
    let work: Work = Box::pin(relay::relay(taken, account));
    match every {
        None => work,
        Some(every) => Box::pin(commented(work, every, (clock, arrived, endpoint))),
    }
}

/// What works on an answer.
pub(super) type Work = Pin<Box<dyn Future<Output = Response<ReplyBody>> + Send>>;

/// Answers at once where it can, and with comments first where a stream's client must wait.
async fn commented(
    mut work: Work,
    every: Duration,
    (clock, arrived, endpoint): (Clock, Moment, Endpoint),
) -> Response<ReplyBody> {
    // Whoever need not wait gets his own status.
    if let Ok(response) = tokio::time::timeout(every, &mut work).await {
        return response;
    }
    let queued = Queued {
        work: Stage::Waits(work),
        every,
        bell: Box::pin(sleep(Duration::ZERO)),
        clock,
        arrived,
        endpoint,
    };
    let mut response = Response::new(ReplyBody::Queued(Box::new(queued)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    head::unbuffered(headers);
    response
}

enum Stage {
    Waits(Work),
    Runs(ReplyBody),
    /// Its status can't be said any more: what it says is gathered into one event.
    Fails(ReplyBody, Vec<u8>),
    Over,
}

/// A stream whose request waits.
pub(crate) struct Queued {
    work: Stage,
    every: Duration,
    bell: Pin<Box<Sleep>>,
    clock: Clock,
    arrived: Moment,
    endpoint: Endpoint,
}

impl std::fmt::Debug for Queued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queued").field("every", &self.every).finish_non_exhaustive()
    }
}

impl Queued {
    /// The next piece of the stream.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        loop {
            match &mut self.work {
                Stage::Over => return Poll::Ready(None),
                Stage::Runs(body) => {
                    return Pin::new(body)
                        .poll_frame(cx)
                        .map(|frame| Some(frame?.map(|it| it.into_data().unwrap_or_default())));
                }
                Stage::Fails(body, said) => {
                    match std::task::ready!(Pin::new(body).poll_frame(cx)) {
                        Some(Ok(frame)) if said.len() <= SAID_BYTES_MAX => {
                            said.extend_from_slice(&frame.into_data().unwrap_or_default());
                        }
                        Some(Ok(_)) => {}
                        Some(Err(_)) | None => {
                            let event = in_band(said, self.endpoint);
                            self.work = Stage::Over;
                            return Poll::Ready(Some(Ok(event)));
                        }
                    }
                }
                Stage::Waits(work) => match work.as_mut().poll(cx) {
                    Poll::Ready(response) => {
                        let (head, body) = response.into_parts();
                        if head.status == StatusCode::OK {
                            self.work = Stage::Runs(body);
                            continue;
                        }
                        self.work = Stage::Fails(body, Vec::new());
                    }
                    Poll::Pending => {
                        if self.bell.as_mut().poll(cx).is_pending() {
                            return Poll::Pending;
                        }
                        self.bell.as_mut().reset(Instant::now() + self.every);
                        let waited = self.clock.now().since(self.arrived).as_secs_f64();
                        let comment = format!(": queued wait_s={waited:.0}\n\n");
                        return Poll::Ready(Some(Ok(Bytes::from(comment))));
                    }
                },
            }
        }
    }
}

/// A refusal's body as the last events of a stream that has begun. A worker's own may be of any
/// form; what is no JSON, or too long to be a refusal, is not passed on.
fn in_band(said: &[u8], endpoint: Endpoint) -> Bytes {
    let fits = said.len() <= SAID_BYTES_MAX;
    let error = serde_json::from_slice::<&RawValue>(said).ok().filter(|_| fits);
    let error = error.map_or(UNSAID, RawValue::get);
    // Line ends of JSON can only stand between its tokens, and would end the event's line here.
    let error = error.replace(['\r', '\n'], " ");
    Bytes::from(if endpoint == Endpoint::Messages {
        format!("event: error\ndata: {error}\n\n")
    } else {
        format!("data: {error}\n\ndata: [DONE]\n\n")
    })
}
