//! Tells the rules of the scheduler, one by one.

use forebay_core::{BlockHash, Moment, Span};

use super::{Bench, admitted, job, removed, small_preset, step_of, stored, tokens};
use crate::engine::{CopyChange, Engine, Input, Job, Output, Preset};

#[test]
fn a_prompt_is_computed_in_chunks_of_the_budget_and_its_last_step_yields_the_first_token() {
    let mut bench = Bench::new(&small_preset());
    bench.submit(job(1, 40, 2, 1));
    assert_eq!(bench.wake, Some(Moment(0) + step_of(16)));
    assert_eq!(bench.step(), [stored(&[1_004, 1_005, 1_006, 1_007])]);
    assert_eq!(bench.wake, Some(bench.now + step_of(16)));
    assert_eq!(bench.step(), [stored(&[1_008, 1_009])]);
    assert_eq!(bench.wake, Some(bench.now + step_of(8)));
    assert_eq!(bench.step(), [tokens(1, 1)]);
    assert_eq!(bench.wake, Some(bench.now + step_of(0)));
    assert_eq!(bench.step(), [tokens(1, 2), Output::Finished(1)]);
    assert_eq!(bench.wake, None);
}

#[test]
fn a_step_takes_base_and_each_coefficient_times_its_quantity() {
    let preset = Preset {
        step_prefill_context_ns: 2.0,
        step_decode_sequence_us: 0.1,
        step_decode_context_ns: 3.0,
        ..small_preset()
    };
    let mut bench = Bench::new(&preset);
    bench.submit(job(1, 20, 5, 1));
    // 16 tokens whose mean context is 8, then 4 after 16 computed ones.
    assert_eq!(bench.wake, Some(bench.now + Span(1_000 + 160 + 2 * 16 * 8)));
    bench.step();
    assert_eq!(bench.wake, Some(bench.now + Span(1_000 + 40 + 2 * 4 * 18)));
    bench.step();
    assert_eq!(bench.wake, Some(bench.now + Span(1_000 + 100 + 3 * 20)));
    bench.step();
    assert_eq!(bench.wake, Some(bench.now + Span(1_000 + 100 + 3 * 21)));
}

#[test]
fn running_jobs_get_their_tokens_before_a_waiting_one_gets_what_is_left() {
    let mut bench = Bench::new(&small_preset());
    bench.submit(job(1, 4, 9, 1));
    bench.submit(job(2, 20, 9, 2));
    bench.step();
    // One token for the first leaves 15 for the second.
    assert_eq!(bench.wake, Some(bench.now + step_of(15)));
    bench.step();
    assert_eq!(bench.wake, Some(bench.now + step_of(5)));
    assert_eq!(bench.step(), [tokens(1, 3), tokens(2, 1)]);
}

#[test]
fn what_arrives_while_a_step_runs_is_seen_by_the_next_one() {
    let mut bench = Bench::new(&small_preset());
    bench.submit(job(1, 4, 2, 1));
    let end = bench.wake;
    bench.now = Moment(500);
    assert_eq!(bench.submit(job(2, 4, 1, 2)), []);
    assert_eq!(bench.wake, end);
    assert_eq!(bench.step(), [tokens(1, 1), admitted(2, 0), stored(&[2_000])]);
}

#[test]
fn jobs_of_one_moment_share_a_step() {
    let mut engine = Engine::new(&small_preset());
    engine.handle(Moment(7), Input::Submitted(job(1, 4, 1, 1)));
    engine.handle(Moment(7), Input::Submitted(job(2, 4, 1, 2)));
    assert_eq!(engine.poll(), admitted(1, 0));
    assert_eq!(engine.poll(), admitted(2, 0));
    assert_eq!(engine.poll(), stored(&[1_000, 2_000]));
    assert_eq!(engine.poll(), Output::Sleep(Some(Moment(7) + step_of(8))));
}

#[test]
fn the_head_of_the_line_blocks_those_behind_it() {
    let mut bench = Bench::new(&small_preset());
    bench.submit(job(1, 16, 30, 1));
    bench.step();
    // 60 tokens need 15 blocks and 12 are free; 4 tokens would fit, and wait all the same.
    bench.submit(job(2, 60, 1, 2));
    bench.submit(job(3, 4, 1, 3));
    bench.step();
    assert_eq!((bench.engine.gauges().running, bench.engine.gauges().waiting), (1, 2));
    let said = bench.rest();
    let place = |output| said.iter().position(|said| *said == output);
    assert!(place(Output::Finished(1)) < place(admitted(2, 0)));
    assert!(place(admitted(2, 0)) < place(admitted(3, 0)));
}

