//! Says which request is due next: of the plan, a later turn, a retry, or that of a user who is
//! ready again.

use std::collections::{BTreeMap, VecDeque};
use std::iter::Fuse;

use forebay_core::{Moment, Rng, Span};

use super::call::{Job, Told};
use super::{Planned, Settings, Users};
use crate::results::{Outcome, Row};
use crate::simulate::sessions::{Sending, Sessions};

/// How many requests are taken from the plan ahead of their moments, while there is time: making
/// the bodies of a burst takes longer than the burst.
const AHEAD_MAX: usize = 64;

/// All that is due some time.
pub(super) struct Agenda<P: Iterator<Item = Planned>> {
    plan: Fuse<P>,
    /// The place in the plan of whatever is taken from it next.
    nth: u64,
    ahead: VecDeque<(u64, Planned)>,
    /// By moment, and in the order in which they came to be due.
    later: BTreeMap<(Span, u64), Due>,
    order: u64,
    sessions: Sessions<u64>,
    /// Turns whose previous one has not ended.
    kept: BTreeMap<u64, Planned>,
    users: Option<Users>,
    /// How many requests each user has made.
    turns: Vec<u32>,
    rng: Rng,
}

/// What is due at a moment of its own.
enum Due {
    /// A request that was refused comes back.
    Again(Box<Job>),
    /// A turn whose previous one has ended.
    Turn(u64, Box<Planned>),
    /// A user is ready for the next request.
    User(u32),
}

impl<P: Iterator<Item = Planned>> Agenda<P> {
    /// Nothing is taken from the plan yet.
    pub(super) fn new(plan: P, settings: &Settings) -> Self {
        let users = settings.users;
        let mut agenda = Self {
            plan: plan.fuse(),
            nth: 0,
            ahead: VecDeque::new(),
            later: BTreeMap::new(),
            order: 0,
            sessions: Sessions::new(),
            kept: BTreeMap::new(),
            users,
            turns: vec![0; users.map_or(0, |users| users.count as usize)],
            rng: Rng::new(settings.seed).fork("think"),
        };
        if let Some(Users { count, think, .. }) = users {
            for user in 0..count {
                let at = think.mean().scaled(f64::from(user) / f64::from(count));
                agenda.put(at, Due::User(user));
            }
        }
        agenda
    }

    fn put(&mut self, at: Span, due: Due) {
        self.later.insert((at, self.order), due);
        self.order += 1;
    }

    /// Takes one more request from the plan, unless enough are taken. Whether one was.
    pub(super) fn look_ahead(&mut self) -> bool {
        if self.ahead.len() >= AHEAD_MAX {
            return false;
        }
        let Some(planned) = self.plan.next() else { return false };
        self.ahead.push_back((self.nth, planned));
        self.nth += 1;
        true
    }

    /// When something is due next.
    pub(super) fn next(&mut self) -> Option<Span> {
        if self.ahead.is_empty() {
            self.look_ahead();
        }
        self.known()
    }

    /// The same, of what has been taken from the plan so far.
    pub(super) fn known(&self) -> Option<Span> {
        let later = self.later.first_key_value().map(|((at, _), _)| *at);
        later.into_iter().chain(self.planned()).min()
    }

    /// When the plan's next request is due, where the plan says.
    fn planned(&self) -> Option<Span> {
        let (_, planned) = self.ahead.front()?;
        self.users.is_none().then_some(planned.at)
    }

    /// Takes what is due next; `None` where that sends nothing now.
    pub(super) fn take(&mut self) -> Option<Box<Job>> {
        let later = self.later.first_key_value().map(|((at, _), _)| *at);
        if let Some(at) = self.planned().filter(|at| later.is_none_or(|later| *at <= later)) {
            let (nth, planned) = self.ahead.pop_front()?;
            return self.came(nth, planned, at);
        }
        let ((at, _), due) = self.later.pop_first()?;
        match due {
            Due::Again(job) => Some(job),
            Due::Turn(nth, planned) => Some(job(nth, *planned, at)),
            Due::User(user) => self.ready(user, at),
        }
    }

    /// A request of the plan came up: a turn may have to wait for its previous one.
    fn came(&mut self, nth: u64, planned: Planned, at: Span) -> Option<Box<Job>> {
        let Some(session) = planned.session else { return Some(job(nth, planned, at)) };
        match self.sessions.came(session, planned.delay, Moment(at.0), nth) {
            Sending::Now(nth) => return Some(job(nth, planned, at)),
            Sending::Later(at, nth) => self.put(Span(at.0), Due::Turn(nth, Box::new(planned))),
            Sending::Kept => drop(self.kept.insert(nth, planned)),
        }
        None
    }

    /// A user makes the plan's next request.
    fn ready(&mut self, user: u32, at: Span) -> Option<Box<Job>> {
        if self.users?.until.is_some_and(|until| at >= until) {
            return None;
        }
        if self.ahead.is_empty() {
            self.look_ahead();
        }
        let (nth, mut planned) = self.ahead.pop_front()?;
        let turn = &mut self.turns[user as usize];
        (planned.session, planned.turn) = (Some(user.into()), *turn);
        *turn += 1;
        let mut job = job(nth, planned, at);
        job.user = Some(user);
        Some(job)
    }

    /// A refused request comes back.
    pub(super) fn again(&mut self, job: Box<Job>) {
        self.put(job.due, Due::Again(job));
    }

    /// A request ended for good: whoever waited for it has its turn.
    pub(super) fn ended(&mut self, job: &Job, at: Span) {
        if let (Some(user), Some(users)) = (job.user, self.users) {
            let ready = at + users.think.draw(&mut self.rng);
            self.put(ready, Due::User(user));
        } else if let Some((due, nth)) =
            job.row.session.and_then(|session| self.sessions.ended(session, Moment(at.0)))
            && let Some(planned) = self.kept.remove(&nth)
        {
            self.put(Span(due.0), Due::Turn(nth, Box::new(planned)));
        }
    }

    /// Everything that will not be sent since the run was stopped: refused requests as they are,
    /// the others as not sent. In a closed loop nobody has asked for what is left of the plan.
    pub(super) fn left(self) -> impl Iterator<Item = Row> {
        let later = self.later.into_iter().filter_map(|((at, _), due)| match due {
            Due::Again(job) => Some(job.row),
            Due::Turn(nth, planned) => Some(row(nth, &planned, at)),
            Due::User(_) => None,
        });
        let kept = self.kept.into_iter().map(|(nth, planned)| row(nth, &planned, planned.at));
        let rest = self.ahead.into_iter().chain((self.nth..).zip(self.plan));
        let planned = rest.map(|(nth, planned)| row(nth, &planned, planned.at));
        let is_open = self.users.is_none();
        later.chain(kept).chain(planned.take_while(move |_| is_open))
    }
}

fn job(nth: u64, planned: Planned, due: Span) -> Box<Job> {
    let row = row(nth, &planned, due);
    Box::new(Job {
        planned,
        row,
        due,
        user: None,
        told: Told::default(),
        shows_ticket: false,
        is_given_up: false,
    })
}

fn row(nth: u64, planned: &Planned, scheduled: Span) -> Row {
    Row {
        is_warmup: planned.is_warmup,
        session: planned.session,
        turn: planned.turn,
        class: planned.class.clone(),
        tenant: planned.tenant.clone(),
        prompt_tokens: planned.prompt_tokens,
        output_tokens: planned.output_tokens,
        ..Row::new(nth, scheduled, Outcome::NotSent)
    }
}
