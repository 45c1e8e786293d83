//! Keeps the KV blocks of an engine: who holds them, which prefix each one has, which is reused
//! first.
//!
//! The rules are those of vLLM's block pool. A block that nobody holds keeps its contents and can
//! be found until it is reused. Blocks without a hash are reused first; the others in the order in
//! which they were let go. A job lets go of its blocks from the last to the first, so the tail of a
//! prompt is lost before the prefix that others may share.

use forebay_core::BlockHash;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// No block: the end of a list.
const NONE: u32 = u32::MAX;
/// In place of a twin: the block has no hash.
const BLANK: u32 = u32::MAX - 1;

/// Where the table looks for a hash. Hashes are mixed already; one multiplication makes sure of it,
/// so that a poor hash costs no more than a good one.
fn spread(hash: BlockHash) -> u64 {
    // The golden ratio's odd multiplier (Knuth, TAOCP 3, 6.4); the rotation brings the well-mixed
    // high bits down to where the table takes its index from.
    hash.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26)
}

/// Small, since a fleet's blocks are far more than a cache holds, and each is looked at from time
/// to time.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The prefix it holds; meaningless for a blank block.
    hash: BlockHash,
    /// Jobs that hold it.
    holders: u32,
    /// Neighbours in the order of reuse, while it is hashed and idle.
    previous: u32,
    next: u32,
    /// Another block with the same hash, [`NONE`], or [`BLANK`].
    twin: u32,
}

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
    /// The first block of each findable prefix, by its hash. Only ever looked up, never iterated.
    found_at: HashTable<u32>,
    /// Prefixes that became findable since the last [`Self::drain`].
    stored: Vec<BlockHash>,
    /// Prefixes that ceased to be findable since the last [`Self::drain`].
    removed: Vec<BlockHash>,
    /// What each evicted block held since the last [`Self::evicted`], copies included; `None` where
    /// nobody asks.
    evicted: Option<Vec<BlockHash>>,
}

impl Blocks {
    /// That many blocks, none held, none hashed.
    pub(super) fn new(count: u32) -> Self {
        Self {
            all: vec![
                Block {
                    hash: BlockHash(0),
                    holders: 0,
                    previous: NONE,
                    next: NONE,
                    twin: BLANK
                };
                count as usize
            ],
            blank: (0..count).rev().collect(),
            oldest: NONE,
            newest: NONE,
            free: count,
            found_at: HashTable::with_capacity(count as usize),
            stored: Vec::new(),
            removed: Vec::new(),
            evicted: None,
        }
    }

    /// The same number of blocks, all blank.
    pub(super) fn emptied(&self) -> Self {
        Self { evicted: self.evicted.as_ref().map(|_| Vec::new()), ..Self::new(self.count()) }
    }

    /// Remembers from now on what each evicted block held.
    pub(super) fn watch_evictions(&mut self) {
        self.evicted = Some(Vec::new());
    }

    /// What was evicted since the last call, in order, if it is remembered.
    pub(super) fn evicted(&mut self) -> impl Iterator<Item = BlockHash> {
        self.evicted.iter_mut().flat_map(|evicted| evicted.drain(..))
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
        self.found_at.find(spread(hash), |&block| self.all[block as usize].hash == hash).copied()
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

    /// Gives a held blank block the hash of the prefix that it is about to hold, so that it can be
    /// found.
    pub(super) fn publish(&mut self, block: u32, hash: BlockHash) {
        let (all, found_at) = (&mut self.all, &mut self.found_at);
        let is_same = |&found: &u32| all[found as usize].hash == hash;
        let spread_of = |&found: &u32| spread(all[found as usize].hash);
        match found_at.entry(spread(hash), is_same, spread_of) {
            Entry::Vacant(place) => {
                place.insert(block);
                self.stored.push(hash);
            }
            Entry::Occupied(first) => {
                // The oldest copy is the one that is found, as in vLLM; this one waits behind the
                // others.
                let mut last = *first.get();
                while all[last as usize].twin != NONE {
                    last = all[last as usize].twin;
                }
                all[last as usize].twin = block;
            }
        }
        let block = &mut all[block as usize];
        (block.hash, block.twin) = (hash, NONE);
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
            if state.twin == BLANK {
                self.blank.push(block);
            } else {
                self.link_newest(block);
            }
        }
    }

    /// The prefixes removed and stored since the caller last cleared them. What was removed comes
    /// first: a prefix that a step stores is held until the step is over, so it can't be removed
    /// again in it.
    pub(super) fn drain(&mut self) -> (&mut Vec<BlockHash>, &mut Vec<BlockHash>) {
        (&mut self.removed, &mut self.stored)
    }

    /// Unhashes the block that was let go longest ago.
    fn evict(&mut self) -> u32 {
        let block = self.oldest;
        debug_assert_ne!(block, NONE, "a block was taken where none is free");
        self.unlink(block);
        let Block { hash, twin, .. } = self.all[block as usize];
        if let Some(evicted) = &mut self.evicted {
            evicted.push(hash);
        }
        match self.found_at.find_entry(spread(hash), |&first| first == block) {
            Ok(first) if twin == NONE => {
                first.remove();
                self.removed.push(hash);
            }
            Ok(mut first) => *first.get_mut() = twin,
            Err(_) => {
                let mut before = self.find(hash).expect("a hashed block's first copy can be found");
                while self.all[before as usize].twin != block {
                    before = self.all[before as usize].twin;
                }
                self.all[before as usize].twin = twin;
            }
        }
        self.all[block as usize].twin = BLANK;
        block
    }

    /// Panics unless the lists, the holders and the counts agree with each other and with the jobs'
    /// tables.
    #[cfg(test)]
    pub(super) fn assert_consistent<'a>(&self, tables: impl Iterator<Item = &'a Vec<u32>>) {
        let mut holders = vec![0; self.all.len()];
        tables.flatten().for_each(|&block| holders[block as usize] += 1);
        let (mut idle, mut block, mut before) = (self.blank.clone(), self.oldest, NONE);
        while block != NONE {
            assert_ne!(
                self.all[block as usize].twin, BLANK,
                "the order of reuse holds a blank block"
            );
            assert_eq!(self.all[block as usize].previous, before);
            idle.push(block);
            (before, block) = (block, self.all[block as usize].next);
        }
        assert_eq!(self.newest, before);
        assert_eq!(self.free as usize, idle.len(), "free and used blocks are not all blocks");
        idle.iter()
            .for_each(|&block| assert_eq!(holders[block as usize], 0, "it is held and idle"));
        assert_eq!(idle.len() + holders.iter().filter(|&&held| held > 0).count(), self.all.len());
        for (place, block) in self.all.iter().enumerate() {
            assert_eq!(
                block.holders, holders[place],
                "block {place} has lost count of its holders"
            );
            if block.twin != BLANK {
                let mut copy = self.find(block.hash).expect("a hashed block can be found");
                while copy as usize != place {
                    copy = self.all[copy as usize].twin;
                }
            }
        }
        let hashed = self.all.iter().filter(|block| block.twin != BLANK);
        let distinct: std::collections::BTreeSet<_> = hashed.map(|block| block.hash).collect();
        assert_eq!(distinct.len(), self.found_at.len(), "something found is not there");
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
