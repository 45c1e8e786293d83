//! Keeps the KV blocks of an engine: who holds them, which prefix each one has, which is reused first.
//!
//! The rules are those of vLLM's block pool. A block that nobody holds keeps its contents and can be found
//! until it is reused. Blocks without a hash are reused first; the others in the order in which they were
//! let go. A job lets go of its blocks from the last to the first, so the tail of a prompt is lost before the
//! prefix that others may share.

use std::hash::{BuildHasherDefault, Hasher};

use forebay_core::BlockHash;
use hashbrown::HashMap;

/// No block: the end of a list.
const NONE: u32 = u32::MAX;

/// Spreads block hashes, which are mixed already: one multiplication, so that a poor hash costs no more
/// than a good one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u64(&mut self, word: u64) {
        // The golden ratio's odd multiplier (Knuth, TAOCP 3, 6.4); the rotation brings the well-mixed high
        // bits down to where the table takes its index from.
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Clone, Copy, Debug)]
struct Block {
    /// The prefix it holds; meaningless unless `hashed`.
    hash: BlockHash,
    /// Jobs that hold it.
    holders: u32,
    /// Neighbours in the order of reuse, while it is hashed and idle.
    previous: u32,
    next: u32,
    /// Another block with the same hash.
    twin: u32,
    hashed: bool,
}

const BLANK: Block =
    Block { hash: BlockHash(0), holders: 0, previous: NONE, next: NONE, twin: NONE, hashed: false };

/// The blocks of one engine.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    all: Vec<Block>,
    /// Idle blocks without a hash; the last one is reused first.
    blank: Vec<u32>,
    /// Idle blocks with a hash: the oldest is reused first.
    oldest: u32,
    newest: u32,
    /// Idle blocks, hashed or not.
    free: u32,
    /// Where each findable prefix is. Only ever looked up, never iterated.
    found_at: HashMap<BlockHash, u32, BuildHasherDefault<Spread>>,
    /// Prefixes that became findable since the last [`Self::drain`].
    stored: Vec<BlockHash>,
    /// Prefixes that ceased to be findable since the last [`Self::drain`].
    removed: Vec<BlockHash>,
}

impl Blocks {
    /// That many blocks, none held, none hashed.
    pub(super) fn new(count: u32) -> Self {
        Self {
            all: vec![BLANK; count as usize],
            blank: (0..count).rev().collect(),
            oldest: NONE,
            newest: NONE,
            free: count,
            found_at: HashMap::default(),
            stored: Vec::new(),
            removed: Vec::new(),
        }
    }

    /// Number of all blocks.
    pub(super) fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// Number of blocks that nobody holds.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// The block that holds this prefix.
    pub(super) fn find(&self, hash: BlockHash) -> Option<u32> {
        self.found_at.get(&hash).copied()
    }

    /// Whether nobody holds this block.
    pub(super) fn is_idle(&self, block: u32) -> bool {
        self.all[block as usize].holders == 0
    }

    /// Holds a block that was found, which saves it from reuse.
    pub(super) fn hold(&mut self, block: u32) {
        if self.is_idle(block) {
            self.unlink(block);
            self.free -= 1;
        }
        self.all[block as usize].holders += 1;
    }

    /// Takes a free block for new contents. There must be one.
    pub(super) fn take(&mut self) -> u32 {
        let block = self.blank.pop().unwrap_or_else(|| self.evict());
        self.free -= 1;
        self.all[block as usize].holders = 1;
        block
    }

    /// Gives a held block the hash of the prefix that it is about to hold, so that it can be found.
    pub(super) fn publish(&mut self, block: u32, hash: BlockHash) {
        let twin = match self.found_at.entry(hash) {
            hashbrown::hash_map::Entry::Vacant(slot) => {
                slot.insert(block);
                self.stored.push(hash);
                NONE
            }
            // The first copy stays the one that is found, as in vLLM; this one waits behind it.
            hashbrown::hash_map::Entry::Occupied(first) => {
                let first = &mut self.all[*first.get() as usize];
                std::mem::replace(&mut first.twin, block)
            }
        };
        let block = &mut self.all[block as usize];
        (block.hash, block.hashed, block.twin) = (hash, true, twin);
    }

    /// Lets go of a job's blocks, last one first, and empties the table.
    pub(super) fn release(&mut self, table: &mut Vec<u32>) {
        while let Some(block) = table.pop() {
            let state = &mut self.all[block as usize];
            state.holders -= 1;
            if state.holders > 0 {
                continue;
            }
            self.free += 1;
            if state.hashed {
                self.link_newest(block);
            } else {
                self.blank.push(block);
            }
        }
    }

    /// The prefixes removed and stored since the last call, in this order: none is in both orders wrongly,
    /// since what a step stores is held until after it.
    pub(super) fn drain(&mut self) -> (&mut Vec<BlockHash>, &mut Vec<BlockHash>) {
        (&mut self.removed, &mut self.stored)
    }

    /// Unhashes the block that was let go longest ago.
    fn evict(&mut self) -> u32 {
        let block = self.oldest;
        debug_assert_ne!(block, NONE, "a block was taken where none is free");
        self.unlink(block);
        let Block { hash, twin, .. } = self.all[block as usize];
        let first = self.found_at.get_mut(&hash).expect("a hashed block can be found");
        if *first != block {
            let mut before = *first;
            while self.all[before as usize].twin != block {
                before = self.all[before as usize].twin;
            }
            self.all[before as usize].twin = twin;
        } else if twin != NONE {
            *first = twin;
        } else {
            self.found_at.remove(&hash);
            self.removed.push(hash);
        }
        self.all[block as usize] = BLANK;
        block
    }

    fn link_newest(&mut self, block: u32) {
        let before = std::mem::replace(&mut self.newest, block);
        let state = &mut self.all[block as usize];
        (state.previous, state.next) = (before, NONE);
        match before {
            NONE => self.oldest = block,
            before => self.all[before as usize].next = block,
        }
    }

    fn unlink(&mut self, block: u32) {
        let Block { previous, next, .. } = self.all[block as usize];
        match previous {
            NONE => self.oldest = next,
            previous => self.all[previous as usize].next = next,
        }
        match next {
            NONE => self.newest = previous,
            next => self.all[next as usize].previous = previous,
        }
    }
}
