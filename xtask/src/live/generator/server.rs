//! Answers every chat at once with the same stream, and writes down when each request came.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::Context;

/// Pieces of an answer, each with a token.
pub(super) const PIECES: usize = 16;
/// A longer body is nobody's here.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A server that does as little as a server can.
pub(super) struct Server {
    /// Where it listens.
    pub(super) address: SocketAddr,
    arrivals: Arc<Mutex<Vec<f64>>>,
}

impl Server {
    /// Starts it on threads that end with the program.
    pub(super) fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        let address = listener.local_addr()?;
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let (noted, start) = (Arc::clone(&arrivals), Instant::now());
        thread::spawn(move || {
            let answer: Arc<[u8]> = answer().into();
            for socket in listener.incoming().flatten() {
                let (noted, answer) = (Arc::clone(&noted), Arc::clone(&answer));
                thread::spawn(move || {
                    let note = || {
                        let now = start.elapsed().as_secs_f64();
                        noted.lock().unwrap_or_else(PoisonError::into_inner).push(now);
                    };
                    // A client that goes away is the end of its connection, and nothing else.
                    let _ = serve(socket, &answer, note);
                });
            }
        });
        Ok(Self { address, arrivals })
    }

    /// When chats have come since this was last asked, in seconds and in order.
    pub(super) fn arrivals(&self) -> Vec<f64> {
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = std::mem::take(&mut *arrivals);
        taken.sort_unstable_by(f64::total_cmp);
        taken
    }
}

/// Serves the requests of one connection, one after the other.
fn serve(socket: TcpStream, answer: &[u8], note: impl Fn()) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut reader = BufReader::new(socket);
    loop {
        // A request comes with its first byte.
        if reader.fill_buf()?.is_empty() {
            return Ok(());
        }
        let (mut line, mut len, mut is_chat, mut lines) = (String::new(), 0, false, 0);
        while reader.read_line(&mut line)? > 0 && !line.trim().is_empty() {
            if lines == 0 {
                is_chat = line.starts_with("POST ");
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                len = value.trim().parse().unwrap_or(0);
            }
            lines += 1;
            line.clear();
        }
        if is_chat {
            note();
        }
        if len > BODY_BYTES_MAX {
            return Ok(());
        }
        let mut body = vec![0; len];
        reader.read_exact(&mut body)?;
        let other =
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
        reader.get_mut().write_all(if is_chat { answer } else { other })?;
    }
}

/// A stream as vLLM sends it, in chunks of one event each, and in one piece.
fn answer() -> Vec<u8> {
    let head =
        "\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\"";
    let mut text = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                    transfer-encoding: chunked\r\n\r\n"
        .to_owned();
    let mut event = |data: &str| {
        let event = format!("data: {data}\n\n");
        let _ = write!(text, "{:x}\r\n{event}\r\n", event.len());
    };
    for piece in 0..PIECES {
        let end = if piece + 1 == PIECES { "\"length\"" } else { "null" };
        event(&format!(
            "{{{head},\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" word\"}},\
             \"finish_reason\":{end}}}]}}"
        ));
    }
    event(&format!(
        "{{{head},\"choices\":[],\"usage\":{{\"prompt_tokens\":200,\"total_tokens\":216,\
         \"completion_tokens\":16}}}}"
    ));
    event("[DONE]");
    text += "0\r\n\r\n";
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::{PIECES, Server};

    #[test]
    fn chats_are_streamed_and_noted_and_nothing_else_is() {
        let server = Server::start().unwrap();
        let mut socket = TcpStream::connect(server.address).unwrap();
        let asked = "GET /v1/models HTTP/1.1\r\n\r\n";
        let chat = "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}";
        write!(socket, "{asked}{chat}{chat}").unwrap();
        let (mut text, mut some) = (String::new(), [0; 4_096]);
        while text.matches("[DONE]").count() < 2 {
            let read = socket.read(&mut some).unwrap();
            text += std::str::from_utf8(&some[..read]).unwrap();
        }
        assert_eq!(text.matches("\" word\"").count(), 2 * PIECES);
        assert_eq!(text.matches("\"prompt_tokens\":200").count(), 2);
        assert_eq!((server.arrivals().len(), server.arrivals().len()), (2, 0));
    }
}
