//! Reads a request's body within bounds on its bytes and its time.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, sleep_until};

/// What a body may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    /// Bytes.
    pub(crate) bytes_max: usize,
    /// From the request's headers to the body's last byte.
    pub(crate) time_max: Duration,
    /// Before its rate counts.
    pub(crate) grace: Duration,
    /// Bytes a second that it has to come in with after that, as Apache's `mod_reqtimeout` has it.
    /// A bound on pauses alone would allow one byte at the end of each.
    pub(crate) bytes_per_second_min: u32,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self {
            bytes_max: 32 << 20,
            time_max: Duration::from_mins(5),
            grace: Duration::from_secs(10),
            // A tenth of the slowest line that one would send a prompt over. A guess.
            bytes_per_second_min: 1000,
        }
    }
}

/// Why a body was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyFault {
    /// It is, or says that it is, longer than allowed. 413.
    #[error("the body is larger than allowed")]
    TooLarge,
    /// 408.
    #[error("the body came too slowly")]
    TooSlow,
    /// The client went away, or what it sent is no body. 400, for whoever is there to hear it.
    #[error("the body cannot be read")]
    Broken(#[source] hyper::Error),
}

/// Room made for a body before its bytes are seen, since what it says of its length can be a lie.
/// Up to twice as much is believed: memory that is never written to is hardly memory, and room
/// that is the body's own length spares copying it.
const ROOM_AT_FIRST: usize = 256 << 10;

/// Reads a whole body. What it returns holds no more memory than the body is long, and none of the
/// connection's buffer.
pub(crate) async fn read_whole(body: Incoming, limits: &BodyLimits) -> Result<Bytes, BodyFault> {
    let (announced, exact) = {
        let hint = body.size_hint();
        (hint.lower(), hint.exact().is_some())
    };
    let announced = usize::try_from(announced).unwrap_or(usize::MAX);
    if announced > limits.bytes_max {
        return Err(BodyFault::TooLarge);
    }
    let mut frames = TimedFrames { body, limits, began: None };
    let room = if announced < 2 * ROOM_AT_FIRST { announced } else { ROOM_AT_FIRST };
    let mut whole = BytesMut::with_capacity(room);
    while let Some(data) = frames.next(whole.len()).await? {
        if data.len() > limits.bytes_max - whole.len() {
            return Err(BodyFault::TooLarge);
        }
        if exact && whole.capacity() - whole.len() < data.len() {
            // It has sent what there was room for: from here on it is believed.
            whole.reserve(announced.saturating_sub(whole.len()).max(data.len()));
        }
        whole.extend_from_slice(&data);
    }
    if whole.capacity() > whole.len() {
        return Ok(Bytes::copy_from_slice(&whole));
    }
    Ok(whole.freeze())
}

struct TimedFrames<'a> {
    body: Incoming,
    limits: &'a BodyLimits,
    /// When it was first waited for: a body that came with its headers costs no look at a clock.
    began: Option<Instant>,
}

impl TimedFrames<'_> {
    /// The next bytes of the body. Trailers are dropped: nobody here has a use for them.
    async fn next(&mut self, read: usize) -> Result<Option<Bytes>, BodyFault> {
        loop {
            let frame = match poll_once(self.body.frame()).await {
                Some(frame) => frame,
                None => self.wait(read).await?,
            };
            match frame.transpose().map_err(BodyFault::Broken)?.map(http_body::Frame::into_data) {
                Some(Ok(data)) => return Ok(Some(data)),
                Some(Err(_trailers)) => {}
                None => return Ok(None),
            }
        }
    }

    async fn wait(&mut self, read: usize) -> Result<FrameOrEnd, BodyFault> {
        let began = *self.began.get_or_insert_with(Instant::now);
        let rate = self.limits.bytes_per_second_min.max(1);
        let earned = Duration::from_secs_f64(read as f64 / f64::from(rate));
        let allowed = self.limits.grace.saturating_add(earned).min(self.limits.time_max);
        tokio::select! {
            biased;
            frame = self.body.frame() => Ok(frame),
            () = sleep_until(began + allowed) => Err(BodyFault::TooSlow),
        }
    }
}

type FrameOrEnd = Option<Result<http_body::Frame<Bytes>, hyper::Error>>;

/// What a future has to say without waiting.
async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match future.as_mut().poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}
