//! Tells the core's time: nanoseconds since the gateway started.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_core::{Moment, Span};

/// One epoch for everything in the process, so that moments of different pools compare.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Instant,
    /// The same moment by the wall clock, for whatever outlives the process.
    started: SystemTime,
}

impl Clock {
    /// Starts now.
    pub(crate) fn start() -> Self {
        Self { epoch: Instant::now(), started: SystemTime::now() }
    }
    /// The moment that is now.
    pub(crate) fn now(&self) -> Moment {
        Moment(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
    /// The instant of a moment; one too far away to be represented is taken as a year from the
    /// start, by which time whoever waits for it looks again.
    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        let year = Duration::from_hours(365 * 24);
        self.epoch + Duration::from_nanos(moment.0).min(year)
    }
    /// A moment by the wall clock, in milliseconds since 1970.
    pub(crate) fn unix_millis(&self, moment: Moment) -> u64 {
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        started.as_millis() as u64 + moment.0 / 1_000_000
    }
    /// The moment of a wall-clock time; what lies before the start is the start.
    pub(crate) fn moment(&self, unix_millis: u64) -> Moment {
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment(Span::millis(unix_millis.saturating_sub(started.as_millis() as u64)).0)
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::Moment;

    use super::Clock;

    #[test]
    fn wall_time_and_moments_are_each_others_inverse_to_the_millisecond() {
        let clock = Clock::start();
        let later = Moment(5_432_000_000);
        assert_eq!(clock.moment(clock.unix_millis(later)).0.abs_diff(later.0) / 1_000_000, 0);
        assert_eq!(clock.moment(0), Moment::START);
    }
}
