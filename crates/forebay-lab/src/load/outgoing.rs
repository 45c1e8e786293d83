//! Notes when what a client sends has left it.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use forebay_core::Span;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// A moment that is noted in one place and read in another. The last one counts.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    start: Instant,
    /// Nanoseconds since the start, and 0 for never.
    nanos: Arc<AtomicU64>,
}

impl Noted {
    /// Nothing noted; moments count from here.
    pub(super) fn new(start: Instant) -> Self {
        Self { start, nanos: Arc::default() }
    }

    fn note(&self) {
        self.nanos.store(self.start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// The moment, if there was one.
    pub(super) fn get(&self) -> Option<Span> {
        match self.nanos.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Span(nanos)),
        }
    }
}

/// The body of a request in one piece, which notes when the connection took it.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    data: Option<Bytes>,
    taken: Noted,
}

impl Outgoing {
    /// A body that notes there when it is taken.
    pub(super) fn new(data: Bytes, taken: Noted) -> Self {
        Self { data: Some(data), taken }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = self.data.take();
        if data.is_some() {
            self.taken.note();
        }
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.as_ref().map_or(0, |data| data.len() as u64))
    }
}

/// A socket that notes each time the system took bytes from it.
#[derive(Debug)]
pub(super) struct Noting<T> {
    socket: T,
    written: Noted,
}

impl<T> Noting<T> {
    /// Notes there what this socket writes.
    pub(super) const fn new(socket: T, written: Noted) -> Self {
        Self { socket, written }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Noting<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Noting<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.socket).poll_write(cx, buf))?;
        self.written.note();
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.socket).poll_write_vectored(cx, bufs))?;
        self.written.note();
        Poll::Ready(Ok(written))
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