#[test]
fn admission_needs_room_for_the_whole_prompt_but_takes_it_chunk_by_chunk() {
    let preset = Preset { batch_tokens_max: 8, ..small_preset() };
    let mut bench = Bench::new(&preset);
    bench.submit(job(1, 40, 5, 1));
    assert_eq!(bench.blocks_used(), 2);
    bench.step();
    assert_eq!(bench.blocks_used(), 4);
    while bench.engine.gauges().running == 1 && bench.blocks_used() < 11 {
        bench.step();
    }
    // Five blocks are free: 21 tokens need six, 20 need five.
    bench.submit(job(2, 21, 1, 2));
    bench.step();
    assert_eq!(bench.engine.gauges().running, 1);
    bench.tell(Input::Cancelled(2));
    bench.submit(job(3, 20, 1, 3));
    bench.step();
    assert_eq!(bench.engine.gauges().running, 2);
}

#[test]
fn a_job_without_room_preempts_the_last_one_which_starts_over_in_front() {
    let preset = Preset { kv_tokens: 24, ..small_preset() };
    let mut bench = Bench::new(&preset);
    bench.submit(job(1, 8, 9, 1));
    bench.submit(job(2, 8, 9, 2));
    bench.submit(job(3, 8, 1, 3));
    // Two blocks of prompt each and one more each for their answers fill all six.
    assert_eq!(bench.step(), [tokens(1, 1), admitted(2, 0), stored(&[2_000, 2_001])]);
    for _ in 0..3 {
        bench.step();
    }
    assert_eq!(bench.blocks_used(), 6);
    assert_eq!(bench.step(), [tokens(1, 5), tokens(2, 4), Output::Preempted(2)]);
    assert_eq!(bench.engine.gauges().preemptions_total, 1);
    let said = bench.rest();
    // Two blocks are free, enough for the third, which waits behind the second all the same. The
    // second is not told as admitted again, and goes on with its fifth token.
    let place = |output| said.iter().position(|said| *said == output).expect("it was said");
    assert!(place(Output::Finished(1)) < place(admitted(3, 0)));
    assert!(place(tokens(2, 5)) < place(tokens(3, 1)));
    assert!(place(tokens(2, 9)) < place(Output::Finished(2)));
    assert!(!said.contains(&admitted(2, 0)) && !said.contains(&admitted(2, 4)));
    assert!(!said.contains(&admitted(2, 8)) && !said.contains(&tokens(2, 4)));
}

#[test]
fn nobody_is_admitted_in_a_step_that_preempts() {
    let preset = Preset { kv_tokens: 24, ..small_preset() };
    let mut bench = Bench::new(&preset);
    bench.submit(job(1, 8, 9, 1));
    bench.submit(job(2, 8, 9, 2));
    while bench.engine.gauges().preemptions_total == 0 {
        bench.step();
    }
    // The second one's blocks are free again and one job would fit, but not in this step.
    assert_eq!((bench.engine.gauges().running, bench.engine.gauges().waiting), (1, 1));
    bench.tell(Input::Cancelled(2));
    bench.submit(job(3, 4, 1, 3));
    assert_eq!(bench.engine.gauges().running, 1);
    bench.step();
    assert_eq!(bench.engine.gauges().running, 2);
}

#[test]
fn a_job_that_is_itself_the_last_preempts_itself() {
    let preset = Preset { kv_tokens: 20, ..small_preset() };
    let mut bench = Bench::new(&preset);
    // The first has room for all its tokens; the second wants a third block while none is free.
    bench.submit(job(1, 9, 4, 1));
    bench.submit(job(2, 7, 9, 2));
    bench.step();
    bench.step();
    assert_eq!(bench.step(), [tokens(1, 3), tokens(2, 2), Output::Preempted(2)]);
    assert_eq!((bench.engine.gauges().running, bench.blocks_used()), (1, 3));
    assert_eq!(bench.rest().last(), Some(&Output::Finished(2)));
}

#[test]
fn a_preempted_job_finds_its_prompt_in_the_cache_again_and_computes_its_answer_again() {
    let preset = Preset { kv_tokens: 24, ..small_preset() };
    let mut bench = Bench::new(&preset);
    bench.submit(job(1, 8, 6, 1));
    bench.submit(job(2, 8, 9, 2));
    while bench.engine.gauges().preemptions_total == 0 {
        bench.step();
    }
    while !bench.step().contains(&Output::Finished(1)) {}
    // It had 8 + 4 tokens, and the first one has taken only the block of its answer, which had no
    // hash.
    assert_eq!(bench.wake, Some(bench.now + step_of(4)));
}

