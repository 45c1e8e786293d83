//! Sends a request to the worker that was chosen, and begins to pass its answer on.
//!
//! Nothing reaches the client before the first piece of the answer is here: until then whatever
//! goes wrong with the worker can be mended elsewhere, and after that nothing can.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::{Outcome, RefusalReason};
use forebay_wire::openai::Splice;
use forebay_wire::unasked::UnaskedUsage;
use http::uri::PathAndQuery;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use tokio::time::{Instant, sleep, timeout_at};

use super::body::{Begun, RelayBody, ReplyBody, Scan};
use super::{Account, Taken, decide, head};
use crate::otel::Sent;
use crate::refuse::Denial;
use crate::workers::Worker;
use crate::workers::connect::{Connection, Manner};

/// Gets an answer for a request that has its seat: from whichever worker gives one.
#[expect(
    clippy::manual_async_fn,
    reason = "an async fn has room for what it is given twice, and this waits"
)]
pub(super) fn relay(
    mut taken: Taken,
    mut account: Account,
) -> impl Future<Output = Response<ReplyBody>> + Send {
    async move {
        let mut faults = 0;
        let ends_by = ends_by(&taken);
        loop {
            let decided = timeout_at(ends_by, decide::decide(&mut account, &mut taken)).await;
            let too_late = |_| Err(Denial::plain(RefusalReason::WaitedTooLong));
            let worker = match decided.unwrap_or_else(too_late) {
                Ok(worker) => worker,
                Err(denial) => {
                    account.deny(&denial, None);
                    return denial.response(Some(taken.endpoint));
                }
            };
            // In a box, since most of what it needs room for is not there while the request waits.
            let attempt = Box::pin(attempt(&taken, &mut account, &worker, (faults, ends_by))).await;
            if let Some(how) = attempt.failure() {
                account.record.trace.left(&taken.gateway.clock, how);
            }
            match attempt {
                Attempt::Answer(answer) => return pass_on(account, &taken, worker, *answer),
                Attempt::Backpressure => account.seat().try_elsewhere(Outcome::Backpressure),
                // Its worker has left, and the next decision is here.
                Attempt::Lost => {}
                Attempt::Broke(why) => {
                    faults += 1;
                    let name = &worker.name;
                    tracing::debug!(worker = %name, why, "a worker broke before the first byte");
                    let now = taken.gateway.clock.now();
                    let tenant = taken.identity.tenant;
                    if !taken.gateway.retries.may_retry(tenant, now, &taken.rules) {
                        let denial = Denial::plain(RefusalReason::UpstreamFailed);
                        account.deny(&denial, Some(Outcome::BrokeMidStream));
                        return denial.response(Some(taken.endpoint));
                    }
                    account.seat().try_elsewhere(Outcome::Broke);
                }
                Attempt::TooLate => {
                    // Its time is over, and the worker had perhaps only the last of it: no fault.
                    let denial = Denial::plain(RefusalReason::UpstreamTimeout);
                    account.deny(&denial, None);
                    return denial.response(Some(taken.endpoint));
                }
                Attempt::Silent => {
                    let denial = Denial::plain(RefusalReason::UpstreamTimeout);
                    account.deny(&denial, Some(Outcome::BrokeMidStream));
                    return denial.response(Some(taken.endpoint));
                }
            }
        }
    }
}

/// What came of sending a request to a worker.
enum Attempt {
    /// It answers.
    Answer(Box<Answer>),
    /// It has no room: its own 429 or 503.
    Backpressure,
    /// It left while the request was on its way.
    Lost,
    /// It could not be reached, or broke before the first byte.
    Broke(&'static str),
    /// It did not answer in time.
    Silent,
    /// The time is over that a request may take in all.
    TooLate,
}

/// When a request has taken as long as it may, from its arrival on.
fn ends_by(taken: &Taken) -> Instant {
    let clock = taken.gateway.clock;
    Instant::from_std(clock.instant(taken.arrived)) + taken.rules.timeouts.total
}

impl Attempt {
    /// Why there is no answer, in a word.
    fn failure(&self) -> Option<&'static str> {
        match self {
            Self::Answer(_) => None,
            Self::Backpressure => Some("backpressure"),
            Self::Lost => Some("lost"),
            Self::Broke(_) => Some("broke"),
            Self::Silent => Some("silent"),
            Self::TooLate => Some("too_late"),
        }
    }
}

/// An answer whose first piece is here.
struct Answer {
    head: http::response::Parts,
    /// Whether its worker was made to tell more than its client asked for.
    unasked: bool,
    scan: Scan,
    first: Option<Bytes>,
    rest: Incoming,
    connection: Connection,
}

