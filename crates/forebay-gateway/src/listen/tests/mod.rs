//! Claims about the listener, checked over real sockets.

mod aside;
mod bodies;
mod corpus;
mod http2;
mod limits;
mod stopping;
mod tls;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::sync::Semaphore;

use super::door::Served;
use super::stop::StopTimes;
use super::{ConnectionCounts, Handle, Handling, Listening, Peer, Stop};

/// Nothing in these tests takes this long, unless it hangs.
const FOREVER: Duration = Duration::from_secs(20);

/// What asks for nothing but to be the last.
const LAST: &str = "GET /last HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

/// Bytes of a body that the handler reads.
const BODY_MAX: usize = 1 << 20;

/// Answers with what it was asked.
struct Echo {
    /// Requests for `/wait` that wait.
    waiting: AtomicUsize,
    /// Those that were dropped while they waited.
    gone: AtomicUsize,
    /// Lets one of them go on.
    go: Semaphore,
}

impl Default for Echo {
    fn default() -> Self {
        let go = Semaphore::new(0);
        Self { waiting: AtomicUsize::new(0), gone: AtomicUsize::new(0), go }
    }
}

struct Gone<'a>(Option<&'a Echo>);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        if let Some(echo) = self.0 {
            echo.gone.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Echo {
    async fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut gone = Gone(Some(self));
        self.go.acquire().await.unwrap().forget();
        gone.0 = None;
    }
}

impl Handle for Echo {
    type Body = Full<Bytes>;

    fn handle(self: Arc<Self>, request: Request<Incoming>, peer: &Peer) -> Handling<Self::Body> {
        let peer = peer.clone();
        Box::pin(async move { self.echo(request, &peer).await })
    }
}

impl Echo {
    async fn echo(&self, request: Request<Incoming>, peer: &Peer) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let said = |status: u16, text: String| {
            let mut response = Response::new(Full::from(text));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            response
        };
        if head.uri.path() == "/unread" {
            return said(413, String::new());
        }
        if head.uri.path() == "/large" {
            return said(200, "x".repeat(64 << 20));
        }
        let body = match Limited::new(body, BODY_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(fault) if fault.is::<LengthLimitError>() => return said(413, String::new()),
            Err(_) => return said(400, String::new()),
        };
        if head.uri.path() == "/wait" {
            peer.patience.waits();
            self.wait().await;
        }
        let body = String::from_utf8_lossy(&body);
        let who = peer.certificate.map(|it| it.to_string()).unwrap_or_default();
        said(200, format!("[{} {} {body}]{who}", head.method, head.uri))
    }
}

/// A gateway under test, on a thread of its own.
struct Gate {
    addr: SocketAddr,
    echo: Arc<Echo>,
    counts: Arc<ConnectionCounts>,
    stop: Stop,
    thread: JoinHandle<io::Result<Served>>,
}

fn listening() -> Listening {
    let stop = StopTimes { notice: Duration::ZERO, drain_max: FOREVER, ..StopTimes::default() };
    Listening { addr: ([127, 0, 0, 1], 0).into(), lanes: Some(2), stop, ..Listening::default() }
}

fn open(listening: Listening) -> Gate {
    let bound = listening.bind().unwrap();
    let (addr, echo, stop) = (bound.local_addr(), Arc::new(Echo::default()), Stop::default());
    let counts = Arc::<ConnectionCounts>::default();
    let serving = (Arc::clone(&echo), Arc::clone(&counts), stop.clone());
    let thread = std::thread::spawn(move || {
        let (echo, counts, stop) = serving;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(bound.serve(echo, counts, stop))
    });
    Gate { addr, echo, counts, stop, thread }
}

impl Gate {
    fn client(&self) -> TcpStream {
        let client = TcpStream::connect(self.addr).unwrap();
        client.set_nodelay(true).unwrap();
        client.set_read_timeout(Some(FOREVER)).unwrap();
        client.set_write_timeout(Some(FOREVER)).unwrap();
        client
    }

    /// Sends bytes, and reads until the connection closes.
    fn talk(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut client = self.client();
        // It may close before everything was sent.
        let _ = client.write_all(bytes.as_ref());
        rest(&mut client)
    }

    /// Stops it, and waits for its end.
    fn close(self) -> Served {
        self.stop.ask();
        self.thread.join().unwrap().unwrap()
    }
}

/// Reads until the connection closes, however it does.
fn rest(client: &mut TcpStream) -> String {
    let mut heard = Vec::new();
    let mut some = [0; 4096];
    loop {
        match client.read(&mut some) {
            Ok(read @ 1..) => heard.extend_from_slice(&some[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                panic!("nothing came, and no end: {:?}", String::from_utf8_lossy(&heard))
            }
            _ => break,
        }
    }
    String::from_utf8_lossy(&heard).into_owned()
}

/// Reads one answer that has a length.
fn answer(client: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        assert_eq!(client.read(&mut byte).unwrap(), 1, "the connection closed");
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap();
    let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    client.read_exact(&mut body).unwrap();
    head + std::str::from_utf8(&body).unwrap()
}

/// The statuses of all answers in a row.
fn statuses(heard: &str) -> Vec<u16> {
    let starts = heard.match_indices("HTTP/1.").map(|(at, _)| at + "HTTP/1.1 ".len());
    starts.map(|at| heard[at..at + 3].parse().unwrap()).collect()
}

/// Waits for something that has to happen.
fn until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < FOREVER, "{what} never came");
        std::thread::sleep(Duration::from_millis(2));
    }
}
