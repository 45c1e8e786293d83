//! Workers come, go, drain, break and restart, with requests on them.

mod world;

use forebay_core::{
    Input, Load, Observation, Outcome, RefusalReason, RequestId, Settings, Span, Tokens,
};
use world::{Event, World, in_mode, profile, request, request_with_prefix, settings};

#[test]
fn a_lost_worker_s_requests_run_elsewhere_unless_they_have_sent_something() {
    let mut world = World::new(settings(), &[10_000, 10_000]);
    assert_eq!(world.arrive(request(1, 1000)), [Event::Ran(1, 0)]);
    assert_eq!(world.arrive(request(2, 900)), [Event::Ran(2, 1)]);
    world.first_token(1);
    assert_eq!(world.arrive(request(3, 800)), [Event::Ran(3, 0)]);
    let events = world.observe(0, Observation::Left);
    let failed = Event::Refused(1, RefusalReason::UpstreamFailed);
    assert_eq!(events, [failed, Event::Ran(3, 1)]);
    assert_eq!(world.why().attempt, 2);
    world.finish(2);
    world.finish(3);
    assert_eq!(world.core.committed(), Tokens::ZERO);
}

#[test]
fn a_first_token_that_was_only_believed_does_not_bind_a_request_to_its_worker() {
    let mut world = World::new(settings(), &[10_000, 10_000]);
    assert_eq!(world.arrive(request(1, 1000)), [Event::Ran(1, 0)]);
    world.input(Input::Prefilled(RequestId(1)));
    assert_eq!(world.end(1, Outcome::Broke), [Event::Ran(1, 1)]);
    world.input(Input::Prefilled(RequestId(1)));
    world.first_token(1);
    let failed = Event::Refused(1, RefusalReason::UpstreamFailed);
    assert_eq!(world.observe(1, Observation::Lost), [failed], "now it was seen");
    assert_eq!(world.core.committed(), Tokens::ZERO);
}

#[test]
fn a_request_that_ends_while_it_waits_for_another_worker_leaves_nothing_behind() {
    for outcome in [Outcome::BrokeMidStream, Outcome::Completed { output: Tokens(1) }] {
        let mut world = World::new(settings(), &[10_000]);
        assert_eq!(world.arrive(request(1, 1000)), [Event::Ran(1, 0)]);
        assert_eq!(world.observe(0, Observation::Lost), [], "it waits");
        assert_eq!(world.end(1, outcome), []);
        assert_eq!(world.observe(0, Observation::Joined(profile(10_000))), []);
        assert_eq!((world.core.queue_len(), world.core.flights_len()), (0, 0));
    }
}

#[test]
fn backpressure_does_not_make_a_class_wait_longer_than_it_may() {
    let mut settings = settings();
    settings.classes[0].wait_max = Some(Span::secs(3));
    let mut world = World::new(settings, &[10_000]);
    world.arrive(request(1, 1000));
    for _ in 0..3 {
        assert_eq!(world.end(1, Outcome::Backpressure), []);
        // The mark on its only worker stands for a second.
        let events = world.pass(Span::millis(1_001));
        if events != [Event::Ran(1, 0)] {
            return assert_eq!(events, [Event::Refused(1, RefusalReason::WaitedTooLong)]);
        }
    }
    panic!("it waits on");
}

#[test]
fn a_restarted_worker_attracts_nothing_by_what_it_held() {
    let mut world = World::new(settings(), &[10_000, 10_000]);
    let blocks = request_with_prefix(0, 1280, 5, 20).blocks;
    world.observe(1, Observation::Stored(blocks));
    world.observe(1, Observation::Joined(profile(10_000)));
    assert_eq!(world.arrive(request_with_prefix(1, 1344, 5, 20)), [Event::Ran(1, 0)]);
}

#[test]
fn events_that_clear_or_remove_blocks_are_believed_and_unknown_ones_are_harmless() {
    let mut world = World::new(settings(), &[10_000, 10_000]);
    let blocks = request_with_prefix(0, 1280, 5, 20).blocks;
    world.observe(1, Observation::Stored(blocks.clone()));
    world.observe(1, Observation::Stored(blocks.clone()));
    world.observe(0, Observation::Removed(blocks.clone()));
    world.observe(1, Observation::Removed(blocks.clone()));
    assert_eq!(world.arrive(request_with_prefix(1, 1344, 5, 20)), [Event::Ran(1, 0)]);
    world.observe(1, Observation::Stored(blocks));
    world.observe(1, Observation::Cleared);
    world.observe(9, Observation::Cleared);
    assert_eq!(world.arrive(request_with_prefix(2, 1344, 5, 20)), [Event::Ran(2, 1)]);
    assert_eq!(world.why().candidates[0].cached, Tokens::ZERO);
}

