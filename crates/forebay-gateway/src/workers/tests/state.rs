//! Checks what becomes of a worker, without sockets.

use forebay_core::{Moment, Observation, Span, Tokens, WorkerProfile};

use crate::workers::options::WatchOptions;
use crate::workers::state::{Action, Activity, Bounds, Event, Machine, Probe};

const PROFILE: WorkerProfile =
    WorkerProfile { kv_capacity: None, batch_tokens_max: Tokens(2_048), seqs_max: 256 };

fn at(secs: u64) -> Moment {
    Moment::START + Span::secs(secs)
}

/// What the core hears of it.
fn told(actions: Vec<Action>) -> Vec<Observation> {
    let tell = |action| match action {
        Action::Tell(observation) => Some(observation),
        _ => None,
    };
    actions.into_iter().filter_map(tell).collect()
}

fn probed(probe: Probe) -> Event {
    Event::Probed(probe, Moment::START)
}

fn ticked(owing: u32, life: Moment) -> Event {
    Event::Ticked(Activity { owing, life, running: 1 })
}

/// A worker that has joined.
fn joined() -> Machine {
    let mut machine = Machine::new(Bounds::of(&WatchOptions::default()));
    assert_eq!(machine.on(at(0), probed(Probe::Well)), [Action::TryOut]);
    assert_eq!(machine.trial(), Some(false), "it has let nobody down");
    let actions = machine.on(at(0), Event::Tried(Some(PROFILE)));
    assert_eq!(told(actions), [Observation::Joined(PROFILE)]);
    machine
}

/// A worker that is tried out with a completion and works.
fn comes_back(machine: &mut Machine, now: Moment) {
    assert_eq!(machine.on(now, probed(Probe::Well)), [Action::TryOut]);
    assert_eq!(machine.on(now, probed(Probe::Well)), [], "one trial at a time");
    assert_eq!(machine.trial(), Some(true));
    assert_eq!(told(machine.on(now, Event::Tried(None))), [], "it did not work");
    assert_eq!(machine.on(now, probed(Probe::Well)), [Action::TryOut]);
    let back = told(machine.on(now, Event::Tried(Some(PROFILE))));
    assert_eq!(back, [Observation::Joined(PROFILE)]);
    assert_eq!(machine.word(), "healthy");
}

#[test]
fn a_worker_is_used_once_it_is_well_and_its_figures_are_read() {
    let mut machine = Machine::new(Bounds::of(&WatchOptions::default()));
    for probe in [Probe::Faulty, Probe::TooLate, Probe::Busy] {
        assert_eq!(machine.on(at(0), probed(probe)), []);
    }
    assert_eq!(machine.word(), "joining");
    assert_eq!(joined().word(), "healthy");
}

#[test]
fn failures_in_a_row_make_it_unhealthy_and_one_success_makes_it_well() {
    let mut machine = joined();
    let mut heard = Vec::new();
    for (second, probe) in [
        Probe::Faulty,
        Probe::TooLate,
        Probe::Well,
        Probe::Faulty,
        Probe::Faulty,
        Probe::Faulty,
        Probe::Well,
    ]
    .into_iter()
    .enumerate()
    {
        heard.extend(told(machine.on(at(second as u64), probed(probe))));
    }
    assert_eq!(heard, [Observation::Healthy(false), Observation::Healthy(true)]);
}

#[test]
fn a_busy_worker_is_not_a_dead_one_as_long_as_bytes_flow() {
    let mut machine = joined();
    for second in 1..60 {
        let life = at(second - 1);
        assert_eq!(machine.on(at(second), Event::Probed(Probe::Busy, life)), []);
        assert_eq!(machine.on(at(second), Event::Probed(Probe::TooLate, life)), []);
    }
    let mut heard = Vec::new();
    for second in 60..90 {
        heard.extend(told(machine.on(at(second), Event::Probed(Probe::Busy, at(58)))));
    }
    assert_eq!(heard, [Observation::Healthy(false), Observation::Lost], "an engine that died");
}

#[test]
fn a_worker_without_a_sign_of_life_is_lost_and_comes_back_after_a_completion() {
    let mut machine = joined();
    let mut heard = Vec::new();
    for second in 0..11 {
        heard.extend(told(machine.on(at(second), probed(Probe::TooLate))));
    }
    assert_eq!(heard, [Observation::Healthy(false), Observation::Lost]);
    assert_eq!(machine.word(), "lost");
    comes_back(&mut machine, at(60));
}

#[test]
fn an_unhealthy_worker_whose_streams_go_on_is_not_lost() {
    let mut machine = joined();
    for second in 0..60 {
        let life = at(second);
        let heard = told(machine.on(at(second), Event::Probed(Probe::Faulty, life)));
        assert!(!heard.contains(&Observation::Lost));
        assert_eq!(machine.on(at(second), ticked(1, life)), []);
    }
    assert_eq!(machine.word(), "unhealthy");
}

