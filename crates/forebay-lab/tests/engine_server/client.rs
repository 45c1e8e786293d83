//! Starts servers and speaks HTTP by hand.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use forebay_lab::engine::Preset;
use forebay_lab::engine_server::{EngineServer, Fault, Options};

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_mins(1);

/// Servers that run while a test does.
pub(crate) struct Engines {
    runtime: tokio::runtime::Runtime,
    server: Option<EngineServer>,
}

impl Engines {
    /// One worker, a thousand times faster than real, but for these changes.
    pub(crate) fn start(change: impl FnOnce(&mut Options)) -> Self {
        let preset = Preset::resolve("a100-40gb/qwen3-8b").expect("it ships");
        let mut options = Options { speed: 1_000.0, ..Options::new(preset) };
        change(&mut options);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be built");
        let server = runtime.block_on(EngineServer::start(options)).expect("it can be served");
        Self { runtime, server: Some(server) }
    }

    pub(crate) fn server(&self) -> &EngineServer {
        self.server.as_ref().expect("it runs")
    }

    pub(crate) fn runtime(&self) -> &tokio::runtime::Runtime {
        &self.runtime
    }

    /// Where the first worker listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.server().addrs()[0]
    }

    /// Lets something go wrong with the first worker.
    pub(crate) fn fault(&self, fault: Fault) {
        self.runtime.block_on(self.server().fault(0, fault)).expect("it is taken");
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        exchange(self.addr(), "GET", path, b"")
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        exchange(self.addr(), "POST", path, body.as_bytes())
    }

    /// Whether the first worker listens and is well.
    pub(crate) fn is_well(&self) -> bool {
        is_listening(self.addr()) && try_exchange(self.addr(), "GET", "/health", b"").status == 200
    }

    /// A sample of the metrics.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let answer = self.get("/metrics");
        let line = answer.body.lines().find(|line| line.starts_with(&format!("{name}{{")));
        let value = line.and_then(|line| line.rsplit(' ').next()).expect("the sample is there");
        value.parse().expect("it is a number")
    }

    /// Waits until the engine holds nothing.
    #[track_caller]
    pub(crate) fn wait_until_idle(&self) {
        wait_until("nothing is inside", || {
            self.metric("vllm:num_requests_running") + self.metric("vllm:num_requests_waiting")
                < 0.5
        });
    }
}

impl Drop for Engines {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.stop());
        }
    }
}

/// Waits for something that takes as long as the machine takes.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// An answer, with its chunks put together.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    /// Whether it came to its end: all of its length, or its last chunk.
    pub(crate) is_whole: bool,
}

impl Answer {
    /// The events of a stream, without what frames them.
    pub(crate) fn events(&self) -> Vec<&str> {
        self.body.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect()
    }
}

/// Whether somebody listens there.
pub(crate) fn is_listening(addr: SocketAddr) -> bool {
    TcpStream::connect(addr).is_ok()
}

/// One request and its answer, of status 0 where there is none.
fn try_exchange(addr: SocketAddr, method: &str, path: &str, body: &[u8]) -> Answer {
    answer(&try_ask(addr, method, path, body).map(read_all).unwrap_or_default())
}

/// Opens a connection and sends a request on it.
pub(crate) fn ask(addr: SocketAddr, method: &str, path: &str, body: &[u8]) -> TcpStream {
    try_ask(addr, method, path, body).expect("it listens and reads")
}

fn try_ask(addr: SocketAddr, method: &str, path: &str, body: &[u8]) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(PATIENCE)).expect("it is not zero");
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\nContent-Type: \
         application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat())?;
    Ok(stream)
}

/// Reads until an answer's text holds so many events.
pub(crate) fn read_events(stream: &mut TcpStream, events: usize) -> String {
    let mut text = Vec::new();
    let mut bytes = [0; 4_096];
    loop {
        let text_so_far = String::from_utf8_lossy(&text);
        if text_so_far.matches("data: ").count() >= events {
            return text_so_far.into_owned();
        }
        let read = stream.read(&mut bytes).expect("it goes on");
        assert_ne!(read, 0, "it ended early: {text_so_far}");
        text.extend_from_slice(&bytes[..read]);
    }
}

/// Reads to the end of the connection, and takes a reset for an end.
pub(crate) fn read_all(mut stream: TcpStream) -> Vec<u8> {
    let mut raw = Vec::new();
    let mut bytes = [0; 16_384];
    while let Ok(read @ 1..) = stream.read(&mut bytes) {
        raw.extend_from_slice(&bytes[..read]);
    }
    raw
}

/// One request and its answer.
pub(crate) fn exchange(addr: SocketAddr, method: &str, path: &str, body: &[u8]) -> Answer {
    answer(&read_all(ask(addr, method, path, body)))
}

/// Takes an answer's bytes apart.
pub(crate) fn answer(raw: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(raw);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let (body, is_whole) = if head.contains("transfer-encoding: chunked") {
        unchunked(body)
    } else {
        let length = format!("content-length: {}\r\n", body.len());
        (body.to_owned(), format!("{head}\r\n").contains(&length))
    };
    Answer { status, head: head.to_owned(), body, is_whole }
}

/// The chunks of a body, and whether the last one is there.
fn unchunked(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("a chunk has a length");
        if length == 0 {
            return (body, true);
        }
        let Some(chunk) = after.get(..length) else { break };
        body.push_str(chunk);
        rest = after.get(length + 2..).unwrap_or("");
    }
    (body, false)
}
