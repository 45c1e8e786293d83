//! Opens connections and keeps those that may serve again.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forebay_core::Span;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::outgoing::{Noted, Noting, Outgoing};
use super::target::Target;
use super::witness::Shortage;
use crate::results::{Attempt, Fault};

/// How long an idle connection is used again. Well below the 5 s after which uvicorn, vLLM's
/// server, closes one: a request written as the other side closes can't be told from a lost one.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// How many idle connections are kept for a target. More are closed.
const IDLE_COUNT_MAX: usize = 1_024;

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

    fn connect(error: &io::Error) -> Self {
        let shortage = Shortage::of(error);
        Self { fault: Fault::Connect, said: error.to_string(), shortage }
    }
}

/// One open connection. Dropping it closes the socket at once, also in the middle of an answer.
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

    /// When the last byte of its latest request went out, if any did since that moment.
    pub(super) fn written(&self, since: Span) -> Option<Span> {
        self.written.get().filter(|at| *at >= since)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connects to one target.
pub(super) struct Dialer {
    pub(super) target: Target,
    /// All moments count from here.
    start: Instant,
    /// Idle connections, the one used last at the end.
    idle: Mutex<Vec<(Instant, Connection)>>,
    /// Connections that are open, of all dialers of a run.
    open: Arc<AtomicUsize>,
}

impl Dialer {
    /// No connection yet. Open ones are counted there.
    pub(super) fn new(target: Target, start: Instant, open: Arc<AtomicUsize>) -> Self {
        Self { target, start, idle: Mutex::default(), open }
    }

    fn elapsed(&self) -> Span {
        Span(self.start.elapsed().as_nanos() as u64)
    }

    /// Keeps a connection whose answer has been read to its end.
    pub(super) fn keep(&self, connection: Connection) {
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

    /// Sends a request on an idle connection or a new one, and waits for the head of its answer.
    ///
    /// A request that an idle connection did not take, because the other side had closed it, goes
    /// out on a new one. One that was written is never sent twice.
    pub(super) async fn send(
        &self,
        mut request: Request<Outgoing>,
        attempt: &mut Attempt,
    ) -> Result<(Response<Incoming>, Connection), Broken> {
        let no_answer = |error: &hyper::Error| Broken::new(Fault::NoAnswer, error.to_string());
        while let Some(mut connection) = self.take() {
            if connection.sender.ready().await.is_err() {
                continue;
            }
            attempt.connected = Some(self.elapsed());
            attempt.is_reused = true;
            match connection.sender.try_send_request(request).await {
                Ok(response) => return Ok((response, connection)),
                Err(mut refused) => match refused.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(no_answer(refused.error())),
                },
            }
        }
        (attempt.connected, attempt.is_reused) = (None, false);
        let mut connection = self.open().await?;
        attempt.connected = Some(self.elapsed());
        let sent = connection.sender.send_request(request).await;
        let response = sent.map_err(|error| no_answer(&error))?;
        Ok((response, connection))
    }

    async fn open(&self) -> Result<Connection, Broken> {
        let at = (self.target.host.as_str(), self.target.port);
        let socket = TcpStream::connect(at).await.map_err(|error| Broken::connect(&error))?;
        socket.set_nodelay(true).map_err(|error| Broken::connect(&error))?;
        let written = Noted::new(self.start);
        let socket = Noting::new(socket, written.clone());
        let opened = http1::handshake(TokioIo::new(socket)).await;
        let (sender, driver) =
            opened.map_err(|error| Broken::new(Fault::Connect, error.to_string()))?;
        // What goes wrong on the connection is told to the request that is on it.
        let task = tokio::spawn(async move { drop(driver.await) }).abort_handle();
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(Connection { sender, task, written, open: Arc::clone(&self.open) })
    }
}
