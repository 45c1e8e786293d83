//! Says what became of one request that was offered, and of each attempt at it.
//!
//! All moments count from the start of the run. A row is one line of `requests.jsonl`.

use std::sync::Arc;

use forebay_core::Span;
use serde::{Deserialize, Serialize};

use super::micros;

/// One request that was offered, and what became of it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Row {
    /// Its place in the plan, from 0.
    pub request: u64,
    /// When it was due: every latency counts from here. A later turn of a session is due when the
    /// turn before it has ended and its delay is over.
    #[serde(rename = "scheduled_us", with = "micros")]
    pub scheduled: Span,
    /// It was sent to warm the target up, and no figure counts it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_warmup: bool,
    /// The conversation it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// Its place in the conversation, from 0.
    #[serde(default)]
    pub turn: u32,
    /// The class of service it asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Arc<str>>,
    /// Whom it is accounted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Arc<str>>,
    /// Tokens of its prompt, as planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer that it asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// How it ended: as its last attempt did.
    pub outcome: Outcome,
    /// Every attempt at it, in order; none where it was never sent.
    #[serde(default)]
    pub attempts: Vec<Attempt>,
}

/// One time that a request was sent.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Attempt {
    /// When it was due: for the first attempt when the request was.
    #[serde(rename = "due_us", with = "micros")]
    pub due: Span,
    /// The place of its target among the targets of the run.
    #[serde(default)]
    pub target: u32,
    /// When the client took it up; later than `due` by the client's own lag.
    #[serde(default, rename = "dequeued_us", with = "micros::option")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dequeued: Option<Span>,
    /// When a connection stood.
    #[serde(default, rename = "connected_us", with = "micros::option")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected: Option<Span>,
    /// Whether that connection had served another request before.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_reused: bool,
    /// When its last byte was handed to the system.
    #[serde(default, rename = "written_us", with = "micros::option")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<Span>,
    /// When the head of the answer had come.
    #[serde(default, rename = "first_byte_us", with = "micros::option")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<Span>,
    /// When the first token had come, of an answer, of reasoning or of a tool's call; of an answer
    /// in one piece, when it had come whole.
    #[serde(default, rename = "first_token_us", with = "micros::option")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_token: Option<Span>,
    /// When the first token had come that is no reasoning.
    #[serde(default, rename = "first_answer_us", with = "micros::option")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_answer: Option<Span>,
    /// When each event of the stream that held a token had come.
    #[serde(default, rename = "chunks_us", with = "micros::list")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<Span>,
    /// When it was over, however it ended.
    #[serde(rename = "end_us", with = "micros")]
    pub end: Span,
    /// The status of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What a refusal asked the client to wait.
    #[serde(default, rename = "retry_after_us", with = "micros::option")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Span>,
    /// What the endpoint says it used.
    #[serde(default, skip_serializing_if = "Usage::is_silent")]
    pub usage: Usage,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it failed, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// What the endpoint or the network said of an attempt that was not served, cut to a line, and
    /// without any key that was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<str>>,
}

/// Tokens that an endpoint says it used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Usage {
    /// `usage.prompt_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// `usage.completion_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// `usage.prompt_tokens_details.cached_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
}

impl Usage {
    /// Whether it says nothing at all.
    pub const fn is_silent(&self) -> bool {
        self.prompt_tokens.is_none() && self.output_tokens.is_none() && self.cached_tokens.is_none()
    }
}

/// How a request, or an attempt at it, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Served to its end.
    Completed,
    /// Refused for want of room: 429, 503 or 529.
    Refused,
    /// Not served for another reason.
    Failed,
    /// Not over within the client's patience.
    TimedOut,
    /// The client left before the end, as planned or since the run was stopped.
    Cancelled,
    /// Never sent: as many as may be were under way, or the run was stopped first.
    NotSent,
}

impl Outcome {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 6] = [
        Self::Completed,
        Self::Refused,
        Self::Failed,
        Self::TimedOut,
        Self::Cancelled,
        Self::NotSent,
    ];

    /// Its name in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::NotSent => "not_sent",
        }
    }
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
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
    /// The answer ended in good order, and holds nothing.
    Empty,
    /// It is not known: the results of another tool do not say.
    Unknown,
}

/// What is said of an attempt that the stop of the run ended: no client left, and no endpoint
/// failed.
pub const STOPPED: &str = "the run was stopped";

impl Row {
    /// A request of which nothing is known but its moment and its end, without attempts.
    pub const fn new(request: u64, scheduled: Span, outcome: Outcome) -> Self {
        Self {
            request,
            scheduled,
            is_warmup: false,
            session: None,
            turn: 0,
            class: None,
            tenant: None,
            prompt_tokens: None,
            output_tokens: None,
            outcome,
            attempts: Vec::new(),
        }
    }

