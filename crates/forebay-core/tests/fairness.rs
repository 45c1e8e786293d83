//! Classes and tenants that compete get what they are entitled to.

mod world;

use forebay_core::{Arrival, ClassId, Overload, Settings, Span, TenantId, TenantSettings};
use world::{Event, World, class, request, settings};

const FLOOD: TenantId = TenantId(1);
const LIGHT: TenantId = TenantId(2);

fn of(tenant: TenantId, arrival: Arrival) -> Arrival {
    Arrival { tenant, ..arrival }
}

/// Floods a worker with requests of two parties in turn, lets `rounds` of them end in the order in
/// which they were dispatched, and counts how many of each ran in the second half of that.
fn served(settings: Settings, rounds: usize, party: impl Fn(u64, Arrival) -> Arrival) -> [u32; 2] {
    let mut world = World::new(settings, &[50_000]);
    let mut ran: Vec<u64> = Vec::new();
    let note = |world: &mut World, ran: &mut Vec<u64>, events: Vec<Event>| {
        let mut events = std::collections::VecDeque::from(events);
        while let Some(event) = events.pop_front() {
            let Event::Ran(request, _) = event else { panic!("{event:?}") };
            ran.push(request);
            events.extend(world.first_token(request));
        }
    };
    for id in 0..1000 {
        let events = world.arrive(party(id % 2, request(id, 900)));
        note(&mut world, &mut ran, events);
    }
    for round in 0..rounds {
        world.now = world.now + Span::millis(100);
        let events = world.finish(ran[round]);
        note(&mut world, &mut ran, events);
    }
    let mut counts = [0, 0];
    for request in &ran[rounds / 2..rounds] {
        counts[(request % 2) as usize] += 1;
    }
    counts
}

#[test]
fn classes_share_the_fleet_by_their_shares() {
    let mut classes = vec![class(Overload::Queue, None), class(Overload::Queue, None)];
    classes[1].share = 4;
    let of_class = |class, arrival| Arrival { class: ClassId(class as u16), ..arrival };
    let [one, four] = served(Settings { classes, ..settings() }, 200, of_class);
    let ratio = f64::from(four) / f64::from(one);
    assert!((3.0..5.5).contains(&ratio), "{one} against {four}");
}

#[test]
fn tenants_share_their_class_by_their_weights() {
    let heavy = TenantSettings { weight: 3, ..settings().tenant_default };
    let tenants = vec![(TenantId(1), heavy)];
    let of_tenant = |tenant, arrival| of(TenantId(tenant as u32), arrival);
    let [one, three] = served(Settings { tenants, ..settings() }, 200, of_tenant);
    let ratio = f64::from(three) / f64::from(one);
    assert!((2.2..4.0).contains(&ratio), "{one} against {three}");
}

#[test]
fn a_tenant_that_comes_seldom_goes_before_the_whole_queue_of_one_that_floods() {
    let mut world = World::new(settings(), &[10_000]);
    for id in 0..100 {
        world.arrive(of(FLOOD, request(id, 900)));
        world.first_token(id);
    }
    world.now = world.now + Span::secs(1);
    assert_eq!(world.arrive(of(LIGHT, request(500, 900))), []);
    assert_eq!(world.finish(0), [Event::Ran(500, 0)]);
}

#[test]
fn a_flood_leaves_room_for_a_tenant_that_runs_below_its_share() {
    let mut world = World::new(settings(), &[10_000]);
    world.arrive(of(LIGHT, request(0, 900)));
    world.first_token(0);
    let mut ran = 0;
    for id in 1..20 {
        ran += world.arrive(of(FLOOD, request(id, 900))).len();
        world.first_token(id);
    }
    assert_eq!(ran, 7, "10,000 less the light one's own, and twice that kept for it");
    assert_eq!(world.arrive(of(LIGHT, request(100, 900))), [Event::Ran(100, 0)]);
    // Alone again, the flood may have it all.
    world.finish(0);
    world.finish(100);
    assert_eq!(world.core.flights_len(), 10);
}

#[test]
fn more_tenants_than_may_be_share_an_account_and_nothing_grows() {
    let mut settings = settings();
    settings.limits.tenants_max = 4;
    let mut world = World::new(settings, &[100_000]);
    for id in 0..50 {
        let events = world.arrive(of(TenantId(id as u32), request(id, 100)));
        assert_eq!(events, [Event::Ran(id, 0)]);
        world.first_token(id);
    }
    (0..50).for_each(|id| assert_eq!(world.finish(id), []));
}