#[test]
fn a_prefix_is_found_in_full_blocks_and_one_token_at_least_is_computed() {
    let mut bench = Bench::new(&small_preset());
    bench.submit(job(1, 12, 1, 1));
    bench.rest();
    for (id, prompt, cached) in [(2, 12, 8), (3, 13, 12), (4, 11, 8), (5, 4, 0), (6, 5, 4)] {
        let said = bench.submit(job(id, prompt, 1, 1));
        assert_eq!(said[0], admitted(id, cached), "for a prompt of {prompt}");
        assert_eq!(bench.wake, Some(bench.now + step_of(u64::from(prompt - cached))));
        bench.rest();
    }
}

#[test]
fn a_hole_in_the_prefix_ends_the_hit() {
    let mut bench = Bench::new(&small_preset());
    bench.submit(job(1, 12, 1, 1));
    bench.rest();
    let mut other = job(2, 17, 1, 2);
    let first = job(1, 12, 1, 1).blocks;
    let own = &other.blocks;
    other.blocks = [first[0], own[1], first[2], own[3]].into();
    assert_eq!(bench.submit(other)[0], admitted(2, 4));
}

#[test]
fn only_full_blocks_of_the_prompt_that_have_a_hash_can_be_found() {
    let mut bench = Bench::new(&small_preset());
    // The last hash is one too many, and the answer's blocks have none.
    let blocks = job(1, 16, 9, 1).blocks;
    let said = bench.submit(Job { id: 1, prompt: 14, output: 9, blocks });
    assert_eq!(said, [admitted(1, 0), stored(&[1_000, 1_001, 1_002])]);
    assert!(bench.rest().iter().all(|said| !matches!(said, Output::Stored(_))));
    // Without hashes nothing is shared.
    for id in 2..4 {
        let job = Job { id, prompt: 16, output: 1, blocks: [].into() };
        assert_eq!(bench.submit(job), [admitted(id, 0)]);
        bench.rest();
    }
}

#[test]
fn blocks_can_be_found_as_soon_as_they_are_scheduled() {
    let mut engine = Engine::new(&small_preset());
    engine.handle(Moment(0), Input::Submitted(job(1, 9, 1, 1)));
    engine.handle(Moment(0), Input::Submitted(job(2, 9, 1, 1)));
    assert_eq!(engine.poll(), admitted(1, 0));
    assert_eq!(engine.poll(), admitted(2, 8));
    assert_eq!(engine.poll(), stored(&[1_000, 1_001]));
    assert_eq!(engine.poll(), Output::Sleep(Some(Moment(0) + step_of(9 + 1))));
}

#[test]
fn shared_blocks_count_once_and_are_free_only_when_nobody_holds_them() {
    let mut bench = Bench::new(&small_preset());
    bench.submit(job(1, 9, 3, 1));
    bench.submit(job(2, 9, 9, 1));
    bench.step();
    assert_eq!(bench.blocks_used(), 2 + 1 + 1);
    while bench.engine.gauges().running == 2 {
        bench.step();
    }
    assert_eq!(bench.blocks_used(), 2 + 1);
    bench.rest();
    assert_eq!(bench.blocks_used(), 0);
}

#[test]
fn blank_blocks_are_reused_first_then_the_one_let_go_longest_ago_tails_before_heads() {
    let preset = Preset { kv_tokens: 32, ..small_preset() };
    let mut bench = Bench::new(&preset);
    for (id, prompt) in [(1, 12), (2, 8)] {
        bench.submit(job(id, prompt, 1, id));
        bench.rest();
    }
    // Three blocks are blank.
    assert_eq!(bench.submit(job(3, 13, 1, 3))[1], removed(&[1_002]));
    bench.rest();
    // One block is blank again, since the third one's last was not full.
    assert_eq!(bench.submit(job(4, 16, 1, 4))[1], removed(&[1_001, 1_000, 2_001]));
}