#[test]
fn a_stalled_worker_is_lost_however_well_its_health_page_is() {
    let mut machine = joined();
    assert_eq!(machine.on(at(10), ticked(2, at(9))), []);
    for second in 11..39 {
        assert_eq!(machine.on(at(second), ticked(2, at(9))), [], "{second}");
        assert_eq!(machine.on(at(second), probed(Probe::Well)), []);
    }
    // It has owed something since 10 s, as far as was looked.
    assert_eq!(told(machine.on(at(40), ticked(1, at(9)))), [Observation::Lost]);
    assert_eq!(machine.word(), "silent");
    comes_back(&mut machine, at(41));
}

#[test]
fn a_worker_that_owes_nothing_may_be_quiet_for_ever() {
    let mut machine = joined();
    for second in 0..1000 {
        // A client that reads slowly is owed something for a moment now and then.
        let owing = u32::from(second % 20 == 0);
        assert_eq!(machine.on(at(second), ticked(owing, at(0))), []);
    }
}

#[test]
fn a_restart_is_a_join_with_an_empty_cache_only_for_a_worker_in_use() {
    let mut machine = joined();
    assert_eq!(told(machine.on(at(1), Event::Restarted(PROFILE))), [Observation::Joined(PROFILE)]);
    for second in 2..5 {
        machine.on(at(second), probed(Probe::Faulty));
    }
    assert_eq!(machine.word(), "unhealthy");
    assert_eq!(told(machine.on(at(5), Event::Restarted(PROFILE))), [Observation::Lost]);
    assert_eq!(told(machine.on(at(6), Event::Restarted(PROFILE))), [], "it is away");
    comes_back(&mut machine, at(7));
    machine.on(at(8), Event::Drain);
    assert_eq!(told(machine.on(at(9), Event::Restarted(PROFILE))), [Observation::Lost]);
    let idle = Event::Ticked(Activity { owing: 0, life: at(9), running: 0 });
    assert_eq!(machine.on(at(9), idle).len(), 1, "nothing runs on one that was lost");
    assert_eq!(machine.on(at(10), probed(Probe::Well)), [], "it is drained: nobody needs it");
    machine.on(at(11), Event::Undrain);
    comes_back(&mut machine, at(12));
}

#[test]
fn a_drain_is_told_once_is_taken_back_and_ends_only_with_a_leave() {
    let mut machine = joined();
    let drains = [Action::Tell(Observation::Draining(true)), Action::SayDrains];
    assert_eq!(machine.on(at(1), Event::Drain), drains);
    assert_eq!(machine.on(at(1), Event::Drain), []);
    let idle = Event::Ticked(Activity { owing: 0, life: at(0), running: 0 });
    let over = "worker drained: nothing runs on it, it may be stopped";
    assert_eq!(machine.on(at(1), ticked(0, at(1))), [], "something runs");
    assert_eq!(machine.on(at(2), idle), [Action::Say(over, false)]);
    assert_eq!(machine.on(at(2), idle), [], "it stays until it is to leave");
    assert_eq!(told(machine.on(at(3), Event::Undrain)), [Observation::Draining(false)]);
    assert_eq!(machine.on(at(3), Event::Undrain), []);
    assert_eq!(told(machine.on(at(4), Event::Leave)), [Observation::Draining(true)]);
    assert_eq!(machine.on(at(5), ticked(0, at(5))), [], "something runs");
    let gone = machine.on(at(6), idle);
    assert_eq!(gone.first(), Some(&Action::Say(over, false)), "it is another drain");
    assert_eq!(told(gone.clone()), [Observation::Left]);
    assert_eq!(gone.last(), Some(&Action::Forget));
    for event in [Event::Undrain, Event::LeaveNow, idle, probed(Probe::Well)] {
        assert_eq!(machine.on(at(7), event), [], "nothing brings it back");
    }
}

#[test]
fn a_worker_that_does_not_finish_leaves_at_the_bound_and_at_once_if_told_so() {
    let mut machine = joined();
    machine.on(at(0), Event::Leave);
    assert_eq!(machine.on(at(599), ticked(0, at(599))), []);
    assert_eq!(told(machine.on(at(600), ticked(0, at(600)))), [Observation::Left]);
    let mut machine = joined();
    assert_eq!(told(machine.on(at(0), Event::LeaveNow)), [Observation::Left]);
    let mut new = Machine::new(Bounds::of(&WatchOptions::default()));
    assert!(new.on(at(0), Event::Leave).contains(&Action::Forget), "nothing ever ran there");
}

#[test]
fn a_worker_that_was_drained_while_it_was_tried_out_is_not_used() {
    let mut machine = Machine::new(Bounds::of(&WatchOptions::default()));
    machine.on(at(0), probed(Probe::Well));
    machine.on(at(0), Event::Drain);
    assert_eq!(machine.on(at(1), Event::Tried(Some(PROFILE))), []);
    machine.on(at(2), Event::Undrain);
    assert_eq!(machine.on(at(3), probed(Probe::Well)), [Action::TryOut]);
}
