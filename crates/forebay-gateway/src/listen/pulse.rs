//! Keeps what a connection is doing, so that its lane can tell when it takes too long.
//!
//! A connection sets no timers and reads no clock: at each turn it adds one to a number, and the
//! lane, which looks at all of its connections a few times a second, notes when it saw the number
//! change. A timer for each header, as hyper sets them, costs more than parsing the header.
//! All fields are touched by one thread only; they are atomic because tasks have to be `Send`.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Nothing was asked, or everything was answered.
    Idle,
    /// A request's headers have begun.
    Header,
    /// A request is being answered.
    Work,
    /// Everything was said; what still comes in is thrown away.
    Linger,
}

/// What the lane wants of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Order {
    /// Nothing.
    Go,
    /// Close, unless something was asked in the meantime.
    CloseIdle,
    /// Refuse the header that takes too long, unless it is there by now.
    RefuseHeader,
    /// Answer what was asked, and close.
    Finish,
    /// End at once.
    Cut,
}

/// A connection's state, seen by the connection and by its lane.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// Grows at each change of `requests` or `header`.
    turns: AtomicU32,
    requests: AtomicU32,
    header: AtomicBool,
    /// Requests came on it.
    used: AtomicBool,
    lingers: AtomicBool,
    /// It speaks HTTP/2, where what is idle or not does not follow from bytes.
    multiplexed: AtomicBool,
    /// Zero while writes go through; else a number for this one stall.
    stalled: AtomicU32,
    stalls: AtomicU32,
    /// The request on it waits, and said so since it was last asked.
    waits: AtomicBool,
    order: AtomicU8,
    waker: Mutex<Option<Waker>>,
}

impl Pulse {
    /// A request begins.
    pub(super) fn begin(&self) {
        self.requests.store(self.requests.load(Relaxed) + 1, Relaxed);
        self.header.store(false, Relaxed);
        self.used.store(true, Relaxed);
        self.waits.store(false, Relaxed);
        self.turn();
    }

    /// A request has ended, whatever its end.
    pub(super) fn end(&self) {
        self.requests.store(self.requests.load(Relaxed).saturating_sub(1), Relaxed);
        self.turn();
    }

    /// Bytes came in.
    fn heard(&self) {
        if self.doing() == Doing::Idle && !self.multiplexed.load(Relaxed) {
            self.header.store(true, Relaxed);
            self.turn();
        }
    }

    /// From here on it speaks HTTP/2.
    pub(super) fn multiplex(&self) {
        self.multiplexed.store(true, Relaxed);
        self.greeted();
    }

    /// A handshake begins, which has as much time as a header.
    pub(super) fn greet(&self) {
        self.header.store(true, Relaxed);
        self.turn();
    }

    /// What came so far was no request: a handshake.
    pub(super) fn greeted(&self) {
        self.header.store(false, Relaxed);
        self.turn();
    }

    /// The request on it has been read, and will not be answered soon.
    pub(super) fn wait(&self) {
        self.waits.store(!self.multiplexed(), Relaxed);
    }

    /// Whether its request began to wait since this was asked last. It is of no use while bytes are
    /// stuck on their way to the client: they lie in a buffer that may not be given up.
    pub(super) fn take_waits(&self) -> bool {
        self.waits.load(Relaxed) && self.waits.swap(false, Relaxed) && self.stalled().is_none()
    }

    fn linger(&self) {
        if !self.lingers.swap(true, Relaxed) {
            self.turn();
        }
    }

    fn turn(&self) {
        self.turns.store(self.turns.load(Relaxed).wrapping_add(1), Relaxed);
    }

    pub(super) fn doing(&self) -> Doing {
        if self.lingers.load(Relaxed) {
            return Doing::Linger;
        }
        match (self.requests.load(Relaxed), self.header.load(Relaxed)) {
            (0, false) => Doing::Idle,
            (0, true) => Doing::Header,
            _ => Doing::Work,
        }
    }

    /// A number that changes whenever what it is doing changes.
    pub(super) fn turns(&self) -> u32 {
        self.turns.load(Relaxed)
    }

    /// The number of the stall that its writes are in.
    pub(super) fn stalled(&self) -> Option<u32> {
        Some(self.stalled.load(Relaxed)).filter(|stall| *stall != 0)
    }

    /// Whether a request ever came on it.
    pub(super) fn used(&self) -> bool {
        self.used.load(Relaxed)
    }

    /// Whether it speaks HTTP/2.
    pub(super) fn multiplexed(&self) -> bool {
        self.multiplexed.load(Relaxed)
    }

    fn wrote(&self, pending: bool) {
        match (pending, self.stalled.load(Relaxed)) {
            (true, 0) => {
                let stall = self.stalls.load(Relaxed).wrapping_add(1).max(1);
                self.stalls.store(stall, Relaxed);
                self.stalled.store(stall, Relaxed);
            }
            (false, 1..) => self.stalled.store(0, Relaxed),
            _ => {}
        }
    }

