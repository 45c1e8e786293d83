//! Opens connections and keeps those that may serve again.

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forebay_core::Span;
use http::header::HOST;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::AlertDescription;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::outgoing::{Noted, Noting, Outgoing};
use super::preface::{Begun, NOT_SPOKEN};
use super::shared::{Place, Pool, Shared};
use super::target::Target;
use super::transport::{Http, Tls, Transport};
use super::witness::Shortage;
use crate::results::{Attempt, Fault};

/// How long an idle connection is used again. Well below the 5 s after which uvicorn, vLLM's
/// server, closes one: a request written as the other side closes can't be told from a lost one.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// How many idle connections are kept for a target. More are closed.
const IDLE_COUNT_MAX: usize = 1_024;
/// How many bytes a server of HTTP/2 may send ahead, on a stream and on a connection.
const WINDOW_BYTES: u32 = 8 << 20;

/// How often a request that no server has looked at is sent: a server that allows few requests on
/// a connection ends it under those that come at once, but not so often in a row.
const SENDS_MAX: usize = 4;
/// How errors end that say that the server has not looked at a request, and that it may be sent
/// again (RFC 9113, section 8.7): the connection's end in good order, and a refused stream. hyper
/// hands on the words only.
const NOT_PROCESSED: [&str; 2] = [
    "connection error received: not a result of an error",
    "stream error received: refused stream before processing any application logic",
];
/// How the error ends of a request that waited for its turn on a connection which ended.
const GONE: &str = "runtime dropped the dispatch task";

/// Why a request has no answer.
enum Sending {
    /// No server has looked at it.
    Unseen(Broken),
    /// It may have been worked on.
    Broken(Broken),
}

/// Why an exchange broke off.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) fault: Fault,
    /// What the endpoint or the network said.
    pub(super) said: String,
    /// What this side lacked, if that was the cause.
    pub(super) shortage: Option<Shortage>,
}

impl Broken {
    /// The other side or the network is at fault.
    pub(super) fn new(fault: Fault, said: impl Into<String>) -> Self {
        Self { fault, said: said.into(), shortage: None }
    }

    fn no_answer(error: &hyper::Error) -> Self {
        Self::unanswered(told(error))
    }

    /// No answer came, since this was said.
    fn unanswered(said: String) -> Self {
        // Of the socket's own error only the words come through the reader of frames.
        match said.find(NOT_SPOKEN) {
            Some(begin) => Self::new(Fault::Connect, &said[begin..]),
            None => Self::new(Fault::NoAnswer, said),
        }
    }

    fn handshake(error: &hyper::Error) -> Self {
        Self::new(Fault::Connect, told(error))
    }

    fn connect(error: &io::Error) -> Self {
        let shortage = Shortage::of(error);
        Self { fault: Fault::Connect, said: error.to_string(), shortage }
    }
}

/// An error with its causes, which say what the outermost only names.
pub(super) fn told(error: &dyn Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Some repeat what their cause says.
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        cause = error.source();
    }
    said
}

/// One open connection of HTTP/1.1. Dropping it closes the socket at once, also in the middle of
/// an answer.
pub(super) struct Connection {
    sender: SendRequest<Outgoing>,
    task: AbortHandle,
    /// When the system last took bytes of it.
    written: Noted,
    open: Arc<AtomicUsize>,
}

