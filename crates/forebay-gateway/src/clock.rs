//! Tells the core's time: nanoseconds since the gateway started.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_core::Moment;

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
    /// A moment by the wall clock, in nanoseconds since 1970.
    pub(crate) fn unix_nanos(&self, moment: Moment) -> u64 {
        self.started_nanos().saturating_add(moment.0)
    }
    /// The moment of such a time, to the nanosecond; what lies before the start is the start.
    pub(crate) fn moment(&self, unix_nanos: u64) -> Moment {
        Moment(unix_nanos.saturating_sub(self.started_nanos()))
    }
    fn started_nanos(&self) -> u64 {
        self.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::Moment;

    use super::Clock;

    #[test]
    fn wall_time_and_moments_are_each_others_inverse_to_the_nanosecond() {
        let clock = Clock::start();
        let later = Moment(5_432_000_001);
        assert_eq!(clock.moment(clock.unix_nanos(later)), later);
        assert_eq!(clock.moment(0), Moment::START);
    }
}
