//! Plays a worker on raw sockets: a script writes its answers byte by byte, and says when it hangs
//! up, resets, or sees its caller go.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::SockRef;

/// Bytes of stack of a thread that carries one connection.
const STACK_BYTES: usize = 128 << 10;
/// The longest that a script waits for its caller to go.
pub(crate) const FOREVER: Duration = Duration::from_secs(40);

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    /// Its lines up to the empty one.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// Whether it asks for a stream.
    pub(crate) fn wants_stream(&self) -> bool {
        let text = String::from_utf8_lossy(&self.body);
        text.contains("\"stream\":true")
    }

    /// The number that a test has put into it, as `mark 17`.
    pub(crate) fn mark(&self) -> usize {
        let text = String::from_utf8_lossy(&self.body);
        let digits = text.split("mark ").nth(1).unwrap_or_default();
        let end = digits.find(|it: char| !it.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().unwrap_or(0)
    }
}

/// The value of a header in a block of lines.
pub(crate) fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.split("\r\n").skip(1).find_map(|line| {
        let (given, value) = line.split_once(':')?;
        given.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

type Script = dyn Fn(&Asked, &mut Line) + Send + Sync;

/// What the threads of a stub share.
struct Shared {
    script: Box<Script>,
    /// Whether it still listens and speaks.
    lives: AtomicBool,
    /// Whether its health page says so, or never answers.
    well: AtomicBool,
    asked: Mutex<Vec<Asked>>,
    calls: AtomicUsize,
    running: AtomicUsize,
    /// When a caller was seen to have gone, by mark.
    left: Mutex<BTreeMap<usize, Instant>>,
    sockets: Mutex<BTreeMap<usize, TcpStream>>,
}

/// A worker.
pub(crate) struct Stub {
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
    listener: TcpListener,
    accepts: Option<JoinHandle<()>>,
}

/// The stub's side of a connection.
pub(crate) struct Line {
    socket: TcpStream,
    shared: Arc<Shared>,
    id: usize,
    mark: usize,
    over: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stub {
    /// A worker on any free port, with this script for every request but those for its own pages.
    pub(crate) fn start(script: impl Fn(&Asked, &mut Line) + Send + Sync + 'static) -> Self {
        Self::on(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), script)
    }

    /// A worker at this address.
    pub(crate) fn on(
        addr: SocketAddr,
        script: impl Fn(&Asked, &mut Line) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(addr).expect("the address is free");
        let addr = listener.local_addr().expect("it listens");
        let shared = Arc::new(Shared {
            script: Box::new(script),
            lives: AtomicBool::new(true),
            well: AtomicBool::new(true),
            asked: Mutex::default(),
            calls: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            left: Mutex::default(),
            sockets: Mutex::default(),
        });
        let accepting = listener.try_clone().expect("a descriptor is free");
        let theirs = Arc::clone(&shared);
        let accepts = thread::spawn(move || accept(&accepting, &theirs));
        Self { addr, shared, listener, accepts: Some(accepts) }
    }

    /// One that answers at once, in the form that is asked for.
    pub(crate) fn quick() -> Self {
        Self::start(|asked, line| line.answer(asked))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What it was asked, in order, its own pages left out.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        locked(&self.shared.asked).clone()
    }

    /// How often it was asked.
    pub(crate) fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::SeqCst)
    }

    /// Requests whose script runs.
    pub(crate) fn running(&self) -> usize {
        self.shared.running.load(Ordering::SeqCst)
    }

    /// When callers were seen to have gone, by mark.
    pub(crate) fn left(&self) -> BTreeMap<usize, Instant> {
        locked(&self.shared.left).clone()
    }

    /// Lets its health page answer, or hang.
    pub(crate) fn set_well(&self, well: bool) {
        self.shared.well.store(well, Ordering::SeqCst);
    }

    /// Ends as a killed process does: the kernel closes everything that it had.
    pub(crate) fn kill(&mut self) {
        if !self.shared.lives.swap(false, Ordering::SeqCst) {
            return;
        }
        // It may have closed itself; either way nobody listens any more.
        let _ = SockRef::from(&self.listener).shutdown(Shutdown::Both);
        for socket in locked(&self.shared.sockets).values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        if let Some(accepts) = self.accepts.take() {
            accepts.join().expect("the stub's door does not panic");
        }
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.kill();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut id = 0;
    while let Ok((socket, _)) = listener.accept() {
        if !shared.lives.load(Ordering::SeqCst) {
            return;
        }
        id += 1;
        socket.set_nodelay(true).expect("it is a socket");
        let kept = socket.try_clone().expect("a descriptor is free");
        locked(&shared.sockets).insert(id, kept);
        let shared = Arc::clone(shared);
        let line = Line { socket, shared, id, mark: 0, over: false };
        let spawned = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || line.carry());
        drop(spawned.expect("a thread can be started"));
    }
}

impl Line {
    fn carry(mut self) {
        let mut heard = Vec::new();
        while !self.over
            && let Some(asked) = self.request(&mut heard)
        {
            self.mark = asked.mark();
            if self.own_page(&asked) {
                continue;
            }
            let shared = Arc::clone(&self.shared);
            locked(&shared.asked).push(asked.clone());
            shared.running.fetch_add(1, Ordering::SeqCst);
            shared.calls.fetch_add(1, Ordering::SeqCst);
            (shared.script)(&asked, &mut self);
            shared.running.fetch_sub(1, Ordering::SeqCst);
        }
        self.forget();
    }

