//! Hashes a prompt block by block, each hash over everything before it.
//!
//! Two prompts have equal hashes as far as their blocks are equal from the first byte on, which is
//! how engines find prefixes in their caches. The blocks here are of bytes, not of tokens: nothing
//! need be tokenised, and a worker's own hashes need not be known.

use xxhash_rust::xxh3::xxh3_64;

/// The chained hashes of the full blocks of these spans, as if they stood one behind the other.
///
/// A rest shorter than a block has no hash. The seed stands for whatever else must be equal for
/// prefixes to be shared: model, salt, tenant. A block size of 0 gives no blocks.
pub fn chain(spans: &[&[u8]], block_bytes: usize, seed: u64) -> Vec<u64> {
    if block_bytes == 0 {
        return Vec::new();
    }
    let total: usize = spans.iter().map(|span| span.len()).sum();
    let mut hashes = Vec::with_capacity(total / block_bytes);
    let mut last = mix(seed);
    let mut add = |block: &[u8]| {
        last = mix(last ^ xxh3_64(block));
        hashes.push(last);
    };
    // The part of a block that spans before have begun; only such blocks are copied.
    let mut begun: Vec<u8> = Vec::new();
    for span in spans {
        let mut span = *span;
        if !begun.is_empty() {
            let (head, rest) = span.split_at(span.len().min(block_bytes - begun.len()));
            begun.extend_from_slice(head);
            span = rest;
            if begun.len() < block_bytes {
                continue;
            }
            add(&begun);
            begun.clear();
        }
        let blocks = span.chunks_exact(block_bytes);
        begun.extend_from_slice(blocks.remainder());
        blocks.for_each(&mut add);
    }
    hashes
}

/// Spreads every bit over all others, one to one: the last step of `SplitMix64` (Steele, Lea and
/// Flood, 2014). Between two blocks it makes their order count.
const fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_beginnings_have_equal_hashes_and_nothing_after_a_difference_has() {
        let one = b"aaaabbbbccccdddd";
        let two = b"aaaabbbbCcccdddd";
        let (one, two) = (chain(&[one], 4, 1), chain(&[two], 4, 1));
        assert_eq!(one.len(), 4);
        assert_eq!(one[..2], two[..2]);
        assert_ne!(one[2], two[2]);
        assert_ne!(one[3], two[3]);
    }

    #[test]
    fn seed_and_order_of_blocks_count() {
        assert_ne!(chain(&[b"aaaa"], 4, 1), chain(&[b"aaaa"], 4, 2));
        let hashes = chain(&[b"aaaaaaaa"], 4, 1);
        assert_ne!(hashes[0], hashes[1]);
        assert_ne!(chain(&[b"aaaabbbb"], 4, 1)[1], chain(&[b"bbbbaaaa"], 4, 1)[1]);
    }

    #[test]
    fn only_full_blocks_are_hashed() {
        assert!(chain(&[b"abc"], 4, 0).is_empty());
        assert!(chain(&[], 4, 0).is_empty());
        assert!(chain(&[b"abc"], 0, 0).is_empty());
        assert!(chain(&[b"abc"], usize::MAX, 0).is_empty());
        assert_eq!(chain(&[b"abc", b"", b"d"], 4, 0), chain(&[b"abcd"], 4, 0));
    }

    proptest! {
        #[test]
        fn spans_hash_as_if_they_were_one(
            text in prop::collection::vec(any::<u8>(), 0..300),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
            block_bytes in 1..40_usize,
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let spans: Vec<&[u8]> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
            let hashes = chain(&spans, block_bytes, 7);
            prop_assert_eq!(hashes.len(), text.len() / block_bytes);
            prop_assert_eq!(hashes, chain(&[&text], block_bytes, 7));
        }
    }
}
