//! Connects to workers: one request at a time on each connection, kept open between requests.
//!
//! HTTP/1.1 is what every engine speaks, and one request a connection is what lets a client's going
//! away reach the engine: the connection is closed, and the engine stops at once.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::Worker;
use crate::config::{PoolTls, WorkerUrl};

/// Idle connections are kept this long. The servers of most engines close theirs after five
/// seconds, and a request that meets the closing is lost for nothing.
const IDLE_MAX: Duration = Duration::from_secs(4);
/// Most idle connections that are kept to one worker, on each lane.
const IDLE_CONNECTIONS_MAX: usize = 1024;

/// How a worker is spoken to.
#[derive(Debug, Default)]
pub(crate) struct Manner {
    /// What is sent along with every request, for instance a key of its own.
    pub(crate) headers: HeaderMap,
    /// How TLS is spoken to it, where it is.
    pub(crate) tls: Option<WorkerTls>,
}

/// How TLS is spoken to a worker.
#[derive(Clone)]
pub(crate) struct WorkerTls {
    /// Roots, and a certificate of our own where one is asked for.
    pub(crate) config: Arc<rustls::ClientConfig>,
    /// The name that its certificate must have.
    pub(crate) server_name: ServerName<'static>,
}

impl std::fmt::Debug for WorkerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerTls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// Why TLS can't be spoken to a worker as configured.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {what}\nhint: {remedy}")]
pub struct WorkerTlsError {
    file: String,
    what: String,
    remedy: &'static str,
}

impl WorkerTls {
    /// How TLS is spoken to this worker; not at all if its URL does not say so.
    pub(crate) fn of(meant: &PoolTls, url: &WorkerUrl) -> Result<Option<Self>, WorkerTlsError> {
        if !url.tls {
            return Ok(None);
        }
        Self::with(Self::config(meant)?, meant, url).map(Some)
    }

    /// The same with files that were read already, for a worker whose URL says so.
    pub(crate) fn with(
        config: Arc<rustls::ClientConfig>,
        meant: &PoolTls,
        url: &WorkerUrl,
    ) -> Result<Self, WorkerTlsError> {
        // The name that is checked is the one that was configured, not the address behind it.
        let name = meant.server_name.clone().unwrap_or_else(|| named_host(url));
        let server_name = ServerName::try_from(name)
            .map_err(|bad| unusable(Path::new(&url.to_string()), &bad))?;
        Ok(Self { config, server_name })
    }

