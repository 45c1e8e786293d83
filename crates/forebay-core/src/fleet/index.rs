//! Knows which worker holds which block in its cache.
//!
//! One map from block to the set of its holders. Chains are closed under prefixes (engines evict
//! tails first), so the holders of a chain's first blocks contain those of its later ones, and the
//! boundaries where the set shrinks are found by bisection: a few probes for a prompt of hundreds
//! of blocks, whatever the number of workers. Where a worker's cache has a hole, bisection may
//! overrate it by what lies behind the hole; the engine then computes more than predicted, and
//! nothing else happens.

use hashbrown::HashMap;

use super::active::Fixed;
use crate::units::BlockHash;

/// A set of workers, by slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slots {
    /// Exactly one: what nearly every block has.
    One(u32),
    /// Any number, one bit each.
    Many(Vec<u64>),
}

impl Slots {
    /// Whether the slot is in the set.
    pub(crate) fn contains(&self, slot: u32) -> bool {
        match self {
            Self::One(only) => *only == slot,
            Self::Many(bits) => {
                bits.get(slot as usize / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
            }
        }
    }

    /// Number of workers in the set.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Self::One(_) => 1,
            Self::Many(bits) => bits.iter().map(|word| word.count_ones()).sum(),
        }
    }

    fn insert(&mut self, slot: u32) {
        if self.contains(slot) {
            return;
        }
        let word = slot as usize / 64;
        match self {
            Self::One(only) => {
                let first = *only;
                let mut bits = vec![0; word.max(first as usize / 64) + 1];
                bits[first as usize / 64] |= 1 << (first % 64);
                bits[word] |= 1 << (slot % 64);
                *self = Self::Many(bits);
            }
            Self::Many(bits) => {
                if bits.len() <= word {
                    bits.resize(word + 1, 0);
                }
                bits[word] |= 1 << (slot % 64);
            }
        }
    }

    /// Takes the slot out; says whether the set is empty now.
    fn remove(&mut self, slot: u32) -> bool {
        match self {
            Self::One(only) => *only == slot,
            Self::Many(bits) => {
                if let Some(word) = bits.get_mut(slot as usize / 64) {
                    *word &= !(1 << (slot % 64));
                }
                bits.iter().all(|word| *word == 0)
            }
        }
    }

    /// The slots of the set in ascending order, at most `count_max` of them.
    pub(crate) fn iter(&self, count_max: usize) -> impl Iterator<Item = u32> + '_ {
        let (one, many) = match self {
            Self::One(slot) => (Some(*slot), &[][..]),
            Self::Many(bits) => (None, bits.as_slice()),
        };
        let members = many.iter().enumerate().flat_map(|(nth, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(nth as u32 * 64 + bit)
            })
        });
        one.into_iter().chain(members).take(count_max)
    }
}

/// Workers that hold this many leading blocks of a chain, or more.
#[derive(Clone, Debug)]
pub(crate) struct Group<'a> {
    /// Leading blocks held.
    pub(crate) depth: usize,
    /// Who holds them: deeper groups are contained in shallower ones.
    pub(crate) holders: &'a Slots,
}

/// Which worker holds which block.
#[derive(Debug, Default)]
pub(crate) struct BlockIndex {
    holders: HashMap<BlockHash, Slots, Fixed>,
}

impl BlockIndex {
    /// Notes that the worker holds the block.
    pub(crate) fn store(&mut self, slot: u32, block: BlockHash) {
        self.holders.entry(block).or_insert(Slots::One(slot)).insert(slot);
    }

    /// Notes that the worker no longer holds the block. One that it never held is no fault: events
    /// get lost.
    pub(crate) fn remove(&mut self, slot: u32, block: BlockHash) {
        if self.holders.get_mut(&block).is_some_and(|holders| holders.remove(slot)) {
            self.holders.remove(&block);
        }
    }

    /// Forgets the worker. Walks the whole index, which a worker that is lost or restarted is
    /// worth.
    pub(crate) fn clear(&mut self, slot: u32) {
        self.holders.retain(|_, holders| !holders.remove(slot));
    }

