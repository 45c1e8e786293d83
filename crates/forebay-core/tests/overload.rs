//! The overload contract: queue, shed, spill, limits of tenants, and an honest Retry-After.

mod world;

use forebay_core::{
    Arrival, Bucket, ClassId, Mode, Observation, Outcome, Overload, PoolId, RefusalReason,
    Settings, Span, TenantId, TenantSettings, Ticket, Tokens,
};
use world::{Event, World, class, in_mode, profile, request, settings};

/// Two classes: 0 queues, 1 has this policy.
fn with_class(overload: Overload, wait_max: Span) -> Settings {
    let classes = vec![class(Overload::Queue, None), class(overload, Some(wait_max))];
    Settings { classes, ..settings() }
}

fn of_class(class: u16, arrival: Arrival) -> Arrival {
    Arrival { class: ClassId(class), ..arrival }
}

/// A world whose one worker is full, with residence and prefill measured: 1 s and little.
fn full(settings: Settings) -> World {
    let mut world = World::new(settings, &[2200]);
    world.arrive(request(900, 1000));
    world.pass(Span::millis(100));
    world.first_token(900);
    world.pass(Span::millis(900));
    world.finish(900);
    assert_eq!(world.arrive(request(901, 2000)), [Event::Ran(901, 0)]);
    world.first_token(901);
    world
}

#[test]
fn a_queueing_class_waits_as_long_as_it_may_and_is_then_refused() {
    let mut settings = settings();
    settings.classes[0].wait_max = Some(Span::secs(5));
    let mut world = full(settings);
    assert_eq!(world.arrive(request(1, 1500)), []);
    assert_eq!(world.pass(Span::millis(4999)), []);
    assert_eq!(world.pass(Span::millis(1)), [Event::Refused(1, RefusalReason::WaitedTooLong)]);
    let refusal = world.refusal();
    assert_eq!((refusal.waited, refusal.limit), (Span::secs(5), 5000));
    assert!(refusal.retry_after.is_some_and(|after| after >= Span::secs(1)));
    assert_eq!(world.finish(901), [], "nobody waits any more");
}

#[test]
fn the_core_says_when_it_wants_to_be_woken_for_that() {
    let mut settings = settings();
    settings.classes[0].wait_max = Some(Span::secs(5));
    let mut world = full(settings);
    world.arrive(request(1, 1500));
    let due = world.now + Span::secs(5);
    world.core.handle(world.now, forebay_core::Input::Elapsed);
    let sleep = forebay_core::Output::Sleep(Some((due, forebay_core::Alarm::WaitedTooLong)));
    assert_eq!(world.core.poll(), sleep);
}

#[test]
fn a_full_queue_refuses_with_its_limit() {
    let mut settings = settings();
    settings.classes[0].queue_len_max = 2;
    let mut world = full(settings);
    assert_eq!(world.arrive(request(1, 1500)), []);
    assert_eq!(world.arrive(request(2, 1500)), []);
    let refused = [Event::Refused(3, RefusalReason::QueueFull)];
    assert_eq!(world.arrive(request(3, 1500)), refused);
    assert_eq!(world.refusal().limit, 2);
}

#[test]
fn a_shedding_class_is_refused_at_arrival_and_told_when_to_come_back() {
    let mut world = full(with_class(Overload::Shed, Span::millis(500)));
    world.arrive(request(1, 2000));
    let refused = [Event::Refused(2, RefusalReason::Shed)];
    assert_eq!(world.arrive(of_class(1, request(2, 1000))), refused);
    let refusal = world.refusal();
    assert_eq!((refusal.waited, refusal.limit), (Span::ZERO, 500));
    let after = refusal.retry_after.expect("a shed request is told when to come back");
    assert_eq!(after.0 % 1_000_000_000, 0, "whole seconds");
    assert!(refusal.predicted_wait.is_some_and(|wait| wait > Span::millis(500)));
}

#[test]
fn a_shedding_class_runs_at_once_when_there_is_room() {
    let mut world = World::new(with_class(Overload::Shed, Span::ZERO), &[2200]);
    assert_eq!(world.arrive(of_class(1, request(1, 1000))), [Event::Ran(1, 0)]);
}

#[test]
fn newcomers_do_not_take_the_place_that_was_promised() {
    let mut world = full(with_class(Overload::Shed, Span::millis(1200)));
    let mut told = Vec::new();
    for id in 2..10 {
        let events = world.arrive(of_class(1, request(id, 1000)));
        if events == [Event::Refused(id, RefusalReason::Shed)] {
            told.push(world.refusal().retry_after.expect("each is told"));
        }
    }
    assert!(told.len() >= 6, "few are let in: {told:?}");
    assert!(told.is_sorted(), "a later promise is for a later time: {told:?}");
    assert!(told.last() > Some(&Span::secs(2)), "the last comes after all before it: {told:?}");
}