impl Connection {
    /// Whether the other side has closed it.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a request is on until its answer has ended. Dropping it ends the answer.
pub(super) enum Line {
    /// A connection of its own.
    Own(Connection),
    /// A place on a shared one.
    Shared(#[expect(dead_code, reason = "it holds the place")] Place),
}

impl Line {
    /// When the last byte of its latest request went out, if the connection knows, and any did
    /// since that moment.
    pub(super) fn written(&self, since: Span) -> Option<Span> {
        match self {
            Self::Own(connection) => connection.written.get().filter(|at| *at >= since),
            // The last byte may be another request's.
            Self::Shared(_) => None,
        }
    }
}

/// Connects to one target.
pub(super) struct Dialer {
    pub(super) target: Target,
    /// All moments count from here.
    start: Instant,
    transport: Transport,
    /// Whether a connection serves one request after another.
    reuse: bool,
    /// Idle connections, the one used last at the end.
    idle: Mutex<Vec<(Instant, Connection)>>,
    shared: Pool,
    /// Connections that are open, of all dialers of a run.
    open: Arc<AtomicUsize>,
}

impl Dialer {
    /// No connection yet. Open ones are counted there.
    pub(super) fn new(
        target: Target,
        (transport, reuse): (&Transport, bool),
        start: Instant,
        open: Arc<AtomicUsize>,
    ) -> Self {
        let (transport, idle, shared) = (transport.clone(), Mutex::default(), Pool::default());
        Self { target, start, transport, reuse, idle, shared, open }
    }

    fn elapsed(&self) -> Span {
        Span(self.start.elapsed().as_nanos() as u64)
    }

    /// Keeps a line whose answer has been read to its end, if it can serve another request.
    pub(super) fn keep(&self, line: Line) {
        let Line::Own(connection) = line else { return };
        if !self.reuse {
            return;
        }
        let now = Instant::now();
        let mut kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // They were put there in the order of time, so the stale ones come first.
        let stale = kept.iter().take_while(|(since, _)| now - *since > IDLE_MAX).count();
        kept.drain(..stale);
        if kept.len() < IDLE_COUNT_MAX {
            kept.push((now, connection));
        }
    }

