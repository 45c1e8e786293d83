//! Requests with their arrival times, lengths and shared prefixes, read as a stream.

mod clock;
mod decimal;
mod jsonl;
mod lines;
mod notes;
mod open;
mod order;
mod prefixes;
mod recording;
mod save;
mod scale;
mod select;
mod stats;
pub mod synth;
mod table;
mod write;

use std::path::PathBuf;
use std::sync::Arc;

pub use forebay_core::Span;
use forebay_core::{BlockHash, Tokens, mixed};

pub use jsonl::{BAILIAN_ID_TOKENS, CHATS_MAX, LENGTH_TOKENS_MAX, MOONCAKE_ID_TOKENS};
pub use lines::LINE_BYTES_MAX;
pub use notes::Notes;
pub use open::{open, open_noting, open_sorting};
pub use order::{ORDER_ROWS_MAX, TIME_MAX, bounded};
pub use prefixes::{FORKS_MIN, IDS_MAX};
pub use save::{SaveError, save, write_requests};
pub use scale::{FACTOR_MAX, Scaling, scale, speed_up};
pub use select::{Filter, Slice};
pub use stats::{Lengths, SharedPrefix, Stats, stats};
pub use write::write_request;

/// One request of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceRequest {
    /// When it is scheduled, counted from the start of the trace.
    pub at: Span,
    /// Length of the prompt.
    pub prompt: Tokens,
    /// Length of the answer.
    pub output: Tokens,
    /// Chained prefix ids: equal id means equal prefix up to and including it. Empty where the
    /// trace has none; otherwise `ceil(prompt / id_tokens)` of them, the last one partial.
    pub ids: Arc<[u64]>,
    /// Tokens that one id stands for (512 in Mooncake's traces, 16 in Bailian's).
    pub id_tokens: u32,
    /// The conversation it belongs to.
    pub session: Option<u64>,
    /// It is sent this long after the session's previous turn has ended, instead of at `at`.
    pub delay: Option<Span>,
    /// The class of service that the trace names.
    pub class: Option<Arc<str>>,
    /// The tenant that the trace names.
    pub tenant: Option<Arc<str>>,
}

impl TraceRequest {
    /// The chained hashes of the prompt's full blocks of `block_size` tokens.
    ///
    /// Ids are chained, so the id that holds a block's last token, with that token's place inside
    /// the id, names the whole prefix up to there, whatever the two sizes are. The hashes are
    /// chained once more, so that ids which are not (a trace that repeats one within a prompt)
    /// never make two places of a prompt look alike.
    pub fn block_hashes(&self, block_size: u32) -> Arc<[BlockHash]> {
        if self.ids.is_empty() {
            return Arc::from([]);
        }
        let (block, id_tokens) = (u64::from(block_size), u64::from(self.id_tokens));
        let mut prefix = 0;
        (1..=self.prompt.0 / block)
            .map(|nth| {
                let last = nth * block - 1;
                let id = self.ids[(last / id_tokens) as usize];
                prefix = mixed(prefix ^ mixed(mixed(id) ^ (last % id_tokens)));
                BlockHash(prefix)
            })
            .collect()
    }
}

/// What is wrong with a trace: where, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}{}: {what}\nhint: {remedy}",
    file.display(),
    line.map(|line| format!(":{line}")).unwrap_or_default()
)]
pub struct TraceError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1, where one is at fault.
    pub line: Option<u64>,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// A trace, one request at a time, in the order of `at`.
pub type Requests = Box<dyn Iterator<Item = Result<TraceRequest, TraceError>>>;

#[cfg(test)]
mod tests;
