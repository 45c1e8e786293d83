//! Keeps an engine's time: wall time, some times faster, that can stand still.

use std::time::{Duration, Instant};

use forebay_core::{Moment, Span};

/// Virtual time.
#[derive(Debug)]
pub(super) struct Clock {
    /// Virtual nanoseconds a nanosecond.
    speed: f64,
    /// The virtual moment at `since`.
    base: Moment,
    since: Instant,
    stalled: bool,
}

impl Clock {
    /// A clock that starts now.
    pub(super) fn new(speed: f64) -> Self {
        Self { speed, base: Moment::START, since: Instant::now(), stalled: false }
    }

    /// The virtual moment.
    pub(super) fn now(&self) -> Moment {
        if self.stalled {
            return self.base;
        }
        self.base + Span(self.since.elapsed().as_nanos() as u64).scaled(self.speed)
    }

    /// Wall time until a moment; `None` when it never comes since time stands still.
    pub(super) fn until(&self, moment: Moment) -> Option<Duration> {
        let left = moment.since(self.now());
        (!self.stalled).then(|| Duration::from_secs_f64(left.as_secs_f64() / self.speed))
    }

    /// Wall seconds of a span.
    pub(super) fn wall_secs(&self, span: Span) -> f64 {
        span.as_secs_f64() / self.speed
    }

    /// Lets time stand still or go on.
    pub(super) fn set_stalled(&mut self, stalled: bool) {
        self.set(self.now());
        self.stalled = stalled;
    }

    /// Makes this moment the present one.
    pub(super) fn set(&mut self, now: Moment) {
        (self.base, self.since) = (now, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_core::{Moment, Span};

    use super::Clock;

    #[test]
    fn a_stalled_clock_stands_still_and_goes_on_from_there() {
        let mut clock = Clock::new(1e6);
        clock.set_stalled(true);
        let then = clock.now();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(clock.now(), then);
        assert_eq!(clock.until(then + Span::secs(1)), None);
        clock.set_stalled(false);
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.now() >= then + Span::secs(2_000));
    }

    #[test]
    fn a_fast_clock_waits_that_much_shorter() {
        let mut clock = Clock::new(10.0);
        clock.set(Moment::START);
        let wait = clock.until(Moment::START + Span::secs(100)).expect("it runs");
        assert!(wait <= Duration::from_secs(10) && wait > Duration::from_secs(9));
        assert!((clock.wall_secs(Span::secs(100)) - 10.0).abs() < 1e-9);
    }
}
