//! Sends the turns of a conversation one after the other, where the trace says so.

use foldhash::fast::FixedState;
use forebay_core::{Moment, Span};
use hashbrown::HashMap;
use std::collections::VecDeque;

/// When a turn is to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sending<T> {
    /// Now.
    Now(T),
    /// Later: its previous turn has ended, but not long enough ago.
    Later(Moment, T),
    /// Once its previous turn has ended: it is kept here.
    Kept,
}

#[derive(Debug)]
struct Session<T> {
    open: u32,
    ended: Moment,
    /// Boxed, so that the many sessions that keep nothing stay small.
    #[expect(clippy::box_collection, reason = "most sessions keep nothing, and there are many")]
    kept: Option<Box<VecDeque<(Span, T)>>>,
}

/// Every session seen so far: a few dozen bytes each, since a later turn may refer to it.
#[derive(Debug)]
pub(crate) struct Sessions<T> {
    by_id: HashMap<u64, Session<T>, FixedState>,
}

impl<T> Sessions<T> {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { by_id: HashMap::with_hasher(FixedState::default()) }
    }

    /// A turn came up in the trace. Without a delay, or as the first of its session, it is sent at
    /// once.
    pub(crate) fn came(
        &mut self,
        session: u64,
        delay: Option<Span>,
        now: Moment,
        turn: T,
    ) -> Sending<T> {
        let Some(known) = self.by_id.get_mut(&session) else {
            self.by_id.insert(session, Session { open: 1, ended: now, kept: None });
            return Sending::Now(turn);
        };
        let Some(delay) = delay else {
            known.open += 1;
            return Sending::Now(turn);
        };
        if known.open > 0 {
            known.kept.get_or_insert_default().push_back((delay, turn));
            return Sending::Kept;
        }
        known.open = 1;
        if known.ended + delay <= now {
            Sending::Now(turn)
        } else {
            Sending::Later(known.ended + delay, turn)
        }
    }

    /// A turn ended, whichever way. If it was the last open one, the next kept one is due.
    pub(crate) fn ended(&mut self, session: u64, now: Moment) -> Option<(Moment, T)> {
        let known = self.by_id.get_mut(&session)?;
        known.open -= 1;
        known.ended = now;
        if known.open > 0 {
            return None;
        }
        let (delay, turn) = known.kept.as_mut()?.pop_front()?;
        known.open = 1;
        Some((now + delay, turn))
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::{Moment, Span};

    use super::{Sending, Sessions};

    const DELAY: Option<Span> = Some(Span(10));

    #[test]
    fn a_turn_waits_for_its_previous_one_to_end_and_then_for_its_delay() {
        let mut sessions = Sessions::new();
        assert_eq!(sessions.came(7, DELAY, Moment(0), 'a'), Sending::Now('a'));
        assert_eq!(sessions.came(7, DELAY, Moment(1), 'b'), Sending::Kept);
        assert_eq!(sessions.came(7, DELAY, Moment(2), 'c'), Sending::Kept);
        assert_eq!(sessions.ended(7, Moment(100)), Some((Moment(110), 'b')));
        assert_eq!(sessions.ended(7, Moment(150)), Some((Moment(160), 'c')));
        assert_eq!(sessions.ended(7, Moment(170)), None);
        assert_eq!(sessions.came(7, DELAY, Moment(175), 'd'), Sending::Later(Moment(180), 'd'));
    }

    #[test]
    fn a_turn_whose_delay_is_over_or_missing_is_sent_when_it_comes_up() {
        let mut sessions = Sessions::new();
        assert_eq!(sessions.came(7, None, Moment(0), 'a'), Sending::Now('a'));
        assert_eq!(sessions.came(7, None, Moment(0), 'b'), Sending::Now('b'));
        assert_eq!(sessions.ended(7, Moment(5)), None);
        assert_eq!(sessions.ended(7, Moment(6)), None);
        assert_eq!(sessions.came(7, DELAY, Moment(16), 'c'), Sending::Now('c'));
    }
}
