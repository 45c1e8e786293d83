//! Ends the gateway in stages, so that nothing that was taken in is lost.
//!
//! | stage | new connections | open ones | begins |
//! |---|---|---|---|
//! | serving | taken | served | |
//! | unready | taken | answers say `connection: close` | at the first signal |
//! | draining | none | idle ones close, the others after their answer | `notice` later |
//! | ending | none | handlers have to answer now, with a refusal if need be | `drain_max` later |
//! | ended | none | cut | `ending_max` later |
//!
//! Each stage after the second is skipped once nothing is open. A second signal goes on to
//! draining at once and gives it `hurried_max`; a third cuts.

use std::time::Duration;

use tokio::sync::watch;

/// How long the stages of a stop take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StopTimes {
    /// From readiness going down to the door's closing: as long as whoever sends traffic here takes
    /// to notice. Kubernetes takes a few seconds.
    pub(crate) notice: Duration,
    /// For requests to be answered.
    pub(crate) drain_max: Duration,
    /// The same, after a second signal.
    pub(crate) hurried_max: Duration,
    /// For handlers to refuse what they have not answered.
    pub(crate) ending_max: Duration,
}

impl Default for StopTimes {
    fn default() -> Self {
        Self {
            notice: Duration::from_secs(5),
            drain_max: Duration::from_mins(2),
            hurried_max: Duration::from_secs(2),
            ending_max: Duration::from_secs(1),
        }
    }
}

/// A stage of the stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// No stop was asked for.
    #[default]
    Serving,
    /// `/readyz` says no; everything is still served.
    Unready,
    /// No connections are taken; what is there is answered.
    Draining,
    /// What waits has to be refused, and streams end in an error.
    Ending,
    /// What is left is cut.
    Ended,
}

/// What asking for a stop has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The first time: the stop.
    Stop,
    /// The second time: a quicker one.
    Hurry,
    /// After that: the end.
    Cut,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    phase: Phase,
    hurried: bool,
}

/// Says when to stop, and how far stopping is. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Sender<State>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::Sender::new(State::default()))
    }
}

impl Stop {
    /// Asks for a stop; asked again, for a quicker one; asked a third time, for an end.
    pub(crate) fn ask(&self) -> Asked {
        let mut asked = Asked::Stop;
        self.0.send_modify(|state| match (state.phase, state.hurried) {
            (Phase::Serving, _) => state.phase = Phase::Unready,
            (_, false) => (state.hurried, asked) = (true, Asked::Hurry),
            (_, true) => (state.phase, asked) = (Phase::Ended, Asked::Cut),
        });
        asked
    }

    /// Asks for a stop where none was asked for.
    pub(crate) fn begin(&self) {
        self.advance(Phase::Unready);
    }

    /// The stage.
    pub(crate) fn phase(&self) -> Phase {
        self.0.borrow().phase
    }

    /// Waits for a stage, or a later one.
    pub(crate) async fn reached(&self, phase: Phase) {
        self.state(|state| state.phase >= phase).await;
    }

    /// Waits for a stage later than this one.
    pub(super) async fn after(&self, phase: Phase) -> Phase {
        self.state(|state| state.phase > phase).await;
        self.phase()
    }

    /// Waits for a second signal.
    pub(super) async fn hurried(&self) {
        self.state(|state| state.hurried || state.phase == Phase::Ended).await;
    }

    async fn state(&self, is: impl Fn(&State) -> bool) {
        let mut heard = self.0.subscribe();
        heard.wait_for(|state| is(state)).await.expect("the sender is in self");
    }

    /// Goes on to a stage. There is no way back.
    pub(super) fn advance(&self, phase: Phase) {
        self.0.send_if_modified(|state| {
            let later = phase > state.phase;
            state.phase = state.phase.max(phase);
            later
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, Phase, Stop};

    #[tokio::test]
    async fn asking_three_times_ends_it() {
        let stop = Stop::default();
        assert_eq!(stop.phase(), Phase::Serving);
        assert_eq!(stop.ask(), Asked::Stop);
        assert_eq!(stop.phase(), Phase::Unready);
        assert_eq!(stop.ask(), Asked::Hurry);
        stop.hurried().await;
        assert_eq!(stop.phase(), Phase::Unready);
        assert_eq!(stop.ask(), Asked::Cut);
        stop.reached(Phase::Draining).await;
        assert_eq!(stop.phase(), Phase::Ended);
    }

    #[test]
    fn beginning_twice_hurries_nobody() {
        let stop = Stop::default();
        stop.begin();
        stop.begin();
        assert_eq!(stop.phase(), Phase::Unready);
        assert!(!stop.0.borrow().hurried);
    }

    #[test]
    fn there_is_no_way_back() {
        let stop = Stop::default();
        stop.advance(Phase::Ending);
        stop.advance(Phase::Draining);
        assert_eq!(stop.phase(), Phase::Ending);
    }
}
