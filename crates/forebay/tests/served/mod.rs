//! Starts what the program serves, for tests that talk to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long something may take until it serves.
const READY_MAX: Duration = Duration::from_mins(1);
/// The model that the engines serve.
const MODEL: &str = "modelled";

/// Says that a test has not looked at something, and why.
pub(crate) fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// A server, and those behind it. All end when this is dropped.
pub(crate) struct Served {
    port: u16,
    processes: Vec<Process>,
}

/// A process of ours.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Served {
    /// One modelled engine, a hundred times faster than real.
    pub(crate) fn engine() -> Self {
        let mut command = forebay(&["engine", "--port", "0", "--speed", "100", "--model", MODEL]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program runs");
        let stdout = child.stdout.take().expect("it is piped");
        let mut url = String::new();
        BufReader::new(stdout).read_line(&mut url).expect("it prints text");
        let port = url.trim().rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("no URL of an engine: {url}"));
        Self { port, processes: vec![Process(child)] }
    }

    /// The gateway in front of two engines; none where the program has none yet, which is said.
    pub(crate) fn gateway(mode: &str) -> Option<Self> {
        let has_gateway = forebay(&["serve", "--help"]).stdout(Stdio::null()).status();
        if !has_gateway.expect("the program runs").success() {
            skipped("the program has no command `serve`");
            return None;
        }
        let engines = [Self::engine(), Self::engine()];
        // The port is free when it is drawn; who takes it in between makes this test fail loudly.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        let listen = format!("127.0.0.1:{port}");
        let mut command = forebay(&["serve", "--listen", &listen, "--mode", mode]);
        for engine in &engines {
            command.args(["--worker", &engine.url()]);
        }
        let child = command.spawn().expect("the program runs");
        let mut processes = vec![Process(child)];
        processes.extend(engines.into_iter().flat_map(|engine| engine.processes));
        let begun = Instant::now();
        while !is_ready(port).unwrap_or(false) {
            assert!(begun.elapsed() < READY_MAX, "the gateway does not come to serve");
            thread::sleep(Duration::from_millis(50));
        }
        Some(Self { port, processes })
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn model(&self) -> &'static str {
        assert!(!self.processes.is_empty(), "somebody serves it");
        MODEL
    }
}

fn forebay(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(args).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// Whether `/readyz` says so.
fn is_ready(port: u16) -> std::io::Result<bool> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_read_timeout(Some(READY_MAX))?;
    write!(socket, "GET /readyz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.1 200 "))
}

/// Refuses the first connection as a gateway without room does, and passes the others through.
pub(crate) struct Relay {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Relay {
    /// In front of this port.
    pub(crate) fn refusing_first(behind: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        // Both threads of a connection end with it, and this one with the test's process.
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                if counted.fetch_add(1, Ordering::SeqCst) == 0 {
                    refuse(socket);
                } else {
                    pass(&socket, behind);
                }
            }
        });
        Self { port, connections }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// How many connections came.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn refuse(socket: TcpStream) {
    let mut request = BufReader::new(socket);
    let (mut line, mut len) = (String::new(), 0);
    while request.read_line(&mut line).is_ok_and(|read| read > 2) {
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            len = value.trim().parse().expect("a length is a number");
        }
        line.clear();
    }
    std::io::copy(&mut (&mut request).take(len), &mut std::io::sink()).expect("the body comes");
    let body = "{\"error\":{\"message\":\"no room within 1 s\",\"type\":\"overloaded_error\",\
                \"param\":null,\"code\":\"shed\"}}";
    let mut socket = request.into_inner();
    write!(
        socket,
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("the client listens");
}

fn pass(socket: &TcpStream, behind: u16) {
    let other = TcpStream::connect((Ipv4Addr::LOCALHOST, behind)).expect("somebody serves");
    for (from, to) in [(socket, &other), (&other, socket)] {
        let (mut from, mut to) =
            (from.try_clone().expect("a descriptor"), to.try_clone().expect("a descriptor"));
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Write);
        });
    }
}
