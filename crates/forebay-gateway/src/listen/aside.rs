//! Keeps a connection small while its request waits.
//!
//! hyper holds 8 KB to read into for each HTTP/1 connection, and as much again for as long as a
//! request's headers are kept. Between the last byte of a request and the first of its answer it
//! knows nothing that matters but whether the connection goes on after it. So a connection whose
//! request waits is taken out of its hands: the answer is worked on without it, and once it is
//! there, a new one is given a line that opens the same request again, and this answer to it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use http::header::{CONNECTION, TRANSFER_ENCODING};
use http::{Method, Request, Response, Version};
use tokio::io::{AsyncRead, AsyncWrite};

use super::pulse::{Order, Pulse, Watched};
use super::reply::Reply;

/// Tells a connection that the request on it will wait.
#[derive(Clone, Debug)]
pub(crate) struct Patience(Arc<Pulse>);

impl Patience {
    /// Of the connection with this pulse.
    pub(super) fn new(pulse: &Arc<Pulse>) -> Self {
        Self(Arc::clone(pulse))
    }

    /// The request waits from here on. Its body must have been read to the end.
    pub(crate) fn waits(&self) {
        self.0.wait();
    }
}

/// The first line of a request, and whether its connection goes on: what hyper makes of an answer
/// depends on nothing else of it.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    method: Method,
    version: Version,
    goes_on: bool,
}

impl Opening {
    /// How a request opens, unless hyper may know more of it: a body in chunks may have come with a
    /// length as well, which ends the connection and cannot be seen any more.
    pub(super) fn of<B>(request: &Request<B>) -> Option<Self> {
        let (version, headers) = (request.version(), request.headers());
        let says = |word: &[u8]| {
            let mut lines = headers.get_all(CONNECTION).iter();
            lines.any(|line| {
                let mut words = line.as_bytes().split(|byte| *byte == b',');
                words.any(|it| it.trim_ascii().eq_ignore_ascii_case(word))
            })
        };
        let goes_on = !says(b"close") && (version == Version::HTTP_11 || says(b"keep-alive"));
        let opening = Self { method: request.method().clone(), version, goes_on };
        (!headers.contains_key(TRANSFER_ENCODING)).then_some(opening)
    }

    /// A request that opens like this one, and has no body.
    pub(super) fn again(&self, closes: bool) -> String {
        let Self { method, version, goes_on } = self;
        let then = if *goes_on && !closes { "keep-alive" } else { "close" };
        format!("{method} / {version:?}\r\nconnection: {then}\r\n\r\n")
    }
}

/// An answer that is worked on.
pub(super) type Answer<B> = Pin<Box<dyn Future<Output = Response<Reply<B>>> + Send>>;

/// What is worked on for a connection's request. It lies beside hyper, so that it outlives it.
pub(super) struct Work<B>(Mutex<Stage<B>>);

enum Stage<B> {
    /// Nothing: nobody asked, or hyper has the answer.
    Rests,
    /// Without an opening, it stays with hyper.
    Runs(Option<Opening>, Answer<B>),
    /// The answer is there, and hyper is about to ask for it.
    Done(Box<Response<Reply<B>>>),
}

impl<B> Default for Work<B> {
    fn default() -> Self {
        Self(Mutex::new(Stage::Rests))
    }
}

impl<B> Work<B> {
    fn stage(&self) -> MutexGuard<'_, Stage<B>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to work on an answer.
    pub(super) fn begin(&self, opening: Option<Opening>, answer: Answer<B>) {
        *self.stage() = Stage::Runs(opening, answer);
    }

    /// Whether an answer is worked on that needs no hyper before it is there.
    pub(super) fn may_wait(&self) -> bool {
        matches!(*self.stage(), Stage::Runs(Some(_), _))
    }

    /// Whether an answer is there that nobody has taken.
    pub(super) fn is_done(&self) -> bool {
        matches!(*self.stage(), Stage::Done(_))
    }

    /// Works on the answer, and takes it.
    pub(super) async fn response(&self) -> Response<Reply<B>> {
        poll_fn(|context| {
            let mut stage = self.stage();
            match std::mem::replace(&mut *stage, Stage::Rests) {
                Stage::Rests => Poll::Pending,
                Stage::Done(response) => Poll::Ready(*response),
                Stage::Runs(opening, mut answer) => {
                    let polled = answer.as_mut().poll(context);
                    if polled.is_pending() {
                        *stage = Stage::Runs(opening, answer);
                    }
                    polled
                }
            }
        })
        .await
    }

    /// Works on the answer, and keeps it; says how its request opened.
    fn poll_done(&self, context: &mut Context<'_>) -> Poll<Opening> {
        let mut stage = self.stage();
        let Stage::Runs(Some(opening), answer) = &mut *stage else { return Poll::Pending };
        let response = Box::new(ready!(answer.as_mut().poll(context)));
        let opening = opening.clone();
        *stage = Stage::Done(response);
        Poll::Ready(opening)
    }
}

/// Waits until there is an answer. `None` says that nobody wants it any more. Sets `closes` where
/// the connection is to end after it.
pub(super) async fn wait<B, I: AsyncRead + AsyncWrite + Unpin>(
    work: &Work<B>,
    io: &mut Watched<I>,
    pulse: &Pulse,
    closes: &mut bool,
) -> Option<Opening> {
    poll_fn(|context| {
        if io.poll_gone(context).is_ready() {
            return Poll::Ready(None);
        }
        if let Poll::Ready(opening) = work.poll_done(context) {
            return Poll::Ready(Some(opening));
        }
        match pulse.take_order() {
            Order::Cut => return Poll::Ready(None),
            Order::Finish => *closes = true,
            // It is not idle, and has read its header.
            Order::Go | Order::CloseIdle | Order::RefuseHeader => {}
        }
        Poll::Pending
    })
    .await
}