#[test]
fn a_client_that_returns_as_told_keeps_its_age_and_one_that_is_early_does_not() {
    let mut world = full(with_class(Overload::Shed, Span::secs(30)));
    let first = world.now;
    for id in [1, 2] {
        world.arrive(of_class(1, request(id, 1500)));
    }
    world.pass(Span::secs(2));
    let ticket = |promised| Some(Ticket { first_arrived: first, promised });
    let early = Arrival { ticket: ticket(world.now + Span::secs(9)), ..request(10, 1500) };
    let on_time = Arrival { ticket: ticket(world.now), ..request(11, 1500) };
    world.arrive(of_class(1, early));
    world.arrive(of_class(1, on_time));
    let mut order = Vec::new();
    let mut running = 901;
    for _ in 0..4 {
        world.pass(Span::secs(1));
        let events = world.finish(running);
        let [Event::Ran(next, 0)] = events[..] else { panic!("one runs: {events:?}") };
        world.first_token(next);
        order.push(next);
        running = next;
    }
    let place = |id| order.iter().position(|ran| *ran == id);
    assert!(place(11) < place(10), "{order:?}");
}

#[test]
fn retry_after_is_cut_at_the_cap_and_says_so() {
    let mut settings = with_class(Overload::Shed, Span::millis(500));
    settings.limits.retry_after_max = Span::secs(3);
    let mut world = full(settings);
    for id in 1..40 {
        world.arrive(of_class(1, request(id, 1000)));
    }
    let refusal = world.refusal();
    assert_eq!((refusal.retry_after, refusal.sustained), (Some(Span::secs(3)), true));
    assert!(refusal.predicted_wait.is_some_and(|wait| wait > Span::secs(3)));
}

#[test]
fn a_spilling_class_goes_to_its_pool_when_the_wait_is_too_long() {
    let mut world = full(with_class(Overload::Spill(PoolId(7)), Span::millis(100)));
    assert_eq!(world.arrive(of_class(1, request(1, 1000))), [Event::Spilled(1, 7)]);
    assert_eq!(world.core.queue_len(), 0);
}

#[test]
fn a_prompt_that_fits_no_worker_is_refused_for_good() {
    let mut world = World::new(settings(), &[1000, 2000]);
    let refused = [Event::Refused(1, RefusalReason::TooLong)];
    assert_eq!(world.arrive(request(1, 2000)), refused);
    assert_eq!(world.refusal().retry_after, None);
}

#[test]
fn a_pool_that_is_shut_down_takes_nothing_new_and_finishes_what_it_has() {
    let mut world = full(settings());
    world.arrive(request(1, 1500));
    let closing = Settings { accepting: false, ..settings() };
    world.input(forebay_core::Input::Reconfigured(Box::new(closing)));
    let refused = [Event::Refused(2, RefusalReason::Draining)];
    assert_eq!(world.arrive(request(2, 10)), refused);
    assert!(world.refusal().retry_after.is_some());
    assert_eq!(world.finish(901), [Event::Ran(1, 0)]);
}

#[test]
fn without_a_worker_a_queueing_class_waits_and_the_others_are_told() {
    let mut world = World::new(with_class(Overload::Shed, Span::secs(1)), &[]);
    assert_eq!(world.arrive(request(1, 100)), []);
    let refused = [Event::Refused(2, RefusalReason::NoWorker)];
    assert_eq!(world.arrive(of_class(1, request(2, 100))), refused);
    let events = world.observe(0, Observation::Joined(profile(2000)));
    assert_eq!(events, [Event::Ran(1, 0)]);
    let mut pushing = World::new(in_mode("round-robin"), &[]);
    let refused = [Event::Refused(1, RefusalReason::NoWorker)];
    assert_eq!(pushing.arrive(request(1, 100)), refused);
}

fn limited(limits: TenantSettings) -> World {
    World::new(Settings { tenant_default: limits, ..settings() }, &[100_000])
}

#[test]
fn a_tenant_is_held_to_its_rate_and_told_when_the_bucket_refills() {
    let rate = Some(Bucket { per_second: 0.5, burst: 2.0 });
    let mut world = limited(TenantSettings { rate, ..settings().tenant_default });
    assert_eq!(world.arrive(request(1, 10)), [Event::Ran(1, 0)]);
    assert_eq!(world.arrive(request(2, 10)), [Event::Ran(2, 0)]);
    let refused = [Event::Refused(3, RefusalReason::TenantRate)];
    assert_eq!(world.arrive(request(3, 10)), refused);
    assert_eq!(world.refusal().retry_after, Some(Span::secs(2)));
    let other = Arrival { tenant: TenantId(5), ..request(4, 10) };
    assert_eq!(world.arrive(other), [Event::Ran(4, 0)]);
    world.now = world.now + Span::secs(2);
    assert_eq!(world.arrive(request(5, 10)), [Event::Ran(5, 0)]);
}