    /// The attempt that decided how it ended.
    pub fn last(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    /// From the moment it was due to its first token, where it was completed. An answer that had
    /// no token at all has waited for one until its end.
    pub fn ttft(&self) -> Option<Span> {
        let last = self.served()?;
        Some(last.first_token.unwrap_or(last.end) - self.scheduled)
    }

    /// From the moment it was due to its end, where it was completed.
    pub fn e2e(&self) -> Option<Span> {
        Some(self.served()?.end - self.scheduled)
    }

    /// Mean time between its tokens after the first, where it was completed with two at least.
    pub fn itl(&self) -> Option<Span> {
        let last = self.served()?;
        let (first, end) = (last.first_token?, last.chunks.last().copied().unwrap_or(last.end));
        let tokens = last.generated();
        (tokens >= 2).then(|| Span((end - first).0 / (tokens - 1)))
    }

    /// How late the client itself was with its first attempt.
    pub fn lag(&self) -> Option<Span> {
        let first = self.attempts.first()?;
        Some(first.dequeued? - first.due)
    }

    /// From the moment it was due until the client knew that it was refused for good.
    pub fn time_to_refuse(&self) -> Option<Span> {
        let refused = self.outcome == Outcome::Refused;
        self.last().filter(|_| refused).map(|last| last.end - self.scheduled)
    }

    /// Whether the stop of the run ended it.
    pub fn is_cut_off(&self) -> bool {
        self.outcome == Outcome::Cancelled
            && self.last().and_then(|last| last.error.as_deref()) == Some(STOPPED)
    }

    fn served(&self) -> Option<&Attempt> {
        self.last().filter(|_| self.outcome == Outcome::Completed)
    }
}

impl Attempt {
    /// An attempt that has not been sent yet.
    pub fn new(due: Span, target: u32) -> Self {
        Self {
            due,
            target,
            dequeued: None,
            connected: None,
            is_reused: false,
            written: None,
            first_byte: None,
            first_token: None,
            first_answer: None,
            chunks: Vec::new(),
            end: due,
            status: None,
            retry_after: None,
            usage: Usage::default(),
            outcome: Outcome::NotSent,
            fault: None,
            error: None,
        }
    }

    /// Tokens of the answer: as many as the endpoint says, but never fewer than the events that
    /// held one, since an event holds at least one.
    pub fn generated(&self) -> u64 {
        self.usage.output_tokens.unwrap_or(0).max(self.chunks.len() as u64)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[cfg(test)]
mod tests {
    use forebay_core::Span;

    use super::{Attempt, Outcome, Row, Usage};

    fn attempt(due_ms: u64, outcome: Outcome) -> Attempt {
        let end = Span::millis(due_ms + 1_000);
        Attempt { end, outcome, ..Attempt::new(Span::millis(due_ms), 0) }
    }

    fn row(attempts: Vec<Attempt>) -> Row {
        Row {
            request: 3,
            scheduled: Span::millis(100),
            is_warmup: false,
            session: None,
            turn: 0,
            class: Some("public".into()),
            tenant: None,
            prompt_tokens: Some(9),
            output_tokens: None,
            outcome: attempts.last().map_or(Outcome::NotSent, |last| last.outcome),
            attempts,
        }
    }

    #[test]
    fn latencies_count_from_the_schedule_whatever_attempts_lie_between() {
        let served = Attempt {
            first_token: Some(Span::millis(2_500)),
            chunks: vec![Span::millis(2_500), Span::millis(2_600), Span::millis(2_900)],
            usage: Usage { output_tokens: Some(5), ..Usage::default() },
            ..attempt(2_000, Outcome::Completed)
        };
        let row = row(vec![attempt(100, Outcome::Refused), served]);
        assert_eq!(row.ttft(), Some(Span::millis(2_400)));
        assert_eq!(row.e2e(), Some(Span::millis(2_900)));
        assert_eq!(row.itl(), Some(Span::millis(100)));
        assert_eq!(row.time_to_refuse(), None);
    }

    #[test]
    fn who_was_not_served_has_no_latency() {
        let row = row(vec![attempt(100, Outcome::Refused)]);
        assert_eq!((row.ttft(), row.e2e(), row.itl()), (None, None, None));
        assert_eq!(row.time_to_refuse(), Some(Span::secs(1)));
    }

    #[test]
    fn a_usage_that_counts_fewer_tokens_than_came_is_not_believed() {
        let lying = Attempt {
            chunks: vec![Span::ZERO; 3],
            usage: Usage { output_tokens: Some(0), ..Usage::default() },
            ..Attempt::new(Span::ZERO, 0)
        };
        assert_eq!(lying.generated(), 3);
    }

    #[test]
    fn a_row_is_a_line_of_json_and_reads_back() {
        let row = row(vec![attempt(100, Outcome::Refused)]);
        let line = serde_json::to_string(&row).unwrap();
        assert_eq!(
            line,
            r#"{"request":3,"scheduled_us":100000,"turn":0,"class":"public","prompt_tokens":9,"#
                .to_owned()
                + r#""outcome":"refused","attempts":[{"due_us":100000,"target":0,"#
                + r#""end_us":1100000,"outcome":"refused"}]}"#
        );
        assert_eq!(serde_json::from_str::<Row>(&line).unwrap(), row);
    }
}