    /// What holds for all workers of a pool, with its files read anew.
    pub(crate) fn config(meant: &PoolTls) -> Result<Arc<rustls::ClientConfig>, WorkerTlsError> {
        let mut roots = RootCertStore::empty();
        if let Some(file) = &meant.ca {
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|bad| unusable(file, &bad))?;
            }
            if roots.is_empty() {
                return Err(unusable(file, &"it holds no certificate"));
            }
        } else {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|bad| unusable(Path::new("TLS"), &bad))?
            .with_root_certificates(roots);
        let mut config = match &meant.identity {
            None => config.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = certificates(cert)?;
                let secret =
                    PrivateKeyDer::from_pem_file(key).map_err(|bad| unusable(key, &bad))?;
                config.with_client_auth_cert(chain, secret).map_err(|bad| unusable(cert, &bad))?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// The host that the URL was written with: `Host` keeps it where the worker is one address behind
/// a name.
fn named_host(url: &WorkerUrl) -> String {
    let host = url.authority.rsplit_once(':').map_or(url.authority.as_str(), |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, WorkerTlsError> {
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|bad| unusable(file, &bad))
}

fn unusable(file: &Path, bad: &dyn std::fmt::Display) -> WorkerTlsError {
    WorkerTlsError {
        file: file.display().to_string(),
        what: bad.to_string(),
        remedy: "name a readable PEM file with what it should hold, and a host name or address",
    }
}

/// A connection that carries one request.
#[derive(Debug)]
pub(crate) struct Connection {
    send: SendRequest<Full<Bytes>>,
    /// It has carried a request before: its failing says little of the worker.
    pub(crate) reused: bool,
    /// How its worker was spoken to when it was opened, and is on it.
    pub(crate) manner: Arc<Manner>,
    lane: usize,
}

/// Connections that wait for the next request, apart for each lane since a connection lives on the
/// lane that opened it.
#[derive(Debug)]
pub(crate) struct IdleConnections(Vec<Mutex<Vec<Idle>>>);

/// A connection that waits, and since when.
type Idle = (Connection, Instant);

impl IdleConnections {
    /// None yet, for so many lanes.
    pub(super) fn new(lanes: usize) -> Self {
        Self((0..lanes.max(1)).map(|_| Mutex::default()).collect())
    }

    fn of(&self, lane: usize) -> MutexGuard<'_, Vec<Idle>> {
        self.0[lane % self.0.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes them all.
    pub(crate) fn close(&self) {
        (0..self.0.len()).for_each(|lane| self.of(lane).clear());
    }
}

impl Worker {
    /// A connection that is ready for a request: the idle one used last, or a new one.
    pub(crate) async fn connect(&self, lane: usize, within: Duration) -> io::Result<Connection> {
        while let Some(mut connection) = self.take_idle(lane) {
            // The last response may have been read to its end without the connection knowing yet.
            let ready = connection.send.is_ready()
                || matches!(timeout(within, connection.send.ready()).await, Ok(Ok(())));
            if ready {
                return Ok(Connection { reused: true, ..connection });
            }
        }
        self.connect_anew(lane, within).await
    }

    /// A connection that has carried nothing yet.
    pub(crate) async fn connect_anew(
        &self,
        lane: usize,
        within: Duration,
    ) -> io::Result<Connection> {
        let too_late = |_| io::Error::new(io::ErrorKind::TimedOut, "the worker does not answer");
        timeout(within, self.open(lane)).await.map_err(too_late)?
    }

    async fn open(&self, lane: usize) -> io::Result<Connection> {
        let manner = self.manner();
        let send = dial(&self.url, manner.tls.as_ref()).await?;
        Ok(Connection { send, reused: false, manner, lane })
    }

    /// Keeps a connection whose response has been read to its end.
    pub(crate) fn keep(&self, connection: Connection) {
        if connection.send.is_closed() {
            return;
        }
        let mut idle = self.idle.of(connection.lane);
        // Looked at under the lock: whoever changes the manner empties the list after that.
        let is_current = Arc::ptr_eq(&connection.manner, &self.manner());
        if is_current && idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push((connection, Instant::now()));
        }
    }

    fn take_idle(&self, lane: usize) -> Option<Connection> {
        let mut idle = self.idle.of(lane);
        let (connection, since) = idle.pop()?;
        if since.elapsed() > IDLE_MAX {
            // The others are older still.
            idle.clear();
            return None;
        }
        Some(connection)
    }
}

impl Connection {
    /// Sends the request and waits for the head of the response.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        self.send.send_request(request).await
    }
}

/// The step of opening a connection that failed, where the system's code does not tell.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialFault {
    /// There is no address behind the name.
    #[error("the name can't be looked up: {0}")]
    Lookup(io::Error),
    /// TLS was not agreed on.
    #[error("TLS can't be agreed on: {0}")]
    Tls(io::Error),
}

impl DialFault {
    fn lookup(error: io::Error) -> io::Error {
        // What the system says of a socket has its code; what a resolver says has none.
        if error.raw_os_error().is_some() {
            return error;
        }
        io::Error::new(error.kind(), Self::Lookup(error))
    }

    fn tls(error: io::Error) -> io::Error {
        io::Error::new(error.kind(), Self::Tls(error))
    }
}

/// A connection to whatever is at this URL.
pub(crate) async fn dial(
    url: &WorkerUrl,
    tls: Option<&WorkerTls>,
) -> io::Result<SendRequest<Full<Bytes>>> {
    let socket = TcpStream::connect((url.host.as_str(), url.port)).await;
    let socket = socket.map_err(DialFault::lookup)?;
    socket.set_nodelay(true)?;
    match tls {
        None => handshake(socket).await,
        Some(tls) => {
            let connector = TlsConnector::from(Arc::clone(&tls.config));
            let secured = connector.connect(tls.server_name.clone(), socket).await;
            handshake(secured.map_err(DialFault::tls)?).await
        }
    }
}

async fn handshake<I>(io: I) -> io::Result<SendRequest<Full<Bytes>>>
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (send, connection) = http1::handshake(TokioIo::new(io)).await.map_err(io::Error::other)?;
    tokio::spawn(async move {
        // Whoever waits for the response hears of the failure.
        drop(connection.await);
    });
    Ok(send)
}
