//! `hold`: requests wait until a worker has room, in an order that is short, fair and scale-free.

mod world;

use forebay_core::{Cause, HoldOrder, Mode, Observation, Settings, Span, Tokens};
use world::{Event, World, in_mode, profile, request, request_with_prefix, settings};

#[test]
fn a_request_waits_at_the_door_until_a_worker_has_room() {
    let mut world = World::new(settings(), &[2000]);
    assert_eq!(world.arrive(request(1, 1000)), [Event::Ran(1, 0)]);
    world.first_token(1);
    assert_eq!(world.arrive(request(2, 1000)), [], "1100 + 1100 tokens are more than 2000");
    assert_eq!(world.core.queue_len(), 1);
    assert_eq!(world.finish(1), [Event::Ran(2, 0)]);
    world.finish(2);
    assert_eq!((world.core.queue_len(), world.core.committed()), (0, Tokens::ZERO));
}

#[test]
fn a_shared_prefix_is_counted_once_so_that_more_fits() {
    let mut world = World::new(settings(), &[2000]);
    assert_eq!(world.arrive(request_with_prefix(1, 1024, 1, 15)), [Event::Ran(1, 0)]);
    world.first_token(1);
    let second = request_with_prefix(2, 1024, 1, 15);
    assert_eq!(world.arrive(second), [Event::Ran(2, 0)], "it adds one block and its output");
    let gate = world.why().gate.expect("hold has a gate");
    assert_eq!(gate.need, Tokens(64 + 100));
    assert_eq!(gate.committed, Tokens(1024 + 100));
}

#[test]
fn an_idle_cached_block_gives_no_room() {
    // Only blocks of active requests are subtracted: an idle one may be evicted before admission.
    let mut world = World::new(settings(), &[2000]);
    let first = request_with_prefix(1, 1024, 1, 16);
    world.observe(0, Observation::Stored(first.blocks.clone()));
    world.arrive(first);
    assert_eq!(world.why().gate.expect("hold has a gate").need, Tokens(1024 + 100));
    assert_eq!(world.why().candidates[0].cached, Tokens(1023), "one token is always computed");
}

#[test]
fn a_worker_with_much_prefill_before_it_is_closed_until_first_tokens_come() {
    let mut world = World::new(settings(), &[100_000]);
    assert_eq!(world.arrive(request(1, 3000)), [Event::Ran(1, 0)]);
    assert_eq!(world.arrive(request(2, 3000)), [Event::Ran(2, 0)], "3000 is below 1.5 × 2048");
    assert_eq!(world.arrive(request(3, 10)), []);
    assert_eq!(world.first_token(1), [Event::Ran(3, 0)]);
}

#[test]
fn the_shortest_prefill_goes_first_and_nobody_is_forgotten() {
    let mut world = World::new(settings(), &[2200]);
    world.arrive(request(1, 2000));
    world.first_token(1);
    for (id, prompt) in [(2, 1900), (3, 300), (4, 900)] {
        assert_eq!(world.arrive(request(id, prompt)), []);
    }
    assert_eq!(world.finish(1), [Event::Ran(3, 0), Event::Ran(4, 0)]);
    world.first_token(3);
    world.first_token(4);
    assert_eq!(world.finish(3), [], "the long one does not fit beside the other");
    assert_eq!(world.finish(4), [Event::Ran(2, 0)]);
}

#[test]
fn a_short_answer_passes_a_long_one_whose_prompt_is_a_little_shorter() {
    let mut world = World::new(settings(), &[2200]);
    world.arrive(request(1, 1000));
    world.now = world.now + Span::secs(1);
    world.first_token(1);
    world.now = world.now + Span::secs(10);
    world.finish(1);
    // So 1 ms a token of prefill, and 100 ms a token of output.
    world.arrive(request(2, 2000));
    world.now = world.now + Span::secs(2);
    world.first_token(2);
    let answer = |id, prompt, output| {
        let bound = Some(Tokens(output));
        forebay_core::Arrival { output_max: bound, ..request(id, prompt) }
    };
    world.arrive(answer(3, 700, 100));
    world.arrive(answer(4, 900, 10));
    assert_eq!(world.finish(2), [Event::Ran(4, 0), Event::Ran(3, 0)]);
    // 0.7 + 100 × 10 / 99 s of 800 tokens in 2,200, at 1 ms a token; they alone would fill that
    // room 0.36 times over, which is 0.15 of what makes it count in full.
    assert_eq!(world.why().occupancy, Tokens(571));
}

