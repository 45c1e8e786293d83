//! Talks to a gateway on a raw socket, and tells a whole answer from one that was broken off.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::stub::header;

/// The longest that an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(45);

/// A client's connection.
pub(crate) struct Client {
    socket: TcpStream,
    heard: Vec<u8>,
}

/// What it was answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Whether its end was marked as one.
    pub(crate) is_whole: bool,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The stable code of an error.
    pub(crate) fn code(&self) -> String {
        let error: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        error["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    /// The code of an error event that ends a stream, in OpenAI's form or in Anthropic's.
    pub(crate) fn code_in_band(&self) -> Option<String> {
        let text = self.text();
        let is_named = text.contains("event: error\n");
        let events = text.strip_suffix("data: [DONE]\n\n").or(is_named.then_some(text.as_str()))?;
        let last = events.trim_end().rsplit_once("data: ")?.1;
        let error: serde_json::Value = serde_json::from_str(last).ok()?;
        error["error"]["code"].as_str().map(str::to_owned)
    }
}

impl Client {
    pub(crate) fn open(addr: SocketAddr) -> Self {
        let socket = TcpStream::connect(addr).expect("the gateway listens");
        socket.set_nodelay(true).expect("it is a socket");
        socket.set_read_timeout(Some(ANSWER_MAX)).expect("it is a socket");
        Self { socket, heard: Vec::new() }
    }

    /// Sends bytes. Whoever was refused may find that nobody takes them.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).is_ok()
    }

    /// Asks with a body.
    pub(crate) fn post(&mut self, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        let bytes = request(path, headers, body);
        assert!(self.send(&bytes), "the gateway takes a request");
    }

    /// Asks with a body, and waits for the answer.
    pub(crate) fn ask(&mut self, path: &str, body: &str) -> Answer {
        self.post(path, &[], body.as_bytes());
        self.answer()
    }

    /// The next answer. What only says that it goes on is left out.
    pub(crate) fn answer(&mut self) -> Answer {
        self.try_answer().expect("the gateway answers")
    }

    /// The next answer, if one begins.
    pub(crate) fn try_answer(&mut self) -> Option<Answer> {
        loop {
            let answer = self.one_answer()?;
            if answer.status >= 200 {
                return Some(answer);
            }
        }
    }

    fn one_answer(&mut self) -> Option<Answer> {
        let end = loop {
            match self.heard.windows(4).position(|it| it == b"\r\n\r\n") {
                Some(at) => break at,
                None if self.more() => {}
                None => return None,
            }
        };
        let head = String::from_utf8_lossy(&self.heard[..end]).into_owned();
        self.heard.drain(..end + 4);
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
        let (body, is_whole) = if header(&head, "transfer-encoding").is_some() {
            self.chunks()
        } else if let Some(length) = header(&head, "content-length") {
            let length = length.parse().expect("a length is a number");
            while self.heard.len() < length && self.more() {}
            let is_whole = self.heard.len() >= length;
            (self.heard.drain(..length.min(self.heard.len())).collect(), is_whole)
        } else if status < 200 || status == 204 {
            (Vec::new(), true)
        } else {
            while self.more() {}
            (std::mem::take(&mut self.heard), true)
        };
        Some(Answer { status, head, body, is_whole })
    }

    fn chunks(&mut self) -> (Vec<u8>, bool) {
        let mut body = Vec::new();
        loop {
            let Some(line) = self.heard.windows(2).position(|it| it == b"\r\n") else {
                if self.more() {
                    continue;
                }
                return (body, false);
            };
            let digits = String::from_utf8_lossy(&self.heard[..line]).into_owned();
            let length = usize::from_str_radix(&digits, 16).expect("a chunk has a length");
            let whole = line + 2 + length + 2;
            while self.heard.len() < whole {
                if !self.more() {
                    return (body, false);
                }
            }
            body.extend_from_slice(&self.heard[line + 2..line + 2 + length]);
            self.heard.drain(..whole);
            if length == 0 {
                return (body, true);
            }
        }
    }

    /// Reads until these bytes have come, and says what came so far. What has been read so is not
    /// part of an answer any more.
    pub(crate) fn hear(&mut self, wanted: &[u8]) -> String {
        while !self.heard.windows(wanted.len()).any(|it| it == wanted) {
            assert!(self.more(), "it ends too soon: {}", String::from_utf8_lossy(&self.heard));
        }
        String::from_utf8_lossy(&self.heard).into_owned()
    }

    /// Whether the other side has closed.
    pub(crate) fn is_over(&mut self) -> bool {
        !self.more()
    }

    fn more(&mut self) -> bool {
        let mut piece = [0; 16 << 10];
        match self.socket.read(&mut piece) {
            Ok(read) if read > 0 => {
                self.heard.extend_from_slice(&piece[..read]);
                true
            }
            _ => false,
        }
    }

    /// Goes away, with a reset or by closing; when that was.
    pub(crate) fn vanish(self, with_reset: bool) -> Instant {
        if with_reset {
            let now = Some(Duration::ZERO);
            SockRef::from(&self.socket).set_linger(now).expect("it is a socket");
        }
        let at = Instant::now();
        drop(self.socket);
        at
    }
}

/// A request with a body, as bytes.
pub(crate) fn request(path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("POST {path} HTTP/1.1\r\nhost: gate.test\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    let length = format!("content-length: {}\r\n\r\n", body.len());
    bytes.extend_from_slice(length.as_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// A body that asks for a chat, with a number to know it by.
pub(crate) fn chat(mark: usize, stream: bool) -> String {
    let message = format!(r#"{{"role":"user","content":"mark {mark}"}}"#);
    format!(r#"{{"model":"m","stream":{stream},"max_tokens":8,"messages":[{message}]}}"#)
}

/// Where chats are asked for.
pub(crate) const CHAT: &str = "/v1/chat/completions";
