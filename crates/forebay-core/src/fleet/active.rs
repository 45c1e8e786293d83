//! Counts the unique prompt blocks that a worker's unfinished requests hold.
//!
//! A block that several requests share occupies KV memory once, so it must be counted once:
//! counting it per request lets the gate leak (`docs/concepts/evidence.md` has the measurement).
//! Block hashes are chained, so the blocks in use form a tree whose nodes are kept as long as they
//! have a child or a request that ends at them. Adding or removing a request touches only the
//! blocks that no other request holds, and one binary search finds how many those are.

use hashbrown::HashMap;

use crate::units::BlockHash;

/// A hasher that is the same in every process, for look-ups whose order nobody sees.
pub(crate) type Fixed = foldhash::fast::FixedState;

/// The unique prompt blocks in use on one worker.
#[derive(Debug, Default)]
pub(crate) struct ActiveBlocks {
    /// Children in use plus requests that end here. Never 0.
    uses: HashMap<BlockHash, u32, Fixed>,
}

impl ActiveBlocks {
    /// Number of unique blocks in use.
    pub(crate) fn len(&self) -> u64 {
        self.uses.len() as u64
    }

    /// How many leading blocks of the chain are in use.
    pub(crate) fn depth(&self, chain: &[BlockHash]) -> usize {
        // Blocks in use are closed under prefixes, so a binary search finds the boundary.
        chain.partition_point(|block| self.uses.contains_key(block))
    }

    /// Takes a request's chain into use.
    pub(crate) fn add(&mut self, chain: &[BlockHash]) {
        let Some(last) = chain.last() else { return };
        let depth = self.depth(chain);
        if depth < chain.len() && depth > 0 {
            *self.uses.entry(chain[depth - 1]).or_insert(0) += 1;
        }
        for block in &chain[depth..] {
            // One use by its child, or by the request itself if it is the last.
            self.uses.insert(*block, 1);
        }
        if depth == chain.len() {
            *self.uses.entry(*last).or_insert(0) += 1;
        }
    }

    /// Gives a request's chain back. It must have been added.
    pub(crate) fn remove(&mut self, chain: &[BlockHash]) {
        for block in chain.iter().rev() {
            let Some(uses) = self.uses.get_mut(block) else {
                debug_assert!(false, "a block was given back that is not in use");
                return;
            };
            *uses -= 1;
            if *uses > 0 {
                return;
            }
            self.uses.remove(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(ids: &[u64]) -> Vec<BlockHash> {
        ids.iter().copied().map(BlockHash).collect()
    }

    #[test]
    fn a_shared_prefix_is_counted_once() {
        let mut active = ActiveBlocks::default();
        active.add(&chain(&[1, 2, 3]));
        active.add(&chain(&[1, 2, 4, 5]));
        assert_eq!(active.len(), 5);
        assert_eq!(active.depth(&chain(&[1, 2, 4, 9])), 3);
    }

    #[test]
    fn blocks_leave_with_their_last_request() {
        let mut active = ActiveBlocks::default();
        let (short, long) = (chain(&[1, 2]), chain(&[1, 2, 3]));
        active.add(&short);
        active.add(&long);
        active.add(&short);
        active.remove(&long);
        assert_eq!(active.len(), 2);
        active.remove(&short);
        assert_eq!(active.len(), 2);
        active.remove(&short);
        assert_eq!(active.len(), 0);
    }

    #[test]
    fn the_order_of_adding_a_prefix_and_its_extension_does_not_matter() {
        let (short, long) = (chain(&[1, 2]), chain(&[1, 2, 3]));
        for first_short in [true, false] {
            let mut active = ActiveBlocks::default();
            let (first, second) = if first_short { (&short, &long) } else { (&long, &short) };
            active.add(first);
            active.add(second);
            active.remove(first);
            active.remove(second);
            assert_eq!(active.len(), 0);
        }
    }
}