    /// Takes the connection that was used last, unless all have been idle for too long.
    fn take(&self) -> Option<Connection> {
        let mut kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((since, connection)) = kept.pop() {
            if since.elapsed() > IDLE_MAX {
                kept.clear();
            } else if !connection.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    /// Sends a request on a line of its own or a shared one, and waits for the head of its answer.
    ///
    /// A request that an idle connection did not take, because the other side had closed it, goes
    /// out on a new one. One that was written is never sent twice.
    pub(super) async fn send(
        &self,
        request: Request<Outgoing>,
        attempt: &mut Attempt,
    ) -> Result<(Response<Incoming>, Line), Broken> {
        match self.transport.http {
            Http::One => self.send_alone(request, attempt).await,
            Http::Two => self.send_among(request, attempt).await,
        }
    }

    async fn send_alone(
        &self,
        mut request: Request<Outgoing>,
        attempt: &mut Attempt,
    ) -> Result<(Response<Incoming>, Line), Broken> {
        while let Some(mut connection) = self.take() {
            if connection.sender.ready().await.is_err() {
                continue;
            }
            attempt.connected = Some(self.elapsed());
            attempt.is_reused = true;
            match connection.sender.try_send_request(request).await {
                Ok(response) => return Ok((response, Line::Own(connection))),
                Err(mut refused) => match refused.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(Broken::no_answer(refused.error())),
                },
            }
        }
        (attempt.connected, attempt.is_reused) = (None, false);
        let mut connection = self.open().await?;
        attempt.connected = Some(self.elapsed());
        let sent = connection.sender.send_request(request).await;
        let response = sent.map_err(|error| Broken::no_answer(&error))?;
        Ok((response, Line::Own(connection)))
    }

    async fn send_among(
        &self,
        mut request: Request<Outgoing>,
        attempt: &mut Attempt,
    ) -> Result<(Response<Incoming>, Line), Broken> {
        // What HTTP/1.1 says in a header, HTTP/2 says in the target.
        request.headers_mut().remove(HOST);
        *request.uri_mut() = self.target.whole();
        for _ in 1..SENDS_MAX {
            match self.send_on_place(request.clone(), attempt).await {
                Err(Sending::Unseen(_)) => {}
                Err(Sending::Broken(broken)) => return Err(broken),
                Ok(answered) => return Ok(answered),
            }
        }
        self.send_on_place(request, attempt).await.map_err(|sending| match sending {
            Sending::Unseen(broken) | Sending::Broken(broken) => broken,
        })
    }

    /// Sends a request on a connection that has room for it.
    async fn send_on_place(
        &self,
        request: Request<Outgoing>,
        attempt: &mut Attempt,
    ) -> Result<(Response<Incoming>, Line), Sending> {
        let placed = self.shared.place(self.reuse, self.open_shared()).await;
        let (mut place, is_reused) = placed.map_err(Sending::Broken)?;
        (attempt.connected, attempt.is_reused) = (Some(self.elapsed()), is_reused);
        let sent = place.sender.try_send_request(request).await;
        let response = sent.map_err(|mut refused| {
            let said = told(refused.error());
            let was_kept = refused.take_message().is_some() || said.ends_with(GONE);
            // What ended the connection is told to those that were on it, and not to who waited.
            let ended_by = place.ended_by().filter(|_| was_kept).map(str::to_owned);
            let is_unseen = was_kept || NOT_PROCESSED.iter().any(|words| said.ends_with(words));
            match Broken::unanswered(ended_by.unwrap_or(said)) {
                broken if is_unseen && broken.fault != Fault::Connect => Sending::Unseen(broken),
                broken => Sending::Broken(broken),
            }
        })?;
        place.is_answered();
        Ok((response, Line::Shared(place)))
    }

    async fn open(&self) -> Result<Connection, Broken> {
        let written = Noted::new(self.start);
        let socket = TokioIo::new(self.dial(written.clone()).await?);
        let opened = http1::handshake(socket).await;
        let (sender, driver) = opened.map_err(|error| Broken::handshake(&error))?;
        // What goes wrong on the connection is told to the request that is on it.
        let task = tokio::spawn(async move { drop(driver.await) }).abort_handle();
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(Connection { sender, task, written, open: Arc::clone(&self.open) })
    }

    async fn open_shared(&self) -> Result<Shared, Broken> {
        let socket = TokioIo::new(self.dial(Noted::new(self.start)).await?);
        // The largest windows that are usual: a slow reader is no part of what is measured.
        let opened = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            // What is sent before the server has said how much it allows may be refused.
            .initial_max_send_streams(1)
            .handshake(socket)
            .await;
        let (sender, driver) = opened.map_err(|error| Broken::handshake(&error))?;
        Ok(Shared::new(sender, driver, Arc::clone(&self.open)))
    }

    /// A socket to the target, through TLS where its URL says so.
    async fn dial(&self, written: Noted) -> Result<Box<dyn Socket>, Broken> {
        let at = (self.target.host.as_str(), self.target.port);
        let socket = TcpStream::connect(at).await.map_err(|error| Broken::connect(&error))?;
        socket.set_nodelay(true).map_err(|error| Broken::connect(&error))?;
        let socket = Noting::new(socket, written);
        if !self.target.is_tls {
            return Ok(match self.transport.http {
                Http::One => Box::new(socket),
                Http::Two => Box::new(Begun::new(socket)),
            });
        }
        let broken = |said: String| Broken::new(Fault::Connect, said);
        let Some(Tls(config)) = &self.transport.tls else {
            return Err(broken("TLS is not set up".to_owned()));
        };
        let name = ServerName::try_from(self.target.host.clone());
        let name = name.map_err(|error| broken(error.to_string()))?;
        let secured = TlsConnector::from(Arc::clone(config)).connect(name, socket).await;
        let not_spoken = || broken(format!("{NOT_SPOKEN}: ask it in HTTP/1.1"));
        let secured = secured.map_err(|error| match refused_by(&error) {
            Some(AlertDescription::NoApplicationProtocol) => not_spoken(),
            _ => broken(format!("TLS is not agreed on: {error}")),
        })?;
        let agreed = secured.get_ref().1.alpn_protocol();
        if self.transport.http == Http::Two && agreed != Some(b"h2") {
            return Err(not_spoken());
        }
        Ok(Box::new(secured))
    }
}

/// What the other side's refusal of TLS says.
fn refused_by(error: &io::Error) -> Option<AlertDescription> {
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}

/// A stream of bytes in both directions.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}
