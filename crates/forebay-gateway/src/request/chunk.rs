//! Turns a prompt's text into what the core needs of it: a length in tokens and chained hashes.
//!
//! The text is never tokenized here. Its bytes are cut into blocks of the size that the model's
//! learned ratio gives, and the hashes of those say which prompts share a prefix. Two prompts with
//! equal first blocks have equal first tokens, so nothing is believed cached that is not; what
//! ends inside a block is lost, as it is in the engine.

use std::sync::Arc;

use forebay_core::{BlockHash, Tokens};
use forebay_wire::blocks;
use forebay_wire::openai::Prompt;

use crate::pool::Ratio;

/// Most blocks of one prompt that are hashed. What lies behind them counts as the request's own:
/// prefixes that are shared by many are shorter.
const BLOCKS_MAX: usize = 1_024;

/// What the core needs of a prompt.
#[derive(Debug)]
pub(super) struct Chunked {
    /// Its length, estimated unless it came as token ids.
    pub(super) prompt: Tokens,
    /// Chained hashes of its full blocks.
    pub(super) blocks: Arc<[BlockHash]>,
    /// Bytes of it that the engine will see.
    pub(super) bytes: u64,
}

/// Cuts a prompt into blocks of so many tokens. Prompts under different salts share none.
pub(super) fn chunk(prompt: &Prompt<'_>, ratio: &Ratio, block_size: u32, salt: u64) -> Chunked {
    let bytes = prompt.bytes();
    let tokens = prompt.tokens.unwrap_or_else(|| ratio.tokens(bytes)).max(1);
    let block_bytes = match prompt.tokens {
        // Ids are written with a length of their own, which the text's ratio knows nothing of.
        Some(ids) if ids > 0 => {
            ((bytes as f64 / ids as f64 * f64::from(block_size)).round() as usize).max(1)
        }
        _ => ratio.block_bytes(block_size),
    };
    let whole = (tokens / u64::from(block_size)) as usize;
    let mut hashes = blocks::chain(&prompt.spans, block_bytes, salt);
    hashes.truncate(whole.min(BLOCKS_MAX));
    Chunked { prompt: Tokens(tokens), blocks: hashes.into_iter().map(BlockHash).collect(), bytes }
}
