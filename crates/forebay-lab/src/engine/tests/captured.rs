//! Holds the engine against what real vLLM 0.32 published while its cache overflowed.
//!
//! The figures are those of `captures/vllm-0.32.0/kv_events_bytes_hashes_eviction.jsonl` and
//! `eviction_requests.jsonl`: 70 blocks of 32 tokens, of which vLLM keeps one for itself.

use forebay_core::BlockHash;

use super::{Bench, small_preset};
use crate::engine::{Job, Output, Preset};

/// What a request stored and removed, and how much of its prompt it found: events in one order of
/// their own, as vLLM also says removals first.
struct Seen {
    cached: u32,
    removed: Vec<u64>,
    stored: Vec<u64>,
}

fn ask(bench: &mut Bench, id: u64, prompt: u32, output: u32, blocks: &[u64]) -> Seen {
    let blocks = blocks.iter().map(|&hash| BlockHash(hash)).collect();
    let mut said = bench.submit(Job { id, prompt, output, blocks });
    said.extend(bench.rest());
    let mut seen = Seen { cached: 0, removed: Vec::new(), stored: Vec::new() };
    for output in said {
        match output {
            Output::Admitted { cached, .. } => seen.cached = cached,
            Output::Removed(hashes) => seen.removed.extend(hashes.iter().map(|hash| hash.0)),
            Output::Stored(hashes) => seen.stored.extend(hashes.iter().map(|hash| hash.0)),
            _ => {}
        }
    }
    seen
}

fn down(from: u64, to: u64) -> impl Iterator<Item = u64> {
    (to..=from).rev()
}

#[test]
fn evictions_and_hits_are_those_of_real_vllm() {
    let preset = Preset {
        block_size: 32,
        kv_tokens: 69 * 32,
        batch_tokens_max: 2_048,
        seqs_max: 16,
        ..small_preset()
    };
    let mut bench = Bench::new(&preset);
    // Blocks are numbered as they first appear in the capture.
    let alpha: Vec<u64> = (0..16).collect();
    let beta: Vec<u64> = (16..32).collect();
    let gamma: Vec<u64> = (32..49).collect();
    let delta: Vec<u64> = (49..65).collect();
    let epsilon: Vec<u64> = (65..84).collect();
    let zeta: Vec<u64> = (84..101).collect();
    let salted: [Vec<u64>; 3] = [(101..118).collect(), (118..135).collect(), (135..152).collect()];

    for (id, prompt, blocks) in
        [(1, 526, &alpha), (2, 526, &beta), (3, 566, &gamma), (4, 525, &delta)]
    {
        let seen = ask(&mut bench, id, prompt, 4, blocks);
        assert_eq!((seen.cached, seen.removed, &seen.stored), (0, vec![], blocks));
    }
    // Real vLLM hashes the answer's blocks, too, and the answer of this one fills block 83. Here
    // answers have no hashes, so block 83 counts to the prompt: 608 tokens instead of 606.
    let seen = ask(&mut bench, 5, 608, 2, &epsilon);
    assert_eq!((seen.removed, &seen.stored), (down(15, 0).collect(), &epsilon));

    let seen = ask(&mut bench, 6, 566, 4, &zeta);
    assert_eq!(seen.removed, down(31, 16).chain([48]).collect::<Vec<_>>());
    let seen = ask(&mut bench, 7, 526, 4, &alpha);
    assert_eq!((seen.cached, seen.removed), (0, down(47, 32).collect()));
    let seen = ask(&mut bench, 8, 526, 4, &beta);
    assert_eq!((seen.cached, seen.removed), (0, down(64, 49).collect()));
    for id in 9..11 {
        let seen = ask(&mut bench, id, 566, 4, &zeta);
        assert_eq!((seen.cached, seen.removed, seen.stored), (544, vec![], vec![]));
    }
    let evicted: [Vec<u64>; 3] = [
        down(83, 67).collect(),
        [66, 65].into_iter().chain(down(15, 1)).collect(),
        [0].into_iter().chain(down(31, 16)).collect(),
    ];
    for (nth, (blocks, evicted)) in salted.iter().zip(evicted).enumerate() {
        let seen = ask(&mut bench, 11 + nth as u64, 566, 4, blocks);
        assert_eq!((seen.cached, seen.removed, &seen.stored), (0, evicted, blocks));
    }
}

#[test]
fn three_equal_requests_at_once_share_as_in_real_vllm() {
    // `concurrent_dup_requests.jsonl`: 226 prompt tokens each; the first found none cached, the
    // others 224.
    let preset =
        Preset { block_size: 32, kv_tokens: 69 * 32, batch_tokens_max: 2_048, ..small_preset() };
    let mut bench = Bench::new(&preset);
    let blocks = (0..7).map(BlockHash).collect::<std::sync::Arc<[_]>>();
    for id in 1..4 {
        bench.engine.handle(
            bench.now,
            crate::engine::Input::Submitted(Job {
                id,
                prompt: 226,
                output: 60,
                blocks: blocks.clone(),
            }),
        );
    }
    let said = bench.tell(crate::engine::Input::Elapsed);
    let cached = said.iter().filter_map(|said| match said {
        Output::Admitted { cached, .. } => Some(*cached),
        _ => None,
    });
    assert_eq!(cached.collect::<Vec<_>>(), [0, 224, 224]);
}
