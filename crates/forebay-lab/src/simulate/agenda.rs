//! Keeps what will happen, in the order of (moment, sequence).
//!
//! The sequence breaks ties by the order of planning, so a run never depends on how a heap is laid
//! out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forebay_core::Moment;

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The next request of the trace is due.
    Arrival,
    /// A turn that waited for its session's previous one is due; the place in the trace.
    Turn(u64),
    /// A refused client comes back; the place in the trace.
    Return(u64),
    /// A client's patience ends; the place in the trace.
    GiveUp(u64),
    /// A step of an engine ends.
    Step {
        /// Whose worker.
        pool: u16,
        /// Which worker.
        worker: u32,
    },
    /// The core of this pool asked to be woken.
    Alarm(u16),
    /// The workers' figures are read.
    Scrape,
    /// What the script has at this place.
    Script(u32),
}

impl Event {
    /// Whether it alone can change anything. Readings and alarms only matter to requests that are
    /// there.
    pub(super) const fn is_driving(self) -> bool {
        !matches!(self, Self::Alarm(_) | Self::Scrape)
    }
}

/// What will happen, soonest first.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<(Moment, u64, Event)>>,
    sequence: u64,
    driving: usize,
}

impl Agenda {
    /// Plans an event.
    pub(super) fn plan(&mut self, at: Moment, event: Event) {
        self.sequence += 1;
        self.driving += usize::from(event.is_driving());
        self.heap.push(Reverse((at, self.sequence, event)));
    }

    /// The next event.
    pub(super) fn next(&mut self) -> Option<(Moment, Event)> {
        let Reverse((at, _, event)) = self.heap.pop()?;
        self.driving -= usize::from(event.is_driving());
        Some((at, event))
    }

    /// When the next event is.
    pub(super) fn next_at(&self) -> Option<Moment> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Whether anything is planned but readings and alarms.
    pub(super) fn is_driven(&self) -> bool {
        self.driving > 0
    }
}

#[cfg(test)]
mod tests {
    use super::{Agenda, Event};
    use forebay_core::Moment;

    #[test]
    fn events_of_one_moment_happen_in_the_order_of_planning() {
        let mut agenda = Agenda::default();
        agenda.plan(Moment(2), Event::Arrival);
        agenda.plan(Moment(1), Event::Script(9));
        agenda.plan(Moment(1), Event::Script(3));
        let order: Vec<_> = std::iter::from_fn(|| agenda.next()).collect();
        let wanted = [(1, Event::Script(9)), (1, Event::Script(3)), (2, Event::Arrival)];
        assert_eq!(order, wanted.map(|(at, event)| (Moment(at), event)));
    }

    #[test]
    fn readings_and_alarms_drive_nothing() {
        let mut agenda = Agenda::default();
        agenda.plan(Moment(1), Event::Scrape);
        agenda.plan(Moment(1), Event::Alarm(0));
        assert!(!agenda.is_driven());
        agenda.plan(Moment(1), Event::Return(0));
        assert!(agenda.is_driven());
    }
}
