//! Opens connections and keeps those that may serve again.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::record::Fault;
use super::target::Target;

/// How long an idle connection is used again. Well below the 5 s after which uvicorn, vLLM's
/// server, closes one: a request written as the other side closes can't be told from a lost one.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// How many idle connections are kept for a target. More are closed.
const IDLE_COUNT_MAX: usize = 1_024;

/// One open connection. Dropping it closes the socket at once, also in the middle of an answer.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    task: AbortHandle,
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
    }
}

/// The idle connections to one target, the one used last at the end.
#[derive(Default)]
pub(super) struct Idle(Mutex<Vec<(Instant, Connection)>>);

impl Idle {
    /// Keeps a connection whose answer has been read to its end.
    pub(super) fn keep(&self, connection: Connection) {
        let now = Instant::now();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // They were put there in the order of time, so the stale ones come first.
        let stale = kept.iter().take_while(|(since, _)| now - *since > IDLE_MAX).count();
        kept.drain(..stale);
        if kept.len() < IDLE_COUNT_MAX {
            kept.push((now, connection));
        }
    }

    /// Takes the connection that was used last, unless all have been idle for too long.
    fn take(&self) -> Option<Connection> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((since, connection)) = kept.pop() {
            if since.elapsed() > IDLE_MAX {
                kept.clear();
            } else if !connection.is_closed() {
                return Some(connection);
            }
        }
        None
    }
}

/// Sends a request on an idle connection or a new one, and waits for the head of its answer.
///
/// A request that an idle connection did not take, because the other side had closed it, goes out
/// on a new one. One that was written is never sent twice.
pub(super) async fn send(
    target: &Target,
    idle: &Idle,
    mut request: Request<Full<Bytes>>,
) -> Result<(Response<Incoming>, Connection), (Fault, String)> {
    while let Some(mut connection) = idle.take() {
        if connection.sender.ready().await.is_err() {
            continue;
        }
        match connection.sender.try_send_request(request).await {
            Ok(response) => return Ok((response, connection)),
            Err(mut refused) => match refused.take_message() {
                Some(unsent) => request = unsent,
                None => return Err((Fault::NoAnswer, refused.error().to_string())),
            },
        }
    }
    let mut connection = open(target).await?;
    let sent = connection.sender.send_request(request).await;
    let response = sent.map_err(|error| (Fault::NoAnswer, error.to_string()))?;
    Ok((response, connection))
}

async fn open(target: &Target) -> Result<Connection, (Fault, String)> {
    let fault = |error: &dyn ToString| (Fault::Connect, error.to_string());
    let connected = TcpStream::connect((target.host.as_str(), target.port)).await;
    let socket = connected.map_err(|error| fault(&error))?;
    socket.set_nodelay(true).map_err(|error| fault(&error))?;
    let opened = http1::handshake(TokioIo::new(socket)).await;
    let (sender, driver) = opened.map_err(|error| fault(&error))?;
    // What goes wrong on the connection is told to the request that is on it.
    let task = tokio::spawn(async move { drop(driver.await) }).abort_handle();
    Ok(Connection { sender, task })
}