    /// Gives the connection an order, and wakes it.
    pub(super) fn order(&self, order: Order) {
        self.order.store(order as u8, Relaxed);
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake_by_ref();
        }
    }

    /// Takes the last order. One to end is never taken back.
    pub(super) fn take_order(&self) -> Order {
        const CLOSE_IDLE: u8 = Order::CloseIdle as u8;
        const REFUSE_HEADER: u8 = Order::RefuseHeader as u8;
        const FINISH: u8 = Order::Finish as u8;
        const CUT: u8 = Order::Cut as u8;
        let order = match self.order.load(Relaxed) {
            CUT => return Order::Cut,
            CLOSE_IDLE => Order::CloseIdle,
            REFUSE_HEADER => Order::RefuseHeader,
            FINISH => Order::Finish,
            _ => return Order::Go,
        };
        self.order.store(Order::Go as u8, Relaxed);
        order
    }

    /// Tells it whom to wake. A task is woken by the same waker all its life.
    pub(super) fn belong_to(&self, context: &Context<'_>) {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        *waker = Some(context.waker().clone());
    }
}

/// As many bytes as tell HTTP/2 from HTTP/1: the length of its preface.
const SAMPLE: usize = 24;

/// Bytes that are thrown away at most after the last answer, so that a client whose body was
/// refused can still send it and then reads why, instead of finding its connection reset.
const DISCARDED_MAX: usize = 64 << 20;

/// Bytes thrown away at once.
const DISCARDED_AT_ONCE: usize = 16 << 10;

/// A socket whose traffic shows in a pulse, and whose next bytes can be looked at and put back.
#[derive(Debug)]
pub(super) struct Watched<I> {
    inner: I,
    pulse: Arc<Pulse>,
    /// Bytes that come before those of the socket.
    ahead: Vec<u8>,
    /// Bytes of `ahead` that were handed on.
    drained: usize,
    /// The client will send no more.
    heard_all: bool,
    discarded: usize,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Watched<I> {
    pub(super) fn new(inner: I, pulse: Arc<Pulse>) -> Self {
        Self { inner, pulse, ahead: Vec::new(), drained: 0, heard_all: false, discarded: 0 }
    }

    /// Reads until it is known whether what comes begins with `preface`, which must not be longer
    /// than the sample. The bytes stay to be read.
    pub(super) fn poll_begins_with(
        &mut self,
        context: &mut Context<'_>,
        preface: &[u8],
    ) -> Poll<io::Result<bool>> {
        loop {
            let seen = &self.ahead[..];
            if !preface.starts_with(seen) || seen.len() == preface.len() {
                return Poll::Ready(Ok(seen == preface));
            }
            if ready!(self.poll_look(context, preface.len() - self.ahead.len()))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Ready once the client has gone, as far as that can be seen: whoever has sent more than was
    /// read of him so far is not looked after.
    pub(super) fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.ahead.len() > self.drained {
            return Poll::Pending;
        }
        match ready!(self.poll_look(context, SAMPLE)) {
            Ok(1..) => Poll::Pending,
            Ok(0) | Err(_) => Poll::Ready(()),
        }
    }

    /// Puts bytes before those that are still to be read.
    pub(super) fn put_back(&mut self, bytes: &[u8]) {
        drop(self.ahead.splice(..self.drained, bytes.iter().copied()));
        self.drained = 0;
    }

    /// Reads a few bytes, which stay to be read; how many these were.
    fn poll_look(&mut self, context: &mut Context<'_>, most: usize) -> Poll<io::Result<usize>> {
        let mut sample = [0; SAMPLE];
        let mut room = ReadBuf::new(&mut sample[..most]);
        ready!(self.poll_read_on(context, &mut room))?;
        self.ahead.extend_from_slice(room.filled());
        Poll::Ready(Ok(room.filled().len()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Watched<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let ahead = &self.ahead[self.drained..];
        if ahead.is_empty() {
            return self.poll_read_on(context, into);
        }
        let taken = ahead.len().min(into.remaining());
        into.put_slice(&ahead[..taken]);
        self.drained += taken;
        if self.drained == self.ahead.len() {
            (self.ahead, self.drained) = (Vec::new(), 0);
        }
        // What follows goes along with it: a reader that is first given a few bytes makes room for
        // more a second time, and keeps that. Its fate shows again at the next read.
        let _ = self.poll_read_on(context, into);
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncRead + Unpin> Watched<I> {
    fn poll_read_on(
        &mut self,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let room = into.remaining();
        ready!(Pin::new(&mut self.inner).poll_read(context, into))?;
        if into.filled().len() > before {
            self.pulse.heard();
        } else if room > 0 {
            self.heard_all = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads what the client still sends. A socket that is closed with bytes unread resets the
    /// connection, and the client loses the answer that it has not read yet. The lane ends it.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.pulse.linger();
        while !self.heard_all && self.discarded < DISCARDED_MAX {
            let mut room = [const { MaybeUninit::uninit() }; DISCARDED_AT_ONCE];
            let mut room = ReadBuf::uninit(&mut room);
            let read = ready!(Pin::new(&mut self.inner).poll_read(context, &mut room));
            self.heard_all = read.is_err() || room.filled().is_empty();
            self.discarded += room.filled().len();
        }
        Poll::Ready(())
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.pulse.wrote(written.is_pending());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.pulse.wrote(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_shutdown(context))?;
        self.poll_linger(context).map(Ok)
    }
}