#[test]
fn a_tenant_is_held_to_its_tokens_and_a_refusal_costs_nothing() {
    let tokens = Some(Bucket { per_second: 1000.0, burst: 2000.0 });
    let rate = Some(Bucket { per_second: 1.0, burst: 2.0 });
    let mut world = limited(TenantSettings { rate, tokens, ..settings().tenant_default });
    assert_eq!(world.arrive(request(1, 2000)), [Event::Ran(1, 0)]);
    let refused = [Event::Refused(2, RefusalReason::TenantTokens)];
    assert_eq!(world.arrive(request(2, 1500)), refused);
    assert_eq!(world.refusal().retry_after, Some(Span::secs(2)), "1.5 s, in whole seconds");
    world.now = world.now + Span::millis(1500);
    // The refused one has taken nothing from the rate of requests, so two more pass it.
    assert_eq!(world.arrive(request(3, 1500)), [Event::Ran(3, 0)]);
}

#[test]
fn a_tenant_is_held_to_its_concurrency_whether_its_requests_wait_or_run() {
    let limits = TenantSettings { concurrency_max: Some(2), ..settings().tenant_default };
    let settings = Settings { tenant_default: limits, ..settings() };
    let mut world = World::new(settings, &[1500]);
    assert_eq!(world.arrive(request(1, 1000)), [Event::Ran(1, 0)]);
    assert_eq!(world.arrive(request(2, 1000)), []);
    let refused = [Event::Refused(3, RefusalReason::TenantConcurrency)];
    assert_eq!(world.arrive(request(3, 10)), refused);
    world.abandon(2);
    world.end(1, Outcome::ClientFault);
    assert_eq!(world.arrive(request(4, 10)), [Event::Ran(4, 0)]);
}

#[test]
fn dynamo_1_2_refuses_when_every_worker_is_above_its_threshold_and_the_others_do_not() {
    for (mode, refuses) in [("kv:dynamo-1.2", true), ("kv:dynamo-1.2-wspt", false)] {
        let mut world = World::new(in_mode(mode), &[2048]);
        for id in 1..4 {
            let prompt = world::request_with_prefix(id, 1024, 0, 0);
            assert_eq!(world.arrive(prompt), [Event::Ran(id, 0)], "{mode}");
        }
        // 48 blocks are in use by then, of 32.
        let prompt = world::request_with_prefix(9, 1024, 0, 0);
        let expected =
            if refuses { Event::Refused(9, RefusalReason::WorkersBusy) } else { Event::Ran(9, 0) };
        assert_eq!(world.arrive(prompt), [expected], "{mode}");
    }
}

#[test]
fn dynamo_parks_behind_its_gate_first_come_or_shortest_first() {
    for (mode, first) in [("kv:dynamo-1.2", 2), ("kv:dynamo-1.2-wspt", 3)] {
        let mut world = World::new(in_mode(mode), &[1_000_000]);
        assert_eq!(world.arrive(request(1, 9000)), [Event::Ran(1, 0)]);
        assert_eq!(world.arrive(request(2, 9000)), [], "9000 is above 4 × 2048");
        assert_eq!(world.arrive(request(3, 100)), []);
        let events = world.first_token(1);
        assert_eq!(events.first(), Some(&Event::Ran(first, 0)), "{mode}");
    }
    let mut world = World::new(in_mode("kv:dynamo-1.6"), &[1_000_000]);
    world.arrive(request(1, 9000));
    assert_eq!(world.arrive(request(2, 9000)), [Event::Ran(2, 0)]);
}

#[test]
fn a_class_beyond_the_list_is_served_as_the_last_one() {
    let mut world = World::new(settings(), &[2000]);
    assert_eq!(world.arrive(of_class(9, request(1, 10))), [Event::Ran(1, 0)]);
    let hold: Mode = "hold".parse().expect("a mode");
    assert_eq!(world.core.settings().mode, hold);
    assert_eq!(world.core.committed(), Tokens(110));
}

#[test]
fn a_spilling_request_that_waited_longer_than_predicted_is_spilled_after_all() {
    let mut world = full(with_class(Overload::Spill(PoolId(7)), Span::secs(30)));
    assert_eq!(world.arrive(of_class(1, request(1, 1000))), []);
    assert_eq!(world.pass(Span::secs(30)), [Event::Spilled(1, 7)]);
}