#[test]
fn a_draining_worker_takes_nothing_new_and_finishes_what_it_has() {
    let mut world = World::new(settings(), &[10_000]);
    world.arrive(request(1, 100));
    world.observe(0, Observation::Draining(true));
    assert_eq!(world.arrive(request(2, 100)), []);
    assert_eq!(world.finish(1), []);
    assert_eq!(world.observe(1, Observation::Joined(profile(1000))), [Event::Ran(2, 1)]);
}

#[test]
fn a_worker_that_is_not_drained_any_more_is_used_again() {
    let mut world = World::new(settings(), &[10_000]);
    world.observe(0, Observation::Draining(true));
    assert_eq!(world.arrive(request(1, 100)), []);
    assert_eq!(world.observe(0, Observation::Draining(false)), [Event::Ran(1, 0)]);
}

#[test]
fn what_had_no_first_token_on_a_lost_worker_runs_elsewhere_and_nothing_runs_there() {
    let mut world = World::new(settings(), &[10_000]);
    assert_eq!(world.arrive(request(1, 100)), [Event::Ran(1, 0)]);
    assert_eq!(world.observe(0, Observation::Lost), []);
    assert_eq!(world.observe(0, Observation::Draining(false)), []);
    assert_eq!(world.observe(1, Observation::Joined(profile(1000))), [Event::Ran(1, 1)]);
    assert_eq!(world.arrive(request(2, 950)), [], "it still counts as one that could hold it");
    assert_eq!(world.observe(0, Observation::Joined(profile(10_000))), [Event::Ran(2, 0)]);
}

#[test]
fn an_unhealthy_worker_is_used_again_once_it_is_well() {
    let mut world = World::new(settings(), &[10_000]);
    world.observe(0, Observation::Healthy(false));
    assert_eq!(world.arrive(request(1, 100)), []);
    assert_eq!(world.observe(0, Observation::Healthy(true)), [Event::Ran(1, 0)]);
}

#[test]
fn a_worker_that_takes_nothing_is_spared_for_a_while_and_then_tried_again() {
    let mut world = World::new(settings(), &[10_000]);
    assert_eq!(world.arrive(request(1, 100)), [Event::Ran(1, 0)]);
    assert_eq!(world.end(1, Outcome::Backpressure), [], "it waits and is not refused");
    assert_eq!(world.pass(Span::millis(999)), []);
    assert_eq!(world.pass(Span::millis(1)), [Event::Ran(1, 0)]);
    // Backpressure is not a fault: it may happen more often than attempts are allowed.
    for _ in 0..10 {
        assert_eq!(world.end(1, Outcome::Backpressure), []);
        assert_eq!(world.pass(Span::secs(1)), [Event::Ran(1, 0)]);
    }
}

#[test]
fn a_pushing_mode_tries_another_worker_and_passes_backpressure_on() {
    let mut world = World::new(in_mode("round-robin"), &[10_000, 10_000]);
    assert_eq!(world.arrive(request(1, 100)), [Event::Ran(1, 0)]);
    assert_eq!(world.end(1, Outcome::Backpressure), [Event::Ran(1, 1)]);
    let refused = [Event::Refused(1, RefusalReason::WorkersBusy)];
    assert_eq!(world.end(1, Outcome::Backpressure), refused);
    world.pass(Span::secs(2));
    assert_eq!(world.arrive(request(2, 100)).len(), 1, "marks expire");
}

#[test]
fn a_request_that_breaks_workers_is_given_up_after_its_attempts() {
    let mut world = World::new(settings(), &[10_000, 10_000, 10_000, 10_000]);
    world.arrive(request(1, 100));
    assert_eq!(world.end(1, Outcome::Broke).len(), 1);
    assert_eq!(world.end(1, Outcome::Broke).len(), 1);
    let refused = [Event::Refused(1, RefusalReason::UpstreamFailed)];
    assert_eq!(world.end(1, Outcome::Broke), refused);
    assert_eq!(world.core.committed(), Tokens::ZERO);
}

