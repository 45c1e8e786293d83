//! Chains the hashes of a prompt's blocks as vLLM does with `--prefix-caching-hash-algo
//! sha256_cbor`.
//!
//! A block's hash is the SHA-256 of the canonical CBOR of its parent's hash, its tokens and what
//! else makes it differ; the first block's parent is the hash of a seed, the same in every process
//! of vLLM 0.32. KV events carry the low 64 bits. So whoever knows the tokens knows the hashes, and
//! equal prompts have equal hashes on all workers.

use std::sync::Arc;

use forebay_core::BlockHash;
use sha2::{Digest, Sha256};

/// The seed of the chain when `PYTHONHASHSEED` is not set (vLLM 0.32).
const SEED: &str = "vllm-none-hash";

// CBOR's major types, RFC 8949, 3.1.
const UNSIGNED: u8 = 0;
const BYTES: u8 = 2 << 5;
const TEXT: u8 = 3 << 5;
const ARRAY: u8 = 4 << 5;
const NULL: u8 = 0xf6;

/// The hashes of a prompt's full blocks. `salt` keeps the caches of those who know it apart.
pub(super) fn block_hashes(tokens: &[u32], size: u32, salt: Option<&str>) -> Arc<[BlockHash]> {
    let mut cbor = Vec::with_capacity(5 * size as usize + 64);
    put_text(&mut cbor, SEED);
    let mut parent = Sha256::digest(&cbor);
    let mut salt = salt;
    let blocks = tokens.chunks_exact(size as usize).map(|block| {
        cbor.clear();
        put(&mut cbor, ARRAY, 3);
        put(&mut cbor, BYTES, 32);
        cbor.extend_from_slice(&parent);
        put(&mut cbor, ARRAY, block.len() as u64);
        block.iter().for_each(|&token| put(&mut cbor, UNSIGNED, u64::from(token)));
        match salt.take() {
            Some(salt) => {
                put(&mut cbor, ARRAY, 1);
                put(&mut cbor, ARRAY, 2);
                put_text(&mut cbor, "cache_salt");
                put_text(&mut cbor, salt);
            }
            None => cbor.push(NULL),
        }
        parent = Sha256::digest(&cbor);
        let low = parent[24..].try_into().expect("a SHA-256 has 32 bytes");
        BlockHash(u64::from_be_bytes(low))
    });
    blocks.collect()
}

/// A head with its argument in the fewest bytes, as canonical CBOR wants it.
fn put(cbor: &mut Vec<u8>, major: u8, argument: u64) {
    match argument {
        0..24 => cbor.push(major | argument as u8),
        24..0x100 => cbor.extend([major | 0x18, argument as u8]),
        0x100..0x1_0000 => {
            cbor.push(major | 0x19);
            cbor.extend((argument as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            cbor.push(major | 0x1a);
            cbor.extend((argument as u32).to_be_bytes());
        }
        _ => {
            cbor.push(major | 0x1b);
            cbor.extend(argument.to_be_bytes());
        }
    }
}

fn put_text(cbor: &mut Vec<u8>, text: &str) {
    put(cbor, TEXT, text.len() as u64);
    cbor.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::block_hashes;

    /// Two blocks of 32 tokens that vLLM 0.32 hashed.
    const TOKENS: [u32; 64] = [
        4097, 2609, 198, 49, 454, 220, 15, 25, 291, 473, 379, 3280, 872, 844, 1155, 1609, 3248,
        340, 291, 1906, 293, 514, 1638, 1182, 541, 82, 1302, 1294, 13, 875, 454, 220, 16, 25, 291,
        473, 379, 3280, 872, 844, 1155, 1609, 3248, 340, 291, 1906, 293, 514, 1638, 1182, 541, 82,
        1302, 1294, 13, 875, 454, 220, 17, 25, 291, 473, 379, 3280,
    ];

    #[test]
    fn hashes_are_those_that_vllm_published() {
        let hashes = block_hashes(&TOKENS, 32, None);
        let hashes: Vec<u64> = hashes.iter().map(|hash| hash.0).collect();
        assert_eq!(hashes, [1_224_976_894_912_555_421, 2_578_613_199_789_636_512]);
    }

    #[test]
    fn a_salt_changes_the_first_block_as_in_vllm_and_so_all_behind_it() {
        let plain = block_hashes(&TOKENS, 32, None);
        let salted = block_hashes(&TOKENS, 32, Some("tenant-42"));
        assert_eq!(salted[0].0, 18_394_573_950_860_736_607);
        assert_ne!(salted[1], plain[1]);
    }

    #[test]
    fn a_block_that_is_not_full_has_no_hash() {
        assert_eq!(block_hashes(&TOKENS[..63], 32, None).len(), 1);
        assert_eq!(block_hashes(&[], 32, None).len(), 0);
    }
}
