//! Streams answers as server-sent events, each in a chunk of its own.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};

use super::ask::UsageEvents;
use super::format::Reply;
use super::problem::Problem;
use super::usage::Usage;
use super::worker::Admission;

/// The end of every stream.
const DONE: &str = "data: [DONE]\n\n";

/// The body of a streamed answer. Dropped before its end, it takes its jobs out of the engine.
#[derive(Debug)]
pub(super) struct Stream {
    admission: Admission,
    reply: Reply,
    block_size: u32,
    /// Tokens of each answer that are in events.
    sent: Vec<u32>,
    has_begun: bool,
    is_done: bool,
    /// Events that the connection has not taken: one for each answer at most, its role's, and the
    /// last two.
    events: VecDeque<Bytes>,
}

impl Stream {
    /// The stream of these answers.
    pub(super) fn new(admission: Admission, reply: Reply, block_size: u32) -> Self {
        let sent = vec![0; reply.answers.len()];
        let events = VecDeque::new();
        Self { admission, reply, block_size, sent, has_begun: false, is_done: false, events }
    }

    /// Makes events of what is new.
    fn catch_up(&mut self) {
        let ticket = &self.admission.ticket;
        let is_chat = self.reply.is_chat;
        let mut all_sent = true;
        for answer in 0..self.sent.len() {
            let progress = ticket.progress(answer);
            if progress.generated > self.sent[answer] {
                if !std::mem::replace(&mut self.has_begun, true) && is_chat {
                    let roles = (0..self.sent.len()).map(|answer| self.reply.role_event(answer));
                    self.events.extend(roles.map(Bytes::from));
                }
                let tokens = self.sent[answer]..progress.generated;
                self.events.push_back(self.reply.tokens_event(answer, tokens).into());
                self.sent[answer] = progress.generated;
            }
            all_sent &= progress.ended;
        }
        if ticket.is_dead() {
            self.events.push_back(Problem::dead().event().into());
        } else if all_sent {
            if self.reply.sampling.usage != UsageEvents::None {
                self.events.push_back(self.reply.usage_event(self.usage()).into());
            }
        } else {
            return;
        }
        self.events.push_back(Bytes::from_static(DONE.as_bytes()));
        self.is_done = true;
    }

    fn usage(&self) -> Usage {
        usage(&self.admission, &self.reply, self.block_size)
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let stream = self.get_mut();
        if stream.events.is_empty() && !stream.is_done {
            stream.catch_up();
        }
        match stream.events.pop_front() {
            Some(event) => Poll::Ready(Some(Ok(Frame::data(event)))),
            None if stream.is_done => Poll::Ready(None),
            None => {
                stream.admission.ticket.wait(context.waker());
                Poll::Pending
            }
        }
    }
}

/// Waits until all jobs have ended.
pub(super) async fn ended(admission: &Admission) -> Result<(), Problem> {
    let ticket = &admission.ticket;
    ticket.wait_for_end_only();
    poll_fn(|context| {
        if ticket.is_dead() {
            return Poll::Ready(Err(Problem::dead()));
        }
        if ticket.all_ended() {
            return Poll::Ready(Ok(()));
        }
        ticket.wait(context.waker());
        Poll::Pending
    })
    .await
}

/// The tokens of a request.
pub(super) fn usage(admission: &Admission, reply: &Reply, block_size: u32) -> Usage {
    let n = reply.sampling.n as usize;
    Usage::of(&admission.ticket, &reply.prompt_lengths(), n, block_size)
}