#[test]
fn a_client_that_goes_away_frees_its_place_and_its_worker_is_told() {
    let mut world = World::new(settings(), &[2000]);
    world.arrive(request(1, 1500));
    world.arrive(request(2, 1500));
    world.arrive(request(3, 1500));
    assert_eq!(world.abandon(2), []);
    assert_eq!(world.abandon(1), [Event::Cancelled(1, 0), Event::Ran(3, 0)]);
    assert_eq!(world.end(1, Outcome::Broke), [], "what comes late of it is ignored");
    assert_eq!(world.abandon(99), []);
}

#[test]
fn preemptions_lower_the_gate_and_quiet_raises_it_again() {
    let mut settings = settings();
    settings.gate.fraction_start = 0.95;
    let mut world = World::new(settings, &[100_000]);
    let fraction = |world: &World| world.core.workers()[0].fraction;
    let mut preemptions_total = 0;
    let mut id = 0;
    let mut round = |world: &mut World, preempted| {
        for _ in 0..30 {
            id += 1;
            world.arrive(request(id, 100));
            world.first_token(id);
            world.finish(id);
        }
        preemptions_total += preempted;
        world.pass(Span::secs(2));
        let load = Load { running: 1, waiting: 0, preemptions_total };
        world.observe(0, Observation::Load(load));
    };
    round(&mut world, 0);
    round(&mut world, 10);
    assert!(fraction(&world) < 0.95);
    let low = fraction(&world);
    round(&mut world, 0);
    assert!(fraction(&world) <= low, "it rises only when it holds something back");
}

#[test]
fn more_workers_than_may_be_are_not_taken() {
    let mut settings = settings();
    settings.limits.workers_max = 1;
    let world = World::new(settings, &[1000, 1000]);
    assert_eq!(world.core.workers().len(), 1);
}

#[test]
fn a_changed_mode_hands_what_waits_over() {
    let mut world = World::new(settings(), &[2000]);
    world.arrive(request(1, 1500));
    for id in 2..5 {
        assert_eq!(world.arrive(request(id, 1500)), []);
    }
    let pushing = Settings { mode: "round-robin".parse().expect("a mode"), ..settings() };
    let events = world.input(Input::Reconfigured(Box::new(pushing)));
    assert_eq!(events, [Event::Ran(2, 0), Event::Ran(3, 0), Event::Ran(4, 0)]);
    let events = world.input(Input::Reconfigured(Box::new(settings())));
    assert_eq!(events, []);
    assert_eq!(world.arrive(request(9, 1500)), []);
}

#[test]
fn a_shorter_wait_holds_for_those_that_wait_already() {
    let mut world = World::new(settings(), &[2000]);
    world.arrive(request(1, 1500));
    world.arrive(request(2, 1500));
    world.pass(Span::secs(10));
    let mut shorter = settings();
    shorter.classes[0].wait_max = Some(Span::secs(5));
    let events = world.input(Input::Reconfigured(Box::new(shorter)));
    assert_eq!(events, [Event::Refused(2, RefusalReason::WaitedTooLong)]);
}

#[test]
fn every_worker_gets_its_part_in_every_pushing_mode() {
    for mode in ["round-robin", "random", "power-of-two", "least-loaded", "least-work", "session"] {
        let mut world = World::new(in_mode(mode), &[1_000_000; 4]);
        for id in 0..400 {
            let arrival = forebay_core::Arrival { session: Some(id), ..request(id, 500) };
            world.arrive(arrival);
        }
        for worker in world.core.workers() {
            assert!((60..=140).contains(&worker.running), "{mode}: {}", worker.running);
        }
    }
}

#[test]
fn a_conversation_stays_with_its_worker_until_that_is_loaded_beyond_the_bound() {
    let mut world = World::new(in_mode("session"), &[1_000_000; 4]);
    let turn = |id, session| forebay_core::Arrival { session: Some(session), ..request(id, 10) };
    let first = world.arrive(turn(1, 77));
    world.finish(1);
    let [Event::Ran(1, worker)] = first[..] else { panic!("it runs: {first:?}") };
    assert_eq!(world.arrive(turn(2, 77)), [Event::Ran(2, worker)]);
    for id in 3..50 {
        world.arrive(turn(id, 77));
    }
    let most = world.core.workers().iter().map(|worker| worker.running).max();
    assert!(most <= Some(16), "one hot conversation does not sink its worker: {most:?}");
}
