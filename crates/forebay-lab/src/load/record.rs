//! Says what came of one request.

use forebay_core::Span;

/// What came of one request. All moments count from the start of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its place in the plan, from 0.
    pub nth: u64,
    /// The place of its target among the targets.
    pub target: usize,
    /// When it was due.
    pub scheduled: Span,
    /// When the client began to send it; later than `scheduled` by the client's own lag.
    pub sent: Option<Span>,
    /// The status of the answer.
    pub status: Option<u16>,
    /// When the head of the answer had come.
    pub first_byte: Option<Span>,
    /// When the first token had come: the first piece of a stream that is not empty, or the whole
    /// of an answer that is no stream.
    pub first_token: Option<Span>,
    /// When it was over, however it ended.
    pub end: Span,
    /// Events of the stream, its closing `[DONE]` left out.
    pub chunks: u32,
    /// What a refusal asked the client to wait.
    pub retry_after: Option<Span>,
    /// `usage.prompt_tokens`.
    pub prompt_tokens: Option<u64>,
    /// `usage.completion_tokens`.
    pub output_tokens: Option<u64>,
    /// `usage.prompt_tokens_details.cached_tokens`.
    pub cached_tokens: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// What the endpoint or the network said of a request that was not served.
    pub error: Option<String>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Served to its end.
    Completed,
    /// Refused for want of room: 429, 503 or 529.
    Refused,
    /// Not served for another reason.
    Failed(Fault),
    /// Not over within the client's patience.
    TimedOut,
    /// The client left, as planned.
    Left,
    /// Never sent: as many as may be were under way.
    NotSent,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No connection could be made.
    Connect,
    /// The connection ended, or spoke no HTTP, before the head of an answer had come.
    NoAnswer,
    /// The answer has a status that is neither success nor a refusal.
    Status,
    /// The connection ended within the answer.
    Cut,
    /// The answer ended in good order, but without its closing mark.
    Unfinished,
    /// An error came in an answer that had begun as a success.
    ErrorInAnswer,
    /// The answer is not what the protocol says.
    Garbled,
    /// The answer is longer than the client takes.
    TooLong,
}

impl Record {
    /// A request that has not been sent yet.
    pub(crate) fn new(nth: u64, target: usize, scheduled: Span) -> Self {
        Self {
            nth,
            target,
            scheduled,
            sent: None,
            status: None,
            first_byte: None,
            first_token: None,
            end: scheduled,
            chunks: 0,
            retry_after: None,
            prompt_tokens: None,
            output_tokens: None,
            cached_tokens: None,
            outcome: Outcome::NotSent,
            error: None,
        }
    }

    /// From the moment it was due to its first token, where it was served to its end.
    pub fn ttft(&self) -> Option<Span> {
        let first = self.first_token.filter(|_| self.outcome == Outcome::Completed)?;
        Some(since(first, self.scheduled))
    }

    /// How late the client itself was.
    pub fn lag(&self) -> Option<Span> {
        self.sent.map(|sent| since(sent, self.scheduled))
    }
}

/// From one moment of a run to a later one.
pub(super) const fn since(later: Span, earlier: Span) -> Span {
    Span(later.0.saturating_sub(earlier.0))
}
