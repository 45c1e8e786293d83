//! Writes KV events in the form of vLLM 0.24 and later: maps in `MessagePack`.
//!
//! One batch for each step of the engine, in which what was evicted for a request stands before
//! what was stored for it. Every copy of a block is told of. The blocks of answers are not, since
//! the engine model does not share them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use forebay_core::BlockHash;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::engine::CopyChange;

/// A prompt, as far as events tell of it.
#[derive(Debug)]
pub(super) struct Prompt {
    /// Its length in tokens.
    pub(super) len: u32,
    /// Its tokens; empty where no events are sent.
    pub(super) tokens: Vec<u32>,
    /// What keeps its cache apart.
    pub(super) salt: Option<String>,
}

/// What crosses the wire, with keys in vLLM's order. Keys whose default is no value are left out
/// by vLLM as well.
#[derive(Serialize)]
#[serde(untagged)]
enum Event<'a> {
    Stored {
        #[serde(rename = "type")]
        kind: &'static str,
        block_hashes: &'a [u64],
        parent_block_hash: Option<u64>,
        token_ids: &'a [u32],
        block_size: u32,
        lora_id: Option<u32>,
        medium: &'static str,
        lora_name: Option<&'static str>,
        extra_keys: Vec<Option<[&'a str; 1]>>,
        group_idx: u32,
        kv_cache_spec_kind: &'static str,
    },
    Removed {
        #[serde(rename = "type")]
        kind: &'static str,
        block_hashes: [u64; 1],
        medium: &'static str,
        group_idx: u32,
    },
    Cleared {
        #[serde(rename = "type")]
        kind: &'static str,
    },
}

const CLEARED: Event<'static> = Event::Cleared { kind: "AllBlocksCleared" };

fn removed(hash: BlockHash) -> Event<'static> {
    Event::Removed { kind: "BlockRemoved", block_hashes: [hash.0], medium: "GPU", group_idx: 0 }
}