#[test]
fn first_come_lets_nobody_pass() {
    let first_come = Settings { mode: Mode::Hold(HoldOrder::FirstCome), ..settings() };
    let mut world = World::new(first_come, &[2200]);
    world.arrive(request(1, 1500));
    world.first_token(1);
    assert_eq!(world.arrive(request(2, 1900)), []);
    assert_eq!(world.arrive(request(3, 100)), [], "it would fit, but it came later");
    assert_eq!(world.finish(1), [Event::Ran(2, 0), Event::Ran(3, 0)]);
}

#[test]
fn a_request_past_its_promise_goes_first_and_gets_a_worker_reserved() {
    let mut settings = settings();
    settings.classes[0].ageing = 0.0;
    let mut world = World::new(settings, &[2200]);
    world.arrive(request(1, 1000));
    world.first_token(1);
    world.now = world.now + Span::secs(10);
    assert_eq!(world.arrive(request(2, 1900)), [], "it does not fit beside the first");
    let mut running = 1;
    // Short ones come without end; each would pass the long one for ever.
    for (passed, id) in (10..100).enumerate() {
        world.now = world.now + Span::millis(500);
        world.arrive(request(id, 1200));
        let events = world.finish(running);
        if events.contains(&Event::Ran(2, 0)) {
            assert!([Cause::Reserved, Cause::Promise].contains(&world.why().cause));
            assert!(passed > 0, "it was passed while its promise stood");
            return;
        }
        let Some(Event::Ran(next, 0)) = events.first() else { panic!("nothing ran: {events:?}") };
        world.first_token(*next);
        running = *next;
    }
    panic!("the long request starved");
}

#[test]
fn a_request_that_needs_a_whole_worker_gets_it_though_short_ones_never_cease_to_wait() {
    let mut world = World::new(settings(), &[2000]);
    // Two sequences, so that it is closed before nothing fits any more.
    let two = forebay_core::WorkerProfile { seqs_max: 2, ..profile(2000) };
    world.observe(0, Observation::Joined(two));
    let mut running = vec![1, 2];
    for id in [1, 2] {
        world.arrive(request(id, 100));
        world.pass(Span::millis(100));
        world.first_token(id);
    }
    assert_eq!(world.arrive(request(3, 1950)), [], "with its output it is more than the gate");
    (4..10).for_each(|id| assert_eq!(world.arrive(request(id, 100)), []));
    for id in 10..200 {
        world.pass(Span::millis(50));
        world.arrive(request(id, 100));
        for event in world.finish(running.remove(0)) {
            let Event::Ran(id, 0) = event else { panic!("{event:?}") };
            if id == 3 {
                assert_eq!((world.why().cause, running.len()), (Cause::Reserved, 0));
                return;
            }
            world.first_token(id);
            running.push(id);
        }
    }
    panic!("it starved");
}

#[test]
fn a_prompt_larger_than_the_gate_runs_on_an_empty_worker() {
    let mut settings = settings();
    settings.gate.fraction_start = 0.9;
    let mut world = World::new(settings, &[2000]);
    assert_eq!(world.arrive(request(1, 1950)), [Event::Ran(1, 0)]);
    assert_eq!(
        world.arrive(request(2, 2000)),
        [Event::Refused(2, forebay_core::RefusalReason::TooLong)]
    );
    assert_eq!(world.refusal().limit, 2000);
}

#[test]
fn a_request_goes_where_its_prefix_is_unless_the_prefill_before_it_costs_more() {
    let mut world = World::new(settings(), &[100_000, 100_000]);
    let blocks = request_with_prefix(0, 1280, 5, 20).blocks;
    world.observe(1, Observation::Stored(blocks));
    assert_eq!(world.arrive(request_with_prefix(1, 1344, 5, 20)), [Event::Ran(1, 1)]);
    assert_eq!(world.arrive(request(2, 3000)), [Event::Ran(2, 0)]);
    assert_eq!(world.arrive(request_with_prefix(3, 1344, 5, 20)), [Event::Ran(3, 1)]);
    // Fill the holder's backlog beyond what the prefix saves.
    world.first_token(2);
    assert_eq!(world.arrive(request(4, 1400)), [Event::Ran(4, 0)]);
    world.first_token(4);
    assert_eq!(world.arrive(request_with_prefix(5, 2624, 6, 0)), [Event::Ran(5, 0)]);
}