    /// How many leading blocks of the chain the worker holds.
    pub(crate) fn depth(&self, chain: &[BlockHash], slot: u32) -> usize {
        chain.partition_point(|block| {
            self.holders.get(block).is_some_and(|holders| holders.contains(slot))
        })
    }

    /// How many leading blocks of the chain the worker that holds most of it holds.
    pub(crate) fn depth_best(&self, chain: &[BlockHash]) -> usize {
        chain.partition_point(|block| self.holders.contains_key(block))
    }

    /// The groups of workers by how much of the chain they hold, deepest first; those that hold
    /// nothing are in none. Clears and fills `groups`.
    pub(crate) fn groups<'a>(&'a self, chain: &[BlockHash], groups: &mut Vec<Group<'a>>) {
        groups.clear();
        let deepest = self.depth_best(chain);
        if deepest == 0 {
            return;
        }
        let (Some(first), Some(last)) = (self.at(chain, 1), self.at(chain, deepest)) else {
            return;
        };
        self.bisect(chain, (1, first), (deepest, last), groups);
        groups.push(Group { depth: deepest, holders: last });
        groups.reverse();
    }

    /// Pushes a group for each depth in `[low, high)` below which the set of holders shrinks.
    fn bisect<'a>(
        &'a self,
        chain: &[BlockHash],
        low: (usize, &'a Slots),
        high: (usize, &'a Slots),
        groups: &mut Vec<Group<'a>>,
    ) {
        if low.1.len() == high.1.len() {
            return;
        }
        if high.0 - low.0 <= 1 {
            groups.push(Group { depth: low.0, holders: low.1 });
            return;
        }
        let depth = usize::midpoint(low.0, high.0);
        let Some(holders) = self.at(chain, depth) else { return };
        self.bisect(chain, low, (depth, holders), groups);
        self.bisect(chain, (depth, holders), high, groups);
    }

    fn at(&self, chain: &[BlockHash], depth: usize) -> Option<&Slots> {
        self.holders.get(&chain[depth - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(ids: std::ops::Range<u64>) -> Vec<BlockHash> {
        ids.map(BlockHash).collect()
    }

    fn store(index: &mut BlockIndex, slot: u32, blocks: &[BlockHash]) {
        blocks.iter().for_each(|block| index.store(slot, *block));
    }

    #[test]
    fn groups_come_deepest_first_and_name_every_boundary() {
        let mut index = BlockIndex::default();
        let chain = chain(0..100);
        store(&mut index, 0, &chain[..100]);
        store(&mut index, 70, &chain[..100]);
        store(&mut index, 1, &chain[..37]);
        store(&mut index, 2, &chain[..36]);
        store(&mut index, 3, &chain[..1]);
        let mut groups = Vec::new();
        index.groups(&chain, &mut groups);
        let found: Vec<(usize, Vec<u32>)> =
            groups.iter().map(|group| (group.depth, group.holders.iter(9).collect())).collect();
        let expected = [
            (100, vec![0, 70]),
            (37, vec![0, 1, 70]),
            (36, vec![0, 1, 2, 70]),
            (1, vec![0, 1, 2, 3, 70]),
        ];
        assert_eq!(found, expected);
        assert_eq!(index.depth(&chain, 1), 37);
        assert_eq!(index.depth(&chain, 9), 0);
        assert_eq!(index.depth_best(&chain), 100);
    }

    #[test]
    fn a_restarted_worker_attracts_nothing() {
        let mut index = BlockIndex::default();
        let chain = chain(0..4);
        store(&mut index, 5, &chain);
        store(&mut index, 6, &chain[..2]);
        index.clear(5);
        assert_eq!((index.depth(&chain, 5), index.depth(&chain, 6)), (0, 2));
        index.remove(5, chain[0]);
        assert_eq!(index.depth_best(&chain), 2);
        index.remove(6, chain[1]);
        index.remove(6, chain[0]);
        assert!(index.holders.is_empty());
    }
}