#[test]
fn a_hit_saves_blocks_from_reuse() {
    let preset = Preset { kv_tokens: 20, ..small_preset() };
    let mut bench = Bench::new(&preset);
    for id in 1..3 {
        bench.submit(job(id, 8, 1, id));
        bench.rest();
    }
    bench.submit(job(3, 9, 1, 1));
    bench.rest();
    // The first one's blocks were used last, so the second one's go.
    assert_eq!(bench.submit(job(4, 12, 1, 4))[1], removed(&[2_001, 2_000]));
}

#[test]
fn of_two_copies_of_a_block_the_loss_of_one_is_not_told() {
    let preset = Preset { kv_tokens: 16, ..small_preset() };
    let mut bench = Bench::new(&preset);
    bench.submit(job(1, 8, 1, 1));
    bench.rest();
    // The second block is computed again, and so there are two of it; only one is new to the world.
    assert_eq!(bench.submit(job(2, 8, 1, 1)), [admitted(2, 4)]);
    bench.rest();
    assert_eq!(bench.submit(job(3, 8, 1, 3)), [admitted(3, 0), stored(&[3_000, 3_001])]);
    bench.rest();
    let last = bench.submit(job(4, 12, 1, 4));
    assert_eq!(last[1], removed(&[1_001, 1_000, 3_001]));
}

#[test]
fn of_several_copies_of_a_block_the_oldest_is_found() {
    let preset = Preset { kv_tokens: 20, ..small_preset() };
    let mut bench = Bench::new(&preset);
    let blank = |id, prompt| Job { id, prompt, output: 1, blocks: [].into() };
    // Three copies of block 1001, and block 3000 let go between the second and the third; then the
    // first copy is reused.
    for job in [job(1, 8, 1, 1), job(2, 8, 1, 1), job(3, 4, 1, 3), job(4, 8, 1, 1), blank(5, 4)] {
        bench.submit(job);
        bench.rest();
    }
    assert_eq!(bench.submit(job(6, 9, 1, 1))[0], admitted(6, 8));
    bench.rest();
    // The second copy was found and is fresh again, so block 3000 is the oldest.
    assert_eq!(bench.submit(blank(7, 8))[1], removed(&[3_000]));
}

#[test]
fn no_more_than_seqs_max_jobs_run() {
    let preset = Preset { seqs_max: 2, ..small_preset() };
    let mut bench = Bench::new(&preset);
    for id in 1..4 {
        bench.submit(job(id, 4, 3, id));
    }
    bench.step();
    assert_eq!((bench.engine.gauges().running, bench.engine.gauges().waiting), (2, 1));
}

#[test]
fn a_job_that_can_never_fit_is_told_so_and_one_that_fits_exactly_runs() {
    let mut bench = Bench::new(&small_preset());
    assert_eq!(bench.submit(job(1, 65, 1, 1)), [Output::TooLong(1)]);
    assert_eq!(bench.submit(job(2, 60, 6, 1)), [Output::TooLong(2)]);
    // The last token is never computed, so 60 + 5 tokens need 64 places.
    bench.submit(job(3, 60, 5, 1));
    assert_eq!(bench.rest().last(), Some(&Output::Finished(3)));
}

#[test]
fn the_limit_on_requests_counts_those_that_run_and_those_that_wait() {
    let preset = Preset { seqs_max: 1, queued_requests_max: Some(3), ..small_preset() };
    let mut bench = Bench::new(&preset);
    for id in 1..4 {
        bench.submit(job(id, 4, 3, id));
    }
    assert_eq!(bench.submit(job(4, 4, 1, 4)), [Output::Rejected(4)]);
    while bench.engine.gauges().running + bench.engine.gauges().waiting == 3 {
        bench.step();
    }
    assert_eq!(bench.submit(job(5, 4, 1, 5)), []);
}

#[test]
fn a_cancelled_job_gives_its_blocks_back_and_the_step_ends_when_it_would_have() {
    let mut bench = Bench::new(&small_preset());
    bench.submit(job(1, 8, 9, 1));
    bench.step();
    bench.submit(job(2, 60, 1, 2));
    bench.step();
    assert_eq!(bench.engine.gauges().waiting, 1);
    let end = bench.wake;
    assert_eq!(bench.tell(Input::Cancelled(1)), []);
    assert_eq!((bench.wake, bench.blocks_used()), (end, 0));
    // Nothing comes of the step but room for the one that waited.
    assert_eq!(bench.step()[0], admitted(2, 0));
    bench.tell(Input::Cancelled(2));
    bench.tell(Input::Cancelled(77));
    assert_eq!(bench.step(), []);
    assert_eq!(bench.wake, None);
}