#[test]
fn the_number_of_sequences_closes_a_worker_too() {
    let mut world = World::new(settings(), &[1_000_000]);
    for id in 0..64 {
        assert_eq!(world.arrive(request(id, 10)), [Event::Ran(id, 0)]);
        world.first_token(id);
    }
    assert_eq!(world.arrive(request(64, 10)), []);
    assert_eq!(world.finish(5), [Event::Ran(64, 0)]);
}

#[test]
fn one_that_outlives_its_mean_is_accounted_with_what_it_holds() {
    let mut world = World::new(settings(), &[2000]);
    world.arrive(request(1, 1000));
    world.first_token(1);
    world.input(forebay_core::Input::Progress(forebay_core::RequestId(1), Tokens(600)));
    assert_eq!(world.core.committed(), Tokens(1600));
    assert_eq!(world.arrive(request(2, 400)), [], "500 more are above 2000");
    world.finish(1);
    assert_eq!(world.core.committed(), Tokens(500));
}

#[test]
fn a_capacity_that_grows_lets_the_queue_in_at_once() {
    let mut world = World::new(settings(), &[1200]);
    world.arrive(request(1, 1000));
    world.first_token(1);
    assert_eq!(world.arrive(request(2, 1000)), []);
    assert_eq!(world.observe(0, Observation::Capacity(Tokens(3000))), [Event::Ran(2, 0)]);
}

#[test]
fn a_capacity_that_nobody_tells_is_learned() {
    let mut world = World::new(settings(), &[]);
    let unknown = forebay_core::WorkerProfile { kv_capacity: None, ..profile(0) };
    world.observe(0, Observation::Joined(unknown));
    let mut ran = 0;
    for id in 0..200 {
        world.now = world.now + Span::millis(100);
        world.arrive(request(id, 1000));
        world.now = world.now + Span::millis(100);
        for started in 0..=id {
            world.first_token(started);
        }
        ran = world.core.flights_len();
        if ran == 40 {
            break;
        }
    }
    assert_eq!(ran, 40, "44,000 tokens are let in though nobody said that they fit");
}

#[test]
fn the_pair_modes_differ_only_in_order_and_gate() {
    // A pushing mode binds at arrival, whatever room there is.
    let mut world = World::new(in_mode("least-work"), &[2000]);
    assert_eq!(world.arrive(request(1, 1500)), [Event::Ran(1, 0)]);
    assert_eq!(world.arrive(request(2, 1500)), [Event::Ran(2, 0)]);
    assert_eq!(world.core.queue_len(), 0);
}

#[test]
fn a_popular_prompt_does_not_sink_the_worker_that_got_it_first() {
    let mut world = World::new(settings(), &[100_000; 4]);
    let popular = request_with_prefix(0, 2048, 7, 32);
    world.observe(0, Observation::Stored(popular.blocks));
    for id in 1..=100 {
        let events = world.arrive(request_with_prefix(id, 2048, 7, 32));
        let [Event::Ran(ran, worker)] = events[..] else { panic!("it runs: {events:?}") };
        world.first_token(ran);
        world.observe(worker, Observation::Stored(request_with_prefix(0, 2048, 7, 32).blocks));
    }
    let most = world.core.workers().iter().map(|worker| worker.running).max();
    assert!(most <= Some(46), "no worker runs much more than its quarter: {most:?}");
}

#[test]
fn long_answers_that_end_one_after_the_other_are_let_in_beside_each_other() {
    let mut settings = settings();
    settings.expected_output = Some(Tokens(1000));
    let mut world = World::new(settings, &[10_000]);
    // One goes through, so that a decode step is measured: 0.1 s.
    world.arrive(request(0, 100));
    world.first_token(0);
    world.pass(Span::secs(100));
    world.end(0, forebay_core::Outcome::Completed { output: Tokens(1001) });
    let mut ran = 0;
    for id in 1..=15 {
        ran += world.arrive(request(id, 100)).len();
        world.first_token(id);
        world.pass(Span::secs(7));
    }
    // Final sizes add up to 16,500; staggered by 7 s of 100 s they hold less than 10,000 at a time.
    assert!(ran >= 14, "{ran} of 15 were let in at once, where final sizes allow 9");
}
