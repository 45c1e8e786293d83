//! Counts the tokens of a request as its answer tells them.

use super::ticket::Ticket;

/// The tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Of all prompts.
    pub(super) prompt: u64,
    /// Of all answers.
    pub(super) completion: u64,
    /// Of all prompts, found in the cache.
    pub(super) cached: u64,
    /// Of all prompts, new in the cache.
    pub(super) created: u64,
}

impl Usage {
    /// Counts `prompts` of these lengths with `n` answers each.
    pub(super) fn of(ticket: &Ticket, prompts: &[u32], n: usize, block_size: u32) -> Self {
        let mut usage = Self::default();
        for (place, &prompt) in prompts.iter().enumerate() {
            // The others of its answers find what the first one has stored.
            let cached = ticket.progress(place * n).cached;
            usage.prompt += u64::from(prompt);
            usage.cached += u64::from(cached);
            usage.created += u64::from((prompt - prompt % block_size).saturating_sub(cached));
        }
        let answers = (0..prompts.len() * n).map(|job| ticket.progress(job).generated);
        usage.completion = answers.map(u64::from).sum();
        usage
    }

    /// At the end of a stream: of a chat, or of anything else.
    pub(super) fn last_event(self, is_chat: bool) -> String {
        let Self { prompt, completion, cached, created } = self;
        let total = prompt + completion;
        let created =
            if is_chat { format!(",\"created_cache_tokens\":{created}") } else { String::new() };
        format!(
            "{{\"prompt_tokens\":{prompt},\"total_tokens\":{total},\"completion_tokens\":\
             {completion},\"prompt_tokens_details\":{{\"cached_tokens\":{cached}{created}}}}}"
        )
    }

    /// In a whole answer: of a chat, or of anything else.
    pub(super) fn whole(self, is_chat: bool) -> String {
        let Self { prompt, completion, cached, created } = self;
        let total = prompt + completion;
        let created = if is_chat { created.to_string() } else { "null".to_owned() };
        format!(
            "{{\"prompt_tokens\":{prompt},\"total_tokens\":{total},\"completion_tokens\":\
             {completion},\"prompt_tokens_details\":{{\"cached_tokens\":{cached},\
             \"created_cache_tokens\":{created},\"multimodal_tokens\":null}},\
             \"completion_tokens_details\":null}}"
        )
    }
}

/// In every chunk of a stream whose client asked for it: of one answer so far.
pub(super) fn so_far(prompt: u32, generated: u32) -> String {
    let total = u64::from(prompt) + u64::from(generated);
    format!(
        "{{\"prompt_tokens\":{prompt},\"total_tokens\":{total},\"completion_tokens\":{generated},\
         \"completion_tokens_details\":null}}"
    )
}