#[test]
fn cancelling_the_head_lets_the_next_in_line_go() {
    let mut bench = Bench::new(&small_preset());
    bench.submit(job(1, 16, 30, 1));
    bench.step();
    bench.submit(job(2, 60, 1, 2));
    bench.submit(job(3, 4, 1, 3));
    bench.step();
    bench.tell(Input::Cancelled(2));
    assert_eq!(bench.step()[1..], [admitted(3, 0), stored(&[3_000])]);
}

#[test]
fn a_crash_loses_all_jobs_and_the_cache() {
    let preset = Preset { seqs_max: 1, ..small_preset() };
    let mut bench = Bench::new(&preset);
    bench.submit(job(5, 9, 9, 1));
    bench.submit(job(4, 9, 9, 1));
    bench.step();
    assert_eq!(bench.engine.crash(), [5, 4]);
    assert_eq!(bench.engine.poll(), Output::Sleep(None));
    assert_eq!(bench.engine.gauges(), crate::engine::Gauges::default());
    assert_eq!(bench.submit(job(6, 9, 1, 1))[0], admitted(6, 0));
    assert_eq!(bench.rest(), [tokens(6, 1), Output::Finished(6)]);
}

#[test]
fn a_slowdown_counts_from_the_next_step_on() {
    let mut bench = Bench::new(&small_preset());
    bench.submit(job(1, 4, 9, 1));
    let end = bench.wake;
    bench.engine.set_slowdown(3.0);
    assert_eq!(bench.tell(Input::Cancelled(77)), []);
    assert_eq!(bench.wake, end);
    bench.step();
    assert_eq!(bench.wake, Some(bench.now + Span(3_000)));
}

#[test]
fn reports_come_with_the_first_token_the_last_and_each_nth() {
    let mut bench = Bench::new(&small_preset());
    bench.engine.set_report_every(4);
    bench.submit(job(1, 4, 10, 1));
    let said = bench.rest();
    let told = [1, 4, 8, 10].map(|generated| tokens(1, generated));
    assert_eq!(said[..4], told);
    assert_eq!(said[4..], [Output::Finished(1)]);
}

#[test]
fn a_driver_that_wakes_late_by_less_than_a_step_does_not_slow_the_engine_down() {
    let mut bench = Bench::new(&small_preset());
    bench.submit(job(1, 4, 9, 1));
    let end = bench.wake.expect("a step runs");
    bench.now = end + Span(400);
    bench.tell(Input::Elapsed);
    assert_eq!(bench.wake, Some(end + step_of(0)));
    // Later than that, and it had stood still.
    bench.now = end + step_of(0) + Span(5_000);
    bench.tell(Input::Elapsed);
    assert_eq!(bench.wake, Some(bench.now + step_of(0)));
}

#[test]
fn an_early_wake_up_does_nothing() {
    let mut bench = Bench::new(&small_preset());
    bench.submit(job(1, 4, 2, 1));
    let end = bench.wake;
    bench.now = Moment(3);
    assert_eq!(bench.tell(Input::Elapsed), []);
    assert_eq!(bench.wake, end);
}

#[test]
fn every_copy_is_told_of_where_copies_are_watched() {
    let stored = |job, blocks| CopyChange::Stored { job, blocks };
    let preset = Preset { kv_tokens: 16, ..small_preset() };
    let mut bench = Bench::new(&preset);
    bench.engine.watch_copies();
    bench.submit(job(1, 8, 1, 1));
    bench.rest();
    assert_eq!(bench.engine.copies().collect::<Vec<_>>(), [stored(1, 0..2)]);
    // The first block is found, the second is computed again.
    bench.submit(job(2, 8, 1, 1));
    bench.rest();
    assert_eq!(bench.engine.copies().collect::<Vec<_>>(), [stored(2, 1..2)]);
    bench.submit(job(3, 16, 1, 3));
    let removed = |hash| CopyChange::Removed(BlockHash(hash));
    let copies: Vec<_> = bench.engine.copies().collect();
    assert_eq!(copies, [removed(1_001), removed(1_001), removed(1_000), stored(3, 0..4)]);
}

#[test]
fn a_cache_is_cleared_only_while_nobody_holds_a_block() {
    let mut bench = Bench::new(&small_preset());
    bench.submit(job(1, 8, 2, 1));
    assert!(!bench.engine.clear_cache());
    bench.rest();
    assert!(bench.engine.clear_cache());
    assert_eq!(bench.submit(job(2, 9, 1, 1))[0], admitted(2, 0));
}
