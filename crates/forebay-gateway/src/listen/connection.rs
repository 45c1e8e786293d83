//! Carries one connection, from its first byte to its end.
//!
//! hyper's two protocols are driven directly. `hyper_util::server::conn::auto` would choose between
//! them as well, but hides HTTP/1's bound on the bytes of headers, and gives the socket back to
//! nobody who has something left to say on it.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn, ready};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderValue, Request, Version};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::aside::{Answer, Opening, Patience, Work, wait};
use super::counts::count;
use super::pulse::{Doing, Order, Pulse, Watched};
use super::reply::{Reply, Running, TOO_SLOW};
use super::tls::{Fingerprint, HTTP2};
use super::vet::vet;
use super::{ConnectionCounts, DEFAULT_HEADERS_MAX, Handle, Listening, Peer};

/// What every HTTP/2 connection begins with, RFC 9113 §3.4.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How often a busy HTTP/2 connection is asked whether it still lives, and how long it may take to
/// say so. TCP's own keep-alive does the same for HTTP/1.
const PING_EVERY: Duration = Duration::from_secs(20);
const PONG_WITHIN: Duration = Duration::from_secs(20);

/// Streams that a client opened and reset before they were looked at, and streams reset because
/// the client broke a rule: more of them at once end its connection. h2's own defaults, pinned:
/// they are what stops "rapid reset" (CVE-2023-44487) and "made you reset" (CVE-2025-8671).
const PENDING_RESETS_MAX: usize = 20;
const LOCAL_RESETS_MAX: usize = 1024;

/// How long the refusal of a slow header may take to send.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What the connections of a lane share.
pub(super) struct Desk<H> {
    handle: Arc<H>,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    tls: Option<TlsAcceptor>,
    lane: usize,
    pub(super) counts: Arc<ConnectionCounts>,
    /// Answers ask the client to come back on another connection, since this one ends soon.
    pub(super) closing: AtomicBool,
}

impl<H: Handle> Desk<H> {
    pub(super) fn new(
        listening: &Listening,
        lane: usize,
        handle: Arc<H>,
        counts: Arc<ConnectionCounts>,
    ) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            .header_read_timeout(None)
            .half_close(false)
            .max_header_size(listening.headers_bytes_max)
            .max_buf_size(listening.buffer_bytes_max.max(listening.headers_bytes_max).max(8192));
        if listening.headers_max != DEFAULT_HEADERS_MAX {
            http1.max_headers(listening.headers_max);
        }
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(listening.streams_max)
            .max_header_list_size(u32::try_from(listening.headers_bytes_max).unwrap_or(u32::MAX))
            .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
            .max_local_error_reset_streams(LOCAL_RESETS_MAX)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PONG_WITHIN);
        let tls = listening.tls.clone().map(TlsAcceptor::from);
        let closing = AtomicBool::new(false);
        Self { handle, http1, http2, tls, lane, counts, closing }
    }
}

/// Carries a connection until it ends.
pub(super) async fn carry<H: Handle>(
    desk: Arc<Desk<H>>,
    socket: TcpStream,
    addr: SocketAddr,
    pulse: Arc<Pulse>,
) {
    poll_fn(|context| {
        pulse.belong_to(context);
        Poll::Ready(())
    })
    .await;
    let patience = Patience::new(&pulse);
    let peer = Peer { addr, lane: desk.lane, certificate: None, patience };
    // What not every connection comes to is boxed: a task is as large as its largest way.
    if desk.tls.is_some() {
        Box::pin(greet(Seat { desk, peer, pulse }, socket)).await;
    } else {
        let seat = Arc::new(Seat { desk, peer, pulse });
        let mut io = Watched::new(socket, Arc::clone(&seat.pulse));
        speak(&mut io, seat).await;
    }
}

/// Shakes hands over TLS, and carries on.
async fn greet<H: Handle>(mut seat: Seat<H>, socket: TcpStream) {
    let Some(tls) = &seat.desk.tls else { return };
    seat.pulse.greet();
    let Some(Ok(socket)) = unless_ordered(&seat.pulse, tls.accept(socket)).await else {
        count(&seat.desk.counts.handshake_failed_total);
        return;
    };
    seat.pulse.greeted();
    let session = socket.get_ref().1;
    let certificate = session.peer_certificates().and_then(<[_]>::first).map(Fingerprint::of);
    seat.peer.certificate = certificate;
    let multiplexed = session.alpn_protocol() == Some(HTTP2);
    let mut io = Watched::new(socket, Arc::clone(&seat.pulse));
    if multiplexed {
        speak_http2(&mut io, Arc::new(seat)).await;
    } else {
        speak(&mut io, Arc::new(seat)).await;
    }
}

/// Finds out which protocol the client speaks, and speaks it.
async fn speak<H, I>(io: &mut Watched<I>, seat: Arc<Seat<H>>)
where
    H: Handle,
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let greeting = poll_fn(|context| io.poll_begins_with(context, PREFACE));
    match unless_ordered(&seat.pulse, greeting).await {
        Some(Ok(true)) => Box::pin(speak_http2(io, seat)).await,
        Some(Ok(false)) => speak_http1(io, seat).await,
        None if seat.pulse.doing() == Doing::Header => Box::pin(say_too_slow(io)).await,
        Some(Err(_)) | None => {}
    }
}

