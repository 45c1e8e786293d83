//! Guesses a worker's cache from our own dispatches, for engines that tell nothing.
//!
//! A mirror of the engine's least-recently-used list: a dispatch touches its whole chain, tail
//! first so that the tail is the older, and what exceeds the worker's capacity is forgotten from
//! the old end. Evidence (`docs/concepts/evidence.md`): an index four times too large or too small
//! makes no material difference.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::active::Fixed;
use crate::units::BlockHash;

/// The guessed cache of one worker.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    /// When each block was touched last.
    touched: HashMap<BlockHash, u64, Fixed>,
    /// Touches in order; one that is not the block's last is void.
    order: VecDeque<(u64, BlockHash)>,
    clock: u64,
}

impl Mirror {
    /// Touches the chain and evicts what exceeds `blocks_max`. Calls `stored` for what is new and
    /// `removed` for what is evicted.
    pub(crate) fn touch(
        &mut self,
        chain: &[BlockHash],
        blocks_max: u64,
        mut stored: impl FnMut(BlockHash),
        mut removed: impl FnMut(BlockHash),
    ) {
        for block in chain.iter().rev() {
            self.clock += 1;
            if self.touched.insert(*block, self.clock).is_none() {
                stored(*block);
            }
            self.order.push_back((self.clock, *block));
        }
        while self.touched.len() as u64 > blocks_max {
            let Some((touch, block)) = self.order.pop_front() else { break };
            if self.touched.get(&block) == Some(&touch) {
                self.touched.remove(&block);
                removed(block);
            }
        }
        // Void touches of hot blocks pile up behind a cold head: compacted once they are the larger
        // half.
        if self.order.len() > 2 * self.touched.len() + 64 {
            let touched = &self.touched;
            self.order.retain(|(touch, block)| touched.get(block) == Some(touch));
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_touched_tail_goes_first() {
        let mut mirror = Mirror::default();
        let chain: Vec<_> = (0..4).map(BlockHash).collect();
        let other: Vec<_> = (10..12).map(BlockHash).collect();
        mirror.touch(&chain, 5, |_| {}, |_| unreachable!("it fits"));
        let mut removed = Vec::new();
        mirror.touch(&other, 5, |_| {}, |block| removed.push(block));
        assert_eq!(removed, [BlockHash(3)]);
    }

    #[test]
    fn touching_one_chain_for_ever_takes_no_memory() {
        let mut mirror = Mirror::default();
        let chain: Vec<_> = (0..4).map(BlockHash).collect();
        for _ in 0..10_000 {
            mirror.touch(&chain, 5, |_| {}, |_| {});
        }
        assert!(mirror.order.len() < 100);
    }
}