async fn attempt(
    taken: &Taken,
    account: &mut Account,
    worker: &Arc<Worker>,
    (faults, ends_by): (u32, Instant),
) -> Attempt {
    let (rules, pool) = (&taken.rules, usize::from(account.seat().pool().id.0));
    let asks = rules.ask_usage.get(pool).copied().unwrap_or(false);
    let splice = taken.ask_usage.as_ref().filter(|_| asks);
    let told = account.record.trace.sent(&taken.gateway.clock, &worker.name);
    let request = |manner: &Manner| request_for(taken, worker, (manner, &told), splice);
    let begin = async {
        let within = taken.rules.timeouts.connect;
        let Ok(mut connection) = worker.connect(taken.lane, within).await else {
            return Attempt::Broke("it can't be connected to");
        };
        let mut sent = connection.send(request(&connection.manner)).await;
        if sent.is_err() && connection.reused {
            // An idle connection that the worker was closing: that says nothing of the worker.
            worker.idle.close();
            let Ok(newer) = worker.connect_anew(taken.lane, within).await else {
                return Attempt::Broke("it can't be connected to any more");
            };
            connection = newer;
            sent = connection.send(request(&connection.manner)).await;
        }
        let Ok(response) = sent else { return Attempt::Broke("it closed the connection") };
        worker.alive(taken.gateway.clock.now());
        judge(taken, response, (connection, splice.is_some()), faults).await
    };
    let (first_byte, left) =
        (taken.rules.timeouts.first_byte, ends_by.saturating_duration_since(Instant::now()));
    let late = if left < first_byte { Attempt::TooLate } else { Attempt::Silent };
    within((left.min(first_byte), late), account, begin).await
}

/// Looks at the head of a response, and waits for its first piece.
async fn judge(
    taken: &Taken,
    response: Response<Incoming>,
    (connection, unasked): (Connection, bool),
    faults: u32,
) -> Attempt {
    let (head, mut rest) = response.into_parts();
    match head.status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            return Attempt::Backpressure;
        }
        // A second worker that says so about the same request makes it the request's fault.
        status if status.is_server_error() && faults == 0 => {
            return Attempt::Broke("it answered with an error of its own");
        }
        _ => {}
    }
    let first = loop {
        match rest.frame().await {
            None => break None,
            Some(Err(_)) => return Attempt::Broke("it broke off before the first byte"),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => break Some(data),
                Err(_trailers) => {}
            },
        }
    };
    let mut scan = Scan::of(taken.endpoint, &head);
    scan.feed(first.as_deref().unwrap_or_default());
    if faults == 0 && head.status.is_success() && scan.failed() {
        return Attempt::Broke("it failed before the first token");
    }
    Attempt::Answer(Box::new(Answer { head, unasked, scan, first, rest, connection }))
}

/// Does something within a bound of time, after which it is `late`, or until the request's worker
/// is lost.
async fn within(
    (time, late): (Duration, Attempt),
    account: &mut Account,
    act: impl Future<Output = Attempt>,
) -> Attempt {
    let mut act = pin!(act);
    let mut time = pin!(sleep(time));
    let mut late = Some(late);
    poll_fn(|cx| {
        if let Poll::Ready(attempt) = act.as_mut().poll(cx) {
            return Poll::Ready(attempt);
        }
        if account.seat().poll_news(cx).is_ready() {
            return Poll::Ready(Attempt::Lost);
        }
        Pin::as_mut(&mut time).poll(cx).map(|()| late.take().unwrap_or(Attempt::Silent))
    })
    .await
}

/// The request as the worker gets it: the same bytes, but for what the pool is meant to ask; its
/// own host, and nothing of the client's connection.
fn request_for(
    taken: &Taken,
    worker: &Worker,
    (manner, told): (&Manner, &Sent),
    splice: Option<&Splice>,
) -> Request<Full<Bytes>> {
    let spliced = splice.map(|splice| Bytes::from(splice.apply(&taken.body)));
    let mut request = Request::new(Full::new(spliced.unwrap_or_else(|| taken.body.clone())));
    *request.method_mut() = taken.head.method.clone();
    *request.uri_mut() = uri(taken.head.path.as_ref(), &worker.url.path_prefix);
    let keyed = !taken.rules.keys.is_empty();
    *request.headers_mut() = head::to_worker(&taken.head.headers, &manner.headers, keyed);
    request.headers_mut().insert(http::header::HOST, worker.authority.clone());
    told.mark(request.headers_mut());
    request
}

fn uri(asked: Option<&PathAndQuery>, prefix: &str) -> Uri {
    let Some(asked) = asked else { return Uri::from_static("/") };
    if prefix.is_empty() {
        return Uri::from(asked.clone());
    }
    let whole = format!("{prefix}{asked}");
    whole.parse().unwrap_or_else(|_| Uri::from(asked.clone()))
}

/// The client's answer, which goes on by itself from here.
fn pass_on(
    mut account: Account,
    taken: &Taken,
    worker: Arc<Worker>,
    answer: Answer,
) -> Response<ReplyBody> {
    let Answer { mut head, unasked, scan, first, rest, connection } = answer;
    account.record.first_byte = Some(taken.gateway.clock.now());
    account.record.status = head.status.as_u16();
    account.unload();
    head::to_client(&mut head.headers);
    if matches!(scan, Scan::Events(_)) {
        // One that breaks off ends in an error of ours, which its length knows nothing of.
        head.headers.remove(http::header::CONTENT_LENGTH);
        head::unbuffered(&mut head.headers);
    }
    let unasked = unasked && matches!(scan, Scan::Events(_));
    let begun = Begun {
        scan,
        unasked: unasked.then(UnaskedUsage::default),
        status: head.status,
        first,
        rest,
        connection,
        worker,
        timeouts: taken.rules.timeouts,
    };
    head.version = http::Version::HTTP_11;
    Response::from_parts(head, ReplyBody::relay(RelayBody::new(account, begun)))
}