async fn speak_http1<H, I>(io: &mut Watched<I>, seat: Arc<Seat<H>>)
where
    H: Handle,
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let pulse = &*seat.pulse;
    let work = Arc::new(Work::default());
    let mut closes = false;
    loop {
        let service = service_fn(|request| {
            let work = Arc::clone(&work);
            if !work.is_done() {
                work.begin(Opening::of(&request), answer(seat.begin(), request));
            }
            async move { Ok::<_, Infallible>(work.response().await) }
        });
        // In a box, so that its room is free while a request waits.
        let hyper = seat.desk.http1.serve_connection(TokioIo::new(&mut *io), service);
        let mut hyper = Box::new(hyper);
        let finish = |hyper: Pin<&mut _>| {
            closes = true;
            http1::Connection::graceful_shutdown(hyper);
        };
        match drive(pulse, &mut *hyper, finish, || work.may_wait()).await {
            Ended::Waits => {}
            Ended::TooSlow => {
                drop(hyper);
                return Box::pin(say_too_slow(io)).await;
            }
            Ended::Itself(Err(error)) if error.is_parse() => {
                return count(&seat.desk.counts.bad_requests_total);
            }
            Ended::Itself(_) | Ended::Cut => return,
        }
        let read = { hyper }.into_parts().read_buf;
        io.put_back(&read);
        drop(read);
        let Some(opening) = wait(&work, io, pulse, &mut closes).await else { return };
        io.put_back(opening.again(closes).as_bytes());
    }
}

async fn speak_http2<H, I>(io: &mut Watched<I>, seat: Arc<Seat<H>>)
where
    H: Handle,
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    seat.pulse.multiplex();
    let its = Arc::clone(&seat);
    let service = service_fn(move |request| {
        let answer = answer(its.begin(), request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut connection = seat.desk.http2.serve_connection(TokioIo::new(io), service);
    let finish = http2::Connection::graceful_shutdown;
    // Whatever it was, hyper has told the client; and its streams end with it.
    match drive(&seat.pulse, &mut connection, finish, || false).await {
        Ended::Itself(Err(error)) if breaks_rules(&error) => {
            count(&seat.desk.counts.bad_requests_total);
        }
        Ended::Itself(_) | Ended::Cut | Ended::TooSlow | Ended::Waits => {}
    }
}

/// Whether an HTTP/2 connection ended because its client broke the rules, and did not only go.
fn breaks_rules(error: &hyper::Error) -> bool {
    let is_of_the_socket = error.source().is_some_and(<dyn Error>::is::<io::Error>);
    !is_of_the_socket && !error.is_timeout()
}

/// How a connection ended.
enum Ended {
    Itself(hyper::Result<()>),
    TooSlow,
    Cut,
    /// It has not: its request waits.
    Waits,
}

/// Runs a connection, and does to it what its lane orders.
async fn drive<C>(
    pulse: &Pulse,
    connection: &mut C,
    mut finish: impl FnMut(Pin<&mut C>),
    may_wait: impl Fn() -> bool,
) -> Ended
where
    C: Future<Output = hyper::Result<()>> + Unpin,
{
    poll_fn(|context| {
        loop {
            if let Poll::Ready(result) = Pin::new(&mut *connection).poll(context) {
                return Poll::Ready(Ended::Itself(result));
            }
            if pulse.take_waits() && may_wait() {
                return Poll::Ready(Ended::Waits);
            }
            match (pulse.take_order(), pulse.doing()) {
                (Order::CloseIdle, Doing::Idle) | (Order::Finish, _) => {
                    finish(Pin::new(&mut *connection));
                }
                (Order::RefuseHeader, Doing::Header) => return Poll::Ready(Ended::TooSlow),
                (Order::Cut, _) => return Poll::Ready(Ended::Cut),
                _ => return Poll::Pending,
            }
        }
    })
    .await
}

/// Does what comes before the first request, unless the lane wants the connection ended.
async fn unless_ordered<F: Future>(pulse: &Pulse, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        match (pulse.take_order(), pulse.doing()) {
            (Order::CloseIdle, Doing::Idle)
            | (Order::RefuseHeader, Doing::Header)
            | (Order::Cut, _) => Poll::Ready(None),
            _ => Poll::Pending,
        }
    })
    .await
}

async fn say_too_slow<I: AsyncRead + AsyncWrite + Unpin>(io: &mut Watched<I>) {
    let words = async {
        io.write_all(TOO_SLOW).await?;
        io.shutdown().await
    };
    // Whether it arrives is up to the client.
    let _ = timeout(LAST_WORDS, words).await;
}

/// What the requests of one connection share.
struct Seat<H> {
    desk: Arc<Desk<H>>,
    peer: Peer,
    pulse: Arc<Pulse>,
}

impl<H> Seat<H> {
    /// Counts a request in, before anything waits.
    fn begin(self: &Arc<Self>) -> (Arc<Self>, Running) {
        (Arc::clone(self), Running::new(Arc::clone(&self.pulse)))
    }
}

/// The way from hyper to the handler. The future is made here and not at its first turn, so that it
/// need not hold the request.
fn answer<H: Handle>(
    (seat, running): (Arc<Seat<H>>, Running),
    request: Request<Incoming>,
) -> Answer<H::Body> {
    let over_http1 = request.version() < Version::HTTP_2;
    if let Err(fault) = vet(&request) {
        count(&seat.desk.counts.bad_requests_total);
        return Box::pin(ready(Reply::refusing(fault, over_http1, running)));
    }
    let handled = Arc::clone(&seat.desk.handle).handle(request, &seat.peer);
    Box::pin(async move {
        let mut response = Reply::of_handler(handled.await, running);
        if over_http1 && seat.desk.closing.load(Ordering::Relaxed) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    })
}
