//! Tells whether who is spoken to in HTTP/2 answers in it.
//!
//! Without TLS nobody agrees on a version of HTTP: the client begins, and a server that speaks an
//! older one answers with a refusal in words, or hangs up. What a reader of frames makes of that is
//! an error in framing, which tells nobody what to do; so the first bytes are looked at here.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How the sentence begins that says that no HTTP/2 is spoken.
pub(super) const NOT_SPOKEN: &str = "the target does not speak HTTP/2";
/// The type of the frame that each side of HTTP/2 begins with, `SETTINGS` (RFC 9113, section 3.4).
const SETTINGS: u8 = 4;
/// Where the type stands in a frame: behind three bytes of its length (section 4.1).
const TYPE_AT: usize = 3;
/// How much of another answer is told: enough for the first line of HTTP/1.1.
const TOLD_MAX: usize = 40;

/// A socket that fails with a sentence where the other side does not begin as HTTP/2 does.
#[derive(Debug)]
pub(super) struct Begun<T> {
    socket: T,
    /// The first bytes that came, until their type is known.
    first: Vec<u8>,
    is_known: bool,
}

impl<T> Begun<T> {
    /// Nothing has come yet.
    pub(super) const fn new(socket: T) -> Self {
        Self { socket, first: Vec::new(), is_known: false }
    }

    /// Looks at what came next; at nothing where the other side has ended.
    fn look(&mut self, came: &[u8]) -> io::Result<()> {
        self.first.extend_from_slice(&came[..came.len().min(TOLD_MAX)]);
        let ended = came.is_empty();
        match self.first.get(TYPE_AT) {
            Some(&SETTINGS) => {
                (self.is_known, self.first) = (true, Vec::new());
                Ok(())
            }
            None if !ended => Ok(()),
            _ => Err(io::Error::other(not_spoken(&self.first))),
        }
    }
}

/// Says that HTTP/2 is not spoken, by what was said instead.
fn not_spoken(first: &[u8]) -> String {
    let text = String::from_utf8_lossy(&first[..first.len().min(TOLD_MAX)]);
    let line = text.lines().next().unwrap_or_default();
    let is_told = !line.is_empty() && !line.chars().any(char::is_control);
    let did =
        if is_told { format!("answers `{line}`") } else { "hangs up without a word of it".into() };
    format!("{NOT_SPOKEN} without TLS, it {did}: ask it in HTTP/1.1, or by https")
}

impl<T: AsyncRead + Unpin> AsyncRead for Begun<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.socket).poll_read(cx, buf));
        if !self.is_known {
            match read {
                // A server that hangs up on what it did not read resets the connection.
                Err(error) if error.kind() != io::ErrorKind::ConnectionReset => {
                    return Poll::Ready(Err(error));
                }
                _ => self.look(&buf.filled()[before..])?,
            }
        }
        Poll::Ready(read)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Begun<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::Begun;

    /// What is read of a server that writes these pieces and hangs up.
    async fn read(pieces: &[&[u8]]) -> Result<Vec<u8>, String> {
        let (mut server, client) = duplex(64);
        let mut begun = Begun::new(client);
        let mut whole = Vec::new();
        for piece in pieces {
            server.write_all(piece).await.unwrap();
            let mut some = [0; 64];
            let len = begun.read(&mut some).await.map_err(|error| error.to_string())?;
            whole.extend_from_slice(&some[..len]);
        }
        drop(server);
        begun.read_to_end(&mut whole).await.map_err(|error| error.to_string())?;
        Ok(whole)
    }

    #[tokio::test]
    async fn settings_pass_however_they_are_cut() {
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        assert_eq!(read(&[&settings, b"HTTP/1.1"]).await.unwrap().len(), 17);
        assert_eq!(
            read(&settings.map(|byte| vec![byte]).each_ref().map(|it| &it[..])).await,
            Ok(settings.to_vec())
        );
    }

    #[tokio::test]
    async fn another_answer_is_told_with_what_to_do() {
        let said = read(&[b"HTTP/1.1 400 Bad Request\r\n\r\n"]).await.unwrap_err();
        assert!(said.contains("answers `HTTP/1.1 400 Bad Request`: ask it in HTTP/1.1"), "{said}");
        let said = read(&[b"HT", b"TP/1.0 505 No\r\n"]).await.unwrap_err();
        assert!(said.contains("answers `HTTP/1.0 505 No`"), "{said}");
        for nothing in [&[][..], &[0, 0], &[0, 0, 0, 7, 1]] {
            let pieces: &[&[u8]] = if nothing.is_empty() { &[] } else { &[nothing] };
            let said = read(pieces).await.unwrap_err();
            assert!(said.contains("hangs up without a word of it"), "{said}");
        }
    }
}
