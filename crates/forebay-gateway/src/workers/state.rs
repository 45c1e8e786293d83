//! Decides what becomes of a worker when something happens to it: a probe, a restart, silence, a
//! drain. Pure: whoever calls it does what it says.
//!
//! ```text
//!            first probe well, figures read
//!   away(new) ────────────────────────────▶ here(well) ◀──▶ here(unwell)   by probes
//!                                             │  stalls         │  no sign of life
//!   away(silent), away(lost) ◀────────────────┴─────────────────┘
//!        └── probe well, then a completion ──▶ here(well)
//! ```
//!
//! Whatever is away is not used, and what ran there was given up. A drain holds beside all of
//! this, and ends in `gone` if the worker is to leave.

use forebay_core::{Moment, Observation, Span, WorkerProfile};

use super::figures::span;
use super::options::WatchOptions;
use super::silence::Quiet;

/// What a probe has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// It is well.
    Well,
    /// It says that it has too much to do (429 or 503), which a dead engine's server says, too.
    Busy,
    /// It did not answer in time.
    TooLate,
    /// It can't be reached, or says that it is not well.
    Faulty,
}

/// What happens to a worker.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// It was probed; its last sign of life was then.
    Probed(Probe, Moment),
    /// It was tried out; what it is like if it works.
    Tried(Option<WorkerProfile>),
    /// Its process was replaced by one with an empty cache.
    Restarted(WorkerProfile),
    /// Time has passed.
    Ticked(Activity),
    /// It is to take nothing new.
    Drain,
    /// It is to be used again.
    Undrain,
    /// It is to be forgotten once nothing runs on it.
    Leave,
    /// It is to be forgotten now.
    LeaveNow,
}

/// What a worker is doing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activity {
    /// Streams that wait for its next piece.
    pub(super) owing: u32,
    /// Its last sign of life: a byte, or a count that grew.
    pub(super) life: Moment,
    /// Requests on it, if the end of a drain is waited for.
    pub(super) running: u32,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The core is to hear this.
    Tell(Observation),
    /// It is to be tried out, with a completion or without, and its figures are to be read.
    TryOut,
    /// Whoever runs this is to hear this, and whether it is bad.
    Say(&'static str, bool),
    /// Whoever runs this is to hear that it begins to be drained, and what still runs there.
    SayDrains,
    /// It is to be forgotten.
    Forget,
}

/// Why a worker is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Away {
    /// It was not seen well yet.
    New,
    /// It stalled.
    Silent,
    /// It gave no sign of life, or was restarted while it was of no use.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Away { why: Away, trying: bool },
    Here { well: bool },
    Gone,
}

/// The state of one worker.
#[derive(Debug)]
pub(super) struct Machine {
    bounds: Bounds,
    place: Place,
    drained: bool,
    /// It was said that nothing runs on it since it is drained.
    emptied: bool,
    leaving: Option<Moment>,
    failures: u32,
    successes: u32,
    failing_since: Option<Moment>,
    quiet: Quiet,
}

/// The bounds of a machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    failures: u32,
    successes: u32,
    silence_max: Span,
    gone_after: Span,
    drain_max: Span,
    /// A sign of life this long ago is one of now: a probe and the time between two.
    alive_within: Span,
}

impl Bounds {
    /// Those that these options give.
    pub(super) fn of(options: &WatchOptions) -> Self {
        Self {
            failures: options.probe.failures,
            successes: options.probe.successes,
            silence_max: span(options.silence_max),
            gone_after: span(options.gone_after),
            drain_max: span(options.drain_max),
            alive_within: span(options.probe.every + options.probe.timeout),
        }
    }
}

