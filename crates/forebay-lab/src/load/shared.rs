//! Shares connections of HTTP/2 among requests.
//!
//! A connection takes as many requests at once as its server allows. One more would wait inside of
//! it, unseen, for another to end, which closes the loop; so it gets a connection of its own.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;

use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::Mutex as Turnstile;
use tokio::task::AbortHandle;

use super::connect::{Socket, told};
use super::outgoing::Outgoing;

/// What a connection is made of.
type Wire = TokioIo<Box<dyn Socket>>;
/// What moves the bytes of a connection.
type Driver = http2::Connection<Wire, Outgoing, TokioExecutor>;

/// Requests at once that a server is taken to allow before it has said so: the least that RFC 9113
/// recommends (section 6.5.2).
const STREAMS_USUAL: usize = 100;

/// The connections to one target.
#[derive(Default)]
pub(super) struct Pool {
    /// Held while one is opened, so that requests that come meanwhile share it.
    connections: Turnstile<Vec<Arc<Shared>>>,
}

/// One connection. It is closed when neither the pool nor a request has it any more.
pub(super) struct Shared {
    sender: SendRequest<Outgoing>,
    task: AbortHandle,
    /// Requests on it now.
    streams: AtomicUsize,
    /// Knows how many its server allows at once, from the moment that it has said so. None where
    /// the connection has ended: what is kept of it would take requests that nobody sends.
    driver: Arc<Mutex<Option<Driver>>>,
    /// What went wrong where it has ended by a fault.
    ended_by: Arc<OnceLock<String>>,
    /// Whether its server has said so.
    is_told: AtomicBool,
    /// Connections that are open, of all pools of a run.
    open: Arc<AtomicUsize>,
}

/// The place of one request on a connection.
pub(super) struct Place {
    pub(super) sender: SendRequest<Outgoing>,
    connection: Arc<Shared>,
}

impl Shared {
    pub(super) fn new(
        sender: SendRequest<Outgoing>,
        driver: Driver,
        open: Arc<AtomicUsize>,
    ) -> Self {
        let driver = Arc::new(Mutex::new(Some(driver)));
        let ended_by = Arc::new(OnceLock::new());
        let (shared, fault) = (Arc::clone(&driver), Arc::clone(&ended_by));
        let task = tokio::spawn(poll_fn(move |cx| {
            let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(connection) = kept.as_mut() else { return Poll::Ready(()) };
            // What goes wrong on the connection is told to the requests that are on it.
            let Poll::Ready(ended) = Pin::new(connection).poll(cx) else { return Poll::Pending };
            if let Err(error) = ended {
                // Nobody has set it before: a connection ends once.
                let _ = fault.set(told(&error));
            }
            *kept = None;
            Poll::Ready(())
        }))
        .abort_handle();
        open.fetch_add(1, Ordering::Relaxed);
        Self {
            sender,
            task,
            streams: AtomicUsize::new(0),
            driver,
            ended_by,
            is_told: AtomicBool::new(false),
            open,
        }
    }

    fn has_room(&self) -> bool {
        let driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        let is_told = self.is_told.load(Ordering::Relaxed);
        let Some(driver) = driver.as_ref() else { return false };
        let streams_max = if is_told { driver.current_max_send_streams() } else { STREAMS_USUAL };
        self.streams.load(Ordering::Relaxed) < streams_max
    }

    fn place(self: &Arc<Self>) -> Place {
        self.streams.fetch_add(1, Ordering::Relaxed);
        Place { sender: self.sender.clone(), connection: Arc::clone(self) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.task.abort();
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Place {
    /// The server has answered, and so has said before how many requests it allows.
    pub(super) fn is_answered(&self) {
        self.connection.is_told.store(true, Ordering::Relaxed);
    }

    /// What its connection has ended by, if that was a fault.
    pub(super) fn ended_by(&self) -> Option<&str> {
        self.connection.ended_by.get().map(String::as_str)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connection.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
    /// A place on a connection with room, or on a new one; and whether it was there before.
    pub(super) async fn place<E>(
        &self,
        keeps: bool,
        open: impl Future<Output = Result<Shared, E>>,
    ) -> Result<(Place, bool), E> {
        if !keeps {
            return Ok((Arc::new(open.await?).place(), false));
        }
        let mut connections = self.connections.lock().await;
        connections.retain(|connection| !connection.sender.is_closed());
        if let Some(known) = connections.iter().find(|connection| connection.has_room()) {
            return Ok((known.place(), true));
        }
        let opened = Arc::new(open.await?);
        let place = opened.place();
        connections.push(opened);
        Ok((place, false))
    }
}
