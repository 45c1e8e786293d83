//! Takes connections, and carries their requests to whoever answers them.
//!
//! | module | answers |
//! |---|---|
//! | `door` | who comes in, and what hears he who does not? |
//! | `lane` | on which thread does a connection live, and who looks after its time? |
//! | `connection` | what happens on one connection, from its first byte to its end? |
//! | `aside` | what is left of a connection whose request waits? |
//! | `pulse` | is a connection idle, in a header, or at work? |
//! | `vet` | which requests are refused before anybody reads them? |
//! | `reply` | what does a client hear that reached nobody? |
//! | `tls` | which certificates stand in for the gateway, and which for its clients? |
//! | `stop` | how does it end, without losing what it took in? |
//! | `signals` | who tells it to end? |
//! | `descriptors` | how many connections can there be? |
//! | `counts` | how many were there? |
//!
//! A connection, its requests and (as far as their handler wishes) the sockets to workers live on
//! one *lane*: a thread with a runtime of its own. One shared runtime that steals work would wake
//! other threads several times for each request, which costs more than the rest of the way.
//! The price is that a lane can be busier than its neighbour; so a new connection goes to the lane
//! with the fewest.

mod aside;
mod connection;
mod counts;
mod descriptors;
mod door;
mod lane;
mod pulse;
mod reply;
pub(crate) mod signals;
pub(crate) mod stop;
pub(crate) mod tls;
mod vet;

#[cfg(test)]
mod tests;

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;

pub(crate) use aside::Patience;
pub(crate) use counts::ConnectionCounts;
pub(crate) use door::Bound;
pub(crate) use stop::{Phase, Stop, StopTimes};
use tls::Fingerprint;

/// Where and how the gateway listens.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    /// The address. An unspecified IPv6 address takes IPv4 clients as well.
    pub(crate) addr: SocketAddr,
    /// Speaks TLS, and nothing else, where there is one.
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    /// Connections at once; [`descriptors::connections_for`] the descriptor limit when not set.
    pub(crate) connections_max: Option<usize>,
    /// Connections of one IPv4 address, or of one IPv6 network of 64 bits. Unbounded when not set,
    /// since a load balancer in front is one peer.
    pub(crate) connections_per_peer_max: Option<usize>,
    /// Bytes of a request's line and headers together, and of a chunked body's trailers.
    pub(crate) headers_bytes_max: usize,
    /// Headers of one request over HTTP/1.
    pub(crate) headers_max: usize,
    /// From the first byte of a request to the last of its headers; also a TLS handshake.
    pub(crate) header_time_max: Duration,
    /// Without a request, before a connection is closed.
    pub(crate) idle_time_max: Duration,
    /// Without a request, once [`PRESSED`] of the connections are taken. Whoever holds
    /// connections without using them then makes room for whoever comes.
    pub(crate) pressed_time_max: Duration,
    /// Without the client taking a byte of what is there for it, before its connection is cut.
    pub(crate) write_time_max: Duration,
    /// Requests at once on one HTTP/2 connection.
    pub(crate) streams_max: u32,
    /// Bytes that one HTTP/1 connection buffers: a larger buffer reads large bodies in fewer calls.
    pub(crate) buffer_bytes_max: usize,
    /// Threads that carry connections; one for each core when not set.
    pub(crate) lanes: Option<usize>,
    /// The stages of a stop.
    pub(crate) stop: StopTimes,
}

/// The share of `connections_max` from which on idle connections are closed early: seven eighths,
/// so that there is room for newcomers while it takes effect. A guess.
pub(crate) const PRESSED: (usize, usize) = (7, 8);

impl Default for Listening {
    fn default() -> Self {
        Self {
            addr: SocketAddr::from(([127, 0, 0, 1], 8080)),
            tls: None,
            connections_max: None,
            connections_per_peer_max: None,
            // More than any client sends, and what nginx allows at most by default (4 of 8 KB).
            headers_bytes_max: 32 * 1024,
            // The most that hyper parses without asking for memory.
            headers_max: DEFAULT_HEADERS_MAX,
            header_time_max: Duration::from_secs(10),
            // Longer than the minute that common load balancers keep theirs: the side that sends
            // requests should be the one that closes.
            idle_time_max: Duration::from_secs(75),
            pressed_time_max: Duration::from_secs(1),
            write_time_max: Duration::from_mins(1),
            streams_max: 256,
            buffer_bytes_max: 256 * 1024,
            lanes: None,
            stop: StopTimes::default(),
        }
    }
}

/// See [`Listening::headers_max`].
const DEFAULT_HEADERS_MAX: usize = 100;

/// Who sent a request.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Its address.
    pub(crate) addr: SocketAddr,
    /// The lane that its connection lives on, from 0.
    pub(crate) lane: usize,
    /// Its certificate, if it was asked for one and showed it.
    pub(crate) certificate: Option<Fingerprint>,
    /// Hears that its request will wait.
    pub(crate) patience: Patience,
}

/// An answer that is worked on.
pub(crate) type Handling<B> = Pin<Box<dyn Future<Output = Response<B>> + Send>>;

/// Answers requests.
///
/// Its future lives on the connection's lane. It is dropped when the client is gone: when its
/// connection has ended, or its stream was reset. Over HTTP/1 that is seen only once the body of
/// the request has been read, and not before there is something to write to a client that sent
/// more than the one request: hyper does not read past bytes that it has no use for yet.
pub(crate) trait Handle: Send + Sync + 'static {
    /// The body of an answer.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin;

    /// Answers one request. A body that yields an error cuts the answer so that the client sees
    /// that it is not whole.
    fn handle(self: Arc<Self>, request: Request<Incoming>, peer: &Peer) -> Handling<Self::Body>;
}