/// The payload of a batch: the seconds since the epoch of Unix, the events, the rank.
fn batch(timestamp: f64, events: &[Event<'_>]) -> Bytes {
    let mut payload = Vec::with_capacity(256);
    let mut serializer = rmp_serde::Serializer::new(&mut payload).with_struct_map();
    (timestamp, events, 0_u32).serialize(&mut serializer).expect("a Vec takes all");
    payload.into()
}

/// Writes a worker's events and hands them to its publisher.
#[derive(Debug)]
pub(super) struct Events {
    block_size: u32,
    /// The cache was emptied, which vLLM tells with the next step only.
    cleared: bool,
    dropping: Rc<Cell<bool>>,
    batches: mpsc::Sender<Bytes>,
}

impl Events {
    /// Events of blocks of that size, for the publisher at the other end of `batches`, which sends
    /// nothing while `dropping`.
    pub(super) fn new(
        block_size: u32,
        dropping: Rc<Cell<bool>>,
        batches: mpsc::Sender<Bytes>,
    ) -> Self {
        Self { block_size, cleared: false, dropping, batches }
    }

    /// Says that the cache was emptied.
    pub(super) fn note_cleared(&mut self) {
        self.cleared = true;
    }

    /// Begins or ends to lose events.
    pub(super) fn set_dropping(&self, dropping: bool) {
        self.dropping.set(dropping);
    }

    /// Publishes what became of copies in one step. `job_of` knows the prompts of those inside.
    pub(super) fn publish<'a>(
        &mut self,
        copies: impl Iterator<Item = CopyChange>,
        job_of: impl Fn(u64) -> Option<(&'a Prompt, &'a [BlockHash])>,
    ) {
        let copies: Vec<_> = copies.collect();
        if copies.is_empty() {
            return;
        }
        let hashes = copies.iter().map(|change| match change {
            CopyChange::Stored { job, blocks } => job_of(*job)
                .map(|(_, hashes)| hashes[blocks.clone()].iter().map(|hash| hash.0).collect())
                .unwrap_or_default(),
            CopyChange::Removed(_) => Vec::new(),
        });
        let hashes: Vec<Vec<u64>> = hashes.collect();
        let cleared = std::mem::take(&mut self.cleared).then_some(CLEARED);
        let events = copies.iter().zip(&hashes).filter_map(|(change, hashes)| match change {
            CopyChange::Removed(hash) => Some(removed(*hash)),
            CopyChange::Stored { job, blocks } => {
                let (prompt, chain) = job_of(*job)?;
                let size = self.block_size as usize;
                let salt = |block: usize| prompt.salt.as_deref().filter(|_| block == 0);
                Some(Event::Stored {
                    kind: "BlockStored",
                    block_hashes: hashes,
                    parent_block_hash: blocks.start.checked_sub(1).map(|parent| chain[parent].0),
                    token_ids: prompt.tokens.get(blocks.start * size..blocks.end * size)?,
                    block_size: self.block_size,
                    lora_id: None,
                    medium: "GPU",
                    lora_name: None,
                    extra_keys: blocks.clone().map(|block| salt(block).map(|it| [it])).collect(),
                    group_idx: 0,
                    kv_cache_spec_kind: "full_attention",
                })
            }
        });
        let events: Vec<_> = cleared.into_iter().chain(events).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // A publisher that is so far behind has a subscriber that asks for a replay anyway.
        let _ = self.batches.try_send(batch(now.as_secs_f64(), &events));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fmt::Write as _;
    use std::rc::Rc;

    use forebay_core::BlockHash;
    use tokio::sync::mpsc;

    use super::{Events, Prompt, batch, removed};
    use crate::engine::CopyChange;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a String takes all");
            text
        })
    }

    /// A batch's bytes from behind its timestamp on.
    fn events_of(payload: &str) -> &str {
        &payload[20..]
    }

    #[test]
    fn a_stored_block_has_the_bytes_that_were_captured() {
        let captured = include_str!("captured/kv_batches.txt").lines().next().expect("it is there");
        let (to, mut batches) = mpsc::channel(1);
        let mut events = Events::new(32, Rc::new(Cell::new(false)), to);
        let tokens = [3910, 2596].into_iter().cycle().take(64).collect();
        let prompt = Prompt { len: 64, tokens, salt: None };
        let chain = [4_343_225_162_560_079_673, 5_741_890_649_664_575_845].map(BlockHash);
        let stored = CopyChange::Stored { job: 7, blocks: 1..2 };
        events.publish([stored].into_iter(), |_| Some((&prompt, &chain)));
        let sent = hex(&batches.try_recv().expect("it was sent"));
        assert_eq!(events_of(&sent), events_of(captured));
        assert_eq!(sent[..6], captured[..6]);
    }

    #[test]
    fn a_cleared_cache_is_told_with_the_next_step_and_before_it() {
        let captured = include_str!("captured/kv_batches.txt").lines().nth(1).expect("it is there");
        let (to, mut batches) = mpsc::channel(2);
        let mut events = Events::new(4, Rc::new(Cell::new(false)), to);
        events.note_cleared();
        assert!(batches.try_recv().is_err());
        let step = || [CopyChange::Removed(BlockHash(5))].into_iter();
        events.publish(step(), |_| None);
        events.publish(step(), |_| None);
        let first = hex(&batches.try_recv().expect("it was sent"));
        // The tag, the length of the list and the first event are those of the capture.
        assert_eq!(first[20..64], captured[20..64]);
        let second = hex(&batches.try_recv().expect("it was sent"));
        let alone = hex(&batch(0.0, &[removed(BlockHash(5))]));
        assert_eq!(events_of(&second), events_of(&alone));
    }

    #[test]
    fn a_salt_stands_beside_the_first_block_only() {
        let (to, mut batches) = mpsc::channel(1);
        let mut events = Events::new(4, Rc::new(Cell::new(false)), to);
        let salt = Some("t".to_owned());
        let prompt = Prompt { len: 8, tokens: vec![1; 8], salt };
        let chain = [BlockHash(1), BlockHash(2)];
        let stored = CopyChange::Stored { job: 0, blocks: 0..2 };
        events.publish([stored].into_iter(), |_| Some((&prompt, &chain)));
        let sent = hex(&batches.try_recv().expect("it was sent"));
        // Two keys: a list of one text, and nil.
        let keys = ["aa", &hex(b"extra_keys"), "92", "91a174", "c0"].concat();
        assert!(sent.contains(&keys), "{sent}");
    }
}