    /// Takes the stub's hold of the socket away, so that dropping the line closes it.
    fn forget(&self) {
        locked(&self.shared.sockets).remove(&self.id);
    }

    fn request(&mut self, bytes: &mut Vec<u8>) -> Option<Asked> {
        let end = loop {
            match bytes.windows(4).position(|it| it == b"\r\n\r\n") {
                Some(at) => break at,
                None => self.more(bytes)?,
            }
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let length = header(&head, "content-length").map_or(0, |it| it.parse().unwrap_or(0));
        while bytes.len() < end + 4 + length {
            self.more(bytes)?;
        }
        let body = bytes[end + 4..end + 4 + length].to_vec();
        bytes.drain(..end + 4 + length);
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        Some(Asked { path, head, body })
    }

    fn more(&mut self, heard: &mut Vec<u8>) -> Option<()> {
        let mut piece = [0; 16 << 10];
        let read = self.socket.read(&mut piece).ok().filter(|read| *read > 0)?;
        heard.extend_from_slice(&piece[..read]);
        Some(())
    }

    /// Answers what a gateway asks for itself: its pages, and a completion of one token.
    fn own_page(&mut self, asked: &Asked) -> bool {
        let is_trial = asked.path == "/v1/completions"
            && String::from_utf8_lossy(&asked.body).contains("\"prompt\":\"1\"");
        if !is_trial && !asked.head.starts_with("GET ") {
            return false;
        }
        if !self.shared.well.load(Ordering::SeqCst) {
            self.until_left(FOREVER);
            return true;
        }
        let (status, body) = match asked.path.as_str() {
            "/v1/completions" => (200, "{}".to_owned()),
            "/health" => (200, String::new()),
            "/v1/models" => (200, r#"{"object":"list","data":[{"id":"m"}]}"#.to_owned()),
            _ => (404, String::new()),
        };
        self.write(&whole(status, "text/plain", &body))
    }

    /// Sends bytes. False says that nobody takes them any more.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> bool {
        let sent = self.socket.write_all(bytes).is_ok();
        self.over |= !sent;
        sent
    }

    /// Sends bytes in pieces of this size, with this pause between them.
    pub(crate) fn write_cut(&mut self, bytes: &[u8], size: usize, pause: Duration) -> bool {
        bytes.chunks(size).all(|piece| {
            let sent = self.write(piece);
            thread::sleep(pause);
            sent
        })
    }

    /// Answers at once, in the form that is asked for.
    pub(crate) fn answer(&mut self, asked: &Asked) {
        let bytes = if asked.wants_stream() {
            stream(&[TOKEN, TOKEN, LAST, "[DONE]"])
        } else {
            whole(200, "application/json", DOCUMENT)
        };
        self.write(&bytes);
    }

    /// Waits until the caller has gone, and takes note of when that was. False says that it is
    /// still there.
    pub(crate) fn until_left(&mut self, most: Duration) -> bool {
        self.over = true;
        self.socket.set_read_timeout(Some(most)).expect("it is a socket");
        let mut piece = [0; 1024];
        loop {
            match self.socket.read(&mut piece) {
                Ok(read) if read > 0 => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return false,
                _ => break,
            }
        }
        locked(&self.shared.left).insert(self.mark, Instant::now());
        true
    }

    /// Closes the connection after the script.
    pub(crate) fn hang_up(&mut self) {
        self.over = true;
    }

    /// Says that nothing more will come, and leaves the connection half open.
    pub(crate) fn half_close(&mut self) {
        self.over = true;
        drop(self.socket.shutdown(Shutdown::Write));
    }

    /// Resets the connection after the script.
    pub(crate) fn reset(&mut self) {
        self.over = true;
        self.forget();
        let now = Some(Duration::ZERO);
        SockRef::from(&self.socket).set_linger(now).expect("it is a socket");
    }
}

/// An event with a token.
pub(crate) const TOKEN: &str = concat!(
    r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"#,
    r#""delta":{"content":"x"},"finish_reason":null}]}"#,
);
/// The last event with a choice.
pub(crate) const LAST: &str = concat!(
    r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"#,
    r#""delta":{},"finish_reason":"stop"}]}"#,
);
/// An answer in one piece.
pub(crate) const DOCUMENT: &str = concat!(
    r#"{"id":"c","object":"chat.completion","choices":[{"index":0,"#,
    r#""message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"#,
    r#""usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}"#,
);
/// The head of a stream.
pub(crate) const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\n\
    content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";

/// A response of known length.
pub(crate) fn whole(status: u16, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n");
    format!("{head}content-length: {length}\r\n\r\n{body}").into_bytes()
}

/// One chunk of a chunked body.
pub(crate) fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// One event in a chunk of its own.
pub(crate) fn event(data: &str) -> Vec<u8> {
    chunk(format!("data: {data}\n\n").as_bytes())
}

/// A whole stream of these bytes.
pub(crate) fn stream_of(bytes: &[u8]) -> Vec<u8> {
    [STREAM_HEAD.as_bytes(), &chunk(bytes), b"0\r\n\r\n"].concat()
}

/// A whole stream of these events.
pub(crate) fn stream(events: &[&str]) -> Vec<u8> {
    let chunks: Vec<u8> = events.iter().flat_map(|data| event(data)).collect();
    [STREAM_HEAD.as_bytes(), &chunks, b"0\r\n\r\n"].concat()
}
