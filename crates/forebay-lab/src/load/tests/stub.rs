//! Answers requests with the bytes of a script.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// What the stub does with a request that it has read.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Writes these bytes.
    Write(Vec<u8>),
    /// Does nothing for so long.
    Wait(Duration),
    /// Waits until the client leaves.
    Stall,
    /// Closes the connection.
    Close,
}

type Script = dyn Fn(usize) -> Vec<Step> + Send + Sync;

/// A server on a port of its own, which ends when it is dropped.
pub(super) struct Stub {
    address: SocketAddr,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    last_request: Mutex<String>,
    left: Notify,
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stub {
    /// Answers each request of the nth connection, from 0, by the steps for it.
    pub(super) async fn start(script: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, script): (_, Arc<Script>) = (Arc::new(Seen::default()), Arc::new(script));
        let seen_too = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                socket.set_nodelay(true).unwrap();
                let nth = seen_too.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(socket, nth, Arc::clone(&script), Arc::clone(&seen_too)));
            }
        });
        Self { address, seen, task }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How many connections it has accepted.
    pub(super) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// The bytes of the request that came last.
    pub(super) fn last_request(&self) -> String {
        self.seen.last_request.lock().unwrap().clone()
    }

    /// Waits until a client closes its connection during a stall.
    pub(super) async fn has_seen_a_client_leave(&self) {
        let left = tokio::time::timeout(Duration::from_secs(10), self.seen.left.notified());
        left.await.expect("no client left");
    }
}

async fn serve(mut socket: TcpStream, nth: usize, script: Arc<Script>, seen: Arc<Seen>) {
    while let Some(request) = read_request(&mut socket).await {
        *seen.last_request.lock().unwrap() = request;
        for step in script(nth) {
            match step {
                Step::Write(bytes) => {
                    if socket.write_all(&bytes).await.is_err() {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
                Step::Wait(time) => tokio::time::sleep(time).await,
                Step::Stall => {
                    let gone = !matches!(socket.read(&mut [0; 64]).await, Ok(1..));
                    assert!(gone, "a client wrote during a stall");
                    seen.left.notify_one();
                    return;
                }
                Step::Close => return,
            }
        }
    }
}

/// Reads one request with a `content-length`; none where the client has left.
async fn read_request(socket: &mut TcpStream) -> Option<String> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4_096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let len = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if bytes.len() >= head.len() + 4 + len.map_or(0, |len| len.parse().unwrap()) {
                return Some(text);
            }
        }
        match socket.read(&mut piece).await {
            Ok(len @ 1..) => bytes.extend_from_slice(&piece[..len]),
            _ => return None,
        }
    }
}