impl Machine {
    /// A worker of which nothing is known.
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            place: Place::Away { why: Away::New, trying: false },
            drained: false,
            emptied: false,
            leaving: None,
            failures: 0,
            successes: 0,
            failing_since: None,
            quiet: Quiet::default(),
        }
    }

    /// Puts other bounds in force.
    pub(super) fn rebind(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// What to do when this happens.
    pub(super) fn on(&mut self, now: Moment, event: Event) -> Vec<Action> {
        if self.place == Place::Gone {
            return Vec::new();
        }
        match event {
            Event::Probed(probe, life) => self.probed(now, probe, life),
            Event::Tried(profile) => self.tried(profile),
            Event::Restarted(profile) => self.restarted(profile),
            Event::Ticked(activity) => self.ticked(now, activity),
            Event::Drain => self.drain(),
            Event::Undrain => self.undrain(),
            Event::Leave => {
                self.leaving.get_or_insert(now);
                if self.is_away() {
                    return self.forget();
                }
                self.drain()
            }
            Event::LeaveNow => self.forget(),
        }
    }

    /// Whether a trial is wanted, and if so whether with a completion: a worker that was never
    /// used has let nobody down.
    pub(super) fn trial(&self) -> Option<bool> {
        match self.place {
            Place::Away { why, trying: true } => Some(why != Away::New),
            _ => None,
        }
    }

    /// Whether it is away.
    pub(super) fn is_away(&self) -> bool {
        matches!(self.place, Place::Away { .. })
    }

    /// Whether it is forgotten.
    pub(super) fn is_gone(&self) -> bool {
        self.place == Place::Gone
    }

    /// Whether something is to be done or said once nothing runs on it.
    pub(super) fn awaits_end(&self) -> bool {
        self.leaving.is_some() || self.drained && !self.emptied
    }

    /// In one word.
    pub(super) fn word(&self) -> &'static str {
        match self.place {
            Place::Gone => "gone",
            _ if self.leaving.is_some() => "leaving",
            _ if self.drained => "draining",
            Place::Away { why: Away::New, .. } => "joining",
            Place::Away { why: Away::Silent, .. } => "silent",
            Place::Away { why: Away::Lost, .. } => "lost",
            Place::Here { well: true } => "healthy",
            Place::Here { well: false } => "unhealthy",
        }
    }

    fn probed(&mut self, now: Moment, probe: Probe, life: Moment) -> Vec<Action> {
        let flows = life > Moment::START && now.since(life) <= self.bounds.alive_within;
        let well = match probe {
            Probe::Well => true,
            // A busy worker is not a dead one.
            Probe::Busy if flows => true,
            Probe::TooLate if flows => return Vec::new(),
            Probe::Busy | Probe::TooLate | Probe::Faulty => false,
        };
        match &mut self.place {
            Place::Away { trying, .. } => {
                if well && !*trying && !self.drained {
                    *trying = true;
                    return vec![Action::TryOut];
                }
                Vec::new()
            }
            Place::Here { .. } if well => self.found_well(),
            Place::Here { .. } => self.found_unwell(now, life),
            Place::Gone => Vec::new(),
        }
    }

    fn found_well(&mut self) -> Vec<Action> {
        self.failures = 0;
        self.failing_since = None;
        self.successes = self.successes.saturating_add(1);
        if self.place == (Place::Here { well: true }) || self.successes < self.bounds.successes {
            return Vec::new();
        }
        self.place = Place::Here { well: true };
        vec![Action::Tell(Observation::Healthy(true)), Action::Say("worker is well again", false)]
    }

    fn found_unwell(&mut self, now: Moment, life: Moment) -> Vec<Action> {
        self.successes = 0;
        self.failures = self.failures.saturating_add(1);
        self.failing_since.get_or_insert(now);
        if self.failures < self.bounds.failures {
            return Vec::new();
        }
        if self.place == (Place::Here { well: true }) {
            self.place = Place::Here { well: false };
            let what = "worker fails its probes, and gets nothing new";
            return vec![Action::Tell(Observation::Healthy(false)), Action::Say(what, true)];
        }
        self.give_up(now, life)
    }

    /// Gives up what runs on a worker that has failed its probes for long without a sign of life.
    fn give_up(&mut self, now: Moment, life: Moment) -> Vec<Action> {
        let Some(since) = self.failing_since.filter(|_| self.place == Place::Here { well: false })
        else {
            return Vec::new();
        };
        if now.since(since.max(life)) < self.bounds.gone_after {
            return Vec::new();
        }
        self.lose(Away::Lost, "worker gives no sign of life: what ran on it is lost")
    }

    fn lose(&mut self, why: Away, what: &'static str) -> Vec<Action> {
        self.place = Place::Away { why, trying: false };
        (self.failures, self.successes, self.failing_since) = (0, 0, None);
        self.quiet = Quiet::default();
        vec![Action::Tell(Observation::Lost), Action::Say(what, true)]
    }

    fn tried(&mut self, profile: Option<WorkerProfile>) -> Vec<Action> {
        let Place::Away { trying, .. } = &mut self.place else { return Vec::new() };
        *trying = false;
        let Some(profile) = profile.filter(|_| !self.drained) else { return Vec::new() };
        self.place = Place::Here { well: true };
        (self.failures, self.failing_since) = (0, None);
        vec![
            Action::Tell(Observation::Joined(profile)),
            Action::Say("worker used from now on", false),
        ]
    }

    fn restarted(&mut self, profile: WorkerProfile) -> Vec<Action> {
        let what = "worker was restarted: its cache is empty, and what ran on it is lost";
        match self.place {
            // By itself it would be used at once.
            Place::Here { well } if !well || self.drained => self.lose(Away::Lost, what),
            Place::Here { .. } => {
                self.quiet = Quiet::default();
                vec![Action::Tell(Observation::Joined(profile)), Action::Say(what, true)]
            }
            // Its figures are read again before it is used.
            Place::Away { .. } | Place::Gone => Vec::new(),
        }
    }

    fn ticked(&mut self, now: Moment, activity: Activity) -> Vec<Action> {
        let Place::Here { .. } = self.place else {
            return if self.leaving.is_some() { self.forget() } else { self.empties(activity) };
        };
        let quiet = self.quiet.lasts(now, activity.owing, activity.life);
        let mut actions = if quiet >= self.bounds.silence_max {
            self.lose(Away::Silent, "worker has stalled: what ran on it is lost")
        } else {
            self.give_up(now, activity.life)
        };
        actions.extend(self.empties(activity));
        let is_over = |since: Moment| {
            activity.running == 0 || now.since(since) >= self.bounds.drain_max || self.is_away()
        };
        if self.leaving.is_some_and(is_over) {
            actions.extend(self.forget());
        }
        actions
    }

    fn drain(&mut self) -> Vec<Action> {
        if std::mem::replace(&mut self.drained, true) {
            return Vec::new();
        }
        vec![Action::Tell(Observation::Draining(true)), Action::SayDrains]
    }

    /// Says once that a drain is over: whoever asked for it waits for that.
    fn empties(&mut self, activity: Activity) -> Vec<Action> {
        if !self.awaits_end() || self.emptied || activity.running > 0 {
            return Vec::new();
        }
        self.emptied = true;
        vec![Action::Say("worker drained: nothing runs on it, it may be stopped", false)]
    }

    fn undrain(&mut self) -> Vec<Action> {
        (self.leaving, self.emptied) = (None, false);
        if !std::mem::replace(&mut self.drained, false) {
            return Vec::new();
        }
        vec![
            Action::Tell(Observation::Draining(false)),
            Action::Say("worker is not drained any more", false),
        ]
    }

    fn forget(&mut self) -> Vec<Action> {
        self.place = Place::Gone;
        vec![Action::Tell(Observation::Left), Action::Say("worker has left", false), Action::Forget]
    }
}
